"""Records of the controller's state: slotted classes without logic.

`JobRequest` is what a user asked for: frozen, shared by the job, its committed row and all tasks of an array. `Job`
holds what changes. `JobRow` is the frozen image that goes to the database and to the read snapshot (of steps:
step_model.py); its field names are the column names. What is written is written whole: a row carries all mutable columns of its
record.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from ctld.core.gpu_model import Gpu
from ctld.core.step_model import GpuShare as GpuShare
from ctld.core.step_model import Step as Step
from ctld.core.step_model import StepRow as StepRow
from ctld.core.step_model import step_row as step_row
from penstock.values.gres import Gres
from penstock.values.jobkind import JobKind
from penstock.values.limits import NO_LIMITS, Limits
from penstock.values.reservations import ResvFlag
from penstock.values.states import Hold, JobState, NodeFlag, Reason, Suspend
from penstock.values.taskset import TaskSet


class JobRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a user asked for, validated. Field names are those of the wire's JobRequest. None = not said.

    Kept as JSON in the database, so a field is only ever added, with a default.
    """

    name: str = ""
    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: str = ""
    comment: str = ""
    work_dir: bytes = b"/"
    std_out: bytes = b""
    std_err: bytes = b""
    std_in: bytes = b""
    open_append: bool = False
    time_limit_s: int | None = None
    begin_at_us: int = 0
    nodes_min: int = 1
    nodes_max: int = 1
    nodes_asked: bool = False
    ntasks: int = 1
    ntasks_asked: bool = False
    cpus_per_task: int = 1
    cpus_per_task_asked: bool = False
    ntasks_per_node: int = 0
    mem_per_node_mb: int | None = None  # 0 = all of the node's memory
    mem_per_cpu_mb: int | None = None
    gres_per_node: tuple[tuple[str, str, int], ...] = ()  # (name, type, count)
    features: str = ""
    nodes_required: tuple[str, ...] = ()
    nodes_excluded: tuple[str, ...] = ()
    exclusive: bool = False
    dependency: str = ""
    array: str = ""
    requeue: bool = True
    nice: int = 0
    rlimits: tuple[tuple[str, int], ...] = ()
    umask: int | None = None
    submit_line: str = ""
    kill_on_invalid_dep: bool = False
    export_env: str = ""
    submit_host: str = ""
    submit_dir: bytes = b""
    command: str = ""
    wckey: str = ""
    exclusive_user: bool = False
    licenses: str = ""
    switches_max: int = 0  # --switches; 0 = any
    switches_wait_s: int = 0
    segment: int = 0
    time_min_s: int = 0  # --time-min: a limit that will do; 0 = not said
    deadline_at_us: int = 0
    signal: str = ""  # --signal as written: what comes how long before the time limit
    priority: int | None = None  # set by hand, and stays; None = computed
    site_factor: int = 0  # an administrator's own part of the priority
    reservation: str = ""  # --reservation as written: names with commas, any of which will do
    reservation_run: str = ""  # the one it runs in, where `reservation` does not say so by itself
    prefer: str = ""  # features that are tried before `features`
    sockets_per_node: int = 0  # of a node, at least; 0 = any
    cores_per_socket: int = 0
    threads_per_core: int = 0  # and no more of a core's threads work
    mincpus: int = 0  # cpus of a node, at least
    tmp_disk_mb: int = 0
    ntasks_per_core: int = 0  # at most; 0 = any
    ntasks_per_socket: int = 0
    spread_job: bool = False  # over as many nodes as can be
    use_min_nodes: bool = False  # of a range of nodes rather the fewest
    ntasks_over: int = 0  # --overcommit: tasks that were asked for, while `ntasks` is one a node
    overcommit: bool = False
    immediate_s: int | None = None
    gres_per_job: tuple[tuple[str, str, int], ...] = ()  # as asked; `gres_per_node` has what comes of it
    gres_per_task: tuple[tuple[str, str, int], ...] = ()
    ntasks_per_gpu: int = 0
    cpus_per_gpu: int = 0
    mem_per_gpu_mb: int | None = None
    resv_ports: int = 0
    distribution: str = ""  # of its steps, as written
    no_kill: bool = False  # goes on when a node of it fails
    wait_all_nodes: bool = False
    node_fail_policy: str = ""  # stop or keep: while the controller is out of reach; "" = as the site says
    kind: JobKind = JobKind.BATCH
    mpi: str = ""
    cpu_bind: str = ""
    mem_bind: str = ""
    gpu_bind: str = ""
    network: str = ""
    gpu_mem_mb: int = 0  # every GPU has at least so much; 0 = any
    gpu_freq: str = ""
    gres_per_socket: tuple[tuple[str, str, int], ...] = ()
    gres_sockets: int = 0
    het_job_id: int = 0  # of a heterogeneous job (het.py): the leader's id; 0 = it is none
    het_offset: int = 0
    het_size: int = 0
    mail_types: tuple[str, ...] = ()  # penstock.values.mail
    mail_user: str = ""  # "" = the job's owner
    contiguous: bool = False
    oversubscribe: bool | None = None
    core_spec: int | None = None  # cores of a node for the system
    thread_spec: int | None = None
    extra: str = ""
    mcs_label: str = ""
    batch_features: str = ""  # of the node that runs the script
    get_user_env: bool = False
    acctg_freq: str = ""
    oom_kill_step: bool | None = None
    reboot: bool = False
    delay_boot_s: int | None = None
    exclusive_mcs: bool = False
    expedite: bool = False  # requeued after a failure of its node, it goes before all others
    container: str = ""
    cpu_freq: str = ""
    system_comment: str = ""
    cron: str = ""  # of a line of a crontab: when it is due (penstock/values/cron.py); "" = it runs once

    def has_owner(self) -> bool:
        """True for a job that a salloc or srun is the owner of."""
        return self.kind in (JobKind.SALLOC, JobKind.SRUN) and not self.het_offset

    def gres(self) -> tuple[Gres, ...]:
        """What is asked for on each node, as counts by kind."""
        return tuple(Gres(*entry) for entry in self.gres_per_node)


class NodeAlloc(NamedTuple):
    """What a job holds on one node. `gres`: (name, type, bit mask of device indices) by kind, whole devices only."""

    node: str
    cpus: int
    mem_mb: int
    tasks: int
    gres: tuple[tuple[str, str, int], ...]
    cpu_ids: int = 0  # bit mask of cpu numbers (devices.py); 0 = not pinned
    shares: tuple[GpuShare, ...] = ()  # parts of GPUs


class Job:
    """One job: a batch job, one started (or split off) array task, or the record of an array's pending tasks."""

    __slots__ = (
        "admin_comment", "alloc", "array_job_id", "array_task_id", "array_tasks", "array_throttle", "attempt",
        "batch_node", "cancelled_by_uid", "dependency", "derived_code", "derived_signal", "eligible_at_us", "end_at_us",
        "end_state", "exit_code", "exit_signal", "failed_node", "group_id", "group_name", "hold", "job_id", "partition",
        "priority", "reason", "reason_detail", "request", "request_id", "spec_hash", "start_at_us", "state", "steps",
        "submit_at_us", "submit_key", "time_limit_s", "tres_alloc", "tres_req", "user_id", "user_name",
        "suspended_by", "suspended_us", "suspended_at_us", "preempt_at_us", "preempt_end_at_us", "preemptor_id",
        "assoc_id", "borrowed",
    )  # fmt: skip

    job_id: int
    attempt: int  # 0 = first run; SLURM_RESTART_COUNT
    array_job_id: int  # 0 = not of an array
    array_task_id: int | None
    array_tasks: TaskSet | None  # pending tasks that this record stands for
    array_throttle: int  # %limit, 0 = none
    request_id: int
    request: JobRequest
    spec_hash: bytes
    submit_key: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    partition: str  # where it runs, or the first of the list it may run in
    state: JobState
    end_state: JobState | None  # while COMPLETING: what it will be
    reason: Reason
    reason_detail: str
    hold: Hold
    priority: int  # higher first; 0 = held
    dependency: str  # what is left of it
    submit_at_us: int
    eligible_at_us: int  # 0 = not yet
    start_at_us: int  # 0 = not started
    end_at_us: int  # 0 = not ended
    time_limit_s: int  # -1 = UNLIMITED
    alloc: tuple[NodeAlloc, ...]
    batch_node: str
    exit_code: int
    exit_signal: int
    derived_code: int
    derived_signal: int
    cancelled_by_uid: int  # -1 = nobody
    failed_node: str
    admin_comment: str
    tres_req: str
    tres_alloc: str
    suspended_by: Suspend  # why it does not run although it has its allocation; kept while it is ended
    suspended_us: int  # how long it has been suspended in this attempt, the present time apart
    suspended_at_us: int  # when it was last suspended or resumed; 0 = never
    preempt_at_us: int  # when it was chosen to go for another job; 0 = it was not
    preempt_end_at_us: int  # when its GraceTime ends
    preemptor_id: int  # the job for which it had to go or was suspended; 0 = none
    assoc_id: int  # the association that it is charged to; 0 = none is known yet
    borrowed: int  # 1 = it runs on what other accounts lend (borrow.py)
    steps: dict[int, Step]


#: The steps of a job that has not started; never changed.
NO_STEPS: dict[int, Step] = {}


class JobRow(NamedTuple):
    """The committed image of a job's attempt. Primary key (job_id, attempt)."""

    job_id: int
    attempt: int
    array_job_id: int
    array_task_id: int | None
    array_tasks: TaskSet | None
    array_throttle: int
    request_id: int
    request: JobRequest
    spec_hash: bytes
    submit_key: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    partition: str
    state: JobState
    end_state: JobState | None
    reason: Reason
    reason_detail: str
    hold: Hold
    priority: int
    dependency: str
    submit_at_us: int
    eligible_at_us: int
    start_at_us: int
    end_at_us: int
    time_limit_s: int
    alloc: tuple[NodeAlloc, ...]
    batch_node: str
    exit_code: int
    exit_signal: int
    derived_code: int
    derived_signal: int
    cancelled_by_uid: int
    failed_node: str
    admin_comment: str
    tres_req: str
    tres_alloc: str
    suspended_by: Suspend = Suspend.NO
    suspended_us: int = 0
    suspended_at_us: int = 0
    preempt_at_us: int = 0
    preempt_end_at_us: int = 0
    preemptor_id: int = 0
    assoc_id: int = 0  # the association that it is charged to; 0 = none is known yet
    borrowed: int = 0  # 1 = it runs on what other accounts lend


_job_values: Callable[[Job], tuple[Any, ...]] = attrgetter(*JobRow._fields)


def job_row(job: Job) -> JobRow:
    """Freeze a job."""
    return tuple.__new__(JobRow, _job_values(job))  # as JobRow._make, without its count: these are its own fields


def job_from(row: JobRow) -> Job:
    """The reverse of `job_row`; the steps are the caller's.

    Written out, since a start makes one for each pending job and a loop with setattr takes five times as long.
    """
    job = Job()
    (
        job.job_id, job.attempt, job.array_job_id, job.array_task_id, job.array_tasks, job.array_throttle,
        job.request_id, job.request, job.spec_hash, job.submit_key, job.user_id, job.group_id, job.user_name,
        job.group_name, job.partition, job.state, job.end_state, job.reason, job.reason_detail, job.hold,
        job.priority, job.dependency, job.submit_at_us, job.eligible_at_us, job.start_at_us, job.end_at_us,
        job.time_limit_s, job.alloc, job.batch_node, job.exit_code, job.exit_signal, job.derived_code,
        job.derived_signal, job.cancelled_by_uid, job.failed_node, job.admin_comment, job.tres_req, job.tres_alloc,
        job.suspended_by, job.suspended_us, job.suspended_at_us, job.preempt_at_us, job.preempt_end_at_us,
        job.preemptor_id, job.assoc_id, job.borrowed,
    ) = row  # fmt: skip
    return job


class Node:
    """One node: what the configuration says, what the node said, what is held on it."""

    __slots__ = (
        "arch", "boot_at_us", "boot_id", "comment", "config", "connected", "cpus", "cpus_alloc", "cpus_used",
        "cuda_version", "exited", "extra", "features", "flags", "gpu_closed", "gpu_constraint", "gpu_driver", "gpu_shares",
        "gpu_single", "gpu_slots", "gpu_suspect", "gpu_why", "gpus", "gpus_at_us", "gres_used", "index", "inside",
        "jobs", "last_busy_at_us", "leftovers", "link_id", "lost_at_us", "lost_link_id", "low", "mem_alloc_mb",
        "name", "nvml_version", "os", "pretended", "real_memory_mb", "reason", "reason_at_us", "reason_uid",
        "resume_after_us",
        "spool_id", "started_at_us", "stream_port", "stream_tls", "version", "weight",
    )  # fmt: skip

    name: str
    index: int  # row in the columns
    config: Any  # penstock.values.config.NodeConfig
    inside: Any  # devices.Layout
    flags: NodeFlag
    reason: str
    reason_uid: int
    reason_at_us: int
    comment: str
    extra: str
    resume_after_us: int  # when it is resumed by itself; 0 = not
    features: tuple[str, ...]
    boot_id: str
    spool_id: str
    link_id: int  # 0 = no stream
    connected: bool
    version: str
    os: str
    arch: str
    boot_at_us: int
    started_at_us: int
    last_busy_at_us: int
    pretended: bool
    stream_port: int  # where clients of steps connect; 0 = nowhere
    stream_tls: bool
    weight: int
    cpus: int
    real_memory_mb: int
    cpus_alloc: int
    mem_alloc_mb: int
    cpus_used: int  # bit mask of cpu numbers
    gres_used: dict[tuple[str, str], int]  # (name, type) -> bit mask of held indices
    gpu_shares: dict[int, tuple[str, int]]  # GPUs that are shared -> (name, shares in use)
    gpus: dict[str, Gpu]  # by UUID: those that the node has ever named
    gpu_slots: tuple[str, ...]  # UUIDs by place among the devices (gpus.py); "" = nobody, or nobody knows
    gpu_closed: int  # masks of places: no job gets these;
    gpu_single: int  # only a job with one GPU;
    gpu_suspect: int  # these last
    gpus_at_us: int  # the node's clock as of its last word on them
    gpu_driver: str
    cuda_version: str
    nvml_version: str
    gpu_constraint: str
    gpu_why: str
    low: tuple[str, ...]  # in what it was smaller than its configuration when it registered, in words
    jobs: dict[int, None]  # job ids that hold something here
    leftovers: dict[tuple[int, int, int], None]  # steps that still run here and belong to no job any more
    exited: dict[tuple[int, int, int], None]  # steps whose end it knew when it registered: the reports follow
    lost_link_id: int  # the stream that was lost last
    lost_at_us: int  # when; 0 = it has not registered with this controller


class NodeRow(NamedTuple):
    """What must survive a restart of the controller about a node. Primary key name."""

    name: str
    flags: NodeFlag
    reason: str
    reason_uid: int
    reason_at_us: int
    comment: str
    boot_id: str
    spool_id: str
    version: str
    last_busy_at_us: int
    extra: str = ""
    resume_after_us: int = 0


_node_values: Callable[[Node], tuple[Any, ...]] = attrgetter(*NodeRow._fields)


def node_row(node: Node) -> NodeRow:
    """Freeze a node."""
    return NodeRow._make(_node_values(node))


class Partition:
    """One partition. `state` may differ from the configuration until the next reload."""

    __slots__ = ("config", "name", "node_bits", "state")

    name: str
    config: Any  # penstock.values.config.PartitionConfig
    state: str
    node_bits: int  # bit map of node indices


class ReservedPart(NamedTuple):
    """What a reservation keeps on one node. `cpus` -1 = all of the node; `gres`: (name, type, count)."""

    node: str
    cpus: int
    mem_mb: int
    gres: tuple[tuple[str, str, int], ...]


class ReservationAsk(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which resources a reservation was asked to keep; nodes are chosen from it again when one goes down.

    Kept as JSON in the database, so a field is only ever added, with a default.
    """

    nodes: tuple[str, ...] = ()
    all_nodes: bool = False
    node_count: int = 0
    cpus: int = 0  # in all, over `node_count` nodes if that is said
    cpus_by_node: tuple[int, ...] = ()  # beside `nodes`, or one number for all of them
    gres: tuple[tuple[str, str, int], ...] = ()  # in all
    gres_per_node: tuple[tuple[str, str, int], ...] = ()
    partition: str = ""
    features: str = ""


class Reservation(NamedTuple):
    """One reservation: record and committed row in one. It is never changed, only replaced. Primary key name."""

    name: str
    resv_id: int
    start_at_us: int  # of the present or next occurrence
    end_at_us: int
    anchor_at_us: int  # the first start: what occurrences are counted from
    previous_end_at_us: int  # end of the occurrence before, 0 = there was none
    float_us: int  # TIME_FLOAT: how far ahead of now the start always is; -1 = it stands still
    flags: ResvFlag
    purge_comp_s: int
    idle_since_us: int  # when its last job ended
    ask: ReservationAsk
    parts: tuple[ReservedPart, ...]
    users: tuple[str, ...]
    uids: tuple[int, ...]  # of `users`, or of the members of `groups`
    users_denied: bool
    groups: tuple[str, ...]
    accounts: tuple[str, ...]
    accounts_denied: bool
    licenses: tuple[tuple[str, int], ...]
    comment: str
    created_at_us: int
    qos: tuple[str, ...] = ()
    qos_denied: bool = False


class ArrayRecord:
    """What is known of one array job's tasks: counters, and the ids of the records that are still in memory."""

    __slots__ = (
        "array_job_id",
        "began",
        "exit_code",
        "exit_signal",
        "facts",
        "failed",
        "holders",
        "members",
        "ok",
        "pending",
        "running",
        "total",
        "waiting",
    )

    array_job_id: int
    began: bool  # a task has started; only of arrays that are told of by mail
    total: int
    pending: int  # tasks without an end that hold nothing
    running: int  # tasks in CONFIGURING, RUNNING or COMPLETING
    ok: int  # ended with exit 0
    failed: int  # ended otherwise
    exit_code: int  # the highest of the tasks that have ended
    exit_signal: int
    holders: dict[int, None]  # job ids of the records that stand for pending tasks
    facts: tuple[int, int, int, int]  # number of tasks, lowest and highest id, step: as submitted
    members: dict[int, int]  # task id -> job id, of the records in memory that stand for one task
    waiting: dict[int, None]  # job ids of those members that are pending


class PartitionRow(NamedTuple):
    """A partition's state, when it was changed by hand. Primary key name."""

    name: str
    state: str


class Qos(NamedTuple):
    """A quality of service: what jobs submitted with --qos=NAME may do. Primary key name."""

    name: str
    description: str = ""
    priority: int = 0
    preempt: tuple[str, ...] = ()  # QOS whose jobs its jobs may preempt
    preempt_mode: tuple[str, ...] = ()  # of its jobs when they are preempted; () = the cluster's
    grace_time_s: int = 0
    preempt_exempt_time_s: int = -1  # -1 = the cluster's
    flags: tuple[str, ...] = ()
    usage_factor_ppm: int = 1_000_000  # UsageFactor in millionths
    limits: Limits = NO_LIMITS
    usage_threshold_ppm: int = -1  # UsageThreshold in millionths; -1 = none
    limit_factor_ppm: int = -1  # LimitFactor likewise
    qos_id: int = 0  # Slurm's number of it; `normal` has 1
    deleted: bool = False


class Turns:
    """Time slices (gang.py)."""

    __slots__ = ("due_us", "last", "slot")

    def __init__(self) -> None:
        self.slot = 1  # number of the present slice
        self.due_us = 0  # when it ends; 0 = nobody waits for a turn
        self.last: dict[int, int] = {}  # job id -> the last slice in which it ran


class HistoryRow(NamedTuple):
    """One thing that happened to a job. Append-only."""

    at_us: int
    job_id: int
    attempt: int
    event: str
    detail: str


class NodeEvent(NamedTuple):
    """A time in which a node was not up, or what the cluster had (node_events.py). Primary key (node, start_at_us)."""

    node: str  # "" = the cluster
    start_at_us: int
    end_at_us: int  # 0 = it goes on
    state: str
    reason: str
    reason_uid: int
    tres: str


class JobSpan(NamedTuple):
    """What a job's row does not say of its past (spans.py). All but `tres` is the primary key."""

    job_id: int
    attempt: int
    start_at_us: int
    end_at_us: int
    tres: str  # "" = it was suspended


class ReservationSpan(NamedTuple):
    """For which time what was reserved (reserve_spans.py). Primary key (resv_id, start_at_us)."""

    resv_id: int
    start_at_us: int
    end_at_us: int
    name: str
    flags: int
    nodes: str
    tres: str
    who: str
    node_tres: str = ""  # of a maintenance: lines of "hostlist tres"


class SpecRow(NamedTuple):
    """The bulky part of a submission, stored once by content hash (SHA-256, 32 bytes)."""

    spec_hash: bytes
    script: bytes
    argv: tuple[bytes, ...]
    environment: tuple[bytes, ...]
