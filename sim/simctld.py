"""The controller of a fault world: the real core and the real store, with a simulation of `ctld.runtime.loop` around
them.

Inbox, step, seal, commit, release are those of the real loop, in virtual time: a commit takes a while, during which
the next events are stepped. The registry of streams follows the rules of `ctld.agents` (an effect goes to the stream
that was admitted last). The database is SQLite in memory and survives the controller.

A crash drops the core, the inbox, the batch in hand and all streams, at one of the named points; the next controller
takes the lease (epoch + 1), loads and starts; while the database has no room or is away, the start is repeated. Commits
may be slow, find no room or no database, fail, or succeed without an answer.
"""

import functools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

# Any: an effect or message of the type of its handler
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.event import listen

from ctld.core.controller import Core
from ctld.core.queue.planning import run_plan
from ctld.core.records.effects import (
    AckReports,
    AdmitNode,
    Batch,
    ForgetStep,
    LaunchStep,
    Reply,
    SignalStep,
    StartPlan,
    SuspendStep,
    TerminateStep,
    Warn,
)
from ctld.core.records.events import (
    ClockJumped,
    Event,
    LaunchRefused,
    NodeDisconnected,
    StepExited,
    StepStarted,
    StopWaiting,
    Tick,
)
from ctld.core.recover import LoadedState
from ctld.core.requests.submit import SUBMIT_KEY_AGE_US
from ctld.runtime.clock import MonotonicWallClock
from ctld.runtime.flightrec import FlightRecorder
from ctld.store.committer import Store
from ctld.store.dialect import write_engine
from ctld.store.errors import StorageAway, StorageFull, StorageWaits, StoreError
from ctld.store.loss import NOTHING, Accept
from ctld.store.migrate import migrate
from penstock.values.config import Config
from sim.checkers import Broken, Checkers
from sim.network import CTLD, Network, SimStream
from sim.simstep import EXTERN_PROGRAM
from sim.timeline import US, Timeline

T = TypeVar("T")

#: The crash points of a controller. "effect" is between two effects of a batch.
CRASH_POINTS = ("step", "sealed", "commit:before", "commit:after", "effect")
STORAGE_RETRY_US = 1 * US
SLEEP_MAX_US = 5 * US


class Crash(Exception):
    """The controller dies here."""


class FaultyConnection:
    """The store's connection, whose next commit can be made to fail: `full`, `failed` or `lost` (its answer is
    lost)."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.fault = ""

    @property
    def in_transaction(self) -> bool:
        """Delegates to the driver."""
        return self._raw.in_transaction

    def cursor(self) -> sqlite3.Cursor:
        """Delegates to the driver."""
        return self._raw.cursor()

    def rollback(self) -> None:
        """Delegates to the driver."""
        self._raw.rollback()

    def commit(self) -> None:
        """Commits, unless a failure is due."""
        fault, self.fault = self.fault, ""
        if fault in ("", "lost"):
            self._raw.commit()
        if fault:
            raise no_room() if fault == "full" else sqlite3.OperationalError(f"injected: {fault}")


def no_room() -> sqlite3.OperationalError:
    """SQLite's error on a full disk."""
    error = sqlite3.OperationalError("injected: full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@functools.cache
def _migrated() -> Engine:
    """A database with all tables and no rows, which each world copies: the migrations take as long as a short world."""
    engine = write_engine(":memory:")
    with engine.begin() as connection:
        migrate(connection)
    return engine


class FaultyStore(Store):
    """The real store on SQLite in memory. Each controller takes a new lease; the data persist.

    While `away_until_us` is ahead, nothing can be read or written.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.away_until_us = 0
        self.full_lease = False  # the next lease finds no room
        self.database = write_engine(":memory:")
        super().__init__(":memory:", "world", self.database)
        with closing(_migrated().raw_connection()) as made:
            assert isinstance(made.driver_connection, sqlite3.Connection)
            made.driver_connection.backup(self.raw)
        self.raw = self.connection = FaultyConnection(self.raw)
        listen(self.database, "commit", self._lease_commits)

    def acquire_lease(self, now_us: int, accept: Accept = NOTHING) -> int:
        """As the real one, unless the server is away."""
        self._check_there()
        return super().acquire_lease(now_us, accept)

    def commit(self, batch: Batch) -> None:
        """As the real one, unless the server is away."""
        self._check_there()
        super().commit(batch)

    def _check_there(self) -> None:
        if self._timeline.now_us < self.away_until_us:
            raise StorageAway("injected: away")

    def _lease_commits(self, connection: Connection) -> None:
        full, self.full_lease = self.full_lease, False
        if full:
            raise no_room()


class SimController:
    """The controller's process while it is up, and its restarts."""

    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        checkers: Checkers,
        random: Random,
        config: Config,
        record: Path | None,
    ) -> None:
        self.config = config  # the content of slurm.conf: in force at the next start
        self.offset_us = 0  # of the wall clock
        self.up = False
        self._has_run = False  # there is a core, perhaps of an earlier run
        self.core: Core
        self.armed: tuple[str, int] = ("", 0)
        self.commit_max_us = 3_000
        self.plan_max_us = 50_000
        self.full_starts = 0  # so many starts find no room in the database
        self.store = FaultyStore(timeline)
        self._timeline = timeline
        self._network = network
        self._checkers = checkers
        self._random = random
        self._record = record
        self._run = 0  # number of this controller's run: events scheduled by earlier ones are void
        self._handlers: dict[type, Callable[[Any], None]] = {
            Reply: self._reply,
            StartPlan: self._start_plan,
            AdmitNode: self._admit,
            AckReports: self._acknowledge,
            Warn: self._checkers.warned,
            **dict.fromkeys((LaunchStep, SignalStep, SuspendStep, TerminateStep, ForgetStep), self._send),
        }

    # ---- life ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start from the database."""
        if self.up:
            return
        self._run += 1
        self.clock = MonotonicWallClock(
            lambda: (self._timeline.now_us + self.offset_us) * 1000, lambda: self._timeline.now_us * 1000
        )
        now_us = self.clock()
        try:
            epoch = self._acquire_lease(now_us)
        except StorageWaits as error:
            self._timeline.say(0, f"the controller cannot start: {error}")
            self._later(self._random.randint(US, 20 * US), self.boot)
            return
        loaded = self.store.load(now_us, self.config.min_job_age_s * US, SUBMIT_KEY_AGE_US)._replace(epoch=epoch)
        self._checkers.loaded(loaded)
        self._inbox: list[Event] = []
        self._waiting: dict[int, Callable[[object], None]] = {}
        self._links: dict[int, SimStream] = {}
        self._by_node: dict[str, SimStream] = {}
        self._replies = 0
        self._link_numbers = 0
        self._pump_due = False
        self._committing = False
        self._timer_us = -1
        self._recorder = FlightRecorder(self._record)
        self._timeline.say(0, f"controller starts: epoch {epoch}, {len(loaded.jobs)} jobs")
        self._start_core(loaded, now_us)
        self.up = True
        self._guarded(self._seal_if_free)
        self._guarded(self._arm_timer)

    def _acquire_lease(self, now_us: int) -> int:
        if self.full_starts:
            self.full_starts -= 1
            self.store.full_lease = True
        return self.store.acquire_lease(now_us)

    def _start_core(self, loaded: LoadedState, now_us: int) -> None:
        self._recorder.start(now_us, self.config, loaded)
        is_same = self._has_run and self.core.state.config == self.config
        self.core = self._trusted(Core, self.config, loaded, now_us)
        self._trusted(self.core.check)
        self._has_run = True
        kept = self.core.state.layout.kept
        if is_same and kept:
            raise Broken("core", f"a start with the same file completes it: {kept}")

    def crash(self, why: str) -> None:
        """Drops everything that is not in the database."""
        if not self.up:
            return
        self.up = False
        self._run += 1
        self.armed = ("", 0)
        self._recorder.close()
        self._timeline.say(0, f"controller dies: {why}")
        for stream in list(self._links.values()):
            stream.close(CTLD)
        for lost in list(self._waiting.values()):
            lost(None)
        self._timeline.after(self._random.randint(100_000, 20 * US), self.boot)

    def passes(self, point: str) -> None:
        """Crashes here if that is due."""
        name, left = self.armed
        if name == point:
            self.armed = (name, left - 1)
            if left <= 1:
                raise Crash(point)

    def _guarded(self, act: Callable[..., None], *args: object) -> None:
        try:
            act(*args)
        except Crash as crash:
            self.crash(str(crash))

    def _later(self, delay_us: int, act: Callable[..., None], *args: object) -> None:
        self._timeline.after(delay_us, self._if_same_run, self._run, act, args)

    def _if_same_run(self, run: int, act: Callable[..., None], args: tuple[object, ...]) -> None:
        if run == self._run:
            self._guarded(act, *args)

    def _trusted(self, act: Callable[..., T], *args: object) -> T:
        """Calls the core: any exception is a finding."""
        try:
            return act(*args)
        except Broken:
            raise
        except Exception as error:
            raise Broken("core", f"{type(error).__name__}: {error}") from error

    # ---- in ------------------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Enqueues an event."""
        self._inbox.append(event)
        if not self._pump_due:
            self._pump_due = True
            self._later(self._random.randint(0, 500), self._pump)

    def ask(self, make: Callable[[int], Event], answered: Callable[[object], None]) -> None:
        """Enqueues a request. `answered(None)`: the connection broke."""
        self._replies += 1
        self._waiting[self._replies] = answered
        self.post(make(self._replies))

    @property
    def run(self) -> int:
        """The number of this run of the controller."""
        return self._run

    def stop_waiting(self, run: int, reply_to: int) -> None:
        """The caller of that run's request has gone."""
        if self.up and run == self._run and self._waiting.pop(reply_to, None) is not None:
            self.post(StopWaiting(reply_to))

    def _pump(self) -> None:
        self._pump_due = False
        inbox, self._inbox = self._inbox, []
        for event in inbox:
            now_us = self.clock()
            if jump_us := self.clock.take_jump():
                self._recorder.event(now_us - jump_us, ClockJumped(jump_us))
                self._trusted(self.core.step, now_us - jump_us, ClockJumped(jump_us))
            self._recorder.event(now_us, event)
            self._trusted(self.core.step, now_us, event)
            self.passes("step")
        self._seal_if_free()
        self._arm_timer()

    def _seal_if_free(self) -> None:
        while not self._committing:
            batch = self._trusted(self.core.seal)
            self._recorder.sealed(batch)
            self._recorder.write_out()
            if batch is None:
                return
            self._trusted(self.core.check)  # whatever is committed is consistent
            self.passes("sealed")
            if batch.is_durable():
                self._committing = True
                self._later(self._random.randint(200, self.commit_max_us), self._commit, batch)
            else:
                self._release(batch)

    def _commit(self, batch: Batch) -> None:
        self.passes("commit:before")
        try:
            self.store.commit(batch)
        except StorageWaits as error:
            self._timeline.say(0, "the database has no room" if isinstance(error, StorageFull) else "no database")
            self._later(STORAGE_RETRY_US, self._commit, batch)
            return
        except StoreError as error:
            raise Crash(f"the commit failed: {error}") from error
        self._checkers.committed(batch)
        self.passes("commit:after")
        self._later(self._random.randint(10, 200), self._committed, batch)

    def _committed(self, batch: Batch) -> None:
        self._committing = False
        self._release(batch)
        self._seal_if_free()
        self._arm_timer()

    def _release(self, batch: Batch) -> None:
        for effect in batch.effects:
            self.passes("effect")
            self._checkers.released(effect)
            self._handlers[type(effect)](effect)

    # ---- time ----------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        deadline_us = self.core.next_deadline()
        if deadline_us is None or deadline_us == self._timer_us:
            return
        self._timer_us = deadline_us
        wait_us = (
            min(max(deadline_us - self.clock(), 0), SLEEP_MAX_US) if self.offset_us else deadline_us - self.clock()
        )
        self._later(max(wait_us, 1), self._tick, deadline_us)

    def _tick(self, deadline_us: int) -> None:
        if deadline_us != self._timer_us:
            return
        self._timer_us = -1
        due_us = self.core.next_deadline()
        if due_us is not None and due_us <= self.clock():
            self.post(Tick())
        else:
            self._arm_timer()

    def jump(self, jump_us: int) -> None:
        """The wall clock is set, forward or back."""
        self.offset_us += jump_us
        self._timeline.say(0, f"the controller's clock is set by {jump_us / US:+.0f} s")
        if self.up:
            self._timer_us = -1
            self._later(self._random.randint(1, SLEEP_MAX_US), self._arm_timer)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _reply(self, effect: Reply) -> None:
        answered = self._waiting.pop(effect.reply_to, None)
        if answered is not None:
            answered(effect.body)

    def _start_plan(self, effect: StartPlan) -> None:
        self._later(self._random.randint(1_000, self.plan_max_us), self._planned, effect)

    def _planned(self, effect: StartPlan) -> None:
        self.post(self._trusted(run_plan, effect.revision, effect.question))

    def _send(self, effect: LaunchStep | SignalStep | SuspendStep | TerminateStep | ForgetStep) -> None:
        stream = self._by_node.get(effect.node)
        if stream is not None:
            stream.commands += 1
            stream.unacked[stream.commands] = effect
            spec = self._spec(effect) if type(effect) is LaunchStep else None
            stream.send(CTLD, ("command", self.core.state.epoch, stream.commands, effect, spec))

    def _spec(self, effect: LaunchStep) -> bytes | None:
        if effect.step is not None and effect.step.request is None:
            return EXTERN_PROGRAM
        spec = self.store.spec(effect.step.spec_hash if effect.step is not None else effect.job.spec_hash)
        return None if spec is None else spec.script or spec.argv[0]

    def _admit(self, effect: AdmitNode) -> None:
        stream = self._links.get(effect.link_id)
        if stream is None:
            newer = self._by_node.get(effect.node)
            if newer is not None and not effect.refusal:
                newer.close(CTLD)
            return
        config = self.core.state.config
        timeout_us = config.unkillable_step_timeout_s * US
        stream.send(CTLD, ("registered", effect.refusal, self.core.state.epoch, timeout_us))
        if effect.refusal:
            self._timeline.say(0, f"{effect.node} is refused: {effect.refusal}")
            self._later(1_000, stream.close, CTLD)
            return
        older = self._by_node.get(effect.node)
        if older is not None and older is not stream:
            older.close(CTLD)
        self._by_node[effect.node] = stream
        self._checkers.admitted(effect.node, stream)
        self._timeline.say(0, f"{effect.node} is admitted, stream {effect.link_id}")

    def _acknowledge(self, effect: AckReports) -> None:
        stream = self._links.get(effect.link_id)
        if stream is not None:
            stream.send(CTLD, ("acked", effect.spool_id, effect.sequence))

    # ---- streams -------------------------------------------------------------------------------------------------

    def take(self, stream: SimStream, message: Any) -> None:
        """Handles a message of a node."""
        if not self.up:
            stream.close(CTLD)
            return
        kind, *content = message
        if kind == "register":
            if stream.link_id:
                return
            self._link_numbers += 1
            stream.link_id = self._link_numbers
            self._links[stream.link_id] = stream
            self.post(content[0](stream.link_id))
        elif kind == "answer":
            sequence, refused = content
            effect = stream.unacked.pop(sequence, None)
            if refused and type(effect) is LaunchStep:
                self._timeline.say(
                    effect.job_id, f"{effect.node} refuses job {effect.job_id}.{effect.attempt}: {refused}"
                )
                self.post(LaunchRefused(effect.node, effect.job_id, effect.attempt, effect.step_id, refused))
        elif kind == "beat":
            stream.send(CTLD, ("beat_answered", content[0]))
        else:
            report: StepStarted | StepExited = content[0](stream.link_id)
            self.post(self._by_our_clock(report))

    def _by_our_clock(self, report: StepStarted | StepExited) -> StepStarted | StepExited:
        """The report with its times by the controller's clock, as its link translates them."""
        now_us = self.clock()
        times = {
            name: max(1, now_us - max(0, self._timeline.now_us - at_us))
            for name in ("at_us", "start_at_us", "end_at_us")
            if (at_us := getattr(report, name, 0))
        }
        return msgspec.structs.replace(report, **times) if times else report

    def broken(self, stream: SimStream) -> None:
        """Handles the end of a stream."""
        if self._links.pop(stream.link_id, None) is None:
            return
        self._checkers.left(stream.node, stream)
        if self._by_node.get(stream.node) is stream:
            del self._by_node[stream.node]
        if self.up:
            self.post(NodeDisconnected(stream.node, stream.link_id))
