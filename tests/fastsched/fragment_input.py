"""Input of fractional placement from a few words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from _fastsched.fragment_contract import GPU_MILLI, Classes, FragmentNodes, NodeSizes, Shapes
from _fastsched.fragment_tables import Tables, prepare

ANY = (1 << 64) - 1


@dataclass(frozen=True)
class Node:
    free: tuple[int, ...] = (GPU_MILLI,)
    cpu: int = 32_000
    mem: int = 100_000
    model: int = 0


@dataclass(frozen=True)
class Pod:
    """A shape, and a class when it has a weight."""

    gpus: int = 1
    share: int = GPU_MILLI
    cpu: int = 1_000
    mem: int = 1_000
    models: int = ANY
    weight: int = 1


def nodes_of(nodes: Sequence[Node], rank: Sequence[int] | None = None) -> FragmentNodes:
    width = max([1, *(len(node.free) for node in nodes)])
    free = [[*node.free, *[0] * (width - len(node.free))] for node in nodes]
    return FragmentNodes(
        cpu_milli=np.array([node.cpu for node in nodes], np.int64),
        mem_mb=np.array([node.mem for node in nodes], np.int64),
        gpus=np.array([len(node.free) for node in nodes], np.int32),
        model=np.array([node.model for node in nodes], np.int32),
        rank=np.array(range(len(nodes)) if rank is None else rank, np.int32),
        free_milli=np.array(free, np.int32).reshape(len(nodes), width),
    )


def shapes_of(pods: Sequence[Pod]) -> Shapes:
    return Shapes(
        cpu_milli=np.array([pod.cpu for pod in pods], np.int64),
        mem_mb=np.array([pod.mem for pod in pods], np.int64),
        gpus=np.array([pod.gpus for pod in pods], np.int32),
        share_milli=np.array([pod.share if pod.gpus else 0 for pod in pods], np.int32),
        models=np.array([pod.models for pod in pods], np.uint64),
    )


def classes_of(pods: Sequence[Pod]) -> Classes:
    weight = np.array([pod.weight for pod in pods], np.int64)
    shapes = shapes_of(pods)
    return Classes(
        cpu_milli=shapes.cpu_milli,
        gpus=shapes.gpus,
        share_milli=shapes.share_milli,
        models=shapes.models,
        weight=weight,
        probability=weight / max(1, weight.sum()),
    )


def tables_of(pods: Sequence[Pod], nodes: FragmentNodes, models: int = 0) -> Tables:
    supply = np.bincount(nodes.model, nodes.gpus, minlength=max(1, models)).astype(np.int64)
    return prepare(classes_of(pods), supply, NodeSizes(nodes.gpus, nodes.cpu_milli))
