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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from accounting.archive import load
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from ctld.runtime import purging
from ctld.runtime.loop import Runtime
from ctld.store.errors import Deposed, StoreError
from ctld.store.sidewriter import SideWriter

T = TypeVar("T")

log = logging.getLogger("penstock.ctld")

#: How long after its end an hour is counted.
SETTLE_US: Final = 120 * 1_000_000
#: Between two looks whether an hour has to be counted.
LOOK_S: Final = 30.0
#: The first look comes when the nodes have had time to register.
FIRST_S: Final = 5.0


class RollUps:
    """The thread and its timer. Methods belong to the loop's thread."""

    def __init__(self, runtime: Runtime, place: str, epoch: int, state_folder: Path) -> None:
        self._runtime = runtime
        self._folder = state_folder
        self._purged_hour = -1
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
        order, hour = None, now_us // HOUR_US
        if (config.purge_after or "nosteps" in config.enforce) and hour != self._purged_hour:
            order, self._purged_hour = purging.order_of(config, self._folder), hour

        def run(writer: SideWriter) -> None:
            self._work(writer, to_us, now_us, calendar, account)
            if order is not None:
                purging.run(writer, order, config, now_us, self._stop)

        return self._loop.run_in_executor(self._thread, self._with_writer, run)

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

    async def write(self, work: Callable[[Connection], T]) -> T:
        """`work` in one fenced transaction. Raises StoreError."""

        def run(writer: SideWriter) -> T:
            with writer.begin() as connection:
                return work(connection)

        return await self._loop.run_in_executor(self._thread, self._with_writer, run)

    async def purge(self, order: purging.Order) -> tuple[dict[str, int], list[str]]:
        """Records that went (or would go), by kind, and files. Raises StoreError, OSError."""
        config, now_us = self._runtime.core.state.config, self._runtime.clock_us()
        return await self._loop.run_in_executor(
            self._thread, self._with_writer, lambda writer: purging.run(writer, order, config, now_us, self._stop)
        )

    async def load_archive(self, path: str) -> int:
        """Read an archive in. Raises StoreError, OSError, BadValue."""
        return await self._loop.run_in_executor(
            self._thread, self._with_writer, lambda writer: load(path, writer.begin)
        )

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _with_writer(self, work: Callable[[SideWriter], T]) -> T:
        writer = SideWriter(self._place, self._epoch)
        try:
            return work(writer)
        finally:
            writer.close()

    def _work(self, writer: SideWriter, to_us: int, now_us: int, calendar: Calendar, account: str) -> None:
        roller = Roller(writer.begin, writer.read, calendar, account)
        begun = time.monotonic()
        while roller.advance(to_us, now_us) and not self._stop.wait(time.monotonic() - begun):
            begun = time.monotonic()
