"""The environment of the tasks of srun: the job's table (environment.py), and on top of it the variables of the step.

Two tables: one for the step on this node, one for each task. A variable of either that does not apply is absent, even
when it was submitted. MASTER_ADDR and MASTER_PORT are ours only where the user has set neither.
"""

from collections.abc import Callable, Iterable

import msgspec

from nodedaemon.core import gpupins
from nodedaemon.core.environment import (
    SHARE_TABLE,
    NodeShare,
    StepFacts,
    base_environment,
    encode,
    join_ids,
    users_own,
)
from penstock.values.counts import compress_counts
from penstock.values.jobenv import Environment, VariableValue, check_names


class StepShape(msgspec.Struct, frozen=True, gc=False):
    """A step of srun as its tasks on this node see it. Zero or empty = not requested."""

    step_id: int
    share: NodeShare  # the step's own on this node
    node_list: str
    tasks_per_node: tuple[int, ...]  # of all its nodes
    node_index: int
    ranks: tuple[int, ...]  # on this node
    ntasks: int
    cpus_per_task: int = 0
    ntasks_per_node: int = 0
    ports: tuple[int, ...] = ()
    launch_address: str = ""
    distribution: str = ""
    cpu_bind: str = ""
    mem_bind: str = ""
    umask: int = 0o022
    threads_per_core: int = 0
    overcommit: bool = False
    pty: tuple[int, int] = (0, 0)  # rows and columns of the terminal
    #: of a step over several components of a heterogeneous job: offsets of this one, and totals
    rank_offset: int = 0
    het_ntasks: int = 0
    node_offset: int = 0
    het_nodes: int = 0
    preserve_env: bool = False  # KEPT variables are the submitter's


def ranges(numbers: Iterable[int]) -> str:
    """`12000-12003,12005`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def _plane(s: StepShape) -> str | None:
    kind, _, size = s.distribution.partition("=")
    return size if kind == "plane" and size else None


def _bind(prefix: str, text: Callable[[StepShape], str]) -> dict[str, Callable[[StepShape], VariableValue]]:
    """The four variables about the binding of tasks; none without a binding."""

    def parts(s: StepShape) -> tuple[str, str, str]:
        words = [word for word in text(s).split(",") if word]
        verbose = "verbose" if {"v", "verbose"} & set(words) else "quiet"
        rest = ",".join(word for word in words if word not in ("v", "verbose", "q", "quiet"))
        kind, colon, values = rest.partition(":")
        return verbose, kind + colon, values

    return {
        prefix: lambda s: ",".join(filter(None, [parts(s)[0], "".join(parts(s)[1:])])) if text(s) else None,
        f"{prefix}_VERBOSE": lambda s: parts(s)[0] if text(s) else None,
        f"{prefix}_TYPE": lambda s: parts(s)[1] if text(s) else None,
        f"{prefix}_LIST": lambda s: parts(s)[2] if text(s) else None,
    }


def _of_share(make: Callable[[NodeShare], VariableValue]) -> Callable[[StepShape], VariableValue]:
    return lambda s: make(s.share)


STEP_TABLE: dict[str, Callable[[StepShape], VariableValue]] = {
    "SLURM_STEP_ID": lambda s: s.step_id,
    "SLURM_STEPID": lambda s: s.step_id,
    "SLURM_STEP_NODELIST": lambda s: s.node_list,
    "SLURM_STEP_NUM_NODES": lambda s: s.het_nodes or len(s.tasks_per_node),
    "SLURM_NNODES": lambda s: s.het_nodes or len(s.tasks_per_node),
    "SLURM_STEP_NUM_TASKS": lambda s: s.het_ntasks or s.ntasks,
    "SLURM_NTASKS": lambda s: s.het_ntasks or s.ntasks,
    "SLURM_NPROCS": lambda s: s.het_ntasks or s.ntasks,
    "SLURM_STEP_TASKS_PER_NODE": lambda s: compress_counts(s.tasks_per_node),
    "SLURM_TASKS_PER_NODE": lambda s: compress_counts(s.tasks_per_node),
    "SLURM_NTASKS_PER_NODE": lambda s: s.ntasks_per_node or None,
    "SLURM_CPUS_PER_TASK": lambda s: s.cpus_per_task or None,
    "SLURM_CPUS_ON_NODE": lambda s: s.share.cpus,
    "SLURM_GPUS_ON_NODE": lambda s: len(s.share.gpus) or None,
    "SLURM_STEP_GPUS": lambda s: gpupins.numbers(s.share.all_gpus()),
    "SLURM_SHARDS_ON_NODE": lambda s: s.share.shards or None,
    "SLURM_STEP_RESV_PORTS": lambda s: ranges(s.ports) or None,
    "SLURM_LAUNCH_NODE_IPADDR": lambda s: s.launch_address or None,
    "SLURM_SRUN_COMM_HOST": lambda s: s.launch_address or None,
    "SLURM_SRUN_COMM_PORT": lambda s: 0 if s.launch_address else None,  # srun calls us, we never call it
    "SLURM_DISTRIBUTION": lambda s: s.distribution or None,
    "SLURM_DIST_PLANESIZE": _plane,
    "SLURM_THREADS_PER_CORE": lambda s: s.threads_per_core or None,
    "SLURM_OVERCOMMIT": lambda s: 1 if s.overcommit else None,
    "SLURM_UMASK": lambda s: f"{s.umask:04o}",
    "SLURM_NODEID": lambda s: s.node_offset + s.node_index,
    "SLURM_GTIDS": lambda s: join_ids(tuple(s.rank_offset + rank for rank in s.ranks)),
    "SLURM_PTY_WIN_ROW": lambda s: s.pty[0] or None,
    "SLURM_PTY_WIN_COL": lambda s: s.pty[1] or None,
    **_bind("SLURM_CPU_BIND", lambda s: s.cpu_bind),
    **_bind("SLURM_MEM_BIND", lambda s: s.mem_bind),
    **{name: _of_share(make) for name, make in SHARE_TABLE.items()},
}
check_names(Environment.STEP, STEP_TABLE)
#: Variables that a batch script has and a task of srun does not have, or has from its submitter.
_NOT_IN_STEPS = ("ENVIRONMENT", "HOSTNAME")
#: With --preserve-env as srun's environment has them: they describe the job, not the step.
KEPT = ("SLURM_NNODES", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE")


def step_task_environment(submitted: Iterable[bytes], facts: StepFacts, shape: StepShape) -> dict[bytes, bytes]:
    """The environment that all tasks of the step on this node have in common."""
    entries = list(submitted)
    own = users_own(entries)
    made = {**{name: None for name in _NOT_IN_STEPS}, **_made(shape)}
    if not shape.cpus_per_task:  # a step without -c leaves the job's as it is
        made["SLURM_CPUS_PER_TASK"] = facts.cpus_per_task or None
    if shape.preserve_env:
        pairs = dict(entry.partition(b"=")[::2] for entry in entries)
        made |= {name: pairs[name.encode()] for name in KEPT if name.encode() in pairs}
    return base_environment(own, facts, made)


def _made(shape: StepShape) -> dict[str, VariableValue]:
    return {name: make(shape) for name, make in STEP_TABLE.items()}


def task_environments(shape: StepShape) -> list[dict[bytes, bytes]]:
    """The additional variables of each task, in the order of the ranks. Its GPUs are added later, when its cpus are
    known.
    """
    return [
        {b"SLURM_PROCID": encode(shape.rank_offset + rank), b"SLURM_LOCALID": encode(local)}
        for local, rank in enumerate(shape.ranks)
    ]
