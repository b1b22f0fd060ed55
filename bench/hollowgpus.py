"""GPUs of hollow nodes: devices with UUIDs, and readings that change as the samples of a real node do.

The values of a node depend on its name and on how often it has sampled, not on its jobs.
"""

import random
import uuid
from typing import Final

from penstock.v1 import node_pb2
from penstock.values.config import NodeConfig

#: The time between two samples of a node, as PenstockGpuPollSeconds is without a line of slurm.conf.
SAMPLE_US: Final = 10_000_000
MEMORY_MB: Final = 143_771
#: A card takes so much without work, and so much more with all of it.
IDLE_W, WORK_W = 75, 600
IDLE_C, WORK_C = 30, 45


def uuid_of(node: str, index: int) -> str:
    """The UUID of a node's GPU: always the same one."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}')}"


class HollowGpus:
    """The GPUs of one node: how busy each is goes up and down."""

    def __init__(self, config: NodeConfig) -> None:
        self._name = config.name
        self._chance = random.Random(config.name)
        self.types = [gres.type for gres in config.gres if gres.name == "gpu" for _ in range(gres.count)]
        self._percents = [self._chance.randrange(101) for _ in self.types]
        self._sample = node_pb2.GpuReadings()

    def devices(self) -> list[node_pb2.GpuDevice]:
        """As a registration names them. Nothing is said of them that is not in the configuration, such as their memory: features
        that are new would have the controller lay out its queue again for each node."""
        return [
            node_pb2.GpuDevice(index=index, minor=index, type=type_, uuid=uuid_of(self._name, index))
            for index, type_ in enumerate(self.types)
        ]

    def readings(self, now_us: int) -> node_pb2.GpuReadings | None:
        """What they do at this time of the node's, sampled each SAMPLE_US; None without GPUs."""
        if not self.types:
            return None
        if now_us - self._sample.at_us >= SAMPLE_US:
            self._percents = [min(100, max(0, one + self._chance.randrange(-12, 13))) for one in self._percents]
            found = [self._reading(index, percent) for index, percent in enumerate(self._percents)]
            self._sample = node_pb2.GpuReadings(at_us=now_us, gpus=found)
        return self._sample

    def _reading(self, index: int, percent: int) -> node_pb2.GpuReading:
        return node_pb2.GpuReading(
            index=index,
            utilization_percent=percent,
            memory_used_mb=MEMORY_MB * percent // 100,
            power_w=IDLE_W + WORK_W * percent // 100 + self._chance.randrange(20),
            temperature_c=IDLE_C + WORK_C * percent // 100,
            ecc_corrected=0,
            ecc_uncorrected=0,
        )
