"""One timer for the core's next deadline, which is posted as a Tick."""

import asyncio
from collections.abc import Callable
from typing import Final

from ctld.core.controller import Core
from ctld.core.records.events import Event, Tick

#: Longest sleep before the clock is read again, so that a wall clock set forward is noticed.
SLEEP_MAX_S: Final = 5.0


class DeadlineTimer:
    """Follows `core.next_deadline()`; `arm` is called after each change of the core."""

    def __init__(self, core: Core, clock_us: Callable[[], int], post: Callable[[Event], None]) -> None:
        self._core = core
        self._clock_us = clock_us
        self._post = post
        self._stopped = False
        self._handle: asyncio.TimerHandle | None = None
        self._for_us: int | None = None
        self._loop = asyncio.get_running_loop()

    def arm(self) -> None:
        """Sets the timer for the present deadline."""
        deadline_us = self._core.next_deadline()
        if self._handle is not None:
            if deadline_us == self._for_us:
                return
            self._handle.cancel()
            self._handle = None
        if deadline_us is None or self._stopped:
            return
        self._for_us = deadline_us
        wait_s = max(0.0, (deadline_us - self._clock_us()) / 1e6)
        self._handle = self._loop.call_later(min(wait_s, SLEEP_MAX_S), self._due)

    def stop(self) -> None:
        """Posts no more ticks."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self) -> None:
        self._handle = None
        deadline_us = self._core.next_deadline()
        if deadline_us is not None and deadline_us <= self._clock_us():
            self._post(Tick())
        else:
            self.arm()
