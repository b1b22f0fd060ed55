"""What the judge of GPUs is told (events) and what it says (outputs); what it remembers between restarts (Record).

Plain data. `Xid`, `Hung` and `Answering` come from the watcher as they are (gpuwords.py), `Polled` within `Seen`.
Times are in microseconds since 1970.
"""

from enum import IntEnum

import msgspec

from nodedaemon.core.gpuwords import Answering, Device, Hung, Polled, Xid
from nodedaemon.core.steps import StepKey
from penstock.values.gpustates import GpuState


class Action(IntEnum):
    """What a failure means for jobs; numbers of the wire (GpuReport.Action)."""

    NONE = 0
    NOTE = 1
    MARK = 2
    END = 3


class WorkKind(IntEnum):
    """What may be done to an idle GPU; numbers of the wire (GpuWork.Kind)."""

    NONE = 0
    CHECK = 1
    RESET = 2
    DIVIDE = 3


# -- events


class Listed(msgspec.Struct, frozen=True, gc=False):
    """What NVML names, at the daemon's start and whenever that has changed. `why` "" = it answers."""

    devices: tuple[Device, ...]
    boot_id: str
    why: str = ""
    code: int = 0
    nameless: tuple[int, ...] = ()  # errors of those that are counted and have no name


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Whose a process on a GPU is, as far as the kernel says."""

    pid: int
    exists: bool
    uid: int = -1
    job: tuple[int, int] | None = None  # job id and attempt, by its group, its supervisor or its environment
    start: int = 0  # of the process, in clock ticks: with the pid it names it
    step: StepKey | None = None  # where that is the kernel's word


class Seen(msgspec.Struct, frozen=True, gc=False):
    """All GPUs once, and whose the processes on them are."""

    polled: Polled
    owners: tuple[Owner, ...] = ()


class Holds(msgspec.Struct, frozen=True, gc=False):
    """A step has these GPUs from now on."""

    key: StepKey
    uid: int
    uuids: tuple[str, ...]


class Released(msgspec.Struct, frozen=True, gc=False):
    """The step has ended."""

    key: StepKey


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """An administrator has seen to the GPU: forget what was held against it."""

    uuid: str


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What the site says. `xids`: (XID, name of a class), before the table's own."""

    lost_drains_node: bool = False
    xids: tuple[tuple[int, str], ...] = ()
    unkillable_us: int = 60_000_000  # UnkillableStepTimeout


class Worked(msgspec.Struct, frozen=True, gc=False):
    """Something was done to a GPU."""

    kind: WorkKind
    uuid: str
    ok: bool
    text: str = ""


class LogRead(msgspec.Struct, frozen=True, gc=False):
    """The kernel's log was read up to this record; all XIDs until there have been told."""

    sequence: int


Event = Listed | Seen | Xid | Hung | Answering | Holds | Released | Cleared | Rules | Worked | LogRead


# -- outputs


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """What is thought of a GPU from now on."""

    uuid: str
    state: GpuState = GpuState.HEALTHY
    reason: str = ""
    since_us: int = 0
    many_only: bool = False  # only jobs with several GPUs must not have it
    wants_reset: bool = False  # a reset may mend it
    xids: tuple[tuple[int, int, int], ...] = ()  # XID, how often ever, when last; the newest first
    notes: tuple[str, ...] = ()  # what changes nothing (gpusignals.NOTES)


class JobAction(msgspec.Struct, frozen=True, gc=False):
    """What it means for the jobs that have the GPU; any step of each names it."""

    action: Action
    jobs: tuple[StepKey, ...]
    cause: str


class NodeDrain(msgspec.Struct, frozen=True, gc=False):
    """No new jobs on the whole node, or (`clear`) that is over."""

    reason: str
    clear: bool = False


class KillProcess(msgspec.Struct, frozen=True, gc=False):
    """A process that an ended job has left on a GPU."""

    pid: int
    start: int
    uid: int
    job: tuple[int, int]
    uuid: str


class Remark(msgspec.Struct, frozen=True, gc=False):
    """For the log: a signal as it came, and what is made of it."""

    text: str
    is_bad: bool = True


class Look(msgspec.Struct, frozen=True, gc=False):
    """All GPUs should be looked at after that time."""

    delay_us: int = 0


Output = Look | Opinion | JobAction | NodeDrain | KillProcess | Remark


# -- memory


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A row of the policy table that holds for a GPU now."""

    row: str
    reason: str
    since_us: int
    last_us: int = 0  # when the signal was seen last
    boot_id: str = ""  # that it was seen last in
    level: int = 1  # the worst value of the signal
    xid: int = 0


class Record(msgspec.Struct, omit_defaults=True):
    """All that is remembered of one GPU or MIG instance, by UUID. Bounds of the lists: gpurecord.py."""

    uuid: str
    device: Device | None = None  # as it was named last
    boot_id: str = ""  # in which it was
    seen_at_us: int = 0
    told: Opinion | None = None
    told_us: int = 0
    conditions: dict[str, Condition] = {}
    accepted: dict[str, int] = {}  # row -> the value that an administrator has accepted
    cleared_at_us: list[int] = []  # when the GPU opened by itself, of the last 24 h
    blamed: list[tuple[int, int, int]] = []  # when, uid, job id: application errors of the last 24 h
    repeated: dict[int, list[int]] = {}  # XID -> when, within 24 h
    counted: dict[int, int] = {}  # XID -> how often, ever
    notes: tuple[str, ...] = ()  # gpusignals.NOTES
    counted_us: dict[int, int] = {}  # XID -> when last
    cures: dict[int, list[tuple[int, str]]] = {}  # XID -> when it came in which life of the GPU
    resets: int = 0
    reset_at_us: int = 0
    ecc_volatile: int = -1
    ecc_aggregate: int = -1
    nvlink_errors: int = -1
    links_down: int = -1


class Memory(msgspec.Struct, omit_defaults=True):
    """What a file of the spool keeps of the judge."""

    boot_id: str = ""
    records: dict[str, Record] = {}
    log_read: int | None = (
        None  # the last record of the kernel's log that was seen (-1: none since the machine's start)
    )
    drained: str = ""  # the reason for which the node was drained and is not cleared
