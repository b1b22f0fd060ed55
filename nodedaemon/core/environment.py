"""The environment of a step's tasks: the submitted variables, plus Slurm's SLURM_* variables.

One pure function over plain facts and the table of penstock/values/jobenv.py. A variable of the table that does not
apply is absent, even if it was submitted (from inside another job, say): stale values of an outer job must not be taken
for this one's. This module adds what only the node knows: itself, and the job's share of it.

Variables about GPUs are in gpupins.py.

Variables that the controller makes (components of a heterogeneous job) arrive as `more`. Those that a step of srun and
its tasks have in addition are in stepenv.py.

Deliberately absent: what only the task's process knows (SLURM_TASK_PID, and HOME and the like when they were not
submitted).
"""

from collections.abc import Callable, Iterable

import msgspec

from nodedaemon.core import gpupins
from nodedaemon.core.gpupins import PinnedGpu, Pinning
from penstock.values.jobenv import HET_PART, VARIABLES, Environment, EnvironmentFacts, VariableValue, sources


class NodeShare(msgspec.Struct, frozen=True, gc=False):
    """The job's allocation on one node."""

    node: str
    cpus: int
    mem_mb: int
    tasks: int
    gpus: tuple[PinnedGpu, ...] = ()  # whole GPUs
    shared_gpus: tuple[PinnedGpu, ...] = ()  # GPUs of which it has a part
    shards: int = 0
    mps_percent: int = 0  # of the threads of its shared GPU; 0 = not MPS
    mps_mem_mb: int = 0  # of that GPU's memory; 0 = unknown
    mps_folder: str = ""  # of its control daemon's socket
    pinning: Pinning = Pinning()

    def all_gpus(self) -> tuple[PinnedGpu, ...]:
        """The GPUs that it can open, by number."""
        if not (self.gpus or self.shared_gpus):
            return ()
        return tuple(sorted((*self.gpus, *self.shared_gpus), key=lambda gpu: gpu.number))


class StepFacts(EnvironmentFacts, frozen=True, gc=False, kw_only=True):
    """The inputs of the variables. Zero or empty = not requested or not applicable, unless None means that."""

    step_id: int
    share: NodeShare  # this node's part
    node_index: int = 0
    topology_addr: str = ""
    topology_pattern: str = ""
    hostname: str = ""  # of this machine; the node's name may differ (several node daemons on one machine)
    cluster_file: str = ""
    slurm_conf: str = ""  # a short one, in the node's spool
    priority_process: int = 0  # the submitting process's nice value
    more: tuple[bytes, ...] = ()  # NAME=VALUE made by the controller


def _cpus_on_node(f: StepFacts) -> int:
    """Counts the cpus on this node that run tasks: with --threads-per-core fewer than the job has."""
    return f.nodes[f.node_index].cpus if f.node_index < len(f.nodes) else f.share.cpus


def join_ids(ids: tuple[int, ...]) -> str:
    return ",".join(str(i) for i in ids)


def _list(name: str) -> Callable[[NodeShare], VariableValue]:
    return lambda share: gpupins.listed(name, share.all_gpus(), share.pinning)


#: Variables that follow from a share of a node: for a batch script the job's, for tasks of a step the step's.
SHARE_TABLE: dict[str, Callable[[NodeShare], VariableValue]] = {
    **{name: _list(name) for name in gpupins.LISTS},
    "CUDA_DEVICE_ORDER": lambda s: gpupins.device_order(s.pinning),
    "NVIDIA_VISIBLE_DEVICES": lambda s: gpupins.for_containers(s.all_gpus(), s.pinning),
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": lambda s: s.mps_percent or None,
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": lambda s: f"0={s.mps_mem_mb}M" if s.mps_mem_mb else None,
    "CUDA_MPS_PIPE_DIRECTORY": lambda s: s.mps_folder or None,
}


def _of_share(make: Callable[[NodeShare], VariableValue]) -> Callable[[StepFacts], VariableValue]:
    return lambda f: make(f.share)


#: Variables of a batch script that need the node's facts; all others have the table's value.
_OWN: dict[str, Callable[[StepFacts], VariableValue]] = {
    "SLURM_CPUS_ON_NODE": _cpus_on_node,
    "SLURM_GPUS_ON_NODE": lambda f: len(f.share.gpus) or None,
    "SLURM_SHARDS_ON_NODE": lambda f: f.share.shards or None,
    "SLURM_JOB_GPUS": lambda f: gpupins.numbers(f.share.all_gpus()),
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
#: Name -> value; None = the variable does not apply.
TABLE: dict[str, Callable[[StepFacts], VariableValue]] = sources(Environment.BATCH, _OWN)
_TABLE = tuple((name, name.encode(), make) for name, make in TABLE.items())

#: Variables of heterogeneous jobs; only the controller's own are passed on.
_FOREIGN_PREFIX, _FOREIGN_PART = b"SLURM_HET_", HET_PART.encode()
#: Secrets: anyone who has them acts as the user, and environments are widely copied.
_SECRET = (b"SLURM_JWT", b"PENSTOCK_TOKEN", b"PENSTOCK_JOIN_TOKEN")
_DROPPED = frozenset(one.name.encode() for one in VARIABLES if not one.users_own).union(_SECRET)
_DEFAULTS = ((b"TMPDIR", b"/tmp"),)


def users_own(submitted: Iterable[bytes]) -> dict[bytes, bytes]:
    """The submitted variables that a job keeps."""
    env: dict[bytes, bytes] = {}
    for entry in submitted:
        key, equals, value = entry.partition(b"=")
        if key and equals and key not in _DROPPED and not (key.startswith(_FOREIGN_PREFIX) or _FOREIGN_PART in key):
            env[key] = value
    return env


def base_environment(own: dict[bytes, bytes], facts: StepFacts, over: dict[str, VariableValue]) -> dict[bytes, bytes]:
    """The user's own variables and those of the table; `over` takes precedence (None = absent, if it is not the user's
    own).
    """
    env = own.copy()
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
    """Encodes a value for the environment."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
