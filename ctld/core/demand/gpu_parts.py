"""Distributes a job's devices over its nodes where they do not divide evenly: pure, from the request alone.

As in Slurm, the first nodes give as many as they can, leaving one for each following node: 6 GPUs on two nodes of 4 are
4 and 2. The planner asks the same number of every node, so it looks for such `Packed` nodes first, and for parts as
equal as possible (`gres_per_node` of a request, gpus/counts.py) where these start sooner. `most` tells which of them it
found. This module computes what each node of an allocation gives, and the total:

    - GPUs of tasks (--gpus-per-task, --ntasks-per-gpu) follow the tasks, which fill the nodes in their order;
    - of a number for the whole job (--gpus) each node gives as many as it may, leaving one for each following node.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ctld.core.records.request import JobRequest
from penstock.values.gres import GPU

GpuCounts = tuple[tuple[str, str, int], ...]


def tasks_together(request: JobRequest, nodes: int) -> int:
    """Returns the most tasks on one of so many nodes, for tasks with GPUs of their own; 0 = any number."""
    if any(name == GPU for name, _, _ in request.gres_per_task):
        return -(-(request.ntasks_over or request.ntasks) // nodes)
    if request.ntasks_per_gpu and not request.ntasks_per_node:
        return -(-request.ntasks // request.ntasks_per_gpu // nodes) * request.ntasks_per_gpu
    return 0


class Packed(NamedTuple):
    """The free resources that every node must have so that the first ones can be filled."""

    gpus: int
    tasks: int  # the most tasks on one of them; 0 = any number


def packed(request: JobRequest, nodes: int, room: int) -> Packed | None:
    """Packs a job's GPUs on so many nodes with `room` GPUs each; None = equal parts need as many. An exclusive job has
    all GPUs."""
    kinds = [entry for entry in request.gres_per_node if entry[0] == GPU]
    if nodes < 2 or len(kinds) != 1 or request.exclusive or request.ntasks_per_gpu or request.gpus_per_node_asked:
        return None
    name, type_, equal = kinds[0]
    by_task = sum(count for n, t, count in request.gres_per_task if (n, t) == (name, type_))
    if request.cpus_per_gpu and not by_task:
        return None  # the CPUs of a task are those of equal parts
    if request.ntasks_over and by_task:
        return None  # tasks in equal parts, as those of its steps
    if by_task:
        tasks = min(room // by_task, request.ntasks - (nodes - 1))
        return Packed(tasks * by_task, tasks) if tasks * by_task > equal else None
    total = sum(count for n, t, count in request.gres_per_job if (n, t) == (name, type_))
    most = min(room, total - (nodes - 1))
    return Packed(most, 0) if most > equal else None


def depends_on_tasks(request: JobRequest) -> bool:
    """Whether the nodes of such a job may give different numbers."""
    return bool(request.gres_per_job or request.gres_per_task or request.ntasks_per_gpu)


def parts_of(request: JobRequest, tasks: Sequence[int], gpus: Sequence[int] = ()) -> list[GpuCounts] | None:
    """Computes the GRES of each node of an allocation from its tasks; None = `gres_per_node` on each.

    `gpus`: the most that each node has for it, where that is more than equal parts.
    """
    if not depends_on_tasks(request):
        return None
    found: list[GpuCounts] = [()] * len(tasks)
    for name, type_, equal in request.gres_per_node:
        most = [max(equal, have) for have in gpus] if name == GPU and gpus else [equal] * len(tasks)
        for i, count in enumerate(_device_counts(request, name, type_, most, tasks)):
            if count:
                found[i] += ((name, type_, count),)
    return found


def _device_counts(request: JobRequest, name: str, type_: str, most: Sequence[int], tasks: Sequence[int]) -> list[int]:
    """Distributes one kind of devices over the nodes, at most `most` on each."""
    by_task = sum(count for n, t, count in request.gres_per_task if (n, t) == (name, type_))
    if by_task:
        return [min(room, by_task * count) for room, count in zip(most, tasks, strict=True)]
    if name == GPU and request.ntasks_per_gpu and not request.ntasks_per_node:
        return [min(room, -(-count // request.ntasks_per_gpu)) for room, count in zip(most, tasks, strict=True)]
    left = sum(count for n, t, count in request.gres_per_job if (n, t) == (name, type_)) or sum(most)
    counts = []
    for following, room in zip(range(len(tasks) - 1, -1, -1), most, strict=True):
        counts.append(max(0, min(room, left - following)))
        left -= counts[-1]
    return counts


def total_of(request: JobRequest) -> GpuCounts:
    """Computes the total GRES of a job, on the fewest nodes that it may have."""
    nodes = request.nodes_min
    first = tasks_together(request, nodes)
    if first:  # filled one after the other, as the planner does
        left, tasks = request.ntasks_over or request.ntasks, []
        for following in range(nodes - 1, -1, -1):
            tasks.append(min(first, left - following))
            left -= tasks[-1]
    else:
        tasks = [1] * nodes
    parts = parts_of(request, tasks)
    if parts is None:
        return tuple((name, type_, count * nodes) for name, type_, count in request.gres_per_node)
    found: dict[tuple[str, str], int] = {}
    for name, type_, count in (entry for part in parts for entry in part):
        found[name, type_] = found.get((name, type_), 0) + count
    return tuple((name, type_, count) for (name, type_), count in found.items())
