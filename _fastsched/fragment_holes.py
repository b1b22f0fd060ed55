"""Computes how much of a hole in a GPU will stay idle when arriving shares are packed as well as possible.

A GPU with f milli free is a bin of size f. The arriving shares, each with its frequency, are a cutting-stock problem: the
smallest number of GPUs that holds them all. The dual prices of its linear programme are the worth of a share in GPUs, and
a hole is worth the dearest set of shares that fits into it (a knapsack). The part of the hole beyond its worth stays idle:

    hole(f) = f - GPU_MILLI * max(sum of prices of shares whose sizes add up to at most f)

Example of the default trace: 810 is worth a whole GPU (nothing frequent fills the other 190), 470 a half, 320 a third. So
530 free milli stay idle by 30 (one more 470 fits), but after a 320 there 210 are lost: it is better to use another GPU.

Solved by column generation (Gilmore and Gomory 1961): a revised simplex with as many rows as sizes, and the knapsack as
pricing. Sizes are rounded up to GRAIN_MILLI, so there are at most 99.

Floating point, rounded to whole milli at the end, and nevertheless the same on every machine: every operation is a single
addition, subtraction, multiplication or division of IEEE 754, whose result is defined to the last bit, and their order is
fixed here. So it uses no linear algebra of a library, which adds up in an order of its own, nor a sum of numpy's along an
axis, whose order numpy may choose.
"""

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import GPU_MILLI, Classes

#: A hundredth of a GPU: finer requests do not justify finer prices.
GRAIN_MILLI = 10
CAPACITY = GPU_MILLI // GRAIN_MILLI
#: Maximum number of columns that enter; beyond it the current prices are used. The default trace needs 11 for its 11 sizes.
ROUNDS_MAX = 500
#: A set of shares whose worth exceeds a GPU by less than this does not matter.
GAIN_MIN = 1e-3
TOLERANCE = 1e-9


def holes(classes: Classes) -> NDArray[np.int64]:
    """Returns by free milli, 0 to GPU_MILLI, how many of them will stay idle."""
    shared = (classes.gpus == 1) & (classes.share_milli < GPU_MILLI)
    sizes, row = np.unique(-(-classes.share_milli[shared] // GRAIN_MILLI), return_inverse=True)
    demand = np.bincount(row, weights=classes.weight[shared], minlength=len(sizes)).astype(np.float64)
    packable = sizes < CAPACITY
    worth = _worth(sizes[packable].astype(np.int64), demand[packable])
    free = np.arange(GPU_MILLI + 1)
    idle = free - GPU_MILLI * np.minimum(worth[free // GRAIN_MILLI], 1.0)
    idle[GPU_MILLI] = 0  # every request can use a whole GPU
    found: NDArray[np.int64] = np.maximum(np.rint(idle), 0).astype(np.int64)
    return found


def _worth(sizes: NDArray[np.int64], demand: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns by free grains the worth, in GPUs, of the dearest set of shares that fits."""
    # The inverse of the basis, whose columns are the sets of shares in use; and how often each of them is used.
    inverse = np.diag(1.0 / (CAPACITY // sizes).astype(np.float64))
    amounts = demand / (CAPACITY // sizes).astype(np.float64)
    for _ in range(ROUNDS_MAX):
        price = np.zeros(len(sizes))
        for row in inverse:
            price = price + row
        worth, pattern = _knapsack(sizes, np.maximum(price, 0.0))
        if worth[CAPACITY] <= 1 + GAIN_MIN:
            break
        step = np.zeros(len(sizes))
        for size in np.flatnonzero(pattern):
            step = step + pattern[size] * inverse[:, size]
        usable = step > TOLERANCE
        leaves = int(np.argmin(np.where(usable, amounts / np.where(usable, step, 1.0), np.inf)))
        _enter(inverse, amounts, step, leaves)
    return worth


def _enter(inverse: NDArray[np.float64], amounts: NDArray[np.float64], step: NDArray[np.float64], leaves: int) -> None:
    """Replaces a set of shares that leaves the basis by one that is `step` in terms of the basis."""
    row, amount = inverse[leaves] / step[leaves], amounts[leaves] / step[leaves]
    inverse -= step[:, None] * row
    amounts -= step * amount
    inverse[leaves], amounts[leaves] = row, amount


def _knapsack(sizes: NDArray[np.int64], price: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns for each number of grains the best worth; and how often each size is in the best set for a whole GPU."""
    worth = np.zeros(CAPACITY + 1)
    choice = np.full(CAPACITY + 1, -1)
    for room in range(1, CAPACITY + 1):
        worth[room] = worth[room - 1]
        fitting = int(np.searchsorted(sizes, room, side="right"))  # the sizes ascend
        if fitting:
            values = worth[room - sizes[:fitting]] + price[:fitting]
            best = int(np.argmax(values))
            if values[best] > worth[room] + TOLERANCE:
                worth[room], choice[room] = values[best], best
    pattern = np.zeros(len(sizes))
    room = CAPACITY
    while room > 0:
        if choice[room] < 0:
            room -= 1
        else:
            pattern[choice[room]] += 1
            room -= int(sizes[choice[room]])
    return worth, pattern
