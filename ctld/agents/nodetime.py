"""What a node's times are by the controller's clock, and by how much the clock of its machine is wrong.

A node's time passes evenly and is never set (nodedaemon/base/nodeclock.py), as the controller's monotonic clock does.
So the difference of the two is constant, and each message that says the node's time shows it, less the message's delay.
The largest difference is therefore the truest one: messages that had to wait, for a database or a slow network, change
nothing. With it each time in a report is an age, and an event that is reported late keeps the time when it happened,
however wrong the clocks of node and controller are, and if they are set meanwhile.

The clock of the node's machine is what its programs, certificates and files go by. It is compared with the clock of the
controller's machine. If most nodes differ by the same, the controller's clock is taken for the wrong one: nodes are
compared with each other then, and stay in use.

Deliberately absent: the bounds of a step's times (ctld/core/steps/reported.py), and what follows from a wrong clock
(ctld/core/nodes/clocks.py).
"""

import time
from collections.abc import Callable, Collection
from statistics import median_low
from typing import Final

#: By how much the two may drift apart in a microsecond: 0.1 %, far more than any machine's.
DRIFT: Final = 0.001
#: A clock that is off by more is reported; one that is off by much more keeps jobs from the node. Beyond the first,
#: programs on several nodes disagree about files; beyond the second, tokens and certificates fail.
WARN_US: Final = 2_000_000
REFUSE_US: Final = 60_000_000
#: A clock counts as right again only below this part of a limit: it may be just at the limit.
RIGHT_AGAIN: Final = 0.75
#: Fewer nodes do not show whose clock is wrong.
NODES_MIN: Final = 3


def tick_us() -> int:
    """The controller's monotonic clock, microseconds."""
    return time.monotonic_ns() // 1000


class NodeTime:
    """The time of one node, while it has a stream."""

    def __init__(self, tick: Callable[[], int] = tick_us) -> None:
        self._tick = tick
        self._ahead_us: int | None = None  # of our monotonic clock; None = the node has said no time yet
        self._at_us = 0
        self._wall_us: int | None = None  # the clock of its machine, ahead of our monotonic clock

    def heard(self, node_us: int, wall_us: int = 0) -> None:
        """Takes a message: the node's time when it was sent, and its machine's clock; 0 = it says none."""
        if node_us <= 0:
            return
        tick_us = self._tick()
        ahead_us = node_us - tick_us
        if self._ahead_us is not None:
            ahead_us = max(ahead_us, self._ahead_us - int((tick_us - self._at_us) * DRIFT))
        self._ahead_us = ahead_us
        self._at_us = tick_us
        if wall_us > 0:
            self._wall_us = wall_us - node_us + ahead_us

    def by_our_clock(self, node_us: int, now_us: int) -> int:
        """Returns a time of the node's by the clock that says `now_us`: between 1 and that. 0 stays 0: there is none."""
        if node_us <= 0 or self._ahead_us is None:
            return node_us
        age_us = self._tick() + self._ahead_us - node_us
        return max(1, now_us - max(0, age_us))

    def off_us(self, wall_us: int) -> int | None:
        """By how much the clock of its machine is ahead of ours, which says `wall_us`; None = not known."""
        return None if self._wall_us is None else self._wall_us + self._tick() - wall_us


def own_error_us(offs: Collection[int]) -> int:
    """Returns what most nodes' clocks differ by, if that is more than WARN_US: then ours is wrong by as much; else 0."""
    if len(offs) < NODES_MIN:
        return 0
    middle = median_low(offs)
    agreeing = sum(abs(off - middle) <= WARN_US for off in offs)
    return middle if abs(middle) > WARN_US and 2 * agreeing > len(offs) else 0


def judged(off_us: int, before_us: int) -> int:
    """Returns the limit that a clock exceeds: REFUSE_US, WARN_US or 0. `before_us`: what it exceeded so far."""
    for limit_us in (REFUSE_US, WARN_US):
        if abs(off_us) > limit_us * (RIGHT_AGAIN if before_us >= limit_us else 1):
            return limit_us
    return 0
