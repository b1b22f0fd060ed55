"""Life-cycle words of jobs, steps and nodes, with Slurm's long and compact spellings.

A job has exactly one `JobState`. Slurm keeps CONFIGURING and COMPLETING as flags beside a base state; here they are
states of their own, because a life cycle that is a table needs one key. What is shown to users is Slurm's word in
every case. A node has a base state that is derived (IDLE, MIXED, ALLOCATED) unless it is DOWN or UNKNOWN, and flags.
"""

from enum import IntEnum, IntFlag, StrEnum


class JobState(IntEnum):
    """States of a job or step. The numbers are stored; they are never reused."""

    PENDING = 0
    CONFIGURING = 1
    RUNNING = 2
    COMPLETING = 3
    SUSPENDED = 4
    COMPLETED = 10
    FAILED = 11
    CANCELLED = 12
    TIMEOUT = 13
    NODE_FAIL = 14
    OUT_OF_MEMORY = 15
    PREEMPTED = 17  # had to go for another job
    REQUEUED = 16  # end state of an attempt that is followed by another; shown by `sacct -D` only
    DEADLINE = 18  # could not end before its deadline any more


#: States in which a job holds no resources and will not change again.
END_STATES = frozenset(s for s in JobState if s >= JobState.COMPLETED)
#: The same by name, as they come over the wire.
ENDED = frozenset(state.name for state in END_STATES)
ACTIVE_STATES = frozenset(s for s in JobState if s < JobState.COMPLETED)
#: States in which a job holds an allocation.
HOLDING_STATES = frozenset((JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED))

COMPACT_STATE: dict[JobState, str] = {
    JobState.PENDING: "PD",
    JobState.CONFIGURING: "CF",
    JobState.RUNNING: "R",
    JobState.COMPLETING: "CG",
    JobState.SUSPENDED: "S",
    JobState.COMPLETED: "CD",
    JobState.FAILED: "F",
    JobState.CANCELLED: "CA",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.OUT_OF_MEMORY: "OOM",
    JobState.REQUEUED: "RQ",
    JobState.PREEMPTED: "PR",
    JobState.DEADLINE: "DL",
}

#: Slurm's words for states that this version never enters: accepted in filters, they match nothing.
OTHER_STATE_WORDS = {
    "BOOT_FAIL": "BF", "RESIZING": "RS", "REQUEUE_HOLD": "RH",
    "SPECIAL_EXIT": "SE", "RESV_DEL_HOLD": "RD", "REVOKED": "RV", "REQUEUE_FED": "RF", "SIGNALING": "SI",
    "STAGE_OUT": "SO", "STOPPED": "ST",
}  # fmt: skip


class NodeFlag(IntFlag):
    """What else is true of a node, beside its base state."""

    NONE = 0
    DOWN = 1
    UNKNOWN = 2  # never registered since the controller knows it
    DRAIN = 4
    NO_RESPOND = 8
    INVAL = 16  # registered with less than the configuration promises
    FAIL = 32
    COMPLETING = 64  # processes of jobs that are over for the controller are still there
    REBOOT_REQUESTED = 128  # scontrol reboot: when nothing runs there
    REBOOT_ISSUED = 256  # it has been told to
    REBOOT_THEN_RESUME = 512  # nextstate=
    REBOOT_THEN_DOWN = 1024
    REBOOT_DRAINED = 2048  # the drain is ASAP's
    FUTURE = 4096  # it is not there yet; registering makes it one like the others


#: Node flags with which nothing new starts there.
CLOSED_FLAGS = (
    NodeFlag.DOWN
    | NodeFlag.UNKNOWN
    | NodeFlag.DRAIN
    | NodeFlag.NO_RESPOND
    | NodeFlag.INVAL
    | NodeFlag.FAIL
    | NodeFlag.COMPLETING
    | NodeFlag.REBOOT_ISSUED
    | NodeFlag.FUTURE
)


class Reason(StrEnum):
    """Why a job is pending, or why it ended as it did: Slurm's spellings (`squeue %r`)."""

    NONE = "None"
    PRIORITY = "Priority"
    RESOURCES = "Resources"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    JOB_HELD_USER = "JobHeldUser"
    JOB_HELD_ADMIN = "JobHeldAdmin"
    JOB_ARRAY_TASK_LIMIT = "JobArrayTaskLimit"
    PARTITION_DOWN = "PartitionDown"
    PARTITION_INACTIVE = "PartitionInactive"
    PARTITION_NODE_LIMIT = "PartitionNodeLimit"
    PARTITION_TIME_LIMIT = "PartitionTimeLimit"
    PARTITION_CONFIG = "PartitionConfig"
    ACCOUNT_NOT_ALLOWED = "AccountNotAllowed"
    QOS_NOT_ALLOWED = "QOSNotAllowed"
    REQ_NODE_NOT_AVAIL = "ReqNodeNotAvail"
    BAD_CONSTRAINTS = "BadConstraints"
    LICENSES = "Licenses"
    RESERVATION = "Reservation"
    RESERVATION_DELETED = "ReservationDeleted"
    PREEMPTED = "Preempted"
    DEADLINE = "DeadLine"
    NODE_DOWN = "NodeDown"
    CLEANING = "Cleaning"
    JOB_LAUNCH_FAILURE = "JobLaunchFailure"
    LAUNCH_FAILED_REQUEUED_HELD = "launch failed requeued held"
    JOB_HOLD_MAX_REQUEUE = "JobHoldMaxRequeue"
    NON_ZERO_EXIT_CODE = "NonZeroExitCode"
    RAISED_SIGNAL = "RaisedSignal"
    TIME_LIMIT = "TimeLimit"
    OUT_OF_MEMORY = "OutOfMemory"
    SYSTEM_FAILURE = "SystemFailure"
    INACTIVE_LIMIT = "InactiveLimit"
    NODES_BUSY = "NodesBusy"
    INVALID_ACCOUNT = "InvalidAccount"
    INVALID_QOS = "InvalidQOS"


class Suspend(IntEnum):
    """Why a job that has its allocation does not run. The numbers are stored."""

    NO = 0
    ADMIN = 1  # scontrol suspend; its cpus are free for others
    PREEMPTED = 2  # for a job of a higher rank; its cpus are free for others
    GANG = 3  # it is not its turn; it keeps its share of the cpus
    RESUMING = 4  # it may go on, has its cpus again, and waits until nobody else runs on them


class Hold(IntEnum):
    """Who holds a pending job back."""

    NO = 0
    USER = 1
    ADMIN = 2
    SPECIAL_EXIT = 3  # its script's exit status is one of RequeueExitHold


def parse_job_states(text: str) -> tuple[frozenset[JobState], bool]:
    """Read a comma list of state words, long or compact, any case.

    Returns the states and whether `all` was among them. Words of states that this version never enters match nothing.
    Raises BadValue for a word that Slurm does not know.
    """
    from penstock.values.errors import BadValue

    found: set[JobState] = set()
    other = set(OTHER_STATE_WORDS) | set(OTHER_STATE_WORDS.values())
    by_word = {s.name: s for s in JobState} | {c: s for s, c in COMPACT_STATE.items()}
    for word in (w.strip().upper() for w in text.split(",")):
        if word == "ALL":
            return frozenset(JobState), True
        if word in by_word:
            found.add(by_word[word])
        elif word not in other:
            raise BadValue(f"Invalid job state specified: {word}. Valid states: {', '.join(sorted(by_word))}")
    return frozenset(found), False
