"""Compares two programs that were measured in turns: ratio of medians, bootstrap interval, verdict, table.

A ratio is a cost: above 1 the change is worse, for times and memory as for rates. The interval resamples rounds, not
single values, because both sides of a round saw the same machine. No I/O.
"""

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

#: The verdict "worse" needs more than this, and an interval that excludes 1.
WORSE_ABOVE = 1.05
INTERVAL = 0.95
RESAMPLES = 4_000
SEED = 7
#: A figure whose name ends so is a rate: more is better.
RATE = "_per_s"

_Pairs = Sequence[tuple[float, float]]  # parent and change, one pair a round


class Comparison(NamedTuple):
    """One figure: both medians, the change's cost relative to the parent's, and its interval."""

    name: str
    parent: float
    change: float
    ratio: float
    low: float
    high: float

    @property
    def is_worse(self) -> bool:
        """Whether the change costs more than the threshold and more than noise explains."""
        return self.ratio > WORSE_ABOVE and self.low > 1

    @property
    def is_better(self) -> bool:
        """The same in the other direction."""
        return self.ratio < 1 / WORSE_ABOVE and self.high < 1


def compare(name: str, pairs: _Pairs) -> Comparison:
    """Judges the rounds of one figure. The same rounds always give the same interval."""
    chance = random.Random(SEED)
    ratios = sorted(_cost(name, chance.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    tail = int(RESAMPLES * (1 - INTERVAL) / 2)
    parent, change = _medians(pairs)
    return Comparison(name, parent, change, _cost(name, pairs), ratios[tail], ratios[-1 - tail])


def _medians(pairs: _Pairs) -> tuple[float, float]:
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def _cost(name: str, pairs: _Pairs) -> float:
    parent, change = _medians(pairs)
    above, below = (parent, change) if name.endswith(RATE) else (change, parent)
    if below == 0:  # below the clock's resolution on one side: infinitely worse, or on both: equal
        return 1.0 if above == 0 else float("inf")
    return above / below


def table(found: Sequence[Comparison]) -> str:
    """One line a figure."""
    width = max((len(one.name) for one in found), default=6)
    lines = [f"{'figure':<{width}} {'parent':>10} {'change':>10} {'cost':>7}  95 % interval"]
    for one in found:
        verdict = "WORSE" if one.is_worse else "better" if one.is_better else ""
        interval = f"{one.low:.3f} to {one.high:.3f}"
        lines.append(
            f"{one.name:<{width}} {one.parent:>10,.4g} {one.change:>10,.4g} {one.ratio:>7.3f}  {interval:<16} {verdict}".rstrip()
        )
    return "\n".join(lines)
