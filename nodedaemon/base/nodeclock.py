"""The node's own time: microseconds since 1970 that pass evenly, whatever is done to the machine's clock.

    time = base + CLOCK_BOOTTIME

The base is the clock's when the first daemon of this boot started, and stays in the spool. So all daemons, launchers and
stepds of a boot agree, and what they say of a step has its true duration, also when the clock is set meanwhile. Each
heartbeat has this time and the clock's: by the first the controller translates reports to its own time, by the second
it notices a clock that is wrong (ctld/agents/nodetime.py).
"""

import time

_BOOTTIME = time.CLOCK_BOOTTIME


class NodeClock:
    """The node's time with that base; 0 = a new one, by the machine's clock."""

    __slots__ = ("base_us",)

    def __init__(self, base_us: int = 0) -> None:
        self.base_us = base_us or wall_us() - _up_us()

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return self.base_us + _up_us()


def wall_us() -> int:
    """What the machine's clock says, in microseconds since 1970."""
    return time.time_ns() // 1000


def _up_us() -> int:
    return time.clock_gettime_ns(_BOOTTIME) // 1000
