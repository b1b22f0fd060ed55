"""How cpus are counted where jobs may share them (OverSubscribe=FORCE:n or YES:n, PreemptMode=GANG).

The planner counts cpus in units. A cluster without sharing has one unit a cpu. Where partitions have OverSubscribe=FORCE:n
or YES:n, a cpu of every node stands for as many units as the least common multiple of these numbers: a job in a FORCE:n
partition takes an n-th of them a cpu, in a YES:n partition one that said --oversubscribe; any other job takes them all. So
n jobs of the one fit on a cpu, one of the other, and never both at once. A job with --exclusive does not share.

Whether jobs that share a cpu run at the same time or take turns is gang.py's business.
"""

from math import lcm

from ctld.core.model import Job, JobRequest, Partition
from ctld.core.state import ClusterState
from penstock.values.config import Config
from penstock.values.states import Suspend

#: Beyond so many units a cpu the numbers are no longer made to divide: a job takes the next higher number of units.
UNITS_MAX = 5040
#: Why a suspended job's cpus are free for others.
RELEASED = frozenset((Suspend.ADMIN, Suspend.PREEMPTED))


def units_per_cpu(config: Config) -> int:
    """Units that every cpu of the cluster stands for."""
    counts = sorted({jobs_per_cpu(config, partition.name) for partition in config.partitions})
    units = lcm(*counts) if counts else 1
    return units if units <= UNITS_MAX else counts[-1]


def jobs_per_cpu(config: Config, partition: str) -> int:
    """n of OverSubscribe=FORCE:n and YES:n, else 1."""
    entry = next((p for p in config.partitions if p.name == partition), None)
    return entry.jobs_per_cpu() if entry is not None else 1


def units_taken(state: ClusterState, request: JobRequest, partition: str) -> int:
    """Units that one cpu of such a job takes."""
    if state.units_per_cpu == 1:
        return 1
    found = state.partitions.get(partition)
    if found is None or request.exclusive or not _may_share(found, request):
        return state.units_per_cpu
    return -(-state.units_per_cpu // int(found.config.jobs_per_cpu()))


def _may_share(partition: Partition, request: JobRequest) -> bool:
    word = partition.config.over_subscribe
    return word.startswith("FORCE") or (word.startswith("YES") and bool(request.oversubscribe))


def tasks_per_node_max(state: ClusterState, request: JobRequest, partition: Partition) -> int:
    """The request's ntasks_per_node (0 = any); less where cpus are shared.

    To the planner a shared cpu is several, and one job could be given them all. So a job that shares has at most as many
    tasks on a node as the partition's smallest node has room for.
    """
    asked = request.ntasks_per_node
    if units_taken(state, request, partition.name) == state.units_per_cpu:
        return asked
    cpus = min((state.nodes[name].cpus for name in partition.config.nodes if name in state.nodes), default=1)
    most = max(1, cpus // request.cpus_per_task)
    return min(asked, most) if asked else most


def shares(state: ClusterState, job: Job) -> bool:
    """True when others may be given the job's cpus too."""
    return units_taken(state, job.request, job.partition) < state.units_per_cpu


def units_held(state: ClusterState, job: Job) -> int:
    """The same for a job that has its allocation: 0 while it is suspended and its cpus are free for others."""
    if job.suspended_by in RELEASED:
        return 0
    return units_taken(state, job.request, job.partition)
