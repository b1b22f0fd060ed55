from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH: _ClassVar[JobKind]
    SALLOC: _ClassVar[JobKind]
    SRUN: _ClassVar[JobKind]
    COMPONENT: _ClassVar[JobKind]
BATCH: JobKind
SALLOC: JobKind
SRUN: JobKind
COMPONENT: JobKind

class GresCount(_message.Message):
    __slots__ = ("name", "type", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    count: int
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ExitStatus(_message.Message):
    __slots__ = ("code", "signal")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: int
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[int] = ...) -> None: ...

class TaskEnds(_message.Message):
    __slots__ = ("ranks", "exit", "node", "kind")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EXITED: _ClassVar[TaskEnds.Kind]
        UNKNOWN: _ClassVar[TaskEnds.Kind]
        NOT_STARTED: _ClassVar[TaskEnds.Kind]
    EXITED: TaskEnds.Kind
    UNKNOWN: TaskEnds.Kind
    NOT_STARTED: TaskEnds.Kind
    RANKS_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ranks: str
    exit: ExitStatus
    node: str
    kind: TaskEnds.Kind
    def __init__(self, ranks: _Optional[str] = ..., exit: _Optional[_Union[ExitStatus, _Mapping]] = ..., node: _Optional[str] = ..., kind: _Optional[_Union[TaskEnds.Kind, str]] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("name", "partitions", "account", "qos", "comment", "work_dir", "std_out", "std_err", "std_in", "open_append", "open_truncate", "time_limit_s", "begin_at_us", "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "mem_per_node_mb", "mem_per_cpu_mb", "gres_per_node", "features", "nodes_required", "nodes_excluded", "exclusive", "dependency", "array", "hold", "requeue", "nice", "priority", "rlimits", "umask", "submit_line", "kill_on_invalid_dep", "export_env", "submit_host", "submit_dir", "command", "licenses", "wckey", "reservation", "signal", "time_min_s", "deadline_at_us", "exclusive_user", "switches_max", "switches_wait_s", "segment", "exclusive_topo", "prefer", "sockets_per_node", "cores_per_socket", "threads_per_core", "mincpus", "tmp_disk_mb", "ntasks_per_core", "ntasks_per_socket", "spread_job", "use_min_nodes", "kind", "immediate_s", "gres_per_job", "gres_per_task", "ntasks_per_gpu", "cpus_per_gpu", "mem_per_gpu_mb", "resv_ports", "distribution", "overcommit", "no_kill", "wait_all_nodes", "node_fail_policy", "mpi", "cpu_bind", "mem_bind", "gpu_bind", "network", "gpu_mem_mb", "gpu_freq", "gres_per_socket", "gres_sockets", "mail_types", "mail_user", "contiguous", "oversubscribe", "core_spec", "thread_spec", "extra", "mcs_label", "batch_features", "get_user_env", "acctg_freq", "oom_kill_step", "reboot", "delay_boot_s", "exclusive_mcs", "run_as_uid", "run_as_gid", "expedite", "container", "cpu_freq", "profile", "trace_parent", "gpus_per_node_asked", "propagate_asked")
    class RlimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    OPEN_APPEND_FIELD_NUMBER: _ClassVar[int]
    OPEN_TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_US_FIELD_NUMBER: _ClassVar[int]
    NODES_MIN_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    NODES_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NODES_EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RLIMITS_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_LINE_FIELD_NUMBER: _ClassVar[int]
    KILL_ON_INVALID_DEP_FIELD_NUMBER: _ClassVar[int]
    EXPORT_ENV_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_HOST_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    WCKEY_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIME_MIN_S_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_AT_US_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_USER_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_MAX_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_TOPO_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CORES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    MINCPUS_FIELD_NUMBER: _ClassVar[int]
    TMP_DISK_MB_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    SPREAD_JOB_FIELD_NUMBER: _ClassVar[int]
    USE_MIN_NODES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_S_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_JOB_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_GPU_MB_FIELD_NUMBER: _ClassVar[int]
    RESV_PORTS_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    OVERCOMMIT_FIELD_NUMBER: _ClassVar[int]
    NO_KILL_FIELD_NUMBER: _ClassVar[int]
    WAIT_ALL_NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_FAIL_POLICY_FIELD_NUMBER: _ClassVar[int]
    MPI_FIELD_NUMBER: _ClassVar[int]
    CPU_BIND_FIELD_NUMBER: _ClassVar[int]
    MEM_BIND_FIELD_NUMBER: _ClassVar[int]
    GPU_BIND_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    GPU_MEM_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_FREQ_FIELD_NUMBER: _ClassVar[int]
    GRES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    GRES_SOCKETS_FIELD_NUMBER: _ClassVar[int]
    MAIL_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAIL_USER_FIELD_NUMBER: _ClassVar[int]
    CONTIGUOUS_FIELD_NUMBER: _ClassVar[int]
    OVERSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    CORE_SPEC_FIELD_NUMBER: _ClassVar[int]
    THREAD_SPEC_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    MCS_LABEL_FIELD_NUMBER: _ClassVar[int]
    BATCH_FEATURES_FIELD_NUMBER: _ClassVar[int]
    GET_USER_ENV_FIELD_NUMBER: _ClassVar[int]
    ACCTG_FREQ_FIELD_NUMBER: _ClassVar[int]
    OOM_KILL_STEP_FIELD_NUMBER: _ClassVar[int]
    REBOOT_FIELD_NUMBER: _ClassVar[int]
    DELAY_BOOT_S_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_MCS_FIELD_NUMBER: _ClassVar[int]
    RUN_AS_UID_FIELD_NUMBER: _ClassVar[int]
    RUN_AS_GID_FIELD_NUMBER: _ClassVar[int]
    EXPEDITE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CPU_FREQ_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_ASKED_FIELD_NUMBER: _ClassVar[int]
    PROPAGATE_ASKED_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: _containers.RepeatedScalarFieldContainer[str]
    account: str
    qos: str
    comment: str
    work_dir: bytes
    std_out: bytes
    std_err: bytes
    std_in: bytes
    open_append: bool
    open_truncate: bool
    time_limit_s: int
    begin_at_us: int
    nodes_min: int
    nodes_max: int
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_per_node_mb: int
    mem_per_cpu_mb: int
    gres_per_node: _containers.RepeatedCompositeFieldContainer[GresCount]
    features: str
    nodes_required: str
    nodes_excluded: str
    exclusive: bool
    dependency: str
    array: str
    hold: bool
    requeue: bool
    nice: int
    priority: int
    rlimits: _containers.ScalarMap[str, int]
    umask: int
    submit_line: str
    kill_on_invalid_dep: bool
    export_env: str
    submit_host: str
    submit_dir: bytes
    command: str
    licenses: str
    wckey: str
    reservation: str
    signal: str
    time_min_s: int
    deadline_at_us: int
    exclusive_user: bool
    switches_max: int
    switches_wait_s: int
    segment: int
    exclusive_topo: bool
    prefer: str
    sockets_per_node: int
    cores_per_socket: int
    threads_per_core: int
    mincpus: int
    tmp_disk_mb: int
    ntasks_per_core: int
    ntasks_per_socket: int
    spread_job: bool
    use_min_nodes: bool
    kind: JobKind
    immediate_s: int
    gres_per_job: _containers.RepeatedCompositeFieldContainer[GresCount]
    gres_per_task: _containers.RepeatedCompositeFieldContainer[GresCount]
    ntasks_per_gpu: int
    cpus_per_gpu: int
    mem_per_gpu_mb: int
    resv_ports: int
    distribution: str
    overcommit: bool
    no_kill: bool
    wait_all_nodes: bool
    node_fail_policy: str
    mpi: str
    cpu_bind: str
    mem_bind: str
    gpu_bind: str
    network: str
    gpu_mem_mb: int
    gpu_freq: str
    gres_per_socket: _containers.RepeatedCompositeFieldContainer[GresCount]
    gres_sockets: int
    mail_types: _containers.RepeatedScalarFieldContainer[str]
    mail_user: str
    contiguous: bool
    oversubscribe: bool
    core_spec: int
    thread_spec: int
    extra: str
    mcs_label: str
    batch_features: str
    get_user_env: bool
    acctg_freq: str
    oom_kill_step: bool
    reboot: bool
    delay_boot_s: int
    exclusive_mcs: bool
    run_as_uid: int
    run_as_gid: int
    expedite: bool
    container: str
    cpu_freq: str
    profile: str
    trace_parent: str
    gpus_per_node_asked: bool
    propagate_asked: bool
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[str]] = ..., account: _Optional[str] = ..., qos: _Optional[str] = ..., comment: _Optional[str] = ..., work_dir: _Optional[bytes] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., open_append: bool = ..., open_truncate: bool = ..., time_limit_s: _Optional[int] = ..., begin_at_us: _Optional[int] = ..., nodes_min: _Optional[int] = ..., nodes_max: _Optional[int] = ..., ntasks: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., ntasks_per_node: _Optional[int] = ..., mem_per_node_mb: _Optional[int] = ..., mem_per_cpu_mb: _Optional[int] = ..., gres_per_node: _Optional[_Iterable[_Union[GresCount, _Mapping]]] = ..., features: _Optional[str] = ..., nodes_required: _Optional[str] = ..., nodes_excluded: _Optional[str] = ..., exclusive: bool = ..., dependency: _Optional[str] = ..., array: _Optional[str] = ..., hold: bool = ..., requeue: bool = ..., nice: _Optional[int] = ..., priority: _Optional[int] = ..., rlimits: _Optional[_Mapping[str, int]] = ..., umask: _Optional[int] = ..., submit_line: _Optional[str] = ..., kill_on_invalid_dep: bool = ..., export_env: _Optional[str] = ..., submit_host: _Optional[str] = ..., submit_dir: _Optional[bytes] = ..., command: _Optional[str] = ..., licenses: _Optional[str] = ..., wckey: _Optional[str] = ..., reservation: _Optional[str] = ..., signal: _Optional[str] = ..., time_min_s: _Optional[int] = ..., deadline_at_us: _Optional[int] = ..., exclusive_user: bool = ..., switches_max: _Optional[int] = ..., switches_wait_s: _Optional[int] = ..., segment: _Optional[int] = ..., exclusive_topo: bool = ..., prefer: _Optional[str] = ..., sockets_per_node: _Optional[int] = ..., cores_per_socket: _Optional[int] = ..., threads_per_core: _Optional[int] = ..., mincpus: _Optional[int] = ..., tmp_disk_mb: _Optional[int] = ..., ntasks_per_core: _Optional[int] = ..., ntasks_per_socket: _Optional[int] = ..., spread_job: bool = ..., use_min_nodes: bool = ..., kind: _Optional[_Union[JobKind, str]] = ..., immediate_s: _Optional[int] = ..., gres_per_job: _Optional[_Iterable[_Union[GresCount, _Mapping]]] = ..., gres_per_task: _Optional[_Iterable[_Union[GresCount, _Mapping]]] = ..., ntasks_per_gpu: _Optional[int] = ..., cpus_per_gpu: _Optional[int] = ..., mem_per_gpu_mb: _Optional[int] = ..., resv_ports: _Optional[int] = ..., distribution: _Optional[str] = ..., overcommit: bool = ..., no_kill: bool = ..., wait_all_nodes: bool = ..., node_fail_policy: _Optional[str] = ..., mpi: _Optional[str] = ..., cpu_bind: _Optional[str] = ..., mem_bind: _Optional[str] = ..., gpu_bind: _Optional[str] = ..., network: _Optional[str] = ..., gpu_mem_mb: _Optional[int] = ..., gpu_freq: _Optional[str] = ..., gres_per_socket: _Optional[_Iterable[_Union[GresCount, _Mapping]]] = ..., gres_sockets: _Optional[int] = ..., mail_types: _Optional[_Iterable[str]] = ..., mail_user: _Optional[str] = ..., contiguous: bool = ..., oversubscribe: bool = ..., core_spec: _Optional[int] = ..., thread_spec: _Optional[int] = ..., extra: _Optional[str] = ..., mcs_label: _Optional[str] = ..., batch_features: _Optional[str] = ..., get_user_env: bool = ..., acctg_freq: _Optional[str] = ..., oom_kill_step: bool = ..., reboot: bool = ..., delay_boot_s: _Optional[int] = ..., exclusive_mcs: bool = ..., run_as_uid: _Optional[int] = ..., run_as_gid: _Optional[int] = ..., expedite: bool = ..., container: _Optional[str] = ..., cpu_freq: _Optional[str] = ..., profile: _Optional[str] = ..., trace_parent: _Optional[str] = ..., gpus_per_node_asked: bool = ..., propagate_asked: bool = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("script", "argv", "environment")
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    script: bytes
    argv: _containers.RepeatedScalarFieldContainer[bytes]
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, script: _Optional[bytes] = ..., argv: _Optional[_Iterable[bytes]] = ..., environment: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("user_cpu_us", "system_cpu_us", "max_rss_kb", "max_vmsize_kb", "disk_read_bytes", "disk_write_bytes", "metrics", "tasks")
    USER_CPU_US_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_CPU_US_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_KB_FIELD_NUMBER: _ClassVar[int]
    MAX_VMSIZE_KB_FIELD_NUMBER: _ClassVar[int]
    DISK_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_WRITE_BYTES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    user_cpu_us: int
    system_cpu_us: int
    max_rss_kb: int
    max_vmsize_kb: int
    disk_read_bytes: int
    disk_write_bytes: int
    metrics: _containers.RepeatedCompositeFieldContainer[UsageMetric]
    tasks: int
    def __init__(self, user_cpu_us: _Optional[int] = ..., system_cpu_us: _Optional[int] = ..., max_rss_kb: _Optional[int] = ..., max_vmsize_kb: _Optional[int] = ..., disk_read_bytes: _Optional[int] = ..., disk_write_bytes: _Optional[int] = ..., metrics: _Optional[_Iterable[_Union[UsageMetric, _Mapping]]] = ..., tasks: _Optional[int] = ...) -> None: ...

class UsageMetric(_message.Message):
    __slots__ = ("kind", "total", "max", "max_task", "min", "min_task")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[UsageMetric.Kind]
        CPU_MS: _ClassVar[UsageMetric.Kind]
        RSS_KB: _ClassVar[UsageMetric.Kind]
        VMSIZE_KB: _ClassVar[UsageMetric.Kind]
        PAGE_FAULTS: _ClassVar[UsageMetric.Kind]
        READ_BYTES: _ClassVar[UsageMetric.Kind]
        WRITE_BYTES: _ClassVar[UsageMetric.Kind]
        GPU_UTIL: _ClassVar[UsageMetric.Kind]
        GPU_MEM_KB: _ClassVar[UsageMetric.Kind]
        ENERGY_J: _ClassVar[UsageMetric.Kind]
        GPU_MEM_HELD_KB: _ClassVar[UsageMetric.Kind]
        ENERGY_ESTIMATED_J: _ClassVar[UsageMetric.Kind]
    NONE: UsageMetric.Kind
    CPU_MS: UsageMetric.Kind
    RSS_KB: UsageMetric.Kind
    VMSIZE_KB: UsageMetric.Kind
    PAGE_FAULTS: UsageMetric.Kind
    READ_BYTES: UsageMetric.Kind
    WRITE_BYTES: UsageMetric.Kind
    GPU_UTIL: UsageMetric.Kind
    GPU_MEM_KB: UsageMetric.Kind
    ENERGY_J: UsageMetric.Kind
    GPU_MEM_HELD_KB: UsageMetric.Kind
    ENERGY_ESTIMATED_J: UsageMetric.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_TASK_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MIN_TASK_FIELD_NUMBER: _ClassVar[int]
    kind: UsageMetric.Kind
    total: int
    max: int
    max_task: int
    min: int
    min_task: int
    def __init__(self, kind: _Optional[_Union[UsageMetric.Kind, str]] = ..., total: _Optional[int] = ..., max: _Optional[int] = ..., max_task: _Optional[int] = ..., min: _Optional[int] = ..., min_task: _Optional[int] = ...) -> None: ...

class GpuXid(_message.Message):
    __slots__ = ("xid", "times", "last_us")
    XID_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    LAST_US_FIELD_NUMBER: _ClassVar[int]
    xid: int
    times: int
    last_us: int
    def __init__(self, xid: _Optional[int] = ..., times: _Optional[int] = ..., last_us: _Optional[int] = ...) -> None: ...

class NodeAllocation(_message.Message):
    __slots__ = ("node", "cpus", "mem_mb", "tasks", "gres", "cpu_ids")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEM_MB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    GRES_FIELD_NUMBER: _ClassVar[int]
    CPU_IDS_FIELD_NUMBER: _ClassVar[int]
    node: str
    cpus: int
    mem_mb: int
    tasks: int
    gres: _containers.RepeatedCompositeFieldContainer[GresIndices]
    cpu_ids: bytes
    def __init__(self, node: _Optional[str] = ..., cpus: _Optional[int] = ..., mem_mb: _Optional[int] = ..., tasks: _Optional[int] = ..., gres: _Optional[_Iterable[_Union[GresIndices, _Mapping]]] = ..., cpu_ids: _Optional[bytes] = ...) -> None: ...

class GresIndices(_message.Message):
    __slots__ = ("name", "type", "index", "units", "of", "uuid")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    index: _containers.RepeatedScalarFieldContainer[int]
    units: _containers.RepeatedScalarFieldContainer[int]
    of: _containers.RepeatedScalarFieldContainer[int]
    uuid: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., index: _Optional[_Iterable[int]] = ..., units: _Optional[_Iterable[int]] = ..., of: _Optional[_Iterable[int]] = ..., uuid: _Optional[_Iterable[str]] = ...) -> None: ...
