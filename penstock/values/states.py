"""States of jobs, steps and nodes, with Slurm's long and compact spellings.

A job has exactly one `JobState`. Slurm keeps CONFIGURING and COMPLETING as flags beside a base state; here they are
states of their own, because the transition table needs a single key. Users always see Slurm's words. A node has flags,
and a base state that is derived (IDLE, MIXED, ALLOCATED) unless it is DOWN or UNKNOWN.
"""

from enum import IntEnum, IntFlag, StrEnum
from typing import Final


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
    PREEMPTED = 17  # ended in favour of another job
    REQUEUED = 16  # end state of an attempt that is followed by another; shown by `sacct -D` only
    DEADLINE = 18  # could not end before its deadline
    RESIZING = 19  # of a record that ended when its job gave nodes back; shown by sacct only


#: States in which a job holds no resources and does not change any further.
END_STATES = frozenset(s for s in JobState if s >= JobState.COMPLETED)
#: Their names, as used on the wire.
ENDED = frozenset(state.name for state in END_STATES)
ACTIVE_STATES = frozenset(s for s in JobState if s < JobState.COMPLETED)
#: States in which a job holds an allocation.
ALLOCATED_STATES = frozenset((JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED))

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
    JobState.RESIZING: "RS",
}

#: Slurm's states that this version never enters: accepted in filters, they match nothing.
OTHER_STATE_WORDS = {
    "BOOT_FAIL": "BF", "EXPEDITING": "EX", "LAUNCH_FAILED": "LF", "NPC": "NPC", "POWER_UP_NODE": "PU",
    "RECONFIG_FAIL": "RF", "UPDATE_DB": "UD", "REQUEUE_HOLD": "RH",
    "SPECIAL_EXIT": "SE", "RESV_DEL_HOLD": "RD", "REVOKED": "RV", "REQUEUE_FED": "RF", "SIGNALING": "SI",
    "STAGE_OUT": "SO", "STOPPED": "ST",
}  # fmt: skip


class NodeFlag(IntFlag):
    """Flags of a node's state, in addition to its base state."""

    NONE = 0
    DOWN = 1
    UNKNOWN = 2  # has not registered since it was defined
    DRAIN = 4
    NO_RESPOND = 8
    INVAL = 16  # registered with less than its configuration
    FAIL = 32
    COMPLETING = 64  # processes of jobs that have ended for the controller are still running
    REBOOT_REQUESTED = 128  # by scontrol reboot: reboots when idle
    REBOOT_ISSUED = 256  # the node has received the request
    REBOOT_THEN_RESUME = 512  # nextstate=
    REBOOT_THEN_DOWN = 1024
    REBOOT_DRAINED = 2048  # the drain was set by reboot ASAP
    REBOOT_FOR_JOB = 8192  # for the job there that has asked for it: --reboot
    FUTURE = 4096  # not in service yet; registering makes it a normal node


#: Flags that prevent new jobs from starting on the node.
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
    """The reason why a job is pending or has ended, in Slurm's spelling (`squeue %r`)."""

    NONE = "None"
    PRIORITY = "Priority"
    RESOURCES = "Resources"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    JOB_HELD_USER = "JobHeldUser"
    JOB_HELD_ADMIN = "JobHeldAdmin"
    JOB_REQUEUED_HELD = "job requeued in held state"
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
    # limits; limitreasons.py explains them
    ASSOC_GRP_JOBS_LIMIT = "AssocGrpJobsLimit"
    ASSOC_GRP_SUBMIT_JOBS_LIMIT = "AssocGrpSubmitJobsLimit"
    ASSOC_GRP_WALL_LIMIT = "AssocGrpWallLimit"
    ASSOC_GRP_CPU_LIMIT = "AssocGrpCpuLimit"
    ASSOC_GRP_MEM_LIMIT = "AssocGrpMemLimit"
    ASSOC_GRP_ENERGY = "AssocGrpEnergy"
    ASSOC_GRP_NODE_LIMIT = "AssocGrpNodeLimit"
    ASSOC_GRP_BILLING = "AssocGrpBilling"
    ASSOC_GRP_GRES = "AssocGrpGRES"
    ASSOC_GRP_LICENSE = "AssocGrpLicense"
    ASSOC_GRP_BB = "AssocGrpBB"
    ASSOC_GRP_UNKNOWN = "AssocGrpUnknown"
    ASSOC_GRP_CPU_MINUTES_LIMIT = "AssocGrpCPUMinutesLimit"
    ASSOC_GRP_MEM_MINUTES = "AssocGrpMemMinutes"
    ASSOC_GRP_ENERGY_MINUTES = "AssocGrpEnergyMinutes"
    ASSOC_GRP_NODE_MINUTES = "AssocGrpNodeMinutes"
    ASSOC_GRP_BILLING_MINUTES = "AssocGrpBillingMinutes"
    ASSOC_GRP_GRES_MINUTES = "AssocGrpGRESMinutes"
    ASSOC_GRP_LICENSE_MINUTES = "AssocGrpLicenseMinutes"
    ASSOC_GRP_BB_MINUTES = "AssocGrpBBMinutes"
    ASSOC_GRP_UNKNOWN_MINUTES = "AssocGrpUnknownMinutes"
    ASSOC_GRP_CPU_RUN_MINUTES_LIMIT = "AssocGrpCPURunMinutesLimit"
    ASSOC_GRP_MEM_RUN_MINUTES = "AssocGrpMemRunMinutes"
    ASSOC_GRP_ENERGY_RUN_MINUTES = "AssocGrpEnergyRunMinutes"
    ASSOC_GRP_NODE_RUN_MINUTES = "AssocGrpNodeRunMinutes"
    ASSOC_GRP_BILLING_RUN_MINUTES = "AssocGrpBillingRunMinutes"
    ASSOC_GRP_GRES_RUN_MINUTES = "AssocGrpGRESRunMinutes"
    ASSOC_GRP_LICENSE_RUN_MINUTES = "AssocGrpLicenseRunMinutes"
    ASSOC_GRP_BB_RUN_MINUTES = "AssocGrpBBRunMinutes"
    ASSOC_GRP_UNKNOWN_RUN_MINUTES = "AssocGrpUnknownRunMinutes"
    ASSOC_MAX_CPU_PER_JOB_LIMIT = "AssocMaxCpuPerJobLimit"
    ASSOC_MAX_MEM_PER_JOB = "AssocMaxMemPerJob"
    ASSOC_MAX_ENERGY_PER_JOB = "AssocMaxEnergyPerJob"
    ASSOC_MAX_NODE_PER_JOB_LIMIT = "AssocMaxNodePerJobLimit"
    ASSOC_MAX_BILLING_PER_JOB = "AssocMaxBillingPerJob"
    ASSOC_MAX_GRES_PER_JOB = "AssocMaxGRESPerJob"
    ASSOC_MAX_LICENSE_PER_JOB = "AssocMaxLicensePerJob"
    ASSOC_MAX_BB_PER_JOB = "AssocMaxBBPerJob"
    ASSOC_MAX_UNKNOWN_PER_JOB = "AssocMaxUnknownPerJob"
    ASSOC_MAX_CPU_PER_NODE = "AssocMaxCpuPerNode"
    ASSOC_MAX_MEM_PER_NODE = "AssocMaxMemPerNode"
    ASSOC_MAX_ENERGY_PER_NODE = "AssocMaxEnergyPerNode"
    ASSOC_MAX_BILLING_PER_NODE = "AssocMaxBillingPerNode"
    ASSOC_MAX_GRES_PER_NODE = "AssocMaxGRESPerNode"
    ASSOC_MAX_BB_PER_NODE = "AssocMaxBBPerNode"
    ASSOC_MAX_UNKNOWN_PER_NODE = "AssocMaxUnknownPerNode"
    ASSOC_MAX_CPU_MINUTES_PER_JOB_LIMIT = "AssocMaxCpuMinutesPerJobLimit"
    ASSOC_MAX_MEM_MINUTES_PER_JOB = "AssocMaxMemMinutesPerJob"
    ASSOC_MAX_ENERGY_MINUTES_PER_JOB = "AssocMaxEnergyMinutesPerJob"
    ASSOC_MAX_NODE_MINUTES_PER_JOB = "AssocMaxNodeMinutesPerJob"
    ASSOC_MAX_BILLING_MINUTES_PER_JOB = "AssocMaxBillingMinutesPerJob"
    ASSOC_MAX_GRES_MINUTES_PER_JOB = "AssocMaxGRESMinutesPerJob"
    ASSOC_MAX_LICENSE_MINUTES_PER_JOB = "AssocMaxLicenseMinutesPerJob"
    ASSOC_MAX_BB_MINUTES_PER_JOB = "AssocMaxBBMinutesPerJob"
    ASSOC_MAX_UNKNOWN_MINUTES_PER_JOB = "AssocMaxUnknownMinutesPerJob"
    ASSOC_MAX_WALL_DURATION_PER_JOB_LIMIT = "AssocMaxWallDurationPerJobLimit"
    QOS_GRP_JOBS_LIMIT = "QOSGrpJobsLimit"
    QOS_GRP_SUBMIT_JOBS_LIMIT = "QOSGrpSubmitJobsLimit"
    QOS_GRP_WALL_LIMIT = "QOSGrpWallLimit"
    QOS_GRP_CPU_LIMIT = "QOSGrpCpuLimit"
    QOS_GRP_MEM_LIMIT = "QOSGrpMemLimit"
    QOS_GRP_ENERGY = "QOSGrpEnergy"
    QOS_GRP_NODE_LIMIT = "QOSGrpNodeLimit"
    QOS_GRP_BILLING = "QOSGrpBilling"
    QOS_GRP_GRES = "QOSGrpGRES"
    QOS_GRP_LICENSE = "QOSGrpLicense"
    QOS_GRP_BB = "QOSGrpBB"
    QOS_GRP_UNKNOWN = "QOSGrpUnknown"
    QOS_GRP_CPU_MINUTES_LIMIT = "QOSGrpCPUMinutesLimit"
    QOS_GRP_MEMORY_MINUTES = "QOSGrpMemoryMinutes"
    QOS_GRP_ENERGY_MINUTES = "QOSGrpEnergyMinutes"
    QOS_GRP_NODE_MINUTES = "QOSGrpNodeMinutes"
    QOS_GRP_BILLING_MINUTES = "QOSGrpBillingMinutes"
    QOS_GRP_GRES_MINUTES = "QOSGrpGRESMinutes"
    QOS_GRP_LICENSE_MINUTES = "QOSGrpLicenseMinutes"
    QOS_GRP_BB_MINUTES = "QOSGrpBBMinutes"
    QOS_GRP_UNKNOWN_MINUTES = "QOSGrpUnknownMinutes"
    QOS_GRP_CPU_RUN_MINUTES_LIMIT = "QOSGrpCPURunMinutesLimit"
    QOS_GRP_MEMORY_RUN_MINUTES = "QOSGrpMemoryRunMinutes"
    QOS_GRP_ENERGY_RUN_MINUTES = "QOSGrpEnergyRunMinutes"
    QOS_GRP_NODE_RUN_MINUTES = "QOSGrpNodeRunMinutes"
    QOS_GRP_BILLING_RUN_MINUTES = "QOSGrpBillingRunMinutes"
    QOS_GRP_GRES_RUN_MINUTES = "QOSGrpGRESRunMinutes"
    QOS_GRP_LICENSE_RUN_MINUTES = "QOSGrpLicenseRunMinutes"
    QOS_GRP_BB_RUN_MINUTES = "QOSGrpBBRunMinutes"
    QOS_GRP_UNKNOWN_RUN_MINUTES = "QOSGrpUnknownRunMinutes"
    QOS_MAX_CPU_PER_JOB_LIMIT = "QOSMaxCpuPerJobLimit"
    QOS_MAX_MEMORY_PER_JOB = "QOSMaxMemoryPerJob"
    QOS_MAX_ENERGY_PER_JOB = "QOSMaxEnergyPerJob"
    QOS_MAX_NODE_PER_JOB_LIMIT = "QOSMaxNodePerJobLimit"
    QOS_MAX_BILLING_PER_JOB = "QOSMaxBillingPerJob"
    QOS_MAX_GRES_PER_JOB = "QOSMaxGRESPerJob"
    QOS_MAX_LICENSE_PER_JOB = "QOSMaxLicensePerJob"
    QOS_MAX_BB_PER_JOB = "QOSMaxBBPerJob"
    QOS_MAX_UNKNOWN_PER_JOB = "QOSMaxUnknownPerJob"
    QOS_MAX_CPU_PER_NODE = "QOSMaxCpuPerNode"
    QOS_MAX_MEMORY_PER_NODE = "QOSMaxMemoryPerNode"
    QOS_MAX_ENERGY_PER_NODE = "QOSMaxEnergyPerNode"
    QOS_MAX_BILLING_PER_NODE = "QOSMaxBillingPerNode"
    QOS_MAX_GRES_PER_NODE = "QOSMaxGRESPerNode"
    QOS_MAX_BB_PER_NODE = "QOSMaxBBPerNode"
    QOS_MAX_UNKNOWN_PER_NODE = "QOSMaxUnknownPerNode"
    QOS_MAX_CPU_MINUTES_PER_JOB_LIMIT = "QOSMaxCpuMinutesPerJobLimit"
    QOS_MAX_MEMORY_MINUTES_PER_JOB = "QOSMaxMemoryMinutesPerJob"
    QOS_MAX_ENERGY_MINUTES_PER_JOB = "QOSMaxEnergyMinutesPerJob"
    QOS_MAX_NODE_MINUTES_PER_JOB = "QOSMaxNodeMinutesPerJob"
    QOS_MAX_BILLING_MINUTES_PER_JOB = "QOSMaxBillingMinutesPerJob"
    QOS_MAX_GRES_MINUTES_PER_JOB = "QOSMaxGRESMinutesPerJob"
    QOS_MAX_LICENSE_MINUTES_PER_JOB = "QOSMaxLicenseMinutesPerJob"
    QOS_MAX_BB_MINUTES_PER_JOB = "QOSMaxBBMinutesPerJob"
    QOS_MAX_UNKNOWN_MINUTES_PER_JOB = "QOSMaxUnknownMinutesPerJob"
    QOS_MAX_WALL_DURATION_PER_JOB_LIMIT = "QOSMaxWallDurationPerJobLimit"
    ASSOC_MAX_JOBS_LIMIT = "AssocMaxJobsLimit"
    ASSOC_MAX_SUBMIT_JOB_LIMIT = "AssocMaxSubmitJobLimit"
    QOS_MAX_JOBS_PER_USER_LIMIT = "QOSMaxJobsPerUserLimit"
    QOS_MAX_SUBMIT_JOB_PER_USER_LIMIT = "QOSMaxSubmitJobPerUserLimit"
    MAX_JOBS_PER_ACCOUNT = "MaxJobsPerAccount"
    MAX_SUBMIT_JOBS_PER_ACCOUNT = "MaxSubmitJobsPerAccount"
    QOS_MAX_CPU_PER_USER_LIMIT = "QOSMaxCpuPerUserLimit"
    QOS_MAX_MEMORY_PER_USER = "QOSMaxMemoryPerUser"
    QOS_MAX_ENERGY_PER_USER = "QOSMaxEnergyPerUser"
    QOS_MAX_NODE_PER_USER_LIMIT = "QOSMaxNodePerUserLimit"
    QOS_MAX_BILLING_PER_USER = "QOSMaxBillingPerUser"
    QOS_MAX_GRES_PER_USER = "QOSMaxGRESPerUser"
    QOS_MAX_LICENSE_PER_USER = "QOSMaxLicensePerUser"
    QOS_MAX_BB_PER_USER = "QOSMaxBBPerUser"
    QOS_MAX_UNKNOWN_PER_USER = "QOSMaxUnknownPerUser"
    MAX_CPU_PER_ACCOUNT = "MaxCpuPerAccount"
    MAX_MEMORY_PER_ACCOUNT = "MaxMemoryPerAccount"
    MAX_ENERGY_PER_ACCOUNT = "MaxEnergyPerAccount"
    MAX_NODE_PER_ACCOUNT = "MaxNodePerAccount"
    MAX_BILLING_PER_ACCOUNT = "MaxBillingPerAccount"
    MAX_GRES_PER_ACCOUNT = "MaxGRESPerAccount"
    MAX_LICENSE_PER_ACCOUNT = "MaxLicensePerAccount"
    MAX_BB_PER_ACCOUNT = "MaxBBPerAccount"
    MAX_UNKNOWN_PER_ACCOUNT = "MaxUnknownPerAccount"
    MAX_CPU_RUN_MINS_PER_USER = "MaxCpuRunMinsPerUser"
    MAX_MEMORY_RUN_MINS_PER_USER = "MaxMemoryRunMinsPerUser"
    MAX_ENERGY_RUN_MINS_PER_USER = "MaxEnergyRunMinsPerUser"
    MAX_NODE_RUN_MINS_PER_USER = "MaxNodeRunMinsPerUser"
    MAX_BILLING_RUN_MINS_PER_USER = "MaxBillingRunMinsPerUser"
    MAX_GRES_RUN_MINS_PER_USER = "MaxGRESRunMinsPerUser"
    MAX_LICENSE_RUN_MINS_PER_USER = "MaxLicenseRunMinsPerUser"
    MAX_BB_RUN_MINS_PER_USER = "MaxBBRunMinsPerUser"
    MAX_UNKNOWN_RUN_MINS_PER_USER = "MaxUnknownRunMinsPerUser"
    MAX_CPU_RUN_MINS_PER_ACCOUNT = "MaxCpuRunMinsPerAccount"
    MAX_MEMORY_RUN_MINS_PER_ACCOUNT = "MaxMemoryRunMinsPerAccount"
    MAX_ENERGY_RUN_MINS_PER_ACCOUNT = "MaxEnergyRunMinsPerAccount"
    MAX_NODE_RUN_MINS_PER_ACCOUNT = "MaxNodeRunMinsPerAccount"
    MAX_BILLING_RUN_MINS_PER_ACCOUNT = "MaxBillingRunMinsPerAccount"
    MAX_GRES_RUN_MINS_PER_ACCOUNT = "MaxGRESRunMinsPerAccount"
    MAX_LICENSE_RUN_MINS_PER_ACCOUNT = "MaxLicenseRunMinsPerAccount"
    MAX_BB_RUN_MINS_PER_ACCOUNT = "MaxBBRunMinsPerAccount"
    MAX_UNKNOWN_RUN_MINS_PER_ACCOUNT = "MaxUnknownRunMinsPerAccount"
    QOS_MIN_CPU_NOT_SATISFIED = "QOSMinCpuNotSatisfied"
    QOS_MIN_MEMORY = "QOSMinMemory"
    QOS_MIN_ENERGY = "QOSMinEnergy"
    QOS_MIN_NODE = "QOSMinNode"
    QOS_MIN_BILLING = "QOSMinBilling"
    QOS_MIN_GRES = "QOSMinGRES"
    QOS_MIN_LICENSE = "QOSMinLicense"
    QOS_MIN_BB = "QOSMinBB"
    QOS_MIN_UNKNOWN = "QOSMinUnknown"
    QOS_USAGE_THRESHOLD = "QOSUsageThreshold"
    PENSTOCK_BUDGET = "AccountBudget"


class Suspend(IntEnum):
    """The cause of a suspension. The numbers are stored."""

    NO = 0
    ADMIN = 1  # scontrol suspend; its CPUs are free for others
    PREEMPTED = 2  # by a job of higher rank; its CPUs are free for others
    GANG = 3  # outside its time slice; it keeps its share of the CPUs
    RESUMING = 4  # has its CPUs again and waits until other jobs have stopped using them


class Hold(IntEnum):
    """The kind of hold on a pending job."""

    NO = 0
    USER = 1
    ADMIN = 2
    SPECIAL_EXIT = 3  # its script's exit status is in RequeueExitHold


#: Holds from weak to strong. The numbers above are fixed by the database and the wire, and not in this order.
_HOLD_ORDER: Final = (Hold.NO, Hold.USER, Hold.SPECIAL_EXIT, Hold.ADMIN)


def stronger(one: Hold, other: Hold) -> Hold:
    """Returns the stronger of two holds. Only a release weakens a hold, and an owner cannot release an administrator's."""
    return max(one, other, key=_HOLD_ORDER.index)


def parse_job_states(text: str) -> tuple[frozenset[JobState], bool]:
    """Parses a comma-separated list of states, long or compact, in any case.

    Returns the states and whether `all` was among them. States that this version never enters match nothing. Raises
    BadValue for a word that Slurm does not have.
    """
    from penstock.values.errors import BadValue

    found: set[JobState] = set()
    other = set(OTHER_STATE_WORDS) | set(OTHER_STATE_WORDS.values())
    by_word = {s.name: s for s in JobState} | {c: s for s, c in COMPACT_STATE.items()}
    for word in map(str.strip, text.split(",")):
        name = word.upper()
        if name == "ALL":
            return frozenset(JobState), True
        if name in by_word:
            found.add(by_word[name])
        elif name not in other:
            raise BadValue(
                f"Invalid job state specified: {word}. Valid states: {', '.join(sorted({*by_word, *other}))}"
            )
    return frozenset(found), False
