"""What a node's core remembers: the steps, the reports that are not acknowledged and the controller's epoch, as the journal
has them. `absorb` applies a record, `snapshot` returns records equivalent to all so far.

Deliberately absent: what follows from an event (machine.py), timers, effects.
"""

from collections import OrderedDict
from collections.abc import Iterator

from nodedaemon.core.messages import (
    Acked,
    AnyRecord,
    BootSeen,
    EpochSeen,
    Exited,
    Forgotten,
    ForwardedReport,
    KillWanted,
    NodeReport,
    Noticed,
    SpoolCreated,
    SpooledStep,
    Started,
    Suspended,
    Unkillable,
)
from nodedaemon.core.steps import ANY_CPUS, NodeStep, StepKey, StepState

#: Ended keys remembered so that a repeated launch starts nothing. At 400 jobs a second: over a minute of delay.
FORGOTTEN_MAX = 32_768


class JournalState:
    """The state of a node that its journal keeps."""

    def __init__(self) -> None:
        self.spool_id = ""
        self.boot_id = ""
        self.clock_base_us = 0
        self.epoch = 0
        self.steps: dict[StepKey, NodeStep] = {}
        self.unacked: OrderedDict[int, NodeReport] = OrderedDict()
        self.forgotten: OrderedDict[StepKey, None] = OrderedDict()
        self.next_sequence = 1
        self.live: dict[tuple[int, int], StepKey] = {}  # (job id, step id): no two attempts of a step live at once

    def snapshot(self) -> Iterator[AnyRecord]:
        """Records equivalent to all written so far, for compaction."""
        yield SpoolCreated(self.spool_id)
        yield BootSeen(self.boot_id, self.clock_base_us)
        yield EpochSeen(self.epoch)
        yield Acked(min(self.unacked, default=self.next_sequence) - 1)
        for key in self.forgotten:
            yield Forgotten(key)
        for step in self.steps.values():
            yield SpooledStep(step.key, step.epoch, step.state, step.start_at_us, step.lease, step.span)
            if step.is_live and step.kill_at_us:
                yield KillWanted(step.key, step.kill_at_us, step.kill_note)
            if step.is_live and (step.suspended or step.cpus != ANY_CPUS):
                yield Suspended(step.key, step.suspended, step.cpus)
            if step.is_live and step.unkillable:
                yield Unkillable(step.key)
        yield from self.unacked.values()

    def live_steps(self) -> list[NodeStep]:
        """Steps of which a process may run, which a restarted daemon has to look for."""
        return [step for step in self.steps.values() if step.is_live]

    def unacknowledged_ends(self) -> set[StepKey]:
        """Steps whose end has not been acknowledged."""
        return {report.end.key for report in self.unacked.values() if isinstance(report, Exited)}

    def job_id_seen(self) -> int:
        """The highest job id that is remembered here: a controller that has assigned only lower ones has lost its
        state."""
        return max((key.job_id for keys in (self.steps, self.forgotten) for key in keys), default=0)

    def check(self) -> None:
        """Raises AssertionError when the state contradicts itself."""
        assert {(k.job_id, k.step_id): k for k, s in self.steps.items() if s.is_live} == self.live
        assert not self.forgotten.keys() & self.steps.keys()
        assert all(sequence < self.next_sequence for sequence in self.unacked)
        assert len(self.forgotten) <= FORGOTTEN_MAX

    def absorb(self, record: AnyRecord) -> None:
        """Applies a record of the journal."""
        if isinstance(record, SpoolCreated):
            self.spool_id = record.spool_id
        elif isinstance(record, BootSeen):
            self.boot_id = record.boot_id
            self.clock_base_us = record.clock_base_us
        elif isinstance(record, EpochSeen):
            self.epoch = max(self.epoch, record.epoch)
        elif isinstance(record, SpooledStep):
            step = self.add_step(record.key, record.epoch)
            step.state = record.state
            step.start_at_us = record.start_at_us
            step.lease = record.lease
            step.span = record.span
            self.note_live(step)
        elif isinstance(record, KillWanted):
            if record.key in self.steps:
                self.steps[record.key].kill_at_us = record.kill_at_us
                self.steps[record.key].kill_note = record.note
                self.steps[record.key].suspended = False
                self.steps[record.key].signal_at_us = 1  # as below
        elif isinstance(record, Suspended):
            if record.key in self.steps:
                self.steps[record.key].suspended = record.suspended
                self.steps[record.key].cpus = record.cpus
                self.steps[record.key].signal_at_us = 1  # what follows from it may not have been sent
        elif isinstance(record, Unkillable):
            if record.key in self.steps:
                self.steps[record.key].unkillable = True
        elif isinstance(record, Started | Exited | Noticed | ForwardedReport):
            self.keep(record)
            self.follow(record)
        elif isinstance(record, Acked):
            self.drop_acked(record.through)
            self.next_sequence = max(self.next_sequence, record.through + 1)
        elif isinstance(record, Forgotten):
            self.steps.pop(record.key, None)
            self.remember_forgotten(record.key)

    def add_step(self, key: StepKey, epoch: int) -> NodeStep:
        """Adds a step, in no state yet."""
        step = self.steps[key] = NodeStep(key, epoch)
        return step

    def note_live(self, step: NodeStep) -> None:
        """Keeps `live` after a move of the step."""
        where = (step.key.job_id, step.key.step_id)
        if step.is_live:
            self.live[where] = step.key
        elif self.live.get(where) == step.key:
            del self.live[where]

    def keep(self, report: NodeReport) -> None:
        """Keeps a report until it is acknowledged."""
        self.unacked[report.sequence] = report
        self.next_sequence = max(self.next_sequence, report.sequence + 1)

    def follow(self, report: NodeReport) -> None:
        """Moves the step to the state of its report."""
        if isinstance(report, Noticed | ForwardedReport):
            return
        step = self.steps.get(report.key if isinstance(report, Started) else report.end.key)
        if step is None or not step.is_live:
            return
        if isinstance(report, Exited):
            step.move(StepState.EXITED)
        elif step.state is StepState.ACCEPTED:
            step.move(StepState.RUNNING)
            step.start_at_us = report.at_us
        self.note_live(step)

    def drop_acked(self, through: int) -> None:
        """Drops the reports up to this number."""
        while self.unacked and next(iter(self.unacked)) <= through:
            self.unacked.popitem(last=False)

    def remember_forgotten(self, key: StepKey) -> None:
        """Remembers that a step has ended here."""
        self.forgotten[key] = None
        while len(self.forgotten) > FORGOTTEN_MAX:
            self.forgotten.popitem(last=False)
