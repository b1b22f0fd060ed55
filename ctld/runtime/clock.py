"""The controller's clock: wall time in microseconds that never goes back and never stands still.

A forward step of the wall clock is followed at once, so that begin times and clients' keys agree with what people read
from their clocks; `take_jump` returns by how much, for code that measures durations (core/clock.py). When the wall
clock is set back, this clock continues at half speed until the two agree: no duration is negative, and a time limit is
at most late.
"""

import time
from collections.abc import Callable
from typing import Final

#: Smaller steps are ordinary corrections by time synchronisation.
JUMP_US_MIN: Final = 1_000_000


class MonotonicWallClock:
    """The clock; call it for the time. Its two sources are parameters, so that a test can control both."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._last_us = wall_ns() // 1000
        self._last_tick_us = monotonic_ns() // 1000
        self._jumped_us = 0

    def take_jump(self) -> int:
        """Returns the forward jump of the clock since the last call, microseconds; small steps count as none."""
        jumped_us = self._jumped_us
        self._jumped_us = 0
        return jumped_us

    def __call__(self) -> int:
        """Returns microseconds since 1970."""
        wall_us, tick_us = self._wall_ns() // 1000, self._monotonic_ns() // 1000
        if wall_us >= self._last_us:
            ahead_us = wall_us - self._last_us - (tick_us - self._last_tick_us)
            if ahead_us >= JUMP_US_MIN:
                self._jumped_us += ahead_us
            self._last_us = wall_us
        else:
            slow_us = (tick_us - self._last_tick_us) // 2
            if slow_us == 0:
                return self._last_us  # too little to halve: keep the tick, so that the remainder accumulates
            self._last_us += slow_us
        self._last_tick_us = tick_us
        return self._last_us
