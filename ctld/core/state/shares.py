"""Shares of a GPU: the device that a job with GRES `shard` or `mps` gets, and the counts for the planner.

Rules (gres.conf(5), Sharding and MPS). The shares of a node belong to its GPUs (NodeConfig.gres: evenly, where
gres.conf does not name the devices). A job gets all of its shares of a node on one GPU. A GPU with shares in use is not
allocated whole, one that is allocated whole has no shares, and one GPU is shared by one name at a time.

The planner's counts. The planner adds and subtracts one number a kind and node, but shares belong to devices. So the
number is the most that the node could give one job: for shares the maximum that is free on one of its GPUs, for GPUs
the unused ones. With that, "fits now" is exact. A running job's part releases the amount by which this number grows
when the job ends, after all jobs that end before it (`growth_by_ends`): so future free amounts are exact too. Placements of
one pass are subtracted, which is too strict for shares (another GPU may have as many) and too lax between shares and
whole GPUs. Therefore a third number, MILLI, counts the free thousandths of all GPUs of a node. Shares and GPUs both
consume it, so that shares do not delay a job that waits for all GPUs of a node.

A placement that does not fit is dropped when it should become an allocation, which happens only if another was applied
there first; the next pass plans it again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ctld.core.records.mig import gres_of
from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import GpuShare
from penstock.values.config import NodeConfig
from penstock.values.gres import GPU as GPU
from penstock.values.gres import SHARED_NAMES

if TYPE_CHECKING:
    from ctld.core.records.inside import Layout

#: Name of the kinds of GPUs that a job with several may get (gpus/kinds.py).
MANY: Final = "gpus"
GPU_KINDS: Final = (GPU, MANY)
#: The kind that counts thousandths of GPUs. Users cannot request it: GRES names are words.
MILLI: Final = ("", "gpu_milli")
WHOLE_MILLI: Final = 1000

_Kind = tuple[str, str]
Wanted = tuple[tuple[str, str, int], ...]
#: By shared GPU: the name, and how many of its shares are in use.
SharesInUse = dict[int, tuple[str, int]]


def share_wanted(wanted: Wanted) -> tuple[str, str, int] | None:
    """Returns the part of a GPU in a request. A job has one such request at most (`conflict`)."""
    return next((one for one in wanted if one[0] in SHARED_NAMES), None)


def conflict(wanted: Wanted) -> str:
    """Returns why these cannot be requested together, or ""."""
    parts = [one for one in wanted if one[0] in SHARED_NAMES]
    if len(parts) > 1 or (parts and any(name == GPU for name, _, _ in wanted)):
        names = " and ".join(":".join(filter(None, one[:2])) for one in wanted if one[0] in (GPU, *SHARED_NAMES))
        return f"{names}: a job asks for whole GPUs or for shares of one GPU of each node, not for both"
    return ""


def gpu_types(config: NodeConfig) -> tuple[str, ...]:
    """Returns the type of each GPU, by index."""
    return tuple(one.type for one in gres_of(config) if one.name == GPU for _ in range(one.count))


def units_of(config: NodeConfig) -> dict[_Kind, tuple[int, ...]]:
    """Returns the shares of each GPU by index, for each kind of share."""
    types = gpu_types(config)
    found: dict[_Kind, tuple[int, ...]] = {}
    for one in config.gres:
        if one.name not in SHARED_NAMES:
            continue
        if one.units:
            found[one.name, one.type] = one.units
            continue
        having = sum(1 for type_ in types if one.type in ("", type_))
        each = one.count // having if having else 0
        found[one.name, one.type] = tuple(each if one.type in ("", type_) else 0 for type_ in types)
    return found


def free_units(units: tuple[int, ...], name: str, gpu: int, whole: int, shared: SharesInUse) -> int:
    """Returns the free shares of that name on a GPU."""
    if whole >> gpu & 1:
        return 0
    holder, used = shared.get(gpu, (name, 0))
    return max(0, units[gpu] - used) if holder == name else 0


def whole_gpus(node: Node) -> int:
    """Returns the GPUs that are allocated whole, as a bit mask."""
    found = 0
    for (name, _), mask in node.gres_used.items():
        if name == GPU:
            found |= mask
    return found


def slots_of(part: NodeAlloc) -> int:
    """Returns the GPUs of a node in an allocation, whole or in parts, as a bit mask."""
    found = 0
    for name, _, mask in part.gres:
        found |= mask if name == GPU else 0
    for share in part.shares:
        found |= 1 << share.gpu
    return found


def allocated_slots(node: Node) -> int:
    """Returns the GPUs that jobs have, whole or in parts, as a bit mask."""
    return whole_gpus(node) | sum(1 << gpu for gpu in node.gpu_shares)


def free_milli(node: Node) -> list[int]:
    """Returns the unused thousandths of each GPU, by index."""
    layout: Layout = node.inside
    whole = whole_gpus(node) | node.gpu_closed
    found = [0 if whole >> gpu & 1 else WHOLE_MILLI for gpu in range(len(layout.gpu_types))]
    for gpu, (name, used) in node.gpu_shares.items():
        units = max((each[gpu] for (of, _), each in layout.shares.items() if of == name), default=0)
        found[gpu] -= min(found[gpu], WHOLE_MILLI * used // units) if units else found[gpu]
    return found


def pick_share(node: Node, part_wanted: tuple[str, str, int], among: int = -1) -> GpuShare | None:
    """Chooses the fullest of the GPUs in `among` that has so many shares free; untouched ones last, then those under
    suspicion.
    """
    layout: Layout = node.inside
    name, type_, count = part_wanted
    whole, best = whole_gpus(node) | node.gpu_closed, None
    for (kind_name, kind_type), units in layout.shares.items():
        if kind_name != name or type_ not in ("", kind_type):
            continue
        for gpu in range(len(units)):
            free = free_units(units, name, gpu, whole, node.gpu_shares)
            if among >> gpu & 1 and free >= count and units[gpu]:
                key = (node.gpu_suspect >> gpu & 1, gpu not in node.gpu_shares, free, gpu)
                if best is None or key < best[0]:
                    best = (key, GpuShare(name, kind_type, gpu, count, units[gpu]))
    return best[1] if best else None


def room(layout: "Layout", whole: int, shared: SharesInUse, closed: int) -> dict[_Kind, int]:
    """Returns the most that one job could get, by kind of GPU and share. `closed`: GPUs that are not allocated."""
    taken = whole | closed
    for gpu in shared:
        taken |= 1 << gpu
    found = {(GPU, ""): 0}
    for kind, mask in layout.kinds.items():
        if kind[0] in GPU_KINDS:
            found[kind] = (mask & ~taken).bit_count()
    found[MILLI] = found[GPU, ""] * WHOLE_MILLI
    for (name, type_), units in layout.shares.items():
        most = max((free_units(units, name, gpu, whole | closed, shared) for gpu in range(len(units))), default=0)
        for kind in ((name, type_), (name, "")):
            found[kind] = max(found.get(kind, 0), most)
        for gpu, (holder, used) in shared.items():
            if holder == name and gpu < len(units) and units[gpu] and not closed >> gpu & 1:
                found[MILLI] += WHOLE_MILLI - min(WHOLE_MILLI, WHOLE_MILLI * used // units[gpu])
    return found


def growth_by_ends(
    node: Node, allocations: Iterable[tuple[int, int, NodeAlloc]]
) -> tuple[dict[_Kind, int], list[tuple[int, dict[_Kind, int]]]]:
    """Returns the most that one job could get now, and by job how much that grows when it ends. `allocations`: (end, job
    id, its part)."""
    layout: Layout = node.inside
    whole, shared = whole_gpus(node), dict(node.gpu_shares)
    now = before = room(layout, whole, shared, node.gpu_closed)
    gains = []
    for _, job_id, part in sorted(allocations, key=lambda one: one[:2]):
        for name, _, mask in part.gres:
            whole &= ~mask if name == GPU else -1
        for share in part.shares:
            give_back(shared, share)
        after = room(layout, whole, shared, node.gpu_closed)
        gains.append((job_id, {kind: after[kind] - before[kind] for kind in after}))
        before = after
    return now, gains


def take(shared: SharesInUse, share: GpuShare) -> None:
    """Counts shares as in use."""
    shared[share.gpu] = (share.name, shared.get(share.gpu, (share.name, 0))[1] + share.units)


def give_back(shared: SharesInUse, share: GpuShare) -> None:
    """The reverse of `take`."""
    left = shared[share.gpu][1] - share.units
    if left > 0:
        shared[share.gpu] = (share.name, left)
    else:
        del shared[share.gpu]


def most_units(layouts: Iterable["Layout"]) -> dict[str, int]:
    """Returns by name the maximum number of shares of one GPU in the cluster."""
    found: dict[str, int] = {}
    for layout in layouts:
        for (name, _), units in layout.shares.items():
            found[name] = max(found.get(name, 0), *units) if units else found.get(name, 0)
    return found


def milli_wanted(wanted: Wanted, most: dict[str, int]) -> int:
    """Returns the amount of MILLI that a request takes: for shares no more than they are worth on any node."""
    found = 0
    for name, _, count in wanted:
        if name == GPU:
            found += count * WHOLE_MILLI
        elif most.get(name):
            found += min(WHOLE_MILLI, count * WHOLE_MILLI // most[name])
    return found
