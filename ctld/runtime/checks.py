"""Checks the invariants of the core periodically, while it is small and idle.

A violation ends the process: the state can no longer be trusted, and the next process starts from the database.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ctld.core.controller import Core

#: Interval of the checks, and the maximum number of jobs, with which they take milliseconds.
CHECK_S: Final = 30.0
CHECK_JOBS_MAX: Final = 1_000


class Checks:
    """Runs checks from `start` to `stop`. `is_busy`: events are queued; `die` ends the process."""

    def __init__(
        self, core: Core, is_busy: Callable[[], bool], die: Callable[[str, BaseException | None], None]
    ) -> None:
        self._core = core
        self._is_busy = is_busy
        self._die = die
        self._stopped = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Starts the checks; the first is due after CHECK_S."""
        self._loop.call_later(CHECK_S, self._due)

    def stop(self) -> None:
        """Stops the checks."""
        self._stopped = True

    def _due(self) -> None:
        if self._stopped:
            return
        self._loop.call_later(CHECK_S, self._due)
        if len(self._core.state.jobs) > CHECK_JOBS_MAX or self._is_busy():
            return
        try:
            self._core.check()
        except Exception as error:  # noqa: BLE001 (an invariant that does not hold)
            self._die("an invariant does not hold", error)
