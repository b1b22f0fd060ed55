"""Link quality between GPUs, in numbers: the higher the faster. Queried in a child.

NVLinks count 100 each; through NVSwitches every pair has the links of the poorer end. Else it is by PCI: 8 on the same
board down to 1 across the machine. 0 = unknown, as for a GPU that does not answer.
"""

from nodedaemon.core.gpumessages import normal_bus_id
from nodedaemon.gpu.entry import DeviceEntry
from nodedaemon.gpu.nvml import AnnouncementLine, GpuError, Nvml, TooSlow

NVLINKS_MAX = 18
SWITCHES = ""
_NVLINK = 100
_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
#: NVML's common ancestor -> nearness: same board, one switch, several, a host bridge, a socket, the machine.
_NEARNESS = {0: 8, 10: 7, 20: 5, 30: 4, 40: 2, 50: 1}


def between(nvml: Nvml, entries: list[DeviceEntry]) -> tuple[list[list[int]], list[bool]]:
    """The table for these entries, which have devices; and the GPUs connected to NVSwitches."""
    ends = [_nvlinks(nvml, entry) for entry in entries]
    buses = [normal_bus_id(entry.gpu.bus_id) for entry in entries]
    near = [[0] * len(entries) for _ in entries]
    for a, first in enumerate(entries):
        near[a][a] = _NEARNESS[0]
        for b in range(a + 1, len(entries)):
            count = ends[a].get(buses[b], 0) or min(ends[a].get(SWITCHES, 0), ends[b].get(SWITCHES, 0))
            near[a][b] = near[b][a] = count * _NVLINK or _by_pci(nvml, first, entries[b])
    return near, [SWITCHES in end for end in ends]


def _nvlinks(nvml: Nvml, entry: DeviceEntry) -> dict[str, int]:
    """Active links by the bus id of their other end, SWITCHES for all NVSwitches."""
    found: dict[str, int] = {}
    if not entry.answers:
        return found
    line = AnnouncementLine(nvml, entry.name, entry.handle, entry.never)
    try:
        for link in range(NVLINKS_MAX):
            state = line.ask("nvmlDeviceGetNvLinkState", link)
            if state is None:
                break
            is_switch = line.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link) == _SWITCH
            entry.links[link] = bool(state) or is_switch or entry.links.get(link, False)
            remote = None if is_switch or not state else line.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)
            end = SWITCHES if is_switch else normal_bus_id(text(remote.busId)) if remote else None
            if end is not None and state:
                found[end] = found.get(end, 0) + 1
    except (GpuError, TooSlow):
        return found  # the next poll reports the error
    return found


def _by_pci(nvml: Nvml, first: DeviceEntry, second: DeviceEntry) -> int:
    if not (first.answers and second.answers):
        return 0
    try:
        level = nvml.raw(first.name, "nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle)
    except (GpuError, TooSlow):
        return 0
    return _NEARNESS.get(level, 0)


def text(value: bytes | str) -> str:
    """Decodes text that pynvml leaves as bytes in structures."""
    return value if isinstance(value, str) else value.decode("ascii", "replace")
