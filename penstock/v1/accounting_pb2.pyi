from penstock.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListRecordsRequest(_message.Message):
    __slots__ = ("ids", "users", "accounts", "partitions", "names", "states", "nodes", "start_at_us", "end_at_us", "duplicates", "no_steps", "truncate", "qos", "with_script", "with_environment", "with_task_ends", "wckeys", "group_ids", "assoc_ids", "cluster", "window")
    IDS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    NO_STEPS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    WITH_SCRIPT_FIELD_NUMBER: _ClassVar[int]
    WITH_ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    WITH_TASK_ENDS_FIELD_NUMBER: _ClassVar[int]
    WCKEYS_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    ASSOC_IDS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[str]
    names: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    start_at_us: int
    end_at_us: int
    duplicates: bool
    no_steps: bool
    truncate: bool
    qos: _containers.RepeatedScalarFieldContainer[str]
    with_script: bool
    with_environment: bool
    with_task_ends: bool
    wckeys: _containers.RepeatedScalarFieldContainer[str]
    group_ids: _containers.RepeatedScalarFieldContainer[int]
    assoc_ids: _containers.RepeatedScalarFieldContainer[int]
    cluster: str
    window: RecordWindow
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., accounts: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[str]] = ..., names: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[str]] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., duplicates: bool = ..., no_steps: bool = ..., truncate: bool = ..., qos: _Optional[_Iterable[str]] = ..., with_script: bool = ..., with_environment: bool = ..., with_task_ends: bool = ..., wckeys: _Optional[_Iterable[str]] = ..., group_ids: _Optional[_Iterable[int]] = ..., assoc_ids: _Optional[_Iterable[int]] = ..., cluster: _Optional[str] = ..., window: _Optional[_Union[RecordWindow, _Mapping]] = ...) -> None: ...

class RecordWindow(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ListRecordsReply(_message.Message):
    __slots__ = ("records", "total")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[JobRecord]
    total: int
    def __init__(self, records: _Optional[_Iterable[_Union[JobRecord, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class ListProfilesRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListProfilesReply(_message.Message):
    __slots__ = ("profiles",)
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileRecord]
    def __init__(self, profiles: _Optional[_Iterable[_Union[ProfileRecord, _Mapping]]] = ...) -> None: ...

class ProfileRecord(_message.Message):
    __slots__ = ("job_id", "attempt", "step_id", "node", "profile")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    attempt: int
    step_id: int
    node: str
    profile: bytes
    def __init__(self, job_id: _Optional[int] = ..., attempt: _Optional[int] = ..., step_id: _Optional[int] = ..., node: _Optional[str] = ..., profile: _Optional[bytes] = ...) -> None: ...

class JobRecord(_message.Message):
    __slots__ = ("job_id", "attempt", "array_job_id", "array_task_id", "array_tasks", "array_throttle", "state", "reason", "user_id", "group_id", "user_name", "group_name", "partition", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s", "node_list", "cpus_req", "cpus_alloc", "nodes_req", "nodes_alloc", "tasks", "exit", "derived_exit", "tres_req", "tres_alloc", "request", "cancelled_by_uid", "admin_comment", "failed_node", "steps", "cluster", "script", "environment", "std_out", "std_err", "std_in", "suspended_us", "suspended_at_us", "het_job_id", "het_offset", "assoc_id", "wckey", "system_comment", "account")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASKS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_THROTTLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
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
    CPUS_REQ_FIELD_NUMBER: _ClassVar[int]
    CPUS_ALLOC_FIELD_NUMBER: _ClassVar[int]
    NODES_REQ_FIELD_NUMBER: _ClassVar[int]
    NODES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    DERIVED_EXIT_FIELD_NUMBER: _ClassVar[int]
    TRES_REQ_FIELD_NUMBER: _ClassVar[int]
    TRES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_UID_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMENT_FIELD_NUMBER: _ClassVar[int]
    FAILED_NODE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_US_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ASSOC_ID_FIELD_NUMBER: _ClassVar[int]
    WCKEY_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_COMMENT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    attempt: int
    array_job_id: int
    array_task_id: int
    array_tasks: str
    array_throttle: int
    state: str
    reason: str
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
    cpus_req: int
    cpus_alloc: int
    nodes_req: int
    nodes_alloc: int
    tasks: int
    exit: _common_pb2.ExitStatus
    derived_exit: _common_pb2.ExitStatus
    tres_req: str
    tres_alloc: str
    request: _common_pb2.JobRequest
    cancelled_by_uid: int
    admin_comment: str
    failed_node: str
    steps: _containers.RepeatedCompositeFieldContainer[StepRecord]
    cluster: str
    script: bytes
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    std_out: bytes
    std_err: bytes
    std_in: bytes
    suspended_us: int
    suspended_at_us: int
    het_job_id: int
    het_offset: int
    assoc_id: int
    wckey: str
    system_comment: str
    account: str
    def __init__(self, job_id: _Optional[int] = ..., attempt: _Optional[int] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., array_tasks: _Optional[str] = ..., array_throttle: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[str] = ..., group_name: _Optional[str] = ..., partition: _Optional[str] = ..., priority: _Optional[int] = ..., submit_at_us: _Optional[int] = ..., eligible_at_us: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., node_list: _Optional[str] = ..., cpus_req: _Optional[int] = ..., cpus_alloc: _Optional[int] = ..., nodes_req: _Optional[int] = ..., nodes_alloc: _Optional[int] = ..., tasks: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., derived_exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., tres_req: _Optional[str] = ..., tres_alloc: _Optional[str] = ..., request: _Optional[_Union[_common_pb2.JobRequest, _Mapping]] = ..., cancelled_by_uid: _Optional[int] = ..., admin_comment: _Optional[str] = ..., failed_node: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[StepRecord, _Mapping]]] = ..., cluster: _Optional[str] = ..., script: _Optional[bytes] = ..., environment: _Optional[_Iterable[bytes]] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., suspended_us: _Optional[int] = ..., suspended_at_us: _Optional[int] = ..., het_job_id: _Optional[int] = ..., het_offset: _Optional[int] = ..., assoc_id: _Optional[int] = ..., wckey: _Optional[str] = ..., system_comment: _Optional[str] = ..., account: _Optional[str] = ...) -> None: ...

class StepRecord(_message.Message):
    __slots__ = ("step_id", "name", "state", "start_at_us", "end_at_us", "exit", "node_list", "cpus_alloc", "nodes_alloc", "tasks", "usage", "tres_alloc", "cancelled_by_uid", "metrics", "distribution", "submit_line", "submit_at_us", "task_ends", "task_ends_left_out")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    CPUS_ALLOC_FIELD_NUMBER: _ClassVar[int]
    NODES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TRES_ALLOC_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BY_UID_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_LINE_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    TASK_ENDS_FIELD_NUMBER: _ClassVar[int]
    TASK_ENDS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    name: str
    state: str
    start_at_us: int
    end_at_us: int
    exit: _common_pb2.ExitStatus
    node_list: str
    cpus_alloc: int
    nodes_alloc: int
    tasks: int
    usage: _common_pb2.Usage
    tres_alloc: str
    cancelled_by_uid: int
    metrics: _containers.RepeatedCompositeFieldContainer[StepMetric]
    distribution: str
    submit_line: str
    submit_at_us: int
    task_ends: _containers.RepeatedCompositeFieldContainer[_common_pb2.TaskEnds]
    task_ends_left_out: int
    def __init__(self, step_id: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., node_list: _Optional[str] = ..., cpus_alloc: _Optional[int] = ..., nodes_alloc: _Optional[int] = ..., tasks: _Optional[int] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., tres_alloc: _Optional[str] = ..., cancelled_by_uid: _Optional[int] = ..., metrics: _Optional[_Iterable[_Union[StepMetric, _Mapping]]] = ..., distribution: _Optional[str] = ..., submit_line: _Optional[str] = ..., submit_at_us: _Optional[int] = ..., task_ends: _Optional[_Iterable[_Union[_common_pb2.TaskEnds, _Mapping]]] = ..., task_ends_left_out: _Optional[int] = ...) -> None: ...

class StepMetric(_message.Message):
    __slots__ = ("kind", "total", "max", "max_node", "max_task", "min", "min_node", "min_task")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_NODE_FIELD_NUMBER: _ClassVar[int]
    MAX_TASK_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MIN_NODE_FIELD_NUMBER: _ClassVar[int]
    MIN_TASK_FIELD_NUMBER: _ClassVar[int]
    kind: _common_pb2.UsageMetric.Kind
    total: int
    max: int
    max_node: str
    max_task: int
    min: int
    min_node: str
    min_task: int
    def __init__(self, kind: _Optional[_Union[_common_pb2.UsageMetric.Kind, str]] = ..., total: _Optional[int] = ..., max: _Optional[int] = ..., max_node: _Optional[str] = ..., max_task: _Optional[int] = ..., min: _Optional[int] = ..., min_node: _Optional[str] = ..., min_task: _Optional[int] = ...) -> None: ...
