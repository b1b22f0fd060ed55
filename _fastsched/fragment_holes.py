"""How much of a hole in a GPU will stay idle, when what arrives is packed as well as possible.

A GPU with f milli free is a bin of size f. The shares that arrive, each with its frequency, are a cutting-stock problem:
how few GPUs hold them all? The dual prices of its linear programme say what a share is worth in GPUs, and a hole is
worth the dearest set of shares that fits into it (a knapsack). What the hole is larger than its worth stays idle:

    hole(f) = f - GPU_MILLI * max(sum of prices of shares whose sizes add up to at most f)

Example of the default trace: 810 is worth a whole GPU (nothing frequent fills the other 190), 470 a half, 320 a third. So
530 free milli stay idle by 30 (one more 470 comes), but after a 320 there 210 are lost: better to open another GPU.

Solved by column generation (Gilmore and Gomory 1961): a revised simplex with as many rows as sizes, and the knapsack as
pricing. Sizes are rounded up to GRAIN_MILLI, so there are 99 at most. Floating point, rounded to whole milli at the end.
"""

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import GPU_MILLI, Classes

#: A hundredth of a GPU: finer wishes are not worth finer prices.
GRAIN_MILLI = 10
CAPACITY = GPU_MILLI // GRAIN_MILLI
#: Columns that may enter; the prices at hand are used then. The default trace needs 11 for its 11 sizes.
ROUNDS_MAX = 500
#: A set of shares that is worth this much more than a GPU does not matter.
GAIN_MIN = 1e-3
TOLERANCE = 1e-9


def holes(classes: Classes) -> NDArray[np.int64]:
    """By free milli, 0 to GPU_MILLI: how many of them will stay idle."""
    shared = (classes.gpus == 1) & (classes.share_milli < GPU_MILLI)
    sizes, row = np.unique(-(-classes.share_milli[shared] // GRAIN_MILLI), return_inverse=True)
    demand = np.bincount(row, weights=classes.weight[shared], minlength=len(sizes)).astype(np.float64)
    packable = sizes < CAPACITY
    worth = _worth(sizes[packable].astype(np.int64), demand[packable])
    free = np.arange(GPU_MILLI + 1)
    idle = free - GPU_MILLI * np.minimum(worth[free // GRAIN_MILLI], 1.0)
    idle[GPU_MILLI] = 0  # a whole GPU is what everything can use
    found: NDArray[np.int64] = np.maximum(np.rint(idle), 0).astype(np.int64)
    return found


def _worth(sizes: NDArray[np.int64], demand: NDArray[np.float64]) -> NDArray[np.float64]:
    """By free grains: the dearest set of shares that fits, in GPUs."""
    basis = np.diag((CAPACITY // sizes).astype(np.float64))
    for _ in range(ROUNDS_MAX):
        price = np.maximum(np.linalg.solve(basis.T, np.ones(len(sizes))), 0.0)
        worth, pattern = _knapsack(sizes, price)
        if worth[CAPACITY] <= 1 + GAIN_MIN:
            break
        amounts, step = np.linalg.solve(basis, demand), np.linalg.solve(basis, pattern)
        usable = step > TOLERANCE
        leaves = int(np.argmin(np.where(usable, amounts / np.where(usable, step, 1.0), np.inf)))
        basis[:, leaves] = pattern
    return worth


def _knapsack(sizes: NDArray[np.int64], price: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each number of grains the best worth; and how often each size is in the best set for a whole GPU."""
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
