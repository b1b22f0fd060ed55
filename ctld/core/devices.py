"""Inside a node: which devices and which cpus a job gets.

The planner counts; here counts become indices. Devices of one job should talk fast to each other and be near the job's
cpus (gres.conf(5), Cores and Links):

1. Of the sets of free devices with the wanted number, the one that
   a. has the fewest GPUs under suspicion, b. lies on the fewest sockets, c. has the most links between its members,
   d. leaves sockets whole: comes from those with the fewest free devices, e. has the lowest indices.
   Where gres.conf says nothing of sockets and links, what the node has found counts (NVML: affinity, NVLink and PCIe).
2. Cpus come first on the sockets of the devices, then on the socket where
   the rest fits best (the fewest free that will do), else on those with most; lowest numbers first.

A cpu's number is Slurm's abstract one: socket by socket, core by core, thread by thread.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from ctld.core.gpu_model import Gpu
from ctld.core.mig_model import gres_of
from ctld.core.model import Node
from ctld.core.shares import GPU, gpu_types, units_of
from penstock.values.config import NodeConfig
from penstock.values.gres import SHARED_NAMES

#: Sets that are compared for one request; beyond it (more than 8 of 16 free devices or so) the lowest indices are taken.
SETS_MAX = 4_096
#: Answers of `_best_set` that a node keeps; beyond it they are found anew.
CHOICES_KEPT = 1_024
#: Steps from below before `_lowest` halves what is left.
LOOKS = 4
#: Cpus of a node that are told apart. No machine has more; a simulated one may stand for a whole cluster.
CPUS_NUMBERED_MAX = 16_384


class Layout(NamedTuple):
    """A node's inside, as its configuration says. Masks are by cpu number and by device index."""

    masks: dict[tuple[str, str], int]  # devices by (name, type); indices count through the types of one name
    sockets: tuple[int, ...]  # cpus of each socket
    near: dict[str, tuple[int, ...]]  # by name and device index: bit map of the sockets it is near; 0 = any
    links: dict[str, tuple[tuple[int, ...], ...]]  # by name: links from device to device
    shares: dict[tuple[str, str], tuple[int, ...]]  # shares of each GPU by (name, type); shares.py
    kinds: dict[tuple[str, str], int]  # what the planner counts of devices: by kind, which it counts
    names: tuple[str, ...]  # of devices
    gpu_types: tuple[str, ...]
    memory_mb: tuple[int, ...]  # of each GPU; 0 = not known
    chosen: dict[tuple[str, int, int, int], int]  # what `_best_set` has found before


def layout_of(config: NodeConfig, gpus: Sequence[Gpu | None] = ()) -> Layout:
    """The inside of a node of that configuration, with these GPUs at their places; kept in `Node.inside`."""
    per_socket = max(1, config.cpus // max(1, config.sockets))
    sockets = tuple(
        (((1 << per_socket) - 1) << (i * per_socket)) & ((1 << config.cpus) - 1) for i in range(max(1, config.sockets))
    )
    masks: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    for gres in gres_of(config):
        if gres.name in SHARED_NAMES:
            continue
        low = counts.get(gres.name, 0)
        counts[gres.name] = low + gres.count
        key = (gres.name, gres.type)
        masks[key] = masks.get(key, 0) | (((1 << gres.count) - 1) << low)
    near: dict[str, tuple[int, ...]] = {}
    links: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name in dict.fromkeys(device.name for device in config.devices):
        known = [device for device in config.devices if device.name == name][: counts.get(name, 0)]
        threads = max(1, config.threads_per_core)
        near[name] = tuple(
            sum(1 << i for i, cpus in enumerate(sockets) if any(cpus >> (core * threads) & 1 for core in device.cores))
            for device in known
        )
        links[name] = tuple(device.links for device in known)
    if gpus and not any(near.get(GPU, ())):
        near[GPU] = _near(sockets, gpus)
    if gpus and not any(links.get(GPU, ())):
        links[GPU] = _links(gpus)
    memory_mb = tuple(gpu.facts.memory_mb if gpu is not None else 0 for gpu in gpus)
    return Layout(
        masks, sockets, near, links, units_of(config), kinds_of(masks), tuple(counts), gpu_types(config), memory_mb, {}
    )


def _near(sockets: tuple[int, ...], gpus: Sequence[Gpu | None]) -> tuple[int, ...]:
    """Sockets that the node has found each GPU near to; () = it says nothing."""
    found = []
    for gpu in gpus:
        cpus = sum(1 << cpu for cpu in dict.fromkeys(gpu.facts.near_cpus)) if gpu is not None else 0
        found.append(sum(1 << i for i, mask in enumerate(sockets) if mask & cpus))
    return tuple(found) if any(found) else ()


def _links(gpus: Sequence[Gpu | None]) -> tuple[tuple[int, ...], ...]:
    """Links between places; () = the node says nothing, or all are alike."""
    found = []
    for a in gpus:
        theirs = a.facts.links if a is not None and a.is_there else ()
        row = [theirs[b.position] if b is not None and 0 <= b.position < len(theirs) else 0 for b in gpus]
        found.append(tuple(-1 if a is b else number for number, b in zip(row, gpus, strict=True)))
    numbers = {number for row in found for number in row if number >= 0}
    return tuple(found) if len(numbers) > 1 else ()


def kinds_of(masks: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Each type, and all types of a name."""
    kinds: dict[tuple[str, str], int] = {}
    for (name, type_), mask in masks.items():
        for kind in dict.fromkeys(((name, ""), (name, type_))):
            kinds[kind] = kinds.get(kind, 0) | mask
    return kinds


def device_masks(node: Node) -> dict[tuple[str, str], int]:
    """All devices of a node by kind."""
    masks: dict[tuple[str, str], int] = node.inside.masks
    return masks


def pick_devices(
    node: Node, wanted: tuple[tuple[str, str, int], ...], gpu_mem_mb: int = 0
) -> tuple[tuple[str, str, int], ...] | None:
    """Device masks for each kind; a request without a type takes what is free of any type. None: not so many are free.

    `gpu_mem_mb`: every GPU has at least so much. Shares of a GPU are not devices: shares.py.
    """
    if not wanted:
        return ()
    layout: Layout = node.inside
    closed = sum(1 << gpu for gpu in node.gpu_shares) | node.gpu_closed
    if node.gpu_single and sum(count for name, _, count in wanted if name == GPU) > 1:
        closed |= node.gpu_single
    if gpu_mem_mb:
        large = sum((size >= gpu_mem_mb) << slot for slot, size in enumerate(layout.memory_mb))
        closed |= ~large
    free = {
        key: mask & ~node.gres_used.get(key, 0) & ~(closed if key[0] == GPU else 0)
        for key, mask in layout.masks.items()
    }
    return choose_devices(layout, free, wanted, node.gpu_suspect)


def choose_devices(
    layout: Layout, free: Mapping[tuple[str, str], int], wanted: tuple[tuple[str, str, int], ...], suspect: int = 0
) -> tuple[tuple[str, str, int], ...] | None:
    """The same, of the devices in `free` (masks by kind). `suspect`: GPUs that are taken last."""
    picked: dict[tuple[str, str], int] = {}
    wanted = tuple(one for one in wanted if one[0] not in SHARED_NAMES)
    for name, type_, count in sorted(wanted, key=lambda w: w[1] == ""):  # typed requests first
        kinds = [key for key in free if key[0] == name and (not type_ or key[1] == type_)]
        left = 0
        for key in kinds:
            left |= free[key] & ~picked.get(key, 0)
        if left.bit_count() < count:
            return None
        chosen = _best_set(layout, name, left, count, suspect if name == GPU else 0)
        for key in kinds:
            if chosen & free[key]:
                picked[key] = picked.get(key, 0) | (chosen & free[key])
    return tuple((name, type_, mask) for (name, type_), mask in picked.items())


def _best_set(layout: Layout, name: str, free: int, count: int, suspect: int) -> int:
    near, links = layout.near.get(name, ()), layout.links.get(name, ())
    room = free.bit_count()
    if not (near or links) or count in (0, room) or _choose(room, count) > SETS_MAX:
        indices = _bits(free)
        if suspect & free:
            indices.sort(key=lambda i: (suspect >> i & 1, i))
        return sum(1 << i for i in indices[:count])
    key = (name, free, count, suspect & free)
    found = layout.chosen.get(key)
    if found is None:
        if len(layout.chosen) >= CHOICES_KEPT:
            layout.chosen.clear()
        found = layout.chosen[key] = _compared(near, links, free, count, suspect)
    return found


def _compared(near: tuple[int, ...], links: tuple[tuple[int, ...], ...], free: int, count: int, suspect: int) -> int:
    """The best of all sets."""
    indices = _bits(free)
    crowd: dict[int, int] = {}
    for i in indices:
        crowd[near[i] if i < len(near) else 0] = crowd.get(near[i] if i < len(near) else 0, 0) + 1

    def score(members: tuple[int, ...]) -> tuple[int, int, int, int, tuple[int, ...]]:
        places = [near[i] if i < len(near) else 0 for i in members]
        linked = sum(
            max(0, links[a][b]) if a < len(links) and b < len(links[a]) else 0 for a, b in combinations(members, 2)
        )
        odd = sum(suspect >> i & 1 for i in members)
        return odd, _sockets_spanned(places), -linked, sum(crowd[place] for place in set(places)), members

    return sum(1 << i for i in min(combinations(indices, count), key=score))


def _sockets_spanned(places: list[int]) -> int:
    common = places[0]
    for place in places:
        common &= place
    if common or not any(places):
        return 1
    union = 0
    for place in places:
        union |= place
    return union.bit_count()


def _choose(n: int, k: int) -> int:
    found = 1
    for i in range(min(k, n - k)):
        found = found * (n - i) // (i + 1)
    return found


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def pick_cpus(node: Node, count: int, gres: tuple[tuple[str, str, int], ...]) -> int:
    """A mask of `count` free cpus; 0 when so many are not free (cpus are shared), or the node has too many to number."""
    if node.cpus > CPUS_NUMBERED_MAX:
        return 0
    return choose_cpus(node.inside, ((1 << node.cpus) - 1) & ~node.cpus_used, count, gres)


def choose_cpus(layout: Layout, free: int, count: int, gres: tuple[tuple[str, str, int], ...]) -> int:
    """The same, of the cpus in `free`."""
    room = free.bit_count()
    if room < count:
        return 0
    if len(layout.sockets) == 1 and free | layout.sockets[0] == layout.sockets[0]:
        return free if room == count else _lowest(free, count)
    wanted = 0
    for name, _, mask in gres:
        for i in _bits(mask):
            near = layout.near.get(name, ())
            wanted |= near[i] if i < len(near) else 0
    rest = count
    chosen = 0
    order = [i for i in range(len(layout.sockets)) if wanted >> i & 1]
    while rest:
        if not order:
            order = [_best_socket(layout, free & ~chosen, rest)]
        got = _lowest(free & ~chosen & layout.sockets[order.pop(0)], rest)
        chosen |= got
        rest -= got.bit_count()
        if not got and not order and not any(free & ~chosen & cpus for cpus in layout.sockets):
            return 0  # fewer sockets than cpus say: the numbers of the configuration do not add up
    return chosen


def _best_socket(layout: Layout, free: int, count: int) -> int:
    """The socket with the fewest free cpus that will do, else the one with most."""
    rooms = [((free & cpus).bit_count(), i) for i, cpus in enumerate(layout.sockets)]
    enough = [(room, i) for room, i in rooms if room >= count]
    return min(enough)[1] if enough else max(rooms, key=lambda r: (r[0], -r[1]))[1]


def _lowest(free: int, count: int) -> int:
    """The `count` lowest bits that are set, or all. Cpus leave and come back by whole cores, so these are whole cores."""
    low, high = count, free.bit_length()
    for _ in range(LOOKS):  # mostly few are taken in between
        missing = count - (free & ((1 << low) - 1)).bit_count()
        if not missing:
            return free & ((1 << low) - 1)
        low += missing
    while low < high:  # the fewest low bits that hold so many
        middle = (low + high) // 2
        if (free & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return free & ((1 << low) - 1)
