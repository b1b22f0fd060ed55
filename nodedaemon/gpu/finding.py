"""Enumerates GPUs: every GPU and MIG instance as a Device, queried in a child.

    - NVML addresses a GPU by its entry; it is identified by its UUID. `index` is its entry in the order of bus
      ids, which is what CUDA_DEVICE_ORDER=PCI_BUS_ID means; it is neither NVML's entry nor the minor of /dev/nvidiaN.
    - A GPU that does not answer keeps its last known data (`DeviceEntry.device`), by entry as long as the count is the
      same; one that never answered is nameless.
    - A MIG instance needs, beside its GPU's file, the two capabilities of its instances, whose minors the driver lists
      in /proc/driver/nvidia-caps/mig-minors by the GPU's minor.

Deliberately absent: the state of the devices (signals).
"""

import os

import msgspec

from nodedaemon.core.gpumessages import Device, Found, normal_bus_id
from nodedaemon.gpu import links
from nodedaemon.gpu.entry import DeviceEntry
from nodedaemon.gpu.nvml import TIMEOUT, AnnouncementLine, GpuError, Nvml, NvmlAnswer, TooSlow

MB = 1024 * 1024
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"
SYSFS_PCI = "/sys/bus/pci/devices"
MEMORY_V2 = 0x02000028  # nvmlMemory_v2
_MAKERS = ("nvidia", "tesla", "quadro", "geforce")


def type_of(name: str) -> str:
    """A short type for gres from the device's name: "NVIDIA A100-SXM4-80GB" -> "a100"."""
    words = [word for word in name.lower().replace("-", " ").split() if word not in _MAKERS]
    if len(words) > 1 and words[0] in ("rtx", "gtx"):
        return words[0] + words[1]
    return words[0] if words else "gpu"


class Finder:
    """Queries all entries; stores them for the polls."""

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
        self.entries: list[DeviceEntry] = []

    def find(self) -> Found:
        """Queries everything again. Raises DriverError."""
        count = self._nvml.system("nvmlDeviceGetCount")
        entries = [DeviceEntry(number, self._at(number, count), self._skips(number)) for number in range(count)]
        for entry in entries:
            if not entry.is_skipped:
                self._identify(entry)
        self._settle(entries)
        self._remember(entries)
        self.entries = entries
        devices = self._known = self._listed()
        return Found(
            devices=devices,
            driver=self._nvml.version("nvmlSystemGetDriverVersion"),
            cuda=_cuda(self._nvml.version("nvmlSystemGetCudaDriverVersion")),
            nvml=self._nvml.version("nvmlSystemGetNVMLVersion"),
            why="" if count else "NVML knows no GPU",
            nameless=tuple(entry.error for entry in entries if entry.device is None),
        )

    def _skips(self, number: int) -> bool:
        return number in self._skip or self._only not in (-1, number)

    def _remember(self, entries: list[DeviceEntry]) -> None:
        """Restores data that the same GPUs gave before and may be unable to give now."""
        before = {entry.gpu.uuid: entry for entry in self.entries if entry.device is not None}
        for entry in entries:
            old = before.get(entry.name)
            if old is not None:
                entry.remapped = old.remapped
                entry.links = {link: was_up for link, was_up in old.links.items() if was_up}

    def _at(self, number: int, count: int) -> Device | None:
        """Returns the device at that entry, if entries are the same as they were."""
        whole = [device for device in self._known if not device.parent]
        if len(whole) != count:
            return None
        return next((device for device in whole if device.nvml_index == number), None)

    def _identify(self, entry: DeviceEntry) -> None:
        try:
            entry.handle = self._nvml.raw(entry.name, "nvmlDeviceGetHandleByIndex", entry.number)
            line = AnnouncementLine(self._nvml, entry.name, entry.handle, entry.never)
            entry.device = self._device(entry, line)
            if entry.device.mig_enabled:
                entry.migs = self._instances(entry, entry.device)
        except GpuError as error:
            entry.error = error.code
        except TooSlow:
            entry.error = TIMEOUT  # until the next poll

    def _settle(self, entries: list[DeviceEntry]) -> None:
        """Settles entries that do not answer: empty when the GPU that was there has answered from another entry."""
        said = {entry.gpu.uuid for entry in entries if entry.answers}
        for entry in entries:
            if entry.device is not None and not entry.answers:
                if entry.device.uuid in said:
                    entry.device = None
                else:
                    uuid = entry.device.uuid
                    entry.kept = tuple(device for device in self._known if device.parent == uuid)

    def _device(self, entry: DeviceEntry, line: AnnouncementLine) -> Device:
        uuid = line.must("nvmlDeviceGetUUID")
        bus_id = links.text(line.must("nvmlDeviceGetPciInfo").busId)
        name = line.ask("nvmlDeviceGetName") or ""
        minor = line.must("nvmlDeviceGetMinorNumber")
        capability = line.ask("nvmlDeviceGetCudaComputeCapability")
        memory = memory_of(line)
        mode = line.ask("nvmlDeviceGetMigMode")
        return Device(
            uuid=uuid,
            index=entry.number,
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
            nvml_index=entry.number,
        )

    def _numa_node(self, line: AnnouncementLine, bus_id: str) -> int:
        """Reads sysfs first: NVML may report the node of the GPU's own memory, where that is a NUMA node."""
        try:
            with open(f"{self._sysfs}/{normal_bus_id(bus_id)}/numa_node", encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            node = line.ask("nvmlDeviceGetNumaNodeId")
            return -1 if node is None else int(node)

    # -- MIG

    def _instances(self, entry: DeviceEntry, gpu: Device) -> list[tuple[object, Device, set[str]]]:
        line = AnnouncementLine(self._nvml, gpu.uuid, entry.handle, entry.never)
        minors = _read_minors(self._mig_minors)
        found = []
        for number in range(line.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            handle = line.probe("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:  # holes are normal
                never: set[str] = set()
                device = _instance(AnnouncementLine(self._nvml, gpu.uuid, handle, never), gpu, minors)
                found.append((handle, device, never))
        return found

    def divided(self, entry: DeviceEntry) -> tuple[bool, list[str]]:
        """Whether MIG is on, and the present instances. Raises GpuError and TooSlow."""
        line = AnnouncementLine(self._nvml, entry.name, entry.handle, entry.never)
        mode = line.ask("nvmlDeviceGetMigMode")
        is_on = bool(mode and mode[0])
        found = []
        for number in range(line.ask("nvmlDeviceGetMaxMigDeviceCount") or 0 if is_on else 0):
            handle = line.probe("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if handle is not None:
                found.append(AnnouncementLine(self._nvml, entry.name, handle, set()).must("nvmlDeviceGetUUID"))
        return is_on, found

    # -- the list

    def _listed(self) -> tuple[Device, ...]:
        """Returns all devices in PCI order, with their indexes and links."""
        named = [entry for entry in self.entries if entry.device is not None]
        named.sort(key=lambda entry: (normal_bus_id(entry.gpu.bus_id), entry.gpu.uuid))
        near, switched = links.between(self._nvml, named)
        devices: list[Device] = []
        owners: list[int] = []  # of each device, its GPU
        for index, entry in enumerate(named):
            mine = [entry.gpu, *(device for _, device, _ in entry.migs), *entry.kept]
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
        for entry in named:
            entry.device = by_uuid[entry.gpu.uuid]
            entry.migs = [(handle, by_uuid[device.uuid], never) for handle, device, never in entry.migs]
        return tuple(made)


def memory_of(line: AnnouncementLine) -> NvmlAnswer:
    """The memory of a device. In version 2 `used` excludes the driver's own."""
    return line.ask("nvmlDeviceGetMemoryInfo", MEMORY_V2) or line.ask("nvmlDeviceGetMemoryInfo")


def _near_cpus(line: AnnouncementLine) -> tuple[int, ...]:
    words = line.ask("nvmlDeviceGetCpuAffinity", (os.sysconf("SC_NPROCESSORS_CONF") + 63) // 64)
    mask = sum(word << 64 * entry for entry, word in enumerate(words or ()))
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def _instance(line: AnnouncementLine, gpu: Device, minors: dict[str, int]) -> Device:
    """Returns one MIG instance, by the handle of the line."""
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


def _cuda(version: int | str) -> str:
    """13000 -> 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}" if version and isinstance(version, int) else ""
