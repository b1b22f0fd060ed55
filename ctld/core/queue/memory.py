"""The memory of a submission: its defaults, and the partition's limits.

Rules (slurm.conf(5), sbatch(1))
    - Memory comes from the job, else the partition, else the cluster, else it is the whole node (where it is consumable).
    - MaxMemPerNode: more is refused, and so are --mem=0, all of a node, and --mem-per-cpu that comes to more on each node.
      A change of the memory or the partition beyond it is refused too.
    - MaxMemPerCPU: a job that asks for more gets more CPUs instead. --mem-per-cpu is divided until it is within the
      limit, and the CPUs of a task are multiplied by the same number; --mem sets the least CPUs of a node (--mincpus).
      What was asked for is kept (`memory_asked`): a change of one of these numbers replaces that one, and the rule is
      applied to them again.

Of several partitions the first one determines all of this.
"""

from collections.abc import Collection

import msgspec

from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.events import JobSubmission
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest, RequestedMemory
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code


def with_cpus(
    state: ClusterState, partition: Partition, wanted: JobSubmission
) -> tuple[JobSubmission, RequestedMemory | None]:
    """Returns the submission with the CPUs that MaxMemPerCPU requires for its memory, and what it asked for if that is
    something else."""
    asked = RequestedMemory(wanted.cpus_per_task, wanted.mem_per_cpu_mb, wanted.mincpus)
    given = _within_limit(state, partition, asked, wanted.mem_per_node_mb)
    if given == asked:
        return wanted, None
    return msgspec.structs.replace(wanted, **given._asdict()), asked._replace(cpus_per_task=max(1, asked.cpus_per_task))


def _within_limit(
    state: ClusterState, partition: Partition, asked: RequestedMemory, node_mb: int | None
) -> RequestedMemory:
    """Returns what a job that asks for these numbers gets under MaxMemPerCPU. `node_mb`: its memory of a node."""
    each_mb = partition.config.max_mem_per_cpu_mb or state.config.max_mem_per_cpu_mb
    if not each_mb:
        return asked
    cpu_mb = asked.mem_per_cpu_mb
    if cpu_mb is not None and cpu_mb > each_mb:
        times = -(-cpu_mb // each_mb)
        return asked._replace(cpus_per_task=max(1, asked.cpus_per_task) * times, mem_per_cpu_mb=-(-cpu_mb // times))
    return asked._replace(mincpus=max(asked.mincpus, -(-(node_mb or 0) // each_mb)))


def beyond_node_limit(state: ClusterState, partition: Partition, node_mb: int | None, least_mb: int) -> str:
    """Returns how a job's memory of a node is beyond MaxMemPerNode, or "". `least_mb`: what its memory for each CPU comes
    to on a node at least."""
    most_mb = partition.config.max_mem_per_node_mb or state.config.max_mem_per_node_mb
    if not most_mb or (0 < node_mb <= most_mb if node_mb is not None else least_mb <= most_mb):
        return ""
    what = "all memory of a node" if node_mb == 0 else f"{node_mb or least_mb} MB"
    return f"{what} is more than MaxMemPerNode={most_mb}"


#: The fields whose change the limits concern.
_CONCERNED = frozenset((*RequestedMemory._fields, "mem_per_node_mb"))


def after_update(state: ClusterState, request: JobRequest, before: JobRequest, changed: Collection[str]) -> JobRequest:
    """Returns a changed request with the CPUs that MaxMemPerCPU requires for its memory. `changed`: the fields that were
    given. Raises Refused beyond MaxMemPerNode of its first partition."""
    of_memory = not _CONCERNED.isdisjoint(changed)
    if not of_memory and request.partitions == before.partitions:
        return request
    partition = state.partitions[request.partitions[0]]
    node_mb = request.mem_per_node_mb
    own = (before.mem_per_node_mb, before.mem_per_cpu_mb) != _default(state, state.partitions[before.partitions[0]])
    if of_memory or own:
        asked = _asked_now(request, before, changed)
        given = _within_limit(state, partition, asked, node_mb)
        request = with_changes(request, **given._asdict(), memory_asked=None if given == asked else asked)
    on_node = request.ntasks_per_node or (request.ntasks if request.nodes_max == 1 else 1)
    if excess := beyond_node_limit(
        state, partition, node_mb, (request.mem_per_cpu_mb or 0) * request.cpus_per_task * on_node
    ):
        raise Refused(Code.PARTITION_CONFIG_UNAVAILABLE, excess)
    return request


def _asked_now(request: JobRequest, before: JobRequest, changed: Collection[str]) -> RequestedMemory:
    """Returns what the job asks for, where `request` has the new numbers."""
    asked = before.memory_asked or RequestedMemory(before.cpus_per_task, before.mem_per_cpu_mb, before.mincpus)
    if "mem_per_node_mb" in changed:
        asked = asked._replace(mem_per_cpu_mb=None)
    return asked._replace(**{name: getattr(request, name) for name in RequestedMemory._fields if name in changed})


def of_job(state: ClusterState, partition: Partition, wanted: JobSubmission) -> tuple[int | None, int | None]:
    """Returns (MB per node, MB per cpu), at least one of them None. Raises Refused beyond MaxMemPerNode."""
    node_mb, cpu_mb = wanted.mem_per_node_mb, wanted.mem_per_cpu_mb
    cpus = max(1, wanted.cpus_per_task) * (
        wanted.ntasks_per_node or (wanted.ntasks if wanted.nodes_max == 1 else 1) or 1
    )
    if excess := beyond_node_limit(state, partition, node_mb, (cpu_mb or 0) * cpus):
        raise Refused(Code.INVALID_TASK_MEMORY, excess)
    return (node_mb, cpu_mb) if node_mb is not None or cpu_mb is not None else _default(state, partition)


def _default(state: ClusterState, partition: Partition) -> tuple[int | None, int | None]:
    """Returns the memory of a job that asks for none, in the same form. MaxMemPerCPU does not concern it."""
    config, site = partition.config, state.config
    if not site.memory_is_consumable():
        return None, None
    per_cpu = config.def_mem_per_cpu_mb or (0 if config.def_mem_per_node_mb else site.def_mem_per_cpu_mb)
    if per_cpu:
        return None, per_cpu
    return config.def_mem_per_node_mb or site.def_mem_per_node_mb, None
