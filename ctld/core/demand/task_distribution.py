"""Distributes tasks over the nodes of an allocation, where the planner has not counted them.

The planner fills nodes one after the other (block distribution), and of an overcommitted job it knows one task a node.
Where a node gives more CPUs than its tasks ask for (whole cores, the whole node), or there are more tasks than CPUs,
tasks are distributed cyclically, as those of its steps are. Tasks with GPUs of their own stay on the nodes of these
GPUs.
"""

from collections.abc import Sequence

from ctld.core.records.request import JobRequest

#: planning.Placement: (node index, cpus, tasks, MB) for each node
_Placement = tuple[tuple[int, int, int, int], ...]


def distribute_tasks(request: JobRequest, placement: _Placement) -> _Placement:
    """Returns the placement with the number of tasks that each node really has."""
    total = request.ntasks_over or (request.ntasks if request.ntasks_asked and len(placement) > 1 else 0)
    if not total or (request.ntasks_per_node and not request.ntasks_over):
        return placement
    if (request.gres_per_task or request.ntasks_per_gpu) and not (request.exclusive or request.ntasks_over):
        return placement
    if request.ntasks_per_node:
        tasks = [request.ntasks_per_node] * len(placement)
    else:
        each = max(1, request.cpus_per_task)
        room = [total if request.ntasks_over else max(1, cpus // each) for _, cpus, _, _ in placement]
        tasks = distribute_cyclically(room, total) if sum(room) >= total else [one[2] for one in placement]
    return tuple((index, cpus, count, mb) for (index, cpus, _, mb), count in zip(placement, tasks, strict=True))


def distribute_cyclically(most: Sequence[int], ntasks: int) -> list[int]:
    """Distributes tasks to nodes: at least one each, then cyclically while a node has room; the nodes have room for
    all."""
    counts = [1] * len(most)
    left = ntasks - len(most)
    while left > 0:
        open_ = [i for i, room in enumerate(most) if counts[i] < room]
        turns = max(1, min(min(most[i] - counts[i] for i in open_), left // len(open_)))
        for i in open_:
            more = min(turns, left)
            counts[i] += more
            left -= more
    return counts
