"""The cluster's configuration as data: what `slurm.conf` and `gres.conf` say, after parsing and validation.

Frozen records, no parsing and no files here (`penstock/config/` reads them). The controller's core gets a `Config` as
an event and never looks anything up. Names are Slurm's keys in snake case with units at the end; Penstock's own keys
begin with `Penstock` in the file and with `penstock_` only where they would clash.
"""

from dataclasses import dataclass, field

from penstock.values.gres import Gres
from penstock.values.mig import MigChoice
from penstock.values.topology import Topology
from penstock.values.weights import Weight


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """One device of a node, in the order of its index among those of its name: what gres.conf says of it."""

    name: str
    cores: tuple[int, ...] = ()  # core numbers that it is near to; () = all alike
    links: tuple[int, ...] = ()  # links to the other devices of its name, -1 for itself


#: Slurm's number of jobs that share a resource where OverSubscribe gives none.
SHARED_JOBS_DEFAULT = 4
#: Slurm's time between SIGTSTP and SIGSTOP of a job that is suspended for another, seconds.
SUSPEND_GRACE_S = 2


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node (ranges are already expanded). `pretended` sizes are not checked against the hardware.

    `sockets` counts those of all boards.
    """

    name: str
    hostname: str
    addr: str
    cpus: int
    boards: int = 1
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    real_memory_mb: int = 1
    tmp_disk_mb: int = 0
    gres: tuple[Gres, ...] = ()
    features: tuple[str, ...] = ()
    weight: int = 1
    state: str = "UNKNOWN"
    reason: str = ""
    port: int = 6818
    devices: tuple[DeviceConfig, ...] = ()
    #: (name, index among those of the name, file); some have several
    device_files: tuple[tuple[str, int, str], ...] = ()
    mig: tuple[MigChoice, ...] = ()  # GPUs that may be divided on demand; `gres` says what there is when they are whole
    gpu_detect: str = ""  # gres.conf's AutoDetect: nvml, off, ...; "" = it says nothing of this node
    gpu_env: tuple[str, ...] = ()  # makers whose variables jobs get: nvidia amd intel opencl, none; () = as is found
    gpu_env_uuid: bool = False  # CUDA_VISIBLE_DEVICES holds UUIDs


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """One partition. `nodes` is expanded, in file order.

    Times: -1 = UNLIMITED, 0 in default_time_s = not set (use max).
    """

    name: str
    nodes: tuple[str, ...]
    is_default: bool = False
    state: str = "UP"  # UP DOWN DRAIN INACTIVE
    max_time_s: int = -1
    default_time_s: int = 0
    min_nodes: int = 0
    max_nodes: int = -1
    priority_tier: int = 1
    priority_job_factor: int = 1
    def_mem_per_cpu_mb: int = 0
    def_mem_per_node_mb: int = 0
    max_mem_per_cpu_mb: int = 0
    max_mem_per_node_mb: int = 0
    max_cpus_per_node: int = -1
    allow_groups: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()  # () = all
    deny_qos: tuple[str, ...] = ()  # not looked at when allow_qos is set
    qos: str = ""  # the partition's own QOS, whose limits its jobs have
    alloc_nodes: tuple[str, ...] = ()  # hosts from which jobs may come; () = all
    alternate: str = ""  # takes its jobs while it is DRAIN or INACTIVE
    req_resv: bool = False  # takes jobs in a reservation only
    def_cpu_per_gpu: int = 0
    def_mem_per_gpu_mb: int = 0
    root_only: bool = False
    disable_root_jobs: bool = False
    hidden: bool = False
    over_subscribe: str = "NO"  # NO YES[:n] EXCLUSIVE FORCE[:n]
    exclusive_user: bool = False
    lln: bool = False
    over_time_limit_s: int = 0
    tres_billing_weights: tuple[Weight, ...] = ()  # () = one for each CPU
    preempt_mode: tuple[str, ...] = ()  # () = the cluster's
    grace_time_s: int = 0
    allow_new_privs: bool | None = None  # None = as the cluster
    prices: tuple[Weight, ...] = ()  # of each TRES for each hour, in PenstockCurrency

    def jobs_per_cpu(self) -> int:
        """How many jobs may be given one cpu: n of OverSubscribe=FORCE:n and YES:n, 4 where no n is given, else 1."""
        word, _, count = self.over_subscribe.partition(":")
        if word not in ("FORCE", "YES"):
            return 1
        return int(count or SHARED_JOBS_DEFAULT)


@dataclass(frozen=True, slots=True)
class CgroupConfig:
    """What cgroup.conf says. Percents of memory are of what a job was given, those with `max` of the node's."""

    plugin: str = "autodetect"  # or cgroup/v1, cgroup/v2, disabled
    constrain_cores: bool = False
    constrain_devices: bool | None = None  # None: where a node can, for the GPUs that have a device file
    constrain_ram: bool = False
    constrain_swap: bool = False
    allowed_ram_percent: float = 100.0
    allowed_swap_percent: float = 0.0
    max_ram_percent: float = 100.0
    max_swap_percent: float = 100.0
    min_ram_mb: int = 30
    signal_children: bool = False
    penstock_max_pids_per_job: int = 0  # 0 = no limit


@dataclass(frozen=True, slots=True)
class Config:
    """A whole, valid configuration."""

    cluster_name: str = "cluster"
    controller_host: str = "localhost"
    controller_addr: str = "127.0.0.1"
    slurmctld_port: int = 6817
    slurmd_port: int = 6818  # for nodes whose line has no Port
    penstock_node_port: int = 6819
    slurm_user: str = "root"
    state_save_location: str = "/var/spool/penstock/ctld"
    slurmd_spool_dir: str = "/var/spool/penstock/noded"
    penstock_database_url: str = ""  # "" = SQLite in the state folder
    penstock_audit_file: str = ""  # "" = the database has the only copy
    penstock_audit_syslog: bool = False
    penstock_operators: tuple[str, ...] = ()
    coordinators_read_scripts: bool = False
    penstock_administrators: tuple[str, ...] = ()
    slurmctld_log_file: str = ""
    slurmd_log_file: str = ""
    slurmd_timeout_s: int = 300
    kill_wait_s: int = 30
    min_job_age_s: int = 300
    inactive_limit_s: int = 0
    max_job_count: int = 1_000_000
    max_array_size: int = 100_001
    max_script_bytes: int = 4 * 1024 * 1024
    max_environment_bytes: int = 1024 * 1024
    first_job_id: int = 1
    max_step_count: int = 40_000  # steps of one job, ended ones included
    max_tasks_per_node: int = 512  # of one step
    mpi_ports: tuple[int, int] = (12_000, 12_999)  # first and last that jobs and steps may have for themselves
    job_requeue: bool = True
    max_batch_requeue: int = 5
    return_to_service: int = 0
    gres_types: tuple[str, ...] = ()
    select_type_parameters: tuple[str, ...] = ("CR_CORE_MEMORY",)
    scheduler_parameters: tuple[tuple[str, str], ...] = ()
    sched_interval_s: int = 60
    penstock_backfill: str = "conservative"  # or easy, none, or how many waiting jobs may hold resources
    penstock_backfill_estimate: bool = True  # plan a start for jobs that hold nothing, too
    penstock_backfill_order: str = "priority"  # of the candidates behind them: or shortest; or aged, also of the queue
    penstock_backfill_predictor: str = "none"  # what shortest goes by: the time limit; or history
    def_mem_per_cpu_mb: int = 0
    def_mem_per_node_mb: int = 0
    max_mem_per_cpu_mb: int = 0
    max_mem_per_node_mb: int = 0
    enforce_part_limits: str = "NO"
    unkillable_step_timeout_s: int = 60
    unkillable_step_program: str = ""
    proctrack_type: str = "proctrack/cgroup"
    task_plugin: tuple[str, ...] = ("task/affinity",)
    task_plugin_param: tuple[str, ...] = ()
    job_acct_gather_type: str = "jobacct_gather/none"
    job_acct_gather_frequency_s: int = 30  # between two samples of a task; 0 = at its end only
    cgroup: CgroupConfig = field(default_factory=CgroupConfig)
    over_time_limit_s: int = 0
    resv_over_run_s: int = 0  # -1 = UNLIMITED
    propagate_resource_limits: str = "ALL"
    propagate_resource_limits_except: str = ""
    priority_type: str = "priority/basic"
    priority_decay_half_life_s: int = 7 * 86400  # 0 = usage is never forgotten
    priority_calc_period_s: int = 300
    priority_favor_small: bool = False
    priority_flags: tuple[str, ...] = ()
    priority_max_age_s: int = 7 * 86400
    priority_usage_reset_period: str = "NONE"
    priority_weight_age: int = 0
    priority_weight_assoc: int = 0
    priority_weight_fair_share: int = 0
    priority_weight_job_size: int = 0
    priority_weight_partition: int = 0
    priority_weight_qos: int = 0
    priority_weight_tres: tuple[Weight, ...] = ()
    fair_share_dampening_factor: int = 1
    penstock_default_account: str = "default"  # of jobs that name none, of users without one
    node_fail_policy: str = "requeue"  # of jobs that do not say: requeue (or stop), keep
    lease_time_s: int = 240  # requeue-able jobs stop themselves after so long without contact; 0 = never
    fence_program: str = ""  # cuts a silent node's power; exit 0 = it is off
    fence_timeout_s: int = 120
    licenses: tuple[tuple[str, int], ...] = ()
    topology_plugin: str = "topology/flat"
    topology: Topology = field(default_factory=Topology)
    preempt_type: str = "preempt/none"
    preempt_mode: tuple[str, ...] = ("OFF",)  # OFF CANCEL REQUEUE SUSPEND, then GANG and WITHIN
    preempt_parameters: tuple[tuple[str, str], ...] = ()
    preempt_exempt_time_s: int = 0
    sched_time_slice_s: int = 30
    # -- what surrounds jobs on their nodes
    prolog: tuple[str, ...] = ()  # paths or patterns (glob)
    epilog: tuple[str, ...] = ()
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    task_prolog: str = ""
    task_epilog: str = ""
    prolog_flags: tuple[str, ...] = ()
    prolog_epilog_timeout_s: int = 0  # 0 = none
    prolog_fail_drains: bool = True
    health_check_program: str = ""
    health_check_interval_s: int = 0  # 0 = never
    health_check_node_state: str = "ANY"
    reboot_program: str = ""
    resume_timeout_s: int = 60  # to be back from a reboot
    job_container_type: str = "job_container/none"
    namespace_type: str = "namespace/none"
    private_tmp: str = ""  # base folder of the jobs' own folders; "" = they share
    private_tmp_folders: tuple[str, ...] = ("/tmp", "/dev/shm")  # noqa: S108 (what jobs get of their own)
    allow_new_privs: bool = False
    use_pam: bool = False
    # -- GPUs
    gpu_settings: str = "read-write"  # or read-only: nothing on a card is changed
    gpu_poll_s: int = 10
    gpu_xid_file: str = ""
    gpu_xids: tuple[tuple[int, str], ...] = ()  # what that file says: (XID, one of XID_CLASSES)
    gpu_lost_drains_node: bool = False
    gpu_check_program: str = ""
    gpu_check_interval_h: int = 0  # of idle GPUs; 0 = never
    gpu_reset_program: str = ""
    gpu_idle_warn_s: int = 0  # 0 = GPUs may do nothing
    gpu_idle_limit_s: int = 0  # after the warning; 0 = it is the last word
    gpu_idle_action: str = "warn"  # or cancel, return
    gpu_idle_percent: int = 1  # utilisation below which a GPU does nothing
    gpu_job_map_dir: str = ""
    gpu_accounting_mode: bool = False
    mig_pause_s: int = 60  # between two divisions of one GPU
    mps_program: str = "nvidia-cuda-mps-control"
    # -- jobs and daemons
    private_data: tuple[str, ...] = ()  # accounts events jobs nodes partitions reservations usage users
    requeue_exit: tuple[int, ...] = ()  # exit codes of batch jobs that are then run again
    requeue_exit_hold: tuple[int, ...] = ()  # ... and then held
    mail_prog: str = "/bin/mail"
    mail_domain: str = ""  # behind the @ of users who give no address
    def_cpu_per_gpu: int = 0
    def_mem_per_gpu_mb: int = 0
    job_file_append: bool = False  # output files are appended to
    kill_on_bad_exit: bool = False  # of srun
    wait_time_s: int = 0  # srun --wait; 0 = no end
    mpi_default: str = "none"
    slurmctld_debug: str = "info"
    slurmd_debug: str = "info"
    log_time_format: str = "iso8601_ms"
    slurmctld_parameters: tuple[tuple[str, str], ...] = ()
    slurmd_parameters: tuple[tuple[str, str], ...] = ()
    dependency_parameters: tuple[tuple[str, str], ...] = ()
    communication_parameters: tuple[tuple[str, str], ...] = ()
    topology_param: tuple[tuple[str, str], ...] = ()
    reconfig_flags: tuple[tuple[str, str], ...] = ()
    scron_parameters: tuple[tuple[str, str], ...] = ()
    auth_alt_types: tuple[tuple[str, str], ...] = ()
    auth_alt_parameters: tuple[tuple[str, str], ...] = ()
    track_wckey: bool = False
    penstock_currency: str = ""
    penstock_budget_at_end: str = "finish"  # or cancel: what becomes of jobs that run when a budget is used up
    penstock_lending: str = "none"  # or all: accounts without Lend= lend all of their GrpTRES
    enforce: tuple[str, ...] = ()  # AccountingStorageEnforce with what its words imply: see policykinds.ENFORCE
    # of slurmdbd.conf, and no part of what slurm.conf says
    purge_after: tuple[tuple[str, int, str], ...] = field(
        default=(), compare=False
    )  # (kind of purging.py, number, unit)
    archive: tuple[str, ...] = field(default=(), compare=False)  # kinds that are archived when they are purged
    archive_dir: str = field(default="", compare=False)  # "" = in the state folder
    gpu_freq_def: str = ""
    launch_parameters: tuple[tuple[str, str], ...] = ()
    interactive_step_options: str = "--interactive --preserve-env --pty $SHELL"  # of the shell that salloc starts
    nodes: tuple[NodeConfig, ...] = ()
    partitions: tuple[PartitionConfig, ...] = ()
    #: the machine's time zone as (from_us, seconds east of Greenwich), for what recurs by local days; () = UTC
    utc_offsets: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    #: every key in Slurm's spelling and form, for `scontrol show config`; follows from the rest and from the file's
    #: ignored keys, so two configurations that differ only here are equal
    shown: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def has_prolog_flag(self, name: str) -> bool:
        """True when PrologFlags holds that word, or one that includes it."""
        flags = self.prolog_flags
        return name in flags or (name == "Contain" and "X11" in flags) or (name == "Alloc" and bool(flags))

    def has_word(self, field: str, name: str) -> bool:
        """True when that list of parameters (`slurmctld_parameters`, ...) holds the word, in any case."""
        return any(word.lower() == name for word, _ in getattr(self, field))

    def word_value(self, field: str, name: str) -> str:
        """What stands behind `name=` in that list of parameters; "" = it is not there."""
        return next((value for word, value in getattr(self, field) if word.lower() == name), "")

    def is_multifactor(self) -> bool:
        """True when priorities are computed from factors, and usage is charged."""
        return self.priority_type == "priority/multifactor"

    def preempt_word(self, name: str) -> bool:
        """True when PreemptParameters holds that word."""
        return any(word == name for word, _ in self.preempt_parameters)

    def preempt_number(self, name: str, default: int) -> int:
        """The number of a PreemptParameters entry."""
        return next((int(text) for word, text in self.preempt_parameters if word == name), default)

    def memory_is_consumable(self) -> bool:
        """True when jobs are given memory, not only CPUs (CR_*_Memory)."""
        return any("MEMORY" in p.upper() for p in self.select_type_parameters)
