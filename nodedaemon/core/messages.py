"""The node core's events (in), effects (out), reports (to the controller) and records (to the journal): all plain data.

Requests are imperatives, facts are participles. `link` numbers the stream a command came on; an answer goes to that
stream or nowhere. Records are what a restarted daemon replays; they are encoded with their tag, so tags are never
reused.
"""

from typing import Any

import msgspec

from nodedaemon.core.steps import NO_LEASE, StepKey, StepState


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of what comes in."""


class LinkUp(Event, frozen=True):
    """The controller has admitted this node on stream `link`."""

    link: int
    epoch: int
    unkillable_timeout_us: int


class LinkDown(Event, frozen=True):
    """That stream is gone."""

    link: int


class Command(Event, frozen=True):
    """Base of the controller's commands. `sequence` rises within a stream."""

    link: int
    sequence: int
    epoch: int
    key: StepKey


class Launch(Command, frozen=True):
    """Start a step. `order` is opaque here; `invalid` says why it cannot be read or run on this node, "" = it can."""

    order: Any
    invalid: str = ""
    lease: tuple[int, int] = NO_LEASE


class Signal(Command, frozen=True):
    """Send a signal to a running step."""

    signal: int
    scope: int


class Terminate(Command, frozen=True):
    """SIGTERM now, SIGKILL after the grace."""

    grace_us: int
    note: str


class Suspend(Command, frozen=True):
    """Stop all processes of a step (SIGTSTP now, SIGSTOP after the grace), or let them go on."""

    suspended: bool
    grace_us: int


class Notify(Command, frozen=True):
    """A line for the step's error output."""

    text: str


class Forget(Command, frozen=True):
    """The end of the step is committed."""


class Reboot(Command, frozen=True):
    """Restart the machine; refused while steps are here. `key` is nobody's."""

    reason: str


class ReportsAcked(Event, frozen=True):
    """All reports of that spool through `sequence` are committed."""

    spool_id: str
    through: int


class StepBegan(Event, frozen=True):
    """The task's program runs."""

    key: StepKey
    at_us: int
    pid: int


class StepEnded(Event, frozen=True):
    """The step's exit record has been found, or there will never be one (`failure`)."""

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
    rebooted: bool = False  # the machine went down under it
    tasks: tuple[tuple[int, int], ...] = ()  # of a step of srun: rank and wait status of each that ran
    metrics: tuple[tuple[int, ...], ...] = ()  # kind, total, largest and its rank, smallest and its rank
    measured: int = 0  # tasks that the metrics were taken of


class Say(Event, frozen=True):
    """Something to tell the controller that this core does not look into: a report of the wire, without its head."""

    body: bytes


class Order(Command, frozen=True):
    """A command that this core does not look into: it is done each time, and whoever does it knows what is done already."""

    body: bytes


class Notice(Event, frozen=True):
    """Something to tell the controller that is no step's end. `reason` is what an administrator will read."""

    reason: str
    drain: bool = False  # no new jobs here until somebody has looked
    fail: bool = False
    clear: bool = False  # what was told with this reason is over
    key: StepKey | None = None  # the step it came up with


class TimerDue(Event, frozen=True):
    """Time has passed: everything due at `now` happens."""


# -- effects: released only after the records of the same batch are on disk


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of what goes out."""


class AckCommand(Effect, frozen=True):
    """Answer a command on the stream it came on."""

    link: int
    sequence: int
    refused: str = ""


class StartStep(Effect, frozen=True):
    """Hand the launch to the launcher. At most once per key, over all restarts."""

    key: StepKey
    order: Any


class SignalStep(Effect, frozen=True):
    """Send signals to a step, in this order. `scope` is one of orders.SCOPE_*; `note` is a line for its error file."""

    key: StepKey
    signals: tuple[int, ...]
    scope: int
    note: str = ""


class SendReport(Effect, frozen=True):
    """Send (again) what happened."""

    link: int
    sequence: int
    report: "Started | Exited | Noticed | Said"


class SweepStep(Effect, frozen=True):
    """Remove the step's folder."""

    key: StepKey


class DropLink(Effect, frozen=True):
    """The controller on that stream is not to be obeyed."""

    link: int
    why: str


class DoOrder(Effect, frozen=True):
    """Do what an order says."""

    key: StepKey
    body: bytes


class RebootMachine(Effect, frozen=True):
    """Run RebootProgram."""

    reason: str


class TellUnkillable(Effect, frozen=True):
    """The step did not end after SIGKILL; somebody should look."""

    key: StepKey
    since_us: int


# -- records


class Record(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of what the journal keeps."""


class SpoolBorn(Record, frozen=True):
    """The first record of a spool."""

    spool_id: str


class BootSeen(Record, frozen=True):
    """From here on the machine runs with that boot id; steps of an earlier one are dead."""

    boot_id: str


class EpochSeen(Record, frozen=True):
    """The highest epoch; lower ones are refused for ever."""

    epoch: int


class Held(Record, frozen=True):
    """A step in a state: the fence record (ACCEPTED), a tombstone, or, in a snapshot, any other."""

    key: StepKey
    epoch: int
    state: StepState
    start_at_us: int = 0
    lease: tuple[int, int] = NO_LEASE


class KillWanted(Record, frozen=True):
    """The step has to end; SIGKILL is due at that time."""

    key: StepKey
    kill_at_us: int


class Suspended(Record, frozen=True):
    """All processes of the step are to stand still, or no longer."""

    key: StepKey
    suspended: bool


class Unkillable(Record, frozen=True):
    """The step did not end after SIGKILL, and the controller was told. Until its end, which clears that."""

    key: StepKey


class Started(Record, frozen=True):
    """Report: the task's program runs. Moves the step to RUNNING."""

    sequence: int
    key: StepKey
    at_us: int
    pid: int


class Exited(Record, frozen=True):
    """Report: the end of a step, exactly one per key. Moves the step to EXITED, unless it is a tombstone."""

    sequence: int
    end: StepEnded


class Noticed(Record, frozen=True):
    """Report: what this node has to say of itself. Moves nothing."""

    sequence: int
    at_us: int
    notice: Notice


class Said(Record, frozen=True):
    """Report: what somebody else made. Moves nothing."""

    sequence: int
    body: bytes


class Acked(Record, frozen=True):
    """Reports through `sequence` need not be kept."""

    through: int


class Forgotten(Record, frozen=True):
    """The key is only remembered so that it never starts again."""

    key: StepKey


Report = Started | Exited | Noticed | Said
AnyRecord = (
    SpoolBorn | BootSeen | EpochSeen | Held | KillWanted | Suspended | Unkillable | Started | Exited | Noticed | Said
    | Acked | Forgotten
)  # fmt: skip

#: Records whose loss in a power failure would break a promise. The rest may follow with the next sync: a lost
#: KillWanted, Acked or Forgotten is said again by the controller.
DURABLE = (SpoolBorn, BootSeen, EpochSeen, Held, Started, Exited, Noticed, Said)


class Batch(msgspec.Struct):
    """One journal write. `effects` may leave when `records` are written, and synced if `durable`."""

    records: tuple[AnyRecord, ...]
    effects: tuple[Effect, ...]
    durable: bool
