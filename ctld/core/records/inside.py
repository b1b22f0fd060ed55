"""The internal topology of a node as the core knows it: devices, cpus of sockets, and which are near each other."""

from typing import NamedTuple


class Layout(NamedTuple):
    """The internal topology of a node, from its configuration. Masks are by cpu number and by device index."""

    masks: dict[tuple[str, str], int]  # devices by (name, type); indices run through the types of one name
    sockets: tuple[int, ...]  # cpus of each socket
    usable: int  # cpus that jobs may have: all but the specialized ones
    near: dict[str, tuple[int, ...]]  # by name and device index: bit map of its nearest sockets; 0 = any
    links: dict[str, tuple[tuple[int, ...], ...]]  # by name: links from device to device
    shares: dict[tuple[str, str], tuple[int, ...]]  # shares of each GPU by (name, type); state/shares.py
    kinds: dict[tuple[str, str], int]  # the planner's counts of devices: by kind
    names: tuple[str, ...]  # of devices
    gpu_types: tuple[str, ...]
    memory_mb: tuple[int, ...]  # of each GPU; 0 = unknown
    chosen: dict[tuple[str, int, int, int], int]  # cache of `_best_set`
