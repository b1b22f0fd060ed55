"""The known words of list parameters (SchedulerParameters, SlurmctldParameters, ...): which have an effect here and
which do not.

`WORDS[key][word]` is "" for a word that has Slurm's effect here or describes what is done anyway; else the reason why
it has none, and what is done instead. Each of the latter causes one warning. A word in no list causes a warning with
the most similar known one (Slurm itself reports nothing). Words are compared without case; values after `=` are parsed
where they are used.
"""

from collections.abc import Iterator
from difflib import get_close_matches

#: The reason for a word that Slurm does not have either.
NOT_KNOWN = "is not known"

_FULL = "the whole queue is planned in a thread of its own, which delays nothing else"
_BATCHED = "requests are answered in batches, so none is deferred"
_CLOUD = "nodes are not powered on and off"
_TREE = "the controller has one open stream to each node"
_CHAIN = "circular dependencies are refused, and chains may have any length"
_KERNEL = "the kernel authenticates users on their machine"
_SIZE = "a node reports its physical sockets and cores"


def _table(done: str, without: dict[str, str]) -> dict[str, str]:
    """Returns the words with an effect, and the others with their reasons, which are given per group."""
    return dict.fromkeys(done.split(), "") | {word: why for words, why in without.items() for word in words.split()}


_SCHEDULER = _table(
    "bf_interval bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_test bf_max_job_user bf_max_time "
    "bf_min_age_reserve bf_resolution bf_window bf_continue default_queue_depth max_script_size max_switch_wait "
    "nohold_on_prolog_fail whole_hetjob preempt_youngest_first preempt_send_user_signal "
    "preempt_min_exempt_priority preempt_suspend_grace_time bf_licenses bf_running_job_reserve enable_hetjob_steps "
    "no_backup_scheduling bf_one_resv_per_job requeue_delay disable_job_shrink assoc_limit_stop enable_user_top "
    "spec_cores_first",
    {
        "preempt_reorder_count preempt_strict_order": "victims are chosen once: the fewest, with the lowest priority",
        "preempt_reclaim_licenses": "jobs are preempted for nodes, never for licenses",
        "sched_interval": "a pass is made when something has changed, and by bf_interval for the whole queue",
        "bf_yield_interval bf_yield_sleep bf_yield_rpc_cnt yield_rpc_cnt yield_interval yield_sleep": _FULL,
        "bf_max_job_start sched_max_job_start max_sched_time": "a pass starts all that can start",
        "sched_min_interval partition_job_depth build_queue_timeout": _FULL,
        "bf_job_part_count_reserve bf_min_prio_reserve": "PenstockBackfill sets how many waiting jobs reserve resources",
        "bf_node_space_size bf_window_linear bf_max_job_user_part": "the plan has no such limit",
        "bf_ignore_newly_avail_nodes": "each plan uses the nodes as they are when it starts",
        "bf_busy_nodes": "jobs are placed where the least is left over, on busy nodes",
        "bf_hetjob_prio bf_hetjob_immediate": "components of a job are planned together, with the priority of the first",
        "bf_allow_magnetic_slot": "magnetic reservations take only jobs that are eligible for them",
        "bf_topopt_enable bf_topopt_iterations": "each job gets the switches with the least left over",
        "batch_sched_delay defer defer_batch": "scheduling a job at submission delays no other",
        "max_rpc_cnt": _BATCHED,
        "pack_serial_at_end": "small jobs are placed where the least is left over; CR_LLN spreads them",
        "time_min_as_soft_limit": "--time-min is used when it lets a job start at once",
        "reduce_completing_frag": "a node is free as soon as its resources are released",
        "allow_zero_lic": "licenses that the cluster does not have cannot be requested",
        "disable_hetjob_steps": "steps may span the components of a job",
        "enable_job_state_cache": "listings are answered from a snapshot, always",
        "extra_constraints": "nodes have no extra attributes to request",
        "ignore_prefer_validation": "an unknown feature in --prefer is refused",
        "ignore_constraint_validation": "an unknown feature is refused",
        "no_env_cache requeue_setup_env_fail": "--get-user-env reads the environment on the node, without a cache",
        "salloc_wait_nodes sbatch_wait_nodes": "--wait-all-nodes sets it for a job",
        "bb_array_stage_cnt": "there are no burst buffers",
        "correspond_after_task_cnt": "each task of an array depends on its own counterpart",
        "delay_boot": _CLOUD,
        "max_depend_depth": _CHAIN,
        "max_array_tasks": "MaxArraySize limits the index and so the tasks",
        "max_submit_line_size": "submit lines are stored up to 64 KiB",
        "step_retry_count step_retry_time": "a step waits in the controller and starts when it fits",
    },
)

_SLURMCTLD = _table(
    "enable_configless node_reg_mem_percent rl_enable rl_bucket_size rl_log_freq rl_refill_period rl_refill_rate "
    "rl_table_size user_resv_delete no_quick_restart preempt_send_user_signal allow_user_triggers",
    {
        "cloud_dns cloud_reg_addrs idle_on_node_suspend power_save_interval power_save_min_interval "
        "max_powered_nodes": _CLOUD,
        "reboot_from_controller": "RebootProgram runs on the node",
        "disable_triggers": "triggers that are not set cost nothing",
        "enable_job_state_cache": "listings are answered from a snapshot, always",
        "enable_expedited_requeue": "expedited requeue needs no switch",
        "enable_stepmgr": "the controller starts steps in the order of their requests",
        "max_dbd_msg_action": "there is no slurmdbd",
        "conmgr_max_connections conmgr_quiesce_timeout conmgr_read_timeout conmgr_threads conmgr_use_poll "
        "conmgr_wait_write_delay conmgr_write_timeout conmgr_connect_timeout tls_keepalive": "connections are gRPC's",
        "ignore_state_errors": "a database that cannot be read stops the controller, so that nothing is lost",
        "enforce_job_submit_lua": "there is no job_submit.lua",
    },
)

_SLURMD = _table(
    "config_overrides",
    {
        "l3cache_as_socket numa_node_as_socket": _SIZE,
        "allow_ecores": "all cores are treated alike",
        "shutdown_on_reboot": "RebootProgram determines how a node shuts down",
        "contain_spank": "there are no SPANK plug-ins",
        "conmgr_threads conmgr_use_poll conmgr_max_connections": "connections are gRPC's",
    },
)

_LAUNCH = _table(
    "use_interactive_step",
    {
        "enable_nss_slurm": "users are looked up on the nodes; nss_slurm has no counterpart",
        "batch_step_set_cpu_freq": "CPU frequencies are not changed",
        "cray_net_exclusive": "networks are not configured",
        "disable_send_gids": "groups are looked up on the nodes and not sent",
        "send_gids": "groups are looked up on the nodes",
        "lustre_no_flush": "nothing is flushed after a job",
        "mem_sort slurmstepd_memlock slurmstepd_memlock_all": "memory of the step's daemon is left to the system",
        "mpir_use_nodeaddr": "there is no MPIR interface",
        "ulimit_pam_adopt": "sessions that pam_slurm_adopt lets in keep their own limits",
        "test_exec": "a program that is not there fails in its task, with exit code 2",
    },
)

_DEPENDENCY = _table(
    "kill_invalid_depend",
    {"max_depend_depth": _CHAIN, "disable_remote_singleton": "there are no federations"},
)

_COMMUNICATION = _table(
    "",
    {
        "block_null_hash": "messages are TLS",
        "CheckGhalQuiesce DisableIPv4 EnableIPv6 NoAddrCache NoCtldInAddrAny NoInAddrAny": (
            "SlurmctldHost=NAME(ADDRESS) sets where the controller listens, and --stream-bind where a node does"
        ),
        "disable_http host_unreach_retry_count keepaliveinterval keepaliveprobes keepalivetime": _TREE,
    },
)

_TOPOLOGY = _table(
    "",
    {
        "SwitchAsNodeRank": "nodes are numbered in the order of slurm.conf",
        "TopoOptional": "each job gets the switches with the least left over, also without --switches",
        "Dragonfly": "every topology is a tree or blocks",
        "BlockAsNodeRank": "nodes are numbered in the order of slurm.conf",
        "RoutePart RouteTree": _TREE,
        "SplitOpt": "--segment sets it for a job",
        "TopoMaxSizeUnroll": "a job takes the switches with the least left over",
    },
)

_RECONFIG = _table(
    "KeepPartInfo KeepPartState",
    {
        "KeepNodeStateFuture": "a node in State=FUTURE that has registered stays known by what it registered",
        "KeepPowerSaveSettings": _CLOUD,
    },
)

_SCRON = _table("enable disable explicit_scancel", {})

_AUTH_TYPES = _table("auth/jwt", {"auth/munge auth/slurm": _KERNEL})

_AUTH_PARAMETERS = _table("jwt_key jwks userclaimfield max_token_lifespan disable_token_creation", {})

_SELECT = _table(
    "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_LLN "
    "CR_CORE_DEFAULT_DIST_BLOCK PENSTOCK_BEST_FIT PENSTOCK_FGD PENSTOCK_STEER",
    {
        "CR_BOARD CR_BOARD_MEMORY": "boards are not allocated as a whole; CR_SOCKET allocates sockets",
        "CR_ONE_TASK_PER_CORE": "--ntasks-per-core=1 sets it for a job",
        "CR_PACK_NODES": "--distribution=pack sets it for a job",
        "CR_OTHER_CONS_RES CR_OTHER_CONS_TRES": "removed from Slurm itself",
        "LL_SHARED_GRES": "parts of a GPU go where the least is left over; PENSTOCK_FGD and PENSTOCK_STEER change that",
        "ENFORCE_BINDING_GRES": "cores near a job's GPUs are preferred, and others are taken when they are in use",
        "ONE_TASK_PER_SHARING_GRES MULTIPLE_SHARING_GRES_PJ": "parts of a GPU are allocated to a job, regardless of its tasks",
    },
)

_TASKS = _table(
    "",
    {
        "Cores Sockets Threads Verbose Autobind=cores Autobind=threads Autobind=none": (
            "tasks are bound to their CPUs, by cores; --cpu-bind changes it for a step"
        ),
        "SlurmdOffSpec SlurmdSpecOverride": "there are no specialized cores",
        "OOMKillStep": "--oom-kill-step sets it for a step",
    },
)

_PREEMPT = _table(
    "youngest_first send_user_signal min_exempt_priority suspend_grace_time",
    {
        "reorder_count strict_order": "victims are chosen once: the fewest, with the lowest priority",
        "reclaim_licenses": "jobs are preempted for nodes, never for licenses",
    },
)

WORDS: dict[str, dict[str, str]] = {
    "SelectTypeParameters": _SELECT,
    "TaskPluginParam": _TASKS,
    "PreemptParameters": _PREEMPT,
    "SchedulerParameters": _SCHEDULER,
    "SlurmctldParameters": _SLURMCTLD,
    "SlurmdParameters": _SLURMD,
    "LaunchParameters": _LAUNCH,
    "MetricsParameters": {"ignore_private_data": ""},
    "DependencyParameters": _DEPENDENCY,
    "CommunicationParameters": _COMMUNICATION,
    "TopologyParam": _TOPOLOGY,
    "ReconfigFlags": _RECONFIG,
    "ScronParameters": _SCRON,
    "AuthAltTypes": _AUTH_TYPES,
    "AuthAltParameters": _AUTH_PARAMETERS,
}
_LOWER = {key: {word.lower(): why for word, why in words.items()} for key, words in WORDS.items()}


def without_meaning(key: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields (word, reason) for the words that have no effect, if the key is in WORDS."""
    known = _LOWER[key]
    for name in dict.fromkeys(names):
        why = known.get(name.lower())
        if why is None:
            close = get_close_matches(name.lower()[:64], known, n=1)
            yield name, NOT_KNOWN + (f" (did you mean {_spelt(key, close[0])}?)" if close else "")
        elif why:
            yield name, why


def _spelt(key: str, lower: str) -> str:
    return next(word for word in WORDS[key] if word.lower() == lower)
