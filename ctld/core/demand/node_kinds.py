"""Requests about sockets, cores and threads of a node: which nodes satisfy them, and what a task takes there
(sbatch(1)).

--sockets-per-node, --cores-per-socket, --threads-per-core, --mincpus and --tmp choose nodes that have at least so much.
--mincpus also is the least number of CPUs that the job gets on each node: its tasks there get more where they ask for
less, unless the tasks of a node or their GPUs are given, too. With --threads-per-core=t at most t threads of a core
are used (--hint=nomultithread is t = 1), and the job gets whole cores; its environment counts the used threads, and so
does --mem-per-cpu. With --core-spec and --thread-spec (demand/specialized.py) its tasks have what these leave of a
node. --ntasks-per-core=n gives each task at least a core divided by n, --ntasks-per-socket=n allows n tasks for each
socket of a node. What that means in CPUs depends on the node: nodes of one kind are evaluated together, and a job does
not mix kinds.

Deliberately absent: on which core a task runs is decided by the step.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter, ge
from typing import Final, NamedTuple

from ctld.core.demand import specialized
from ctld.core.records.node import Node
from ctld.core.records.request import JobRequest, NodeAlloc
from penstock.values.config import NodeConfig

#: Minimum sizes of a node: the request's field, and the field of NodeConfig. 0 = any.
AT_LEAST: Final = (
    ("sockets_per_node", "sockets"),
    ("cores_per_socket", "cores_per_socket"),
    ("threads_per_core", "threads_per_core"),
    ("mincpus", "cpus"),
    ("tmp_disk_mb", "tmp_disk_mb"),
)
#: Fields of requests that restrict the choice of nodes.
LEAST_FIELDS: Final = tuple(asked for asked, _ in AT_LEAST)
_least_of = attrgetter(*LEAST_FIELDS)
_has_of = attrgetter(*(has for _, has in AT_LEAST))


class NodeKind(NamedTuple):
    """A set of nodes that are equal for a request, as a bit map, and the resources that it takes there."""

    bits: int
    cpus_per_task: int
    ntasks_per_node: int  # 0 = any


def node_kinds(nodes: Iterable[Node], request: JobRequest, cpus: int = 0) -> list[NodeKind]:
    """Returns all nodes that satisfy the request's internal constraints, by kind; in the order of the nodes. `cpus`: those of
    a task at least."""
    if not _has_constraints(request):
        return [NodeKind(-1, request.cpus_per_task, request.ntasks_per_node)]
    found: dict[tuple[int, int], int] = {}
    least, cpus = _least_of(request), max(cpus, request.cpus_per_task)
    for node in nodes:
        each = cpus_per_task(node.config, request, cpus)
        if all(map(ge, _has_of(node.config), least)) and _takes_tasks(node.config, request, each):
            key = (each, ntasks_per_node(node.config, request, each))
            found[key] = found.get(key, 0) | 1 << node.index
    return [NodeKind(bits, each, tasks) for (each, tasks), bits in found.items()]


def _has_constraints(r: JobRequest) -> bool:
    return bool(any(_least_of(r)) or r.ntasks_per_core or r.ntasks_per_socket or specialized.is_on(r))


def _takes_tasks(node: NodeConfig, request: JobRequest, cpus: int) -> bool:
    """Whether the node is large enough for the tasks of one socket, which are a maximum (as in Slurm, a smaller socket does
    not count), and for what --core-spec leaves of it."""
    if specialized.is_on(request):
        each = 1 if request.ntasks_over else max(1, request.ntasks_per_node)
        if specialized.cpus_left(node, request) < each * cpus:
            return False
    return node.cpus >= request.ntasks_per_socket * request.cpus_per_task


def threads_used(node: NodeConfig, request: JobRequest) -> tuple[int, int]:
    """Returns (used threads of a core, CPUs that the job has of a core): --threads-per-core; (1, 1) = all of them."""
    core = node.cpus_per_core()
    return (request.threads_per_core, core) if 0 < request.threads_per_core < core else (1, 1)


def cpus_used(nodes: Mapping[str, Node], request: JobRequest, alloc: Iterable[NodeAlloc]) -> tuple[int, ...]:
    """Returns the used CPUs of an allocation, by node; () = all of them."""
    if not (request.threads_per_core or specialized.is_on(request)):
        return ()
    found = []
    for part in specialized.usable(request, tuple(alloc)):
        working, core = threads_used(nodes[part.node].config, request) if part.node in nodes else (1, 1)
        found.append(part.cpus * working // core)
    return tuple(found)


def cpus_least(request: JobRequest, nodes: int) -> int:
    """Returns the least CPUs of a task for --mincpus, with the tasks on so many nodes; 0 = any number."""
    if not request.mincpus or (request.ntasks_per_node and not request.ntasks_over) or request.gres_per_task:
        return 0
    return -(-request.mincpus // -(-request.ntasks // nodes))


def cpus_per_task(node: NodeConfig, request: JobRequest, cpus: int) -> int:
    """Returns the CPUs that a task takes on such a node, if it asks for so many."""
    core = node.cpus_per_core()
    if 0 < request.threads_per_core < core:
        cpus = -(-cpus // request.threads_per_core) * core
    share = core // request.ntasks_per_core if 0 < request.ntasks_per_core < core else 1
    return -(-cpus // share) * share


def ntasks_per_node(node: NodeConfig, request: JobRequest, cpus: int) -> int:
    """Returns the most tasks of so many CPUs on such a node; 0 = any number."""
    room = 0
    if specialized.is_on(request) and not request.ntasks_over:
        room = specialized.cpus_left(node, request) // cpus
    return min(filter(None, (request.ntasks_per_node, request.ntasks_per_socket * node.sockets, room)), default=0)
