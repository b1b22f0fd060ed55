"""What GPUs there are: every GPU and MIG instance as a Device, asked in a child.

    - NVML counts places; a GPU is asked for by its place and known by its UUID. `index` is its place in the order of bus
      ids, which is what CUDA_DEVICE_ORDER=PCI_BUS_ID means; it is neither NVML's place nor the minor of /dev/nvidiaN.
    - One that does not answer keeps what was known of it (`Place.device`), by place as long as the count is the same;
      one that never answered is nameless.
    - What a MIG instance needs beside its GPU's file are the two capabilities of its instances, whose minors the driver
      lists in /proc/driver/nvidia-caps/mig-minors by the GPU's minor.

Deliberately absent: how it is (signals).
"""

import os
from typing import Any

import msgspec

from nodedaemon.core.gpuwords import Device, Found, normal_bus_id
from nodedaemon.gpu import links
from nodedaemon.gpu.nvml import TIMEOUT, GpuError, Line, Nvml, TooSlow

MB = 1024 * 1024
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"
SYSFS_PCI = "/sys/bus/pci/devices"
MEMORY_V2 = 0x02000028  # nvmlMemory_v2
_MAKERS = ("nvidia", "tesla", "quadro", "geforce")


class Place:
    """What NVML counts at one index: a GPU, once it has said who it is."""

    __slots__ = (
        "device", "error", "handle", "is_skipped", "kept", "links", "migs", "never", "number", "pcie_max", "remapped",
        "slow", "slowdown_c",
    )  # fmt: skip

    def __init__(self, number: int, device: Device | None, is_skipped: bool) -> None:
        self.number = number
        self.device = device
        self.kept: tuple[Device, ...] = ()  # its MIG instances, from before, while it does not answer
        self.handle: Any = None
        self.error = 0
        self.is_skipped = is_skipped  # it has hung: others are asked without it
        self.never: set[str] = set()  # what it cannot say
        self.migs: list[tuple[Any, Device, set[str]]] = []
        self.links: dict[int, bool] = {}  # NVLinks -> whether one was ever up
        self.remapped: tuple[int, bool, bool] | None = None  # as of when it could say: uncorrectable, pending, failure
        self.slow = ""  # the call that took too long in this poll
        self.slowdown_c: int | None = None
        self.pcie_max: tuple[int, int] | None = None  # generation, width

    @property
    def name(self) -> str:
        """For announcements."""
        return self.device.uuid if self.device else f"#{self.number}"

    @property
    def gpu(self) -> Device:
        """The device of a place that has one."""
        assert self.device is not None
        return self.device

    @property
    def answers(self) -> bool:
        """Whether it may be asked."""
        return self.handle is not None and not self.error and not self.is_skipped


def type_of(name: str) -> str:
    """A short type for gres from the device's name: "NVIDIA A100-SXM4-80GB" -> "a100"."""
    words = [word for word in name.lower().replace("-", " ").split() if word not in _MAKERS]
    if len(words) > 1 and words[0] in ("rtx", "gtx"):
        return words[0] + words[1]
    return words[0] if words else "gpu"


class Finder:
    """Asks for all places; keeps them for the polls."""

    def __init__(
        self,
        nvml: Nvml,
        known: tuple[Device, ...],
        skip: tuple[int, ...],
        only: int = -1,
        mig_minors: str = "",
        sysfs: str = "",
    ) -> None:
        self._nvml = nvml
        self._known = known
        self._skip = skip
        self._only = only
        self._mig_minors = mig_minors or MIG_MINORS
        self._sysfs = sysfs or SYSFS_PCI
        self.places: list[Place] = []

    def find(self) -> Found:
        """Everything anew. Raises DriverError."""
        count = self._nvml.system("nvmlDeviceGetCount")
        places = [Place(number, self._at(number, count), self._skips(number)) for number in range(count)]
        for place in places:
            if not place.is_skipped:
                self._identify(place)
        self._settle(places)
        self._remember(places)
        self.places = places
        devices = self._known = self._listed()
        return Found(
            devices=devices,
            driver=self._nvml.version("nvmlSystemGetDriverVersion"),
            cuda=_cuda(self._nvml.version("nvmlSystemGetCudaDriverVersion")),
            nvml=self._nvml.version("nvmlSystemGetNVMLVersion"),
            why="" if count else "NVML knows no GPU",
            nameless=tuple(place.error for place in places if place.device is None),
        )

    def _skips(self, number: int) -> bool:
        return number in self._skip or self._only not in (-1, number)

    def _remember(self, places: list[Place]) -> None:
        """What the same GPUs have said before and may not be able to say now."""
        before = {place.gpu.uuid: place for place in self.places if place.device is not None}
        for place in places:
            old = before.get(place.name)
            if old is not None:
                place.remapped = old.remapped
                place.links = {link: was_up for link, was_up in old.links.items() if was_up}

    def _at(self, number: int, count: int) -> Device | None:
        """Who was at that place, if places are the same as they were."""
        whole = [device for device in self._known if not device.parent]
        if len(whole) != count:
            return None
        return next((device for device in whole if device.place == number), None)

    def _identify(self, place: Place) -> None:
        try:
            place.handle = self._nvml.raw(place.name, "nvmlDeviceGetHandleByIndex", place.number)
            line = Line(self._nvml, place.name, place.handle, place.never)
            place.device = self._device(place, line)
            if place.device.mig_enabled:
                place.migs = self._instances(place, place.device)
        except GpuError as error:
            place.error = error.code
        except TooSlow:
            place.error = TIMEOUT  # until the next look

    def _settle(self, places: list[Place]) -> None:
        """Places that do not answer: nobody's when the one that was there has answered from another."""
        said = {place.gpu.uuid for place in places if place.answers}
        for place in places:
            if place.device is not None and not place.answers:
                if place.device.uuid in said:
                    place.device = None
                else:
                    uuid = place.device.uuid
                    place.kept = tuple(device for device in self._known if device.parent == uuid)

    def _device(self, place: Place, line: Line) -> Device:
        uuid = line.must("nvmlDeviceGetUUID")
        bus_id = links.text(line.must("nvmlDeviceGetPciInfo").busId)
        name = line.ask("nvmlDeviceGetName") or ""
        minor = line.must("nvmlDeviceGetMinorNumber")
        capability = line.ask("nvmlDeviceGetCudaComputeCapability")
        memory = memory_of(line)
        mode = line.ask("nvmlDeviceGetMigMode")
        return Device(
            uuid=uuid,
            index=place.number,
            minor=minor,
            type=type_of(name),
            memory_mb=memory.total // MB if memory else 0,
            name=name,
            bus_id=bus_id,
            capability="{}.{}".format(*capability) if capability else "",
            near_cpus=_near_cpus(line),
            numa_node=self._numa_node(line, bus_id),
            serial=line.ask("nvmlDeviceGetSerial") or "",
            vbios=line.ask("nvmlDeviceGetVbiosVersion") or "",
            mig_enabled=bool(mode and mode[0]),
            files=(f"/dev/nvidia{minor}",),
            place=place.number,
        )

    def _numa_node(self, line: Line, bus_id: str) -> int:
        """sysfs first: what NVML says of it is the node of the GPU's own memory where that is one."""
        try:
            with open(f"{self._sysfs}/{normal_bus_id(bus_id)}/numa_node", encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            node = line.ask("nvmlDeviceGetNumaNodeId")
            return -1 if node is None else int(node)

    # -- MIG

    def _instances(self, place: Place, gpu: Device) -> list[tuple[Any, Device, set[str]]]:
        line = Line(self._nvml, gpu.uuid, place.handle, place.never)
        minors = _read_minors(self._mig_minors)
        found = []
        for number in range(line.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            handle = line.probe("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:  # holes are normal
                never: set[str] = set()
                device = _instance(Line(self._nvml, gpu.uuid, handle, never), gpu, minors)
                found.append((handle, device, never))
        return found

    def divided(self, place: Place) -> tuple[bool, list[str]]:
        """Whether MIG is on, and which instances there are. Raises GpuError and TooSlow."""
        line = Line(self._nvml, place.name, place.handle, place.never)
        mode = line.ask("nvmlDeviceGetMigMode")
        is_on = bool(mode and mode[0])
        found = []
        for number in range(line.ask("nvmlDeviceGetMaxMigDeviceCount") or 0 if is_on else 0):
            handle = line.probe("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:
                found.append(Line(self._nvml, place.name, handle, set()).must("nvmlDeviceGetUUID"))
        return is_on, found

    # -- the list

    def _listed(self) -> tuple[Device, ...]:
        """All devices in PCI order, with their indexes and links."""
        named = [place for place in self.places if place.device is not None]
        named.sort(key=lambda place: (normal_bus_id(place.gpu.bus_id), place.gpu.uuid))
        near, switched = links.between(self._nvml, named)
        devices: list[Device] = []
        owners: list[int] = []  # of each device, its GPU
        for index, place in enumerate(named):
            mine = [place.gpu, *(device for _, device, _ in place.migs), *place.kept]
            devices += [msgspec.structs.replace(device, index=index, has_nvswitch=switched[index]) for device in mine]
            owners += [index] * len(mine)
        count = range(len(devices))
        made = [
            msgspec.structs.replace(
                device, links=tuple(-1 if at == other else near[owners[at]][owners[other]] for other in count)
            )
            for at, device in enumerate(devices)
        ]
        by_uuid = {device.uuid: device for device in made}
        for place in named:
            place.device = by_uuid[place.gpu.uuid]
            place.migs = [(handle, by_uuid[device.uuid], never) for handle, device, never in place.migs]
        return tuple(made)


def memory_of(line: Line) -> Any:
    """In version 2 what the driver keeps for itself is not `used`."""
    return line.ask("nvmlDeviceGetMemoryInfo", MEMORY_V2) or line.ask("nvmlDeviceGetMemoryInfo")


def _near_cpus(line: Line) -> tuple[int, ...]:
    words = line.ask("nvmlDeviceGetCpuAffinity", (os.sysconf("SC_NPROCESSORS_CONF") + 63) // 64)
    mask = sum(word << 64 * place for place, word in enumerate(words or ()))
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def _instance(line: Line, gpu: Device, minors: dict[str, int]) -> Device:
    """One MIG instance, by the handle of the line."""
    gi, ci = line.must("nvmlDeviceGetGpuInstanceId"), line.must("nvmlDeviceGetComputeInstanceId")
    attributes = line.must("nvmlDeviceGetAttributes")
    _, _, profile = (line.ask("nvmlDeviceGetName") or "").partition(" MIG ")
    slices = attributes.computeInstanceSliceCount
    profile = profile or f"{slices}g.{round(attributes.memorySizeMB / 1024)}gb"
    root = f"gpu{gpu.minor}/gi{gi}"
    caps = [minors[key] for key in (f"{root}/access", f"{root}/ci{ci}/access") if key in minors]
    return msgspec.structs.replace(
        gpu,
        uuid=line.must("nvmlDeviceGetUUID"),
        type=profile,
        memory_mb=attributes.memorySizeMB,
        parent=gpu.uuid,
        profile=profile,
        slices=slices,
        gpu_instance=gi,
        compute_instance=ci,
        mig_enabled=False,
        files=(*gpu.files, *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in caps)),
    )


def _read_minors(path: str) -> dict[str, int]:
    """`gpu0/gi7/access 66` as a dict; empty where there is no such file."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            pairs = [line.split() for line in file]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _cuda(version: Any) -> str:
    """13000 -> 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""
