"""The memory of a submission: its defaults, and the partition's limits.

Rules (slurm.conf(5), sbatch(1))
    - Memory comes from the job, else the partition, else the cluster, else it is the whole node (where it is consumable).
    - MaxMemPerNode: more is refused, and so are --mem=0, all of a node, and --mem-per-cpu that comes to more on each node.
      A change of the memory or the partition beyond it is refused too.
    - MaxMemPerCPU: a job that asks for more gets more CPUs instead. --mem-per-cpu is divided until it is within the
      limit, and the CPUs of a task are multiplied by the same number; --mem sets the least CPUs of a node (--mincpus).

Of several partitions the first one determines all of this.
"""

import msgspec

from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.events import JobSubmission
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code


def with_cpus(state: ClusterState, partition: Partition, wanted: JobSubmission) -> JobSubmission:
    """Returns the submission with the CPUs that MaxMemPerCPU requires for its memory."""
    each_mb = partition.config.max_mem_per_cpu_mb or state.config.max_mem_per_cpu_mb
    node_mb, cpu_mb = wanted.mem_per_node_mb, wanted.mem_per_cpu_mb
    if not each_mb:
        return wanted
    if cpu_mb is not None and cpu_mb > each_mb:
        times = -(-cpu_mb // each_mb)
        cpus = max(1, wanted.cpus_per_task) * times
        return msgspec.structs.replace(wanted, cpus_per_task=cpus, mem_per_cpu_mb=-(-cpu_mb // times))
    if node_mb:
        return msgspec.structs.replace(wanted, mincpus=max(wanted.mincpus, -(-node_mb // each_mb)))
    return wanted


def beyond_node_limit(state: ClusterState, partition: Partition, node_mb: int | None, least_mb: int) -> str:
    """Returns how a job's memory of a node is beyond MaxMemPerNode, or "". `least_mb`: what its memory for each CPU comes
    to on a node at least."""
    most_mb = partition.config.max_mem_per_node_mb or state.config.max_mem_per_node_mb
    if not most_mb or (0 < node_mb <= most_mb if node_mb is not None else least_mb <= most_mb):
        return ""
    what = "all memory of a node" if node_mb == 0 else f"{node_mb or least_mb} MB"
    return f"{what} is more than MaxMemPerNode={most_mb}"


def after_update(state: ClusterState, request: JobRequest, before: JobRequest) -> JobRequest:
    """Returns a changed request with the CPUs that MaxMemPerCPU requires for its new memory. Raises Refused beyond
    MaxMemPerNode of its first partition."""
    memory = (request.mem_per_node_mb, request.mem_per_cpu_mb)
    if memory == (before.mem_per_node_mb, before.mem_per_cpu_mb) and request.partitions == before.partitions:
        return request
    partition = state.partitions[request.partitions[0]]
    node_mb, cpu_mb = memory
    each_mb = partition.config.max_mem_per_cpu_mb or state.config.max_mem_per_cpu_mb
    if each_mb and memory != (before.mem_per_node_mb, before.mem_per_cpu_mb):
        had = -(-(before.mem_per_node_mb or 0) // each_mb)
        mincpus = 0 if request.mincpus == had else request.mincpus  # what the earlier memory required
        cpus = request.cpus_per_task if request.cpus_per_task_asked else 1
        times = -(-(cpu_mb or 0) // each_mb) or 1
        request = with_changes(
            request,
            mincpus=max(mincpus, -(-(node_mb or 0) // each_mb)),
            cpus_per_task=cpus * times,
            mem_per_cpu_mb=None if cpu_mb is None else -(-cpu_mb // times),
        )
    on_node = request.ntasks_per_node or (request.ntasks if request.nodes_max == 1 else 1)
    if excess := beyond_node_limit(
        state, partition, node_mb, (request.mem_per_cpu_mb or 0) * request.cpus_per_task * on_node
    ):
        raise Refused(Code.PARTITION_CONFIG_UNAVAILABLE, excess)
    return request


def of_job(state: ClusterState, partition: Partition, wanted: JobSubmission) -> tuple[int | None, int | None]:
    """Returns (MB per node, MB per cpu), at least one of them None. Raises Refused beyond MaxMemPerNode."""
    config, site = partition.config, state.config
    node_mb, cpu_mb = wanted.mem_per_node_mb, wanted.mem_per_cpu_mb
    cpus = max(1, wanted.cpus_per_task) * (
        wanted.ntasks_per_node or (wanted.ntasks if wanted.nodes_max == 1 else 1) or 1
    )
    if excess := beyond_node_limit(state, partition, node_mb, (cpu_mb or 0) * cpus):
        raise Refused(Code.INVALID_TASK_MEMORY, excess)
    if node_mb is not None or cpu_mb is not None:
        return node_mb, cpu_mb
    if not site.memory_is_consumable():
        return None, None
    per_cpu = config.def_mem_per_cpu_mb or (0 if config.def_mem_per_node_mb else site.def_mem_per_cpu_mb)
    if per_cpu:
        return None, per_cpu
    return config.def_mem_per_node_mb or site.def_mem_per_node_mb, None
