from penstock.v1 import common_pb2 as _common_pb2
from penstock.v1 import explain_pb2 as _explain_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TokenScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_SCOPE_UNSPECIFIED: _ClassVar[TokenScope]
    TOKEN_SCOPE_READ: _ClassVar[TokenScope]
    TOKEN_SCOPE_SUBMIT: _ClassVar[TokenScope]
    TOKEN_SCOPE_ADMIN: _ClassVar[TokenScope]
TOKEN_SCOPE_UNSPECIFIED: TokenScope
TOKEN_SCOPE_READ: TokenScope
TOKEN_SCOPE_SUBMIT: TokenScope
TOKEN_SCOPE_ADMIN: TokenScope

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingReply(_message.Message):
    __slots__ = ("cluster_name", "controller_host", "version", "epoch", "boot_at_us", "now_us", "pid", "jobs_pending", "jobs_running", "user_id")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_HOST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOOT_AT_US_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    JOBS_PENDING_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    controller_host: str
    version: str
    epoch: int
    boot_at_us: int
    now_us: int
    pid: int
    jobs_pending: int
    jobs_running: int
    user_id: int
    def __init__(self, cluster_name: _Optional[str] = ..., controller_host: _Optional[str] = ..., version: _Optional[str] = ..., epoch: _Optional[int] = ..., boot_at_us: _Optional[int] = ..., now_us: _Optional[int] = ..., pid: _Optional[int] = ..., jobs_pending: _Optional[int] = ..., jobs_running: _Optional[int] = ..., user_id: _Optional[int] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("request_key", "job", "spec", "test_only", "components", "compare_plans", "received_at_us")
    REQUEST_KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TEST_ONLY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    COMPARE_PLANS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_US_FIELD_NUMBER: _ClassVar[int]
    request_key: str
    job: _common_pb2.JobRequest
    spec: _common_pb2.JobSpec
    test_only: bool
    components: _containers.RepeatedCompositeFieldContainer[_common_pb2.JobRequest]
    compare_plans: bool
    received_at_us: int
    def __init__(self, request_key: _Optional[str] = ..., job: _Optional[_Union[_common_pb2.JobRequest, _Mapping]] = ..., spec: _Optional[_Union[_common_pb2.JobSpec, _Mapping]] = ..., test_only: bool = ..., components: _Optional[_Iterable[_Union[_common_pb2.JobRequest, _Mapping]]] = ..., compare_plans: bool = ..., received_at_us: _Optional[int] = ...) -> None: ...

class SubmitJobReply(_message.Message):
    __slots__ = ("job_id", "warnings", "start_at_us", "node_list", "cpus", "partition", "user_messages", "plan_change")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PLAN_CHANGE_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    start_at_us: int
    node_list: str
    cpus: int
    partition: str
    user_messages: _containers.RepeatedScalarFieldContainer[str]
    plan_change: _explain_pb2.PlanChangeReply
    def __init__(self, job_id: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ..., start_at_us: _Optional[int] = ..., node_list: _Optional[str] = ..., cpus: _Optional[int] = ..., partition: _Optional[str] = ..., user_messages: _Optional[_Iterable[str]] = ..., plan_change: _Optional[_Union[_explain_pb2.PlanChangeReply, _Mapping]] = ...) -> None: ...

class AwaitJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    def __init__(self, job_id: _Optional[int] = ...) -> None: ...

class AwaitJobReply(_message.Message):
    __slots__ = ("exit", "state", "cause")
    EXIT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    exit: _common_pb2.ExitStatus
    state: str
    cause: str
    def __init__(self, exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., state: _Optional[str] = ..., cause: _Optional[str] = ...) -> None: ...

class JobFilter(_message.Message):
    __slots__ = ("ids", "users", "partitions", "names", "states", "nodes", "accounts", "qos", "reservations", "wckeys")
    IDS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    WCKEYS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    names: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    qos: _containers.RepeatedScalarFieldContainer[str]
    reservations: _containers.RepeatedScalarFieldContainer[str]
    wckeys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[str]] = ..., names: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., qos: _Optional[_Iterable[str]] = ..., reservations: _Optional[_Iterable[str]] = ..., wckeys: _Optional[_Iterable[str]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("filter", "all_states", "detail", "planned", "columns", "hide_hidden", "window", "counts", "known")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ALL_STATES_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    HIDE_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    all_states: bool
    detail: bool
    planned: bool
    columns: _containers.RepeatedScalarFieldContainer[str]
    hide_hidden: bool
    window: JobWindow
    counts: bool
    known: bytes
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., all_states: bool = ..., detail: bool = ..., planned: bool = ..., columns: _Optional[_Iterable[str]] = ..., hide_hidden: bool = ..., window: _Optional[_Union[JobWindow, _Mapping]] = ..., counts: bool = ..., known: _Optional[bytes] = ...) -> None: ...

class JobWindow(_message.Message):
    __slots__ = ("order", "words", "first", "count")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    order: str
    words: _containers.RepeatedScalarFieldContainer[str]
    first: int
    count: int
    def __init__(self, order: _Optional[str] = ..., words: _Optional[_Iterable[str]] = ..., first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs", "columns", "rows", "total", "counts", "moment", "unchanged")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobInfo]
    columns: _containers.RepeatedCompositeFieldContainer[JobColumn]
    rows: int
    total: int
    counts: _containers.RepeatedCompositeFieldContainer[JobCount]
    moment: bytes
    unchanged: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobInfo, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[JobColumn, _Mapping]]] = ..., rows: _Optional[int] = ..., total: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[JobCount, _Mapping]]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class JobCount(_message.Message):
    __slots__ = ("state", "partition", "reason", "jobs", "gpus")
    STATE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    state: str
    partition: str
    reason: str
    jobs: int
    gpus: int
    def __init__(self, state: _Optional[str] = ..., partition: _Optional[str] = ..., reason: _Optional[str] = ..., jobs: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class PageItems(_message.Message):
    __slots__ = ("items", "moment", "unchanged")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedScalarFieldContainer[bytes]
    moment: bytes
    unchanged: bool
    def __init__(self, items: _Optional[_Iterable[bytes]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class JobDifferences(_message.Message):
    __slots__ = ("job_id", "array_job_id", "array_task_id", "state", "reason", "reason_detail", "user_id", "group_id", "user_name", "group_name", "partition", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s", "node_list", "batch_node", "allocation", "cpus", "nodes", "tasks", "request", "tres_req", "last_sched_at_us", "dependency", "mem_mb", "std_out", "std_err", "std_in", "planned_start_at_us", "planned_node_list")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_DETAIL_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_AT_US_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    BATCH_NODE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TRES_REQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SCHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    MEM_MB_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    PLANNED_START_AT_US_FIELD_NUMBER: _ClassVar[int]
    PLANNED_NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    array_job_id: int
    array_task_id: int
    state: str
    reason: str
    reason_detail: bytes
    user_id: int
    group_id: int
    user_name: bytes
    group_name: bytes
    partition: bytes
    priority: int
    submit_at_us: int
    eligible_at_us: int
    start_at_us: int
    end_at_us: int
    time_limit_s: int
    node_list: bytes
    batch_node: bytes
    allocation: _containers.RepeatedCompositeFieldContainer[AllocationDifferences]
    cpus: int
    nodes: int
    tasks: int
    request: RequestDifferences
    tres_req: bytes
    last_sched_at_us: int
    dependency: bytes
    mem_mb: int
    std_out: bytes
    std_err: bytes
    std_in: bytes
    planned_start_at_us: int
    planned_node_list: bytes
    def __init__(self, job_id: _Optional[int] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., reason_detail: _Optional[bytes] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[bytes] = ..., group_name: _Optional[bytes] = ..., partition: _Optional[bytes] = ..., priority: _Optional[int] = ..., submit_at_us: _Optional[int] = ..., eligible_at_us: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., node_list: _Optional[bytes] = ..., batch_node: _Optional[bytes] = ..., allocation: _Optional[_Iterable[_Union[AllocationDifferences, _Mapping]]] = ..., cpus: _Optional[int] = ..., nodes: _Optional[int] = ..., tasks: _Optional[int] = ..., request: _Optional[_Union[RequestDifferences, _Mapping]] = ..., tres_req: _Optional[bytes] = ..., last_sched_at_us: _Optional[int] = ..., dependency: _Optional[bytes] = ..., mem_mb: _Optional[int] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., planned_start_at_us: _Optional[int] = ..., planned_node_list: _Optional[bytes] = ...) -> None: ...

class AllocationDifferences(_message.Message):
    __slots__ = ("node", "cpus", "mem_mb", "tasks", "gres", "cpu_ids")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEM_MB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    CPU_IDS_FIELD_NUMBER: _ClassVar[int]
    node: bytes
    cpus: int
    mem_mb: int
    tasks: int
    gres: _containers.RepeatedCompositeFieldContainer[GresDifferences]
    cpu_ids: bytes
    def __init__(self, node: _Optional[bytes] = ..., cpus: _Optional[int] = ..., mem_mb: _Optional[int] = ..., tasks: _Optional[int] = ..., gres: _Optional[_Iterable[_Union[GresDifferences, _Mapping]]] = ..., cpu_ids: _Optional[bytes] = ...) -> None: ...

class GresDifferences(_message.Message):
    __slots__ = ("uuid",)
    UUID_FIELD_NUMBER: _ClassVar[int]
    uuid: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, uuid: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RequestDifferences(_message.Message):
    __slots__ = ("name", "account", "qos", "comment", "work_dir", "std_out", "std_err", "std_in", "time_limit_s", "begin_at_us", "nodes_min", "ntasks", "mem_per_node_mb", "mem_per_cpu_mb", "dependency", "submit_line", "submit_host", "submit_dir", "command")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_LINE_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_HOST_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    account: bytes
    qos: bytes
    comment: bytes
    work_dir: bytes
    std_out: bytes
    std_err: bytes
    std_in: bytes
    time_limit_s: int
    begin_at_us: int
    nodes_min: int
    ntasks: int
    mem_per_node_mb: int
    mem_per_cpu_mb: int
    dependency: bytes
    submit_line: bytes
    submit_host: bytes
    submit_dir: bytes
    command: bytes
    def __init__(self, name: _Optional[bytes] = ..., account: _Optional[bytes] = ..., qos: _Optional[bytes] = ..., comment: _Optional[bytes] = ..., work_dir: _Optional[bytes] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., time_limit_s: _Optional[int] = ..., begin_at_us: _Optional[int] = ..., nodes_min: _Optional[int] = ..., ntasks: _Optional[int] = ..., mem_per_node_mb: _Optional[int] = ..., mem_per_cpu_mb: _Optional[int] = ..., dependency: _Optional[bytes] = ..., submit_line: _Optional[bytes] = ..., submit_host: _Optional[bytes] = ..., submit_dir: _Optional[bytes] = ..., command: _Optional[bytes] = ...) -> None: ...

class JobColumn(_message.Message):
    __slots__ = ("numbers", "words", "index")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    words: _containers.RepeatedScalarFieldContainer[bytes]
    index: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., words: _Optional[_Iterable[bytes]] = ..., index: _Optional[_Iterable[int]] = ...) -> None: ...

class JobInfo(_message.Message):
    __slots__ = ("job_id", "array_job_id", "array_task_id", "array_tasks", "array_throttle", "state", "reason", "reason_detail", "user_id", "group_id", "user_name", "group_name", "partition", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s", "node_list", "batch_node", "allocation", "cpus", "nodes", "tasks", "exit", "attempt", "request", "tres_req", "tres_alloc", "last_sched_at_us", "admin_comment", "dependency", "hold", "mem_mb", "mem_is_per_cpu", "std_out", "std_err", "std_in", "suspended_us", "suspended_at_us", "preempt_at_us", "planned_start_at_us", "planned_node_list", "het_job_id", "het_offset", "het_job_ids", "system_comment", "cron", "borrowed", "resized_at_us", "derived_exit", "end_state", "licenses_alloc")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASKS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_THROTTLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_DETAIL_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_AT_US_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    BATCH_NODE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TRES_REQ_FIELD_NUMBER: _ClassVar[int]
    TRES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    LAST_SCHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMENT_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    MEM_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_IS_PER_CPU_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_US_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_AT_US_FIELD_NUMBER: _ClassVar[int]
    PLANNED_START_AT_US_FIELD_NUMBER: _ClassVar[int]
    PLANNED_NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_COMMENT_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    BORROWED_FIELD_NUMBER: _ClassVar[int]
    RESIZED_AT_US_FIELD_NUMBER: _ClassVar[int]
    DERIVED_EXIT_FIELD_NUMBER: _ClassVar[int]
    END_STATE_FIELD_NUMBER: _ClassVar[int]
    LICENSES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    array_job_id: int
    array_task_id: int
    array_tasks: str
    array_throttle: int
    state: str
    reason: str
    reason_detail: str
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    partition: str
    priority: int
    submit_at_us: int
    eligible_at_us: int
    start_at_us: int
    end_at_us: int
    time_limit_s: int
    node_list: str
    batch_node: str
    allocation: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    cpus: int
    nodes: int
    tasks: int
    exit: _common_pb2.ExitStatus
    attempt: int
    request: _common_pb2.JobRequest
    tres_req: str
    tres_alloc: str
    last_sched_at_us: int
    admin_comment: str
    dependency: str
    hold: int
    mem_mb: int
    mem_is_per_cpu: bool
    std_out: bytes
    std_err: bytes
    std_in: bytes
    suspended_us: int
    suspended_at_us: int
    preempt_at_us: int
    planned_start_at_us: int
    planned_node_list: str
    het_job_id: int
    het_offset: int
    het_job_ids: str
    system_comment: str
    cron: str
    borrowed: bool
    resized_at_us: int
    derived_exit: _common_pb2.ExitStatus
    end_state: str
    licenses_alloc: str
    def __init__(self, job_id: _Optional[int] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., array_tasks: _Optional[str] = ..., array_throttle: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., reason_detail: _Optional[str] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[str] = ..., group_name: _Optional[str] = ..., partition: _Optional[str] = ..., priority: _Optional[int] = ..., submit_at_us: _Optional[int] = ..., eligible_at_us: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., node_list: _Optional[str] = ..., batch_node: _Optional[str] = ..., allocation: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., cpus: _Optional[int] = ..., nodes: _Optional[int] = ..., tasks: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., attempt: _Optional[int] = ..., request: _Optional[_Union[_common_pb2.JobRequest, _Mapping]] = ..., tres_req: _Optional[str] = ..., tres_alloc: _Optional[str] = ..., last_sched_at_us: _Optional[int] = ..., admin_comment: _Optional[str] = ..., dependency: _Optional[str] = ..., hold: _Optional[int] = ..., mem_mb: _Optional[int] = ..., mem_is_per_cpu: bool = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., suspended_us: _Optional[int] = ..., suspended_at_us: _Optional[int] = ..., preempt_at_us: _Optional[int] = ..., planned_start_at_us: _Optional[int] = ..., planned_node_list: _Optional[str] = ..., het_job_id: _Optional[int] = ..., het_offset: _Optional[int] = ..., het_job_ids: _Optional[str] = ..., system_comment: _Optional[str] = ..., cron: _Optional[str] = ..., borrowed: bool = ..., resized_at_us: _Optional[int] = ..., derived_exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., end_state: _Optional[str] = ..., licenses_alloc: _Optional[str] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("names", "gpus", "gpus_only", "known")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_ONLY_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    gpus: bool
    gpus_only: bool
    known: bytes
    def __init__(self, names: _Optional[_Iterable[str]] = ..., gpus: bool = ..., gpus_only: bool = ..., known: _Optional[bytes] = ...) -> None: ...

class ListNodesReply(_message.Message):
    __slots__ = ("nodes", "moment", "unchanged")
    NODES_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeInfo]
    moment: bytes
    unchanged: bool
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeInfo, _Mapping]]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("name", "hostname", "addr", "base_state", "flags", "reason", "reason_user", "reason_at_us", "cpus", "cpus_alloc", "boards", "sockets", "cores_per_socket", "threads_per_core", "real_memory_mb", "mem_alloc_mb", "free_memory_mb", "tmp_disk_mb", "gres", "gres_used", "features", "partitions", "weight", "version", "os", "arch", "cpu_load_centi", "boot_at_us", "noded_start_at_us", "last_busy_at_us", "pretended", "comment", "boot_id", "extra", "resume_after_us", "available_features", "port", "dynamic", "instance_id", "instance_type", "mcs_label", "effective_cpus", "core_spec_count", "cpu_spec_list", "mem_spec_limit_mb", "is_warning", "reservation", "gpus", "gpu_driver", "cuda_version", "nvml_version", "gpu_constraint", "gpu_why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    BASE_STATE_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_USER_FIELD_NUMBER: _ClassVar[int]
    REASON_AT_US_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    CPUS_ALLOC_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    CORES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    REAL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_ALLOC_MB_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    TMP_DISK_MB_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    GRES_USED_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    CPU_LOAD_CENTI_FIELD_NUMBER: _ClassVar[int]
    BOOT_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODED_START_AT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_BUSY_AT_US_FIELD_NUMBER: _ClassVar[int]
    PRETENDED_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    RESUME_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FEATURES_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    MCS_LABEL_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_CPUS_FIELD_NUMBER: _ClassVar[int]
    CORE_SPEC_COUNT_FIELD_NUMBER: _ClassVar[int]
    CPU_SPEC_LIST_FIELD_NUMBER: _ClassVar[int]
    MEM_SPEC_LIMIT_MB_FIELD_NUMBER: _ClassVar[int]
    IS_WARNING_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_DRIVER_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    NVML_VERSION_FIELD_NUMBER: _ClassVar[int]
    GPU_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    GPU_WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    hostname: str
    addr: str
    base_state: str
    flags: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    reason_user: str
    reason_at_us: int
    cpus: int
    cpus_alloc: int
    boards: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mb: int
    mem_alloc_mb: int
    free_memory_mb: int
    tmp_disk_mb: int
    gres: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresCount]
    gres_used: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresIndices]
    features: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    weight: int
    version: str
    os: str
    arch: str
    cpu_load_centi: int
    boot_at_us: int
    noded_start_at_us: int
    last_busy_at_us: int
    pretended: bool
    comment: str
    boot_id: str
    extra: str
    resume_after_us: int
    available_features: _containers.RepeatedScalarFieldContainer[str]
    port: int
    dynamic: bool
    instance_id: str
    instance_type: str
    mcs_label: str
    effective_cpus: int
    core_spec_count: int
    cpu_spec_list: str
    mem_spec_limit_mb: int
    is_warning: bool
    reservation: str
    gpus: _containers.RepeatedCompositeFieldContainer[GpuInfo]
    gpu_driver: str
    cuda_version: str
    nvml_version: str
    gpu_constraint: str
    gpu_why: str
    def __init__(self, name: _Optional[str] = ..., hostname: _Optional[str] = ..., addr: _Optional[str] = ..., base_state: _Optional[str] = ..., flags: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., reason_user: _Optional[str] = ..., reason_at_us: _Optional[int] = ..., cpus: _Optional[int] = ..., cpus_alloc: _Optional[int] = ..., boards: _Optional[int] = ..., sockets: _Optional[int] = ..., cores_per_socket: _Optional[int] = ..., threads_per_core: _Optional[int] = ..., real_memory_mb: _Optional[int] = ..., mem_alloc_mb: _Optional[int] = ..., free_memory_mb: _Optional[int] = ..., tmp_disk_mb: _Optional[int] = ..., gres: _Optional[_Iterable[_Union[_common_pb2.GresCount, _Mapping]]] = ..., gres_used: _Optional[_Iterable[_Union[_common_pb2.GresIndices, _Mapping]]] = ..., features: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[str]] = ..., weight: _Optional[int] = ..., version: _Optional[str] = ..., os: _Optional[str] = ..., arch: _Optional[str] = ..., cpu_load_centi: _Optional[int] = ..., boot_at_us: _Optional[int] = ..., noded_start_at_us: _Optional[int] = ..., last_busy_at_us: _Optional[int] = ..., pretended: bool = ..., comment: _Optional[str] = ..., boot_id: _Optional[str] = ..., extra: _Optional[str] = ..., resume_after_us: _Optional[int] = ..., available_features: _Optional[_Iterable[str]] = ..., port: _Optional[int] = ..., dynamic: bool = ..., instance_id: _Optional[str] = ..., instance_type: _Optional[str] = ..., mcs_label: _Optional[str] = ..., effective_cpus: _Optional[int] = ..., core_spec_count: _Optional[int] = ..., cpu_spec_list: _Optional[str] = ..., mem_spec_limit_mb: _Optional[int] = ..., is_warning: bool = ..., reservation: _Optional[str] = ..., gpus: _Optional[_Iterable[_Union[GpuInfo, _Mapping]]] = ..., gpu_driver: _Optional[str] = ..., cuda_version: _Optional[str] = ..., nvml_version: _Optional[str] = ..., gpu_constraint: _Optional[str] = ..., gpu_why: _Optional[str] = ...) -> None: ...

class GpuInfo(_message.Message):
    __slots__ = ("uuid", "index", "minor", "type", "memory_mb", "name", "bus_id", "state", "reason", "reason_user", "since_us", "job_ids", "parent_uuid", "profile", "work", "many_only", "slot", "capability", "serial", "xids", "notes", "idle_job_id", "idle_since_us")
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUS_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_USER_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    PARENT_UUID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    MANY_ONLY_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    IDLE_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    IDLE_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    index: int
    minor: int
    type: str
    memory_mb: int
    name: str
    bus_id: str
    state: str
    reason: str
    reason_user: str
    since_us: int
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    parent_uuid: str
    profile: str
    work: str
    many_only: bool
    slot: int
    capability: str
    serial: str
    xids: _containers.RepeatedCompositeFieldContainer[_common_pb2.GpuXid]
    notes: _containers.RepeatedScalarFieldContainer[str]
    idle_job_id: int
    idle_since_us: int
    def __init__(self, uuid: _Optional[str] = ..., index: _Optional[int] = ..., minor: _Optional[int] = ..., type: _Optional[str] = ..., memory_mb: _Optional[int] = ..., name: _Optional[str] = ..., bus_id: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., reason_user: _Optional[str] = ..., since_us: _Optional[int] = ..., job_ids: _Optional[_Iterable[int]] = ..., parent_uuid: _Optional[str] = ..., profile: _Optional[str] = ..., work: _Optional[str] = ..., many_only: bool = ..., slot: _Optional[int] = ..., capability: _Optional[str] = ..., serial: _Optional[str] = ..., xids: _Optional[_Iterable[_Union[_common_pb2.GpuXid, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., idle_job_id: _Optional[int] = ..., idle_since_us: _Optional[int] = ...) -> None: ...

class ListGpuReadingsRequest(_message.Message):
    __slots__ = ("names", "known")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    known: bytes
    def __init__(self, names: _Optional[_Iterable[str]] = ..., known: _Optional[bytes] = ...) -> None: ...

class ListGpuReadingsReply(_message.Message):
    __slots__ = ("readings", "moment", "unchanged")
    READINGS_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    readings: _containers.RepeatedCompositeFieldContainer[GpuReadingInfo]
    moment: bytes
    unchanged: bool
    def __init__(self, readings: _Optional[_Iterable[_Union[GpuReadingInfo, _Mapping]]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class GpuReadingInfo(_message.Message):
    __slots__ = ("node", "uuid", "index", "at_us", "utilization_percent", "memory_used_mb", "power_w", "temperature_c", "ecc_corrected", "ecc_uncorrected")
    NODE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_MB_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    ECC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    ECC_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
    node: str
    uuid: str
    index: int
    at_us: int
    utilization_percent: int
    memory_used_mb: int
    power_w: int
    temperature_c: int
    ecc_corrected: int
    ecc_uncorrected: int
    def __init__(self, node: _Optional[str] = ..., uuid: _Optional[str] = ..., index: _Optional[int] = ..., at_us: _Optional[int] = ..., utilization_percent: _Optional[int] = ..., memory_used_mb: _Optional[int] = ..., power_w: _Optional[int] = ..., temperature_c: _Optional[int] = ..., ecc_corrected: _Optional[int] = ..., ecc_uncorrected: _Optional[int] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("hide_hidden", "known")
    HIDE_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    hide_hidden: bool
    known: bytes
    def __init__(self, hide_hidden: bool = ..., known: _Optional[bytes] = ...) -> None: ...

class ListPartitionsReply(_message.Message):
    __slots__ = ("partitions", "moment", "unchanged")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionInfo]
    moment: bytes
    unchanged: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionInfo, _Mapping]]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class PartitionInfo(_message.Message):
    __slots__ = ("name", "state", "is_default", "nodes", "max_time_s", "default_time_s", "min_nodes", "max_nodes", "total_cpus", "total_nodes", "priority_tier", "priority_job_factor", "over_subscribe", "root_only", "hidden", "def_mem_per_cpu_mb", "def_mem_per_node_mb", "max_mem_per_cpu_mb", "max_mem_per_node_mb", "allow_groups", "allow_accounts", "max_cpus_per_node", "max_cpus_per_socket", "disable_root_jobs", "exclusive_user", "lln", "deny_accounts", "tres", "configured_nodes", "preempt_mode", "grace_time_s", "over_time_limit_s", "tres_billing_weights", "allow_qos", "deny_qos", "alloc_nodes", "alternate", "req_resv", "def_cpu_per_gpu", "def_mem_per_gpu_mb", "qos", "exclusive_topo")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_S_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TIME_S_FIELD_NUMBER: _ClassVar[int]
    MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CPUS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NODES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_TIER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_JOB_FACTOR_FIELD_NUMBER: _ClassVar[int]
    OVER_SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    ROOT_ONLY_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    DEF_MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    DEF_MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    MAX_MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    MAX_MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    ALLOW_GROUPS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    MAX_CPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    MAX_CPUS_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    DISABLE_ROOT_JOBS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_USER_FIELD_NUMBER: _ClassVar[int]
    LLN_FIELD_NUMBER: _ClassVar[int]
    DENY_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_NODES_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_MODE_FIELD_NUMBER: _ClassVar[int]
    GRACE_TIME_S_FIELD_NUMBER: _ClassVar[int]
    OVER_TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    TRES_BILLING_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_QOS_FIELD_NUMBER: _ClassVar[int]
    DENY_QOS_FIELD_NUMBER: _ClassVar[int]
    ALLOC_NODES_FIELD_NUMBER: _ClassVar[int]
    ALTERNATE_FIELD_NUMBER: _ClassVar[int]
    REQ_RESV_FIELD_NUMBER: _ClassVar[int]
    DEF_CPU_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    DEF_MEM_PER_GPU_MB_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_TOPO_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    is_default: bool
    nodes: _containers.RepeatedScalarFieldContainer[str]
    max_time_s: int
    default_time_s: int
    min_nodes: int
    max_nodes: int
    total_cpus: int
    total_nodes: int
    priority_tier: int
    priority_job_factor: int
    over_subscribe: str
    root_only: bool
    hidden: bool
    def_mem_per_cpu_mb: int
    def_mem_per_node_mb: int
    max_mem_per_cpu_mb: int
    max_mem_per_node_mb: int
    allow_groups: _containers.RepeatedScalarFieldContainer[str]
    allow_accounts: _containers.RepeatedScalarFieldContainer[str]
    max_cpus_per_node: int
    max_cpus_per_socket: int
    disable_root_jobs: bool
    exclusive_user: bool
    lln: bool
    deny_accounts: _containers.RepeatedScalarFieldContainer[str]
    tres: str
    configured_nodes: _containers.RepeatedScalarFieldContainer[str]
    preempt_mode: str
    grace_time_s: int
    over_time_limit_s: int
    tres_billing_weights: str
    allow_qos: _containers.RepeatedScalarFieldContainer[str]
    deny_qos: _containers.RepeatedScalarFieldContainer[str]
    alloc_nodes: _containers.RepeatedScalarFieldContainer[str]
    alternate: str
    req_resv: bool
    def_cpu_per_gpu: int
    def_mem_per_gpu_mb: int
    qos: str
    exclusive_topo: bool
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., is_default: bool = ..., nodes: _Optional[_Iterable[str]] = ..., max_time_s: _Optional[int] = ..., default_time_s: _Optional[int] = ..., min_nodes: _Optional[int] = ..., max_nodes: _Optional[int] = ..., total_cpus: _Optional[int] = ..., total_nodes: _Optional[int] = ..., priority_tier: _Optional[int] = ..., priority_job_factor: _Optional[int] = ..., over_subscribe: _Optional[str] = ..., root_only: bool = ..., hidden: bool = ..., def_mem_per_cpu_mb: _Optional[int] = ..., def_mem_per_node_mb: _Optional[int] = ..., max_mem_per_cpu_mb: _Optional[int] = ..., max_mem_per_node_mb: _Optional[int] = ..., allow_groups: _Optional[_Iterable[str]] = ..., allow_accounts: _Optional[_Iterable[str]] = ..., max_cpus_per_node: _Optional[int] = ..., max_cpus_per_socket: _Optional[int] = ..., disable_root_jobs: bool = ..., exclusive_user: bool = ..., lln: bool = ..., deny_accounts: _Optional[_Iterable[str]] = ..., tres: _Optional[str] = ..., configured_nodes: _Optional[_Iterable[str]] = ..., preempt_mode: _Optional[str] = ..., grace_time_s: _Optional[int] = ..., over_time_limit_s: _Optional[int] = ..., tres_billing_weights: _Optional[str] = ..., allow_qos: _Optional[_Iterable[str]] = ..., deny_qos: _Optional[_Iterable[str]] = ..., alloc_nodes: _Optional[_Iterable[str]] = ..., alternate: _Optional[str] = ..., req_resv: bool = ..., def_cpu_per_gpu: _Optional[int] = ..., def_mem_per_gpu_mb: _Optional[int] = ..., qos: _Optional[str] = ..., exclusive_topo: bool = ...) -> None: ...

class ShowConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShowConfigReply(_message.Message):
    __slots__ = ("lines", "at_us")
    LINES_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[ConfigLine]
    at_us: int
    def __init__(self, lines: _Optional[_Iterable[_Union[ConfigLine, _Mapping]]] = ..., at_us: _Optional[int] = ...) -> None: ...

class ConfigLine(_message.Message):
    __slots__ = ("key", "value", "section")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SECTION_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    section: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., section: _Optional[str] = ...) -> None: ...

class CancelJobsRequest(_message.Message):
    __slots__ = ("filter", "signal", "batch_only", "full", "hurry", "cron")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    BATCH_ONLY_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    HURRY_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    signal: int
    batch_only: bool
    full: bool
    hurry: bool
    cron: bool
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., signal: _Optional[int] = ..., batch_only: bool = ..., full: bool = ..., hurry: bool = ..., cron: bool = ...) -> None: ...

class ControlJobsRequest(_message.Message):
    __slots__ = ("ids", "action")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[ControlJobsRequest.Action]
        HOLD: _ClassVar[ControlJobsRequest.Action]
        RELEASE: _ClassVar[ControlJobsRequest.Action]
        REQUEUE: _ClassVar[ControlJobsRequest.Action]
        USER_HOLD: _ClassVar[ControlJobsRequest.Action]
        REQUEUE_HOLD: _ClassVar[ControlJobsRequest.Action]
        SUSPEND: _ClassVar[ControlJobsRequest.Action]
        RESUME: _ClassVar[ControlJobsRequest.Action]
        TOP: _ClassVar[ControlJobsRequest.Action]
        REQUEUE_SPECIAL: _ClassVar[ControlJobsRequest.Action]
    NONE: ControlJobsRequest.Action
    HOLD: ControlJobsRequest.Action
    RELEASE: ControlJobsRequest.Action
    REQUEUE: ControlJobsRequest.Action
    USER_HOLD: ControlJobsRequest.Action
    REQUEUE_HOLD: ControlJobsRequest.Action
    SUSPEND: ControlJobsRequest.Action
    RESUME: ControlJobsRequest.Action
    TOP: ControlJobsRequest.Action
    REQUEUE_SPECIAL: ControlJobsRequest.Action
    IDS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    action: ControlJobsRequest.Action
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., action: _Optional[_Union[ControlJobsRequest.Action, str]] = ...) -> None: ...

class UpdateJobsRequest(_message.Message):
    __slots__ = ("ids", "changes", "job_name", "user", "as_uid")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    AS_UID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    changes: _containers.ScalarMap[str, str]
    job_name: str
    user: str
    as_uid: int
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., changes: _Optional[_Mapping[str, str]] = ..., job_name: _Optional[str] = ..., user: _Optional[str] = ..., as_uid: _Optional[int] = ...) -> None: ...

class ListQosRequest(_message.Message):
    __slots__ = ("names", "with_deleted", "cluster")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    WITH_DELETED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    with_deleted: bool
    cluster: str
    def __init__(self, names: _Optional[_Iterable[str]] = ..., with_deleted: bool = ..., cluster: _Optional[str] = ...) -> None: ...

class ListQosReply(_message.Message):
    __slots__ = ("qos",)
    QOS_FIELD_NUMBER: _ClassVar[int]
    qos: _containers.RepeatedCompositeFieldContainer[Qos]
    def __init__(self, qos: _Optional[_Iterable[_Union[Qos, _Mapping]]] = ...) -> None: ...

class Qos(_message.Message):
    __slots__ = ("name", "description", "priority", "preempt", "preempt_mode", "grace_time_s", "preempt_exempt_time_s", "flags", "usage_factor_ppm", "limits", "usage_threshold_ppm", "limit_factor_ppm", "id", "deleted")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_MODE_FIELD_NUMBER: _ClassVar[int]
    GRACE_TIME_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_EXEMPT_TIME_S_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FACTOR_PPM_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    USAGE_THRESHOLD_PPM_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FACTOR_PPM_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    priority: int
    preempt: _containers.RepeatedScalarFieldContainer[str]
    preempt_mode: _containers.RepeatedScalarFieldContainer[str]
    grace_time_s: int
    preempt_exempt_time_s: int
    flags: _containers.RepeatedScalarFieldContainer[str]
    usage_factor_ppm: int
    limits: _containers.ScalarMap[str, str]
    usage_threshold_ppm: int
    limit_factor_ppm: int
    id: int
    deleted: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., priority: _Optional[int] = ..., preempt: _Optional[_Iterable[str]] = ..., preempt_mode: _Optional[_Iterable[str]] = ..., grace_time_s: _Optional[int] = ..., preempt_exempt_time_s: _Optional[int] = ..., flags: _Optional[_Iterable[str]] = ..., usage_factor_ppm: _Optional[int] = ..., limits: _Optional[_Mapping[str, str]] = ..., usage_threshold_ppm: _Optional[int] = ..., limit_factor_ppm: _Optional[int] = ..., id: _Optional[int] = ..., deleted: bool = ...) -> None: ...

class ChangeQosRequest(_message.Message):
    __slots__ = ("action", "names", "changes", "check_only")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[ChangeQosRequest.Action]
        ADD: _ClassVar[ChangeQosRequest.Action]
        MODIFY: _ClassVar[ChangeQosRequest.Action]
        DELETE: _ClassVar[ChangeQosRequest.Action]
    NONE: ChangeQosRequest.Action
    ADD: ChangeQosRequest.Action
    MODIFY: ChangeQosRequest.Action
    DELETE: ChangeQosRequest.Action
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    action: ChangeQosRequest.Action
    names: _containers.RepeatedScalarFieldContainer[str]
    changes: _containers.ScalarMap[str, str]
    check_only: bool
    def __init__(self, action: _Optional[_Union[ChangeQosRequest.Action, str]] = ..., names: _Optional[_Iterable[str]] = ..., changes: _Optional[_Mapping[str, str]] = ..., check_only: bool = ...) -> None: ...

class JobResultsReply(_message.Message):
    __slots__ = ("results", "user_messages")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[JobResult]
    user_messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, results: _Optional[_Iterable[_Union[JobResult, _Mapping]]] = ..., user_messages: _Optional[_Iterable[str]] = ...) -> None: ...

class JobResult(_message.Message):
    __slots__ = ("id", "code", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    code: int
    text: str
    def __init__(self, id: _Optional[str] = ..., code: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class UpdateNodesRequest(_message.Message):
    __slots__ = ("names", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    names: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, names: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class UpdatePartitionRequest(_message.Message):
    __slots__ = ("name", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreatePartitionRequest(_message.Message):
    __slots__ = ("name", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeletePartitionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateNodesRequest(_message.Message):
    __slots__ = ("names", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    names: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, names: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteNodesRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: str
    def __init__(self, names: _Optional[str] = ...) -> None: ...

class SetControllerRequest(_message.Message):
    __slots__ = ("debug_level", "debug_flags_on", "debug_flags_off", "schedule_log", "fair_share_dampening_factor", "nodes")
    DEBUG_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEBUG_FLAGS_ON_FIELD_NUMBER: _ClassVar[int]
    DEBUG_FLAGS_OFF_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_LOG_FIELD_NUMBER: _ClassVar[int]
    FAIR_SHARE_DAMPENING_FACTOR_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    debug_level: str
    debug_flags_on: _containers.RepeatedScalarFieldContainer[str]
    debug_flags_off: _containers.RepeatedScalarFieldContainer[str]
    schedule_log: bool
    fair_share_dampening_factor: int
    nodes: str
    def __init__(self, debug_level: _Optional[str] = ..., debug_flags_on: _Optional[_Iterable[str]] = ..., debug_flags_off: _Optional[_Iterable[str]] = ..., schedule_log: bool = ..., fair_share_dampening_factor: _Optional[int] = ..., nodes: _Optional[str] = ...) -> None: ...

class IssueTokenRequest(_message.Message):
    __slots__ = ("lifespan_s", "for_user", "session_job_id")
    LIFESPAN_S_FIELD_NUMBER: _ClassVar[int]
    FOR_USER_FIELD_NUMBER: _ClassVar[int]
    SESSION_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    lifespan_s: int
    for_user: str
    session_job_id: int
    def __init__(self, lifespan_s: _Optional[int] = ..., for_user: _Optional[str] = ..., session_job_id: _Optional[int] = ...) -> None: ...

class IssueTokenReply(_message.Message):
    __slots__ = ("token", "ends_at_us")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_US_FIELD_NUMBER: _ClassVar[int]
    token: str
    ends_at_us: int
    def __init__(self, token: _Optional[str] = ..., ends_at_us: _Optional[int] = ...) -> None: ...

class RevokeTokensRequest(_message.Message):
    __slots__ = ("for_user", "everybody")
    FOR_USER_FIELD_NUMBER: _ClassVar[int]
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    for_user: str
    everybody: bool
    def __init__(self, for_user: _Optional[str] = ..., everybody: bool = ...) -> None: ...

class CreatePersonalTokenRequest(_message.Message):
    __slots__ = ("name", "scope", "lifespan_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    LIFESPAN_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    scope: TokenScope
    lifespan_s: int
    def __init__(self, name: _Optional[str] = ..., scope: _Optional[_Union[TokenScope, str]] = ..., lifespan_s: _Optional[int] = ...) -> None: ...

class CreatePersonalTokenReply(_message.Message):
    __slots__ = ("token", "ends_at_us")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_US_FIELD_NUMBER: _ClassVar[int]
    token: str
    ends_at_us: int
    def __init__(self, token: _Optional[str] = ..., ends_at_us: _Optional[int] = ...) -> None: ...

class ListPersonalTokensRequest(_message.Message):
    __slots__ = ("user", "everybody")
    USER_FIELD_NUMBER: _ClassVar[int]
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    user: str
    everybody: bool
    def __init__(self, user: _Optional[str] = ..., everybody: bool = ...) -> None: ...

class PersonalTokenInfo(_message.Message):
    __slots__ = ("user", "name", "scope", "created_at_us", "ends_at_us", "used_at_us", "used_from")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_US_FIELD_NUMBER: _ClassVar[int]
    USED_AT_US_FIELD_NUMBER: _ClassVar[int]
    USED_FROM_FIELD_NUMBER: _ClassVar[int]
    user: str
    name: str
    scope: TokenScope
    created_at_us: int
    ends_at_us: int
    used_at_us: int
    used_from: str
    def __init__(self, user: _Optional[str] = ..., name: _Optional[str] = ..., scope: _Optional[_Union[TokenScope, str]] = ..., created_at_us: _Optional[int] = ..., ends_at_us: _Optional[int] = ..., used_at_us: _Optional[int] = ..., used_from: _Optional[str] = ...) -> None: ...

class ListPersonalTokensReply(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[PersonalTokenInfo]
    def __init__(self, tokens: _Optional[_Iterable[_Union[PersonalTokenInfo, _Mapping]]] = ...) -> None: ...

class RevokePersonalTokenRequest(_message.Message):
    __slots__ = ("name", "for_user")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOR_USER_FIELD_NUMBER: _ClassVar[int]
    name: str
    for_user: str
    def __init__(self, name: _Optional[str] = ..., for_user: _Optional[str] = ...) -> None: ...

class ShowControllerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShowControllerReply(_message.Message):
    __slots__ = ("certificates", "issued", "database")
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[CertificateInfo]
    issued: int
    database: DatabaseInfo
    def __init__(self, certificates: _Optional[_Iterable[_Union[CertificateInfo, _Mapping]]] = ..., issued: _Optional[int] = ..., database: _Optional[_Union[DatabaseInfo, _Mapping]] = ...) -> None: ...

class CertificateInfo(_message.Message):
    __slots__ = ("role", "name", "end_at_us", "warning")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    end_at_us: int
    warning: str
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., end_at_us: _Optional[int] = ..., warning: _Optional[str] = ...) -> None: ...

class DatabaseInfo(_message.Message):
    __slots__ = ("kind", "address", "size_bytes", "behind_us")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BEHIND_US_FIELD_NUMBER: _ClassVar[int]
    kind: str
    address: str
    size_bytes: int
    behind_us: int
    def __init__(self, kind: _Optional[str] = ..., address: _Optional[str] = ..., size_bytes: _Optional[int] = ..., behind_us: _Optional[int] = ...) -> None: ...

class RenderConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenderConfigReply(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class CreateReservationRequest(_message.Message):
    __slots__ = ("name", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateReservationReply(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UpdateReservationRequest(_message.Message):
    __slots__ = ("name", "changes")
    class ChangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    name: str
    changes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., changes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteReservationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bytes
    def __init__(self, known: _Optional[bytes] = ...) -> None: ...

class ListReservationsReply(_message.Message):
    __slots__ = ("reservations", "moment", "unchanged")
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    MOMENT_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[ReservationInfo]
    moment: bytes
    unchanged: bool
    def __init__(self, reservations: _Optional[_Iterable[_Union[ReservationInfo, _Mapping]]] = ..., moment: _Optional[bytes] = ..., unchanged: bool = ...) -> None: ...

class ReservationInfo(_message.Message):
    __slots__ = ("name", "start_at_us", "end_at_us", "is_active", "node_list", "node_count", "core_count", "features", "partition", "flags", "tres", "users", "groups", "accounts", "licenses", "comment", "qos", "allowed_partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CORE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_at_us: int
    end_at_us: int
    is_active: bool
    node_list: str
    node_count: int
    core_count: int
    features: str
    partition: str
    flags: str
    tres: str
    users: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    licenses: _containers.RepeatedScalarFieldContainer[str]
    comment: str
    qos: _containers.RepeatedScalarFieldContainer[str]
    allowed_partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., is_active: bool = ..., node_list: _Optional[str] = ..., node_count: _Optional[int] = ..., core_count: _Optional[int] = ..., features: _Optional[str] = ..., partition: _Optional[str] = ..., flags: _Optional[str] = ..., tres: _Optional[str] = ..., users: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., licenses: _Optional[_Iterable[str]] = ..., comment: _Optional[str] = ..., qos: _Optional[_Iterable[str]] = ..., allowed_partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class ListLicensesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLicensesReply(_message.Message):
    __slots__ = ("licenses",)
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    licenses: _containers.RepeatedCompositeFieldContainer[LicenseInfo]
    def __init__(self, licenses: _Optional[_Iterable[_Union[LicenseInfo, _Mapping]]] = ...) -> None: ...

class LicenseInfo(_message.Message):
    __slots__ = ("name", "total", "used", "reserved", "remote", "layer_name", "nodes", "mode", "count_configured", "base")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    LAYER_NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    total: int
    used: int
    reserved: int
    remote: bool
    layer_name: str
    nodes: str
    mode: int
    count_configured: int
    base: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., total: _Optional[int] = ..., used: _Optional[int] = ..., reserved: _Optional[int] = ..., remote: bool = ..., layer_name: _Optional[str] = ..., nodes: _Optional[str] = ..., mode: _Optional[int] = ..., count_configured: _Optional[int] = ..., base: _Optional[_Iterable[str]] = ...) -> None: ...

class ShowTopologyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShowTopologyReply(_message.Message):
    __slots__ = ("kind", "switches", "block_sizes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    switches: _containers.RepeatedCompositeFieldContainer[SwitchInfo]
    block_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[str] = ..., switches: _Optional[_Iterable[_Union[SwitchInfo, _Mapping]]] = ..., block_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class SwitchInfo(_message.Message):
    __slots__ = ("name", "level", "nodes", "node_count", "children")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: int
    nodes: str
    node_count: int
    children: str
    def __init__(self, name: _Optional[str] = ..., level: _Optional[int] = ..., nodes: _Optional[str] = ..., node_count: _Optional[int] = ..., children: _Optional[str] = ...) -> None: ...

class GetBatchScriptRequest(_message.Message):
    __slots__ = ("job_id", "environment")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    environment: bool
    def __init__(self, job_id: _Optional[int] = ..., environment: bool = ...) -> None: ...

class GetBatchScriptReply(_message.Message):
    __slots__ = ("script", "environment")
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    script: bytes
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, script: _Optional[bytes] = ..., environment: _Optional[_Iterable[bytes]] = ...) -> None: ...

class StoryRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    def __init__(self, job_id: _Optional[int] = ...) -> None: ...

class StoryReply(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[StoryLine]
    def __init__(self, lines: _Optional[_Iterable[_Union[StoryLine, _Mapping]]] = ...) -> None: ...

class StoryLine(_message.Message):
    __slots__ = ("at_us", "attempt", "event", "detail")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    attempt: int
    event: str
    detail: str
    def __init__(self, at_us: _Optional[int] = ..., attempt: _Optional[int] = ..., event: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class ReconfigureRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: bool = ...) -> None: ...

class ReconfigureReply(_message.Message):
    __slots__ = ("warnings", "changes", "problems", "jobs", "differences")
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    changes: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedScalarFieldContainer[str]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    differences: _containers.RepeatedCompositeFieldContainer[ConfigDifference]
    def __init__(self, warnings: _Optional[_Iterable[str]] = ..., changes: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[str]] = ..., jobs: _Optional[_Iterable[str]] = ..., differences: _Optional[_Iterable[_Union[ConfigDifference, _Mapping]]] = ...) -> None: ...

class ConfigDifference(_message.Message):
    __slots__ = ("what", "names", "key", "running", "file", "needs_restart")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_RESTART_FIELD_NUMBER: _ClassVar[int]
    what: str
    names: str
    key: str
    running: str
    file: str
    needs_restart: bool
    def __init__(self, what: _Optional[str] = ..., names: _Optional[str] = ..., key: _Optional[str] = ..., running: _Optional[str] = ..., file: _Optional[str] = ..., needs_restart: bool = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateNodeTokenRequest(_message.Message):
    __slots__ = ("node_name", "login_host")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    LOGIN_HOST_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    login_host: bool
    def __init__(self, node_name: _Optional[str] = ..., login_host: bool = ...) -> None: ...

class CreateNodeTokenReply(_message.Message):
    __slots__ = ("token", "expires_at_us")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_US_FIELD_NUMBER: _ClassVar[int]
    token: str
    expires_at_us: int
    def __init__(self, token: _Optional[str] = ..., expires_at_us: _Optional[int] = ...) -> None: ...

class JoinNodeRequest(_message.Message):
    __slots__ = ("token", "node_name", "csr_pem")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    CSR_PEM_FIELD_NUMBER: _ClassVar[int]
    token: str
    node_name: str
    csr_pem: bytes
    def __init__(self, token: _Optional[str] = ..., node_name: _Optional[str] = ..., csr_pem: _Optional[bytes] = ...) -> None: ...

class JoinNodeReply(_message.Message):
    __slots__ = ("certificate_pem", "ca_pem")
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    CA_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    ca_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ..., ca_pem: _Optional[bytes] = ...) -> None: ...

class RenewCertificateRequest(_message.Message):
    __slots__ = ("certificate_pem", "csr_pem")
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    CSR_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    csr_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ..., csr_pem: _Optional[bytes] = ...) -> None: ...

class RenewCertificateReply(_message.Message):
    __slots__ = ("certificate_pem",)
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ...) -> None: ...
