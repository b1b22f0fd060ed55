"""Measures the loop's iterations: a selector that reads the clock before and after it waits.

A turn is the time between two polls of the loop's sockets, and so the delay of other requests. The CPU time of the
loop's thread is counted, since a busy machine lengthens a turn without any work of the loop. It costs two reads of the
clock in a turn.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

from ctld.metrics import Histogram

thread_time_ns = time.thread_time_ns


class TurnSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type,unused-ignore]
    """A selector that measures the loop's turns. `longest_us` may be reset to 0."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_us = 0
        self.times = Histogram()
        self._begun_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ends a turn, waits, and begins the next."""
        took_us = (thread_time_ns() - self._begun_ns) // 1000 if self._begun_ns else 0
        if took_us > self.longest_us:
            self.longest_us = took_us
        self.times.count(took_us)
        ready = super().select(timeout)
        self._begun_ns = thread_time_ns()
        return ready


class WatchedLoop(asyncio.SelectorEventLoop):
    """An event loop that measures its turns."""

    def __init__(self) -> None:
        self.turns = TurnSelector()
        super().__init__(self.turns)


def longest_turn(loop: asyncio.AbstractEventLoop) -> Callable[[bool], int]:
    """Returns the longest turn so far, microseconds, and resets it on request; 0 for a loop without measurement."""
    turns = getattr(loop, "turns", None)

    def read(restart: bool = False) -> int:
        if turns is None:
            return 0
        longest: int = turns.longest_us
        if restart:
            turns.longest_us = 0
        return longest

    return read


def turn_times() -> Histogram | None:
    """Returns the turns of the running loop since its start; None for a loop without measurement."""
    turns = getattr(asyncio.get_running_loop(), "turns", None)
    return turns.times if isinstance(turns, TurnSelector) else None
