"""The single entry point of the node's core: `step(now_us, event)` changes the state, `seal()` returns records and
effects.

Rules
    - A key is started at most once: `StartStep` is emitted only on the move UNKNOWN -> ACCEPTED.
    - A key that was accepted, or ended before its launch, gets exactly one `Exited` report.
    - A report is kept until the controller acknowledges that its consequences are committed, and is sent again on every
      new stream. It is on disk before it is sent.
    - The report that a step of srun has started waits up to START_REPORT_US for another report, most often that of the step's
      end: a short step costs node and controller one commit less. On the node itself the step runs at once.
    - A command with a lower epoch than the highest seen is refused; a higher one is journaled before it is obeyed.
    - Of one (job, step) no two attempts live at once.
    - A suspended step stays stopped, whatever else is sent to it, until it is resumed or terminated: SIGTSTP, which a
      program may handle, after a grace SIGSTOP. A restarted daemon stops it again, and also a step that starts late.
    - A signal for a step that is being started is delivered when it runs.
    - Escalation: SIGCONT and SIGTERM, after the grace SIGKILL; if that has no effect, a notice that drains the node,
      and another one when the step has ended after all. A restarted daemon sends SIGTERM again.

Deliberately absent: what the journal keeps (journal_state.py), the content of a launch order, the delivery of signals, when
to reconnect.
"""

import heapq
from collections.abc import Callable, Iterable

# Any: handlers of all kinds of events in one table: each is called with its own kind, by which it is found
from typing import Any

import msgspec

from nodedaemon.core.journal_state import JournalState
from nodedaemon.core.messages import (
    DURABLE,
    AckCommand,
    Acked,
    AnyRecord,
    DeliverSignal,
    DoOrder,
    DropLink,
    EpochSeen,
    Exited,
    Forget,
    Forgotten,
    ForwardedReport,
    ForwardReport,
    KillWanted,
    Launch,
    LinkDown,
    LinkUp,
    NodeBatch,
    NodeCommand,
    NodeCoreEvent,
    NodeEffect,
    NodeReport,
    Notice,
    Noticed,
    Notify,
    Order,
    Reboot,
    RebootMachine,
    ReportsAcked,
    ReportUnkillable,
    SendReport,
    Signal,
    SpooledStep,
    Started,
    StartStep,
    StepBegan,
    StepEnded,
    Suspended,
    SuspendSteps,
    SweepStep,
    Terminate,
    TimerDue,
    Unkillable,
)
from nodedaemon.core.steps import ANY_CPUS, NodeStep, StepKey, StepState
from penstock.values.jobid import EXTERN_STEP

SIGKILL = 9
SIGTERM = 15
SIGCONT = 18
SIGSTOP = 19
SIGTSTP = 20
#: Recipients of a signal: the task's first process, or every process of the step.
SCOPE_BATCH, SCOPE_ALL = 0, 1

#: Steps on one node at a time. Far above any real node (one CPU each); bounds memory and the size of a registration.
STEPS_MAX = 65_536
#: Signals kept for a step that is being started; more are dropped.
SIGNALS_DUE_MAX = 32
#: How long the report that a step of srun has started waits for another report. A job's script and its extern step do not wait:
#: the controller gives the job no steps before it knows them to run.
START_REPORT_US = 10_000
#: Until the controller sets it: Slurm's default UnkillableStepTimeout.
UNKILLABLE_TIMEOUT_US = 60_000_000

#: Slurm's reason for a node with a process that SIGKILL does not end.
KILL_TASK_FAILED = "Kill task failed"
NO_ROOM = "the node's spool is full"
NEVER_STARTED_TOMBSTONE = "ended before it was started"


class NodeMachine(JournalState):
    """A node's core: what it remembers, the stream, the timers, and what follows from each event."""

    def __init__(self) -> None:
        super().__init__()
        self.link = 0  # 0 = no stream
        self.full = False  # no space for new steps: launches are answered as never tried
        self.unkillable_timeout_us = UNKILLABLE_TIMEOUT_US
        self._command_seen = 0  # highest command sequence of this stream
        self._starts: list[Started] = []  # not yet sent on this stream
        self._starts_due_us = 0
        self._timers: list[tuple[int, StepKey]] = []
        self._records: list[AnyRecord] = []
        self._effects: list[NodeEffect] = []
        self._handlers: dict[type[NodeCoreEvent], Callable[[int, Any], None]] = {
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Launch: self._launch,
            Signal: self._signal,
            Terminate: self._terminate,
            SuspendSteps: self._suspend,
            Forget: self._forget,
            Reboot: self._reboot,
            Notify: self._notify,
            ReportsAcked: self._reports_acked,
            StepBegan: self._step_began,
            StepEnded: self._step_ended,
            Notice: self._notice,
            ForwardReport: self._forward_report,
            Order: self._order,
            TimerDue: self._timer_due,
        }

    # -- entry points

    def step(self, now_us: int, event: NodeCoreEvent) -> None:
        """Handles one event."""
        self._handlers[type(event)](now_us, event)

    def seal(self) -> NodeBatch | None:
        """Returns the batch since the last call, or None."""
        if not self._records and not self._effects:
            return None
        durable = any(isinstance(r, DURABLE) for r in self._records)
        durable = durable or any(isinstance(effect, SendReport) for effect in self._effects)
        batch = NodeBatch(tuple(self._records), tuple(self._effects), durable)
        self._records = []
        self._effects = []
        return batch

    def next_deadline(self) -> int | None:
        """When TimerDue is due, or None."""
        starts_due_us = self._starts_due_us if self._starts else None
        while self._timers:
            at_us, key = self._timers[0]
            if self._due_at(key) == at_us:
                return at_us if starts_due_us is None else min(at_us, starts_due_us)
            heapq.heappop(self._timers)  # the step has ended or was given another time
        return starts_due_us

    # -- the journal

    def replay(self, records: Iterable[AnyRecord]) -> None:
        """Applies a record of an earlier daemon. Causes no records and no effects."""
        for record in records:
            self.absorb(record)
        for step in self.live_steps():
            if step.kill_at_us:
                self._schedule(step, step.kill_at_us)
            if step.signal_at_us:
                self._signal_at(step, step.signal_at_us)

    # -- streams

    def _link_up(self, now_us: int, event: LinkUp) -> None:
        if event.epoch < self.epoch:
            why = f"the controller's epoch {event.epoch} is lower than {self.epoch}, which this node has seen"
            self._effects.append(DropLink(event.link, why))
            return
        self._raise_epoch(event.epoch)
        self.link = event.link
        self._command_seen = 0
        self.unkillable_timeout_us = event.unkillable_timeout_us or UNKILLABLE_TIMEOUT_US
        self._starts.clear()
        self._effects.extend(SendReport(event.link, n, report) for n, report in self.unacked.items())

    def _link_down(self, now_us: int, event: LinkDown) -> None:
        if event.link == self.link:
            self.link = 0
            self._starts.clear()

    def _reports_acked(self, now_us: int, event: ReportsAcked) -> None:
        if event.spool_id not in ("", self.spool_id) or not self.unacked:
            return
        through = min(event.through, self.next_sequence - 1)
        if through >= next(iter(self.unacked)):
            self._records.append(Acked(through))
            self.drop_acked(through)

    # -- commands

    def _launch(self, now_us: int, event: Launch) -> None:
        if refused := self._fence(event) or self._why_not_start(event):
            self._answer(event, refused)
            return
        if event.key not in self.steps and self.full:
            self._end_unstarted(now_us, event, StepEnded(event.key, 0, now_us, failure=NO_ROOM, untried=True))
        elif event.key not in self.steps:
            step = self.add_step(event.key, event.epoch)
            step.move(StepState.ACCEPTED)
            step.lease = event.lease
            step.span = event.span
            self.note_live(step)
            self._records.append(SpooledStep(event.key, event.epoch, step.state, lease=step.lease, span=step.span))
            self._effects.append(StartStep(event.key, event.order, event.span))
        self._answer(event)

    def _why_not_start(self, event: Launch) -> str:
        """Returns why this launch is refused; "" for a new step, and for one that was accepted before."""
        key = event.key
        known = self.steps.get(key)
        if known is not None:
            return f"step {key} {NEVER_STARTED_TOMBSTONE}" if known.state is StepState.TOMBSTONE else ""
        if key in self.forgotten:
            return f"step {key} has ended here before"
        other = self.live.get((key.job_id, key.step_id))
        if other is not None:
            return f"attempt {other.attempt} of step {key.job_id}.{key.step_id} still runs here"
        if len(self.steps) >= STEPS_MAX:
            return f"this node holds {STEPS_MAX} steps already"
        return event.invalid

    def _signal(self, now_us: int, event: Signal) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or not step.is_live):
            refused = f"step {event.key} is not running"
        if not refused and step is not None and step.suspended and event.signal == SIGCONT:
            refused = f"step {event.key} is suspended"
        if not refused and step is not None and self._is_new(event):
            if step.state is StepState.RUNNING:
                self._effects.append(DeliverSignal(event.key, (event.signal,), event.scope))
            elif len(step.signals_due) < SIGNALS_DUE_MAX:
                step.signals_due.append((event.signal, event.scope))
        self._answer(event, refused)

    def _suspend(self, now_us: int, event: SuspendSteps) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or not step.is_live):
            refused = f"step {event.key} is not here"
        if not refused and step is not None and step.is_other(event.suspended, event.cpus) and not step.kill_at_us:
            step.suspended = event.suspended
            step.signal_at_us = 0
            if not step.suspended:
                step.cpus = event.cpus
            self._records.append(Suspended(step.key, step.suspended, step.cpus))
            if step.state is StepState.RUNNING and step.suspended:
                self._effects.append(DeliverSignal(step.key, (SIGTSTP,), SCOPE_ALL))
                self._signal_at(step, now_us + event.grace_us)
            elif step.state is StepState.RUNNING:
                self._continue(step)
        self._answer(event, refused)

    def _continue(self, step: NodeStep) -> None:
        self._effects.append(DeliverSignal(step.key, (SIGCONT,), SCOPE_ALL, cpus=step.cpus))

    def _notify(self, now_us: int, event: Notify) -> None:
        step = self.steps.get(event.key)
        refused = self._fence(event)
        if not refused and (step is None or step.state is not StepState.RUNNING):
            refused = f"step {event.key} is not running"
        if not refused and self._is_new(event):
            self._effects.append(DeliverSignal(event.key, (), SCOPE_ALL, event.text))
        self._answer(event, refused)

    def _terminate(self, now_us: int, event: Terminate) -> None:
        refused = self._fence(event)
        self._answer(event, refused)
        if refused or event.key in self.forgotten:
            return
        step = self.steps.get(event.key)
        if step is None:
            self._end_unstarted(now_us, event, StepEnded(event.key, 0, now_us, failure=NEVER_STARTED_TOMBSTONE))
        elif step.is_live:
            self._terminate_step(now_us, step, event)

    def _end_unstarted(self, now_us: int, event: NodeCommand, end: StepEnded) -> None:
        """Ends a step that was not launched, or will not be started: records it, and reports that it never started."""
        step = self.add_step(event.key, event.epoch)
        step.move(StepState.TOMBSTONE)
        self._records.append(SpooledStep(event.key, event.epoch, step.state))
        self._report(Exited(self.next_sequence, end))

    def _terminate_step(self, now_us: int, step: NodeStep, event: Terminate) -> None:
        first = not step.kill_at_us
        kill_at_us = now_us + event.grace_us
        if first:
            step.kill_note = event.note
            step.suspended = False
            step.signal_at_us = 0
        if first or kill_at_us < step.kill_at_us:
            step.kill_at_us = kill_at_us
            self._records.append(KillWanted(step.key, kill_at_us, step.kill_note))
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
            self.remember_forgotten(event.key)
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
        self._report_start(now_us, Started(self.next_sequence, event.key, event.at_us, event.pid))
        for number, scope in step.signals_due:
            self._effects.append(DeliverSignal(step.key, (number,), scope))
        step.signals_due.clear()
        if step.cpus != ANY_CPUS:  # it was suspended and resumed while it was being started: its order has the old ones
            self._continue(step)
        if step.suspended:
            self._effects.append(DeliverSignal(step.key, (SIGSTOP,), SCOPE_ALL))
        if step.kill_at_us:  # terminated while it was being started
            self._ask_to_end(step)
            if step.killed:
                self._effects.append(DeliverSignal(step.key, (SIGKILL,), SCOPE_ALL))

    def _step_ended(self, now_us: int, event: StepEnded) -> None:
        step = self.steps.get(event.key)
        if step is None or not step.is_live:
            return
        if event.start_at_us and step.state is StepState.ACCEPTED:
            self._report(Started(self.next_sequence, event.key, event.start_at_us, 0))
        elif step.start_at_us != event.start_at_us and step.start_at_us:  # lost: the step knows its start
            event = msgspec.structs.replace(event, start_at_us=step.start_at_us)
        self._report(Exited(self.next_sequence, event))
        if step.unkillable:
            step.unkillable = False
            if not any(other.unkillable for other in self.steps.values()):
                self._notice(now_us, Notice(KILL_TASK_FAILED, drain=True, clear=True, key=step.key))

    def _notice(self, now_us: int, event: Notice) -> None:
        self._report(Noticed(self.next_sequence, now_us, event))

    def _forward_report(self, now_us: int, event: ForwardReport) -> None:
        self._report(ForwardedReport(self.next_sequence, event.body))

    def _order(self, now_us: int, event: Order) -> None:
        refused = self._fence(event)
        if not refused and self._is_new(event):
            self._effects.append(DoOrder(event.key, event.body))
        self._answer(event, refused)

    def _timer_due(self, now_us: int, event: TimerDue) -> None:
        if self._starts and self._starts_due_us <= now_us:
            self._send_starts()
        while self._timers and self._timers[0][0] <= now_us:
            at_us, key = heapq.heappop(self._timers)
            if self._due_at(key) != at_us:
                continue
            step = self.steps[key]
            if step.signal_at_us == at_us:
                self._signal_due(step)
            else:
                self._escalate(now_us, step)

    def _signal_due(self, step: NodeStep) -> None:
        step.signal_at_us = 0
        if step.suspended:
            self._effects.append(DeliverSignal(step.key, (SIGSTOP,), SCOPE_ALL))
        elif not step.kill_at_us:
            self._continue(step)
        elif step.state is StepState.RUNNING:  # else it is asked when it begins
            self._ask_to_end(step)

    def _escalate(self, now_us: int, step: NodeStep) -> None:
        """After the grace: SIGKILL; some time after that, a report that the step is unkillable."""
        if not step.killed:
            step.killed = True
            step.kill_at_us = now_us
            self._effects.append(DeliverSignal(step.key, (SIGKILL,), SCOPE_ALL))
            if step.key.step_id != EXTERN_STEP:  # an epilog has its own deadline
                self._schedule(step, now_us + self.unkillable_timeout_us)
        else:
            step.due_at_us = 0
            step.unkillable = True
            self._records.append(Unkillable(step.key))
            self._effects.append(ReportUnkillable(step.key, step.kill_at_us))
            self._notice(now_us, Notice(KILL_TASK_FAILED, drain=True, key=step.key))

    def _ask_to_end(self, step: NodeStep) -> None:
        self._effects.append(DeliverSignal(step.key, (SIGCONT, SIGTERM), SCOPE_ALL, step.kill_note))

    # -- helpers: each changes the machine in one way

    def _fence(self, event: NodeCommand) -> str:
        """Refuses a lower epoch, records a higher one."""
        if event.epoch < self.epoch:
            return f"epoch {event.epoch} is lower than {self.epoch}, which this node has seen"
        self._raise_epoch(event.epoch)
        return ""

    def _raise_epoch(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self._records.append(EpochSeen(epoch))

    def _answer(self, event: NodeCommand, refused: str = "") -> None:
        if event.link == self.link:
            self._command_seen = max(self._command_seen, event.sequence)
        self._effects.append(AckCommand(event.link, event.sequence, refused))

    def _is_new(self, event: NodeCommand) -> bool:
        """False for a command that this stream has delivered before."""
        return event.link != self.link or event.sequence > self._command_seen

    def _report(self, report: NodeReport) -> None:
        self._send_starts()
        self._record(report)
        if self.link:
            self._effects.append(SendReport(self.link, report.sequence, report))

    def _report_start(self, now_us: int, report: Started) -> None:
        if report.key.step_id < 0 or not self.link:
            self._report(report)
            return
        self._record(report)
        if not self._starts:
            self._starts_due_us = now_us + START_REPORT_US
        self._starts.append(report)

    def _send_starts(self) -> None:
        self._effects.extend(SendReport(self.link, report.sequence, report) for report in self._starts)
        self._starts.clear()

    def _record(self, report: NodeReport) -> None:
        self._records.append(report)
        self.keep(report)
        self.follow(report)

    def _schedule(self, step: NodeStep, at_us: int) -> None:
        step.due_at_us = at_us
        heapq.heappush(self._timers, (at_us, step.key))

    def _due_at(self, key: StepKey) -> int:
        """When the step's next action is due; 0 = none is."""
        step = self.steps.get(key)
        if step is None or not step.is_live:
            return 0
        return min((at_us for at_us in (step.due_at_us, step.signal_at_us) if at_us), default=0)

    def _signal_at(self, step: NodeStep, at_us: int) -> None:
        step.signal_at_us = at_us
        heapq.heappush(self._timers, (at_us, step.key))
