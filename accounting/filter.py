"""The query of sacct and its result: plain data.

Field names follow penstock.v1.ListRecordsRequest, JobRecord and StepRecord. Users come as uids: looking up names
is the caller's.
"""

import msgspec

from penstock.values.states import JobState


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of records: all given fields must match; of several values of one field, any. Empty = no condition.

    Time: a job is listed when it existed, in one of the states, at some time from `start_at_us` until `end_at_us`;
    0 = no bound. Defaults such as "since midnight" or "with ids, ever" are the caller's. Jobs that are not eligible yet
    (held, a begin time, a dependency) are found by id, or without a window, as in Slurm. A default wckey (`*key`) is
    found by its name.
    """

    ids: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    wckeys: tuple[str, ...] = ()
    group_ids: tuple[int, ...] = ()
    assoc_ids: tuple[int, ...] = ()
    start_at_us: int = 0
    end_at_us: int = 0
    duplicates: bool = False
    no_steps: bool = False
    truncate: bool = False
    with_script: bool = False
    with_environment: bool = False
    with_task_ends: bool = False
    # PrivateData: the caller sees only jobs of this uid, and of these accounts; -1 = all
    seen_uid: int = -1
    seen_accounts: tuple[str, ...] = ()


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step with its usage. The allocation of a batch script is that of its node.

    `usage` is JSON: the sampled usage of its tasks, by kind of figure (proto UsageMetric.Kind): [total, max, its node,
    its task, min, its node, its task]. `request` is JSON of ctld.core.records.step.StepRequest, empty for a batch
    script. `task_ends` is JSON of ctld.core.steps.task_ends, if it was asked for.
    """

    step_id: int
    name: str
    state: JobState
    node: str
    tasks: int
    start_at_us: int
    end_at_us: int
    exit_code: int
    exit_signal: int
    user_cpu_us: int
    system_cpu_us: int
    max_rss_kb: int
    max_vmsize_kb: int
    disk_read_bytes: int
    disk_write_bytes: int
    cpus_alloc: int = 0
    tres_alloc: str = ""
    node_list: str = ""  # "" = `node` alone
    nodes: int = 1
    submit_at_us: int = 0
    cancelled_by_uid: int = -1
    usage: str = ""
    request: bytes = b""
    task_ends: str = ""


class FilterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job, or the pending tasks of an array.

    `request` is JSON as the controller wrote it (ctld.core.records.job.JobRequest); the caller decodes it.
    """

    # made by tools/records: record of job
    job_id: int
    attempt: int
    array_job_id: int
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    submit_at_us: int
    name: str
    account: str
    qos: str
    nodes_req: int
    cpus_req: int
    tres_req: str
    array_task_id: int | None
    array_throttle: int
    partition: str
    reason: str
    priority: int
    eligible_at_us: int
    start_at_us: int
    end_at_us: int
    time_limit_s: int
    batch_node: str
    exit_code: int
    exit_signal: int
    derived_code: int
    derived_signal: int
    cancelled_by_uid: int
    failed_node: str
    admin_comment: str
    tres_alloc: str
    nodes_alloc: int
    cpus_alloc: int
    node_list: str
    suspended_us: int = 0
    suspended_at_us: int = 0
    het_job_id: int = 0
    het_offset: int = 0
    wckey: str = ""
    assoc_id: int = 0
    resized_at_us: int = 0
    # end of what is made
    state: JobState
    array_tasks: str
    request: bytes
    steps: tuple[StepRecord, ...] = ()
    script: bytes = b""
    environment: tuple[bytes, ...] = ()
