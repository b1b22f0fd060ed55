from penstock.v1 import common_pb2 as _common_pb2
from penstock.v1 import steps_pb2 as _steps_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeMessage(_message.Message):
    __slots__ = ("register", "heartbeat", "command_ack", "report", "more")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ACK_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    register: Register
    heartbeat: Heartbeat
    command_ack: CommandAck
    report: Report
    more: _containers.RepeatedCompositeFieldContainer[NodeMessage]
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., command_ack: _Optional[_Union[CommandAck, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., more: _Optional[_Iterable[_Union[NodeMessage, _Mapping]]] = ...) -> None: ...

class ControllerMessage(_message.Message):
    __slots__ = ("registered", "command", "report_ack", "heartbeat_ack", "settings", "farewell", "output", "more")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    REPORT_ACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    FAREWELL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    command: Command
    report_ack: ReportAck
    heartbeat_ack: HeartbeatAck
    settings: NodeSettings
    farewell: Farewell
    output: OutputTicket
    more: _containers.RepeatedCompositeFieldContainer[ControllerMessage]
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., report_ack: _Optional[_Union[ReportAck, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., settings: _Optional[_Union[NodeSettings, _Mapping]] = ..., farewell: _Optional[_Union[Farewell, _Mapping]] = ..., output: _Optional[_Union[OutputTicket, _Mapping]] = ..., more: _Optional[_Iterable[_Union[ControllerMessage, _Mapping]]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("node_name", "boot_id", "version", "protocol", "inventory", "held", "spool_lost", "started_at_us", "epoch_seen", "spool_id", "stream_port", "stream_tls", "lease_lapsed", "job_id_seen", "at_us", "instance_id", "instance_type", "extra")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SPOOL_LOST_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    EPOCH_SEEN_FIELD_NUMBER: _ClassVar[int]
    SPOOL_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_PORT_FIELD_NUMBER: _ClassVar[int]
    STREAM_TLS_FIELD_NUMBER: _ClassVar[int]
    LEASE_LAPSED_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_SEEN_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    boot_id: str
    version: str
    protocol: int
    inventory: Inventory
    held: _containers.RepeatedCompositeFieldContainer[HeldStep]
    spool_lost: bool
    started_at_us: int
    epoch_seen: int
    spool_id: str
    stream_port: int
    stream_tls: bool
    lease_lapsed: bool
    job_id_seen: int
    at_us: int
    instance_id: str
    instance_type: str
    extra: str
    def __init__(self, node_name: _Optional[str] = ..., boot_id: _Optional[str] = ..., version: _Optional[str] = ..., protocol: _Optional[int] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., held: _Optional[_Iterable[_Union[HeldStep, _Mapping]]] = ..., spool_lost: bool = ..., started_at_us: _Optional[int] = ..., epoch_seen: _Optional[int] = ..., spool_id: _Optional[str] = ..., stream_port: _Optional[int] = ..., stream_tls: bool = ..., lease_lapsed: bool = ..., job_id_seen: _Optional[int] = ..., at_us: _Optional[int] = ..., instance_id: _Optional[str] = ..., instance_type: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("cpus", "boards", "sockets", "cores_per_socket", "threads_per_core", "real_memory_mb", "tmp_disk_mb", "gpus", "os", "arch", "hostname", "boot_at_us", "pretended", "gpu_driver", "cuda_version", "nvml_version", "gpu_constraint", "gpu_why", "gpus_at_us")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    BOARDS_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    CORES_PER_SOCKET_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_CORE_FIELD_NUMBER: _ClassVar[int]
    REAL_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    TMP_DISK_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    BOOT_AT_US_FIELD_NUMBER: _ClassVar[int]
    PRETENDED_FIELD_NUMBER: _ClassVar[int]
    GPU_DRIVER_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    NVML_VERSION_FIELD_NUMBER: _ClassVar[int]
    GPU_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    GPU_WHY_FIELD_NUMBER: _ClassVar[int]
    GPUS_AT_US_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    boards: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mb: int
    tmp_disk_mb: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuDevice]
    os: str
    arch: str
    hostname: str
    boot_at_us: int
    pretended: bool
    gpu_driver: str
    cuda_version: str
    nvml_version: str
    gpu_constraint: str
    gpu_why: str
    gpus_at_us: int
    def __init__(self, cpus: _Optional[int] = ..., boards: _Optional[int] = ..., sockets: _Optional[int] = ..., cores_per_socket: _Optional[int] = ..., threads_per_core: _Optional[int] = ..., real_memory_mb: _Optional[int] = ..., tmp_disk_mb: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuDevice, _Mapping]]] = ..., os: _Optional[str] = ..., arch: _Optional[str] = ..., hostname: _Optional[str] = ..., boot_at_us: _Optional[int] = ..., pretended: bool = ..., gpu_driver: _Optional[str] = ..., cuda_version: _Optional[str] = ..., nvml_version: _Optional[str] = ..., gpu_constraint: _Optional[str] = ..., gpu_why: _Optional[str] = ..., gpus_at_us: _Optional[int] = ...) -> None: ...

class GpuDevice(_message.Message):
    __slots__ = ("uuid", "index", "minor", "type", "memory_mb", "name", "bus_id", "capability", "near_cpus", "links", "serial", "vbios", "numa_node", "parent_uuid", "profile", "slices", "mig_enabled", "files", "health")
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUS_ID_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    NEAR_CPUS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    VBIOS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    PARENT_UUID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    MIG_ENABLED_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    index: int
    minor: int
    type: str
    memory_mb: int
    name: str
    bus_id: str
    capability: str
    near_cpus: _containers.RepeatedScalarFieldContainer[int]
    links: _containers.RepeatedScalarFieldContainer[int]
    serial: str
    vbios: str
    numa_node: int
    parent_uuid: str
    profile: str
    slices: int
    mig_enabled: bool
    files: _containers.RepeatedScalarFieldContainer[str]
    health: GpuHealth
    def __init__(self, uuid: _Optional[str] = ..., index: _Optional[int] = ..., minor: _Optional[int] = ..., type: _Optional[str] = ..., memory_mb: _Optional[int] = ..., name: _Optional[str] = ..., bus_id: _Optional[str] = ..., capability: _Optional[str] = ..., near_cpus: _Optional[_Iterable[int]] = ..., links: _Optional[_Iterable[int]] = ..., serial: _Optional[str] = ..., vbios: _Optional[str] = ..., numa_node: _Optional[int] = ..., parent_uuid: _Optional[str] = ..., profile: _Optional[str] = ..., slices: _Optional[int] = ..., mig_enabled: bool = ..., files: _Optional[_Iterable[str]] = ..., health: _Optional[_Union[GpuHealth, _Mapping]] = ...) -> None: ...

class GpuHealth(_message.Message):
    __slots__ = ("uuid", "state", "reason", "since_us", "many_only", "wants_reset", "xids", "notes")
    UUID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    MANY_ONLY_FIELD_NUMBER: _ClassVar[int]
    WANTS_RESET_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    state: int
    reason: str
    since_us: int
    many_only: bool
    wants_reset: bool
    xids: _containers.RepeatedCompositeFieldContainer[_common_pb2.GpuXid]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uuid: _Optional[str] = ..., state: _Optional[int] = ..., reason: _Optional[str] = ..., since_us: _Optional[int] = ..., many_only: bool = ..., wants_reset: bool = ..., xids: _Optional[_Iterable[_Union[_common_pb2.GpuXid, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class StepKey(_message.Message):
    __slots__ = ("job_id", "attempt", "step_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    attempt: int
    step_id: int
    def __init__(self, job_id: _Optional[int] = ..., attempt: _Optional[int] = ..., step_id: _Optional[int] = ...) -> None: ...

class HeldStep(_message.Message):
    __slots__ = ("key", "state", "epoch", "suspended", "lease_s", "lease_grace_s", "start_at_us", "told")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[HeldStep.State]
        ACCEPTED: _ClassVar[HeldStep.State]
        RUNNING: _ClassVar[HeldStep.State]
        EXITED: _ClassVar[HeldStep.State]
        TOMBSTONE: _ClassVar[HeldStep.State]
    UNKNOWN: HeldStep.State
    ACCEPTED: HeldStep.State
    RUNNING: HeldStep.State
    EXITED: HeldStep.State
    TOMBSTONE: HeldStep.State
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    state: HeldStep.State
    epoch: int
    suspended: bool
    lease_s: int
    lease_grace_s: int
    start_at_us: int
    told: bool
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., state: _Optional[_Union[HeldStep.State, str]] = ..., epoch: _Optional[int] = ..., suspended: bool = ..., lease_s: _Optional[int] = ..., lease_grace_s: _Optional[int] = ..., start_at_us: _Optional[int] = ..., told: bool = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("epoch", "heartbeat_interval_ms", "refusal", "cluster_name", "kill_wait_s", "unkillable_step_timeout_s", "controller_version", "settings", "lease_s", "command_port")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    KILL_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    UNKILLABLE_STEP_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_VERSION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    COMMAND_PORT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_interval_ms: int
    refusal: str
    cluster_name: str
    kill_wait_s: int
    unkillable_step_timeout_s: int
    controller_version: str
    settings: NodeSettings
    lease_s: int
    command_port: int
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., refusal: _Optional[str] = ..., cluster_name: _Optional[str] = ..., kill_wait_s: _Optional[int] = ..., unkillable_step_timeout_s: _Optional[int] = ..., controller_version: _Optional[str] = ..., settings: _Optional[_Union[NodeSettings, _Mapping]] = ..., lease_s: _Optional[int] = ..., command_port: _Optional[int] = ...) -> None: ...

class NodeSettings(_message.Message):
    __slots__ = ("prolog", "epilog", "task_prolog", "task_epilog", "prolog_flags", "prolog_epilog_timeout_s", "health_check_program", "health_check_interval_s", "health_check_node_state", "reboot_program", "unkillable_step_program", "acct_gather_frequency_s", "acct_gather_type", "cgroup", "private_tmp", "allow_new_privs", "use_pam", "mpi_default", "task_plugin", "kill_wait_s", "private_tmp_folders", "devices", "gpu", "metrics", "log_file", "log_format", "log_level", "slurm_conf", "profile_every_s", "hang_after_s", "hang_signal", "hang_grace_s", "debug_flags")
    PROLOG_FIELD_NUMBER: _ClassVar[int]
    EPILOG_FIELD_NUMBER: _ClassVar[int]
    TASK_PROLOG_FIELD_NUMBER: _ClassVar[int]
    TASK_EPILOG_FIELD_NUMBER: _ClassVar[int]
    PROLOG_FLAGS_FIELD_NUMBER: _ClassVar[int]
    PROLOG_EPILOG_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_NODE_STATE_FIELD_NUMBER: _ClassVar[int]
    REBOOT_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    UNKILLABLE_STEP_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    ACCT_GATHER_FREQUENCY_S_FIELD_NUMBER: _ClassVar[int]
    ACCT_GATHER_TYPE_FIELD_NUMBER: _ClassVar[int]
    CGROUP_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_TMP_FIELD_NUMBER: _ClassVar[int]
    ALLOW_NEW_PRIVS_FIELD_NUMBER: _ClassVar[int]
    USE_PAM_FIELD_NUMBER: _ClassVar[int]
    MPI_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    TASK_PLUGIN_FIELD_NUMBER: _ClassVar[int]
    KILL_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_TMP_FOLDERS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    LOG_FILE_FIELD_NUMBER: _ClassVar[int]
    LOG_FORMAT_FIELD_NUMBER: _ClassVar[int]
    LOG_LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLURM_CONF_FIELD_NUMBER: _ClassVar[int]
    PROFILE_EVERY_S_FIELD_NUMBER: _ClassVar[int]
    HANG_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    HANG_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    HANG_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    DEBUG_FLAGS_FIELD_NUMBER: _ClassVar[int]
    prolog: _containers.RepeatedScalarFieldContainer[str]
    epilog: _containers.RepeatedScalarFieldContainer[str]
    task_prolog: str
    task_epilog: str
    prolog_flags: _containers.RepeatedScalarFieldContainer[str]
    prolog_epilog_timeout_s: int
    health_check_program: str
    health_check_interval_s: int
    health_check_node_state: str
    reboot_program: str
    unkillable_step_program: str
    acct_gather_frequency_s: int
    acct_gather_type: str
    cgroup: CgroupSettings
    private_tmp: str
    allow_new_privs: bool
    use_pam: bool
    mpi_default: str
    task_plugin: str
    kill_wait_s: int
    private_tmp_folders: _containers.RepeatedScalarFieldContainer[str]
    devices: _containers.RepeatedCompositeFieldContainer[NodeDevice]
    gpu: GpuSettings
    metrics: MetricsSettings
    log_file: str
    log_format: str
    log_level: str
    slurm_conf: str
    profile_every_s: int
    hang_after_s: int
    hang_signal: int
    hang_grace_s: int
    debug_flags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, prolog: _Optional[_Iterable[str]] = ..., epilog: _Optional[_Iterable[str]] = ..., task_prolog: _Optional[str] = ..., task_epilog: _Optional[str] = ..., prolog_flags: _Optional[_Iterable[str]] = ..., prolog_epilog_timeout_s: _Optional[int] = ..., health_check_program: _Optional[str] = ..., health_check_interval_s: _Optional[int] = ..., health_check_node_state: _Optional[str] = ..., reboot_program: _Optional[str] = ..., unkillable_step_program: _Optional[str] = ..., acct_gather_frequency_s: _Optional[int] = ..., acct_gather_type: _Optional[str] = ..., cgroup: _Optional[_Union[CgroupSettings, _Mapping]] = ..., private_tmp: _Optional[str] = ..., allow_new_privs: bool = ..., use_pam: bool = ..., mpi_default: _Optional[str] = ..., task_plugin: _Optional[str] = ..., kill_wait_s: _Optional[int] = ..., private_tmp_folders: _Optional[_Iterable[str]] = ..., devices: _Optional[_Iterable[_Union[NodeDevice, _Mapping]]] = ..., gpu: _Optional[_Union[GpuSettings, _Mapping]] = ..., metrics: _Optional[_Union[MetricsSettings, _Mapping]] = ..., log_file: _Optional[str] = ..., log_format: _Optional[str] = ..., log_level: _Optional[str] = ..., slurm_conf: _Optional[str] = ..., profile_every_s: _Optional[int] = ..., hang_after_s: _Optional[int] = ..., hang_signal: _Optional[int] = ..., hang_grace_s: _Optional[int] = ..., debug_flags: _Optional[_Iterable[str]] = ...) -> None: ...

class MetricsSettings(_message.Message):
    __slots__ = ("port", "addr", "allow", "token_file", "tls", "dcgm_names", "default_account", "hides_jobs")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FILE_FIELD_NUMBER: _ClassVar[int]
    TLS_FIELD_NUMBER: _ClassVar[int]
    DCGM_NAMES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    HIDES_JOBS_FIELD_NUMBER: _ClassVar[int]
    port: int
    addr: str
    allow: _containers.RepeatedScalarFieldContainer[str]
    token_file: str
    tls: bool
    dcgm_names: bool
    default_account: str
    hides_jobs: bool
    def __init__(self, port: _Optional[int] = ..., addr: _Optional[str] = ..., allow: _Optional[_Iterable[str]] = ..., token_file: _Optional[str] = ..., tls: bool = ..., dcgm_names: bool = ..., default_account: _Optional[str] = ..., hides_jobs: bool = ...) -> None: ...

class GpuSettings(_message.Message):
    __slots__ = ("read_only", "detect", "env", "env_uuid", "xids", "lost_drains_node", "poll_s", "check_program", "reset_program", "idle_warn_s", "idle_percent", "job_map_dir", "accounting_mode", "mps_program")
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    DETECT_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ENV_UUID_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    LOST_DRAINS_NODE_FIELD_NUMBER: _ClassVar[int]
    POLL_S_FIELD_NUMBER: _ClassVar[int]
    CHECK_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    RESET_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    IDLE_WARN_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    JOB_MAP_DIR_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTING_MODE_FIELD_NUMBER: _ClassVar[int]
    MPS_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    read_only: bool
    detect: str
    env: _containers.RepeatedScalarFieldContainer[str]
    env_uuid: bool
    xids: _containers.RepeatedCompositeFieldContainer[XidRule]
    lost_drains_node: bool
    poll_s: int
    check_program: str
    reset_program: str
    idle_warn_s: int
    idle_percent: int
    job_map_dir: str
    accounting_mode: bool
    mps_program: str
    def __init__(self, read_only: bool = ..., detect: _Optional[str] = ..., env: _Optional[_Iterable[str]] = ..., env_uuid: bool = ..., xids: _Optional[_Iterable[_Union[XidRule, _Mapping]]] = ..., lost_drains_node: bool = ..., poll_s: _Optional[int] = ..., check_program: _Optional[str] = ..., reset_program: _Optional[str] = ..., idle_warn_s: _Optional[int] = ..., idle_percent: _Optional[int] = ..., job_map_dir: _Optional[str] = ..., accounting_mode: bool = ..., mps_program: _Optional[str] = ...) -> None: ...

class XidRule(_message.Message):
    __slots__ = ("xid", "class_name")
    XID_FIELD_NUMBER: _ClassVar[int]
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    xid: int
    class_name: str
    def __init__(self, xid: _Optional[int] = ..., class_name: _Optional[str] = ...) -> None: ...

class MigLayout(_message.Message):
    __slots__ = ("profiles",)
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, profiles: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeDevice(_message.Message):
    __slots__ = ("name", "index", "file")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    index: int
    file: str
    def __init__(self, name: _Optional[str] = ..., index: _Optional[int] = ..., file: _Optional[str] = ...) -> None: ...

class CgroupSettings(_message.Message):
    __slots__ = ("constrain_cores", "constrain_ram", "constrain_swap", "constrain_devices", "allowed_ram_percent", "allowed_swap_percent", "min_ram_mb", "max_ram_percent", "max_swap_percent", "plugin", "pids_max", "signal_children", "fence_where_able")
    CONSTRAIN_CORES_FIELD_NUMBER: _ClassVar[int]
    CONSTRAIN_RAM_FIELD_NUMBER: _ClassVar[int]
    CONSTRAIN_SWAP_FIELD_NUMBER: _ClassVar[int]
    CONSTRAIN_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_RAM_PERCENT_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_SWAP_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MIN_RAM_MB_FIELD_NUMBER: _ClassVar[int]
    MAX_RAM_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MAX_SWAP_PERCENT_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    PIDS_MAX_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    FENCE_WHERE_ABLE_FIELD_NUMBER: _ClassVar[int]
    constrain_cores: bool
    constrain_ram: bool
    constrain_swap: bool
    constrain_devices: bool
    allowed_ram_percent: float
    allowed_swap_percent: float
    min_ram_mb: int
    max_ram_percent: float
    max_swap_percent: float
    plugin: str
    pids_max: int
    signal_children: bool
    fence_where_able: bool
    def __init__(self, constrain_cores: bool = ..., constrain_ram: bool = ..., constrain_swap: bool = ..., constrain_devices: bool = ..., allowed_ram_percent: _Optional[float] = ..., allowed_swap_percent: _Optional[float] = ..., min_ram_mb: _Optional[int] = ..., max_ram_percent: _Optional[float] = ..., max_swap_percent: _Optional[float] = ..., plugin: _Optional[str] = ..., pids_max: _Optional[int] = ..., signal_children: bool = ..., fence_where_able: bool = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("cpu_load_centi", "free_memory_mb", "at_us", "wall_at_us", "gpus")
    CPU_LOAD_CENTI_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    WALL_AT_US_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpu_load_centi: int
    free_memory_mb: int
    at_us: int
    wall_at_us: int
    gpus: GpuReadings
    def __init__(self, cpu_load_centi: _Optional[int] = ..., free_memory_mb: _Optional[int] = ..., at_us: _Optional[int] = ..., wall_at_us: _Optional[int] = ..., gpus: _Optional[_Union[GpuReadings, _Mapping]] = ...) -> None: ...

class GpuReadings(_message.Message):
    __slots__ = ("at_us", "gpus")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuReading]
    def __init__(self, at_us: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuReading, _Mapping]]] = ...) -> None: ...

class GpuReading(_message.Message):
    __slots__ = ("index", "utilization_percent", "memory_used_mb", "power_w", "temperature_c", "ecc_corrected", "ecc_uncorrected")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_MB_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    ECC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    ECC_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
    index: int
    utilization_percent: int
    memory_used_mb: int
    power_w: int
    temperature_c: int
    ecc_corrected: int
    ecc_uncorrected: int
    def __init__(self, index: _Optional[int] = ..., utilization_percent: _Optional[int] = ..., memory_used_mb: _Optional[int] = ..., power_w: _Optional[int] = ..., temperature_c: _Optional[int] = ..., ecc_corrected: _Optional[int] = ..., ecc_uncorrected: _Optional[int] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("at_us",)
    AT_US_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    def __init__(self, at_us: _Optional[int] = ...) -> None: ...

class Farewell(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OutputTicket(_message.Message):
    __slots__ = ("job_id", "number", "user_id", "group_id", "user_name", "std_out", "std_err", "io_key")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    IO_KEY_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    number: int
    user_id: int
    group_id: int
    user_name: str
    std_out: bytes
    std_err: bytes
    io_key: bytes
    def __init__(self, job_id: _Optional[int] = ..., number: _Optional[int] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[str] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., io_key: _Optional[bytes] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("epoch", "sequence", "launch", "signal", "terminate", "forget", "suspend", "notify", "reboot", "gpu_work", "clear_gpu", "return_gpus")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TERMINATE_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    REBOOT_FIELD_NUMBER: _ClassVar[int]
    GPU_WORK_FIELD_NUMBER: _ClassVar[int]
    CLEAR_GPU_FIELD_NUMBER: _ClassVar[int]
    RETURN_GPUS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    sequence: int
    launch: LaunchStep
    signal: SignalStep
    terminate: TerminateStep
    forget: ForgetStep
    suspend: SuspendStep
    notify: NotifyStep
    reboot: RebootNode
    gpu_work: GpuWork
    clear_gpu: ClearGpu
    return_gpus: ReturnGpus
    def __init__(self, epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., launch: _Optional[_Union[LaunchStep, _Mapping]] = ..., signal: _Optional[_Union[SignalStep, _Mapping]] = ..., terminate: _Optional[_Union[TerminateStep, _Mapping]] = ..., forget: _Optional[_Union[ForgetStep, _Mapping]] = ..., suspend: _Optional[_Union[SuspendStep, _Mapping]] = ..., notify: _Optional[_Union[NotifyStep, _Mapping]] = ..., reboot: _Optional[_Union[RebootNode, _Mapping]] = ..., gpu_work: _Optional[_Union[GpuWork, _Mapping]] = ..., clear_gpu: _Optional[_Union[ClearGpu, _Mapping]] = ..., return_gpus: _Optional[_Union[ReturnGpus, _Mapping]] = ...) -> None: ...

class CommandAck(_message.Message):
    __slots__ = ("sequence", "refused")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: str
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[str] = ...) -> None: ...

class LaunchStep(_message.Message):
    __slots__ = ("key", "user_id", "group_id", "user_name", "facts", "spec", "work_dir", "std_out", "std_err", "std_in", "open_append", "rlimits", "umask", "allocation", "node_index", "group_name", "step", "io_key", "holder", "lease_s", "lease_grace_s", "allow_new_privs", "job_allocation", "oom_kill_step", "login_environment", "acct_gather_frequency_s", "no_profile", "span")
    class RlimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_NAME_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WORK_DIR_FIELD_NUMBER: _ClassVar[int]
    STD_OUT_FIELD_NUMBER: _ClassVar[int]
    STD_ERR_FIELD_NUMBER: _ClassVar[int]
    STD_IN_FIELD_NUMBER: _ClassVar[int]
    OPEN_APPEND_FIELD_NUMBER: _ClassVar[int]
    RLIMITS_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    IO_KEY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    ALLOW_NEW_PRIVS_FIELD_NUMBER: _ClassVar[int]
    JOB_ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    OOM_KILL_STEP_FIELD_NUMBER: _ClassVar[int]
    LOGIN_ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ACCT_GATHER_FREQUENCY_S_FIELD_NUMBER: _ClassVar[int]
    NO_PROFILE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    user_id: int
    group_id: int
    user_name: str
    facts: JobFacts
    spec: _common_pb2.JobSpec
    work_dir: bytes
    std_out: bytes
    std_err: bytes
    std_in: bytes
    open_append: bool
    rlimits: _containers.ScalarMap[str, int]
    umask: int
    allocation: _common_pb2.NodeAllocation
    node_index: int
    group_name: str
    step: StepLaunch
    io_key: bytes
    holder: HolderLaunch
    lease_s: int
    lease_grace_s: int
    allow_new_privs: bool
    job_allocation: _common_pb2.NodeAllocation
    oom_kill_step: bool
    login_environment: bool
    acct_gather_frequency_s: int
    no_profile: bool
    span: bytes
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., user_id: _Optional[int] = ..., group_id: _Optional[int] = ..., user_name: _Optional[str] = ..., facts: _Optional[_Union[JobFacts, _Mapping]] = ..., spec: _Optional[_Union[_common_pb2.JobSpec, _Mapping]] = ..., work_dir: _Optional[bytes] = ..., std_out: _Optional[bytes] = ..., std_err: _Optional[bytes] = ..., std_in: _Optional[bytes] = ..., open_append: bool = ..., rlimits: _Optional[_Mapping[str, int]] = ..., umask: _Optional[int] = ..., allocation: _Optional[_Union[_common_pb2.NodeAllocation, _Mapping]] = ..., node_index: _Optional[int] = ..., group_name: _Optional[str] = ..., step: _Optional[_Union[StepLaunch, _Mapping]] = ..., io_key: _Optional[bytes] = ..., holder: _Optional[_Union[HolderLaunch, _Mapping]] = ..., lease_s: _Optional[int] = ..., lease_grace_s: _Optional[int] = ..., allow_new_privs: bool = ..., job_allocation: _Optional[_Union[_common_pb2.NodeAllocation, _Mapping]] = ..., oom_kill_step: bool = ..., login_environment: bool = ..., acct_gather_frequency_s: _Optional[int] = ..., no_profile: bool = ..., span: _Optional[bytes] = ...) -> None: ...

class StepLaunch(_message.Message):
    __slots__ = ("spec", "plan", "node_index")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    spec: _steps_pb2.StepSpec
    plan: _steps_pb2.StepPlan
    node_index: int
    def __init__(self, spec: _Optional[_Union[_steps_pb2.StepSpec, _Mapping]] = ..., plan: _Optional[_Union[_steps_pb2.StepPlan, _Mapping]] = ..., node_index: _Optional[int] = ...) -> None: ...

class HolderLaunch(_message.Message):
    __slots__ = ("run_prolog", "run_epilog", "is_batch_node", "environment")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_PROLOG_FIELD_NUMBER: _ClassVar[int]
    RUN_EPILOG_FIELD_NUMBER: _ClassVar[int]
    IS_BATCH_NODE_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    run_prolog: bool
    run_epilog: bool
    is_batch_node: bool
    environment: _containers.ScalarMap[str, str]
    def __init__(self, run_prolog: bool = ..., run_epilog: bool = ..., is_batch_node: bool = ..., environment: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobFacts(_message.Message):
    __slots__ = ("cluster_name", "job_name", "partition", "account", "qos", "array_job_id", "array_task_id", "array_task_count", "array_task_min", "array_task_max", "array_task_step", "node_list", "nodes", "ntasks", "cpus_per_task", "ntasks_per_node", "mem_per_node_mb", "mem_per_cpu_mb", "start_at_us", "end_at_us", "restart_count", "submit_dir", "submit_host", "dependency", "reservation", "licenses", "gpus_per_node", "export_env", "comment", "topology_addr", "topology_pattern", "het_job_id", "het_offset", "het_size", "more", "distribution", "mem_per_gpu_mb", "ntasks_per_gpu", "cpus_per_gpu", "gpus", "gpus_per_task", "master_host", "master_port", "kind", "node_runs", "trace_parent", "exclusive", "oversubscribe")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_MIN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_MAX_FIELD_NUMBER: _ClassVar[int]
    ARRAY_TASK_STEP_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NTASKS_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_NODE_MB_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_CPU_MB_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIR_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_HOST_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    LICENSES_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    EXPORT_ENV_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_ADDR_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_PATTERN_FIELD_NUMBER: _ClassVar[int]
    HET_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HET_SIZE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    MEM_PER_GPU_MB_FIELD_NUMBER: _ClassVar[int]
    NTASKS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    CPUS_PER_GPU_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    MASTER_HOST_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_RUNS_FIELD_NUMBER: _ClassVar[int]
    TRACE_PARENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    OVERSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    job_name: str
    partition: str
    account: str
    qos: str
    array_job_id: int
    array_task_id: int
    array_task_count: int
    array_task_min: int
    array_task_max: int
    array_task_step: int
    node_list: str
    nodes: _containers.RepeatedCompositeFieldContainer[_common_pb2.NodeAllocation]
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_per_node_mb: int
    mem_per_cpu_mb: int
    start_at_us: int
    end_at_us: int
    restart_count: int
    submit_dir: bytes
    submit_host: str
    dependency: str
    reservation: str
    licenses: str
    gpus_per_node: str
    export_env: str
    comment: str
    topology_addr: str
    topology_pattern: str
    het_job_id: int
    het_offset: int
    het_size: int
    more: _containers.RepeatedScalarFieldContainer[bytes]
    distribution: str
    mem_per_gpu_mb: int
    ntasks_per_gpu: int
    cpus_per_gpu: int
    gpus: str
    gpus_per_task: str
    master_host: str
    master_port: int
    kind: str
    node_runs: _containers.RepeatedCompositeFieldContainer[NodeRun]
    trace_parent: str
    exclusive: str
    oversubscribe: str
    def __init__(self, cluster_name: _Optional[str] = ..., job_name: _Optional[str] = ..., partition: _Optional[str] = ..., account: _Optional[str] = ..., qos: _Optional[str] = ..., array_job_id: _Optional[int] = ..., array_task_id: _Optional[int] = ..., array_task_count: _Optional[int] = ..., array_task_min: _Optional[int] = ..., array_task_max: _Optional[int] = ..., array_task_step: _Optional[int] = ..., node_list: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[_common_pb2.NodeAllocation, _Mapping]]] = ..., ntasks: _Optional[int] = ..., cpus_per_task: _Optional[int] = ..., ntasks_per_node: _Optional[int] = ..., mem_per_node_mb: _Optional[int] = ..., mem_per_cpu_mb: _Optional[int] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., restart_count: _Optional[int] = ..., submit_dir: _Optional[bytes] = ..., submit_host: _Optional[str] = ..., dependency: _Optional[str] = ..., reservation: _Optional[str] = ..., licenses: _Optional[str] = ..., gpus_per_node: _Optional[str] = ..., export_env: _Optional[str] = ..., comment: _Optional[str] = ..., topology_addr: _Optional[str] = ..., topology_pattern: _Optional[str] = ..., het_job_id: _Optional[int] = ..., het_offset: _Optional[int] = ..., het_size: _Optional[int] = ..., more: _Optional[_Iterable[bytes]] = ..., distribution: _Optional[str] = ..., mem_per_gpu_mb: _Optional[int] = ..., ntasks_per_gpu: _Optional[int] = ..., cpus_per_gpu: _Optional[int] = ..., gpus: _Optional[str] = ..., gpus_per_task: _Optional[str] = ..., master_host: _Optional[str] = ..., master_port: _Optional[int] = ..., kind: _Optional[str] = ..., node_runs: _Optional[_Iterable[_Union[NodeRun, _Mapping]]] = ..., trace_parent: _Optional[str] = ..., exclusive: _Optional[str] = ..., oversubscribe: _Optional[str] = ...) -> None: ...

class NodeRun(_message.Message):
    __slots__ = ("cpus", "tasks", "count")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    tasks: int
    count: int
    def __init__(self, cpus: _Optional[int] = ..., tasks: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class SignalStep(_message.Message):
    __slots__ = ("key", "signal", "batch_only", "full")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    BATCH_ONLY_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    signal: int
    batch_only: bool
    full: bool
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., signal: _Optional[int] = ..., batch_only: bool = ..., full: bool = ...) -> None: ...

class TerminateStep(_message.Message):
    __slots__ = ("key", "grace_ms", "note")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    grace_ms: int
    note: str
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., grace_ms: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class SuspendStep(_message.Message):
    __slots__ = ("key", "suspended", "grace_ms", "cpu_ids", "job_cpu_ids")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_IDS_FIELD_NUMBER: _ClassVar[int]
    JOB_CPU_IDS_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    suspended: bool
    grace_ms: int
    cpu_ids: bytes
    job_cpu_ids: bytes
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., suspended: bool = ..., grace_ms: _Optional[int] = ..., cpu_ids: _Optional[bytes] = ..., job_cpu_ids: _Optional[bytes] = ...) -> None: ...

class ForgetStep(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ...) -> None: ...

class NotifyStep(_message.Message):
    __slots__ = ("key", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    text: str
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class RebootNode(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class GpuWork(_message.Message):
    __slots__ = ("work_id", "kind", "uuid", "layout", "timeout_s")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[GpuWork.Kind]
        CHECK: _ClassVar[GpuWork.Kind]
        RESET: _ClassVar[GpuWork.Kind]
        DIVIDE: _ClassVar[GpuWork.Kind]
    NONE: GpuWork.Kind
    CHECK: GpuWork.Kind
    RESET: GpuWork.Kind
    DIVIDE: GpuWork.Kind
    WORK_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    work_id: str
    kind: GpuWork.Kind
    uuid: str
    layout: MigLayout
    timeout_s: int
    def __init__(self, work_id: _Optional[str] = ..., kind: _Optional[_Union[GpuWork.Kind, str]] = ..., uuid: _Optional[str] = ..., layout: _Optional[_Union[MigLayout, _Mapping]] = ..., timeout_s: _Optional[int] = ...) -> None: ...

class ClearGpu(_message.Message):
    __slots__ = ("uuid",)
    UUID_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    def __init__(self, uuid: _Optional[str] = ...) -> None: ...

class ReturnGpus(_message.Message):
    __slots__ = ("key", "uuid")
    KEY_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    uuid: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., uuid: _Optional[_Iterable[str]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("boot_id", "sequence", "started", "exited", "notice", "gpus", "gpu_work_done", "gpu_idle", "profile", "spool_id")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    EXITED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_WORK_DONE_FIELD_NUMBER: _ClassVar[int]
    GPU_IDLE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SPOOL_ID_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    sequence: int
    started: StepStarted
    exited: StepExited
    notice: NodeNotice
    gpus: GpuReport
    gpu_work_done: GpuWorkDone
    gpu_idle: GpuIdle
    profile: StepProfile
    spool_id: str
    def __init__(self, boot_id: _Optional[str] = ..., sequence: _Optional[int] = ..., started: _Optional[_Union[StepStarted, _Mapping]] = ..., exited: _Optional[_Union[StepExited, _Mapping]] = ..., notice: _Optional[_Union[NodeNotice, _Mapping]] = ..., gpus: _Optional[_Union[GpuReport, _Mapping]] = ..., gpu_work_done: _Optional[_Union[GpuWorkDone, _Mapping]] = ..., gpu_idle: _Optional[_Union[GpuIdle, _Mapping]] = ..., profile: _Optional[_Union[StepProfile, _Mapping]] = ..., spool_id: _Optional[str] = ...) -> None: ...

class GpuReport(_message.Message):
    __slots__ = ("at_us", "health", "action", "jobs", "cause", "inventory")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[GpuReport.Action]
        NOTE: _ClassVar[GpuReport.Action]
        MARK: _ClassVar[GpuReport.Action]
        END: _ClassVar[GpuReport.Action]
    NONE: GpuReport.Action
    NOTE: GpuReport.Action
    MARK: GpuReport.Action
    END: GpuReport.Action
    AT_US_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    health: _containers.RepeatedCompositeFieldContainer[GpuHealth]
    action: GpuReport.Action
    jobs: _containers.RepeatedCompositeFieldContainer[StepKey]
    cause: str
    inventory: Inventory
    def __init__(self, at_us: _Optional[int] = ..., health: _Optional[_Iterable[_Union[GpuHealth, _Mapping]]] = ..., action: _Optional[_Union[GpuReport.Action, str]] = ..., jobs: _Optional[_Iterable[_Union[StepKey, _Mapping]]] = ..., cause: _Optional[str] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ...) -> None: ...

class GpuWorkDone(_message.Message):
    __slots__ = ("work_id", "uuid", "ok", "text", "inventory", "untried")
    WORK_ID_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    UNTRIED_FIELD_NUMBER: _ClassVar[int]
    work_id: str
    uuid: str
    ok: bool
    text: str
    inventory: Inventory
    untried: bool
    def __init__(self, work_id: _Optional[str] = ..., uuid: _Optional[str] = ..., ok: bool = ..., text: _Optional[str] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., untried: bool = ...) -> None: ...

class GpuIdle(_message.Message):
    __slots__ = ("key", "uuid", "since_us", "over", "unused")
    KEY_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    uuid: _containers.RepeatedScalarFieldContainer[str]
    since_us: int
    over: bool
    unused: bool
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., uuid: _Optional[_Iterable[str]] = ..., since_us: _Optional[int] = ..., over: bool = ..., unused: bool = ...) -> None: ...

class NodeNotice(_message.Message):
    __slots__ = ("at_us", "reason", "drain", "key", "fail", "clear", "signal")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    reason: str
    drain: bool
    key: StepKey
    fail: bool
    clear: bool
    signal: int
    def __init__(self, at_us: _Optional[int] = ..., reason: _Optional[str] = ..., drain: bool = ..., key: _Optional[_Union[StepKey, _Mapping]] = ..., fail: bool = ..., clear: bool = ..., signal: _Optional[int] = ...) -> None: ...

class StepStarted(_message.Message):
    __slots__ = ("key", "at_us", "pid")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    at_us: int
    pid: int
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., at_us: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class StepExited(_message.Message):
    __slots__ = ("key", "start_at_us", "end_at_us", "exit", "failure", "out_of_memory", "usage", "untried", "rebooted", "holder_stage", "tasks", "lease_lapsed", "task_ends", "task_ends_left_out")
    KEY_FIELD_NUMBER: _ClassVar[int]
    START_AT_US_FIELD_NUMBER: _ClassVar[int]
    END_AT_US_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    UNTRIED_FIELD_NUMBER: _ClassVar[int]
    REBOOTED_FIELD_NUMBER: _ClassVar[int]
    HOLDER_STAGE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LEASE_LAPSED_FIELD_NUMBER: _ClassVar[int]
    TASK_ENDS_FIELD_NUMBER: _ClassVar[int]
    TASK_ENDS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    start_at_us: int
    end_at_us: int
    exit: _common_pb2.ExitStatus
    failure: str
    out_of_memory: bool
    usage: _common_pb2.Usage
    untried: bool
    rebooted: bool
    holder_stage: str
    tasks: _containers.RepeatedCompositeFieldContainer[TaskExit]
    lease_lapsed: bool
    task_ends: _containers.RepeatedCompositeFieldContainer[_common_pb2.TaskEnds]
    task_ends_left_out: int
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., start_at_us: _Optional[int] = ..., end_at_us: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ..., failure: _Optional[str] = ..., out_of_memory: bool = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping]] = ..., untried: bool = ..., rebooted: bool = ..., holder_stage: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[TaskExit, _Mapping]]] = ..., lease_lapsed: bool = ..., task_ends: _Optional[_Iterable[_Union[_common_pb2.TaskEnds, _Mapping]]] = ..., task_ends_left_out: _Optional[int] = ...) -> None: ...

class StepProfile(_message.Message):
    __slots__ = ("key", "profile")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    key: StepKey
    profile: bytes
    def __init__(self, key: _Optional[_Union[StepKey, _Mapping]] = ..., profile: _Optional[bytes] = ...) -> None: ...

class TaskExit(_message.Message):
    __slots__ = ("rank", "exit")
    RANK_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    exit: _common_pb2.ExitStatus
    def __init__(self, rank: _Optional[int] = ..., exit: _Optional[_Union[_common_pb2.ExitStatus, _Mapping]] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("through_sequence", "spool_id")
    THROUGH_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPOOL_ID_FIELD_NUMBER: _ClassVar[int]
    through_sequence: int
    spool_id: str
    def __init__(self, through_sequence: _Optional[int] = ..., spool_id: _Optional[str] = ...) -> None: ...
