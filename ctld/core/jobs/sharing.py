"""Counts cpus where jobs may share them (OverSubscribe=FORCE:n or YES:n, PreemptMode=GANG).

The planner counts cpus in units. A cluster without sharing has one unit a cpu. Where partitions have
OverSubscribe=FORCE:n or YES:n, each cpu of every node is as many units as the least common multiple of these numbers: a
job in a FORCE:n partition takes an n-th of them a cpu, and so does a job with --oversubscribe in a YES:n partition; any
other job takes them all. So n sharing jobs fit on a cpu, or one other job, and never both at once. A job with
--exclusive does not share.

Whether jobs that share a cpu run at the same time or in time slices is decided in passes/gang.py.
"""

from math import lcm

from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.state.state import ClusterState
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import Suspend

#: Maximum units a cpu. Beyond it the numbers need not divide: a job takes the next higher number of units.
UNITS_MAX = 5040
#: Reasons of a suspension that leaves the job's cpus to others.
RELEASED = frozenset((Suspend.ADMIN, Suspend.PREEMPTED))


def units_per_cpu(config: Config) -> int:
    """Units that every cpu of the cluster stands for."""
    counts = sorted({jobs_per_cpu(config, partition.name) for partition in config.partitions})
    units = lcm(*counts) if counts else 1
    return units if units <= UNITS_MAX else counts[-1]


def jobs_per_cpu(config: Config, partition: str) -> int:
    """Returns n of OverSubscribe=FORCE:n and YES:n, else 1."""
    entry = next((p for p in config.partitions if p.name == partition), None)
    return entry.jobs_per_cpu() if entry is not None else 1


def gives_whole_nodes(partition: Partition) -> bool:
    """Whether the partition allocates whole nodes, as with --exclusive: OverSubscribe=EXCLUSIVE."""
    return bool(partition.config.over_subscribe == "EXCLUSIVE")


def units_taken(state: ClusterState, request: JobRequest, partition: str) -> int:
    """Returns the units that one cpu of such a job takes."""
    if state.layout.units_per_cpu == 1:
        return 1
    found = state.partitions.get(partition)
    return units_of_request(state.layout.units_per_cpu, found.config if found is not None else None, request)


def units_of_request(units: int, partition: PartitionConfig | None, request: JobRequest) -> int:
    """Returns the same where a CPU has so many `units`. `partition`: None = it does not exist."""
    if partition is None or request.is_alone() or not _may_share(partition, request):
        return units
    return -(-units // partition.jobs_per_cpu())


def _may_share(partition: PartitionConfig, request: JobRequest) -> bool:
    word = partition.over_subscribe
    return word.startswith("FORCE") or (word.startswith("YES") and bool(request.oversubscribe))


def shares(state: ClusterState, job: Job) -> bool:
    """Whether the job's cpus may be allocated to other jobs too."""
    return units_taken(state, job.request, job.partition) < state.layout.units_per_cpu


def units_in_use(state: ClusterState, job: Job) -> int:
    """Returns the units that one cpu of an allocated job takes: 0 while it is suspended and its cpus are free for
    others."""
    if job.suspended_by in RELEASED:
        return 0
    return units_taken(state, job.request, job.partition)
