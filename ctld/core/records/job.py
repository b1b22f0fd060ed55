"""A job: its mutable record, its committed row, its history.

`Job` holds what changes; the user's request is in request.py. `JobRow` is the frozen image that goes to the database
and to the read snapshot, with all mutable columns of its record; its field names are the column names. Which fields
are stored is declared in tools/records.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.step import Step
from penstock.values.states import Hold, JobState, Reason, Suspend
from penstock.values.taskset import TaskSet


class JobFields:
    """The stored fields of a job."""

    # made by tools/records: attributes of job
    __slots__ = (
        "admin_comment", "alloc", "array_job_id", "array_task_id", "array_tasks", "array_throttle", "assoc_id", "attempt",
        "batch_node", "borrowed", "cancelled_by_uid", "completing_at_us", "dependency", "derived_code", "derived_signal",
        "eligible_at_us", "end_at_us", "end_state", "exit_code", "exit_signal", "failed_attempts", "failed_node",
        "group_id", "group_name", "hold", "job_id", "licenses_alloc", "partition", "preempt_at_us", "preempt_end_at_us",
        "preemptor_id", "priority", "reason", "reason_detail", "request", "request_id", "resized_at_us", "spec_hash",
        "start_at_us", "state", "stopped", "submit_at_us", "submit_key", "suspended_at_us", "suspended_by", "suspended_us",
        "time_limit_s", "trace_one_in", "tres_alloc", "tres_req", "user_id", "user_name",
    )  # fmt: skip

    job_id: int
    attempt: int  # 0 = first run; SLURM_RESTART_COUNT
    array_job_id: int  # 0 = not of an array
    request_id: int
    request: JobRequest
    spec_hash: bytes
    submit_key: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    submit_at_us: int
    tres_req: str
    array_task_id: int | None
    array_tasks: TaskSet | None  # pending tasks that this record stands for
    array_throttle: int  # %limit, 0 = none
    partition: str  # where it runs, or the first of the list it may run in
    state: JobState
    end_state: JobState | None  # while COMPLETING: its later state
    reason: Reason
    reason_detail: str
    hold: Hold
    priority: int  # higher first; 0 = held
    dependency: str  # the unmet terms
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
    cancelled_by_uid: int  # -1 = no user
    failed_node: str
    admin_comment: str
    tres_alloc: str
    suspended_by: Suspend  # why it does not run although it has its allocation; kept while it is ended
    suspended_us: int  # how long it has been suspended in this attempt, the present time apart
    suspended_at_us: int  # when it was last suspended or resumed; 0 = never
    preempt_at_us: int  # when it was chosen for preemption; 0 = it was not
    preempt_end_at_us: int  # when its GraceTime ends
    preemptor_id: int  # the job for which it was preempted or suspended; 0 = none
    assoc_id: int  # the association that it is charged to; 0 = none is known yet
    borrowed: int  # 1 = it runs on what other accounts lend (limits/borrow.py)
    completing_at_us: int  # when it became COMPLETING in this attempt; 0 = it has not
    resized_at_us: int  # when it last gave nodes back and continued; 0 = never in this attempt
    stopped: int  # 1 = it was sent SIGSTOP, and no SIGCONT since; shown as STOPPED while it runs
    failed_attempts: int  # attempts that their node or its launch ended: MaxBatchRequeue
    licenses_alloc: str  # layers of hierarchical resources, and licenses beside them, that it holds
    trace_one_in: int  # one of its tasks in so many has a trace, of a job without a caller's; 0 = none has
    # end of what is made


class Job(JobFields):
    """One job: a batch job, one started (or split off) array task, or the record of an array's pending tasks."""

    __slots__ = ("steps",)

    steps: dict[int, Step]


#: The steps of a job that has not started; never changed.
NO_STEPS: dict[int, Step] = {}


class JobRow(NamedTuple):
    """The committed image of a job's attempt. Primary key (job_id, attempt)."""

    # made by tools/records: row of job
    job_id: int
    attempt: int
    array_job_id: int
    request_id: int
    request: JobRequest
    spec_hash: bytes
    submit_key: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    submit_at_us: int
    tres_req: str
    array_task_id: int | None
    array_tasks: TaskSet | None
    array_throttle: int
    partition: str
    state: JobState
    end_state: JobState | None
    reason: Reason
    reason_detail: str
    hold: Hold
    priority: int
    dependency: str = ""
    eligible_at_us: int = 0
    start_at_us: int = 0
    end_at_us: int = 0
    time_limit_s: int = -1
    alloc: tuple[NodeAlloc, ...] = ()
    batch_node: str = ""
    exit_code: int = 0
    exit_signal: int = 0
    derived_code: int = 0
    derived_signal: int = 0
    cancelled_by_uid: int = -1
    failed_node: str = ""
    admin_comment: str = ""
    tres_alloc: str = ""
    suspended_by: Suspend = Suspend.NO
    suspended_us: int = 0
    suspended_at_us: int = 0
    preempt_at_us: int = 0
    preempt_end_at_us: int = 0
    preemptor_id: int = 0
    assoc_id: int = 0
    borrowed: int = 0
    completing_at_us: int = 0
    resized_at_us: int = 0
    stopped: int = 0
    failed_attempts: int = 0
    licenses_alloc: str = ""
    trace_one_in: int = 1
    # end of what is made


_job_values: Callable[[Job], tuple[object, ...]] = attrgetter(*JobRow._fields)


def job_row(job: Job) -> JobRow:
    """Freezes a job."""
    return tuple.__new__(JobRow, _job_values(job))  # as JobRow._make, without its count: these are its own fields


def job_from(row: JobRow) -> Job:
    """The reverse of `job_row`; the steps are the caller's.

    Written out, since a start makes one for each pending job and a loop with setattr takes five times as long.
    """
    job = Job()
    # made by tools/records: job from its row
    (
        job.job_id, job.attempt, job.array_job_id, job.request_id, job.request, job.spec_hash, job.submit_key, job.user_id,
        job.group_id, job.user_name, job.group_name, job.submit_at_us, job.tres_req, job.array_task_id, job.array_tasks,
        job.array_throttle, job.partition, job.state, job.end_state, job.reason, job.reason_detail, job.hold, job.priority,
        job.dependency, job.eligible_at_us, job.start_at_us, job.end_at_us, job.time_limit_s, job.alloc, job.batch_node,
        job.exit_code, job.exit_signal, job.derived_code, job.derived_signal, job.cancelled_by_uid, job.failed_node,
        job.admin_comment, job.tres_alloc, job.suspended_by, job.suspended_us, job.suspended_at_us, job.preempt_at_us,
        job.preempt_end_at_us, job.preemptor_id, job.assoc_id, job.borrowed, job.completing_at_us, job.resized_at_us,
        job.stopped, job.failed_attempts, job.licenses_alloc, job.trace_one_in,
    ) = row  # fmt: skip
    # end of what is made
    return job


def blank_job() -> Job:
    """A job with the defaults; fields without a default are the caller's to set."""
    job = Job()
    job.steps = NO_STEPS
    # made by tools/records: a new job
    job.attempt = 0
    job.array_job_id = 0
    job.array_task_id = None
    job.array_tasks = None
    job.array_throttle = 0
    job.state = JobState.PENDING
    job.end_state = None
    job.reason = Reason.NONE
    job.reason_detail = ""
    job.hold = Hold.NO
    job.dependency = ""
    job.eligible_at_us = 0
    job.start_at_us = 0
    job.end_at_us = 0
    job.time_limit_s = -1
    job.alloc = ()
    job.batch_node = ""
    job.exit_code = 0
    job.exit_signal = 0
    job.derived_code = 0
    job.derived_signal = 0
    job.cancelled_by_uid = -1
    job.failed_node = ""
    job.admin_comment = ""
    job.tres_alloc = ""
    job.suspended_by = Suspend.NO
    job.suspended_us = 0
    job.suspended_at_us = 0
    job.preempt_at_us = 0
    job.preempt_end_at_us = 0
    job.preemptor_id = 0
    job.assoc_id = 0
    job.borrowed = 0
    job.completing_at_us = 0
    job.resized_at_us = 0
    job.stopped = 0
    job.failed_attempts = 0
    job.licenses_alloc = ""
    job.trace_one_in = 1
    # end of what is made
    return job


class HistoryRow(NamedTuple):
    """One event of a job. Append-only."""

    # made by tools/records: row of job_history
    at_us: int
    job_id: int
    attempt: int
    event: str
    detail: str
    # end of what is made


class JobSpan(NamedTuple):
    """A past interval of a job (jobs/spans.py). All but `tres` is the primary key."""

    # made by tools/records: row of job_span
    job_id: int
    attempt: int
    start_at_us: int
    end_at_us: int
    tres: str  # "" = it was suspended
    node_list: str = ""  # of a resize: the nodes that it had until then
    # end of what is made


class SpecRow(NamedTuple):
    """The bulky part of a submission, stored once by content hash (SHA-256, 32 bytes)."""

    # made by tools/records: row of job_spec
    spec_hash: bytes
    script: bytes
    argv: tuple[bytes, ...]
    environment: tuple[bytes, ...]
    size: int = 0  # bytes in all; 0 = not counted yet
    # end of what is made
