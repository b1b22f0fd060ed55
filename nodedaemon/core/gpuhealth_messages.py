"""Events and outputs of the judge of GPUs, and the state that it keeps between restarts (Record).

Plain data. `Xid`, `Hung` and `Answering` come from the watcher as they are (gpumessages.py), `Polled` within `Seen`.
Times are in microseconds since 1970.
"""

from enum import IntEnum

import msgspec

from nodedaemon.core.gpumessages import Answering, Device, Hung, Polled, Xid
from nodedaemon.core.steps import StepKey
from penstock.values.gpustates import GpuState


class Action(IntEnum):
    """The consequence of a failure for jobs; numbers of the wire (GpuReport.Action)."""

    NONE = 0
    NOTE = 1
    MARK = 2
    END = 3


class GpuWorkKind(IntEnum):
    """Kinds of work on an idle GPU; numbers of the wire (GpuWork.Kind)."""

    NONE = 0
    CHECK = 1
    RESET = 2
    DIVIDE = 3


# -- events


class Listed(msgspec.Struct, frozen=True, gc=False):
    """The inventory of NVML, at the daemon's start and after each change. `why` "" = NVML works."""

    devices: tuple[Device, ...]
    boot_id: str
    why: str = ""
    code: int = 0
    nameless: tuple[int, ...] = ()  # errors of those that NVML counts and that have no name


class GpuOwner(msgspec.Struct, frozen=True, gc=False):
    """The owner of a process on a GPU, as far as the kernel knows."""

    pid: int
    exists: bool
    uid: int = -1
    job: tuple[int, int] | None = None  # job id and attempt, found by its group, its supervisor or its environment
    start: int = 0  # of the process, in clock ticks: with the pid it identifies it
    step: StepKey | None = None  # where the kernel says so


class Seen(msgspec.Struct, frozen=True, gc=False):
    """One poll of all GPUs, with the owners of the processes on them."""

    polled: Polled
    owners: tuple[GpuOwner, ...] = ()


class StepGpus(msgspec.Struct, frozen=True, gc=False):
    """A step has received these GPUs."""

    key: StepKey
    uid: int
    uuids: tuple[str, ...]


class Released(msgspec.Struct, frozen=True, gc=False):
    """The step has ended."""

    key: StepKey


class Cleared(msgspec.Struct, frozen=True, gc=False):
    """An administrator clears the GPU's record."""

    uuid: str


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The site's rules. `xids`: (XID, name of a class), before the table's own."""

    lost_drains_node: bool = False
    xids: tuple[tuple[int, str], ...] = ()
    unkillable_us: int = 60_000_000  # UnkillableStepTimeout


class Worked(msgspec.Struct, frozen=True, gc=False):
    """The result of work on a GPU."""

    kind: GpuWorkKind
    uuid: str
    ok: bool
    text: str = ""


class LogRead(msgspec.Struct, frozen=True, gc=False):
    """The kernel's log was read up to this record; all XIDs up to it have been reported."""

    sequence: int


HealthEvent = Listed | Seen | Xid | Hung | Answering | StepGpus | Released | Cleared | Rules | Worked | LogRead


# -- outputs


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """The new health of a GPU."""

    uuid: str
    state: GpuState = GpuState.HEALTHY
    reason: str = ""
    since_us: int = 0
    many_only: bool = False  # only jobs with several GPUs must not use it
    wants_reset: bool = False  # a reset may repair it
    xids: tuple[tuple[int, int, int], ...] = ()  # XID, total count, when last; the newest first
    notes: tuple[str, ...] = ()  # remarks without effect (gpusignals.NOTES)


class JobAction(msgspec.Struct, frozen=True, gc=False):
    """The consequence for the jobs that have the GPU; each is identified by any of its steps."""

    action: Action
    jobs: tuple[StepKey, ...]
    cause: str


class NodeDrain(msgspec.Struct, frozen=True, gc=False):
    """Drains the whole node, or (`clear`) ends that."""

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
    """A line for the log: a signal as received, and its consequence."""

    text: str
    is_bad: bool = True


class PollRequest(msgspec.Struct, frozen=True, gc=False):
    """All GPUs should be polled after this time."""

    delay_us: int = 0


HealthOutput = PollRequest | Opinion | JobAction | NodeDrain | KillProcess | Remark


# -- memory


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An active row of the policy table for a GPU."""

    row: str
    reason: str
    since_us: int
    last_us: int = 0  # when the signal was last seen
    boot_id: str = ""  # the boot in which it was last seen
    level: int = 1  # the worst value of the signal
    xid: int = 0


class GpuHealthRecord(msgspec.Struct, omit_defaults=True):
    """The stored health of one GPU or MIG instance, by UUID. Bounds of the lists: gpurecord.py."""

    uuid: str
    device: Device | None = None  # as it was last listed
    boot_id: str = ""  # in which it was listed
    seen_at_us: int = 0
    # The stored names of these two are older than the attributes.
    reported: Opinion | None = msgspec.field(default=None, name="told")
    reported_us: int = msgspec.field(default=0, name="told_us")
    conditions: dict[str, Condition] = {}
    accepted: dict[str, int] = {}  # row -> the value that an administrator has accepted
    cleared_at_us: list[int] = []  # when the GPU reopened by itself, in the last 24 h
    blamed: list[tuple[int, int, int]] = []  # when, uid, job id: application errors of the last 24 h
    repeated: dict[int, list[int]] = {}  # XID -> when, within 24 h
    counted: dict[int, int] = {}  # XID -> total count
    notes: tuple[str, ...] = ()  # gpusignals.NOTES
    counted_us: dict[int, int] = {}  # XID -> when last
    cures: dict[int, list[tuple[int, str]]] = {}  # XID -> when it occurred in which life of the GPU
    resets: int = 0
    reset_at_us: int = 0
    ecc_volatile: int = -1
    ecc_aggregate: int = -1
    nvlink_errors: int = -1
    links_down: int = -1


class Memory(msgspec.Struct, omit_defaults=True):
    """The state of the health machine that is stored in a file of the spool."""

    boot_id: str = ""
    records: dict[str, GpuHealthRecord] = {}
    log_read: int | None = (
        None  # the last record of the kernel's log that was read (-1: none since the machine's start)
    )
    drained: str = ""  # the reason for which the node was drained, until it is cleared
