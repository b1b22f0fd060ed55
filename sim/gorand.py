"""The generator of Go's math/rand: from a seed the same numbers, so that published experiments have the same arrivals.

The published GPU study drew its arrivals and tie ranks with it. It is an additive lagged Fibonacci generator on 64 bits:
x[n] = x[n-607] + x[n-273]. A seed fills the 607 words with a Lehmer sequence, mixed with a fixed table: the state of the
same generator, seeded with 1 and narrower words, after 7.8e12 steps. That table is not copied here but computed: a jump
of n steps is the polynomial x**n modulo x**607 - x**334 - 1, by repeated squaring.
"""

import functools

import numpy as np
from numpy.typing import NDArray

_WORDS, _TAP = 607, 273
_MODULUS, _FACTOR = 2**31 - 1, 48271
_SKIPPED = 20
#: The steps from the seed to the fixed table.
_TABLE_STEPS = 7_800_000_000_000
_MASK_63, _MASK_64 = 2**63 - 1, 2**64 - 1


class GoRand:
    """One stream; methods are named as Go's."""

    def __init__(self, seed: int) -> None:
        words = _seeded(seed, 40, 20)
        self._state = [word ^ int(mixed) for word, mixed in zip(words, _table(), strict=True)]
        self._tap = 0
        self._feed = _WORDS - _TAP

    def int63(self) -> int:
        """63 random bits."""
        self._tap = (self._tap - 1) % _WORDS
        self._feed = (self._feed - 1) % _WORDS
        word = (self._state[self._feed] + self._state[self._tap]) & _MASK_64
        self._state[self._feed] = word
        return word & _MASK_63

    def intn(self, n: int) -> int:
        """A number below n, which is at most 2**31 - 1."""
        largest = 2**31 - 1 - 2**31 % n
        drawn = self.int63() >> 32
        while drawn > largest:
            drawn = self.int63() >> 32
        return drawn % n

    def shuffle(self, items: list[int]) -> None:
        """In place."""
        for at in range(len(items) - 1, 0, -1):
            other = self._below(at + 1)
            items[at], items[other] = items[other], items[at]

    def perm(self, n: int) -> list[int]:
        """A permutation of 0 to n - 1."""
        found = [0] * n
        for at in range(n):
            other = self.intn(at + 1)
            found[at], found[other] = found[other], at
        return found

    def _below(self, n: int) -> int:
        """The variant of intn for shuffle: the upper half of a product, drawn again where it would be biased."""
        product = (self.int63() >> 31) * n
        while product & 0xFFFF_FFFF < (2**32 - n) % n:
            product = (self.int63() >> 31) * n
        return product >> 32


def _seeded(seed: int, high: int, low: int) -> list[int]:
    """607 words, each of three numbers of the Lehmer sequence at these shifts."""
    number = seed % _MODULUS or 89_482_311
    numbers: list[int] = []
    for _ in range(_SKIPPED + 3 * _WORDS):
        number = number * _FACTOR % _MODULUS
        numbers.append(number)
    kept = numbers[_SKIPPED:]
    return [(kept[at] << high ^ kept[at + 1] << low ^ kept[at + 2]) & _MASK_64 for at in range(0, 3 * _WORDS, 3)]


@functools.cache
def _table() -> NDArray[np.uint64]:
    """The fixed table, by slot of the state."""
    slots = [(_WORDS - _TAP - step) % _WORDS for step in range(-_WORDS + 1, 1)]
    history = np.array(_seeded(1, 20, 10), dtype=np.uint64)[slots]
    both = np.concatenate([history, np.zeros(_WORDS, dtype=np.uint64)])
    for at in range(_WORDS, 2 * _WORDS):
        both[at] = np.add(both[at - _WORDS : at - _WORDS + 1], both[at - _TAP : at - _TAP + 1])[0]
    jump = _power_of_x(_TABLE_STEPS)
    table = np.zeros(_WORDS, dtype=np.uint64)
    for at in range(_WORDS):
        table[(slots[at] - _TABLE_STEPS) % _WORDS] = np.sum(jump * both[at : at + _WORDS], dtype=np.uint64)
    return table


def _power_of_x(exponent: int) -> NDArray[np.uint64]:
    """Coefficients of x**exponent modulo x**607 - x**334 - 1, on 64 bits."""
    power = np.zeros(_WORDS, dtype=np.uint64)
    power[0] = 1
    for bit in bin(exponent)[2:]:
        square = np.zeros(2 * _WORDS, dtype=np.uint64)
        for at in range(_WORDS):
            square[at : at + _WORDS] += power[at] * power
        if bit == "1":
            square = np.roll(square, 1)
        for at in range(2 * _WORDS - 1, _WORDS - 1, -1):
            square[at - _WORDS : at - _WORDS + 1] += square[at : at + 1]
            square[at - _TAP : at - _TAP + 1] += square[at : at + 1]
        power = square[:_WORDS].copy()
    return power
