"""The cluster's configuration as data: the contents of `slurm.conf` and `gres.conf` after parsing and validation.

Frozen records, without parsing or files (`penstock/config/` reads them). The controller's core receives a `Config` as
an event and never reads a file. Fields are named like Slurm's keys, in snake case with units at the end; Penstock's own
keys begin with `Penstock` in the file, and with `penstock_` here only where the names would clash.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from penstock.values.gres import Gres
from penstock.values.hres import Hres
from penstock.values.mig import MigChoice
from penstock.values.topology import Topology
from penstock.values.weights import Weight


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of events over HTTP."""

    name: str
    url: str
    secret_file: str
    events: tuple[str, ...] = ()  # kinds, and KIND.STATE, in lower case; () = all
    ca_file: str = ""  # "" = the machine's authorities
    timeout_s: int = 10


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """One device of a node, as gres.conf describes it. Devices of one name are ordered by index."""

    name: str
    cores: tuple[int, ...] = ()  # numbers of the cores close to it; () = no affinity
    links: tuple[int, ...] = ()  # number of links to each device of its name; -1 for itself


#: Jobs that may share a resource if OverSubscribe gives no number (Slurm's default).
SHARED_JOBS_DEFAULT = 4
#: Seconds between SIGTSTP and SIGSTOP for a job that is suspended by preemption (Slurm's value).
SUSPEND_GRACE_S = 2


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node; ranges are already expanded.

    `sockets` is the total of all boards.
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
    #: (name, index among the devices of that name, file); a device may have several files
    device_files: tuple[tuple[str, int, str], ...] = ()
    mig: tuple[MigChoice, ...] = ()  # GPUs that may be divided on demand; `gres` counts them undivided
    gpu_detect: str = ""  # AutoDetect of gres.conf: nvml, off, ...; "" = not set for this node
    gpu_env: tuple[str, ...] = ()  # vendors whose variables are set: nvidia amd intel opencl none; () = as detected
    gpu_env_uuid: bool = False  # CUDA_VISIBLE_DEVICES holds UUIDs
    specialized_cpus: int = 0  # bit mask of the CPUs for the system: CoreSpecCount, CpuSpecList; whole cores
    mem_spec_limit_mb: int = 0  # of real_memory_mb, for the system

    def cpus_for_jobs(self) -> int:
        """Returns the number of CPUs that jobs may have (CPUEfctv)."""
        return self.cpus - self.specialized_cpus.bit_count()

    def memory_for_jobs_mb(self) -> int:
        """Returns the memory that jobs may have."""
        return self.real_memory_mb - self.mem_spec_limit_mb

    def core_spec_count(self) -> int:
        """Returns the number of cores for the system."""
        return self.specialized_cpus.bit_count() // self.cpus_per_core()

    def gpu_count(self) -> int:
        """Returns the number of GPUs, of all types."""
        return sum(one.count for one in self.gres if one.name == "gpu")

    def cpus_per_core(self) -> int:
        """Returns the number of CPUs of a core: its threads, or 1 where CPUs counts cores."""
        return self.threads_per_core if self.counts_threads() else 1

    def counts_threads(self) -> bool:
        """Returns whether CPUs counts threads, not cores (slurm.conf(5)) nor anything else."""
        return self.cpus == self.sockets * self.cores_per_socket * self.threads_per_core


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """One partition; `nodes` is expanded, in file order.

    Times: -1 = UNLIMITED; a default_time_s of 0 = not set (max is used).
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
    max_cpus_per_socket: int = -1
    allow_groups: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()  # () = all
    deny_qos: tuple[str, ...] = ()  # ignored if allow_qos is set
    qos: str = ""  # the partition's own QOS, whose limits apply to its jobs
    alloc_nodes: tuple[str, ...] = ()  # hosts that may submit jobs; () = all
    alternate: str = ""  # partition that receives its jobs while it is DRAIN or INACTIVE
    req_resv: bool = False  # accepts only jobs in a reservation
    def_cpu_per_gpu: int = 0
    def_mem_per_gpu_mb: int = 0
    root_only: bool = False
    disable_root_jobs: bool = False
    hidden: bool = False
    over_subscribe: str = "NO"  # NO YES[:n] EXCLUSIVE FORCE[:n]
    exclusive_user: bool = False
    exclusive_topo: bool = False  # its jobs have leaf switches, or blocks, for themselves alone
    lln: bool = False
    over_time_limit_s: int = 0
    tres_billing_weights: tuple[Weight, ...] = ()  # () = 1 per CPU
    preempt_mode: tuple[str, ...] = ()  # () = the cluster's mode
    grace_time_s: int = 0
    allow_new_privs: bool | None = None  # None = the cluster's setting
    prices: tuple[Weight, ...] = ()  # per hour of each TRES, in PenstockCurrency

    def limits_cpus(self) -> bool:
        """Returns whether its jobs may not have all CPUs of a node: MaxCPUsPerNode, MaxCPUsPerSocket."""
        return self.max_cpus_per_node > 0 or self.max_cpus_per_socket > 0

    def cpus_within(self, node: NodeConfig) -> int:
        """Returns the CPUs of a node that its jobs may have at a time, exclusive ones apart."""
        found = node.cpus_for_jobs()
        if self.max_cpus_per_node > 0:
            found = min(found, self.max_cpus_per_node)
        return min(found, self.max_cpus_per_socket * node.sockets) if self.max_cpus_per_socket > 0 else found

    def jobs_per_cpu(self) -> int:
        """Returns how many jobs may share a CPU: n of OverSubscribe=FORCE:n and YES:n, 4 if n is missing, otherwise 1."""
        word, _, count = self.over_subscribe.partition(":")
        if word not in ("FORCE", "YES"):
            return 1
        return int(count or SHARED_JOBS_DEFAULT)


@dataclass(frozen=True, slots=True)
class CgroupConfig:
    """The settings of cgroup.conf. Memory percentages refer to the job's allocation, those with `max` to the node's
    memory.
    """

    plugin: str = "autodetect"  # or cgroup/v1, cgroup/v2, disabled
    constrain_cores: bool = False
    constrain_devices: bool | None = None  # None = if the node supports it, for GPUs that have a device file
    constrain_ram: bool = False
    constrain_swap: bool = False
    allowed_ram_percent: float = 100.0
    allowed_swap_percent: float = 0.0
    max_ram_percent: float = 100.0
    max_swap_percent: float = 100.0
    min_ram_mb: int = 30
    signal_children: bool = False
    penstock_max_pids_per_job: int = 0  # 0 = no limit


@lru_cache(maxsize=8)
def _allocates_memory(select_type_parameters: tuple[str, ...]) -> bool:
    return any("MEMORY" in word.upper() for word in select_type_parameters)


@dataclass(frozen=True, slots=True)
class Config:
    """A complete, valid configuration."""

    cluster_name: str = "cluster"
    controller_host: str = "localhost"
    controller_addr: str = "127.0.0.1"
    slurmctld_port: int = 6817
    slurmd_port: int = 6818  # for nodes without Port on their line
    penstock_node_port: int = 6819
    slurm_user: str = "root"
    state_save_location: str = "/var/spool/penstock/ctld"
    slurmd_spool_dir: str = "/var/spool/penstock/noded"
    penstock_witness_file: str = ""  # "" = in the state folder
    penstock_database_url: str = ""  # "" = SQLite in the state folder
    penstock_database_read_url: str = ""  # with a role that only reads, for other clusters; "" = penstock_database_url
    penstock_database_schema: str = ""  # of this cluster's tables in PostgreSQL; "" = public
    penstock_audit_file: str = ""  # "" = no copy outside the database
    penstock_audit_syslog: bool = False
    penstock_operators: tuple[str, ...] = ()
    coordinators_read_scripts: bool = False
    penstock_administrators: tuple[str, ...] = ()
    slurmctld_log_file: str = ""
    slurmd_log_file: str = ""  # %n and %h: the name and the host of the node
    log_format: str = "text"  # of the controller and the nodes, or json
    slurmd_timeout_s: int = 300
    kill_wait_s: int = 30
    min_job_age_s: int = 300
    inactive_limit_s: int = 0
    max_job_count: int = 1_000_000
    max_array_size: int = 100_001
    max_script_bytes: int = 4 * 1024 * 1024
    max_environment_bytes: int = 1024 * 1024
    user_spec_bytes_max: int = 1024 * 1024 * 1024  # scripts, arguments, environments of a user's jobs; 0 = no limit
    user_spec_bytes_per_day: int = 8 * 1024 * 1024 * 1024  # new ones of a user in a day; 0 = no limit
    first_job_id: int = 1
    max_step_count: int = 40_000  # steps per job, including ended ones
    max_tasks_per_node: int = 512  # per step
    mpi_ports: tuple[int, int] = (12_000, 12_999)  # first and last port that jobs and steps may reserve
    job_requeue: bool = True
    max_batch_requeue: int = 5
    return_to_service: int = 0
    gres_types: tuple[str, ...] = ()
    select_type_parameters: tuple[str, ...] = ("CR_CORE_MEMORY",)
    scheduler_parameters: tuple[tuple[str, str], ...] = ()
    sched_interval_s: int = 60
    penstock_backfill: str = "conservative"  # or easy, none, or the number of pending jobs that may hold resources
    penstock_backfill_estimate: bool = True  # also plan a start for jobs that hold nothing
    penstock_backfill_order: str = "priority"  # of jobs that hold nothing: or shortest; or aged, also of the queue
    penstock_backfill_predictor: str = "none"  # run time that shortest and aged use: the time limit; or history
    def_mem_per_cpu_mb: int = 0
    def_mem_per_node_mb: int = 0
    max_mem_per_cpu_mb: int = 0
    max_mem_per_node_mb: int = 0
    enforce_part_limits: str = "NO"
    allow_spec_resources_usage: bool = False  # jobs choose the cores that they leave to the system
    unkillable_step_timeout_s: int = 60
    unkillable_step_program: str = ""
    proctrack_type: str = "proctrack/cgroup"
    task_plugin: tuple[str, ...] = ("task/affinity",)
    task_plugin_param: tuple[str, ...] = ()
    job_acct_gather_type: str = "jobacct_gather/none"
    job_acct_gather_frequency_s: int = 30  # sampling interval of tasks; 0 = at their end only
    acct_gather_profile_type: str = "acct_gather_profile/penstock"  # or /none; others of Slurm's count as ours
    cgroup: CgroupConfig = field(default_factory=CgroupConfig)
    over_time_limit_s: int = 0
    resv_over_run_s: int = 0  # -1 = UNLIMITED
    propagate_resource_limits: str = "ALL"
    propagate_resource_limits_except: str = ""
    priority_type: str = "priority/basic"
    priority_decay_half_life_s: int = 7 * 86400  # 0 = usage does not decay
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
    penstock_default_account: str = "default"  # for jobs that name none and whose user has none
    node_fail_policy: str = "requeue"  # for jobs without a setting of their own: requeue (or stop), keep
    lease_time_s: int = 240  # time without contact after which requeueable jobs end themselves; 0 = never
    fence_program: str = ""  # powers off an unresponsive node; exit status 0 = it is off
    fence_timeout_s: int = 120
    licenses: tuple[tuple[str, int], ...] = ()
    hres: tuple[Hres, ...] = ()  # of resources.yaml
    topology_plugin: str = "topology/flat"
    topology: Topology = field(default_factory=Topology)
    preempt_type: str = "preempt/none"
    preempt_mode: tuple[str, ...] = ("OFF",)  # OFF CANCEL REQUEUE SUSPEND, followed by GANG and WITHIN
    preempt_parameters: tuple[tuple[str, str], ...] = ()
    preempt_exempt_time_s: int = 0
    sched_time_slice_s: int = 30
    # -- the environment of jobs on their nodes
    prolog: tuple[str, ...] = ()  # paths or glob patterns
    epilog: tuple[str, ...] = ()
    prolog_slurmctld: tuple[str, ...] = ()
    epilog_slurmctld: tuple[str, ...] = ()
    task_prolog: str = ""
    task_epilog: str = ""
    prolog_flags: tuple[str, ...] = ()
    prolog_epilog_timeout_s: int = 0  # 0 = no timeout
    prolog_fail_drains: bool = True
    health_check_program: str = ""
    health_check_interval_s: int = 0  # 0 = never
    health_check_node_state: str = "ANY"
    reboot_program: str = ""
    resume_timeout_s: int = 60  # time that a node has to return from a reboot
    job_container_type: str = "job_container/none"
    namespace_type: str = "namespace/none"
    private_tmp: str = ""  # parent of the private folders of jobs; "" = folders are shared
    private_tmp_folders: tuple[str, ...] = ("/tmp", "/dev/shm")  # noqa: S108 (what jobs get of their own)
    allow_new_privs: bool = False
    use_pam: bool = False
    # -- GPUs
    gpu_settings: str = "read-write"  # or read-only: GPU settings are not changed
    gpu_poll_s: int = 10
    gpu_xid_file: str = ""
    gpu_xids: tuple[tuple[int, str], ...] = ()  # contents of gpu_xid_file: (XID, one of XID_CLASSES)
    gpu_lost_drains_node: bool = False
    gpu_check_program: str = ""
    gpu_check_interval_h: int = 0  # for idle GPUs; 0 = never
    gpu_reset_program: str = ""
    gpu_idle_warn_s: int = 0  # 0 = no check for idle GPUs
    gpu_idle_limit_s: int = 0  # time from the warning to gpu_idle_action; 0 = warning only
    gpu_idle_action: str = "warn"  # or cancel, return
    gpu_idle_percent: int = 1  # utilisation below which a GPU is idle
    gpu_job_map_dir: str = ""
    gpu_accounting_mode: bool = False
    mig_pause_s: int = 60  # minimum time between two divisions of one GPU
    mps_program: str = "nvidia-cuda-mps-control"
    # -- jobs and daemons
    private_data: tuple[str, ...] = ()  # accounts events jobs nodes partitions reservations usage users
    requeue_exit: tuple[int, ...] = ()  # exit codes with which batch jobs are requeued
    requeue_exit_hold: tuple[int, ...] = ()  # exit codes with which batch jobs are requeued and held
    mail_prog: str = "/bin/mail"
    mail_domain: str = ""  # appended to users who give no address
    penstock_jwt_audience: str = (
        ""  # accepted in tokens of jwks beside the cluster's name: the client id at the provider
    )
    pam_user: str = ""  # the REST daemon's user, who may ask `penstock pamd`; "" = there is no login by password
    pam_socket: str = "/run/penstock-pam/pamd.sock"
    pam_min_uid: int = 1000  # users below it do not log in by password
    pam_allow_users: tuple[str, ...] = ()  # but these
    pam_token_life_s: int = 28800  # of a login by password
    pam_network: bool = False  # modules of PAM may use the network
    penstock_mail_user: str = "nobody"  # user that MailProg runs as if the controller is root
    cli_filter_plugins: tuple[str, ...] = ()  # lua, user_defaults, syslog: filters of options, in the commands
    cli_filter: str = ""  # a Python file with setup_defaults, pre_submit, post_submit
    cli_filter_failure: str = "refuse"  # or accept: what becomes of a command at which a site's filter of options fails
    submit_filter: str = ""  # a Python file with job_submit, job_modify
    submit_filter_timeout_s: int = 2
    submit_filter_failure: str = "refuse"  # or accept: what becomes of a request at which the filter fails
    submit_filter_user: str = "nobody"  # user that filters run as if the controller is root
    job_comp_type: str = ""  # jobcomp/filetxt, script, elasticsearch, kafka; "" = none
    job_comp_loc: str = ""  # a file, a program, a URL or a file of properties
    job_comp_params: tuple[tuple[str, str], ...] = ()
    job_comp_user: str = "nobody"  # user that jobcomp/script runs as if the controller is root
    webhooks_file: str = ""
    webhooks: tuple[Webhook, ...] = ()  # contents of that file
    job_submit_plugins: tuple[str, ...] = ()  # lua: job_submit.lua beside slurm.conf
    def_cpu_per_gpu: int = 0
    def_mem_per_gpu_mb: int = 0
    job_file_append: bool = False  # append to output files instead of truncating them
    kill_on_bad_exit: bool = False  # srun's default
    wait_time_s: int = 0  # srun --wait; 0 = unlimited
    mpi_default: str = "none"
    mcs_plugin: str = "mcs/none"
    mcs_parameters: str = ""
    debug_flags: tuple[str, ...] = ()  # of penstock.values.debugflags
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
    penstock_budget_at_end: str = "finish"  # or cancel: the running jobs of a budget that is used up
    penstock_lending: str = "none"  # or all: accounts without Lend= lend all of their GrpTRES
    enforce: tuple[str, ...] = ()  # AccountingStorageEnforce with the words that it implies (policykinds.ENFORCE)
    # -- metrics
    metrics_type: str = ""  # or metrics/openmetrics
    metrics_parameters: tuple[tuple[str, str], ...] = ()
    metrics_port: int = 6821
    metrics_addr: str = "127.0.0.1"  # the address to listen on
    metrics_node_port: int = 6822  # of node daemons; 0 = they have no metrics
    metrics_node_addr: str = "127.0.0.1"
    metrics_dcgm_names: bool = False  # GPUs also under dcgm-exporter's names
    metrics_token_file: str = ""  # "" = no token is asked for
    metrics_allow: tuple[str, ...] = ()  # addresses and networks; () = all
    metrics_tls: bool = False
    metrics_values_max: int = 1000  # values of a label that users choose, as accounts
    hang_after_s: int = 600  # a step that hangs for so long is said to; 0 = none is
    hang_action: tuple[int, int] = (0, 0)  # the signal to it, 0 = none; the seconds from then on until it is sent
    trace_url: str = ""  # of a collector of OpenTelemetry; "" = no traces
    trace_one_in: int = 1  # one job in so many has a trace
    traces_per_s: int = 10  # at most so many jobs a second on average; 0 = no limit
    # from slurmdbd.conf
    purge_after: tuple[tuple[str, int, str], ...] = field(
        default=(), compare=False
    )  # (kind of purging.py, number, unit)
    archive: tuple[str, ...] = field(default=(), compare=False)  # kinds that are archived before they are purged
    archive_dir: str = field(default="", compare=False)  # "" = in the state folder
    gpu_freq_def: str = ""
    launch_parameters: tuple[tuple[str, str], ...] = ()
    interactive_step_options: str = "--interactive --preserve-env --pty $SHELL"  # for the shell that salloc starts
    nodes: tuple[NodeConfig, ...] = ()
    partitions: tuple[PartitionConfig, ...] = ()
    #: UTC offsets of the machine's time zone, as (from_us, seconds east of Greenwich), for recurrence by local days; () = UTC
    utc_offsets: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    #: All keys in Slurm's spelling and format, for `scontrol show config`. Derived from the other fields and from keys
    #: of the file without effect, so it does not take part in comparisons.
    shown: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def has_prolog_flag(self, name: str) -> bool:
        """Returns whether PrologFlags contains the flag, or one that implies it."""
        flags = self.prolog_flags
        return name in flags or (name == "Contain" and "X11" in flags) or (name == "Alloc" and bool(flags))

    def has_word(self, field: str, name: str) -> bool:
        """Returns whether a list of parameters (`slurmctld_parameters`, ...) contains the word, in any case."""
        return any(word.lower() == name for word, _ in getattr(self, field))

    def word_value(self, field: str, name: str) -> str:
        """Returns the value of `name=` in a list of parameters, or "" if it is absent."""
        return next((value for word, value in getattr(self, field) if word.lower() == name), "")

    def is_multifactor(self) -> bool:
        """Returns whether priorities are multifactor, and usage is charged."""
        return self.priority_type == "priority/multifactor"

    def preempt_word(self, name: str) -> bool:
        """Returns whether PreemptParameters contains the word."""
        return any(word == name for word, _ in self.preempt_parameters)

    def preempt_number(self, name: str, default: int) -> int:
        """Returns the number of a PreemptParameters entry."""
        return next((int(text) for word, text in self.preempt_parameters if word == name), default)

    def memory_is_consumable(self) -> bool:
        """Returns whether memory is allocated to jobs, not only CPUs (CR_*_Memory)."""
        return _allocates_memory(self.select_type_parameters)

    def gpus_of_largest(self) -> int:
        """Returns the number of GPUs of the node with the most."""
        return max((node.gpu_count() for node in self.nodes), default=0)

    def cpu_quantum(self, node: NodeConfig) -> int:
        """Returns the allocation unit of CPUs: whole cores or sockets as SelectTypeParameters says (slurm.conf(5)).

        Where CPUs counts cores, and where it is any other number, the unit is one CPU. No socket with specialized cores
        is whole, so the unit of such a node is the core.
        """
        words = " ".join(self.select_type_parameters).upper()
        if not node.counts_threads():
            return 1
        if "CR_SOCKET" in words and not node.specialized_cpus:
            return node.cores_per_socket * node.threads_per_core
        return 1 if "CR_CPU" in words else node.threads_per_core
