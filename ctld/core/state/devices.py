"""Assigns the devices and cpus of a node to jobs.

The planner counts; this module turns counts into indices. Devices of one job should have fast links and be near the
job's cpus (gres.conf(5), Cores and Links):

1. Of the sets of free devices with the wanted number, the one that
   a. has the fewest GPUs under suspicion, b. lies on the fewest sockets, c. has the most links between its members,
   d. leaves sockets whole: comes from those with the fewest free devices, e. has the lowest indices.
   Where gres.conf has no sockets and links, the node's own detection counts (NVML: affinity, NVLink and PCIe).
2. Cpus come first on the sockets of the devices, then on the socket where the rest fits best (the fewest free that
   suffice), else on those with most; lowest numbers first.

A cpu's number is Slurm's abstract one: socket by socket, core by core, thread by thread.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import combinations

from ctld.core.records.gpu import Gpu
from ctld.core.records.inside import Layout
from ctld.core.records.mig import gres_of
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU, gpu_types, units_of
from penstock.values.config import NodeConfig
from penstock.values.gres import SHARED_NAMES

#: Sets that are compared for one request; beyond it (as with more than 8 of 16 free devices) the lowest indices are
#: taken.
SETS_MAX = 4_096
#: Results of `_best_set` that are cached for a node.
CHOICES_KEPT = 1_024
#: Linear steps of `_lowest` before it bisects the rest.
LOOKS = 4
#: Maximum number of cpus of a node that are numbered. No machine has more; a simulated one may represent a whole
#: cluster.
CPUS_NUMBERED_MAX = 16_384


def layout_of(config: NodeConfig, gpus: Sequence[Gpu | None] = ()) -> Layout:
    """Returns the topology of a node of that configuration, with these GPUs at their places; cached in `Node.inside`."""
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
        masks,
        sockets,
        usable_cpus(config),
        near,
        links,
        units_of(config),
        kinds_of(masks),
        tuple(counts),
        gpu_types(config),
        memory_mb,
        {},
    )


def usable_cpus(config: NodeConfig) -> int:
    """Returns the CPUs that jobs may have."""
    return ((1 << config.cpus) - 1) & ~config.specialized_cpus


def _near(sockets: tuple[int, ...], gpus: Sequence[Gpu | None]) -> tuple[int, ...]:
    """Returns the sockets that the node has detected as nearest to each GPU; () = none reported."""
    found = []
    for gpu in gpus:
        cpus = sum(1 << cpu for cpu in dict.fromkeys(gpu.facts.near_cpus)) if gpu is not None else 0
        found.append(sum(1 << i for i, mask in enumerate(sockets) if mask & cpus))
    return tuple(found) if any(found) else ()


def _links(gpus: Sequence[Gpu | None]) -> tuple[tuple[int, ...], ...]:
    """Returns links between places; () = none reported, or all are equal."""
    found = []
    for a in gpus:
        theirs = a.facts.links if a is not None and a.is_there else ()
        row = [theirs[b.position] if b is not None and 0 <= b.position < len(theirs) else 0 for b in gpus]
        found.append(tuple(-1 if a is b else number for number, b in zip(row, gpus, strict=True)))
    numbers = {number for row in found for number in row if number >= 0}
    return tuple(found) if len(numbers) > 1 else ()


def kinds_of(masks: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Returns the kinds of a GRES: each type, and all types of a name."""
    kinds: dict[tuple[str, str], int] = {}
    for (name, type_), mask in masks.items():
        for kind in dict.fromkeys(((name, ""), (name, type_))):
            kinds[kind] = kinds.get(kind, 0) | mask
    return kinds


def device_masks(node: Node) -> dict[tuple[str, str], int]:
    """Returns all devices of a node by kind."""
    masks: dict[tuple[str, str], int] = node.inside.masks
    return masks


def pick_devices(
    node: Node, wanted: tuple[tuple[str, str, int], ...], gpu_mem_mb: int = 0
) -> tuple[tuple[str, str, int], ...] | None:
    """Chooses device masks for each kind; a request without a type takes any type. None: not so many are free.

    `gpu_mem_mb`: minimum memory of every GPU. Shares of a GPU are not devices: shares.py.
    """
    if not wanted:
        return ()
    layout: Layout = node.inside
    closed = node.gpu_closed
    for gpu in node.gpu_shares:
        closed |= 1 << gpu
    if node.gpu_single and sum(count for name, _, count in wanted if name == GPU) > 1:
        closed |= node.gpu_single
    if gpu_mem_mb:
        large = sum((size >= gpu_mem_mb) << slot for slot, size in enumerate(layout.memory_mb))
        closed |= ~large
    used = node.gres_used
    free = {
        key: mask & ~(used.get(key, 0) | closed if key[0] == GPU else used.get(key, 0))
        for key, mask in layout.masks.items()
    }
    return choose_devices(layout, free, wanted, node.gpu_suspect)


def all_devices(node: Node) -> tuple[tuple[str, str, int], ...]:
    """Returns all free and open devices of the node, for an exclusive job."""
    layout: Layout = node.inside
    closed = sum(1 << gpu for gpu in node.gpu_shares) | node.gpu_closed
    free = (
        (name, type_, mask & ~node.gres_used.get((name, type_), 0) & ~(closed if name == GPU else 0))
        for (name, type_), mask in layout.masks.items()
    )
    return tuple(one for one in free if one[2])


def choose_devices(
    layout: Layout, free: Mapping[tuple[str, str], int], wanted: tuple[tuple[str, str, int], ...], suspect: int = 0
) -> tuple[tuple[str, str, int], ...] | None:
    """Chooses devices of those in `free` (masks by kind). `suspect`: GPUs that are taken last."""
    picked: dict[tuple[str, str], int] = {}
    asked = [one for one in wanted if one[0] not in SHARED_NAMES]
    if len(asked) > 1:
        asked.sort(key=lambda w: w[1] == "")  # typed requests first
    for name, type_, count in asked:
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
        indices = bits_of(free)
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
    """Returns the best of all sets."""
    indices = bits_of(free)
    crowd: dict[int, int] = {}
    for i in indices:
        crowd[near[i] if i < len(near) else 0] = crowd.get(near[i] if i < len(near) else 0, 0) + 1

    def score(members: tuple[int, ...]) -> tuple[int, int, int, int, tuple[int, ...]]:
        places = [near[i] if i < len(near) else 0 for i in members]
        linked = sum(
            max(0, links[a][b]) if a < len(links) and b < len(links[a]) else 0 for a, b in combinations(members, 2)
        )
        suspects = sum(suspect >> i & 1 for i in members)
        return suspects, _sockets_spanned(places), -linked, sum(crowd[place] for place in set(places)), members

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


def bits_of(mask: int) -> list[int]:
    """Returns the numbers of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def pick_cpus(node: Node, count: int, gres: tuple[tuple[str, str, int], ...], within: int = -1) -> int:
    """Returns a mask of `count` free cpus; 0 when so many are not free (cpus are shared), or the node has too many to
    number. `within`: preferred ones."""
    if node.cpus > CPUS_NUMBERED_MAX:
        return 0
    free = node.inside.usable & ~node.cpus_used
    return (within != -1 and choose_cpus(node.inside, free & within, count, gres)) or choose_cpus(
        node.inside, free, count, gres
    )


def cpus_left(node: Node, used: int, most: int) -> int:
    """Returns the free cpus of a node of which `most` may be used on each socket, in whole cores, and these are: the
    lowest of each socket that are left."""
    core, found = node.config.cpus_per_core(), 0
    for socket in node.inside.sockets:
        room = (most - (used & socket).bit_count()) // core * core
        free = socket & node.inside.usable & ~node.cpus_used
        found |= _lowest(free, min(room, free.bit_count())) if room > 0 else 0
    return found


def choose_cpus(layout: Layout, free: int, count: int, gres: tuple[tuple[str, str, int], ...]) -> int:
    """Returns cpus of those in `free`."""
    room = free.bit_count()
    if room < count:
        return 0
    if len(layout.sockets) == 1 and free | layout.sockets[0] == layout.sockets[0]:
        return free if room == count else _lowest(free, count)
    wanted = 0
    for name, _, mask in gres:
        for i in bits_of(mask):
            near = layout.near.get(name, ())
            wanted |= near[i] if i < len(near) else 0
    chosen = 0
    for i in bits_of(wanted & ((1 << len(layout.sockets)) - 1)):
        chosen |= _lowest(free & ~chosen & layout.sockets[i], count - chosen.bit_count())
    return chosen if chosen.bit_count() == count else _fill_sockets(layout, free & ~chosen, chosen, count)


def _fill_sockets(layout: Layout, free: int, chosen: int, count: int) -> int:
    """Adds free cpus to the chosen ones: of the socket with the fewest that suffice, else first all of the one with
    most."""
    rest = count - chosen.bit_count()
    if layout.sockets[0] == 1:  # one cpu in each: the first ones
        free &= (1 << len(layout.sockets)) - 1
        return chosen | _lowest(free, rest) if free.bit_count() >= rest else 0
    rooms = [(-(free & cpus).bit_count(), i) for i, cpus in enumerate(layout.sockets)]
    rooms.sort()  # once for all sockets: taking all of one changes no other
    for at, (room, i) in enumerate(rooms):
        if -room < rest:
            if not room:
                break
            chosen |= free & layout.sockets[i]
            rest += room
            if not rest:
                return chosen
        else:
            fewest = rooms[bisect_left(rooms, (1 - rest, 0)) - 1][0]
            best = rooms[bisect_left(rooms, (fewest, 0), at)][1]
            return chosen | _lowest(free & layout.sockets[best], rest)
    return 0  # fewer cpus than the sockets need: the configuration is inconsistent


def _lowest(free: int, count: int) -> int:
    """Returns the `count` lowest set bits, or all. Cpus are allocated and freed by whole cores, so these are whole
    cores."""
    low, high = count, free.bit_length()
    for _ in range(LOOKS):  # usually few bits in between are unset
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
