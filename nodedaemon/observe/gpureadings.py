"""What the GPUs of a node do now, from the samples of the GPU agent's polls: for the metrics page and for heartbeats.

Nothing is asked for: who wants readings gets the last ones. A sample that is older than AGE_US_MAX says nothing of now: it is of
a GPU that hangs, or the driver does. The page shows it nevertheless, with its age. Only whole GPUs have readings, since of an
instance the driver tells little more than its memory.
"""

from collections.abc import Callable, Iterable
from typing import Final

from nodedaemon.core.gpumessages import Device, Polled, Sample
from nodedaemon.observe.gpus import mean_power_w
from penstock.v1 import node_pb2

#: Between two polls there is no more time than this, unless a site has them rarely (PenstockGpuPollSeconds).
AGE_US_MAX: Final = 120_000_000
_KB_PER_MB: Final = 1024


class LastSamples:
    """The last sample of each GPU, by UUID; only from the loop's thread. `now_us`: the node's time."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self.samples: dict[str, Sample] = {}
        self.power_w: dict[str, float] = {}  # on average since the sample before
        self._taken_us: dict[str, int] = {}

    def take(self, polled: Polled) -> None:
        """Adds a poll, which may be of some GPUs only."""
        now_us = self._now_us()
        for sample in polled.samples:
            before = self.samples.get(sample.uuid)
            self.power_w.pop(sample.uuid, None)
            if before is not None and (power_w := mean_power_w(before, sample)) is not None:
                self.power_w[sample.uuid] = power_w
            self.samples[sample.uuid] = sample
            self._taken_us[sample.uuid] = now_us

    def readings(self, devices: Iterable[Device]) -> node_pb2.GpuReadings | None:
        """Returns the readings of these devices; None: of none of them anything is known now."""
        oldest_us = self._now_us() - AGE_US_MAX
        whole = [device for device in devices if not device.parent and self._taken_us.get(device.uuid, 0) > oldest_us]
        found = [(device.uuid, self._reading(device)) for device in whole if not self.samples[device.uuid].error]
        if not found:
            return None
        at_us = max(self._taken_us[uuid] for uuid, _ in found)
        return node_pb2.GpuReadings(at_us=at_us, gpus=[reading for _, reading in found])

    def _reading(self, device: Device) -> node_pb2.GpuReading:
        sample, power_w = self.samples[device.uuid], self.power_w.get(device.uuid)
        return node_pb2.GpuReading(
            index=device.index,
            utilization_percent=sample.util_percent,
            memory_used_mb=None if sample.memory_used_kb is None else sample.memory_used_kb // _KB_PER_MB,
            power_w=None if power_w is None else round(power_w),
            temperature_c=sample.temperature_c,
            ecc_corrected=sample.ecc_corrected,
            ecc_uncorrected=sample.ecc_volatile,
        )
