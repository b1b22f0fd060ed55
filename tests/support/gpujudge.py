"""A GPU monitor for tests: two GPUs, a clock, and helpers to set observations."""

from typing import Any

from nodedaemon.core import gpuhealth_messages as w
from nodedaemon.core.gpuhealth import HealthMachine
from nodedaemon.core.gpumessages import Device, Polled, Process, Sample, Xid
from nodedaemon.core.gpupolicy import MINUTE_US
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu.xids import table
from penstock.values.gpustates import GpuState

A, B = "GPU-aaaa", "GPU-bbbb"
S = 1_000_000
POLL_US = 10 * S


def device(uuid: str, index: int, **more: Any) -> Device:
    return Device(uuid, index, index, "h200", 141_000, "NVIDIA H200", f"00000000:{0x19 + index:02X}:00.0", **more)


def quiet(uuid: str, at_us: int, **more: Any) -> Sample:
    """A GPU without problems."""
    fields: dict[str, Any] = {
        "recovery_action": 0, "ecc_volatile": 0, "ecc_aggregate": 5, "ecc_sram": 0, "remap_uncorrectable": 0,
        "remap_pending": False, "remap_failure": False, "retired_pages": 0, "retired_pending": False,
        "nvlink_errors": 0, "nvlinks_down": 0, "throttle": 0, "temperature_c": 50, "slowdown_c": 90,
        "pcie": (5, 16, 5, 16), "util_percent": 0, "memory_used_kb": 0, "processes": (),
    }  # fmt: skip
    return Sample(uuid, at_us, **(fields | more))


class Judge:
    """The machine with a clock. `says` collects its messages since the last `take`."""

    def __init__(
        self, devices: tuple[Device, ...] | None = None, memory: w.Memory | None = None, before: "Judge | None" = None
    ) -> None:
        """before: this one is the same after a restart of the daemon."""
        self.now_us: int = before.now_us if before else 1_000_000 * S
        self.boot: str = before.boot if before else "boot-1"
        self.devices = devices or (device(A, 0), device(B, 1))
        self.machine = HealthMachine(memory, table())
        self.said: list[w.HealthOutput] = []
        self.state: dict[str, dict[str, Any]] = {}  # the poll results of each GPU, until changed
        self.owners: dict[int, w.GpuOwner] = {}
        self.listed()

    def tell(self, event: w.HealthEvent) -> None:
        self.machine.step(self.now_us, event)
        self.machine.check()
        self.said += self.machine.seal()

    def listed(self, *devices: Device, **more: Any) -> None:
        self.tell(w.Listed(devices or self.devices, self.boot, **more))

    def shows(self, uuid: str, **fields: Any) -> None:
        """Sets the poll results of the GPU; no fields = healthy."""
        self.state[uuid] = fields

    def poll(self, times: int = 1, after_us: int = POLL_US) -> None:
        for _ in range(times):
            self.now_us += after_us
            samples = tuple(quiet(d.uuid, self.now_us, **self.state.get(d.uuid, {})) for d in self.devices)
            self.tell(w.Seen(Polled(self.now_us, samples), tuple(self.owners.values())))

    def xid(self, number: int, uuid: str = A, pid: int = 0) -> None:
        self.tell(Xid(self.now_us, number, uuid, pid=pid))

    def runs(self, job: int, *uuids: str, uid: int = 1000) -> StepKey:
        key = StepKey(job, 1, -5)
        self.tell(w.StepGpus(key, uid, uuids))
        return key

    def reboot(self) -> None:
        """Simulates a reboot: all processes are gone."""
        for key in list(self.machine.holdings):
            self.tell(w.Released(key))
        self.boot = f"boot-{int(self.boot[5:]) + 1}"
        self.listed()

    def left(self, pid: int, uuid: str, owner: w.GpuOwner | None) -> None:
        """A process that polls show on the GPU."""
        if owner is not None:
            self.owners[pid] = owner
        self.shows(uuid, processes=(Process(pid, 5_000_000),), memory_used_kb=5_000_000)

    def take(self) -> list[w.HealthOutput]:
        said, self.said = self.said, []
        return said

    def of(self, type_: type[Any]) -> list[Any]:
        """The messages of that kind since the last `take`."""
        return [output for output in self.said if isinstance(output, type_)]

    def opinion(self, uuid: str = A) -> GpuState:
        return self.machine.opinion(uuid).state

    def wait(self, minutes: float) -> None:
        self.now_us += int(minutes * MINUTE_US)
