"""Divisible GPUs: the places of their instances on a node, and the present layout of each GPU.

A node's places are those of its whole GPUs (`Gres=`), followed, for every profile, by as many as all layouts of its
divisible GPUs together can need. So the planner and submissions know all kinds, whatever layout is in force. A place
whose GPU or instance does not exist now is closed (gpus/inventory.py).
At any time a node has fewer devices than places: `totals`.

Pure functions of a node's configuration and its GPUs. Divisions are decided in passes/mig_division.py.
"""

from ctld.core.records.gpu import Gpu
from ctld.core.records.node import Node
from penstock.values.config import NodeConfig
from penstock.values.gres import GPU as GPU
from penstock.values.gres import Gres
from penstock.values.mig import GpuLayout, MigChoice, extra_places, in_order, is_profile, is_type, most_at_once

MigKind = tuple[str, str]


def gres_of(config: NodeConfig) -> tuple[Gres, ...]:
    """Returns the GRES that a node may ever have, with the places of all layouts."""
    return (*config.gres, *(Gres(GPU, profile, count) for profile, count in extra_places(config.mig)))


def totals(config: NodeConfig, kinds: dict[MigKind, int]) -> dict[MigKind, int]:
    """Returns by kind of device (masks of places) the most that the node can have of it at one time."""
    found = {kind: mask.bit_count() for kind, mask in kinds.items()}
    if config.mig:
        whole = config.gpu_count()
        found[GPU, ""] = min(found[GPU, ""], whole + most_at_once(config.mig))
    return found


def choices_of(node: Node) -> list[tuple[Gpu, MigChoice]]:
    """The node's present divisible GPUs, by index, with their possible layouts."""
    if not node.config.mig:
        return []
    wholes = sorted((g for g in node.gpus.values() if not g.facts.parent), key=lambda g: (g.facts.index, g.uuid))
    found: list[tuple[Gpu, MigChoice]] = []
    for choice in node.config.mig:
        mine = [gpu for gpu in wholes if choice.type.lower() in gpu.facts.type.lower()]
        found += [(gpu, choice) for gpu in mine[choice.first : choice.first + choice.count] if gpu.is_there]
    return sorted(found, key=lambda pair: (pair[0].facts.index, pair[0].uuid))


def instances_of(node: Node, uuid: str) -> list[Gpu]:
    """The present MIG instances of a GPU, by place."""
    mine = (gpu for gpu in node.gpus.values() if gpu.facts.parent == uuid and gpu.is_there)
    return sorted(mine, key=lambda gpu: (gpu.slot < 0, gpu.slot, gpu.uuid))


def layout_now(node: Node, gpu: Gpu) -> GpuLayout | None:
    """Returns the present layout of a GPU; None = one that no layout describes: MIG mode without instances."""
    if not gpu.facts.mig_enabled:
        return ()
    profiles = [one.facts.profile or one.facts.type for one in instances_of(node, gpu.uuid)]
    return in_order(profiles) if profiles and all(map(is_profile, profiles)) else None


def places_of(node: Node, gpu: Gpu) -> int:
    """The places of a GPU or of its instances, as a mask."""
    return sum(1 << one.slot for one in (gpu, *instances_of(node, gpu.uuid)) if one.slot >= 0)


def counts(node: Node, layout: GpuLayout, type_: str) -> dict[MigKind, int]:
    """Returns by kind how many devices of it a GPU of that type is in a layout."""
    names = layout or (type_,)
    found: dict[MigKind, int] = {}
    for kind in node.inside.kinds:
        if kind[0] == GPU:
            fits = sum(1 for name in names if (is_type(kind[1], name) if layout else kind[1] in ("", name)))
            if fits:
                found[kind] = fits
    return found


def shown_gres(node: Node) -> tuple[Gres, ...]:
    """Returns the node's present GRES, as shown to users: divided GPUs are omitted, their instances added."""
    config: NodeConfig = node.config
    if not config.mig:
        return config.gres
    less: dict[str, int] = {}
    more: dict[str, int] = {}
    for gpu, choice in choices_of(node):
        layout = layout_now(node, gpu)
        if layout == ():
            continue
        less[choice.type] = less.get(choice.type, 0) + 1
        for profile in layout or ():
            more[profile] = more.get(profile, 0) + 1
    kept = [
        Gres(one.name, one.type, one.count - (less.get(one.type, 0) if one.name == GPU else 0), one.units)
        for one in config.gres
    ]
    added = [Gres(GPU, profile, count) for profile, count in sorted(more.items())]
    return tuple(one for one in (*kept, *added) if one.count)
