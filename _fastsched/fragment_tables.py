"""The distribution of what arrives, folded into tables, so that the worth of a node takes a few additions.

Fragmentation. F(node) is a sum over classes (fragment_reference.py). A class of one GPU that no GPU of the node can hold
counts every idle milli, and so does the sum of the GPUs that are too small for it: the same number. So for classes of one
GPU F is a sum over GPUs, f * weight(classes that f is too small for), and only classes of several GPUs count GPUs. Which
classes the node's CPUs and model allow depends on the model and on which of the classes' CPU requests fit.

Steering (policy `steer`). What it adds to F, and why, is in fragment_reference.py; here are its prices.

Integers: weights are counts of pods, not probabilities, and fractions are multiplied out (SCALE) or rounded once.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import GPU_MILLI, MODELS_MAX, Classes, problem_of_classes
from _fastsched.fragment_holes import holes

#: All costs of steering are multiplied by this, so that its fractions are integers.
SCALE = 20
#: How many times the mean of CPU per GPU the rest of a node should keep; the mean of the shortages over these counts.
CPU_RESERVES = (1.0, 1.25, 1.5, 2.0)
#: A shortage of CPUs strands GPUs: cost of one stranded milli at one level (SCALE / number of levels: 1 for all together).
STRANDED = SCALE // len(CPU_RESERVES)
#: To open a node whose GPUs were all whole, for each of its GPU milli: 1/20.
BROKEN = SCALE // 20
#: How much a model's load counts, for each GPU milli used.
LOAD = 2 * SCALE
#: A model that a few classes need and hardly any node has is not dearer than this many times the mean.
LOAD_MAX = 100.0
#: Fractions of `support` are in 1/2**20.
FRACTION_BITS = 20


class Tables(NamedTuple):
    """Indices: m model, c how many of `cpu_milli` fit, b bucket of a GPU's free milli, g group of several GPUs."""

    classes: Classes
    total_weight: int
    step: NDArray[np.int64]  # FGD's score s + 1 needs at least the gain step[s]
    cpu_milli: NDArray[np.int64]  # the classes' CPU requests, ascending, each once
    bucket: NDArray[np.int32]  # by free milli, 0 to GPU_MILLI
    blocked: NDArray[np.int64]  # m, c: weight of classes that can use nothing here, however idle
    too_small: NDArray[np.int64]  # m, c, b: weight of the other classes whose share is above this
    group_share_milli: NDArray[np.int32]
    group_count: NDArray[np.int32]
    group_weight: NDArray[np.int64]  # m, c, g
    hole_milli: NDArray[np.int64]  # by free milli: what of it will stay idle
    support: NDArray[np.int64]  # by level: GPU milli that a CPU milli can serve, in 1/2**FRACTION_BITS
    price: NDArray[np.int64]  # m: cost of using a GPU milli of this model


def prepare(classes: Classes, supply_gpus: NDArray[np.int64]) -> Tables:
    """The tables of these classes for GPU models 0 to len(supply_gpus) - 1, of which there are so many GPUs.

    ValueError says what is wrong with the classes.
    """
    if wrong := problem_of_classes(classes):
        raise ValueError(wrong)
    if len(supply_gpus) > MODELS_MAX:
        raise ValueError(f"more than {MODELS_MAX} models of GPU")
    wants = classes.gpus > 0
    cpus = np.unique(classes.cpu_milli)
    shares = np.unique(classes.share_milli[wants])
    groups = sorted({(int(s), int(n)) for s, n in zip(classes.share_milli, classes.gpus, strict=True) if n > 1})
    total = int(classes.weight.sum())
    models = len(supply_gpus)
    blocked = np.full((models, len(cpus) + 1), total, dtype=np.int64)
    too_small = np.zeros((models, len(cpus) + 1, len(shares) + 1), dtype=np.int64)
    weight = np.zeros((models, len(cpus) + 1, max(1, len(groups))), dtype=np.int64)
    for row in np.flatnonzero(wants):
        first = int(np.searchsorted(cpus, classes.cpu_milli[row])) + 1
        level = int(np.searchsorted(shares, classes.share_milli[row])) + 1
        wide = int(classes.gpus[row])
        for model in allowed(int(classes.models[row]), models):
            blocked[model, first:] -= classes.weight[row]
            too_small[model, first:, :level] += classes.weight[row]
            if wide > 1:
                weight[model, first:, groups.index((int(classes.share_milli[row]), wide))] += classes.weight[row]
    return Tables(
        classes=classes,
        total_weight=total,
        step=score_steps(total),
        cpu_milli=cpus.astype(np.int64),
        bucket=np.searchsorted(shares, np.arange(GPU_MILLI + 1), side="right").astype(np.int32),
        blocked=blocked,
        too_small=too_small,
        group_share_milli=np.array([share for share, _ in groups], dtype=np.int32),
        group_count=np.array([count for _, count in groups], dtype=np.int32),
        group_weight=weight,
        hole_milli=holes(classes),
        support=_support(classes),
        price=_prices(classes, supply_gpus, total),
    )


def allowed(mask: int, models: int) -> list[int]:
    """The models of a mask, of those that there are."""
    return [model for model in range(models) if mask >> model & 1]


def published_score(gain: float) -> int:
    """FGD's score, 0 to 100, of a drop of fragmentation by so many GPU milli; in the study's order of operations."""
    return int(1.0 / (1.0 + math.exp(-gain / GPU_MILLI)) * 100.0)


def score_steps(total_weight: int) -> NDArray[np.int64]:
    """For scores 1 to 100 the least gain (GPU milli times weight) that reaches them; the score never falls as it grows."""
    bound = 40 * GPU_MILLI * max(1, total_weight)  # beyond it the exponential has no effect on an integer of two digits
    steps = np.empty(100, dtype=np.int64)
    for score in range(1, 101):
        low, high = -bound, bound
        while low < high:
            middle = (low + high) // 2
            if published_score(middle / max(1, total_weight)) >= score:
                high = middle
            else:
                low = middle + 1
        steps[score - 1] = low
    return steps


def _support(classes: Classes) -> NDArray[np.int64]:
    """How many GPU milli a CPU milli can serve, for each reserve; none if nothing with a GPU asks for CPUs."""
    gpu_milli = int((classes.weight * classes.gpus * classes.share_milli).sum())
    cpu_milli = int((classes.weight * classes.cpu_milli)[classes.gpus > 0].sum())
    reserves = CPU_RESERVES if cpu_milli else ()
    return np.array([round(gpu_milli / (cpu_milli * r) * 2**FRACTION_BITS) for r in reserves], dtype=np.int64)


def _prices(classes: Classes, supply_gpus: NDArray[np.int64], total_weight: int) -> NDArray[np.int64]:
    """Cost of a milli of each model: its load, which is 1 for all models where every class may use every model."""
    load = np.zeros(len(supply_gpus))
    wish = classes.weight * classes.gpus * classes.share_milli
    for row in np.flatnonzero(wish):
        models = allowed(int(classes.models[row]), len(supply_gpus))
        if supply := int(supply_gpus[models].sum()):
            load[models] += float(wish[row]) / float(wish.sum()) * float(supply_gpus.sum()) / supply
    prices: NDArray[np.int64] = np.rint(np.minimum(load, LOAD_MAX) * LOAD * total_weight).astype(np.int64)
    return prices
