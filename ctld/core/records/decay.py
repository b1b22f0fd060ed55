"""Decaying usage: integrals of billing over time with a half-life, in whole numbers only.

A use of b billing units from s to e counts, seen at e, with every second weighted by 2^(-age / half-life):

    integral of b * 2^(-(e-t)/H) dt  =  b * (1 - 2^(-(e-s)/H)) * H / ln 2

so an amount and a rate can be carried from any moment to any later one in one step, and nothing is rewritten merely
because time passes. Powers of two are products of table entries computed with integer square roots: the same bits on
every machine.

Units: usage is in 1/10,000 billing seconds (USAGE_ONE), so that 64 bits hold a million CPUs for 29 years and rounding
stays below a millisecond of one CPU; rates are in thousandths of a billing unit. Points in time are microseconds.
"""

from math import isqrt
from typing import NamedTuple

#: One billing second.
USAGE_ONE = 10_000
#: One billing unit of a rate.
RATE_ONE = 1_000
#: Largest usage: what a 64-bit column holds. It saturates there, after 29 years.
USAGE_MAX = 2**63 - 1

SCALE_BITS = 64
ONE = 1 << SCALE_BITS
_STEP_BITS = 8
_STEPS = 6
EXPONENT_BITS = _STEP_BITS * _STEPS
#: 1 / ln 2, scaled by ONE (its first 20 digits; the rest is below the table's own rounding).
_PER_LN2 = 144_269_504_088_896_340_736 * ONE // 10**20

_RATE_US_PER_USAGE = RATE_ONE * 1_000_000 // USAGE_ONE


class Decay(NamedTuple):
    """A rule for the decay of usage."""

    half_life_us: int = 7 * 86_400 * 1_000_000  # 0 = never
    reset_period: str = "NONE"


def _halving_roots() -> list[int]:
    """Returns 2^(-1/2^i) for i = 1, 2, ... EXPONENT_BITS, scaled by ONE: each is the square root of the one before."""
    roots, wide = [], 1 << (2 * SCALE_BITS - 1)  # 1/2, scaled by ONE * ONE
    for _ in range(EXPONENT_BITS):
        root = isqrt(wide << (2 * SCALE_BITS))  # of a number scaled by 2^256: scaled by 2^128
        wide = root
        roots.append(root >> SCALE_BITS)
    return roots


def _tables() -> list[list[int]]:
    """Returns for each byte of the exponent's fraction, highest first: 2^-(byte) for all its values."""
    roots = _halving_roots()
    tables = []
    for step in range(_STEPS):
        own = roots[step * _STEP_BITS : (step + 1) * _STEP_BITS]
        table = []
        for byte in range(1 << _STEP_BITS):
            value = ONE
            for bit, root in enumerate(own):
                if byte >> (_STEP_BITS - 1 - bit) & 1:
                    value = value * root >> SCALE_BITS
            table.append(value)
        tables.append(table)
    return tables


_TABLES = _tables()


def half_power(numerator: int, denominator: int) -> int:
    """Returns 2^(-numerator/denominator), scaled by ONE; 0 when it is smaller than the scale."""
    whole, rest = divmod(numerator, denominator)
    if whole >= SCALE_BITS:
        return 0
    fraction = (rest << EXPONENT_BITS) // denominator
    value = ONE
    for step, table in enumerate(_TABLES):
        byte = fraction >> (EXPONENT_BITS - _STEP_BITS * (step + 1)) & 0xFF
        if byte:
            value = value * table[byte] >> SCALE_BITS
    return value >> whole


def carry(usage: int, rate: int, from_us: int, to_us: int, half_life_us: int) -> int:
    """Returns the value at `to_us` of `usage` as of `from_us` and a constant `rate` since then. half_life_us 0 = no
    decay."""
    if to_us <= from_us:
        return usage
    gone_us = to_us - from_us
    if half_life_us <= 0:
        used = rate * gone_us
    else:
        left = half_power(gone_us, half_life_us)
        usage = (usage * left + (ONE >> 1)) >> SCALE_BITS
        used = (rate * (ONE - left) * half_life_us * _PER_LN2) >> (2 * SCALE_BITS) if rate else 0
    return min(USAGE_MAX, usage + (used + _RATE_US_PER_USAGE // 2) // _RATE_US_PER_USAGE)


def carry_all(
    amounts: dict[str, int], rates: dict[str, int], from_us: int, to_us: int, half_life_us: int
) -> dict[str, int]:
    """Does the same as `carry` for several kinds at once."""
    gone_us = to_us - from_us
    if gone_us <= 0:
        return dict(amounts)
    left = half_power(gone_us, half_life_us) if half_life_us > 0 else ONE
    seconds = gone_us if half_life_us <= 0 else ((ONE - left) * half_life_us * _PER_LN2) >> (2 * SCALE_BITS)
    found = {name: (amount * left + (ONE >> 1)) >> SCALE_BITS for name, amount in amounts.items() if amount}
    for name, rate in rates.items():
        used = (rate * seconds + _RATE_US_PER_USAGE // 2) // _RATE_US_PER_USAGE
        found[name] = min(USAGE_MAX, found.get(name, 0) + used)
    return found
