"""Schedules the roll-up of usage: at a start and some minutes after each hour, in a thread beside the loop.

A pass counts up to the last whole hour that ended SETTLE_US before the last durable time (`Runtime.durable_to_us`):
every start before it is in the database then. It consists of transactions of some 10 ms, each followed by an equally
long pause, so that the backlog of a long downtime, or an old history, uses half of one core and delays the committer by
one transaction at most. Its progress is in the database, so that it can be interrupted at any time.
"""

import logging
import threading
import time
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection

from accounting.archive import load
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from ctld.runtime import purging
from ctld.runtime.loop import Runtime
from ctld.store.errors import Deposed, StoreError
from ctld.store.sidewriter import SideWriter
from penstock.threads import started_pool

T = TypeVar("T")

log = logging.getLogger("penstock.ctld")

#: Delay before an hour is counted, after its end.
SETTLE_US: Final = 120 * 1_000_000
#: Interval of the check whether an hour has to be counted.
CHECK_S: Final = 30.0
#: The first check is delayed until the nodes have had time to register.
FIRST_S: Final = 5.0


class RollUps:
    """The thread and its timer. Methods belong to the loop's thread."""

    def __init__(self, runtime: Runtime, address: str, leads: Callable[[int], bool], state_folder: Path) -> None:
        self._runtime = runtime
        self._folder = state_folder
        self._purged_hour = -1
        self._address = address
        self._leads = leads
        self._stop = threading.Event()
        self._thread = started_pool(1, "rollup")
        self._loop: AbstractEventLoop = get_running_loop()
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Starts the timer."""
        self._timer = self._loop.call_later(FIRST_S, self._start_due)

    def stop(self) -> None:
        """Ends what is in progress after its present transaction."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=True)

    def _start_due(self) -> None:
        self.catch_up().add_done_callback(self._caught_up)

    def catch_up(self) -> "Future[bool]":
        """Counts all hours that are due; for the timer, and for callers that cannot wait for it. Whether there were any."""
        config = self._runtime.core.state.config
        to_us, now_us = self._runtime.durable_to_us() - SETTLE_US, self._runtime.clock_us()
        account, calendar = config.penstock_default_account, Calendar(config.utc_offsets)
        order, hour = None, now_us // HOUR_US
        if (config.purge_after or "nosteps" in config.enforce) and hour != self._purged_hour:
            order = purging.order_of(config, self._folder)
            self._purged_hour = hour

        def run(writer: SideWriter) -> bool:
            has_counted = self._work(writer, to_us, now_us, calendar, account)
            if order is not None:
                purging.run(writer, order, config, now_us, self._stop)
            return has_counted

        done = self._loop.run_in_executor(self._thread, self._with_writer, run)
        done.add_done_callback(partial(self._count, now_us))
        return done

    def _count(self, begun_at_us: int, done: "Future[bool]") -> None:
        """Counts a pass for `sacctmgr show stats`: one that had something to do, and the first one."""
        passed = self._runtime.diagnostics
        if done.cancelled() or done.exception() is not None or not (done.result() or not passed.last_rollup_at_us):
            return
        passed.rollup.count(max(1, self._runtime.clock_us() - begun_at_us), 0, 0)
        passed.last_rollup_at_us = begun_at_us

    def _caught_up(self, future: "Future[bool]") -> None:
        if self._stop.is_set() or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Deposed):
            return  # the committer will notice, too
        if isinstance(error, StoreError):
            log.error("usage cannot be rolled up now: %s", error)
        elif error is not None:
            log.error("usage cannot be rolled up: %s", error, exc_info=error)
        self._timer = self._loop.call_later(CHECK_S, self._start_due)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in one fenced transaction. Raises StoreError."""

        def run(writer: SideWriter) -> T:
            with writer.begin() as connection:
                return work(connection)

        return await self._loop.run_in_executor(self._thread, self._with_writer, run)

    async def purge(self, order: purging.PurgeOrder) -> tuple[dict[str, int], list[str]]:
        """Deletes (or only counts) old records; returns their number by kind, and files. Raises StoreError, OSError."""
        config, now_us = self._runtime.core.state.config, self._runtime.clock_us()
        return await self._loop.run_in_executor(
            self._thread, self._with_writer, lambda writer: purging.run(writer, order, config, now_us, self._stop)
        )

    async def load_archive(self, path: str) -> int:
        """Loads an archive. Raises StoreError, OSError, BadValue."""
        return await self._loop.run_in_executor(
            self._thread, self._with_writer, lambda writer: load(path, writer.begin)
        )

    # ---- the worker thread -------------------------------------------------------------------------------------------

    def _with_writer(self, work: Callable[[SideWriter], T]) -> T:
        writer = SideWriter(self._address, self._leads)
        try:
            return work(writer)
        finally:
            writer.close()

    def _work(self, writer: SideWriter, to_us: int, now_us: int, calendar: Calendar, account: str) -> bool:
        roller, has_counted = Roller(writer.begin, writer.read, calendar, account), False
        begun = time.monotonic()
        while roller.advance(to_us, now_us):
            has_counted = True
            if self._stop.wait(time.monotonic() - begun):
                break
            begun = time.monotonic()
        return has_counted
