"""Requests about the inside of a node: which nodes have it, and what a task takes there (sbatch(1)).

--sockets-per-node, --cores-per-socket, --threads-per-core, --mincpus and --tmp choose nodes that have at least so much.
Of --threads-per-core=t no more than t threads of a core work (--hint=nomultithread is t = 1), and the job gets whole
cores; --ntasks-per-core=n gives each task at least a core divided by n, --ntasks-per-socket=n lets n tasks for each socket
on a node. What that means in cpus depends on the node: nodes of one kind are looked at together, and a job does not mix
kinds.

Deliberately absent: on which core a task runs is the step's business.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ctld.core.model import JobRequest, Node
from penstock.values.config import NodeConfig


class NodeKind(NamedTuple):
    """Nodes that are the same to a request: a bit map, and what it takes there."""

    bits: int
    cpus_per_task: int
    ntasks_per_node: int  # 0 = any


def node_kinds(nodes: Iterable[Node], request: JobRequest) -> list[NodeKind]:
    """All nodes that have what the request wants inside, by kind; in the order of the nodes."""
    if not _says_anything(request):
        return [NodeKind(-1, request.cpus_per_task, request.ntasks_per_node)]
    found: dict[tuple[int, int], int] = {}
    for node in nodes:
        if _has(node.config, request):
            key = (cpus_per_task(node.config, request), ntasks_per_node(node.config, request))
            found[key] = found.get(key, 0) | 1 << node.index
    return [NodeKind(bits, cpus, tasks) for (cpus, tasks), bits in found.items()]


def _says_anything(r: JobRequest) -> bool:
    chosen = r.sockets_per_node or r.cores_per_socket or r.threads_per_core or r.mincpus or r.tmp_disk_mb
    return bool(chosen or r.ntasks_per_core or r.ntasks_per_socket)


def _has(node: NodeConfig, request: JobRequest) -> bool:
    return (
        node.sockets >= request.sockets_per_node
        and node.cores_per_socket >= request.cores_per_socket
        and node.threads_per_core >= request.threads_per_core
        and node.cpus >= request.mincpus
        and node.tmp_disk_mb >= request.tmp_disk_mb
    )


def cpus_per_core(node: NodeConfig) -> int:
    """Its threads; 1 where CPUs counts cores (slurm.conf(5))."""
    whole = node.cpus == node.sockets * node.cores_per_socket * node.threads_per_core
    return node.threads_per_core if whole else 1


def cpus_per_task(node: NodeConfig, request: JobRequest) -> int:
    """Cpus that a task takes on such a node."""
    cpus, core = request.cpus_per_task, cpus_per_core(node)
    if 0 < request.threads_per_core < core:
        cpus = -(-cpus // request.threads_per_core) * core
    share = core // request.ntasks_per_core if 0 < request.ntasks_per_core < core else 1
    return -(-cpus // share) * share


def ntasks_per_node(node: NodeConfig, request: JobRequest) -> int:
    """The most tasks on such a node; 0 = any number."""
    return min(filter(None, (request.ntasks_per_node, request.ntasks_per_socket * node.sockets)), default=0)
