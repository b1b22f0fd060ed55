from penstock.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AwaitAllocationRequest(_message.Message):
    __slots__ = ("job_id", "wait_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    wait_s: int
    def __init__(self, job_id: _Optional[int] = ..., wait_s: _Optional[int] = ...) -> None: ...

class AllocationReply(_message.Message):
    __slots__ = ("job_id", "state", "reason", "node_list", "nodes", "exit", "start_at_us", "end_at_us", "environment", "request", "attempt", "components", "note")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    state: str
    reason: str
    node_list: str
    nodes: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    exit: _common_pb2.ExitStatus
    start_at_us: int
    end_at_us: int
    environment: _containers.ScalarMap[str, str]
    request: _common_pb2.JobRequest
    attempt: int
    components: _containers.RepeatedCompositeFieldContainer[AllocationReply]
    note: str
    def __init__(self, job_id: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., node_list: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., environment: _Optional[_Mapping[str, str]] = ..., request: _Optional[_Union[_common_pb2.JobRequest, _Mapping]] = ..., attempt: _Optional[int] = ..., components: _Optional[_Iterable[_Union[AllocationReply, _Mapping]]] = ..., note: _Optional[str] = ...) -> None: ...

class EndAllocationRequest(_message.Message):
    __slots__ = ("job_id", "exit")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    exit: _common_pb2.ExitStatus
    def __init__(self, job_id: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ...) -> None: ...

class EndAllocationReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StepSpec(_message.Message):
    __slots__ = ("name", "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "mem_per_node_mb", "mem_per_cpu_mb", "gres_per_node", "gres_per_step", "gres_per_task", "no_gres", "nodes_required", "nodes_excluded", "relative", "exact", "overlap", "overcommit", "distribution", "time_limit_s", "resv_ports", "immediate_s", "ntasks_per_core", "ntasks_per_socket", "ntasks_per_gpu", "threads_per_core", "whole", "interactive", "no_kill", "work_dir", "std_out", "std_err", "std_in", "open_append", "cpu_bind", "mem_bind", "hint", "mpi", "pty", "rows", "columns", "kill_on_bad_exit", "task_prolog", "task_epilog", "umask", "rlimits", "export_env", "submit_line", "multi_prog", "signal", "submit_host", "gpu_bind", "unbuffered", "stdin_to", "stdin_task", "line_buffered", "het_group", "het_groups", "launch_node", "rank_offset", "het_ntasks", "node_offset", "het_nodes", "het_step", "gpu_freq", "gres_per_socket", "preserve_env", "propagate_asked", "client_out", "client_err", "client_node")
    class RlimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_STEP_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NO_GRES_FIELD_NUMBER: _ClassVar[int]
    NODES_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NODES_EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    OVERCOMMIT_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    RESV_PORTS_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_S_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    INTERACTIVE_FIELD_NUMBER: _ClassVar[int]
    NO_KILL_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    OPEN_APPEND_FIELD_NUMBER: _ClassVar[int]
    CPU_BIND_FIELD_NUMBER: _ClassVar[int]
    MEM_BIND_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    MPI_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KILL_ON_BAD_EXIT_FIELD_NUMBER: _ClassVar[int]
    TASK_PROLOG_FIELD_NUMBER: _ClassVar[int]
    TASK_EPILOG_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RLIMITS_FIELD_NUMBER: _ClassVar[int]
    EXPORT_ENV_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_LINE_FIELD_NUMBER: _ClassVar[int]
    MULTI_PROG_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_HOST_FIELD_NUMBER: _ClassVar[int]
    GPU_BIND_FIELD_NUMBER: _ClassVar[int]
    UNBUFFERED_FIELD_NUMBER: _ClassVar[int]
    STDIN_TO_FIELD_NUMBER: _ClassVar[int]
    STDIN_TASK_FIELD_NUMBER: _ClassVar[int]
    LINE_BUFFERED_FIELD_NUMBER: _ClassVar[int]
    HET_GROUP_FIELD_NUMBER: _ClassVar[int]
    HET_GROUPS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_NODE_FIELD_NUMBER: _ClassVar[int]
    RANK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HET_NTASKS_FIELD_NUMBER: _ClassVar[int]
    NODE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HET_NODES_FIELD_NUMBER: _ClassVar[int]
    HET_STEP_FIELD_NUMBER: _ClassVar[int]
    GPU_FREQ_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    PRESERVE_ENV_FIELD_NUMBER: _ClassVar[int]
    PROPAGATE_ASKED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_OUT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ERR_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    nodes_min: int
    nodes_max: int
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_per_node_mb: int
    mem_per_cpu_mb: int
    gres_per_node: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresCount]
    gres_per_step: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresCount]
    gres_per_task: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresCount]
    no_gres: bool
    nodes_required: str
    nodes_excluded: str
    relative: int
    exact: bool
    overlap: bool
    overcommit: bool
    distribution: str
    time_limit_s: int
    resv_ports: int
    immediate_s: int
    ntasks_per_core: int
    ntasks_per_socket: int
    ntasks_per_gpu: int
    threads_per_core: int
    whole: bool
    interactive: bool
    no_kill: bool
    work_dir: bytes
    std_out: bytes
    std_err: bytes
    std_in: bytes
    open_append: bool
    cpu_bind: str
    mem_bind: str
    hint: str
    mpi: str
    pty: bool
    rows: int
    columns: int
    kill_on_bad_exit: bool
    task_prolog: bytes
    task_epilog: bytes
    umask: int
    rlimits: _containers.ScalarMap[str, int]
    export_env: str
    submit_line: str
    multi_prog: _containers.RepeatedCompositeFieldContainer[RankCommand]
    signal: str
    submit_host: str
    gpu_bind: str
    unbuffered: bool
    stdin_to: int
    stdin_task: int
    line_buffered: bool
    het_group: int
    het_groups: _containers.RepeatedScalarFieldContainer[str]
    launch_node: bytes
    rank_offset: int
    het_ntasks: int
    node_offset: int
    het_nodes: int
    het_step: int
    gpu_freq: str
    gres_per_socket: _containers.RepeatedCompositeFieldContainer[_common_pb2.GresCount]
    preserve_env: bool
    propagate_asked: bool
    client_out: bytes
    client_err: bytes
    client_node: str
    def __init__(self, name: _Optional[str] = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., ntasks: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., ntasks_per_node: _Optional[int] = ..., mem_per_node_mb: _Optional[int] = ..., mem_per_cpu_mb: _Optional[int] = ..., gres_per_node: _Optional[_Iterable[_Union[_common_pb2.GresCount, _Mapping]]] = ..., gres_per_step: _Optional[_Iterable[_Union[_common_pb2.GresCount, _Mapping]]] = ..., gres_per_task: _Optional[_Iterable[_Union[_common_pb2.GresCount, _Mapping]]] = ..., no_gres: bool = ..., nodes_required: _Optional[str] = ..., nodes_excluded: _Optional[str] = ..., relative: _Optional[int] = ..., exact: bool = ..., overlap: bool = ..., overcommit: bool = ..., distribution: _Optional[str] = ..., time_limit_s: _Optional[int] = ..., resv_ports: _Optional[int] = ..., immediate_s: _Optional[int] = ..., ntasks_per_core: _Optional[int] = ..., ntasks_per_socket: _Optional[int] = ..., ntasks_per_gpu: _Optional[int] = ..., threads_per_core: _Optional[int] = ..., whole: bool = ..., interactive: bool = ..., no_kill: bool = ..., work_dir: _Optional[bytes] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., open_append: bool = ..., cpu_bind: _Optional[str] = ..., mem_bind: _Optional[str] = ..., hint: _Optional[str] = ..., mpi: _Optional[str] = ..., pty: bool = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., kill_on_bad_exit: bool = ..., task_prolog: _Optional[bytes] = ..., task_epilog: _Optional[bytes] = ..., umask: _Optional[int] = ..., rlimits: _Optional[_Mapping[str, int]] = ..., export_env: _Optional[str] = ..., submit_line: _Optional[str] = ..., multi_prog: _Optional[_Iterable[_Union[RankCommand, _Mapping]]] = ..., signal: _Optional[str] = ..., submit_host: _Optional[str] = ..., gpu_bind: _Optional[str] = ..., unbuffered: bool = ..., stdin_to: _Optional[int] = ..., stdin_task: _Optional[int] = ..., line_buffered: bool = ..., het_group: _Optional[int] = ..., het_groups: _Optional[_Iterable[str]] = ..., launch_node: _Optional[bytes] = ..., rank_offset: _Optional[int] = ..., het_ntasks: _Optional[int] = ..., node_offset: _Optional[int] = ..., het_nodes: _Optional[int] = ..., het_step: _Optional[int] = ..., gpu_freq: _Optional[str] = ..., gres_per_socket: _Optional[_Iterable[_Union[_common_pb2.GresCount, _Mapping]]] = ..., preserve_env: bool = ..., propagate_asked: bool = ..., client_out: _Optional[bytes] = ..., client_err: _Optional[bytes] = ..., client_node: _Optional[str] = ...) -> None: ...

class RankCommand(_message.Message):
    __slots__ = ("ranks", "argv")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ranks: str
    argv: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, ranks: _Optional[str] = ..., argv: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CreateStepRequest(_message.Message):
    __slots__ = ("job_id", "step_key", "step", "spec", "wait_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_KEY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_key: str
    step: StepSpec
    spec: _common_pb2.JobSpec
    wait_s: int
    def __init__(self, job_id: _Optional[int] = ..., step_key: _Optional[str] = ..., step: _Optional[_Union[StepSpec, _Mapping]] = ..., spec: _Optional[_Union[_common_pb2.JobSpec, _Mapping]] = ..., wait_s: _Optional[int] = ...) -> None: ...

class CreateStepReply(_message.Message):
    __slots__ = ("busy", "step_id", "attempt", "plan", "streams", "io_key", "warnings", "job_id", "kill_on_bad_exit", "wait_s")
    BUSY_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    IO_KEY_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KILL_ON_BAD_EXIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    busy: bool
    step_id: int
    attempt: int
    plan: StepPlan
    streams: _containers.RepeatedCompositeFieldContainer[StreamAddress]
    io_key: bytes
    warnings: _containers.RepeatedScalarFieldContainer[str]
    job_id: int
    kill_on_bad_exit: bool
    wait_s: int
    def __init__(self, busy: bool = ..., step_id: _Optional[int] = ..., attempt: _Optional[int] = ..., plan: _Optional[_Union[StepPlan, _Mapping]] = ..., streams: _Optional[_Iterable[_Union[StreamAddress, _Mapping]]] = ..., io_key: _Optional[bytes] = ..., warnings: _Optional[_Iterable[str]] = ..., job_id: _Optional[int] = ..., kill_on_bad_exit: bool = ..., wait_s: _Optional[int] = ...) -> None: ...

class StepPlan(_message.Message):
    __slots__ = ("node_list", "nodes", "tasks", "ranks", "ntasks", "cpus_per_task", "ports", "allocation")
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    node_list: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    tasks: _containers.RepeatedScalarFieldContainer[int]
    ranks: _containers.RepeatedCompositeFieldContainer[RankSet]
    ntasks: int
    cpus_per_task: int
    ports: _containers.RepeatedScalarFieldContainer[int]
    allocation: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    def __init__(self, node_list: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., tasks: _Optional[_Iterable[int]] = ..., ranks: _Optional[_Iterable[_Union[RankSet, _Mapping]]] = ..., ntasks: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., ports: _Optional[_Iterable[int]] = ..., allocation: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ...) -> None: ...

class RankSet(_message.Message):
    __slots__ = ("rank",)
    RANK_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[_Iterable[int]] = ...) -> None: ...

class StreamAddress(_message.Message):
    __slots__ = ("node", "host", "port", "tls")
    NODE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TLS_FIELD_NUMBER: _ClassVar[int]
    node: str
    host: str
    port: int
    tls: bool
    def __init__(self, node: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., tls: bool = ...) -> None: ...

class AwaitStepRequest(_message.Message):
    __slots__ = ("job_id", "step_id", "attempt", "wait_s")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    attempt: int
    wait_s: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ..., attempt: _Optional[int] = ..., wait_s: _Optional[int] = ...) -> None: ...

class AwaitStepReply(_message.Message):
    __slots__ = ("state", "exit", "nodes", "note", "job_state")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    JOB_STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    exit: _common_pb2.ExitStatus
    nodes: _containers.RepeatedCompositeFieldContainer[NodeExit]
    note: str
    job_state: str
    def __init__(self, state: _Optional[str] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeExit, _Mapping]]] = ..., note: _Optional[str] = ..., job_state: _Optional[str] = ...) -> None: ...

class NodeExit(_message.Message):
    __slots__ = ("node", "exit", "failure", "out_of_memory")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    node: str
    exit: _common_pb2.ExitStatus
    failure: str
    out_of_memory: bool
    def __init__(self, node: _Optional[str] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., failure: _Optional[str] = ..., out_of_memory: bool = ...) -> None: ...

class ListStepsRequest(_message.Message):
    __slots__ = ("ids", "users")
    IDS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class ListStepsReply(_message.Message):
    __slots__ = ("steps", "waiting")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[StepInfo]
    waiting: _containers.RepeatedCompositeFieldContainer[StepInfo]
    def __init__(self, steps: _Optional[_Iterable[_Union[StepInfo, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[StepInfo, _Mapping]]] = ...) -> None: ...

class StepInfo(_message.Message):
    __slots__ = ("job_id", "step_id", "attempt", "name", "state", "user_id", "user_name", "partition", "array_job_id", "array_task_id", "start_at_us", "end_at_us", "time_limit_s", "node_list", "tasks", "cpus", "tres", "spec", "plan", "exit", "account", "qos", "job_name", "het_job_id", "het_offset", "waits_for", "waits_since_us", "job_submit_at_us")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    TRES_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    WAITS_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    JOB_SUBMIT_AT_US_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    attempt: int
    name: str
    state: str
    user_id: int
    user_name: str
    partition: str
    array_job_id: int
    array_task_id: int
    start_at_us: int
    end_at_us: int
    time_limit_s: int
    node_list: str
    tasks: int
    cpus: int
    tres: str
    spec: StepSpec
    plan: StepPlan
    exit: _common_pb2.ExitStatus
    account: str
    qos: str
    job_name: str
    het_job_id: int
    het_offset: int
    waits_for: str
    waits_since_us: int
    job_submit_at_us: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ..., attempt: _Optional[int] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., user_id: _Optional[int] = ..., user_name: _Optional[str] = ..., partition: _Optional[str] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., time_limit_s: _Optional[int] = ..., node_list: _Optional[str] = ..., tasks: _Optional[int] = ..., cpus: _Optional[int] = ..., tres: _Optional[str] = ..., spec: _Optional[_Union[StepSpec, _Mapping]] = ..., plan: _Optional[_Union[StepPlan, _Mapping]] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., account: _Optional[str] = ..., qos: _Optional[str] = ..., job_name: _Optional[str] = ..., het_job_id: _Optional[int] = ..., het_offset: _Optional[int] = ..., waits_for: _Optional[str] = ..., waits_since_us: _Optional[int] = ..., job_submit_at_us: _Optional[int] = ...) -> None: ...

class AttachStepRequest(_message.Message):
    __slots__ = ("job_id", "step_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ...) -> None: ...

class AttachStepReply(_message.Message):
    __slots__ = ("job_id", "step_id", "attempt", "plan", "streams", "io_key", "spec", "user_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    IO_KEY_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    attempt: int
    plan: StepPlan
    streams: _containers.RepeatedCompositeFieldContainer[StreamAddress]
    io_key: bytes
    spec: StepSpec
    user_id: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ..., attempt: _Optional[int] = ..., plan: _Optional[_Union[StepPlan, _Mapping]] = ..., streams: _Optional[_Iterable[_Union[StreamAddress, _Mapping]]] = ..., io_key: _Optional[bytes] = ..., spec: _Optional[_Union[StepSpec, _Mapping]] = ..., user_id: _Optional[int] = ...) -> None: ...

class OpenOutputRequest(_message.Message):
    __slots__ = ("job_id", "step_id", "task")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    step_id: int
    task: int
    def __init__(self, job_id: _Optional[int] = ..., step_id: _Optional[int] = ..., task: _Optional[int] = ...) -> None: ...

class NotifyJobRequest(_message.Message):
    __slots__ = ("id", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class NotifyJobReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
