"""The node's funnel: `step(now_us, event)` changes what the node knows, `seal()` hands out records and effects.

Rules
    - A key is started at most once: `StartStep` is emitted only on the move UNKNOWN -> ACCEPTED.
    - A key that was accepted, or ended before its launch, gets exactly one `Exited` report.
    - A report is kept until the controller says that what it caused is committed, and is sent again on every new
      stream.
    - A command with a lower epoch than the highest seen is refused; a higher one is written down before it is obeyed.
    - Of one (job, step) no two attempts live at once.
    - A suspended step stands still, whatever else is sent to it, until it is resumed or told to end: SIGTSTP, which a
      program may prepare for, after a grace SIGSTOP. A restarted daemon stops it again, a stepd that begins under it too.
    - Escalation: SIGCONT and SIGTERM, after the grace SIGKILL, and when that too was in vain, a notice
      that drains the node, and another one when it has ended after all.

Deliberately absent: what a launch order holds, how signals reach processes, when to reconnect.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from nodedaemon.core.messages import (
    DURABLE,
    AckCommand,
    Acked,
    AnyRecord,
    Batch,
    BootSeen,
    Command,
    DoOrder,
    DropLink,
    Effect,
    EpochSeen,
    Event,
    Exited,
    Forget,
    Forgotten,
    Held,
    KillWanted,
    Launch,
    LinkDown,
    LinkUp,
    Notice,
    Noticed,
    Notify,
    Order,
    Reboot,
    RebootMachine,
    Report,
    ReportsAcked,
    Said,
    Say,
    SendReport,
    Signal,
    SignalStep,
    SpoolBorn,
    Started,
    StartStep,
    StepBegan,
    StepEnded,
    Suspend,
    Suspended,
    SweepStep,
    TellUnkillable,
    Terminate,
    TimerDue,
    Unkillable,
)
from nodedaemon.core.steps import Step, StepKey, StepState
from penstock.values.jobid import EXTERN_STEP

SIGKILL, SIGTERM, SIGCONT, SIGSTOP, SIGTSTP = 9, 15, 18, 19, 20
#: Who gets a signal: the task's first process, or every process of the step.
SCOPE_BATCH, SCOPE_ALL = 0, 1

#: Held steps on one node. Far above any real node (one CPU each); bounds memory and the size of a registration.
STEPS_MAX = 65_536
#: Ended keys remembered so that a launch that comes again starts nothing. At 400 jobs a second: over a minute of delay.
FORGOTTEN_MAX = 32_768
#: Until the controller says otherwise: Slurm's default UnkillableStepTimeout.
UNKILLABLE_TIMEOUT_US = 60_000_000

#: Slurm's words for a node with a process that SIGKILL does not end.
KILL_TASK_FAILED = "Kill task failed"
NO_ROOM = "the node's spool is full"
NEVER_STARTED_TOMBSTONE = "ended before it was started"


class NodeMachine:
    """All that a node knows about its steps, its reports and its controller's epoch."""

    def __init__(self) -> None:
        self.spool_id = ""
        self.boot_id = ""
        self.epoch = 0
        self.steps: dict[StepKey, Step] = {}
        self.unacked: dict[int, Report] = {}
        self.forgotten: dict[StepKey, None] = {}
        self.next_sequence = 1
        self.link = 0  # 0 = no stream
        self.full = False  # there is no room for new steps: they are answered as never tried
        self.unkillable_timeout_us = UNKILLABLE_TIMEOUT_US
        self._command_seen = 0  # highest command sequence of this stream
        self._live: dict[tuple[int, int], StepKey] = {}
        self._timers: list[tuple[int, StepKey]] = []
        self._records: list[AnyRecord] = []
        self._effects: list[Effect] = []
        self._handlers: dict[type[Event], Callable[[int, Any], None]] = {
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Launch: self._launch,
            Signal: self._signal,
            Terminate: self._terminate,
            Suspend: self._suspend,
            Forget: self._forget,
            Reboot: self._reboot,
            Notify: self._notify,
            ReportsAcked: self._reports_acked,
            StepBegan: self._step_began,
            StepEnded: self._step_ended,
            Notice: self._notice,
            Say: self._say,
            Order: self._order,
            TimerDue: self._timer_due,
        }

    # -- the funnel

    def step(self, now_us: int, event: Event) -> None:
        """Take one event."""
        self._handlers[type(event)](now_us, event)

    def seal(self) -> Batch | None:
        """What has gathered since the last call, or None."""
        if not self._records and not self._effects:
            return None
        durable = any(isinstance(r, DURABLE) for r in self._records)
        batch = Batch(tuple(self._records), tuple(self._effects), durable)
        self._records, self._effects = [], []
        return batch

    def next_deadline(self) -> int | None:
        """When TimerDue has to come, or None."""
        while self._timers:
            at_us, key = self._timers[0]
            if self._due_at(key) == at_us:
                return at_us
            heapq.heappop(self._timers)  # the step has ended or was given another time
        return None

    # -- the journal: replay and snapshot

    def replay(self, records: Iterable[AnyRecord]) -> None:
        """Take in what an earlier daemon wrote. Causes no records and no effects."""
        for record in records:
            self._absorb(record)
        for step in self.live_steps():
            if step.kill_at_us:
                self._schedule(step, step.kill_at_us)
            elif step.suspended:  # the SIGSTOP may not have been sent any more
                self._stop_at(step, 1)

    def snapshot(self) -> Iterator[AnyRecord]:
        """Records that say the same as all written so far, for compaction."""
        yield SpoolBorn(self.spool_id)
        yield BootSeen(self.boot_id)
        yield EpochSeen(self.epoch)
        yield Acked(min(self.unacked, default=self.next_sequence) - 1)
        for key in self.forgotten:
            yield Forgotten(key)
        for step in self.steps.values():
            yield Held(step.key, step.epoch, step.state, step.start_at_us, step.lease)
            if step.is_live and step.kill_at_us:
                yield KillWanted(step.key, step.kill_at_us)
            if step.is_live and step.suspended:
                yield Suspended(step.key, True)
            if step.is_live and step.unkillable:
                yield Unkillable(step.key)
        yield from self.unacked.values()

    def live_steps(self) -> list[Step]:
        """Steps of which a process may run: what a restarted daemon has to look for."""
        return [step for step in self.steps.values() if step.is_live]

    def check(self) -> None:
        """Raise AssertionError when the machine contradicts itself."""
        assert {(k.job_id, k.step_id): k for k, s in self.steps.items() if s.is_live} == self._live
        assert not self.forgotten.keys() & self.steps.keys()
        assert all(sequence < self.next_sequence for sequence in self.unacked)
        assert len(self.forgotten) <= FORGOTTEN_MAX

    def _absorb(self, record: AnyRecord) -> None:
        if isinstance(record, SpoolBorn):
            self.spool_id = record.spool_id
        elif isinstance(record, BootSeen):
            self.boot_id = record.boot_id
        elif isinstance(record, EpochSeen):
            self.epoch = max(self.epoch, record.epoch)
        elif isinstance(record, Held):
            step = self._hold(record.key, record.epoch)
            step.state, step.start_at_us, step.lease = record.state, record.start_at_us, record.lease
            self._note_live(step)
        elif isinstance(record, KillWanted):
            if record.key in self.steps:
                self.steps[record.key].kill_at_us = record.kill_at_us
        elif isinstance(record, Suspended):
            if record.key in self.steps:
                self.steps[record.key].suspended = record.suspended
        elif isinstance(record, Unkillable):
            if record.key in self.steps:
                self.steps[record.key].unkillable = True
        elif isinstance(record, Started | Exited | Noticed | Said):
            self._keep(record)
            self._follow(record)
        elif isinstance(record, Acked):
            self._drop_acked(record.through)
            self.next_sequence = max(self.next_sequence, record.through + 1)
        elif isinstance(record, Forgotten):
            self.steps.pop(record.key, None)
            self._remember_forgotten(record.key)

    # -- streams

    def _link_up(self, now_us: int, event: LinkUp) -> None:
        if event.epoch < self.epoch:
            why = f"the controller's epoch {event.epoch} is lower than {self.epoch}, which this node has seen"
            self._effects.append(DropLink(event.link, why))
            return
        self._raise_epoch(event.epoch)
        self.link, self._command_seen = event.link, 0
        self.unkillable_timeout_us = event.unkillable_timeout_us or UNKILLABLE_TIMEOUT_US
        self._effects.extend(SendReport(event.link, n, report) for n, report in self.unacked.items())

    def _link_down(self, now_us: int, event: LinkDown) -> None:
        if event.link == self.link:
            self.link = 0

    def _reports_acked(self, now_us: int, event: ReportsAcked) -> None:
        if event.spool_id not in ("", self.spool_id) or not self.unacked:
            return
        through = min(event.through, self.next_sequence - 1)
        if through >= next(iter(self.unacked)):
            self._records.append(Acked(through))
            self._drop_acked(through)

    # -- commands

    def _launch(self, now_us: int, event: Launch) -> None:
        if refused := self._fence(event) or self._why_not_start(event):
            self._answer(event, refused)
            return
        if event.key not in self.steps and self.full:
            self._bury(now_us, event, StepEnded(event.key, 0, now_us, failure=NO_ROOM, untried=True))
        elif event.key not in self.steps:
            step = self._hold(event.key, event.epoch)
            step.move(StepState.ACCEPTED)
            step.lease = event.lease
            self._note_live(step)
            self._records.append(Held(event.key, event.epoch, step.state, lease=step.lease))
            self._effects.append(StartStep(event.key, event.order))
        self._answer(event)

    def _why_not_start(self, event: Launch) -> str:
        """Why this launch is refused; "" for a new step, and for one that was accepted before."""
        key = event.key
        known = self.steps.get(key)
        if known is not None:
            return f"step {key} {NEVER_STARTED_TOMBSTONE}" if known.state is StepState.TOMBSTONE else ""
        if key in self.forgotten:
            return f"step {key} has ended here before"
        other = self._live.get((key.job_id, key.step_id))
        if other is not None:
            return f"attempt {other.attempt} of step {key.job_id}.{key.step_id} still runs here"
        if len(self.steps) >= STEPS_MAX:
            return f"this node holds {STEPS_MAX} steps already"
        return event.invalid

    def _signal(self, now_us: int, event: Signal) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or step.state is not StepState.RUNNING):
            refused = f"step {event.key} is not running"
        if not refused and step is not None and step.suspended and event.signal == SIGCONT:
            refused = f"step {event.key} is suspended"
        if not refused and self._is_new(event):
            self._effects.append(SignalStep(event.key, (event.signal,), event.scope))
        self._answer(event, refused)

    def _suspend(self, now_us: int, event: Suspend) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or not step.is_live):
            refused = f"step {event.key} is not here"
        if not refused and step is not None and step.suspended != event.suspended and not step.kill_at_us:
            step.suspended = event.suspended
            step.stop_at_us = 0
            self._records.append(Suspended(step.key, step.suspended))
            if step.state is StepState.RUNNING and step.suspended:
                self._effects.append(SignalStep(step.key, (SIGTSTP,), SCOPE_ALL))
                self._stop_at(step, now_us + event.grace_us)
            elif step.state is StepState.RUNNING:
                self._effects.append(SignalStep(step.key, (SIGCONT,), SCOPE_ALL))
        self._answer(event, refused)

    def _notify(self, now_us: int, event: Notify) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or step.state is not StepState.RUNNING):
            refused = f"step {event.key} is not running"
        if not refused and self._is_new(event):
            self._effects.append(SignalStep(event.key, (), SCOPE_ALL, event.text))
        self._answer(event, refused)

    def _terminate(self, now_us: int, event: Terminate) -> None:
        refused = self._fence(event)
        self._answer(event, refused)
        if refused or event.key in self.forgotten:
            return
        step = self.steps.get(event.key)
        if step is None:
            self._bury(now_us, event, StepEnded(event.key, 0, now_us, failure=NEVER_STARTED_TOMBSTONE))
        elif step.is_live:
            self._want_end(now_us, step, event)

    def _bury(self, now_us: int, event: Command, end: StepEnded) -> None:
        """End a step that never came, or will not be begun: remember it, and say that it never started."""
        step = self._hold(event.key, event.epoch)
        step.move(StepState.TOMBSTONE)
        self._records.append(Held(event.key, event.epoch, step.state))
        self._report(Exited(self.next_sequence, end))

    def _want_end(self, now_us: int, step: Step, event: Terminate) -> None:
        first = not step.kill_at_us
        kill_at_us = now_us + event.grace_us
        if first:
            step.kill_note = event.note
            step.suspended, step.stop_at_us = False, 0
        if first or kill_at_us < step.kill_at_us:
            step.kill_at_us = kill_at_us
            self._records.append(KillWanted(step.key, kill_at_us))
            if not step.killed:
                self._schedule(step, kill_at_us)
        if first and step.state is StepState.RUNNING:
            self._ask_to_end(step)

    def _forget(self, now_us: int, event: Forget) -> None:
        refused = self._fence(event)
        step = self.steps.get(event.key)
        if not refused and step is not None and step.is_live:
            refused = f"step {event.key} has not ended"
        if not refused and event.key not in self.forgotten:
            if step is not None:
                step.move(StepState.FORGOTTEN)
                del self.steps[event.key]
            self._remember_forgotten(event.key)
            self._records.append(Forgotten(event.key))
            self._effects.append(SweepStep(event.key))
        self._answer(event, refused)

    def _reboot(self, now_us: int, event: Reboot) -> None:
        refused = self._fence(event)
        if not refused and (live := self.live_steps()):
            refused = f"step {live[0].key} runs here"
        if not refused and self._is_new(event):
            self._effects.append(RebootMachine(event.reason))
        self._answer(event, refused)

    # -- facts

    def _step_began(self, now_us: int, event: StepBegan) -> None:
        step = self.steps.get(event.key)
        if step is None or step.state is not StepState.ACCEPTED:
            return
        self._report(Started(self.next_sequence, event.key, event.at_us, event.pid))
        if step.suspended:
            self._effects.append(SignalStep(step.key, (SIGSTOP,), SCOPE_ALL))
        if step.kill_at_us:  # told to end while it was being started
            self._ask_to_end(step)
            if step.killed:
                self._effects.append(SignalStep(step.key, (SIGKILL,), SCOPE_ALL))

    def _step_ended(self, now_us: int, event: StepEnded) -> None:
        step = self.steps.get(event.key)
        if step is None or not step.is_live:
            return
        if event.start_at_us and step.state is StepState.ACCEPTED:
            self._report(Started(self.next_sequence, event.key, event.start_at_us, 0))
        elif step.start_at_us != event.start_at_us and step.start_at_us:  # lost: when it began is known better here
            event = msgspec.structs.replace(event, start_at_us=step.start_at_us)
        self._report(Exited(self.next_sequence, event))
        if step.unkillable:
            step.unkillable = False
            if not any(other.unkillable for other in self.steps.values()):
                self._notice(now_us, Notice(KILL_TASK_FAILED, drain=True, clear=True, key=step.key))

    def _notice(self, now_us: int, event: Notice) -> None:
        self._report(Noticed(self.next_sequence, now_us, event))

    def _say(self, now_us: int, event: Say) -> None:
        self._report(Said(self.next_sequence, event.body))

    def _order(self, now_us: int, event: Order) -> None:
        refused = self._fence(event)
        if not refused and self._is_new(event):
            self._effects.append(DoOrder(event.key, event.body))
        self._answer(event, refused)

    def _timer_due(self, now_us: int, event: TimerDue) -> None:
        while self._timers and self._timers[0][0] <= now_us:
            at_us, key = heapq.heappop(self._timers)
            if self._due_at(key) != at_us:
                continue
            step = self.steps[key]
            if step.stop_at_us == at_us:
                step.stop_at_us = 0
                self._effects.append(SignalStep(step.key, (SIGSTOP,), SCOPE_ALL))
            else:
                self._escalate(now_us, step)

    def _escalate(self, now_us: int, step: Step) -> None:
        """The grace is over: SIGKILL; and when that was long ago, say so."""
        if not step.killed:
            step.killed = True
            step.kill_at_us = now_us
            self._effects.append(SignalStep(step.key, (SIGKILL,), SCOPE_ALL))
            if step.key.step_id != EXTERN_STEP:  # an epilog has a deadline of its own
                self._schedule(step, now_us + self.unkillable_timeout_us)
        else:
            step.due_at_us = 0
            step.unkillable = True
            self._records.append(Unkillable(step.key))
            self._effects.append(TellUnkillable(step.key, step.kill_at_us))
            self._notice(now_us, Notice(KILL_TASK_FAILED, drain=True, key=step.key))

    def _ask_to_end(self, step: Step) -> None:
        self._effects.append(SignalStep(step.key, (SIGCONT, SIGTERM), SCOPE_ALL, step.kill_note))

    # -- helpers: everything below changes the machine in one way each

    def _fence(self, event: Command) -> str:
        """Refuse a lower epoch, take note of a higher one."""
        if event.epoch < self.epoch:
            return f"epoch {event.epoch} is lower than {self.epoch}, which this node has seen"
        self._raise_epoch(event.epoch)
        return ""

    def _raise_epoch(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self._records.append(EpochSeen(epoch))

    def _answer(self, event: Command, refused: str = "") -> None:
        if event.link == self.link:
            self._command_seen = max(self._command_seen, event.sequence)
        self._effects.append(AckCommand(event.link, event.sequence, refused))

    def _is_new(self, event: Command) -> bool:
        """False for a command that this stream has brought before."""
        return event.link != self.link or event.sequence > self._command_seen

    def _hold(self, key: StepKey, epoch: int) -> Step:
        step = self.steps[key] = Step(key, epoch)
        return step

    def _note_live(self, step: Step) -> None:
        where = (step.key.job_id, step.key.step_id)
        if step.is_live:
            self._live[where] = step.key
        elif self._live.get(where) == step.key:
            del self._live[where]

    def _report(self, report: Report) -> None:
        self._records.append(report)
        self._keep(report)
        self._follow(report)
        if self.link:
            self._effects.append(SendReport(self.link, report.sequence, report))

    def _keep(self, report: Report) -> None:
        self.unacked[report.sequence] = report
        self.next_sequence = max(self.next_sequence, report.sequence + 1)

    def _follow(self, report: Report) -> None:
        """Move the step where its report says it is."""
        if isinstance(report, Noticed | Said):
            return
        step = self.steps.get(report.key if isinstance(report, Started) else report.end.key)
        if step is None or not step.is_live:
            return
        if isinstance(report, Exited):
            step.move(StepState.EXITED)
        elif step.state is StepState.ACCEPTED:
            step.move(StepState.RUNNING)
            step.start_at_us = report.at_us
        self._note_live(step)

    def _drop_acked(self, through: int) -> None:
        while self.unacked and (first := next(iter(self.unacked))) <= through:
            del self.unacked[first]

    def _remember_forgotten(self, key: StepKey) -> None:
        self.forgotten[key] = None
        while len(self.forgotten) > FORGOTTEN_MAX:
            del self.forgotten[next(iter(self.forgotten))]

    def _schedule(self, step: Step, at_us: int) -> None:
        step.due_at_us = at_us
        heapq.heappush(self._timers, (at_us, step.key))

    def _due_at(self, key: StepKey) -> int:
        """When something is due for the step; 0 = nothing is."""
        step = self.steps.get(key)
        if step is None or not step.is_live:
            return 0
        return min((at_us for at_us in (step.due_at_us, step.stop_at_us) if at_us), default=0)

    def _stop_at(self, step: Step, at_us: int) -> None:
        step.stop_at_us = at_us
        heapq.heappush(self._timers, (at_us, step.key))
