"""Which GPUs the planner counts apart, beside types: by memory (--gpu-mem), and those that may work with others.

The planner knows numbers of kinds (devices.Layout.kinds: kind -> places of it), and "fits" must mean that devices.py
finds them. So there are kinds for

    ("gpu", ">=81559")        GPUs with at least so many MB, for each size that the cluster has
    ("gpu", "a100>=81559")    those of a type, where a node has GPUs of the type with less, and others with as much;
                              not when no GPU of the type in the cluster has it (`pairs_of`)
    ("gpus", any of these)    those that a job with several GPUs may get, while some GPU is only for jobs with one

A size that all GPUs of the cluster have needs no kind: it is all of them. A GPU of unknown memory has none. Nobody can ask
for such a kind by its name: `>` is no part of a type, and "gpus" is no GRES.

The kinds are those of one layout (layout.py). `settle` notes when a node needs one that is not there (`is_missing`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ctld.core.devices import Layout
from ctld.core.mig_model import totals as mig_totals
from ctld.core.model import JobRequest, Node
from ctld.core.shares import GPU, MANY, MILLI, room
from ctld.core.state import ClusterState

Kind = tuple[str, str]
#: Sizes of memory that are told apart, the largest: a cluster has few models, and each its MIG profiles.
SIZES_MAX = 16


class Extra(NamedTuple):
    """What such a kind counts."""

    type: str  # "" = any
    least_mb: int
    for_many: bool


def key_of(extra: Extra) -> Kind:
    """Its name among the kinds."""
    return MANY if extra.for_many else GPU, f"{extra.type}>={extra.least_mb}" if extra.least_mb else extra.type


def sizes_of(nodes: Iterable[Node]) -> tuple[int, ...]:
    """Sizes of memory in the cluster, in MB, rising."""
    found = dict.fromkeys(size for node in nodes for size in node.inside.memory_mb if size)
    return tuple(sorted(found)[-SIZES_MAX:])


def extras_of(nodes: Sequence[Node], sizes: tuple[int, ...]) -> dict[Kind, Extra]:
    """The kinds that these nodes need."""
    extras: dict[Extra, None] = {}
    many = False
    pairs = pairs_of(nodes, sizes)
    for node in nodes:
        if node.inside.gpu_types:
            many |= bool(node.gpu_single)
            extras |= dict.fromkeys(_by_memory(node.inside, sizes, pairs))
    if many:
        types = dict.fromkeys(["", *(type_ for node in nodes for type_ in node.inside.gpu_types)])
        plain = [Extra(type_, 0, False) for type_ in types]
        extras |= dict.fromkeys(extra._replace(for_many=True) for extra in (*plain, *extras))
    return {key_of(extra): extra for extra in extras}


def pairs_of(nodes: Iterable[Node], sizes: tuple[int, ...]) -> dict[tuple[str, int], None]:
    """(type, memory) such that some GPU of the type has so much."""
    return dict.fromkeys(
        (type_, size)
        for node in nodes
        for type_, mb in zip(node.inside.gpu_types, node.inside.memory_mb, strict=False)
        for size in sizes
        if type_ and mb >= size
    )


def _by_memory(layout: Layout, sizes: tuple[int, ...], pairs: dict[tuple[str, int], None]) -> list[Extra]:
    """Those without which the node's GPUs would be counted wrong: by type and by memory alone it could be two GPUs."""
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


def extend(layout: Layout, extras: dict[Kind, Extra], single: int) -> Layout:
    """The layout with these kinds. `single`: places of GPUs that are only for jobs with one."""
    if not extras or not layout.gpu_types:
        return layout
    kinds = {kind: mask for kind, mask in layout.kinds.items() if kind not in extras}
    for kind, extra in extras.items():
        mask = _of_type(layout, extra.type) & (_large(layout, extra.least_mb) if extra.least_mb else -1)
        kinds[kind] = mask & ~single if extra.for_many else mask
    return layout._replace(kinds=kinds)


def is_missing(state: ClusterState, node: Node) -> bool:
    """True when the layout has no column for something of this node."""
    kinds = state.gres_kinds
    new_size = any(size and size not in state.gpu_sizes for size in node.inside.memory_mb)
    if (new_size and len(state.gpu_sizes) < SIZES_MAX) or (node.gpu_single and (MANY, "") not in kinds):
        return True
    if any(pair not in state.gpu_pairs for pair in pairs_of([node], state.gpu_sizes)):
        return True
    return any(key_of(extra) not in kinds for extra in _by_memory(node.inside, state.gpu_sizes, state.gpu_pairs))


def totals(state: ClusterState, node: Node) -> dict[Kind, int]:
    """What the node has by kind, when nobody has anything and all is well."""
    inside = extend(node.inside, state.gpu_extras, 0)
    found: dict[Kind, int] = mig_totals(node.config, inside.kinds)
    if MILLI in state.gres_kinds and inside.gpu_types:
        found |= room(inside, 0, {}, 0)
    return found


def wanted(state: ClusterState, request: JobRequest) -> dict[Kind, int] | None:
    """What a request takes of these kinds; None = no node has such GPUs."""
    mine = [one for one in request.gres_per_node if one[0] == GPU]
    if not mine or not (request.gpu_mem_mb or (MANY, "") in state.gres_kinds):
        return {}
    least_mb = next((size for size in state.gpu_sizes if size >= request.gpu_mem_mb), 0) if request.gpu_mem_mb else 0
    if request.gpu_mem_mb and not (least_mb and all(t == "" or (t, least_mb) in state.gpu_pairs for _, t, _ in mine)):
        return None
    many = sum(count for _, _, count in mine) > 1
    found: dict[Kind, int] = {}
    for _, type_, count in mine:
        for of in dict.fromkeys(("", type_)):
            for for_many in (False, True) if many else (False,):
                for size in dict.fromkeys((0, least_mb)):
                    key = key_of(Extra(of, size, for_many))
                    if (size or for_many) and key in state.gres_kinds:
                        found[key] = found.get(key, 0) + count
    return found


def can_be_asked(state: ClusterState, name: str, type_: str) -> bool:
    """A GRES of the cluster, and no kind of ours."""
    return (name, type_) in state.gres_kinds and (name, type_) not in state.gpu_extras


def words_of(kind: Kind) -> str:
    """How a kind is called where a user reads it; "" = not at all."""
    name, text = kind
    if name not in (GPU, MANY) or (name == GPU and ">=" not in text):
        return f"gres/{name}{':' if text else ''}{text}" if name else ""
    type_, _, least_mb = text.partition(">=")
    what = f"gres/{GPU}{':' if type_ else ''}{type_}"
    return what + (f" with {least_mb} MB" if least_mb else "") + (" for jobs with several" if name == MANY else "")
