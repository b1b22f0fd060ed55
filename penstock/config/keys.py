"""The table of parameters: those that Penstock uses, those that it ignores, and what Slurm shows for each.

There is one `Key` per parameter and one `Table` per kind of line. A key with a `kind` is supported: its value is stored
in `field` of the line's record. A key without is known to Slurm and not used: it causes one warning, unless its value
is in `accepted`, the values that describe what Penstock does anyway. A key in no table is an error. `shown` is Slurm's
default, for `scontrol show config`. With `fixed` it is shown regardless of the file, because tools use it to detect
features.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.config import kinds, notused, policykinds
from penstock.config.kinds import ValueKind
from penstock.values import debugflags

#: The longest name that is compared with the known ones; these are less than half as long.
KEY_CHARS_MAX = 64

#: `show config` does not print these, not even whether they are set.
SECRET = frozenset({"accountingstoragepass", "defaultstoragepass", "jobcomppass", "storagepass"})


@dataclass(frozen=True, slots=True)
class Key:
    """One parameter."""

    name: str
    field: str = ""
    kind: ValueKind | None = None
    shown: str | None = "(null)"
    accepted: tuple[str, ...] = ()
    fixed: bool = False
    note: Callable[[str], str] | None = None
    several: bool = False  # repeated lists are concatenated
    does: str = ""  # of an unused key: its effect in Slurm
    why: str = ""  # of an unused key: why it is not used, and the alternative


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The table of the parameters of one kind of line. `what` names it in messages.

    `instead` lists alternatives: a field that a line sets removes the listed fields from the defaults that the line
    inherits.
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
        """Returns the parameter with that name or alias, in any case."""
        return self.by_name.get(name.lower())

    def fields(self) -> dict[str, Key]:
        """Returns the supported parameters by field."""
        return {key.field: key for key in self.keys if key.kind is not None}


def _range_note(text: str) -> str:
    return "only the first port of the range is used" if "-" in text else ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def not_used(text: str, shown: bool = False) -> tuple[Key, ...]:
    """Parses lines of notused.py to keys."""
    keys = []
    for line in filter(None, text.split("\n")):
        head, does, why = (part.strip() for part in line.split(" | "))
        match = _NOT_USED.fullmatch(head)
        assert match is not None, line
        default = match["default"]
        value = "(null)" if default is None else default.replace("~", " ")
        nothing = tuple(filter(None, (match["accepted"] or "").split(",")))
        if default and default != "-":
            nothing = (*nothing, value, value.partition(" ")[0])
        is_shown = shown and default != "-"
        keys.append(Key(match["name"], shown=value if is_shown else None, accepted=nothing, does=does, why=why))
    return tuple(keys)


_NOT_USED = re.compile(r"(?P<name>\w+)(?:=(?P<default>\S+))?(?: \[(?P<accepted>[^\]]*)\])?")


def _fixed(name: str, shown: str, accepted: tuple[str, ...], does: str, why: str) -> Key:
    return Key(name, shown=shown, accepted=(shown, *accepted), fixed=True, does=does, why=why)


#: Where Slurm keeps series of samples; here they are in the accounting database.
_PROFILES = {
    word: "acct_gather_profile/penstock"
    for name in ("hdf5", "influxdb")
    for word in (name, f"acct_gather_profile/{name}")
}
_RLIMITS = ("ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
_SELECT_PARAMETERS = _words(
    "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_BOARD CR_BOARD_MEMORY CR_LLN "
    "CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_PACK_NODES CR_OTHER_CONS_RES CR_OTHER_CONS_TRES LL_SHARED_GRES "
    "ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES MULTIPLE_SHARING_GRES_PJ PENSTOCK_BEST_FIT PENSTOCK_FGD PENSTOCK_STEER"
)

_PROLOG_FLAGS = _words(
    "Alloc Contain DeferBatch ForceRequeueOnFail NoHold RunInJob Serial X11"  # in any case
)
_HEALTH_STATES = _words("ANY ALLOC CYCLE IDLE MIXED NONDRAINED_IDLE START_ONLY")

#: Programs and settings of the jobs' environment on their nodes.
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

#: Metrics over HTTP.
_METRICS = (
    Key("MetricsType", "metrics_type", kinds.choice("metrics/openmetrics", also={"none": "", "metrics/none": ""})),
    Key("MetricsParameters", "metrics_parameters", kinds.PARAMETERS),
    Key("PenstockMetricsPort", "metrics_port", kinds.PORT),
    Key("PenstockMetricsAddr", "metrics_addr", kinds.HOST),
    Key("PenstockMetricsNodePort", "metrics_node_port", kinds.integer(0, 65535)),
    Key("PenstockMetricsNodeAddr", "metrics_node_addr", kinds.HOST),
    Key("PenstockMetricsDcgmNames", "metrics_dcgm_names", kinds.BOOL),
    Key("PenstockMetricsTokenFile", "metrics_token_file", kinds.OPTIONAL_PATH),
    Key("PenstockMetricsAllow", "metrics_allow", policykinds.NETWORKS),
    Key("PenstockMetricsTls", "metrics_tls", kinds.BOOL),
    Key("PenstockMetricsValuesMax", "metrics_values_max", kinds.integer(1, 100_000)),
    Key("PenstockHangAfter", "hang_after_s", kinds.seconds(0)),
    Key("PenstockHangAction", "hang_action", policykinds.HANG_ACTION),
    Key("PenstockTraceUrl", "trace_url", kinds.PLACE),
    Key("PenstockTraceOneIn", "trace_one_in", kinds.integer(1, 1_000_000)),
    Key("PenstockTracesPerSecond", "traces_per_s", kinds.integer(0, 1_000_000)),
)

_SUPPORTED_GLOBALS = (
    *_SITE_PROGRAMS,
    *_GPUS,
    *_METRICS,
    Key("ClusterName", "cluster_name", kinds.CLUSTER_NAME),
    # may be repeated and contain an address, which the loader parses
    Key("SlurmctldHost", "controller_host", kinds.TEXT),
    Key("SlurmctldPort", "slurmctld_port", kinds.FIRST_PORT, note=_range_note),
    Key("SlurmdPort", "slurmd_port", kinds.PORT),
    Key("PenstockNodePort", "penstock_node_port", kinds.PORT),
    Key("SlurmUser", "slurm_user", kinds.NAME),
    Key("StateSaveLocation", "state_save_location", kinds.PATH),
    Key("SlurmdSpoolDir", "slurmd_spool_dir", kinds.PATH),
    Key("PenstockDatabaseUrl", "penstock_database_url", kinds.URL),
    Key("PenstockDatabaseReadUrl", "penstock_database_read_url", kinds.URL),
    Key("PenstockDatabaseSchema", "penstock_database_schema", kinds.SCHEMA),
    Key("PenstockWitnessFile", "penstock_witness_file", kinds.OPTIONAL_PATH),
    Key("PenstockAuditFile", "penstock_audit_file", kinds.OPTIONAL_PATH),
    Key("PenstockAuditSyslog", "penstock_audit_syslog", kinds.BOOL),
    Key("PenstockCoordinatorsReadScripts", "coordinators_read_scripts", kinds.BOOL),
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
    Key("PenstockUserSpecBytesMax", "user_spec_bytes_max", kinds.integer(0, 1 << 50)),
    Key("PenstockUserSpecBytesPerDay", "user_spec_bytes_per_day", kinds.integer(0, 1 << 50)),
    Key("SlurmctldLogFile", "slurmctld_log_file", kinds.OPTIONAL_PATH),
    Key("SlurmdLogFile", "slurmd_log_file", kinds.OPTIONAL_PATH),
    Key("PenstockLogFormat", "log_format", kinds.choice("text", "json")),
    Key("SlurmdTimeout", "slurmd_timeout_s", kinds.seconds(0, 65533, unlimited=0)),
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
    Key("TaskPluginParam", "task_plugin_param", kinds.TASK_PLUGIN_PARAM, note=kinds.task_param_note),
    Key("JobAcctGatherType", "job_acct_gather_type", kinds.ACCT_GATHER_TYPE),
    Key(
        "AcctGatherProfileType",
        "acct_gather_profile_type",
        kinds.choice("acct_gather_profile/penstock", "acct_gather_profile/none", also=_PROFILES),
    ),
    Key("JobAcctGatherFrequency", "job_acct_gather_frequency_s", kinds.ACCT_GATHER_FREQUENCY),
    Key("ProctrackType", "proctrack_type", kinds.choice("proctrack/cgroup", "proctrack/linuxproc", "proctrack/pgid")),
    Key("OverTimeLimit", "over_time_limit_s", kinds.MINUTES),
    Key("ResvOverRun", "resv_over_run_s", kinds.MINUTES),
    Key("PropagateResourceLimits", "propagate_resource_limits", kinds.joined_choices(*_RLIMITS)),
    Key("PropagateResourceLimitsExcept", "propagate_resource_limits_except", kinds.joined_choices(*_RLIMITS)),
    Key("PriorityType", "priority_type", kinds.choice("priority/basic", "priority/multifactor")),
    Key("PriorityDecayHalfLife", "priority_decay_half_life_s", kinds.HALF_LIFE),
    Key("PriorityCalcPeriod", "priority_calc_period_s", kinds.PERIOD),
    Key("PriorityFavorSmall", "priority_favor_small", kinds.YES_NO),
    Key("PriorityFlags", "priority_flags", kinds.PRIORITY_FLAGS, note=kinds.priority_flags_note),
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
    Key("PenstockCurrency", "penstock_currency", policykinds.CURRENCY),
    Key("PenstockBudgetAtEnd", "penstock_budget_at_end", kinds.choice("finish", "cancel")),
    Key("PenstockLending", "penstock_lending", kinds.choice("none", "all")),
    Key("SchedulerParameters", "scheduler_parameters", kinds.PARAMETERS),
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
    # the default of all partitions
    Key("DisableRootJobs", "", kinds.BOOL),
)

_FIXED_GLOBALS = (
    _fixed(
        "AccountingStorageType",
        "accounting_storage/slurmdbd",
        (),
        "where accounting is kept",
        "accounting is part of the controller, always on, and shown as accounting_storage/slurmdbd",
    ),
    _fixed(
        "SelectType",
        "select/cons_tres",
        ("select/cons_res",),
        "whether jobs are allocated whole nodes or parts of them",
        "always select/cons_tres; OverSubscribe=EXCLUSIVE on a partition allocates whole nodes, as select/linear does",
    ),
    _fixed(
        "SchedulerType",
        "sched/backfill",
        (),
        "how jobs are chosen",
        "always sched/backfill; PenstockBackfill=fifo corresponds to sched/builtin",
    ),
    _fixed("MULTIPLE_SLURMD", "yes", ("no",), "several node daemons on a machine", "that is always possible"),
)

#: Supported keys for jobs and daemons.
_JOB_GLOBALS = (
    Key("PrivateData", "private_data", policykinds.PRIVATE_DATA),
    Key("RequeueExit", "requeue_exit", policykinds.EXIT_CODES),
    Key("RequeueExitHold", "requeue_exit_hold", policykinds.EXIT_CODES),
    Key("MailProg", "mail_prog", kinds.OPTIONAL_PATH),
    Key("MailDomain", "mail_domain", policykinds.DOMAIN),
    Key("PenstockJwtAudience", "penstock_jwt_audience", kinds.TEXT),
    Key("PenstockPamUser", "pam_user", kinds.NAME),
    Key("PenstockPamSocket", "pam_socket", kinds.PATH),
    Key("PenstockPamMinUid", "pam_min_uid", kinds.integer(0)),
    Key("PenstockPamAllowUsers", "pam_allow_users", kinds.NAMES),
    Key("PenstockPamTokenLife", "pam_token_life_s", kinds.seconds(60, 7 * 86400)),
    Key("PenstockPamNetwork", "pam_network", kinds.BOOL),
    Key("PenstockMailUser", "penstock_mail_user", kinds.NAME),
    Key("CliFilterPlugins", "cli_filter_plugins", kinds.CLI_FILTERS, note=kinds.cli_filters_note),
    Key("PenstockCliFilter", "cli_filter", kinds.OPTIONAL_PATH),
    Key("PenstockCliFilterFailure", "cli_filter_failure", kinds.choice("refuse", "accept")),
    Key("JobSubmitPlugins", "job_submit_plugins", kinds.SUBMIT_PLUGINS, note=kinds.submit_plugins_note),
    Key("PenstockSubmitFilter", "submit_filter", kinds.OPTIONAL_PATH),
    Key("PenstockSubmitFilterTimeout", "submit_filter_timeout_s", kinds.seconds(1, 60)),
    Key("PenstockSubmitFilterFailure", "submit_filter_failure", kinds.choice("refuse", "accept")),
    Key("PenstockSubmitFilterUser", "submit_filter_user", kinds.NAME),
    Key("JobCompType", "job_comp_type", policykinds.JOB_COMP, note=policykinds.job_comp_note),
    Key("JobCompLoc", "job_comp_loc", kinds.PLACE),
    Key("JobCompParams", "job_comp_params", kinds.PARAMETERS),
    Key("PenstockJobCompUser", "job_comp_user", kinds.NAME),
    Key("PenstockWebhooks", "webhooks_file", kinds.OPTIONAL_PATH),
    Key("DefCpuPerGPU", "def_cpu_per_gpu", kinds.integer(0, 65533), shown=None),
    Key("DefMemPerGPU", "def_mem_per_gpu_mb", kinds.MB, shown=None),
    Key("JobDefaults", "", policykinds.JOB_DEFAULTS),
    Key("JobFileAppend", "job_file_append", kinds.BOOL_AS_NUMBER),
    Key("KillOnBadExit", "kill_on_bad_exit", kinds.BOOL_AS_NUMBER),
    Key("WaitTime", "wait_time_s", kinds.seconds(0, 65533)),
    Key("MpiDefault", "mpi_default", policykinds.MPI_DEFAULT, note=policykinds.mpi_note),
    Key("MCSPlugin", "mcs_plugin", kinds.choice("mcs/none", "mcs/user", "mcs/group", "mcs/account", "mcs/label")),
    Key("MCSParameters", "mcs_parameters", policykinds.MCS),
    Key("DebugFlags", "debug_flags", policykinds.DEBUG_FLAGS, note=debugflags.note),
    Key("SlurmctldDebug", "slurmctld_debug", policykinds.LOG_LEVEL),
    Key("SlurmdDebug", "slurmd_debug", policykinds.LOG_LEVEL),
    Key("LogTimeFormat", "log_time_format", policykinds.LOG_TIME),
    Key("SlurmctldParameters", "slurmctld_parameters", kinds.PARAMETERS),
    Key("SlurmdParameters", "slurmd_parameters", kinds.PARAMETERS),
    Key("DependencyParameters", "dependency_parameters", kinds.PARAMETERS),
    Key("CommunicationParameters", "communication_parameters", kinds.PARAMETERS),
    Key("TopologyParam", "topology_param", kinds.PARAMETERS),
    Key("ReconfigFlags", "reconfig_flags", kinds.PARAMETERS),
    Key("ScronParameters", "scron_parameters", kinds.PARAMETERS),
    Key("AuthAltTypes", "auth_alt_types", kinds.PARAMETERS),
    Key("AuthAltParameters", "auth_alt_parameters", kinds.PARAMETERS),
    Key("TrackWCKey", "track_wckey", kinds.YES_NO_SMALL),
    Key("AccountingStorageEnforce", "enforce", policykinds.ENFORCE, note=policykinds.enforce_note),
    Key("GpuFreqDef", "gpu_freq_def", kinds.TEXT),
    Key("AllowSpecResourcesUsage", "allow_spec_resources_usage", kinds.YES_NO_SMALL),
)

GLOBALS = Table(
    "",
    _SUPPORTED_GLOBALS + _JOB_GLOBALS + _FIXED_GLOBALS + not_used(notused.GLOBALS, shown=True),
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
        Key("MemSpecLimit", "mem_spec_limit_mb", kinds.SIZE_MB),
        Key("CoreSpecCount", "core_spec_count", kinds.integer(0, 65533)),
        Key("CpuSpecList", "cpu_spec_list", kinds.RAW),
        Key("TmpDisk", "tmp_disk_mb", kinds.SIZE_MB),
        Key("Gres", "gres", kinds.RAW),
        Key("Feature", "features", kinds.NAMES_OR_NONE),
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
        *not_used(notused.NODES),
    ),
    {"features": "Feature", "procs": "CPUs"},
    {
        "sockets": ("sockets_per_board",),
        "sockets_per_board": ("sockets",),
        "core_spec_count": ("cpu_spec_list",),
        "cpu_spec_list": ("core_spec_count",),
    },
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
        Key("MaxCPUsPerSocket", "max_cpus_per_socket", kinds.integer_or_unlimited(1, 65533)),
        Key("AllowGroups", "allow_groups", kinds.NAMES_OR_ALL),
        Key("AllowAccounts", "allow_accounts", kinds.NAMES_OR_ALL),
        Key("DenyAccounts", "deny_accounts", kinds.NAMES),
        Key("AllowQos", "allow_qos", policykinds.LOWER_NAMES_OR_ALL),
        Key("DenyQos", "deny_qos", policykinds.LOWER_NAMES),
        Key("QOS", "qos", policykinds.QOS_NAME),
        Key("AllocNodes", "alloc_nodes", policykinds.HOSTS_OR_ALL),
        Key("Alternate", "alternate", kinds.OPTIONAL_NAME),
        Key("ReqResv", "req_resv", kinds.BOOL),
        Key("DefCpuPerGPU", "def_cpu_per_gpu", kinds.integer(0, 65533)),
        Key("DefMemPerGPU", "def_mem_per_gpu_mb", kinds.MB),
        Key("RootOnly", "root_only", kinds.BOOL),
        Key("DisableRootJobs", "disable_root_jobs", kinds.BOOL),
        Key("Hidden", "hidden", kinds.BOOL),
        Key("OverSubscribe", "over_subscribe", kinds.with_count(_OVER_SUBSCRIBE, "FORCE", "YES")),
        Key("PreemptMode", "preempt_mode", kinds.PREEMPT_MODE),
        Key("GraceTime", "grace_time_s", kinds.GRACE_TIME),
        Key("ExclusiveUser", "exclusive_user", kinds.BOOL),
        Key("ExclusiveTopo", "exclusive_topo", kinds.BOOL),
        Key("LLN", "lln", kinds.BOOL),
        Key("OverTimeLimit", "over_time_limit_s", kinds.MINUTES),
        Key("PenstockAllowNewPrivs", "allow_new_privs", kinds.BOOL),
        Key("TRESBillingWeights", "tres_billing_weights", kinds.TRES_WEIGHTS),
        Key("PenstockPrices", "prices", kinds.TRES_WEIGHTS),
        # older or combined spellings, which the loader maps to the fields above
        Key("Exclusive", "", kinds.choice("NO", "NODE", "USER", "TOPO", also={"YES": "NODE"})),
        Key("Priority", "", kinds.integer(0, 65533)),
        Key("JobDefaults", "", policykinds.JOB_DEFAULTS),
        *not_used(notused.PARTITIONS),
    ),
    {"shared": "OverSubscribe"},
    {
        "Exclusive": ("over_subscribe", "exclusive_user", "exclusive_topo"),
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

#: Lines of Slurm's discontinued front-end systems: ignored with a warning.
FRONTENDS = Table("FrontendName", not_used(notused.FRONTENDS))

#: Flags in gres.conf(5).
GRES_FLAGS = _words(
    "nvidia_gpu_env amd_gpu_env intel_gpu_env opencl_env no_gpu_env env_uuid CountOnly one_sharing all_sharing explicit "
    "no_consume"
)
#: Lines of gres.conf. AutoDetect is also allowed on a line of its own.
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
        *not_used(notused.GRES),
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
        *not_used(notused.CGROUP),
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
        *not_used(notused.TOPOLOGY),
    ),
)

#: Lines of job_container.conf.
CONTAINER = Table(
    "job_container.conf",
    (
        Key("BasePath", "private_tmp", kinds.PATH),
        Key("Dirs", "private_tmp_folders", kinds.PATHS),
        *not_used(notused.CONTAINER),
    ),
)

#: The keys that begin a line of their own kind in slurm.conf.
LINES: dict[str, Table] = {
    "nodename": NODES,
    "partitionname": PARTITIONS,
    "nodeset": NODE_SETS,
    "downnodes": DOWN_NODES,
    "frontendname": FRONTENDS,
}
