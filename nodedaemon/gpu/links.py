"""How near GPUs are to each other, in numbers: the more the faster. Asked in a child.

NVLinks count 100 each; through NVSwitches every pair has the links of the poorer end. Else it is by PCI: 8 on the same
board down to 1 across the machine. 0 = nobody can say. What does not answer is near to nobody.
"""

from typing import TYPE_CHECKING

from nodedaemon.core.gpuwords import normal_bus_id
from nodedaemon.gpu.nvml import GpuError, Line, Nvml, TooSlow

if TYPE_CHECKING:
    from nodedaemon.gpu.finding import Place

NVLINKS_MAX = 18
SWITCHES = ""
_NVLINK = 100
_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
#: NVML's common ancestor -> how near: same board, one switch, several, a host bridge, a socket, the machine.
_NEARNESS = {0: 8, 10: 7, 20: 5, 30: 4, 40: 2, 50: 1}


def between(nvml: Nvml, places: "list[Place]") -> tuple[list[list[int]], list[bool]]:
    """The table for these, which have devices; and who hangs on NVSwitches."""
    ends = [_nvlinks(nvml, place) for place in places]
    buses = [normal_bus_id(place.gpu.bus_id) for place in places]
    near = [[0] * len(places) for _ in places]
    for a, first in enumerate(places):
        near[a][a] = _NEARNESS[0]
        for b in range(a + 1, len(places)):
            count = ends[a].get(buses[b], 0) or min(ends[a].get(SWITCHES, 0), ends[b].get(SWITCHES, 0))
            near[a][b] = near[b][a] = count * _NVLINK or _by_pci(nvml, first, places[b])
    return near, [SWITCHES in end for end in ends]


def _nvlinks(nvml: Nvml, place: "Place") -> dict[str, int]:
    """Active links by the bus id of their other end, SWITCHES for all NVSwitches."""
    found: dict[str, int] = {}
    if not place.answers:
        return found
    line = Line(nvml, place.name, place.handle, place.never)
    try:
        for link in range(NVLINKS_MAX):
            state = line.ask("nvmlDeviceGetNvLinkState", link)
            if state is None:
                break
            is_switch = line.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link) == _SWITCH
            place.links[link] = bool(state) or is_switch or place.links.get(link, False)
            remote = None if is_switch or not state else line.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)
            end = SWITCHES if is_switch else normal_bus_id(text(remote.busId)) if remote else None
            if end is not None and state:
                found[end] = found.get(end, 0) + 1
    except (GpuError, TooSlow):
        return found  # the next poll says what is wrong with it
    return found


def _by_pci(nvml: Nvml, first: "Place", second: "Place") -> int:
    if not (first.answers and second.answers):
        return 0
    try:
        level = nvml.raw(first.name, "nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle)
    except (GpuError, TooSlow):
        return 0
    return _NEARNESS.get(level, 0)


def text(value: bytes | str) -> str:
    """What pynvml leaves as bytes in structures."""
    return value if isinstance(value, str) else value.decode("ascii", "replace")
