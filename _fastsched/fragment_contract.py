"""Words of fractional placement: policies, columns, answers. What the rules are is written in fragment_reference.py.

Numbers only: a node, a model of GPU, a shape of pod is an index. One GPU has GPU_MILLI thousandths. All columns are
C-contiguous numpy arrays; names end in the unit. Pods of equal wishes share a row of `Shapes`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GPU_MILLI = 1000
#: No node has more GPUs than bits in an answer's mask.
GPUS_MAX = 32
#: Models of GPU are bits of a mask.
MODELS_MAX = 64
#: The largest sum of weights: keeps every sum of scores within 63 bits.
WEIGHT_MAX = 1_000_000_000
#: The largest node of the published study: two of its policies measure by it.
LARGEST_CPU_MILLI = 128_000
LARGEST_GPU_MILLI = 8_000

RANDOM, DOT_PRODUCT, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD, STEER = range(7)
#: Names by policy; the order is the one of the published tables, and ours last.
POLICIES = ("random", "dotprod", "clustering", "packing", "bestfit", "fgd", "steer")


class Nodes(NamedTuple):
    """The free resources, one row a node."""

    cpu_milli: NDArray[np.int64]
    mem_mb: NDArray[np.int64]
    gpus: NDArray[np.int32]
    model: NDArray[np.int32]
    rank: NDArray[np.int32]  # lowest wins among equal scores; no two are equal
    free_milli: NDArray[np.int32]  # nodes x GPUs; what is behind a node's `gpus` counts as absent


class Shapes(NamedTuple):
    """What pods ask for: `gpus` GPUs with `share_milli` of each; 0 of them is a pod without a GPU."""

    cpu_milli: NDArray[np.int64]
    mem_mb: NDArray[np.int64]
    gpus: NDArray[np.int32]
    share_milli: NDArray[np.int32]
    models: NDArray[np.uint64]  # bit m: a GPU of model m will do


class Classes(NamedTuple):
    """The known distribution of what arrives: `weight` pods of this kind, out of the sum of all weights."""

    cpu_milli: NDArray[np.int64]
    gpus: NDArray[np.int32]
    share_milli: NDArray[np.int32]
    models: NDArray[np.uint64]
    weight: NDArray[np.int64]
    #: The weight as a part of 1. It decides one thing: how FGD's published arithmetic rounds where its score is a tie.
    probability: NDArray[np.float64]


class Placements(NamedTuple):
    """One row a pod, in order of arrival."""

    node: NDArray[np.int32]  # -1: no node could take it
    gpus: NDArray[np.uint32]  # bit g: GPU g of that node
    fragmentation: NDArray[np.int64]  # of all nodes after this pod, in GPU milli times the sum of the weights


def problem(nodes: Nodes, shapes: Shapes, pod_shape: NDArray[np.int32], models: int) -> str:
    """Why these columns cannot be computed with, or nothing."""
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
    return uneven(nodes) or uneven(shapes) or wrong or problem_of_wishes(shapes.gpus, shapes.share_milli)


def problem_of_classes(classes: Classes) -> str:
    """Why this distribution cannot be computed with, or nothing."""
    if wrong := uneven(classes) or problem_of_wishes(classes.gpus, classes.share_milli):
        return wrong
    if not _within(classes.weight, 1, WEIGHT_MAX) or int(classes.weight.sum()) > WEIGHT_MAX:
        return f"the weights of the classes are not within 1 and, together, {WEIGHT_MAX}"
    return ""


def problem_of_wishes(count: NDArray[np.int32], share_milli: NDArray[np.int32]) -> str:
    if not _within(count, 0, GPUS_MAX):
        return f"a count of GPUs is not within 0 and {GPUS_MAX}"
    return "" if _within(share_milli[count > 0], 1, GPU_MILLI) else f"a share is not within 1 and {GPU_MILLI}"


def uneven(table: Nodes | Shapes | Classes) -> str:
    """Which column has not as many rows as the first."""
    rows = len(table.cpu_milli)
    for name in table._fields:
        if (found := len(getattr(table, name))) != rows:
            return f"column {name} of {type(table).__name__} has {found} rows, not {rows}"
    return ""


def _within(column: NDArray[np.int32] | NDArray[np.int64], low: int, high: int) -> bool:
    return len(column) == 0 or bool(column.min() >= low and column.max() <= high)
