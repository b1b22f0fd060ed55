"""The loop: inbox -> step -> seal -> commit -> snapshot -> effects. One asyncio loop owns the core.

Rules
    - Order rule: the effects of a batch leave after its commit, and after the commits of all batches before it.
    - Natural group commit: while one commit runs in the committer's thread the loop continues to handle events; when it
      ends, the snapshot is advanced, the effects leave, and all changes since are sealed as the next batch. No timer.
    - An unexpected error ends the process (`fail`): an exception in the core after something was applied (before that,
      the request is refused: core/lifecycle/unexpected_errors.py), a lost leadership, a commit that fails in an unknown way.
      The next process starts from the database; fatalcauses.py and handled.py prevent it from failing on the same event.
    - A full disk is not such an error, nor a database server that does not answer: the same batch is tried again after
      a pause. storage.py handles requests meanwhile.

No task per event or job: callbacks and one timer. Queued events are in inbox.py, full passes of the planner in
fullpass.py, the timer in deadline.py.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import partial

# Any: an effect of the kind by which its handler is selected, and an event's answer, whose type its caller knows
from typing import Any, Final

from ctld.core.controller import Core
from ctld.core.records.effects import Batch, Effect, Reply, StartPlan, Submitted, Warn
from ctld.core.records.events import ChangeMany, ClockJumped, Event, SubmitJob
from ctld.metrics import Diagnostics, Metrics
from ctld.runtime.checks import Checks
from ctld.runtime.deadline import DeadlineTimer
from ctld.runtime.debuglog import DebugLog
from ctld.runtime.fatalcauses import COMMIT_FAILED, CORE_FAILED, FatalCauses
from ctld.runtime.flightrec import FlightRecorder
from ctld.runtime.fullpass import FullPasses
from ctld.runtime.handled import HandledEvents
from ctld.runtime.inbox import Inbox
from ctld.runtime.lease import LeaseKeeper
from ctld.runtime.measures import Measures
from ctld.runtime.ports import StoreLike
from ctld.runtime.settledusers import SettledUsers
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.storage import Storage
from ctld.runtime.turns import longest_turn
from penstock.crash import crash_point
from penstock.threads import started_pool

log = logging.getLogger("penstock.ctld")

#: Maximum time of stepping before sockets are served.
PUMP_S: Final = 0.010
STORAGE_RETRY_S: Final = 1.0

Fail = Callable[[str, BaseException | None], None]


class Runtime:
    """Feeds one core. All methods belong to the thread of the asyncio loop."""

    def __init__(
        self,
        core: Core,
        store: StoreLike,
        snapshot: Snapshot,
        clock_us: Callable[[], int],
        fail: Fail,
        recorder: FlightRecorder | None = None,
        metrics: Metrics | None = None,
        storage_full: type[Exception] = MemoryError,
        storage_away: type[Exception] = ConnectionError,
        take_jump: Callable[[], int] = lambda: 0,
        fatal_causes: FatalCauses | None = None,
    ) -> None:
        self.core = core
        self.epoch = core.state.epoch  # the highest epoch in the database: the one sent to nodes
        self.snapshot = snapshot
        self.clock_us = clock_us
        self.metrics = metrics or Metrics()
        self.diagnostics = Diagnostics(clock_us())
        self.measures = Measures(self.metrics, self.diagnostics)
        self.storage = Storage(self.metrics, storage_full, storage_away)
        self.before_commit: list[
            Callable[[Batch], None]
        ] = []  # called with each batch to be written: they add to its outbox
        self.observers: list[Callable[[Batch], None]] = []  # called with each committed batch before its effects leave
        self.debug = DebugLog(self.observers)
        #: of a committed submission over REST: the job, and when the REST daemon had received it; None: nobody wants to know
        self.received: Callable[[int, int], None] | None = None
        self._store = store
        self._take_jump = take_jump
        self._fail = fail
        self._recorder = recorder or FlightRecorder(None)
        self._fatal_causes = fatal_causes or FatalCauses(None, 0)
        self._handled = HandledEvents(self._fatal_causes)
        self._whole: list[asyncio.Future[None]] = []  # waiters for the end of a long event
        self.users = SettledUsers(core)
        self._pump_due = False
        self._committing = False
        self._sealed_at_us = self._durable_to_us = clock_us()
        self._over = False  # failed or stopped: no more events are handled
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.longest_turn = longest_turn(self._loop)
        self._committer: Executor = started_pool(1, "committer")
        self.inbox = Inbox(core.state, self.storage, self.metrics, self._fatal_causes, self._schedule_pump)
        self.post = self.inbox.post
        self.ask = self.inbox.ask
        self.room = self.inbox.room
        self.new_reply_to = self.inbox.new_reply_to
        self.passes = FullPasses(self.measures, clock_us, self.post)
        # Any: each handler takes the effects of its own type only.
        self.handlers: dict[type[Effect], Callable[[Any], None]] = {
            Reply: self._reply,
            StartPlan: self.passes.start,
            Warn: lambda effect: log.warning("%s", effect.text, extra={"event": "core_warning"}),
        }
        self._deadline = DeadlineTimer(core, clock_us, self.post)
        self.lease = LeaseKeeper(
            store.renew_lease,
            clock_us,
            self._committer,
            self.storage,
            lambda: not self._committing,
            self._die,
        )
        self._checks = Checks(core, lambda: bool(self.inbox.events) or core.in_progress, self._die)

    # ---- input ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Seals the result of the recovery, and starts the timer."""
        if (quarantine := self._fatal_causes.quarantine()) is not None:
            self.inbox.events.appendleft(quarantine)
        self._schedule_pump()
        self.lease.start()
        self._checks.start()

    def durable_to_us(self) -> int:
        """Returns the time up to which all decisions of the core are in the database."""
        return self.clock_us() if self._idle.is_set() else self._durable_to_us

    async def idle(self) -> None:
        """Returns when everything accepted is committed and its effects have left."""
        await self._idle.wait()

    # ---- the pump ------------------------------------------------------------------------------------------------

    def _schedule_pump(self) -> None:
        if not self._pump_due and not self._over:
            self._pump_due = True
            self._idle.clear()
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        if self._over:
            return
        try:
            self._step_inbox()
            self._seal_if_free()
        except Exception as error:  # noqa: BLE001 (whatever it is, the state can no longer be trusted)
            self._die(CORE_FAILED, error)
            return
        if self.core.in_progress or (self.inbox.events and not self._handled.is_enough()):
            self._schedule_pump()
        elif not self._committing and not self.inbox.events:
            self._idle.set()
        self.inbox.stepped()
        self._deadline.arm()

    def _step_inbox(self) -> None:
        inbox, core = self.inbox.events, self.core
        clock_us = self.clock_us
        record = self._recorder.event
        handled = self._handled.add
        see = self.debug.event
        until = time.monotonic() + PUMP_S
        number = 0
        while inbox or core.in_progress:
            if core.in_progress:
                if self._resume_until(until):
                    break
                continue
            if self._handled.is_enough():
                break
            event = inbox.popleft()
            now_us = clock_us()
            if jump_us := self._take_jump():
                log.warning("the clock was set forward by %.1f s", jump_us / 1_000_000)
                record(now_us - jump_us, ClockJumped(jump_us))
                core.step(now_us - jump_us, ClockJumped(jump_us))
            record(now_us, event)
            handled(event)
            if see is not None:
                see(event)
            if type(event) is ChangeMany:
                self.users.keep()
            core.begin(now_us, event)
            if not core.in_progress:
                self.users.let_go()
            if core.state.handling.unexpected:
                self._report_unexpected(event)
            number += 1
            if type(event) is SubmitJob:
                self.metrics.submits += 1
                crash_point("submit:stepped")
            if number & 15 == 0 and time.monotonic() > until:
                break
        self.metrics.events += number

    def _report_unexpected(self, event: Event | None) -> None:
        for error in self.core.state.handling.take_unexpected():
            self.measures.spared()
            what = type(event).__name__ if event is not None else "a request"
            log.error("%s was refused for an error of ours; nothing was changed: %r", what, error, exc_info=error)

    def _resume_until(self, until: float) -> bool:
        """Handles more slices of a long event, until that time. Returns whether any remain."""
        while self.core.in_progress:
            self.core.resume()
            if self.core.state.handling.unexpected:
                self._report_unexpected(None)
            if time.monotonic() > until:
                break
        if not self.core.in_progress:
            self._let_in()
        return self.core.in_progress

    def _let_in(self) -> None:
        self.users.let_go()
        waiting = self._whole
        self._whole = []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def whole(self, is_settled: bool = False) -> Awaitable[None] | None:
        """Returns what to await before the state is read, so that no reader sees half of a change. None: it is
        consistent. `is_settled`: what is read is not touched by a change of accounting before it is whole."""
        if not self.core.in_progress or (is_settled and self.users.are_kept):
            return None
        return self._until_whole()

    async def _until_whole(self) -> None:
        while self.core.in_progress and not self._over:
            waiting = self._loop.create_future()
            self._whole.append(waiting)
            await waiting

    def _seal_if_free(self) -> None:
        while not self._committing and not self._over and not self.core.in_progress:
            self._schedule()
            self._sealed_at_us = self.clock_us()
            batch = self.core.seal()
            self._handled.sealed()
            self.snapshot.forecast = self.core.state.scheduling.forecast
            is_due = self._recorder.sealed(batch)
            if is_due and (batch is None or not batch.is_durable()):
                self._committer.submit(self._recorder.write_out)
            if batch is None:
                self._durable_to_us = self._sealed_at_us
                return
            self.metrics.batches += 1
            if batch.is_durable():
                for add in self.before_commit:
                    add(batch)
                self._commit(batch)
            else:
                self._release(batch)

    def _schedule(self) -> None:
        begun = time.perf_counter_ns()
        rows = self.core.schedule()
        if rows:
            self.measures.quick_pass(begun, rows, len(self.core.state.pending.ready))

    # ---- commit --------------------------------------------------------------------------------------------------

    def _commit(self, batch: Batch) -> None:
        self._committing = True
        begun = time.perf_counter_ns()
        # one hand-over back to the loop: an asyncio future in between would cost a second callback and a lock
        future = self._committer.submit(self._write, batch)
        future.add_done_callback(partial(self._hand_back, batch, begun))

    def _write(self, batch: Batch) -> None:
        """Writes everything to the disk, in the committer's thread: the loop never waits for it."""
        self._recorder.write_out()
        self._store.commit(batch)

    def _hand_back(self, batch: Batch, begun_ns: int, future: Future[None]) -> None:
        """Continues in the loop's thread. Called in the committer's."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._committed, batch, begun_ns, future)

    def _committed(self, batch: Batch, begun_ns: int, future: Future[None]) -> None:
        if self._over or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, self.storage.passing):
            self.storage.failed(error)
            if self.storage.is_full:
                self.inbox.refuse_for_full((*batch.effects, *self.core.state.outputs.effects))
            self._loop.call_later(STORAGE_RETRY_S, self._commit, batch)
            return
        if error is not None:
            self._die(COMMIT_FAILED, error)
            return
        self.storage.answers()
        self.measures.committed(begun_ns, batch)
        self._committing = False
        self._durable_to_us = self._sealed_at_us
        try:
            self._release(batch)
            self._seal_if_free()
        except Exception as failure:  # noqa: BLE001 (as in _pump)
            self._die(CORE_FAILED, failure)
            return
        if self.inbox.events:
            self._schedule_pump()
        if not (self.inbox.events or self._committing or self._pump_due or self.core.in_progress):
            self._idle.set()
        self._deadline.arm()

    def _release(self, batch: Batch) -> None:
        """Handles a batch that is committed, or had nothing to commit: readers may see it and its effects may leave."""
        self.epoch = batch.epoch or self.epoch
        self.snapshot.apply(batch)
        for observe in self.observers:
            observe(batch)
        handlers = self.handlers
        for effect in batch.effects:
            handlers[type(effect)](effect)
        self.measures.released(batch, self.clock_us())

    # ---- effects of the loop itself ------------------------------------------------------------------------------

    def _reply(self, effect: Reply) -> None:
        future = self.inbox.answer(effect.reply_to)
        if future is None:
            return
        if type(effect.body) is Submitted:
            crash_point("submit:before-reply")
        future.set_result(effect.body)

    # ---- the end -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Accepts no more requests, commits and releases everything accepted."""
        self.inbox.close()
        self.lease.stop()
        self._checks.stop()
        self.storage.give_up()
        if not self._over:
            self._schedule_pump()
            await self.idle()
            self._over = True
        self._deadline.stop()
        self.inbox.abandon()
        self._committer.shutdown(wait=True)
        self.passes.stop()
        self._recorder.close()

    def _die(self, what: str, error: BaseException | None) -> None:
        """Ends the process. Nothing unsealed or uncommitted has left it; the next one starts from the database."""
        if not self._over:
            self._over = True
            self.lease.stop()
            self._checks.stop()
            self._deadline.stop()
            self.passes.stop()
            self._idle.set()
            self._let_in()
            self._recorder.flush()
            if what == CORE_FAILED:
                self._fatal_causes.write(what, error, *self.core.in_hand, self.clock_us())
            elif what == COMMIT_FAILED:
                self._handled.commit_failed(error, self.clock_us())
            self._fail(what, error)
