"""The loop: inbox -> step -> seal -> commit -> snapshot -> effects. One asyncio loop owns the core.

Rules
    - Order rule: the effects of a batch leave after its commit, and after the commits of all batches before it.
    - Natural group commit: while one commit runs in the committer's thread the loop goes on stepping; when it ends,
      the snapshot is advanced, the effects leave, and everything since is sealed as the next batch. No timer.
    - What cannot be understood ends the process (`fail`): an exception out of the core, a lost leadership, a commit
      that fails in an unknown way. The database is the truth, and the next process starts from it.
    - A full disk is none of these, nor a database server that does not answer: the same batch is tried again after a
      pause. What becomes of requests meanwhile says storage.py.
    - The inbox is bounded. A request beyond the limit is refused; a node's stream is not read on (`room`).

No task per event or job: callbacks and one timer.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from ctld.core.controller import Core
from ctld.core.effects import Batch, Effect, Reply, StartPlan, Submitted
from ctld.core.events import (
    AnyEvent,
    AwaitAllocation,
    AwaitJob,
    AwaitStep,
    ClockJumped,
    CreateStep,
    PlanReady,
    StopWaiting,
    SubmitJob,
    Tick,
)
from ctld.core.planning import run_plan
from ctld.metrics import Diagnostics, Metrics
from ctld.runtime.errors import NotTaken
from ctld.runtime.flightrec import FlightRecorder
from ctld.runtime.points import crash_point
from ctld.runtime.ports import StoreLike
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.storage import Storage
from penstock.values.refusals import Code

log = logging.getLogger("penstock.ctld")

#: Events that may wait: some seconds of the highest load. Each is a kilobyte or a submission of some kilobytes.
INBOX_EVENTS_MAX: Final = 20_000
#: How long the loop steps before it lets sockets have a turn.
PUMP_S: Final = 0.010
#: Longest sleep between two looks at the clock, so that a wall clock set forward is noticed.
SLEEP_MAX_S: Final = 5.0
STORAGE_RETRY_S: Final = 1.0
#: A third of the lease: two renewals may fail before it is lost.
LEASE_RENEW_S: Final = 3.0
#: The invariants are checked this often, and only with so few jobs that it takes milliseconds.
CHECK_S: Final = 30.0
CHECK_JOBS_MAX: Final = 1_000

#: Requests whose callers may go away before they are answered.
WAITING: Final = frozenset((AwaitJob, AwaitAllocation, AwaitStep, CreateStep))
#: Those that change nothing.
LOOKING: Final = frozenset((AwaitJob, AwaitAllocation, AwaitStep))

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
    ) -> None:
        self.core = core
        self.snapshot = snapshot
        self.clock_us = clock_us
        self.metrics = metrics or Metrics()
        self.diagnostics = Diagnostics(clock_us())
        self.storage = Storage(self.metrics, storage_full, storage_away)
        self.handlers: dict[type[Effect], Callable[[Any], None]] = {Reply: self._reply, StartPlan: self._start_plan}
        self.observers: list[Callable[[Batch], None]] = []  # see each committed batch before its effects leave
        self._store = store
        self._take_jump = take_jump
        self._fail = fail
        self._recorder = recorder or FlightRecorder(None)
        self._inbox: deque[AnyEvent] = deque()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._whole: list[asyncio.Future[None]] = []  # who wait for the end of an event that takes long
        self._next_reply_to = 1
        self._pump_due = False
        self._committing = False
        self._renewing = False
        self._sealed_at_us = self._durable_to_us = clock_us()
        self._closing = False
        self._over = False  # failed or stopped: nothing is stepped any more
        self._timer: asyncio.TimerHandle | None = None
        self._timer_for: int | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._committer: Executor = ThreadPoolExecutor(1, "committer")
        self._pass_timer: asyncio.TimerHandle | None = None
        self._planner: Executor = ThreadPoolExecutor(1, "planner")

    # ---- in ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Seal what recovery led to, and begin to keep time."""
        self._schedule_pump()
        self._loop.call_later(LEASE_RENEW_S, self._renew_lease)
        self._loop.call_later(CHECK_S, self._check)

    def post(self, event: AnyEvent) -> None:
        """Take a fact. Who posts many waits for `room` first."""
        self._inbox.append(event)
        if len(self._inbox) >= INBOX_EVENTS_MAX:
            self._room.clear()
        self._schedule_pump()

    async def room(self) -> None:
        """Return when the inbox takes more."""
        await self._room.wait()

    def inbox_length(self) -> int:
        """Requests and reports that wait for the core."""
        return len(self._inbox)

    def durable_to_us(self) -> int:
        """Everything that the core has decided until then is in the database."""
        return self.clock_us() if self._idle.is_set() else self._durable_to_us

    def new_reply_to(self) -> int:
        """A number for an event whose answer is awaited."""
        number = self._next_reply_to
        self._next_reply_to += 1
        return number

    async def ask(self, event: Any) -> Any:
        """Post a request with a `reply_to` of `new_reply_to` and wait for the body of its Reply. Raises NotTaken."""
        if self.storage.is_away and type(event) not in LOOKING:
            await self.storage.wait()
        if self._closing:
            raise NotTaken(Code.BUSY, "the controller is stopping", passing=True)
        if len(self._inbox) >= INBOX_EVENTS_MAX:
            self.metrics.inbox_full += 1
            raise NotTaken(Code.BUSY, f"{INBOX_EVENTS_MAX} requests are waiting")
        if self.storage.is_full and type(event) is SubmitJob:
            raise NotTaken(Code.STORAGE_FULL, "")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[event.reply_to] = future
        self._inbox.append(event)
        self._schedule_pump()
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.pop(event.reply_to, None) is not None and type(event) in WAITING and not self._closing:
                self.post(StopWaiting(event.reply_to))
            raise

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
            self._die("the core failed", error)
            return
        if self._inbox or self.core.is_amid:
            self._schedule_pump()
        elif not self._committing:
            self._idle.set()
        if len(self._inbox) < INBOX_EVENTS_MAX:
            self._room.set()
        self._arm_timer()

    def _step_inbox(self) -> None:
        inbox, core, clock_us, record = self._inbox, self.core, self.clock_us, self._recorder.event
        until = time.monotonic() + PUMP_S
        number = 0
        while inbox or core.is_amid:
            if core.is_amid:
                if self._go_on(until):
                    break
                continue
            event = inbox.popleft()
            now_us = clock_us()
            if jump_us := self._take_jump():
                log.warning("the clock was set forward by %.1f s", jump_us / 1_000_000)
                record(now_us - jump_us, ClockJumped(jump_us))
                core.step(now_us - jump_us, ClockJumped(jump_us))
            record(now_us, event)
            core.begin(now_us, event)
            number += 1
            if type(event) is SubmitJob:
                self.metrics.submits += 1
                crash_point("submit:stepped")
            if number & 15 == 0 and time.monotonic() > until:
                break
        self.metrics.events += number

    def _go_on(self, until: float) -> bool:
        """More of an event that takes long, until then. True when something is left of it."""
        while self.core.is_amid:
            self.core.go_on()
            if time.monotonic() > until:
                break
        if not self.core.is_amid:
            self._let_in()
        return self.core.is_amid

    def _let_in(self) -> None:
        waiting, self._whole = self._whole, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def whole(self) -> Awaitable[None] | None:
        """What to await before the state is looked at, so that nobody is shown half of a change. None: it is whole."""
        return self._until_whole() if self.core.is_amid else None

    async def _until_whole(self) -> None:
        while self.core.is_amid and not self._over:
            waiting = self._loop.create_future()
            self._whole.append(waiting)
            await waiting

    def _seal_if_free(self) -> None:
        while not self._committing and not self._over and not self.core.is_amid:
            self._schedule()
            self._sealed_at_us = self.clock_us()
            batch = self.core.seal()
            self.snapshot.forecast = self.core.state.forecast
            self._recorder.sealed(batch)
            if batch is None:
                self._durable_to_us = self._sealed_at_us
                return
            self.metrics.batches += 1
            if batch.is_durable():
                self._commit(batch)
            else:
                self._release(batch)

    def _schedule(self) -> None:
        begun = time.perf_counter_ns()
        rows = self.core.schedule()
        if rows:
            took_us = (time.perf_counter_ns() - begun) // 1000
            self.diagnostics.main.count(took_us, rows, len(self.core.state.pending.ready))

    # ---- commit --------------------------------------------------------------------------------------------------

    def _commit(self, batch: Batch) -> None:
        self._committing = True
        begun = time.perf_counter_ns()
        future = self._loop.run_in_executor(self._committer, self._store.commit, batch)
        future.add_done_callback(partial(self._committed, batch, begun))

    def _committed(self, batch: Batch, begun_ns: int, future: "asyncio.Future[None]") -> None:
        if self._over or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, self.storage.passing):
            self.storage.failed(error)
            self._loop.call_later(STORAGE_RETRY_S, self._commit, batch)
            return
        if error is not None:
            self._die("the commit failed", error)
            return
        self.storage.answers()
        metrics = self.metrics
        metrics.commits += 1
        took_us = (time.perf_counter_ns() - begun_ns) // 1000
        metrics.commit_us_total += took_us
        self.diagnostics.commits += 1
        self.diagnostics.commit_us += took_us
        metrics.rows += len(batch.jobs) + len(batch.steps) + len(batch.history)
        self._committing = False
        self._durable_to_us = self._sealed_at_us
        try:
            self._release(batch)
            self._seal_if_free()
        except Exception as failure:  # noqa: BLE001 (as in _pump)
            self._die("the core failed", failure)
            return
        if not (self._inbox or self._committing or self._pump_due or self.core.is_amid):
            self._idle.set()
        self._arm_timer()

    def _release(self, batch: Batch) -> None:
        """The batch is committed, or had nothing to commit: readers may see it and its effects may leave."""
        self.snapshot.apply(batch)
        for line in batch.history:
            self.diagnostics.count_history(line.event, line.detail)
        for observe in self.observers:
            observe(batch)
        handlers = self.handlers
        for effect in batch.effects:
            handlers[type(effect)](effect)
        self.metrics.effects += len(batch.effects)

    # ---- effects of the loop itself ------------------------------------------------------------------------------

    def _reply(self, effect: Reply) -> None:
        future = self._waiting.pop(effect.reply_to, None)
        if future is None or future.done():
            return
        if type(effect.body) is Submitted:
            crash_point("submit:before-reply")
        future.set_result(effect.body)

    def _start_plan(self, effect: StartPlan) -> None:
        self.metrics.plans += 1
        begun, rows = time.perf_counter_ns(), len(effect.question.given.rows)
        future = self._loop.run_in_executor(self._planner, _plan, effect)
        future.add_done_callback(partial(self._planned, begun, rows))
        self._pass_timer = self._loop.call_later(effect.seconds_max, _stop_pass, effect.question.given.stop)

    def _planned(self, begun_ns: int, rows: int, future: "asyncio.Future[Any]") -> None:
        if self._pass_timer is not None:
            self._pass_timer.cancel()
        if self._over or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._die("the planner failed", error)
        else:
            ready = future.result()
            took_us = (time.perf_counter_ns() - begun_ns) // 1000
            table = len(ready.forecast) if ready.forecast is not None else 0
            self.diagnostics.count_backfill(took_us, rows, len(ready.starts), table, self.clock_us())
            self.post(ready)

    # ---- time ----------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        deadline_us = self.core.next_deadline()
        if self._timer is not None:
            if deadline_us == self._timer_for:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_us is None or self._over:
            return
        self._timer_for = deadline_us
        wait_s = max(0.0, (deadline_us - self.clock_us()) / 1e6)
        self._timer = self._loop.call_later(min(wait_s, SLEEP_MAX_S), self._tick)

    def _tick(self) -> None:
        self._timer = None
        deadline_us = self.core.next_deadline()
        if deadline_us is not None and deadline_us <= self.clock_us():
            self.post(Tick())
        else:
            self._arm_timer()

    def _renew_lease(self) -> None:
        if self._over or self._closing:
            return
        self._loop.call_later(LEASE_RENEW_S, self._renew_lease)
        if self._renewing:  # a server that is away answers late
            return
        self._renewing = True
        future = self._loop.run_in_executor(self._committer, self._store.renew_lease, self.clock_us())
        future.add_done_callback(self._renewed)

    def _renewed(self, future: "asyncio.Future[None]") -> None:
        self._renewing = False
        if self._over or future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.storage.answered()
        elif isinstance(error, self.storage.passing):
            log.error("the lease cannot be renewed: %s", error)
            self.storage.failed(error)
        else:
            self._die("the lease cannot be renewed", error)

    def _check(self) -> None:
        if self._over or self._closing:
            return
        self._loop.call_later(CHECK_S, self._check)
        if len(self.core.state.jobs) > CHECK_JOBS_MAX or self._inbox or self.core.is_amid:
            return
        try:
            self.core.check()
        except Exception as error:  # noqa: BLE001 (an invariant that does not hold)
            self._die("an invariant does not hold", error)

    # ---- the end -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Take no more requests, commit and release everything that was taken."""
        self._closing = True
        self.storage.give_up()
        if not self._over:
            self._schedule_pump()
            await self._idle.wait()
            self._over = True
        if self._timer is not None:
            self._timer.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NotTaken(Code.BUSY, "the controller is stopping", passing=True))
        self._waiting.clear()
        self._committer.shutdown(wait=True)
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._recorder.close()

    def _die(self, what: str, error: BaseException | None) -> None:
        """Nothing that is unsealed or uncommitted has left this process; the next one starts from the database."""
        if not self._over:
            self._over = True
            self._idle.set()
            self._let_in()
            self._recorder.flush()
            self._fail(what, error)


def _plan(effect: StartPlan) -> PlanReady:
    """In the worker, which also sorts the forecast, so that the loop need not when somebody asks."""
    ready = run_plan(effect.revision, effect.question)
    if ready.forecast is not None:
        ready.forecast.sort()
    return ready


def _stop_pass(stop: Any) -> None:
    """bf_max_time is over: the planner looks at this between two rows."""
    stop[0] = 1
