"""What a heartbeat says of a node's GPUs: from the samples of polls."""

# Any: fields of a sample by name
from typing import Any

from nodedaemon.core.gpumessages import Device, Polled, Sample
from nodedaemon.observe.gpureadings import AGE_US_MAX, LastSamples
from penstock.v1 import node_pb2

US = 1_000_000
FIRST, SECOND = (Device(f"GPU-{i}", i, i, "h200", 143_771, "NVIDIA H200", f"0000:{i}9:00.0") for i in (0, 1))
INSTANCE = Device("MIG-1", 0, 0, "1g.18gb", 18_432, "MIG", FIRST.bus_id, parent=FIRST.uuid)
FULL: dict[str, Any] = {
    "util_percent": 97, "memory_used_kb": 90 * 1024 * 1024, "temperature_c": 71, "ecc_corrected": 12, "ecc_volatile": 1,
}  # fmt: skip


class Samples:
    """LastSamples with a clock of its own."""

    def __init__(self) -> None:
        self.now_us = 1000 * US
        self.last = LastSamples(lambda: self.now_us)

    def poll(self, *samples: Sample) -> None:
        self.last.take(Polled(self.now_us, samples))

    def readings(self, *devices: Device) -> list[node_pb2.GpuReading] | None:
        found = self.last.readings(devices or (FIRST, SECOND))
        return None if found is None else list(found.gpus)


def test_a_reading_has_what_the_driver_tells() -> None:
    both = Samples()
    assert both.readings() is None
    both.poll(Sample("GPU-0", 1, energy_mj=1000, **FULL), Sample("GPU-1", 1))
    full = node_pb2.GpuReading(
        index=0, utilization_percent=97, memory_used_mb=90 * 1024, temperature_c=71, ecc_corrected=12, ecc_uncorrected=1
    )
    assert both.readings() == [full, node_pb2.GpuReading(index=1)]
    both.poll(Sample("GPU-0", 1 + 10 * US, energy_mj=1000 + 7_004_600, **FULL))
    full.power_w = 700  # on average between the two, rounded
    assert both.readings() == [full, node_pb2.GpuReading(index=1)]
    both.poll(Sample("GPU-0", 1 + 20 * US, energy_mj=1000 + 7_004_600))
    assert both.readings(FIRST) == [node_pb2.GpuReading(index=0, power_w=0)]  # zero is a figure


def test_what_does_not_answer_has_no_reading() -> None:
    both = Samples()
    both.poll(Sample("GPU-0", 1, util_percent=5), Sample("GPU-1", 1, util_percent=6))
    both.now_us += 60 * US
    both.poll(Sample("GPU-0", 60 * US, error=15), Sample("MIG-1", 60 * US, memory_used_kb=9))
    assert both.readings(FIRST, INSTANCE, SECOND) == [node_pb2.GpuReading(index=1, utilization_percent=6)]
    both.now_us += AGE_US_MAX - 60 * US - 1
    assert both.readings() is not None
    both.now_us += 1  # the second hangs, and is not polled any more
    assert both.readings() is None


def test_the_time_is_that_of_the_newest_sample_by_the_nodes_clock() -> None:
    both = Samples()
    both.poll(Sample("GPU-0", 5, util_percent=5))
    both.now_us += 7 * US
    both.poll(Sample("GPU-1", 6, util_percent=5))
    both.now_us += 7 * US
    found = both.last.readings((FIRST, SECOND))
    assert found is not None and found.at_us == 1007 * US


def test_eight_gpus_are_a_small_part_of_a_heartbeat() -> None:
    both = Samples()
    devices = [Device(f"GPU-{i}", i, i, "h200", 143_771, "NVIDIA H200", f"0000:{i}9:00.0") for i in range(8)]
    for second in (0, 10):
        at_us = 1_700_000_000 * US + second * US
        both.poll(*(Sample(device.uuid, at_us, energy_mj=second * 700_000, **FULL) for device in devices))
    found = both.last.readings(devices)
    assert found is not None and len(found.gpus) == 8 and all(one.power_w == 700 for one in found.gpus)
    assert found.ByteSize() < 200
