"""Parts of a GPU: which device a job with GRES `shard` or `mps` gets, and what the planner is told of it.

Rules (gres.conf(5), Sharding and MPS). The shares of a node belong to its GPUs (NodeConfig.gres: evenly, where
gres.conf does not name the devices). A job gets all of its shares of a node on one GPU. A GPU with shares in use is
not given as a whole, one that is given as a whole has no shares, and one GPU is shared by one name at a time.

What the planner is told. It adds and subtracts one number a kind and node, but shares live on devices. So the number
is what the node could give one job: of shares the most that are free on one of its GPUs, of GPUs those that nobody
uses. "Fits now" is exact with that. A running job's part gives back what this number grows by when it ends, after all
who end before it (`outlook`): so what running jobs leave behind is exact too. What the planner places in one pass it
subtracts, which is too careful for shares (another GPU may have as many) and too careless between shares and whole
GPUs. Therefore a third number, MILLI: the thousandths of all GPUs of a node that are free. Shares and GPUs both take
of it, so that shares do not slip under a job that waits for all GPUs of a node.

A placement that does not fit is dropped when it should become an allocation, which happens only if another was applied
there first; the next pass sees that one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ctld.core.mig_model import gres_of
from ctld.core.model import GpuShare, Node, NodeAlloc
from penstock.values.config import NodeConfig
from penstock.values.gres import GPU as GPU
from penstock.values.gres import SHARED_NAMES

if TYPE_CHECKING:
    from ctld.core.devices import Layout

#: Name of the kinds of GPUs that a job with several may get (gpu_kinds.py).
MANY: Final = "gpus"
GPU_KINDS: Final = (GPU, MANY)
#: The kind that counts thousandths of GPUs. Nobody can ask for it: a name is a word.
MILLI: Final = ("", "gpu_milli")
WHOLE_MILLI: Final = 1000

Kind = tuple[str, str]
Wanted = tuple[tuple[str, str, int], ...]
#: By GPU that is shared: the name, and how many of its shares are in use.
Shared = dict[int, tuple[str, int]]


def wish_of(wanted: Wanted) -> tuple[str, str, int] | None:
    """What of it is a part of a GPU. A job has one such wish at most (`conflict`)."""
    return next((one for one in wanted if one[0] in SHARED_NAMES), None)


def conflict(wanted: Wanted) -> str:
    """Why these cannot be asked for together, or nothing."""
    parts = [one for one in wanted if one[0] in SHARED_NAMES]
    if len(parts) > 1 or (parts and any(name == GPU for name, _, _ in wanted)):
        names = " and ".join(":".join(filter(None, one[:2])) for one in wanted if one[0] in (GPU, *SHARED_NAMES))
        return f"{names}: a job asks for whole GPUs or for shares of one GPU of each node, not for both"
    return ""


def gpu_types(config: NodeConfig) -> tuple[str, ...]:
    """The type of each GPU, by index."""
    return tuple(one.type for one in gres_of(config) if one.name == GPU for _ in range(one.count))


def units_of(config: NodeConfig) -> dict[Kind, tuple[int, ...]]:
    """By kind of share: how many each GPU has, by index."""
    types = gpu_types(config)
    found: dict[Kind, tuple[int, ...]] = {}
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


def free_units(units: tuple[int, ...], name: str, gpu: int, whole: int, shared: Shared) -> int:
    """Shares of that name that are free on a GPU."""
    if whole >> gpu & 1:
        return 0
    holder, used = shared.get(gpu, (name, 0))
    return max(0, units[gpu] - used) if holder == name else 0


def whole_gpus(node: Node) -> int:
    """GPUs that are given as a whole, as a bit mask."""
    found = 0
    for (name, _), mask in node.gres_used.items():
        if name == GPU:
            found |= mask
    return found


def slots_of(part: NodeAlloc) -> int:
    """GPUs of a node that an allocation has, whole or in parts, as a bit mask."""
    found = 0
    for name, _, mask in part.gres:
        found |= mask if name == GPU else 0
    for share in part.shares:
        found |= 1 << share.gpu
    return found


def held_slots(node: Node) -> int:
    """GPUs that jobs have, whole or in parts, as a bit mask."""
    return whole_gpus(node) | sum(1 << gpu for gpu in node.gpu_shares)


def free_milli(node: Node) -> list[int]:
    """Thousandths of each GPU that nobody uses, by index."""
    layout: Layout = node.inside
    whole = whole_gpus(node) | node.gpu_closed
    found = [0 if whole >> gpu & 1 else WHOLE_MILLI for gpu in range(len(layout.gpu_types))]
    for gpu, (name, used) in node.gpu_shares.items():
        units = max((each[gpu] for (of, _), each in layout.shares.items() if of == name), default=0)
        found[gpu] -= min(found[gpu], WHOLE_MILLI * used // units) if units else found[gpu]
    return found


def pick_share(node: Node, wish: tuple[str, str, int], among: int = -1) -> GpuShare | None:
    """The fullest of the GPUs in `among` that has so many shares free; untouched ones last, then those under suspicion."""
    layout: Layout = node.inside
    name, type_, count = wish
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


def room(layout: "Layout", whole: int, shared: Shared, closed: int) -> dict[Kind, int]:
    """What one job could get, by kind of GPU and share. `closed`: GPUs that nobody gets."""
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


def outlook(
    node: Node, holders: Iterable[tuple[int, int, NodeAlloc]]
) -> tuple[dict[Kind, int], list[tuple[int, dict[Kind, int]]]]:
    """What one job could get now, and by job what that grows by when it ends. `holders`: (end, job id, its part)."""
    layout: Layout = node.inside
    whole, shared = whole_gpus(node), dict(node.gpu_shares)
    now = before = room(layout, whole, shared, node.gpu_closed)
    gains = []
    for _, job_id, part in sorted(holders, key=lambda holder: holder[:2]):
        for name, _, mask in part.gres:
            whole &= ~mask if name == GPU else -1
        for share in part.shares:
            give_back(shared, share)
        after = room(layout, whole, shared, node.gpu_closed)
        gains.append((job_id, {kind: after[kind] - before[kind] for kind in after}))
        before = after
    return now, gains


def take(shared: Shared, share: GpuShare) -> None:
    """Count shares as in use."""
    shared[share.gpu] = (share.name, shared.get(share.gpu, (share.name, 0))[1] + share.units)


def give_back(shared: Shared, share: GpuShare) -> None:
    """The reverse of `take`."""
    left = shared[share.gpu][1] - share.units
    if left > 0:
        shared[share.gpu] = (share.name, left)
    else:
        del shared[share.gpu]


def most_units(layouts: Iterable["Layout"]) -> dict[str, int]:
    """By name: the most shares that a GPU of the cluster is divided into."""
    found: dict[str, int] = {}
    for layout in layouts:
        for (name, _), units in layout.shares.items():
            found[name] = max(found.get(name, 0), *units) if units else found.get(name, 0)
    return found


def milli_wanted(wanted: Wanted, most: dict[str, int]) -> int:
    """What a request takes of MILLI: of shares no more than they are worth on any node."""
    found = 0
    for name, _, count in wanted:
        if name == GPU:
            found += count * WHOLE_MILLI
        elif most.get(name):
            found += min(WHOLE_MILLI, count * WHOLE_MILLI // most[name])
    return found
