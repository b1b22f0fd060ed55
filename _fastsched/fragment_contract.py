"""The contract of fractional placement: policies, columns, results. The rules are in fragment_reference.py.

Numbers only: a node, a model of GPU, a shape of pod is an index. One GPU has GPU_MILLI thousandths. All columns are
C-contiguous numpy arrays; names end in the unit. Pods with equal requests share a row of `Shapes`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GPU_MILLI = 1000
#: Maximum number of GPUs of a node: bits of a result's mask.
GPUS_MAX = 32
#: Models of GPU are bits of a mask.
MODELS_MAX = 64
#: The largest sum of weights: keeps every sum of scores within 63 bits.
WEIGHT_MAX = 1_000_000_000
#: The largest node of the published study, the unit of two of its policies.
LARGEST_CPU_MILLI = 128_000
LARGEST_GPU_MILLI = 8_000

RANDOM, DOT_PRODUCT, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD, STEER = range(7)
#: Names by policy, in the order of the published tables; our own is last.
POLICIES = ("random", "dotprod", "clustering", "packing", "bestfit", "fgd", "steer")


class FragmentNodes(NamedTuple):
    """The free resources, one row a node."""

    cpu_milli: NDArray[np.int64]
    mem_mb: NDArray[np.int64]
    gpus: NDArray[np.int32]
    model: NDArray[np.int32]
    rank: NDArray[np.int32]  # lowest wins among equal scores; no two are equal
    free_milli: NDArray[np.int32]  # nodes x GPUs; columns beyond a node's `gpus` count as absent


class Shapes(NamedTuple):
    """The requests of pods: `gpus` GPUs with `share_milli` of each; 0 = a pod without a GPU."""

    cpu_milli: NDArray[np.int64]
    mem_mb: NDArray[np.int64]
    gpus: NDArray[np.int32]
    share_milli: NDArray[np.int32]
    models: NDArray[np.uint64]  # bit m: a GPU of model m is accepted


class Classes(NamedTuple):
    """The known distribution of arriving pods: `weight` pods of this kind, out of the sum of all weights."""

    cpu_milli: NDArray[np.int64]
    gpus: NDArray[np.int32]
    share_milli: NDArray[np.int32]
    models: NDArray[np.uint64]
    weight: NDArray[np.int64]
    #: The weight as a part of 1. It affects only how FGD's published arithmetic rounds where its score is a tie.
    probability: NDArray[np.float64]


class NodeSizes(NamedTuple):
    """The resources of the cluster's nodes when nothing runs there, one row a node."""

    gpus: NDArray[np.int32]
    cpu_milli: NDArray[np.int64]


NO_NODES = NodeSizes(np.zeros(0, np.int32), np.zeros(0, np.int64))


class Placements(NamedTuple):
    """One row a pod, in order of arrival."""

    node: NDArray[np.int32]  # -1: it fits on no node
    gpus: NDArray[np.uint32]  # bit g: GPU g of that node
    fragmentation: NDArray[np.int64]  # of all nodes after this pod, in GPU milli times the sum of the weights


def problem(nodes: FragmentNodes, shapes: Shapes, pod_shape: NDArray[np.int32], models: int) -> str:
    """Returns why these columns are invalid, or nothing."""
    gpus = nodes.free_milli.shape[1] if nodes.free_milli.ndim == 2 else 0
    checks = (
        (1 <= gpus <= GPUS_MAX, f"free_milli needs 1 to {GPUS_MAX} columns"),
        (_within(nodes.gpus, 0, gpus), "a node has more GPUs than free_milli has columns"),
        (_within(nodes.free_milli, 0, GPU_MILLI), f"free_milli is not within 0 and {GPU_MILLI}"),
        (_within(nodes.model, 0, models - 1), f"a model of GPU is not within 0 and {models - 1}"),
        (len(np.unique(nodes.rank)) == len(nodes.rank), "two nodes have the same rank"),
        (_within(pod_shape, 0, len(shapes.gpus) - 1), "a pod has a shape that is not there"),
    )
    wrong = next((text for holds, text in checks if not holds), "")
    return uneven(nodes) or uneven(shapes) or wrong or problem_of_demands(shapes.gpus, shapes.share_milli)


def problem_of_classes(classes: Classes) -> str:
    """Returns why this distribution is invalid, or nothing."""
    if wrong := uneven(classes) or problem_of_demands(classes.gpus, classes.share_milli):
        return wrong
    if not _within(classes.weight, 1, WEIGHT_MAX) or int(classes.weight.sum()) > WEIGHT_MAX:
        return f"the weights of the classes are not within 1 and, together, {WEIGHT_MAX}"
    return ""


def problem_of_demands(count: NDArray[np.int32], share_milli: NDArray[np.int32]) -> str:
    if not _within(count, 0, GPUS_MAX):
        return f"a count of GPUs is not within 0 and {GPUS_MAX}"
    return "" if _within(share_milli[count > 0], 1, GPU_MILLI) else f"a share is not within 1 and {GPU_MILLI}"


def uneven(table: FragmentNodes | Shapes | Classes | NodeSizes) -> str:
    """Returns the column whose number of rows differs from the first's."""
    rows = len(table.cpu_milli)
    for name in table._fields:
        if (found := len(getattr(table, name))) != rows:
            return f"column {name} of {type(table).__name__} has {found} rows, not {rows}"
    return ""


def _within(column: NDArray[np.int32] | NDArray[np.int64], low: int, high: int) -> bool:
    return len(column) == 0 or bool(column.min() >= low and column.max() <= high)
