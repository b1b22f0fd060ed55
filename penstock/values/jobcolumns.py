"""Names of the job fields that a listing may request individually (ListJobsRequest.columns).

A name is the path of the field in JobInfo, with three exceptions: an absent value of a field in OPTIONAL is -1,
`tres_per_node` is the text of the request per node, and booleans such as `request.exclusive` are 0 or 1. A request with
a name that is not listed here is answered with whole JobInfo messages, so newer commands work with an older controller.
"""

NUMBERS = frozenset((
    "job_id", "array_job_id", "array_task_id", "array_throttle", "user_id", "group_id", "priority", "submit_at_us",
    "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s", "cpus", "nodes", "tasks", "attempt", "hold",
    "mem_mb", "suspended_us", "suspended_at_us", "preempt_at_us", "het_job_id", "het_offset", "exit.code", "exit.signal",
    "resized_at_us",
    "planned_start_at_us", "last_sched_at_us", "request.nice", "request.begin_at_us", "request.cpus_per_task",
    "request.ntasks_per_node", "request.nodes_max", "request.kind", "request.exclusive", "request.exclusive_user",
    "request.requeue", "request.mincpus", "request.tmp_disk_mb", "request.sockets_per_node", "request.cores_per_socket",
    "request.threads_per_core", "request.contiguous", "request.exclusive_mcs", "request.exclusive_topo", "request.oversubscribe",
    "request.core_spec", "request.thread_spec", "derived_exit.code", "derived_exit.signal",
))  # fmt: skip

#: Numbers that may be absent; an absent one is -1.
OPTIONAL = frozenset(("array_task_id", "request.oversubscribe", "request.core_spec", "request.thread_spec"))

TEXTS = frozenset((
    "array_tasks", "state", "reason", "reason_detail", "user_name", "group_name", "partition", "node_list",
    "batch_node", "dependency", "admin_comment", "tres_req", "tres_alloc", "het_job_ids", "tres_per_node",
    "planned_node_list", "licenses_alloc", "std_out", "std_err", "std_in", "request.name", "request.account", "request.qos",
    "request.comment", "request.work_dir", "request.features", "request.command", "request.wckey", "request.licenses",
    "request.nodes_required", "request.nodes_excluded", "request.reservation", "request.submit_host",
))  # fmt: skip

NAMES = NUMBERS | TEXTS

#: By what a window of the list may be ordered (JobWindow.order): the members of `GET /penstock/v1/jobs`, and what tables make of
#: them: GPUs of the TRES, the time since the start.
ORDERS = (
    "job_id", "name", "user_name", "account", "partition", "qos", "state", "reason", "priority", "node_list", "cpus", "gpus",
    "submit_at_us", "start_at_us", "end_at_us", "elapsed", "time_limit_s", "planned_start_at_us",
)  # fmt: skip
#: Rows of one window.
WINDOW_ROWS_MAX = 1_000


def tres_per_node(per_node: "tuple[tuple[str, str, int], ...]", per_job_or_task: bool) -> str:
    """Formats (name, type, count) as `gres/gpu:a100:2`, without the GPUs that follow from --gpus or --gpus-per-task."""
    wanted = (g for g in per_node if not (per_job_or_task and g[0] == "gpu"))
    return ",".join(":".join(filter(None, ("gres/" + name, kind, str(count)))) for name, kind, count in wanted) or "N/A"
