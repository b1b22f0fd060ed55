"""The words inside lists of parameters (SchedulerParameters, SlurmctldParameters, ...): which have a meaning, which have none.

`WORDS[key][word]` is "" for a word that has Slurm's meaning here or asks for what is done anyway; else the reason why
it has none, and what happens instead: each such word draws one warning. A word in no list draws a warning with the
nearest known one, as Slurm itself says nothing about it. Words are compared without case; what stands behind `=` is
read by whoever uses it.
"""

from collections.abc import Iterator
from difflib import get_close_matches

#: What is said of a word that Slurm does not have either.
NOT_KNOWN = "is not known"

_FULL = "the whole queue is planned beside all other work, which waits for none of it"
_BATCHED = "requests are answered in batches, so none has to be put off"
_CLOUD = "nodes are not switched on and off"
_TREE = "the controller speaks to each node over one stream that stays open"
_CHAIN = "a dependency in a circle is refused, and chains may have any length"
_KERNEL = "users are known by the kernel's word on their machine"
_SIZE = "a node counts its own sockets and cores"


def _table(done: str, without: dict[str, str]) -> dict[str, str]:
    """Words that have their meaning, and reasons for groups of those that have none."""
    return dict.fromkeys(done.split(), "") | {word: why for words, why in without.items() for word in words.split()}


_SCHEDULER = _table(
    "bf_interval bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_test bf_max_job_user bf_max_time "
    "bf_min_age_reserve bf_resolution bf_window bf_continue default_queue_depth max_script_size max_switch_wait "
    "nohold_on_prolog_fail whole_hetjob preempt_youngest_first preempt_send_user_signal "
    "preempt_min_exempt_priority preempt_suspend_grace_time bf_licenses bf_running_job_reserve enable_hetjob_steps "
    "no_backup_scheduling bf_one_resv_per_job requeue_delay assoc_limit_stop",
    {
        "preempt_reorder_count preempt_strict_order": "victims are chosen once, so that the fewest and lowest go",
        "preempt_reclaim_licenses": "preemption is for nodes; who waits for licences waits",
        "sched_interval": "a pass is made when something has changed, and by bf_interval for the whole queue",
        "bf_yield_interval bf_yield_sleep bf_yield_rpc_cnt yield_rpc_cnt yield_interval yield_sleep": _FULL,
        "bf_max_job_start sched_max_job_start max_sched_time": "a pass starts all that can start",
        "sched_min_interval partition_job_depth build_queue_timeout": _FULL,
        "bf_job_part_count_reserve bf_min_prio_reserve": "PenstockBackfill says how many waiting jobs hold resources",
        "bf_node_space_size bf_window_linear bf_max_job_user_part": "the plan of the future has no such limit",
        "bf_ignore_newly_avail_nodes": "each plan sees the nodes of its moment",
        "bf_busy_nodes": "jobs go where least is left over, which are busy nodes",
        "bf_hetjob_prio bf_hetjob_immediate": "components of a job are planned together, with the first one's priority",
        "bf_allow_magnetic_slot": "magnetic reservations take such jobs only",
        "bf_topopt_enable bf_topopt_iterations": "each job gets the switches with the least left over",
        "batch_sched_delay defer defer_batch": "a job is tried when it is submitted, at no cost for the others",
        "max_rpc_cnt": _BATCHED,
        "enable_user_top": "the order of a user's own jobs is changed with scontrol update job ... nice=",
        "pack_serial_at_end": "small jobs go where least is left over; CR_LLN spreads them",
        "time_min_as_soft_limit": "--time-min is used when it lets a job start at once",
        "reduce_completing_frag": "a node that has given its resources back is free",
        "spec_cores_first": "no cores are set apart",
        "allow_zero_lic": "licences that the cluster does not have cannot be asked for",
        "disable_hetjob_steps": "steps may span the components of a job",
        "disable_job_shrink": "the size of a running job is not changed",
        "enable_job_state_cache": "listings are answered from a snapshot, always",
        "extra_constraints": "nodes have no extra attributes to ask for",
        "ignore_prefer_validation": "an unknown feature in --prefer is refused, as a slip",
        "ignore_constraint_validation": "an unknown feature is refused, as a slip",
        "no_env_cache requeue_setup_env_fail": "--get-user-env asks the node, and keeps nothing",
        "salloc_wait_nodes sbatch_wait_nodes": "--wait-all-nodes says it for a job",
        "bb_array_stage_cnt": "there are no burst buffers",
        "correspond_after_task_cnt": "each task of an array depends on its own counterpart",
        "delay_boot": _CLOUD,
        "max_depend_depth": _CHAIN,
        "max_array_tasks": "MaxArraySize limits the index and so the tasks",
        "max_submit_line_size": "the submit line is kept up to 64 KiB",
        "step_retry_count step_retry_time": "a step waits in the controller and starts when it fits",
    },
)

_SLURMCTLD = _table(
    "enable_configless node_reg_mem_percent rl_enable rl_bucket_size rl_log_freq rl_refill_period rl_refill_rate "
    "rl_table_size user_resv_delete no_quick_restart preempt_send_user_signal allow_user_triggers",
    {
        "cloud_dns cloud_reg_addrs idle_on_node_suspend power_save_interval power_save_min_interval "
        "max_powered_nodes reboot_from_controller": _CLOUD,
        "disable_triggers": "events cost nothing unless somebody asks for them",
        "enable_job_state_cache": "listings are answered from a snapshot, always",
        "enable_expedited_requeue": "expedited requeue needs no switch",
        "enable_stepmgr": "steps are started by the controller, in the order in which they were asked for",
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
        "allow_ecores": "all cores are alike",
        "shutdown_on_reboot": "RebootProgram says how a node goes down",
        "contain_spank": "there are no SPANK plug-ins",
        "conmgr_threads conmgr_use_poll conmgr_max_connections": "connections are gRPC's",
    },
)

_LAUNCH = _table(
    "use_interactive_step",
    {
        "enable_nss_slurm": "users are looked up on the nodes; nss_slurm has no counterpart",
        "batch_step_set_cpu_freq": "CPU frequencies are left as they are",
        "cray_net_exclusive": "the network is left as it is",
        "disable_send_gids": "groups are looked up on the nodes, nothing is sent",
        "send_gids": "groups are looked up on the nodes",
        "lustre_no_flush": "nothing is flushed behind a job",
        "mem_sort slurmstepd_memlock slurmstepd_memlock_all": "memory of the step's daemon is left to the system",
        "mpir_use_nodeaddr": "there is no MPIR interface",
        "ulimit_pam_adopt": "sessions that pam_slurm_adopt lets in keep their own limits",
        "test_exec": "a program that is not there fails in its task, with exit code 2",
    },
)

_DEPENDENCY = _table(
    "kill_invalid_depend",
    {"max_depend_depth": _CHAIN, "disable_remote_singleton": "a command speaks to one cluster"},
)

_COMMUNICATION = _table(
    "",
    {
        "block_null_hash": "messages are TLS",
        "CheckGhalQuiesce DisableIPv4 EnableIPv6 NoAddrCache NoCtldInAddrAny NoInAddrAny": (
            "SlurmctldHost=NAME(ADDRESS) says where the controller listens, and --stream-bind where a node does"
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
        "SplitOpt": "--segment says it for a job",
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

_AUTH_PARAMETERS = _table(
    "jwt_key disable_token_creation",
    {"jwks userclaimfield": "tokens are given out, for others; Penstock's own commands show none"},
)

_SELECT = _table(
    "CR_CPU CR_CPU_MEMORY CR_CORE CR_CORE_MEMORY CR_SOCKET CR_SOCKET_MEMORY CR_MEMORY CR_LLN "
    "CR_CORE_DEFAULT_DIST_BLOCK PENSTOCK_BEST_FIT PENSTOCK_FGD PENSTOCK_STEER",
    {
        "CR_BOARD CR_BOARD_MEMORY": "boards are not given as a whole; CR_SOCKET gives sockets",
        "CR_ONE_TASK_PER_CORE": "--ntasks-per-core=1 says it for a job",
        "CR_PACK_NODES": "--distribution=pack says it for a job",
        "CR_OTHER_CONS_RES CR_OTHER_CONS_TRES": "Slurm itself has dropped it",
        "LL_SHARED_GRES": "parts of a GPU are taken where least is left over; PENSTOCK_FGD and PENSTOCK_STEER change that",
        "ENFORCE_BINDING_GRES": "cores near a job's GPUs are preferred, and others are taken when they are in use",
        "ONE_TASK_PER_SHARING_GRES MULTIPLE_SHARING_GRES_PJ": "parts of a GPU are given to a job, whatever its tasks are",
    },
)

_TASKS = _table(
    "",
    {
        "Cores Sockets Threads Verbose Autobind=cores Autobind=threads Autobind=none": (
            "tasks are bound to the CPUs that they have, by cores; --cpu-bind says otherwise for a step"
        ),
        "SlurmdOffSpec SlurmdSpecOverride": "no cores are set apart",
        "OOMKillStep": "--oom-kill-step says it for a step",
    },
)

_PREEMPT = _table(
    "youngest_first send_user_signal min_exempt_priority suspend_grace_time",
    {
        "reorder_count strict_order": "victims are chosen once, so that the fewest and lowest go",
        "reclaim_licenses": "preemption is for nodes; who waits for licences waits",
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
    """(word, why it has no meaning here) for those of the names that have none; only keys in WORDS have such."""
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
