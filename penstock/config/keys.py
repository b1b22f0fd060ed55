"""The table of parameters: what Penstock reads, what it knows and ignores, and what Slurm shows for each.

One `Key` per parameter and one `Table` per kind of line. A key with a `kind` is supported: its value lands in `field`
of the record that the line makes. A key without is known to Slurm and not used: it draws one warning, unless its
value is one of `accepted`, which say what Penstock does anyway. A key in no table is an error. `shown` is Slurm's own
default, for `scontrol show config`; with `fixed` it is shown whatever the file says, because tools decide by it what
they may use.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache

from penstock.config import kinds
from penstock.config.kinds import Kind

#: The longest name that is compared with the known ones; none is half as long.
KEY_CHARS_MAX = 64

#: `show config` prints nothing of these, not even whether they are set.
SECRET = frozenset({"accountingstoragepass", "jobcomppass"})


@dataclass(frozen=True, slots=True)
class Key:
    """One parameter."""

    name: str
    field: str = ""
    kind: Kind | None = None
    shown: str | None = "(null)"
    accepted: tuple[str, ...] = ()
    fixed: bool = False
    note: Callable[[str], str] | None = None
    several: bool = False  # given more than once, the values are added up


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The parameters of one kind of line. `what` names it in messages.

    `instead` lists fields that say the same in two ways: what a line says takes the place of these in its defaults.
    """

    what: str
    keys: tuple[Key, ...]
    aliases: dict[str, str] = field(default_factory=dict)
    instead: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_name: dict[str, Key] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name.update({key.name.lower(): key for key in self.keys})
        self.by_name.update({alias: self.by_name[name.lower()] for alias, name in self.aliases.items()})

    def find(self, name: str) -> Key | None:
        """The parameter of that name or older name, in any case."""
        return self.by_name.get(name.lower())

    def fields(self) -> dict[str, Key]:
        """The supported parameters by the field that they fill."""
        return {key.field: key for key in self.keys if key.kind is not None}


def _range_note(text: str) -> str:
    return "only the first port of the range is used" if "-" in text else ""


#: Words of SlurmctldParameters that have an effect: the limits of requests by user (ctld/rpc/ratelimit.py).
_CONTROLLER_PARAMETERS = frozenset(
    [
        "rl_enable",
        "rl_bucket_size",
        "rl_refill_rate",
        "rl_refill_period",
        "rl_table_size",
        "rl_log_freq",
        "allow_user_triggers",
    ]
)


def _parameters_note(text: str) -> str:
    words = (word.partition("=")[0].strip() for word in text.split(","))
    unused = [word for word in words if word and word.lower() not in _CONTROLLER_PARAMETERS]
    return f"not used: {', '.join(unused)}" if unused else ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _ignored(text: str) -> tuple[Key, ...]:
    """Keys known and not used, from words `Name` or `Name=what Slurm shows` (`~` stands for a space)."""
    pairs = (word.partition("=") for word in text.split())
    return tuple(Key(name, shown=value.replace("~", " ") if sep else "(null)") for name, sep, value in pairs)


def _unshown(text: str) -> tuple[Key, ...]:
    """Keys known and not used that `show config` does not print unless they are set."""
    return tuple(Key(name, shown=None) for name in text.split())


def _fixed(name: str, shown: str, *accepted: str) -> Key:
    return Key(name, shown=shown, accepted=(shown, *accepted), fixed=True)


_RLIMITS = ("ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
_SELECT_PARAMETERS = _words(
    "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_BOARD CR_BOARD_MEMORY CR_LLN "
    "CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_PACK_NODES CR_OTHER_CONS_RES CR_OTHER_CONS_TRES LL_SHARED_GRES "
    "ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES MULTIPLE_SHARING_GRES_PJ PENSTOCK_BEST_FIT PENSTOCK_FGD PENSTOCK_STEER"
)

_PROLOG_FLAGS = _words(
    "Alloc Contain DeferBatch ForceRequeueOnFail NoHold RunInJob Serial X11"  # words of other case are taken, too
)
_HEALTH_STATES = _words("ANY ALLOC CYCLE IDLE MIXED NONDRAINED_IDLE START_ONLY")

#: What surrounds jobs on their nodes.
_SITE_PROGRAMS = (
    Key("Prolog", "prolog", kinds.PATTERNS, several=True),
    Key("Epilog", "epilog", kinds.PATTERNS, several=True),
    Key("PrologSlurmctld", "prolog_slurmctld", kinds.PATTERNS, several=True),
    Key("EpilogSlurmctld", "epilog_slurmctld", kinds.PATTERNS, several=True),
    Key("TaskProlog", "task_prolog", kinds.OPTIONAL_PATH),
    Key("TaskEpilog", "task_epilog", kinds.OPTIONAL_PATH),
    Key("PrologFlags", "prolog_flags", kinds.choices(*_PROLOG_FLAGS)),
    Key("PrologEpilogTimeout", "prolog_epilog_timeout_s", kinds.SCRIPT_TIMEOUT),
    Key("PenstockPrologFailDrains", "prolog_fail_drains", kinds.BOOL),
    Key("HealthCheckProgram", "health_check_program", kinds.OPTIONAL_PATH),
    Key("HealthCheckInterval", "health_check_interval_s", kinds.seconds(0, 65533)),
    Key("HealthCheckNodeState", "health_check_node_state", kinds.joined_choices(*_HEALTH_STATES)),
    Key("RebootProgram", "reboot_program", kinds.OPTIONAL_PATH),
    Key("ResumeTimeout", "resume_timeout_s", kinds.seconds(1, 65533)),
    Key("JobContainerType", "job_container_type", kinds.choice("job_container/tmpfs", "job_container/none")),
    Key("NamespaceType", "namespace_type", kinds.choice("namespace/tmpfs", "namespace/none")),
    Key("PenstockPrivateTmp", "private_tmp", kinds.OPTIONAL_PATH),
    Key("PenstockPrivateTmpDirs", "private_tmp_folders", kinds.PATHS),
    Key("PenstockAllowNewPrivs", "allow_new_privs", kinds.BOOL),
    Key("UsePAM", "use_pam", kinds.YES_NO),
)

_GPUS = (
    Key("PenstockGpuSettings", "gpu_settings", kinds.choice("read-write", "read-only")),
    Key("PenstockGpuPollSeconds", "gpu_poll_s", kinds.seconds(1, 3600)),
    Key("PenstockXidFile", "gpu_xid_file", kinds.XID_FILE),
    Key("PenstockGpuLostDrainsNode", "gpu_lost_drains_node", kinds.BOOL),
    Key("PenstockGpuCheckProgram", "gpu_check_program", kinds.OPTIONAL_PATH),
    Key("PenstockGpuCheckInterval", "gpu_check_interval_h", kinds.integer(0, 8760)),
    Key("PenstockGpuResetProgram", "gpu_reset_program", kinds.OPTIONAL_PATH),
    Key("PenstockGpuIdleWarn", "gpu_idle_warn_s", kinds.seconds(0)),
    Key("PenstockGpuIdleLimit", "gpu_idle_limit_s", kinds.seconds(0)),
    Key("PenstockGpuIdleAction", "gpu_idle_action", kinds.choice("warn", "cancel", "return")),
    Key("PenstockGpuIdlePercent", "gpu_idle_percent", kinds.integer(1, 100)),
    Key("PenstockGpuJobMapDir", "gpu_job_map_dir", kinds.OPTIONAL_PATH),
    Key("PenstockMigPauseSeconds", "mig_pause_s", kinds.seconds(1, 86400)),
    Key("PenstockGpuAccountingMode", "gpu_accounting_mode", kinds.BOOL),
    Key("PenstockMpsProgram", "mps_program", kinds.PROGRAM),
)

_SUPPORTED_GLOBALS = (
    *_SITE_PROGRAMS,
    *_GPUS,
    Key("ClusterName", "cluster_name", kinds.CLUSTER_NAME),
    # may stand several times and hold an address, so the loader reads it
    Key("SlurmctldHost", "controller_host", kinds.TEXT),
    Key("SlurmctldPort", "slurmctld_port", kinds.FIRST_PORT, note=_range_note),
    Key("SlurmdPort", "slurmd_port", kinds.PORT),
    Key("PenstockNodePort", "penstock_node_port", kinds.PORT),
    Key("SlurmUser", "slurm_user", kinds.NAME),
    Key("StateSaveLocation", "state_save_location", kinds.PATH),
    Key("SlurmdSpoolDir", "slurmd_spool_dir", kinds.PATH),
    Key("PenstockDatabaseUrl", "penstock_database_url", kinds.URL),
    Key("PenstockOperators", "penstock_operators", kinds.NAMES),
    Key("PenstockAdministrators", "penstock_administrators", kinds.NAMES),
    Key("PenstockNodeFailPolicy", "node_fail_policy", kinds.choice("requeue", "stop", "keep")),
    Key("PenstockLeaseTime", "lease_time_s", kinds.lease),
    Key("PenstockFenceProgram", "fence_program", kinds.PATH),
    Key("PenstockFenceTimeout", "fence_timeout_s", kinds.seconds(1, 65533)),
    Key("PenstockBackfill", "penstock_backfill", kinds.BACKFILL),
    Key("PenstockBackfillEstimate", "penstock_backfill_estimate", kinds.BOOL),
    Key("PenstockBackfillOrder", "penstock_backfill_order", kinds.choice("priority", "shortest", "aged")),
    Key("PenstockBackfillPredictor", "penstock_backfill_predictor", kinds.choice("none", "history")),
    Key("PenstockMaxEnvironmentBytes", "max_environment_bytes", kinds.integer(4096, 64 * 1024 * 1024)),
    Key("SlurmctldLogFile", "slurmctld_log_file", kinds.OPTIONAL_PATH),
    Key("SlurmdLogFile", "slurmd_log_file", kinds.OPTIONAL_PATH),
    Key("SlurmctldTimeout", "slurmctld_timeout_s", kinds.seconds(1, 65533)),
    Key("SlurmdTimeout", "slurmd_timeout_s", kinds.seconds(0, 65533, unlimited=0)),
    Key("MessageTimeout", "message_timeout_s", kinds.seconds(1, 100)),
    Key("KillWait", "kill_wait_s", kinds.seconds(0, 65533)),
    Key("MinJobAge", "min_job_age_s", kinds.seconds(0)),
    Key("InactiveLimit", "inactive_limit_s", kinds.seconds(0, 65533, unlimited=0)),
    Key("MaxJobCount", "max_job_count", kinds.integer(1, 10_000_000)),
    Key("MaxArraySize", "max_array_size", kinds.integer(0, 4_000_001)),
    Key("MaxStepCount", "max_step_count", kinds.integer(1, 1_000_000)),
    Key("MaxTasksPerNode", "max_tasks_per_node", kinds.integer(1, 65_000)),
    Key("MpiParams", "mpi_ports", kinds.MPI_PORTS),
    Key("FirstJobId", "first_job_id", kinds.integer(1, 67_043_328)),
    Key("JobRequeue", "job_requeue", kinds.BOOL_AS_NUMBER),
    Key("MaxBatchRequeue", "max_batch_requeue", kinds.integer(0, 1_000_000)),
    Key("ReturnToService", "return_to_service", kinds.integer(0, 2)),
    Key("GresTypes", "gres_types", kinds.NAMES),
    Key("SelectTypeParameters", "select_type_parameters", kinds.choices(*_SELECT_PARAMETERS)),
    Key("DefMemPerCPU", "def_mem_per_cpu_mb", kinds.MB),
    Key("DefMemPerNode", "def_mem_per_node_mb", kinds.MB),
    Key("MaxMemPerCPU", "max_mem_per_cpu_mb", kinds.MB),
    Key("MaxMemPerNode", "max_mem_per_node_mb", kinds.MB),
    Key("EnforcePartLimits", "enforce_part_limits", kinds.choice("NO", "ANY", "ALL", also={"YES": "ALL"})),
    Key("UnkillableStepTimeout", "unkillable_step_timeout_s", kinds.seconds(1, 65533)),
    Key("UnkillableStepProgram", "unkillable_step_program", kinds.OPTIONAL_PATH),
    Key("TaskPlugin", "task_plugin", kinds.choices("task/affinity", "task/cgroup", "task/none")),
    Key("TaskPluginParam", "task_plugin_param", kinds.TASK_PLUGIN_PARAM),
    Key("JobAcctGatherType", "job_acct_gather_type", kinds.ACCT_GATHER_TYPE),
    Key("JobAcctGatherFrequency", "job_acct_gather_frequency_s", kinds.ACCT_GATHER_FREQUENCY),
    Key("ProctrackType", "proctrack_type", kinds.choice("proctrack/cgroup", "proctrack/linuxproc", "proctrack/pgid")),
    Key("OverTimeLimit", "over_time_limit_s", kinds.MINUTES),
    Key("ResvOverRun", "resv_over_run_s", kinds.MINUTES),
    Key("PropagateResourceLimits", "propagate_resource_limits", kinds.joined_choices(*_RLIMITS)),
    Key("PropagateResourceLimitsExcept", "propagate_resource_limits_except", kinds.joined_choices(*_RLIMITS)),
    Key("TmpFS", "tmp_fs", kinds.PATH),
    Key("PriorityType", "priority_type", kinds.choice("priority/basic", "priority/multifactor")),
    Key("PriorityDecayHalfLife", "priority_decay_half_life_s", kinds.HALF_LIFE),
    Key("PriorityCalcPeriod", "priority_calc_period_s", kinds.PERIOD),
    Key("PriorityFavorSmall", "priority_favor_small", kinds.YES_NO),
    Key("PriorityFlags", "priority_flags", kinds.PRIORITY_FLAGS),
    Key("PriorityMaxAge", "priority_max_age_s", kinds.PERIOD),
    Key(
        "PriorityUsageResetPeriod",
        "priority_usage_reset_period",
        kinds.choice("NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"),
    ),
    Key("PriorityWeightAge", "priority_weight_age", kinds.integer(0)),
    Key("PriorityWeightAssoc", "priority_weight_assoc", kinds.integer(0)),
    Key("PriorityWeightFairShare", "priority_weight_fair_share", kinds.integer(0)),
    Key("PriorityWeightJobSize", "priority_weight_job_size", kinds.integer(0)),
    Key("PriorityWeightPartition", "priority_weight_partition", kinds.integer(0)),
    Key("PriorityWeightQOS", "priority_weight_qos", kinds.integer(0)),
    Key("PriorityWeightTRES", "priority_weight_tres", kinds.TRES_WEIGHTS),
    Key("FairShareDampeningFactor", "fair_share_dampening_factor", kinds.integer(1, 65533)),
    Key("PenstockDefaultAccount", "penstock_default_account", kinds.NAME),
    Key("PrivateData", "private_data", kinds.PRIVATE_DATA),
    Key("SlurmctldParameters", "slurmctld_parameters", kinds.PARAMETERS, note=_parameters_note),
    Key("SchedulerParameters", "scheduler_parameters", kinds.PARAMETERS),
    Key("ScronParameters", "scron_parameters", kinds.PARAMETERS),
    Key("Licenses", "licenses", kinds.LICENSES),
    Key(
        "TopologyPlugin",
        "topology_plugin",
        kinds.choice(
            "topology/flat",
            "topology/tree",
            "topology/block",
            also={"topology/none": "topology/flat", "topology/default": "topology/flat"},
        ),
    ),
    Key("SlurmctldAddr", "controller_addr", kinds.HOST),
    Key("PreemptType", "preempt_type", kinds.choice("preempt/none", "preempt/partition_prio", "preempt/qos")),
    Key("PreemptMode", "preempt_mode", kinds.PREEMPT_MODE),
    Key("PreemptParameters", "preempt_parameters", kinds.PARAMETERS),
    Key("PreemptExemptTime", "preempt_exempt_time_s", kinds.EXEMPT_TIME),
    Key("SchedulerTimeSlice", "sched_time_slice_s", kinds.seconds(5, 65533)),
    Key("LaunchParameters", "launch_parameters", kinds.PARAMETERS),
    Key("InteractiveStepOptions", "interactive_step_options", kinds.TEXT),
    # the default of every partition
    Key("DisableRootJobs", "", kinds.BOOL),
)

_FIXED_GLOBALS = (
    _fixed("AccountingStorageType", "accounting_storage/slurmdbd"),
    _fixed("SelectType", "select/cons_tres", "select/cons_res"),
    _fixed("SchedulerType", "sched/backfill"),
    _fixed("MULTIPLE_SLURMD", "yes", "no"),
)

_IGNORED_GLOBALS = _ignored(
    """
    AccountingStorageBackupHost AccountingStorageEnforce=none AccountingStorageExternalHost
    AccountingStorageHost=localhost AccountingStorageParameters AccountingStoragePort=6819
    AccountingStorageTRES=cpu,mem,energy,node,billing,fs/disk,vmem,pages AccountingStoreFlags AcctGatherEnergyType
    AcctGatherFilesystemType AcctGatherInterconnectType AcctGatherNodeFreq=0~sec AcctGatherProfileType
    AllowSpecResourcesUsage=no AuthAltTypes AuthAltParameters AuthInfo BatchStartTimeout=10~sec
    BcastExclude=/lib,/usr/lib,/lib64,/usr/lib64 BcastParameters BurstBufferType CertgenParameters CertgenType
    CertmgrParameters CertmgrType CliFilterPlugins CliFilterParameters CommunicationParameters CompleteWait=0~sec
    CpuFreqDef=Unknown CpuFreqGovernors=OnDemand,Performance,UserSpace CredType=cred/munge DataParserParameters
    DebugFlags DependencyParameters EioTimeout=60 EpilogMsgTime=2000~usec EpilogTimeout=65534
    FederationParameters GetEnvTimeout=2~sec GpuFreqDef GroupUpdateForce=1
    GroupUpdateTime=600~sec HashPlugin=hash/k12
    HttpParserType JobAcctGatherParams JobCompHost=localhost JobCompLoc JobCompParams JobCompPort=0
    JobCompUser=root JobDefaults JobFileAppend=0 JobSubmitPlugins KillOnBadExit=0
    LogTimeFormat=iso8601_ms MailDomain MailProg=/bin/mail MaxDBDMsgs=0 MaxJobId=67043328
    MaxNodeCount=0 MCSPlugin MCSParameters MetricsType
    NodeFeaturesPlugins PluginDir PlugStackConfig PowerParameters PowerPlugin
    PrEpParameters PrEpPlugins=prep/script PriorityParameters
    PrioritySiteFactorParameters PrioritySiteFactorPlugin
    PrologTimeout=65534 PropagatePrioProcess=0 ReconfigFlags RequeueExit
    RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate=300~nodes/min ResvEpilog
    ResvProlog RoutePlugin
    SlurmctldDebug=info SlurmctldPidFile=/var/run/slurmctld.pid SlurmctldPrimaryOffProg
    SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmdDebug=info SlurmdParameters SlurmdPidFile=/var/run/slurmd.pid
    SlurmdSyslogDebug SlurmdUser=root(0) SlurmSchedLogFile SlurmSchedLogLevel=0 SrunEpilog SrunPortRange=0-0 SrunProlog
    SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate=60~nodes/min
    SuspendTime=INFINITE SuspendTimeout=30~sec SwitchParameters
    TCPTimeout=2~sec TLSParameters TLSType=tls/none TopologyParam TrackWCKey=no
    TreeWidth=16 UrlParserType VSizeFactor=0~percent X11Parameters
    AuthType=auth/munge
    """
)

#: Ignored as well, without a warning for the values that say "nothing".
_NOTHING_GLOBALS = (
    Key("MpiDefault", accepted=("none",)),
    Key("SwitchType", accepted=("switch/none",)),
    Key("JobCompType", accepted=("jobcomp/none",)),
    Key("WaitTime", shown="0 sec", accepted=("0",)),
)

_UNSHOWN_GLOBALS = _unshown(
    """
    AccountingStorageLoc AccountingStoragePass AccountingStorageUser AccountingStoreJobComment BackupAddr
    BackupController CacheGroups CheckpointType CoreSpecPlugin CryptoType DefCpuPerGPU DefMemPerGPU ExtSensorsFreq
    ExtSensorsType FastSchedule JobCheckpointDir JobCompPass JobCompPassScript JobCredentialPrivateKey
    JobCredentialPublicCertificate KeepAliveTime LaunchType MemLimitEnforce PowerAction SallocDefaultCommand
    SchedulerAuth SchedulerPort SchedulerRootFilter SlurmctldPlugstack SlurmdPlugstack
    """
)

GLOBALS = Table(
    "",
    _SUPPORTED_GLOBALS + _FIXED_GLOBALS + _IGNORED_GLOBALS + _NOTHING_GLOBALS + _UNSHOWN_GLOBALS,
    {"controlmachine": "SlurmctldHost", "controladdr": "SlurmctldAddr"},
)

NODES = Table(
    "NodeName",
    (
        Key("NodeName", "name", kinds.RAW),
        Key("NodeHostname", "hostname", kinds.RAW),
        Key("NodeAddr", "addr", kinds.RAW),
        Key("Port", "port", kinds.RAW),
        Key("CPUs", "cpus", kinds.integer(1, 65533)),
        Key("Boards", "boards", kinds.integer(1, 65533)),
        Key("Sockets", "sockets", kinds.integer(1, 65533)),
        Key("SocketsPerBoard", "sockets_per_board", kinds.integer(1, 65533)),
        Key("CoresPerSocket", "cores_per_socket", kinds.integer(1, 65533)),
        Key("ThreadsPerCore", "threads_per_core", kinds.integer(1, 65533)),
        Key("RealMemory", "real_memory_mb", kinds.SIZE_MB),
        Key("TmpDisk", "tmp_disk_mb", kinds.SIZE_MB),
        Key("Gres", "gres", kinds.RAW),
        Key("Feature", "features", kinds.NAMES),
        Key("Weight", "weight", kinds.integer(0)),
        Key(
            "State",
            "state",
            kinds.choice(
                "UNKNOWN",
                "DOWN",
                "DRAIN",
                "FAIL",
                "FAILING",
                "FUTURE",
                "CLOUD",
                also={"IDLE": "UNKNOWN", "EXTERNAL": "FUTURE", "DRAINED": "DRAIN"},
            ),
        ),
        Key("Reason", "reason", kinds.TEXT),
        *_unshown("BcastAddr CoreSpecCount CpuBind CpuSpecList MemSpecLimit Parameters RestrictedCoresPerGPU Topology"),
    ),
    {"features": "Feature", "procs": "CPUs"},
    {"sockets": ("sockets_per_board",), "sockets_per_board": ("sockets",)},
)

_OVER_SUBSCRIBE = kinds.choice("NO", "YES", "EXCLUSIVE", "FORCE")

PARTITIONS = Table(
    "PartitionName",
    (
        Key("PartitionName", "name", kinds.NAME),
        Key("Nodes", "nodes", kinds.RAW),
        Key("Default", "is_default", kinds.BOOL),
        Key("State", "state", kinds.choice("UP", "DOWN", "DRAIN", "INACTIVE")),
        Key("MaxTime", "max_time_s", kinds.DURATION),
        Key("DefaultTime", "default_time_s", kinds.DEFAULT_TIME),
        Key("MinNodes", "min_nodes", kinds.integer(0, 65536)),
        Key("MaxNodes", "max_nodes", kinds.integer_or_unlimited(0, 65536)),
        Key("PriorityTier", "priority_tier", kinds.integer(0, 65533)),
        Key("PriorityJobFactor", "priority_job_factor", kinds.integer(0, 65533)),
        Key("DefMemPerCPU", "def_mem_per_cpu_mb", kinds.MB),
        Key("DefMemPerNode", "def_mem_per_node_mb", kinds.MB),
        Key("MaxMemPerCPU", "max_mem_per_cpu_mb", kinds.MB),
        Key("MaxMemPerNode", "max_mem_per_node_mb", kinds.MB),
        Key("MaxCPUsPerNode", "max_cpus_per_node", kinds.integer_or_unlimited(1, 65533)),
        Key("AllowGroups", "allow_groups", kinds.NAMES_OR_ALL),
        Key("AllowAccounts", "allow_accounts", kinds.NAMES_OR_ALL),
        Key("DenyAccounts", "deny_accounts", kinds.NAMES),
        Key("RootOnly", "root_only", kinds.BOOL),
        Key("DisableRootJobs", "disable_root_jobs", kinds.BOOL),
        Key("Hidden", "hidden", kinds.BOOL),
        Key("OverSubscribe", "over_subscribe", kinds.with_count(_OVER_SUBSCRIBE, "FORCE", "YES")),
        Key("PreemptMode", "preempt_mode", kinds.PREEMPT_MODE),
        Key("GraceTime", "grace_time_s", kinds.GRACE_TIME),
        Key("ExclusiveUser", "exclusive_user", kinds.BOOL),
        Key("LLN", "lln", kinds.BOOL),
        Key("OverTimeLimit", "over_time_limit_s", kinds.MINUTES),
        Key("PenstockAllowNewPrivs", "allow_new_privs", kinds.BOOL),
        Key("TRESBillingWeights", "tres_billing_weights", kinds.TRES_WEIGHTS),
        # older or wider spellings that the loader spreads over the fields above
        Key("Exclusive", "", kinds.choice("NO", "NODE", "USER", "TOPO", also={"YES": "NODE"})),
        Key("Priority", "", kinds.integer(0, 65533)),
        *_unshown(
            "AllocNodes AllowQos Alternate CpuBind DefCpuPerGPU DefMemPerGPU DenyQos ExclusiveTopo "
            "JobDefaults "
            "MaxCPUsPerSocket PowerDownOnIdle QOS ReqResv ResumeTimeout SelectTypeParameters SuspendTime "
            "SuspendTimeout Topology"
        ),
    ),
    {"shared": "OverSubscribe"},
    {
        "Exclusive": ("over_subscribe", "exclusive_user"),
        "Priority": ("priority_tier", "priority_job_factor"),
        "def_mem_per_cpu_mb": ("def_mem_per_node_mb",),
        "def_mem_per_node_mb": ("def_mem_per_cpu_mb",),
        "max_mem_per_cpu_mb": ("max_mem_per_node_mb",),
        "max_mem_per_node_mb": ("max_mem_per_cpu_mb",),
    },
)

NODE_SETS = Table(
    "NodeSet",
    (Key("NodeSet", "name", kinds.NAME), Key("Nodes", "nodes", kinds.RAW), Key("Feature", "feature", kinds.TEXT)),
)

DOWN_NODES = Table(
    "DownNodes",
    (
        Key("DownNodes", "nodes", kinds.RAW),
        Key("State", "state", kinds.choice("DOWN", "DRAIN", "FAIL", "FAILING", "FUTURE", "UNKNOWN")),
        Key("Reason", "reason", kinds.TEXT),
    ),
)

#: Lines of Slurm's front-end systems, which are gone: each is read over with a warning.
FRONTENDS = Table(
    "FrontendName",
    _unshown("FrontendName FrontendAddr AllowGroups AllowUsers DenyGroups DenyUsers Port Reason State"),
)

#: Flags of gres.conf(5).
GRES_FLAGS = _words(
    "nvidia_gpu_env amd_gpu_env intel_gpu_env opencl_env no_gpu_env env_uuid CountOnly one_sharing all_sharing explicit "
    "no_consume"
)
#: Lines of gres.conf. AutoDetect may also stand alone.
GRES = Table(
    "gres.conf",
    (
        Key("NodeName", "nodes", kinds.RAW),
        Key("Name", "name", kinds.TEXT),
        Key("Type", "type", kinds.TEXT),
        Key("Count", "count", kinds.TEXT),
        Key("File", "files", kinds.RAW),
        Key("MultipleFiles", "multiple_files", kinds.RAW),
        Key("AutoDetect", "autodetect", kinds.choice("nvml", "nvidia", "nrt", "rsmi", "oneapi", "full", "off")),
        Key("Cores", "cores", kinds.RAW),
        Key("Links", "links", kinds.RAW),
        Key("PenstockMigLayouts", "mig", kinds.RAW),
        Key("Flags", "flags", kinds.choices(*GRES_FLAGS)),
        *_unshown("Ignore"),
    ),
    {"cpus": "Cores"},
)

#: Keys of cgroup.conf.
CGROUP = Table(
    "cgroup.conf",
    (
        Key("CgroupPlugin", "plugin", kinds.choice("autodetect", "cgroup/v1", "cgroup/v2", "disabled")),
        Key("ConstrainCores", "constrain_cores", kinds.YES_NO_SMALL),
        Key("ConstrainDevices", "constrain_devices", kinds.YES_NO_SMALL),
        Key("ConstrainRAMSpace", "constrain_ram", kinds.YES_NO_SMALL),
        Key("ConstrainSwapSpace", "constrain_swap", kinds.YES_NO_SMALL),
        Key("AllowedRAMSpace", "allowed_ram_percent", kinds.PERCENT),
        Key("AllowedSwapSpace", "allowed_swap_percent", kinds.PERCENT),
        Key("MaxRAMPercent", "max_ram_percent", kinds.PERCENT),
        Key("MaxSwapPercent", "max_swap_percent", kinds.PERCENT),
        Key("MinRAMSpace", "min_ram_mb", kinds.MIN_RAM),
        Key("SignalChildrenProcesses", "signal_children", kinds.YES_NO_SMALL),
        Key("PenstockMaxPidsPerJob", "penstock_max_pids_per_job", kinds.integer(0, 4_194_304)),
        # Penstock finds these by itself, or has no use for them
        Key("CgroupMountpoint", accepted=("/sys/fs/cgroup",)),
        Key("IgnoreSystemd", accepted=("yes", "no")),
        Key("IgnoreSystemdOnFailure", accepted=("yes", "no")),
        Key("EnableControllers", accepted=("yes", "no")),
        Key("CgroupAutomount", accepted=("yes", "no")),
        Key("ConstrainKmemSpace", accepted=("no",)),
        Key("TaskAffinity", accepted=("no",)),
        *_unshown(
            "AllowedDevicesFile AllowedKmemSpace CgroupReleaseAgentDir EnableExtraControllers MaxKmemPercent "
            "MemoryLimitThreshold MemorySwappiness MinKmemSpace SystemdTimeout MemoryLimitEnforcement"
        ),
    ),
)

#: Lines of topology.conf.
TOPOLOGY = Table(
    "topology.conf",
    (
        Key("SwitchName", "switch", kinds.NAME),
        Key("Switches", "switches", kinds.RAW),
        Key("BlockName", "block", kinds.NAME),
        Key("Nodes", "nodes", kinds.RAW),
        Key("BlockSizes", "block_sizes", kinds.RAW),
        *_unshown("LinkSpeed"),
    ),
)

#: Lines of job_container.conf.
CONTAINER = Table(
    "job_container.conf",
    (
        Key("BasePath", "private_tmp", kinds.PATH),
        Key("Dirs", "private_tmp_folders", kinds.PATHS),
        Key("AutoBasePath", accepted=("true", "yes")),
        Key("Shared", accepted=("false", "no")),
        *_unshown("InitScript CloneNSScript CloneNSEpilog EntireStepInNS NodeName"),
    ),
)

#: What begins a line of its own kind in slurm.conf; the rest of the line belongs to it.
LINES: dict[str, Table] = {
    "nodename": NODES,
    "partitionname": PARTITIONS,
    "nodeset": NODE_SETS,
    "downnodes": DOWN_NODES,
    "frontendname": FRONTENDS,
}


@lru_cache(maxsize=256)
def unknown(name: str, table: Table) -> str:
    """The message for a key in no table: the nearest known name, or the kind of line that it belongs to."""
    if len(name) > KEY_CHARS_MAX:
        return f"unknown parameter {name[:KEY_CHARS_MAX]}..."
    close = get_close_matches(name.lower(), table.by_name, n=1, cutoff=0.75)
    if close:
        return f"unknown parameter {name} (did you mean {table.by_name[close[0]].name}?)"
    for other in (GLOBALS, NODES, PARTITIONS):
        if other is not table and (key := other.find(name)):
            place = f"on a {other.what} line" if other.what else "on a line of its own"
            return f"parameter {key.name} belongs {place}"
    close = get_close_matches(name.lower(), table.by_name, n=1, cutoff=0.4)
    return f"unknown parameter {name}" + (f" (did you mean {table.by_name[close[0]].name}?)" if close else "")
