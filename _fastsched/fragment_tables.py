"""The distribution of arriving pods as tables, so that the worth of a node takes a few additions.

Fragmentation. F(node) is a sum over classes (fragment_reference.py). A class of one GPU that no GPU of the node can hold
counts every idle milli, and so does the sum of the GPUs that are too small for it: the same number. So for classes of one
GPU F is a sum over GPUs, f * weight(classes for which f is too small), and only classes of several GPUs count GPUs. The
classes that the node's CPUs and model allow depend on the model and on which of the classes' CPU requests fit.

Steering (policy `steer`). Its additions to F, and the reasons, are in fragment_reference.py; here are its prices.

Integers: weights are counts of pods, not probabilities, and fractions are multiplied out (SCALE) or, exact until then,
rounded once. The logarithms that FGD's scores need are decimals of 60 digits, the same on every machine, rounded up once.
"""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import (
    GPU_MILLI,
    GPUS_MAX,
    MODELS_MAX,
    NO_NODES,
    Classes,
    NodeSizes,
    problem_of_classes,
    uneven,
)
from _fastsched.fragment_holes import holes

#: All costs of steering are multiplied by this, so that its fractions are integers.
SCALE = 20
#: Multiples of the mean of CPU per GPU that the rest of a node should keep; the mean of the shortages over these counts.
CPU_RESERVES = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(2))
#: Cost of one GPU milli stranded for lack of CPUs, at one level (SCALE / number of levels: 1 for all together).
STRANDED = SCALE // len(CPU_RESERVES)
#: Cost of using a node whose GPUs were all whole, for each of its GPU milli: 1/20.
BROKEN = SCALE // 20
#: Cost of using a node that has more CPUs than all others with as many GPUs, for each of its GPU milli, if jobs that take
#: all GPUs of such nodes need all of them: 1/5.
LARGE = SCALE // 5
#: Weight of a model's load, for each GPU milli used.
LOAD = 2 * SCALE
#: Maximum load, as a multiple of the mean, of a model that a few classes need and hardly any node has.
LOAD_MAX = 100
#: Fractions of `support` are in 1/2**20.
FRACTION_BITS = 20
#: Enough that no product of a logarithm and a weight comes near an integer without being one.
_DIGITS: Final = Context(prec=60)


class Tables(NamedTuple):
    """Indices: m model, c how many of `cpu_milli` fit, b bucket of a GPU's free milli, g group of several GPUs."""

    classes: Classes
    total_weight: int
    step: NDArray[np.int64]  # FGD's score s + 1 needs at least the gain step[s]
    cpu_milli: NDArray[np.int64]  # the classes' CPU requests, ascending, each once
    bucket: NDArray[np.int32]  # by free milli, 0 to GPU_MILLI
    blocked: NDArray[np.int64]  # m, c: weight of classes that can use nothing here, whatever is idle
    too_small: NDArray[np.int64]  # m, c, b: weight of the other classes whose share is above this
    group_share_milli: NDArray[np.int32]
    group_count: NDArray[np.int32]
    group_weight: NDArray[np.int64]  # m, c, g
    hole_milli: NDArray[np.int64]  # by free milli: the part of it that will stay idle
    support: NDArray[np.int64]  # by level: GPU milli that a CPU milli can serve, in 1/2**FRACTION_BITS
    price: NDArray[np.int64]  # m: cost of using a GPU milli of this model
    node_cpu_milli: NDArray[np.int64]  # CPUs of the cluster's nodes, ascending, each once
    intact: NDArray[np.int64]  # GPUs of a node, how many of `node_cpu_milli` fit: worth of a node with whole GPUs only


def prepare(classes: Classes, supply_gpus: NDArray[np.int64], sizes: NodeSizes = NO_NODES) -> Tables:
    """Computes the tables of these classes for GPU models 0 to len(supply_gpus) - 1 with these numbers of GPUs, and for
    nodes of these sizes.

    Raises ValueError for invalid classes or sizes.
    """
    if wrong := problem_of_classes(classes) or uneven(sizes):
        raise ValueError(wrong)
    if len(sizes.gpus) and not 0 <= sizes.gpus.min() <= sizes.gpus.max() <= GPUS_MAX:
        raise ValueError(f"a node has more than {GPUS_MAX} GPUs, or fewer than none")
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
        node_cpu_milli=np.unique(sizes.cpu_milli).astype(np.int64),
        intact=_intact(classes, sizes, total),
    )


def allowed(mask: int, models: int) -> list[int]:
    """Returns the existing models of a mask."""
    return [model for model in range(models) if mask >> model & 1]


@cache
def _gains() -> tuple[Decimal, ...]:
    """Returns by score from 1 to 100 the least gain in GPUs that reaches it; the same for all distributions.

    FGD's published score is sigmoid(gain) in hundredths, rounded down; sigmoid(x) >= s / 100 exactly where
    x >= ln(s / (100 - s)). At 53 ln 2 the sigmoid is within 2**-53 of 1, which double precision, in which it was published,
    cannot tell from 1: the score is 100 from there on.
    """
    odds = (_DIGITS.divide(Decimal(score), Decimal(100 - score)) for score in range(1, 100))
    return (*(_DIGITS.ln(ratio) for ratio in odds), _DIGITS.multiply(Decimal(53), _DIGITS.ln(Decimal(2))))


def score_steps(total_weight: int) -> NDArray[np.int64]:
    """Returns for scores 1 to 100 the least gain (GPU milli times weight) that reaches them."""
    unit = Decimal(GPU_MILLI * max(1, total_weight))
    steps = [_DIGITS.multiply(gain, unit).to_integral_value(ROUND_CEILING) for gain in _gains()]
    return np.array([int(step) for step in steps], dtype=np.int64)


def score_of_tie(before: float, after: float) -> int:
    """Returns FGD's published score of a gain that is 0 but for the rounding of its two sums: 50, or 49 if that is large.

    The sigmoid needs exp(x) for an x of which the square is beyond double precision: there 1 + x is exp(x), to the last bit.
    """
    return int(1.0 / (1.0 + (1.0 + (after - before) / GPU_MILLI)) * 100.0)


def _support(classes: Classes) -> NDArray[np.int64]:
    """Returns how many GPU milli a CPU milli can serve, for each reserve; none if no class with a GPU requests CPUs."""
    gpu_milli = int((classes.weight * classes.gpus * classes.share_milli).sum())
    cpu_milli = int((classes.weight * classes.cpu_milli)[classes.gpus > 0].sum())
    reserves = CPU_RESERVES if cpu_milli else ()
    return np.array([round((gpu_milli << FRACTION_BITS) / (cpu_milli * r)) for r in reserves], dtype=np.int64)


def _intact(classes: Classes, sizes: NodeSizes, total_weight: int) -> NDArray[np.int64]:
    """Returns the worth of a node whose GPUs are all whole: it rises with the number of nodes with as many GPUs and fewer
    CPUs, and with how many of these nodes are needed by jobs that take all GPUs of one.

    Frequent classes need not include the largest jobs, so the nodes that these will need do not follow from the classes.
    """
    levels = np.unique(sizes.cpu_milli)
    worth = np.zeros((GPUS_MAX + 1, len(levels) + 1), np.int64)
    demand = classes.weight * classes.gpus * classes.share_milli
    whole = classes.share_milli == GPU_MILLI
    for gpus in np.unique(sizes.gpus[sizes.gpus > 1]).tolist() if demand.any() else ():
        cpus = np.sort(sizes.cpu_milli[sizes.gpus == gpus])
        wanted = int(demand[whole & (classes.gpus == gpus)].sum()) * int(sizes.gpus.sum())
        load = min(Fraction(wanted, int(demand.sum()) * gpus * len(cpus)), Fraction(1))
        for level, cpu_milli in enumerate(levels):
            smaller = Fraction(int(np.searchsorted(cpus, cpu_milli)), len(cpus))
            worth[gpus, level + 1] = round(load * smaller * LARGE * GPU_MILLI * gpus * total_weight)
    return worth


def _prices(classes: Classes, supply_gpus: NDArray[np.int64], total_weight: int) -> NDArray[np.int64]:
    """Returns the cost of a milli of each model: its load, which is 1 for all models if every class may use every model."""
    supply = [int(gpus) for gpus in supply_gpus]
    demand = [int(milli) for milli in classes.weight * classes.gpus * classes.share_milli]
    load = [Fraction(0)] * len(supply)
    for row, milli in enumerate(demand):
        models = allowed(int(classes.models[row]), len(supply)) if milli else []
        if usable := sum(supply[model] for model in models):
            for model in models:
                load[model] += Fraction(milli * sum(supply), sum(demand) * usable)
    return np.array([round(min(part, Fraction(LOAD_MAX)) * LOAD * total_weight) for part in load], dtype=np.int64)
