"""The classes of GPUs that the planner counts apart, beside types: by memory (--gpu-mem), and by whether they may be
used together.

The planner knows numbers of kinds (devices.Layout.kinds: kind -> places of it), and a plan must guarantee that
state/devices.py finds the devices. So there are kinds for

    ("gpu", ">=81559")        GPUs with at least so many MB, for each size that the cluster has
    ("gpu", "a100>=81559")    those of a type, where a node has GPUs of the type with less, and others with as much;
                              not when no GPU of the type in the cluster has it (`pairs_of`)
    ("gpus", any of these)    those that a job with several GPUs may get, if some GPU is only for jobs with one

A size that all GPUs of the cluster have needs no kind. A GPU of unknown memory has none. Users cannot request such a
kind by name: `>` cannot occur in a type, and "gpus" is no GRES.

The kinds are those of one layout (nodes/layout.py). `settle` notes when a node needs one that the layout lacks
(`is_missing`).
"""

from collections.abc import Iterable, Sequence

from ctld.core.records.gpu import Extra
from ctld.core.records.inside import Layout
from ctld.core.records.mig import totals as mig_totals
from ctld.core.records.node import Node
from ctld.core.records.request import JobRequest
from ctld.core.state.shares import GPU, MANY, MILLI, room
from ctld.core.state.state import ClusterState

_Kind = tuple[str, str]
#: Memory sizes that are distinguished, the largest: a cluster has few models, each with its MIG profiles.
SIZES_MAX = 16


def key_of(extra: Extra) -> _Kind:
    """The key of a kind among the kinds."""
    return MANY if extra.for_many else GPU, f"{extra.type}>={extra.least_mb}" if extra.least_mb else extra.type


def sizes_of(nodes: Iterable[Node]) -> tuple[int, ...]:
    """Returns the sizes of GPU memory in the cluster, in MB, ascending."""
    found = dict.fromkeys(size for node in nodes for size in node.inside.memory_mb if size)
    return tuple(sorted(found)[-SIZES_MAX:])


def extras_of(nodes: Sequence[Node], sizes: tuple[int, ...]) -> dict[_Kind, Extra]:
    """The additional kinds that these nodes need."""
    extras: dict[Extra, None] = {}
    many = False
    pairs = pairs_of(nodes, sizes)
    for node in nodes:
        if node.inside.gpu_types:
            many |= bool(node.gpu_single)
            extras |= dict.fromkeys(_by_memory(node.inside, sizes, pairs))
    if many:
        types = dict.fromkeys(["", *(type_ for node in nodes for type_ in node.inside.gpu_types)])
        by_type = [Extra(type_, 0, False) for type_ in types]
        extras |= dict.fromkeys(extra._replace(for_many=True) for extra in (*by_type, *extras))
    return {key_of(extra): extra for extra in extras}


def pairs_of(nodes: Iterable[Node], sizes: tuple[int, ...]) -> dict[tuple[str, int], None]:
    """Pairs (type, memory) such that some GPU of the type has that much."""
    return dict.fromkeys(
        (type_, size)
        for node in nodes
        for type_, mb in zip(node.inside.gpu_types, node.inside.memory_mb, strict=False)
        for size in sizes
        if type_ and mb >= size
    )


def _by_memory(layout: Layout, sizes: tuple[int, ...], pairs: dict[tuple[str, int], None]) -> list[Extra]:
    """Returns the kinds without which the node's GPUs would be miscounted: its type and its memory may match on
    different GPUs."""
    every = (1 << len(layout.gpu_types)) - 1
    found = []
    for size in sizes:
        large = _large(layout, size)
        if large != every:
            found.append(Extra("", size, False))
        for type_ in filter(None, dict.fromkeys(layout.gpu_types)):
            mask = _of_type(layout, type_)
            if mask & ~large and large & ~mask and (type_, size) in pairs:
                found.append(Extra(type_, size, False))
    return found


def _large(layout: Layout, least_mb: int) -> int:
    return sum((size >= least_mb) << slot for slot, size in enumerate(layout.memory_mb))


def _of_type(layout: Layout, type_: str) -> int:
    return sum((type_ in ("", own)) << slot for slot, own in enumerate(layout.gpu_types))


def extend(layout: Layout, extras: dict[_Kind, Extra], single: int) -> Layout:
    """Returns the layout with these kinds. `single`: places of GPUs that are only for jobs with one."""
    if not extras or not layout.gpu_types:
        return layout
    kinds = {kind: mask for kind, mask in layout.kinds.items() if kind not in extras}
    for kind, extra in extras.items():
        mask = _of_type(layout, extra.type) & (_large(layout, extra.least_mb) if extra.least_mb else -1)
        kinds[kind] = mask & ~single if extra.for_many else mask
    return layout._replace(kinds=kinds)


def is_missing(state: ClusterState, node: Node) -> bool:
    """Whether the layout lacks a column for something of this node."""
    kinds = state.layout.gres_kinds
    new_size = any(size and size not in state.gpus.sizes for size in node.inside.memory_mb)
    if (new_size and len(state.gpus.sizes) < SIZES_MAX) or (node.gpu_single and (MANY, "") not in kinds):
        return True
    if any(pair not in state.gpus.pairs for pair in pairs_of([node], state.gpus.sizes)):
        return True
    return any(key_of(extra) not in kinds for extra in _by_memory(node.inside, state.gpus.sizes, state.gpus.pairs))


def totals(state: ClusterState, node: Node) -> dict[_Kind, int]:
    """Returns the node's totals by kind, when nothing is allocated and all is healthy."""
    inside = extend(node.inside, state.gpus.extras, 0)
    found: dict[_Kind, int] = mig_totals(node.config, inside.kinds)
    if MILLI in state.layout.gres_kinds and inside.gpu_types:
        found |= room(inside, 0, {}, 0)
    return found


def wanted(state: ClusterState, request: JobRequest) -> dict[_Kind, int] | None:
    """Returns the counts of these kinds in a request; None = no node has such GPUs."""
    mine = [one for one in request.gres_per_node if one[0] == GPU]
    if not mine or not (request.gpu_mem_mb or (MANY, "") in state.layout.gres_kinds):
        return {}
    least_mb = next((size for size in state.gpus.sizes if size >= request.gpu_mem_mb), 0) if request.gpu_mem_mb else 0
    if request.gpu_mem_mb and not (least_mb and all(t == "" or (t, least_mb) in state.gpus.pairs for _, t, _ in mine)):
        return None
    many = sum(count for _, _, count in mine) > 1
    found: dict[_Kind, int] = {}
    for _, type_, count in mine:
        for of in dict.fromkeys(("", type_)):
            for for_many in (False, True) if many else (False,):
                for size in dict.fromkeys((0, least_mb)):
                    key = key_of(Extra(of, size, for_many))
                    if (size or for_many) and key in state.layout.gres_kinds:
                        found[key] = found.get(key, 0) + count
    return found


def can_be_asked(state: ClusterState, name: str, type_: str) -> bool:
    """Whether a kind is a GRES of the cluster, and not an internal one."""
    return (name, type_) in state.layout.gres_kinds and (name, type_) not in state.gpus.extras


def words_of(kind: _Kind) -> str:
    """The name of a kind as shown to users; "" = not shown."""
    name, text = kind
    if name not in (GPU, MANY) or (name == GPU and ">=" not in text):
        return f"gres/{name}{':' if text else ''}{text}" if name else ""
    type_, _, least_mb = text.partition(">=")
    what = f"gres/{GPU}{':' if type_ else ''}{type_}"
    return what + (f" with {least_mb} MB" if least_mb else "") + (" for jobs with several" if name == MANY else "")
