"""The node core's events (in), effects (out), reports (to the controller) and records (to the journal): all plain data.

Requests are imperatives, facts are participles. `link` numbers the stream a command came on; an answer goes to that
stream or nowhere. A restarted daemon replays the records; they are encoded with their tag, so tags are never reused.
"""

# Any: the core passes an order on unread; its type belongs to a higher package
from typing import Any

import msgspec

from nodedaemon.core.steps import ANY_CPUS, NO_LEASE, CpuSets, StepKey, StepState


class NodeCoreEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of all events."""


class LinkUp(NodeCoreEvent, frozen=True):
    """The controller has admitted this node on stream `link`."""

    link: int
    epoch: int
    unkillable_timeout_us: int


class LinkDown(NodeCoreEvent, frozen=True):
    """That stream has ended."""

    link: int


class NodeCommand(NodeCoreEvent, frozen=True):
    """Base of the controller's commands. `sequence` rises within a stream."""

    link: int
    sequence: int
    epoch: int
    key: StepKey


class Launch(NodeCommand, frozen=True):
    """Starts a step. `order` is opaque here; `invalid` says why it cannot be decoded or run on this node, "" = it
    can; `span` is for the lines of the log: trace id and span id, empty: none."""

    order: Any
    invalid: str = ""
    lease: tuple[int, int] = NO_LEASE
    span: bytes = b""


class Signal(NodeCommand, frozen=True):
    """Send a signal to a running step."""

    signal: int
    scope: int


class Terminate(NodeCommand, frozen=True):
    """SIGTERM now, SIGKILL after the grace."""

    grace_us: int
    note: str


class SuspendSteps(NodeCommand, frozen=True):
    """Stops all processes of a step (SIGTSTP now, SIGSTOP after the grace), or resumes them, on these CPUs."""

    suspended: bool
    grace_us: int
    cpus: CpuSets = ANY_CPUS


class Notify(NodeCommand, frozen=True):
    """A line for the step's error output."""

    text: str


class Forget(NodeCommand, frozen=True):
    """The end of the step is committed."""


class Reboot(NodeCommand, frozen=True):
    """Restarts the machine; refused while steps are here. `key` belongs to no step."""

    reason: str


class ReportsAcked(NodeCoreEvent, frozen=True):
    """All reports of that spool through `sequence` are committed."""

    spool_id: str
    through: int


class StepBegan(NodeCoreEvent, frozen=True):
    """The task's program runs."""

    key: StepKey
    at_us: int
    pid: int


class StepEnded(NodeCoreEvent, frozen=True):
    """The step's exit record has been found, or will never exist (`failure`)."""

    key: StepKey
    start_at_us: int  # 0 = never started
    end_at_us: int
    exit_code: int = 0
    exit_signal: int = 0
    failure: str = ""
    out_of_memory: bool = False
    user_cpu_us: int = 0
    system_cpu_us: int = 0
    max_rss_kb: int = 0
    disk_read_bytes: int = 0
    disk_write_bytes: int = 0
    untried: bool = False  # through no fault of the job nothing of it has run, and nothing will
    rebooted: bool = False  # the machine was restarted while it ran
    tasks: tuple[tuple[int, int], ...] = ()  # of a step of srun: rank and wait status of each that ran
    metrics: tuple[tuple[int, ...], ...] = ()  # kind, total, largest and its rank, smallest and its rank
    measured: int = 0  # tasks that the metrics cover


class ForwardReport(NodeCoreEvent, frozen=True):
    """A report for the controller that this core does not interpret: a report of the wire, without its header."""

    body: bytes


class Order(NodeCommand, frozen=True):
    """A command that this core does not interpret: it is executed each time; the executor detects repetitions."""

    body: bytes


class Notice(NodeCoreEvent, frozen=True):
    """A report to the controller that is no step's end. An administrator reads `reason`."""

    reason: str
    drain: bool = False  # no new jobs here until an administrator has checked the node
    fail: bool = False
    clear: bool = False  # the condition that was reported with this reason is over
    key: StepKey | None = None  # the step it is about
    signal: int = 0  # that the step was sent for it


class TimerDue(NodeCoreEvent, frozen=True):
    """Time has passed: runs everything that is due at `now`."""


# -- effects: released only after the records of the same batch are on disk


class NodeEffect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects."""


class AckCommand(NodeEffect, frozen=True):
    """Answer a command on the stream it came on."""

    link: int
    sequence: int
    refused: str = ""


class StartStep(NodeEffect, frozen=True):
    """Hand the launch to the launcher. At most once per key, over all restarts."""

    key: StepKey
    order: Any
    span: bytes = b""


class DeliverSignal(NodeEffect, frozen=True):
    """Sends signals to a step, in this order. `scope` is one of orders.SCOPE_*; `note` is a line for its error file; before
    a SIGCONT its processes are moved to `cpus`."""

    key: StepKey
    signals: tuple[int, ...]
    scope: int
    note: str = ""
    cpus: CpuSets = ANY_CPUS


class SendReport(NodeEffect, frozen=True):
    """Send a report, first or again."""

    link: int
    sequence: int
    report: "Started | Exited | Noticed | ForwardedReport"


class SweepStep(NodeEffect, frozen=True):
    """Remove the step's folder."""

    key: StepKey


class DropLink(NodeEffect, frozen=True):
    """The controller on that stream has an old epoch and is disconnected."""

    link: int
    why: str


class DoOrder(NodeEffect, frozen=True):
    """Execute an order."""

    key: StepKey
    body: bytes


class RebootMachine(NodeEffect, frozen=True):
    """Run RebootProgram."""

    reason: str


class ReportUnkillable(NodeEffect, frozen=True):
    """The step did not end after SIGKILL; runs UnkillableStepProgram."""

    key: StepKey
    since_us: int


# -- records


class JournalRecord(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of all records of the journal."""


class SpoolCreated(JournalRecord, frozen=True, tag="SpoolBorn"):  # the name in journals
    """The first record of a spool."""

    spool_id: str


class BootSeen(JournalRecord, frozen=True):
    """From now on the machine runs with that boot id; steps of an earlier one are dead."""

    boot_id: str
    clock_base_us: int = 0  # of the node's time in this boot (base/nodeclock.py); 0 = not recorded


class EpochSeen(JournalRecord, frozen=True):
    """The highest epoch; lower ones are refused from then on."""

    epoch: int


class SpooledStep(JournalRecord, frozen=True, tag="Held", omit_defaults=True):  # its name in existing journals
    """A step with its state: the fence record (ACCEPTED), a tombstone, or, in a snapshot, any other. `span`: as in `Launch`."""

    key: StepKey
    epoch: int
    state: StepState
    start_at_us: int = 0
    lease: tuple[int, int] = NO_LEASE
    span: bytes = b""


class KillWanted(JournalRecord, frozen=True, omit_defaults=True):
    """The step has to end; SIGKILL is due at that time. `note`: as in `Terminate`."""

    key: StepKey
    kill_at_us: int
    note: str = ""


class Suspended(JournalRecord, frozen=True):
    """All processes of the step are to be stopped, or no longer: then they continue on these CPUs."""

    key: StepKey
    suspended: bool
    cpus: CpuSets = ANY_CPUS


class Unkillable(JournalRecord, frozen=True):
    """The step did not end after SIGKILL, and this was reported. Cleared by its end."""

    key: StepKey


class Started(JournalRecord, frozen=True):
    """Report: the task's program runs. Moves the step to RUNNING."""

    sequence: int
    key: StepKey
    at_us: int
    pid: int


class Exited(JournalRecord, frozen=True):
    """Report: the end of a step, exactly one per key. Moves the step to EXITED, unless it is a tombstone."""

    sequence: int
    end: StepEnded


class Noticed(JournalRecord, frozen=True):
    """Report: a notice of this node about itself. Changes no step."""

    sequence: int
    at_us: int
    notice: Notice


class ForwardedReport(JournalRecord, frozen=True, tag="Said"):  # its name in existing journals
    """Report: from outside the core. Changes no step."""

    sequence: int
    body: bytes


class Acked(JournalRecord, frozen=True):
    """Reports through `sequence` need not be kept."""

    through: int


class Forgotten(JournalRecord, frozen=True):
    """The key is remembered only so that it never starts again."""

    key: StepKey


NodeReport = Started | Exited | Noticed | ForwardedReport
AnyRecord = (
    SpoolCreated | BootSeen | EpochSeen | SpooledStep | KillWanted | Suspended | Unkillable | Started | Exited | Noticed
    | ForwardedReport | Acked | Forgotten
)  # fmt: skip

#: Records whose loss in a power failure would break a promise. The rest may follow with the next sync: the controller
#: sends the cause of a lost KillWanted, Acked or Forgotten again, and a Started is synced before it is sent.
DURABLE = (SpoolCreated, BootSeen, EpochSeen, SpooledStep, Exited, Noticed, ForwardedReport)


class NodeBatch(msgspec.Struct):
    """One journal write. `effects` may leave when `records` are written, and synced if `durable`."""

    records: tuple[AnyRecord, ...]
    effects: tuple[NodeEffect, ...]
    durable: bool
