"""The environment variables that Slurm sets for jobs: each is declared once, with its value and its environments.

Several programs create environments that describe a job: that of a batch script on its node, that of salloc's command
on the submitting machine, the variables of each component of a heterogeneous job. They agree because they are generated
from this table. A value that is a fact of the job is declared here, as a function of EnvironmentFacts. A value that
only one maker of an environment knows (the GPUs of a node, a step's layout) is not: the maker supplies it, and
`sources` and `check_names` verify that it supplies exactly the variables declared for its environment.

A value of None means that the variable does not apply. It is then absent, and a submitted variable of that name is
dropped, so that facts of an outer job are not mistaken for those of this one; only submitted `users_own` variables are
kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag, auto
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from penstock.values.counts import compress_counts

VariableValue = str | int | bytes | None


class Environment(Flag):
    """The environments that contain a variable, and the module that makes each."""

    BATCH = auto()  # a batch script: nodedaemon/core/environment.py
    STEP = auto()  # tasks of srun, instead of BATCH: nodedaemon/core/stepenv.py
    ALLOCATION = auto()  # salloc's command, inherited by its srun steps: ctld/rpc/jobs/allocenv.py
    COMPONENT = auto()  # jobs with components, as NAME_HET_GROUP_n: ctld/agents/hetenv.py
    SENT = auto()  # batch script and tasks; sent by the controller: ctld/agents/launch.py
    SITE = auto()  # Prolog and Epilog, like BATCH: nodedaemon/core/scriptenv.py
    PROCESS = auto()  # set by the code that starts the process


class NodeCount(Protocol):
    """The counts of a job's allocation on one node."""

    @property
    def cpus(self) -> int: ...
    @property
    def tasks(self) -> int: ...


class EnvironmentFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The facts that values are computed from. Zero or empty = not requested or not applicable, unless None is that."""

    job_id: int
    user_id: int = 0
    group_id: int = 0
    user_name: str = ""
    group_name: str = ""
    nodes: Sequence[NodeCount]  # of the whole job
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
    exclusive: str = ""
    oversubscribe: str = ""
    gpus_per_node: str = ""
    export_env: str = ""
    comment: str = ""
    mem_per_gpu_mb: int | None = None
    cpus_per_gpu: int = 0
    ntasks_per_gpu: int = 0
    gpus: str = ""  # as requested
    gpus_per_task: str = ""
    distribution: str = ""
    master_host: str = ""
    master_port: int = 0  # reserved for the job; 0 = none
    trace_parent: str = ""  # of a job with a trace
    het_job_id: int = 0  # of a heterogeneous job: the leader's id, which tasks see as the job id


Source = Callable[[EnvironmentFacts], VariableValue]


class Variable(NamedTuple):
    """One variable. `value` None: the maker of each environment supplies the value."""

    name: str
    found_in: Environment
    value: Source | None = None
    users_own: bool = False  # keep the submitted value if this one does not apply


def ntasks_of(f: EnvironmentFacts) -> int:
    """Returns the number of tasks, if requested, otherwise 0."""
    return f.ntasks or f.ntasks_per_node * len(f.nodes)


def _tasks_per_node(f: EnvironmentFacts) -> str:
    """Formats the tasks per node; if none were requested, as many as fit the CPUs."""
    if ntasks_of(f):
        return compress_counts(n.tasks for n in f.nodes)
    return compress_counts(max(1, n.cpus // (f.cpus_per_task or 1)) for n in f.nodes)


def _array(value: Callable[[EnvironmentFacts], int | None]) -> Source:
    return lambda f: None if f.array_task_id is None else value(f)


_B = Environment.BATCH
_S = Environment.STEP
_A = Environment.ALLOCATION
_C = Environment.COMPONENT
_SENT = Environment.SENT
_SITE = Environment.SITE
_PROCESS = Environment.PROCESS

#: All variables. `or None` in a value treats zero or empty as absent.
VARIABLES: Final[tuple[Variable, ...]] = (
    # the job
    Variable("SLURM_JOB_ID", _B | _A | _C | _SITE, lambda f: f.het_job_id or f.job_id),
    Variable("SLURM_JOBID", _B | _A | _SITE, lambda f: f.het_job_id or f.job_id),
    Variable("SLURM_JOB_NAME", _B | _A | _C | _SITE, lambda f: f.job_name),
    Variable("SLURM_JOB_USER", _B | _A | _SITE, lambda f: f.user_name),
    Variable("SLURM_JOB_UID", _B | _A | _SITE, lambda f: f.user_id),
    Variable("SLURM_JOB_GROUP", _B | _A | _SITE, lambda f: f.group_name or None),
    Variable("SLURM_JOB_GID", _B | _A | _SITE, lambda f: f.group_id),
    Variable("SLURM_JOB_ACCOUNT", _B | _A | _C | _SITE, lambda f: f.account or None),
    Variable("SLURM_JOB_PARTITION", _B | _A | _C | _SITE, lambda f: f.partition),
    Variable("SLURM_JOB_QOS", _B | _A | _C | _SITE, lambda f: f.qos or None),
    Variable("SLURM_JOB_RESERVATION", _B | _A | _C | _SITE, lambda f: f.reservation or None),
    Variable("SLURM_JOB_DEPENDENCY", _B | _A, lambda f: f.dependency or None),
    Variable("SLURM_JOB_LICENSES", _B | _A | _SITE, lambda f: f.licenses or None),
    Variable("SLURM_JOB_EXCLUSIVE", _B | _A | _SITE, lambda f: f.exclusive or None),
    Variable("SLURM_JOB_OVERSUBSCRIBE", _B | _A | _SITE, lambda f: f.oversubscribe or None),
    Variable("SLURM_JOB_COMMENT", _B | _A | _SITE, lambda f: f.comment or None),
    Variable("SLURM_JOB_START_TIME", _B | _A | _SITE, lambda f: f.start_at_us // 1_000_000 or None),
    Variable("SLURM_JOB_END_TIME", _B | _A | _SITE, lambda f: f.end_at_us // 1_000_000 or None),
    Variable("SLURM_JOB_NODELIST", _B | _A | _C | _SITE, lambda f: f.node_list),
    Variable("SLURM_NODELIST", _B | _A | _SITE, lambda f: f.node_list),
    Variable("SLURM_JOB_NUM_NODES", _B | _A | _C | _SITE, lambda f: len(f.nodes)),
    Variable("SLURM_NNODES", _B | _S | _A | _SITE, lambda f: len(f.nodes)),
    Variable("SLURM_JOB_CPUS_PER_NODE", _B | _A | _C | _SITE, lambda f: compress_counts(n.cpus for n in f.nodes)),
    Variable("SLURM_CPUS_ON_NODE", _B | _S | _SITE),
    Variable("SLURM_CPUS_PER_TASK", _B | _S | _A | _C, lambda f: f.cpus_per_task or None),
    Variable("SLURM_NTASKS", _B | _S | _A | _C, lambda f: ntasks_of(f) or None),
    Variable("SLURM_NPROCS", _B | _S | _A, lambda f: ntasks_of(f) or None),
    Variable("SLURM_NTASKS_PER_NODE", _B | _S | _A | _C, lambda f: f.ntasks_per_node or None),
    Variable("SLURM_TASKS_PER_NODE", _B | _S | _A | _C, _tasks_per_node),
    # --mem=0 (all memory of the node) is omitted: steps would request 0 in turn
    Variable("SLURM_MEM_PER_NODE", _B | _A | _C, lambda f: f.mem_per_node_mb or None),
    Variable("SLURM_MEM_PER_CPU", _B | _A | _C, lambda f: f.mem_per_cpu_mb),
    Variable("SLURM_MEM_PER_GPU", _B | _A, lambda f: f.mem_per_gpu_mb),
    Variable("SLURM_CPUS_PER_GPU", _B | _A, lambda f: f.cpus_per_gpu or None),
    Variable("SLURM_NTASKS_PER_GPU", _B | _A, lambda f: f.ntasks_per_gpu or None),
    Variable("SLURM_GPUS", _B | _A, lambda f: f.gpus or None),
    Variable("SLURM_GPUS_PER_TASK", _B | _A, lambda f: f.gpus_per_task or None),
    Variable("SLURM_DISTRIBUTION", _B | _S | _A, lambda f: f.distribution or None),
    Variable("SLURM_GPUS_PER_NODE", _B | _A, lambda f: f.gpus_per_node or None),
    Variable("SLURM_GPUS_ON_NODE", _B | _S | _A | _SITE),
    Variable("SLURM_SHARDS_ON_NODE", _B | _S | _SITE),
    Variable("SLURM_JOB_GPUS", _B | _SITE),
    Variable("SLURM_ARRAY_JOB_ID", _B | _SITE, _array(lambda f: f.array_job_id)),
    Variable("SLURM_ARRAY_TASK_ID", _B | _SITE, _array(lambda f: f.array_task_id)),
    Variable("SLURM_ARRAY_TASK_COUNT", _B | _SITE, _array(lambda f: f.array_task_count)),
    Variable("SLURM_ARRAY_TASK_MIN", _B | _SITE, _array(lambda f: f.array_task_min)),
    Variable("SLURM_ARRAY_TASK_MAX", _B | _SITE, _array(lambda f: f.array_task_max)),
    Variable("SLURM_ARRAY_TASK_STEP", _B | _SITE, _array(lambda f: f.array_task_step)),
    Variable("SLURM_RESTART_COUNT", _B | _A, lambda f: f.restart_count or None),
    Variable("SLURM_SUBMIT_DIR", _B | _A | _SITE, lambda f: f.submit_dir or None),
    Variable("SLURM_SUBMIT_HOST", _B | _A | _SITE, lambda f: f.submit_host or None),
    Variable("SLURM_CLUSTER_NAME", _B | _A | _SITE, lambda f: f.cluster_name),
    Variable("SLURM_EXPORT_ENV", _B | _A, lambda f: f.export_env or None),
    # the node, and the process
    Variable("SLURM_PRIO_PROCESS", _B),
    Variable("SLURM_TOPOLOGY_ADDR", _B),
    Variable("SLURM_TOPOLOGY_ADDR_PATTERN", _B),
    Variable("SLURM_NODEID", _B | _S | _SITE),
    Variable("SLURM_PROCID", _B | _PROCESS),
    Variable("SLURM_LOCALID", _B | _PROCESS),
    Variable("SLURM_GTIDS", _B | _S),
    Variable("SLURM_TASK_PID", _PROCESS),
    Variable("SLURM_SCRIPT_CONTEXT", _PROCESS),
    Variable("SLURMD_NODENAME", _B | _SITE),
    Variable("ENVIRONMENT", _B, users_own=True),
    Variable("HOSTNAME", _B, users_own=True),
    Variable("CUDA_VISIBLE_DEVICES", _B | _S | _SITE),
    Variable("ROCR_VISIBLE_DEVICES", _B | _S | _SITE),
    Variable("ZE_AFFINITY_MASK", _B | _S | _SITE),
    Variable("GPU_DEVICE_ORDINAL", _B | _S | _SITE),
    Variable("CUDA_DEVICE_ORDER", _B | _S),
    Variable("NVIDIA_VISIBLE_DEVICES", _B | _S | _SITE),
    Variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", _B | _S | _SITE, users_own=True),
    Variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", _B | _S, users_own=True),
    Variable("CUDA_MPS_PIPE_DIRECTORY", _B | _S, users_own=True),
    Variable("PENSTOCK_CLUSTER", _B, users_own=True),
    Variable("SLURM_CONF", _B, users_own=True),
    # On a node they are added last, and only if the user has set neither.
    Variable("MASTER_ADDR", _A, lambda f: f.master_host or None, users_own=True),
    Variable("MASTER_PORT", _A, lambda f: f.master_port, users_own=True),
    Variable("TRACEPARENT", _B | _A, lambda f: f.trace_parent or None, users_own=True),
    # a step of srun
    Variable("SLURM_STEP_ID", _S),
    Variable("SLURM_STEPID", _S),
    Variable("SLURM_STEP_NODELIST", _S),
    Variable("SLURM_STEP_NUM_NODES", _S),
    Variable("SLURM_STEP_NUM_TASKS", _S),
    Variable("SLURM_STEP_TASKS_PER_NODE", _S),
    Variable("SLURM_STEP_GPUS", _S),
    Variable("SLURM_STEP_RESV_PORTS", _S),
    Variable("SLURM_LAUNCH_NODE_IPADDR", _S),
    Variable("SLURM_SRUN_COMM_HOST", _S),
    Variable("SLURM_SRUN_COMM_PORT", _S),
    Variable("SLURM_UMASK", _S),
    Variable("SLURM_PTY_WIN_ROW", _S),
    Variable("SLURM_PTY_WIN_COL", _S),
    Variable("SLURM_CPU_BIND", _S, users_own=True),
    Variable("SLURM_CPU_BIND_VERBOSE", _S, users_own=True),
    Variable("SLURM_CPU_BIND_TYPE", _S, users_own=True),
    Variable("SLURM_CPU_BIND_LIST", _S, users_own=True),
    Variable("SLURM_MEM_BIND", _S, users_own=True),
    Variable("SLURM_MEM_BIND_VERBOSE", _S, users_own=True),
    Variable("SLURM_MEM_BIND_TYPE", _S, users_own=True),
    Variable("SLURM_MEM_BIND_LIST", _S, users_own=True),
    # requested values that are passed on unchanged
    Variable("SLURM_GPUS_PER_SOCKET", _SENT, users_own=True),
    Variable("SLURM_GPU_BIND", _SENT, users_own=True),
    Variable("SLURM_DIST_PLANESIZE", _SENT | _S),
    Variable("SLURM_GPU_FREQ", _SENT, users_own=True),
    Variable("SLURM_JOB_SEGMENT_SIZE", _SENT),
    Variable("SLURM_THREADS_PER_CORE", _SENT | _S, users_own=True),
    Variable("SLURM_NTASKS_PER_CORE", _SENT),
    Variable("SLURM_NTASKS_PER_SOCKET", _SENT),
    Variable("SLURM_OVERCOMMIT", _SENT | _S),
    Variable("SLURM_CONTAINER", _SENT, users_own=True),
    Variable("SLURM_TRES_PER_TASK", _SENT, users_own=True),
    Variable("SLURM_SPREAD_JOB", _SENT, users_own=True),
)

#: Separates the name of a component's variable from the component's number; HET_SIZE holds the number of components.
HET_PART: Final = "_HET_GROUP_"
HET_SIZE: Final = "SLURM_HET_SIZE"

_Facts = TypeVar("_Facts", bound=EnvironmentFacts)


def names_in(environment: Environment) -> tuple[str, ...]:
    """Returns the names declared for an environment, in the order of the table."""
    return tuple(one.name for one in VARIABLES if environment in one.found_in)


def check_names(environment: Environment, made: Iterable[str]) -> None:
    """Checks that an environment's maker makes exactly the declared names. Raises ValueError, at program start."""
    wrong = set(names_in(environment)).symmetric_difference(made)
    if wrong:
        raise ValueError(f"{environment}: declared or made, but not both (jobenv.py): {', '.join(sorted(wrong))}")


def sources(
    environment: Environment, own: Mapping[str, Callable[[_Facts], VariableValue]]
) -> dict[str, Callable[[_Facts], VariableValue]]:
    """Returns an environment's variables as name -> value. `own`: values that its maker supplies, which take precedence."""
    declared: dict[str, Callable[[_Facts], VariableValue]] = {
        one.name: one.value for one in VARIABLES if environment in one.found_in and one.value is not None
    }
    found = {**declared, **own}
    check_names(environment, found)
    return {name: found[name] for name in names_in(environment)}
