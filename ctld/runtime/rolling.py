"""When usage is rolled up: at a start and some minutes after each hour, in a thread beside the loop.

A pass counts up to the last whole hour that ended SETTLE_US before what is surely committed (`Runtime.durable_to_us`):
every start before it is in the database then. It is made of transactions of some 10 ms each, with a pause after each
that is as long as it took, so that a controller that was away for long, or an old history, is caught up with half of one
core and the committer is never kept waiting for longer than one of them. Where it has come to is in the database: a stop
in its middle is nothing.
"""

import logging
import threading
import time
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from accounting.rolling import Roller
from accounting.rollup import Calendar
from ctld.runtime.loop import Runtime
from ctld.store.errors import Deposed, StoreError
from ctld.store.sidewriter import SideWriter

log = logging.getLogger("penstock.ctld")

#: How long after its end an hour is counted.
SETTLE_US: Final = 120 * 1_000_000
#: Between two looks whether an hour has to be counted.
LOOK_S: Final = 30.0
#: The first look comes when the nodes have had time to register.
FIRST_S: Final = 5.0


class RollUps:
    """The thread and its timer. Methods belong to the loop's thread."""

    def __init__(self, runtime: Runtime, place: str, epoch: int) -> None:
        self._runtime = runtime
        self._place, self._epoch = place, epoch
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, "rollup")
        self._loop: AbstractEventLoop = get_running_loop()
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._loop.call_later(FIRST_S, self._look)

    def stop(self) -> None:
        """End what is under way after its present transaction."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=True)

    def _look(self) -> None:
        self.catch_up().add_done_callback(self._looked)

    def catch_up(self) -> "Future[None]":
        """Count all that there is to count; for the timer, and for who cannot wait for it."""
        config = self._runtime.core.state.config
        to_us, now_us = self._runtime.durable_to_us() - SETTLE_US, self._runtime.clock_us()
        account, calendar = config.penstock_default_account, Calendar(config.utc_offsets)
        return self._loop.run_in_executor(self._thread, self._work, to_us, now_us, calendar, account)

    def _looked(self, future: "Future[Any]") -> None:
        if self._stop.is_set() or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Deposed):
            return  # the committer will find out, too
        if isinstance(error, StoreError):
            log.error("usage cannot be rolled up now: %s", error)
        elif error is not None:
            log.error("usage cannot be rolled up: %s", error, exc_info=error)
        self._timer = self._loop.call_later(LOOK_S, self._look)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _work(self, to_us: int, now_us: int, calendar: Calendar, account: str) -> None:
        writer = SideWriter(self._place, self._epoch)
        try:
            roller = Roller(writer.begin, writer.read, calendar, account)
            begun = time.monotonic()
            while roller.advance(to_us, now_us) and not self._stop.wait(time.monotonic() - begun):
                begun = time.monotonic()
        finally:
            writer.close()
