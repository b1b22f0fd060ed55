"""The environment of a step's tasks: what was submitted, plus what Slurm says in SLURM_* variables.

One pure function over plain facts and one table. A variable of the table that does not apply is absent, and one that
was submitted (from inside another job, say) is dropped: stale facts of an outer job must not be read as facts of this
one.

How a job is told of its GPUs is gpupins.py's.

What the controller itself makes (components of a heterogeneous job) comes ready, as `more`. What a step of srun and its
tasks have beside this is in stepenv.py.

Deliberately absent: what only the task's process knows (SLURM_TASK_PID, and HOME and the like when they were not
submitted).
"""

from collections.abc import Callable, Iterable

import msgspec

from nodedaemon.core import gpupins
from nodedaemon.core.gpupins import Gpu, Pinning


class NodeShare(msgspec.Struct, frozen=True, gc=False):
    """What the job holds on one node."""

    node: str
    cpus: int
    mem_mb: int
    tasks: int
    gpus: tuple[Gpu, ...] = ()  # whole ones
    shared_gpus: tuple[Gpu, ...] = ()  # those of which it has a part
    shards: int = 0
    mps_percent: int = 0  # of the threads of its shared GPU; 0 = not MPS
    mps_mem_mb: int = 0  # of its memory; 0 = not known
    mps_folder: str = ""  # of its control daemon's socket
    pinning: Pinning = Pinning()

    def all_gpus(self) -> tuple[Gpu, ...]:
        """Those that it can open, in the order of their numbers."""
        if not (self.gpus or self.shared_gpus):
            return ()
        return tuple(sorted((*self.gpus, *self.shared_gpus), key=lambda gpu: gpu.number))


class StepFacts(msgspec.Struct, frozen=True, gc=False):
    """What the variables are made of. Zero or empty = not asked for or not so, unless None says that."""

    job_id: int
    step_id: int
    user_id: int
    group_id: int
    user_name: str
    group_name: str
    share: NodeShare  # this node's part
    nodes: tuple[NodeShare, ...]  # the whole job's
    cluster_name: str = ""
    job_name: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    array_job_id: int = 0
    array_task_id: int | None = None
    array_task_count: int = 0
    array_task_min: int = 0
    array_task_max: int = 0
    array_task_step: int = 0
    node_list: str = ""
    node_index: int = 0
    ntasks: int = 0
    cpus_per_task: int = 0
    ntasks_per_node: int = 0
    mem_per_node_mb: int | None = None
    mem_per_cpu_mb: int | None = None
    start_at_us: int = 0
    end_at_us: int = 0
    restart_count: int = 0
    submit_dir: bytes = b""
    submit_host: str = ""
    dependency: str = ""
    reservation: str = ""
    licenses: str = ""
    topology_addr: str = ""
    topology_pattern: str = ""
    gpus_per_node: str = ""
    export_env: str = ""
    comment: str = ""
    hostname: str = ""  # of this machine; the node's name may be another (several node daemons on one machine)
    cluster_file: str = ""
    slurm_conf: str = ""  # a short one, in the node's spool
    priority_process: int = 0  # the submitting process's nice value
    mem_per_gpu_mb: int | None = None
    cpus_per_gpu: int = 0
    ntasks_per_gpu: int = 0
    gpus: str = ""  # as asked for
    gpus_per_task: str = ""
    distribution: str = ""
    master_host: str = ""
    master_port: int = 0  # reserved for the job; 0 = none
    more: tuple[bytes, ...] = ()  # NAME=VALUE made by the controller
    het_job_id: int = 0  # of a heterogeneous job: its leader's id, which is the id that its tasks see


def compress_counts(counts: Iterable[int]) -> str:
    """`8(x4),2`: one number per node, runs written once."""
    runs: list[tuple[int, int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1] + 1)
        else:
            runs.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def _ntasks(f: StepFacts) -> int:
    """The number of tasks, when the user said anything about it."""
    return f.ntasks or f.ntasks_per_node * len(f.nodes)


def _mem_per_node(f: StepFacts) -> int | None:
    if f.mem_per_node_mb is None:
        return None
    return f.mem_per_node_mb or f.share.mem_mb  # --mem=0 asks for all of the node


def join_ids(ids: tuple[int, ...]) -> str:
    return ",".join(str(i) for i in ids)


def _array(value: Callable[[StepFacts], int | None]) -> Callable[[StepFacts], int | None]:
    return lambda f: None if f.array_task_id is None else value(f)


Value = str | int | bytes | None


def _list(name: str) -> Callable[[NodeShare], Value]:
    return lambda share: gpupins.listed(name, share.all_gpus(), share.pinning)


#: What a share of a node says by itself: to a batch script the job's, to tasks of a step the step's.
SHARE_TABLE: dict[str, Callable[[NodeShare], Value]] = {
    **{name: _list(name) for name in gpupins.LISTS},
    "CUDA_DEVICE_ORDER": lambda s: gpupins.device_order(s.pinning),
    "NVIDIA_VISIBLE_DEVICES": lambda s: gpupins.for_containers(s.all_gpus(), s.pinning),
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": lambda s: s.mps_percent or None,
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": lambda s: f"0={s.mps_mem_mb}M" if s.mps_mem_mb else None,
    "CUDA_MPS_PIPE_DIRECTORY": lambda s: s.mps_folder or None,
}


def _of_share(make: Callable[[NodeShare], Value]) -> Callable[[StepFacts], Value]:
    return lambda f: make(f.share)


#: Name -> value; None = the variable does not apply. Zero or empty counts as absent where `or None` says so.
TABLE: dict[str, Callable[[StepFacts], Value]] = {
    "SLURM_JOB_ID": lambda f: f.het_job_id or f.job_id,
    "SLURM_JOBID": lambda f: f.het_job_id or f.job_id,
    "SLURM_JOB_NAME": lambda f: f.job_name,
    "SLURM_JOB_USER": lambda f: f.user_name,
    "SLURM_JOB_UID": lambda f: f.user_id,
    "SLURM_JOB_GROUP": lambda f: f.group_name or None,
    "SLURM_JOB_GID": lambda f: f.group_id,
    "SLURM_JOB_ACCOUNT": lambda f: f.account or None,
    "SLURM_JOB_PARTITION": lambda f: f.partition,
    "SLURM_JOB_QOS": lambda f: f.qos or None,
    "SLURM_JOB_RESERVATION": lambda f: f.reservation or None,
    "SLURM_JOB_DEPENDENCY": lambda f: f.dependency or None,
    "SLURM_JOB_LICENSES": lambda f: f.licenses or None,
    "SLURM_JOB_COMMENT": lambda f: f.comment or None,
    "SLURM_JOB_START_TIME": lambda f: f.start_at_us // 1_000_000 or None,
    "SLURM_JOB_END_TIME": lambda f: f.end_at_us // 1_000_000 or None,
    "SLURM_JOB_NODELIST": lambda f: f.node_list,
    "SLURM_NODELIST": lambda f: f.node_list,
    "SLURM_JOB_NUM_NODES": lambda f: len(f.nodes),
    "SLURM_NNODES": lambda f: len(f.nodes),
    "SLURM_JOB_CPUS_PER_NODE": lambda f: compress_counts(n.cpus for n in f.nodes),
    "SLURM_CPUS_ON_NODE": lambda f: f.share.cpus,
    "SLURM_CPUS_PER_TASK": lambda f: f.cpus_per_task or None,
    "SLURM_NTASKS": lambda f: _ntasks(f) or None,
    "SLURM_NPROCS": lambda f: _ntasks(f) or None,
    "SLURM_NTASKS_PER_NODE": lambda f: f.ntasks_per_node or None,
    "SLURM_TASKS_PER_NODE": lambda f: compress_counts(n.tasks for n in f.nodes),
    "SLURM_MEM_PER_NODE": _mem_per_node,
    "SLURM_MEM_PER_CPU": lambda f: f.mem_per_cpu_mb,
    "SLURM_MEM_PER_GPU": lambda f: f.mem_per_gpu_mb,
    "SLURM_CPUS_PER_GPU": lambda f: f.cpus_per_gpu or None,
    "SLURM_NTASKS_PER_GPU": lambda f: f.ntasks_per_gpu or None,
    "SLURM_GPUS": lambda f: f.gpus or None,
    "SLURM_GPUS_PER_TASK": lambda f: f.gpus_per_task or None,
    "SLURM_DISTRIBUTION": lambda f: f.distribution or None,
    "SLURM_GPUS_PER_NODE": lambda f: f.gpus_per_node or None,
    "SLURM_GPUS_ON_NODE": lambda f: len(f.share.gpus) or None,
    "SLURM_SHARDS_ON_NODE": lambda f: f.share.shards or None,
    "SLURM_JOB_GPUS": lambda f: gpupins.numbers(f.share.all_gpus()),
    "SLURM_ARRAY_JOB_ID": _array(lambda f: f.array_job_id),
    "SLURM_ARRAY_TASK_ID": _array(lambda f: f.array_task_id),
    "SLURM_ARRAY_TASK_COUNT": _array(lambda f: f.array_task_count),
    "SLURM_ARRAY_TASK_MIN": _array(lambda f: f.array_task_min),
    "SLURM_ARRAY_TASK_MAX": _array(lambda f: f.array_task_max),
    "SLURM_ARRAY_TASK_STEP": _array(lambda f: f.array_task_step),
    "SLURM_RESTART_COUNT": lambda f: f.restart_count or None,
    "SLURM_SUBMIT_DIR": lambda f: f.submit_dir or None,
    "SLURM_SUBMIT_HOST": lambda f: f.submit_host or None,
    "SLURM_CLUSTER_NAME": lambda f: f.cluster_name,
    "SLURM_EXPORT_ENV": lambda f: f.export_env or None,
    "SLURM_PRIO_PROCESS": lambda f: f.priority_process,
    "SLURM_TOPOLOGY_ADDR": lambda f: f.topology_addr or f.share.node,
    "SLURM_TOPOLOGY_ADDR_PATTERN": lambda f: f.topology_pattern or "node",
    "SLURM_NODEID": lambda f: f.node_index,
    "SLURM_PROCID": lambda f: 0,
    "SLURM_LOCALID": lambda f: 0,
    "SLURM_GTIDS": lambda f: 0,
    "SLURMD_NODENAME": lambda f: f.share.node,
    "ENVIRONMENT": lambda f: "BATCH",
    "HOSTNAME": lambda f: f.hostname or f.share.node,
    **{name: _of_share(make) for name, make in SHARE_TABLE.items()},
    "PENSTOCK_CLUSTER": lambda f: f.cluster_file or None,
    "SLURM_CONF": lambda f: f.slurm_conf or None,
}
_TABLE = tuple((name, name.encode(), make) for name, make in TABLE.items())

#: Set inside tasks of an outer job or step; nothing of a batch job, so never passed on.
_FOREIGN = (
    b"SLURM_TASK_PID", b"SLURM_STEP_ID", b"SLURM_STEPID", b"SLURM_STEP_NODELIST", b"SLURM_STEP_NUM_NODES",
    b"SLURM_STEP_NUM_TASKS", b"SLURM_STEP_TASKS_PER_NODE", b"SLURM_STEP_GPUS", b"SLURM_STEP_RESV_PORTS",
    b"SLURM_SRUN_COMM_HOST", b"SLURM_SRUN_COMM_PORT", b"SLURM_LAUNCH_NODE_IPADDR", b"SLURM_DIST_PLANESIZE",
    b"SLURM_JOB_SEGMENT_SIZE", b"SLURM_NTASKS_PER_CORE", b"SLURM_NTASKS_PER_SOCKET", b"SLURM_OVERCOMMIT",
    b"SLURM_UMASK", b"SLURM_PTY_WIN_ROW", b"SLURM_PTY_WIN_COL", b"SLURM_SCRIPT_CONTEXT",
)  # fmt: skip
#: What heterogeneous jobs have; only the controller's own are passed on.
_FOREIGN_PREFIX, _FOREIGN_PART = b"SLURM_HET_", b"_HET_GROUP_"
#: Secrets: whoever holds them acts as the user, and an environment is copied far and wide.
_SECRET = (b"SLURM_JWT", b"PENSTOCK_TOKEN", b"PENSTOCK_JOIN_TOKEN")
#: Of the table, what the user may set himself when it does not apply here.
_USERS_OWN = (
    b"HOSTNAME", b"ENVIRONMENT", b"PENSTOCK_CLUSTER", b"SLURM_CONF", b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    b"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", b"CUDA_MPS_PIPE_DIRECTORY",
)  # fmt: skip
_DROPPED = frozenset(name for _, name, _ in _TABLE if name not in _USERS_OWN).union(_FOREIGN, _SECRET)
_DEFAULTS = ((b"TMPDIR", b"/tmp"),)


def step_environment(submitted: Iterable[bytes], facts: StepFacts) -> dict[bytes, bytes]:
    """The whole environment of a batch script. `submitted` holds KEY=VALUE; of a key that comes twice the last one counts."""
    return base_environment(submitted, facts, {})


def base_environment(submitted: Iterable[bytes], facts: StepFacts, over: dict[str, Value]) -> dict[bytes, bytes]:
    """What was submitted and what the table says; `over` has the last word (None = absent, if it is not the user's own)."""
    env: dict[bytes, bytes] = {}
    for entry in submitted:
        key, equals, value = entry.partition(b"=")
        if key and equals and key not in _DROPPED and not (key.startswith(_FOREIGN_PREFIX) or _FOREIGN_PART in key):
            env[key] = value
    for name, key, make in _TABLE:
        made = over[name] if name in over else make(facts)
        if made is not None:
            env[key] = encode(made)
    for name, made in over.items():
        if name not in TABLE:
            env.pop(name.encode(), None)
            if made is not None:
                env[name.encode()] = encode(made)
    for entry in facts.more:
        key, _, value = entry.partition(b"=")
        env[key] = value
    if facts.master_port and not (b"MASTER_ADDR" in env or b"MASTER_PORT" in env):
        env[b"MASTER_ADDR"], env[b"MASTER_PORT"] = facts.master_host.encode(), encode(facts.master_port)
    for key, default in _DEFAULTS:
        env.setdefault(key, default)
    return env


def encode(value: str | int | bytes) -> bytes:
    """A value as the environment holds it."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
