"""Delivers the outbox: a task for each receiver, which sends one event at a time in the order of the commits.

Rules
    - At least once: how far a receiver has come is stored once in KEEP_S, and before UNKEPT_MAX events more are read, after
      the fact. A controller that is killed sends again what it has sent since; each event has a number.
    - A failed attempt is repeated after 1 s, 2 s, ... PAUSE_MAX_S, until the receiver takes the event. It is given up when the
      receiver refuses it for good, has failed at it ATTEMPTS_MAX times, or was away until it was AGE_MAX_US old.
      Then it is a dead letter (deadletters.py), and the next one follows. While the letter cannot be written (no space),
      the receiver's events wait.
    - Bounded: PAGE_MAX events of a receiver are in memory, store/outbox.py limits those in the database. What it deletes
      unseen is a dead letter, too: one for all, written before.
    - A receiver that hangs delays no other one, and never the loop.
    - The database is read and written in one thread, by the second writer of the store (sidewriter.py). Where that fails
      (no space, no server), deliveries wait.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from ctld.core.records.effects import Batch, OutboxRow
from ctld.delivery.outbox import Outbox
from ctld.delivery.receivers import EventReceiver, NotDelivered, Retry, receivers_of
from ctld.runtime.lookups import Lookups
from ctld.runtime.loop import Runtime
from ctld.store import outbox as rows
from ctld.store.deadletters import DeadLetter, DeadLetters
from ctld.store.errors import Deposed, StoreError
from ctld.store.sidewriter import SideWriter
from penstock.threads import started_pool
from penstock.values.config import Config

T = TypeVar("T")
log = logging.getLogger("penstock.ctld")

PAGE_MAX: Final = 100
#: Of a receiver, beyond the page that it has: TAIL_BYTES of receivers.py is made for so many.
UNKEPT_MAX: Final = 100
KEEP_S: Final = 1.0
#: Every so many of these the outbox's size is checked.
CUT_EVERY: Final = 60
PAUSE_MAX_S: Final = 300.0
ATTEMPTS_MAX: Final = 8
AGE_MAX_US: Final = 24 * 3600 * 1_000_000
#: Between two attempts to use the database.
STORE_PAUSE_S: Final = 5.0


class ReceiverProgress:
    """How far a receiver has come, and what wakes its task."""

    def __init__(self, receiver: EventReceiver, after: int) -> None:
        self.receiver = receiver
        self.after = self.kept = after
        self.unkept = 0  # events that came after `kept`
        self.wake = asyncio.Event()
        self.problem = ""  # of the last attempt


class Deliveries:
    """The receivers of the present configuration. Belongs to the loop's thread."""

    def __init__(
        self, runtime: Runtime, address: str, leads: Callable[[int], bool], state_folder: Path, lookups: Lookups
    ) -> None:
        self._runtime = runtime
        self._address = address
        self._leads = leads
        self._lookups = lookups
        self._letters = DeadLetters(state_folder)
        self._keeping = asyncio.Lock()
        self._unwritten = ""  # why the last dead letter was not
        self._outbox = Outbox(runtime)
        self._thread = started_pool(1, "outbox")
        self._writer: SideWriter | None = None  # of that thread
        self._config: tuple[object, ...] = ()
        self._receivers: list[ReceiverProgress] = []
        self._tasks: list[asyncio.Task[None]] = []
        runtime.observers.append(self._committed)

    async def use(self, config: Config) -> None:
        """Delivers to the receivers of a configuration; those that are new get what happens from now on. Raises StoreError."""
        key = (
            config.job_comp_type, config.job_comp_loc, config.job_comp_params, config.job_comp_user, config.webhooks,
            config.slurm_user, config.cluster_name,
        )  # fmt: skip
        if key == self._config:
            return
        self._config = ()
        await self._end_tasks()
        receivers = receivers_of(config, self._lookups)
        self._outbox.use(frozenset().union(*(receiver.kinds for receiver in receivers)))
        names = [receiver.name for receiver in receivers]
        newest = self._outbox.sequence
        found = await self._in_store(lambda writer: _cursors(writer, names, newest))
        self._receivers = [ReceiverProgress(receiver, found[receiver.name]) for receiver in receivers]
        self._config = key
        if receivers:
            works = [*map(self._run, self._receivers), self._keep_all()]
            self._tasks = [asyncio.create_task(work) for work in works]
            for task in self._tasks:
                task.add_done_callback(_tell_of_end)

    async def stop(self) -> None:
        """Stores how far the receivers have come; attempts in progress are repeated after the next start."""
        await self._end_tasks()
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._receivers:
            one.receiver.close()
        with contextlib.suppress(StoreError):  # then it is sent again
            await self._keep()
        self._tasks = []
        self._receivers = []

    def _committed(self, batch: Batch) -> None:
        if batch.outbox:
            for one in self._receivers:
                one.wake.set()

    # ---- a receiver --------------------------------------------------------------------------------------------------

    async def _run(self, one: ReceiverProgress) -> None:
        while True:
            one.wake.clear()
            try:
                if one.unkept >= UNKEPT_MAX:
                    await self._keep()
                events = await self._in_store(lambda writer: _page(writer, one.after))
            except StoreError as error:
                log.warning("%s: deliveries wait: %s", one.receiver.name, error)
                await asyncio.sleep(STORE_PAUSE_S)
                continue
            for event in events:
                if event.kind in one.receiver.kinds and one.receiver.wants(event):
                    await self._deliver(one, event)
                one.after = event.sequence
                one.unkept += 1
            if not events:
                await one.wake.wait()

    async def _deliver(self, one: ReceiverProgress, event: OutboxRow) -> None:
        """Returns when the receiver has the event, or it is a dead letter."""
        name = one.receiver.name
        pause_s = 1.0
        failures = 0
        while True:
            try:
                await one.receiver.deliver(event)
            except NotDelivered as error:
                failures += error.retry is Retry.FAILED
                is_old = self._runtime.clock_us() - event.at_us > AGE_MAX_US
                if error.retry is Retry.REFUSED or failures >= ATTEMPTS_MAX or is_old:
                    await self._give_up(one, event, str(error))
                    return
                if str(error) != one.problem:
                    one.problem = str(error)
                    log.warning(
                        "%s: event %d is not delivered, and will be tried again: %s", name, event.sequence, error
                    )
            else:
                if one.problem:
                    log.info("%s: takes events again", name)
                    one.problem = ""
                return
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_MAX_S, 2 * pause_s)

    async def _give_up(self, one: ReceiverProgress, event: OutboxRow, why: str) -> None:
        name = one.receiver.name
        now_us = self._runtime.clock_us()
        log.error("%s: event %d is given up: %s; see penstock db dead-letters", name, event.sequence, why)
        letter = DeadLetter(now_us, name, event.sequence, event.kind.lower(), why, event.body.decode())
        while not await self._is_written(letter):
            await asyncio.sleep(STORE_PAUSE_S)

    async def _is_written(self, letter: DeadLetter) -> bool:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._letters.add, letter)
        except OSError as error:
            if str(error) != self._unwritten:
                self._unwritten = str(error)
                log.error("%s: the dead letter %d cannot be kept: %s", letter.receiver, letter.sequence, error)
            return False
        self._unwritten = ""
        return True

    # ---- the database ------------------------------------------------------------------------------------------------

    async def _keep_all(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(KEEP_S)
            number += 1
            try:
                await self._keep()
                if number % CUT_EVERY == 0:
                    await self._cut()
            except Deposed:
                return  # the committer will notice, too
            except StoreError as error:
                log.warning("how far deliveries have come cannot be stored now: %s", error)
                await asyncio.sleep(STORE_PAUSE_S)

    async def _keep(self) -> None:
        async with self._keeping:
            moved = {one.receiver.name: one.after for one in self._receivers if one.after != one.kept}
            if not moved:
                return
            counts = [(one, one.unkept) for one in self._receivers]
            await self._in_store(lambda writer: store_progress(writer, moved))
            for one, count in counts:
                one.kept = moved.get(one.receiver.name, one.kept)
                one.unkept -= count

    async def _cut(self) -> None:
        last, missed = await self._in_store(_surplus)
        for name, number in missed.items():
            why = f"{number} events were deleted before they were sent: more than {rows.ROWS_MAX} waited"
            if not await self._is_written(DeadLetter(self._runtime.clock_us(), name, 0, "", why, "")):
                return
            log.error("%s: %s", name, why)
        if last:
            await self._in_store(lambda writer: _cut(writer, last))

    async def _in_store(self, work: Callable[[SideWriter], T]) -> T:
        """Runs `work` in the thread. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._with_writer, work)

    def _with_writer(self, work: Callable[[SideWriter], T]) -> T:
        if self._writer is None:
            self._writer = SideWriter(self._address, self._leads)
        try:
            return work(self._writer)
        except StoreError:
            self._close()
            raise

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None


def _tell_of_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("deliveries of a receiver have ended until the next start: %s", error, exc_info=error)


def _cursors(writer: SideWriter, names: list[str], newest: int) -> dict[str, int]:
    with writer.begin() as connection:
        return rows.cursors(connection, names, newest)


def _page(writer: SideWriter, after: int) -> list[OutboxRow]:
    with writer.read() as connection:
        return rows.page(connection, after, PAGE_MAX)


def store_progress(writer: SideWriter, moved: dict[str, int]) -> None:
    """Stores how far receivers have come."""
    with writer.begin() as connection:
        rows.keep(connection, moved)


def _surplus(writer: SideWriter) -> tuple[int, dict[str, int]]:
    with writer.read() as connection:
        return rows.surplus(connection)


def _cut(writer: SideWriter, last: int) -> None:
    with writer.begin() as connection:
        rows.cut(connection, last)
