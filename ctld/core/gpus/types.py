"""Completes a node's configuration from its GPUs: types that the file leaves open, and features.

`Gres=gpu:8` gives the number and not the type. Once the node has registered, its places get the types that were found,
as with Slurm's AutoDetect: `gpu:h200:8`. A type in the file keeps its name. If a node has more GPUs than the file says,
the first of them count, in the node's order. If it has fewer, the missing ones are assumed to be of the type that was
there before, or of the most frequent one: their places are closed, and the node's size stays that of the file.

While a job holds a GPU of the node, the types in force stay (Gpu.given_as): its allocation refers to them.

Features, for --constraint: `gpu_h200` (model), `gpu_cc_9.0` (compute capability of CUDA), `gpu_mem_140g` (memory in
binary GB, rounded down).
"""

from collections.abc import Mapping
from dataclasses import replace

from ctld.core.records.gpu import Gpu, GpuFacts
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU, allocated_slots
from penstock.values.config import NodeConfig
from penstock.values.gres import Gres
from penstock.values.mig import is_type

MB_PER_GB = 1_024


def type_of(facts: GpuFacts) -> str:
    """The type as a name that jobs can ask for."""
    text = (facts.profile if facts.parent else "") or facts.type
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-.") else "_" for char in text.lower())


def is_of_type(facts: GpuFacts, type_: str) -> bool:
    """Whether a found type matches the configured one. As Slurm: the configured type may be a part of what was found
    ("a100" of "a100_1g.5gb"); "" is any.
    """
    if facts.parent:
        return is_type(type_, (facts.profile or facts.type).lower())
    found = type_of(facts)
    return type_.lower() in found or (bool(found) and found in type_.lower()) or not found


def in_force(node: Node, raw: NodeConfig) -> NodeConfig:
    """Returns the node's line of the file, completed with the GPU types that may be used now."""
    gres = _refined(raw, _in_order(node.gpus, bool(allocated_slots(node))))
    return raw if gres == raw.gres else replace(raw, gres=gres)


def learned(node: Node, raw: NodeConfig) -> tuple[Gres, ...]:
    """Returns the node's line as it will be when no job holds a GPU there."""
    return _refined(raw, _in_order(node.gpus, False))


def features_of(node: Node, raw: NodeConfig) -> tuple[str, ...]:
    """Returns the file's features, and those of the GPUs that have a place or are divided."""
    found: list[str] = list(raw.features)
    here = [gpu for gpu in node.gpus.values() if gpu.slot >= 0 or (gpu.is_there and gpu.facts.mig_enabled)]
    for gpu in sorted(here, key=lambda gpu: (gpu.slot, gpu.uuid)):
        facts = gpu.facts
        words = (
            f"gpu_{type_of(facts)}" if facts.type else "",
            f"gpu_cc_{facts.capability}" if facts.capability.replace(".", "").isdecimal() else "",
            f"gpu_mem_{facts.memory_mb // MB_PER_GB}g" if facts.memory_mb >= MB_PER_GB else "",
        )
        found += [word for word in words if word and word not in found]
    return tuple(found)


def _in_order(gpus: Mapping[str, Gpu], held: bool) -> list[tuple[str, Gpu]]:
    """Returns (type, GPU) of those that may have a place, in order: present ones before missing ones."""
    if held:
        placed = sorted((gpu for gpu in gpus.values() if gpu.slot >= 0), key=lambda gpu: gpu.slot)
        return [(gpu.given_as, gpu) for gpu in placed]
    there = [gpu for gpu in gpus.values() if gpu.is_there and not gpu.facts.mig_enabled]
    gone = [gpu for gpu in gpus.values() if not gpu.is_there and gpu.slot >= 0]
    there.sort(key=lambda gpu: (gpu.position, gpu.uuid))
    gone.sort(key=lambda gpu: gpu.slot)
    return [(type_of(gpu.facts), gpu) for gpu in (*there, *gone)]


def _refined(raw: NodeConfig, found: list[tuple[str, Gpu]]) -> tuple[Gres, ...]:
    if raw.mig or not found or all(one.type for one in raw.gres if one.name == GPU):
        return raw.gres
    for one in raw.gres:
        if one.name == GPU and one.type:
            mine = [pair for pair in found if pair[0] == one.type or is_of_type(pair[1].facts, one.type)][: one.count]
            found = [pair for pair in found if pair not in mine]
    refined: list[Gres] = []
    for one in raw.gres:
        if one.name != GPU or one.type:
            refined.append(one)
            continue
        counts: dict[str, int] = {}
        for type_, _ in found[: one.count]:
            counts[type_] = counts.get(type_, 0) + 1
        found = found[one.count :]
        if counts:
            most = max(counts, key=lambda type_: counts[type_])
            counts[most] += one.count - sum(counts.values())
        refined += [Gres(GPU, type_, count) for type_, count in (counts or {"": one.count}).items()]
    return tuple(refined)
