"""The controller's clock: wall time in microseconds that never goes back and never stands still.

A forward step of the wall clock is followed at once, so that begin times and clients' keys agree with what people read
from their clocks. When the wall clock is set back, time goes on from where it was at half speed until the two meet:
no duration is negative, and a time limit is at most late.
"""

import time
from collections.abc import Callable


class Clock:
    """Call it for the time. Two sources, so that a test can be both clocks."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._last_us = wall_ns() // 1000
        self._last_tick_us = monotonic_ns() // 1000

    def __call__(self) -> int:
        """Microseconds since 1970."""
        wall_us, tick_us = self._wall_ns() // 1000, self._monotonic_ns() // 1000
        if wall_us >= self._last_us:
            self._last_us = wall_us
        else:
            slow_us = (tick_us - self._last_tick_us) // 2
            if slow_us == 0:
                return self._last_us  # too little has passed to halve: keep the tick, so that it adds up
            self._last_us += slow_us
        self._last_tick_us = tick_us
        return self._last_us
