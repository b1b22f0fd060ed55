"""The planner's rules in plain Python: the oracle for plan.pyx, and what runs where nothing was compiled.

Jobs come in priority order (the caller has broken the ties). For each copy of each row:

1. What a node can hold. t = the largest number of the job's tasks for which there are cpus, memory, GRES (counted once
   a node) and which ntasks_per_node allows; never more than would leave nothing for the other nodes that the job must
   have. A job that is limited to one node needs all its tasks there. An exclusive job needs a node on which no job
   holds anything, and takes all of its cpus, and all of its memory unless the job asked for an amount. A node with t >=
   1 is a candidate.
2. Which nodes. The shortest run of candidates in node_order with at least nodes_min nodes and room for ntasks. If the
   first nodes_max candidates have no such room: the candidates with the largest t, earlier in node_order first, and
   again no more than needed. Either way the chosen nodes are then filled in node_order, one after the other, leaving a
   task for each that follows.
3. All or nothing: a job gets its whole set of nodes or none. What a start takes is gone for the rows after it.
4. Waiting. A job that cannot start now, but could on the up nodes of its mask if they were empty, HOLDS its whole mask:
   rows after it start only on nodes that nobody holds, so that nothing overtakes it on the nodes that it waits for.
   This is the seam for backfill: a planner that knows end times replaces "held for good" by "free until the reservation
   begins" and leaves the rest. A job that could not start on its empty up nodes waits for something else and holds
   nothing.

Deliberately absent: time, preemption, topology, choice among GRES devices (a GRES is a count in a column; a caller that
has both typed and untyped columns says in both what a job takes), and any verdict on the limits of users or accounts.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from _fastsched import contract
from _fastsched.contract import (
    BAD_CONSTRAINTS,
    NODES_DOWN,
    NOT_TESTED,
    PRIORITY,
    RESOURCES,
    STARTED,
    PlanResult,
)


@dataclass(slots=True)
class _Node:
    free_cpus: int
    free_mem_mb: int
    free_gres: list[int]
    total_cpus: int
    total_mem_mb: int
    total_gres: list[int]
    busy: bool  # a job held something on it before the pass; a start of this pass shows in free_cpus
    exclusive: bool  # a job holds all of it
    up: bool
    held: bool = False  # by a waiting row of this pass

    def emptied(self) -> "_Node":
        """The node as it would be with no job on it."""
        mem, gres = self.total_mem_mb, self.total_gres
        return _Node(self.total_cpus, mem, gres, self.total_cpus, mem, gres, False, False, self.up)


@dataclass(slots=True)
class _Job:
    nodes_min: int
    nodes_max: int
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_node_mb: int
    mem_cpu_mb: int
    gres: list[int]
    exclusive: bool
    mask: list[int]  # node indices, in node_order

    def makes_sense(self) -> bool:
        return (
            1 <= self.nodes_min <= self.nodes_max
            and self.nodes_min <= self.ntasks
            and self.cpus_per_task >= 1
            and self.ntasks_per_node >= 0
            and min(self.gres, default=0) >= 0
        )

    def mem_mb(self, node: _Node, tasks: int) -> int:
        """What the job takes of the node's memory if it has this many tasks there."""
        if self.mem_node_mb >= 0:
            return self.mem_node_mb or node.total_mem_mb
        if self.mem_cpu_mb >= 0:
            return self.mem_cpu_mb * self.cpus_per_task * tasks
        return node.total_mem_mb if self.exclusive else 0

    def tasks_on(self, node: _Node) -> int:
        """Rule 1."""
        if node.exclusive or (self.exclusive and (node.busy or node.free_cpus < node.total_cpus)):
            return 0
        if any(want > 0 and want > free for want, free in zip(self.gres, node.free_gres, strict=True)):
            return 0
        tasks = min(max(node.free_cpus, 0) // self.cpus_per_task, self.ntasks - self.nodes_min + 1)
        if self.ntasks_per_node:
            tasks = min(tasks, self.ntasks_per_node)
        if self.mem_node_mb < 0 and self.mem_cpu_mb > 0:
            tasks = min(tasks, max(node.free_mem_mb, 0) // (self.mem_cpu_mb * self.cpus_per_task))
        elif 0 != self.mem_mb(node, tasks) > node.free_mem_mb:
            return 0
        return tasks if tasks >= (self.ntasks if self.nodes_max == 1 else 1) else 0


@dataclass(slots=True)
class _Plan:
    job: list[int] = field(default_factory=list)
    node_first: list[int] = field(default_factory=lambda: [0])
    node: list[int] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    mem_mb: list[int] = field(default_factory=list)

    def result(self, reason: list[int]) -> PlanResult:
        return PlanResult(
            np.array(self.job, np.int32),
            np.array(self.node_first, np.int32),
            np.array(self.node, np.int32),
            np.array(self.cpus, np.int32),
            np.array(self.tasks, np.int32),
            np.array(self.mem_mb, np.int64),
            np.array(reason, np.uint8),
        )


_Candidate = tuple[int, int, int]  # position in the job's mask, node index, tasks


def _fewest(candidates: list[_Candidate], job: _Job) -> list[_Candidate]:
    """The shortest beginning of the list that the job can use; empty when there is none."""
    room = 0
    for used, (_, _, tasks) in enumerate(candidates[: job.nodes_max], start=1):
        room += tasks
        if used >= job.nodes_min and room >= job.ntasks:
            return candidates[:used]
    return []


def _choose(job: _Job, nodes: dict[int, _Node]) -> list[tuple[int, int]]:
    """Rule 2: (node index, tasks) in node_order; empty when the job does not fit. `nodes` are those it may use."""
    room = [(at, index, job.tasks_on(nodes[index])) for at, index in enumerate(job.mask) if index in nodes]
    candidates = [candidate for candidate in room if candidate[2]]
    chosen = _fewest(candidates, job) or _fewest(sorted(candidates, key=lambda c: (-c[2], c[0])), job)
    answer = []
    rest = job.ntasks
    for done, (_, index, most) in enumerate(sorted(chosen), start=1):
        tasks = min(most, rest - (len(chosen) - done))
        rest -= tasks
        answer.append((index, tasks))
    return answer


def _take(job: _Job, row: int, chosen: list[tuple[int, int]], nodes: list[_Node], out: _Plan) -> None:
    """Rule 3."""
    for index, tasks in chosen:
        node = nodes[index]
        cpus = node.total_cpus if job.exclusive else tasks * job.cpus_per_task
        mem_mb = job.mem_mb(node, tasks)
        node.free_cpus -= cpus
        node.free_mem_mb -= mem_mb
        node.free_gres = [free - want for free, want in zip(node.free_gres, job.gres, strict=True)]
        node.exclusive = job.exclusive
        out.node.append(index)
        out.cpus.append(cpus)
        out.tasks.append(tasks)
        out.mem_mb.append(mem_mb)
    out.job.append(row)
    out.node_first.append(len(out.node))


def _refuse(job: _Job, nodes: list[_Node]) -> int:
    """Rule 4: the reason of a job that does not fit now, and its hold."""
    if not _choose(job, {index: nodes[index].emptied() for index in job.mask if nodes[index].up}):
        with_down = _choose(job, {index: nodes[index].emptied() for index in job.mask})
        return NODES_DOWN if with_down else BAD_CONSTRAINTS
    some_open = any(nodes[index].up and not nodes[index].held for index in job.mask)
    for index in job.mask:
        nodes[index].held = True
    return RESOURCES if some_open else PRIORITY


def plan(
    free_cpus: NDArray[np.int32],
    free_mem_mb: NDArray[np.int64],
    free_gres: NDArray[np.int32],
    total_cpus: NDArray[np.int32],
    total_mem_mb: NDArray[np.int64],
    total_gres: NDArray[np.int32],
    running_jobs: NDArray[np.int32],
    held_exclusive: NDArray[np.uint8],
    node_order: NDArray[np.int32],
    up: NDArray[np.uint8],
    masks: NDArray[np.uint64],
    job_mask: NDArray[np.int32],
    nodes_min: NDArray[np.int32],
    nodes_max: NDArray[np.int32],
    ntasks: NDArray[np.int32],
    cpus_per_task: NDArray[np.int32],
    ntasks_per_node: NDArray[np.int32],
    mem_node_mb: NDArray[np.int64],
    mem_cpu_mb: NDArray[np.int64],
    gres: NDArray[np.int32],
    exclusive: NDArray[np.uint8],
    count: NDArray[np.int32],
    starts_max: int,
) -> PlanResult:
    contract.check(locals())
    nodes = [
        _Node(
            free_cpus=int(free_cpus[i]),
            free_mem_mb=int(free_mem_mb[i]),
            free_gres=free_gres[i].tolist(),
            total_cpus=int(total_cpus[i]),
            total_mem_mb=int(total_mem_mb[i]),
            total_gres=total_gres[i].tolist(),
            busy=bool(running_jobs[i] > 0),
            exclusive=bool(held_exclusive[i]),
            up=bool(up[i]),
        )
        for i in range(len(free_cpus))
    ]
    sets = [[i for i in node_order.tolist() if words[i // 64] >> (i % 64) & 1] for words in masks.tolist()]
    rows = [
        _Job(
            nodes_min=int(nodes_min[j]),
            nodes_max=int(nodes_max[j]),
            ntasks=int(ntasks[j]),
            cpus_per_task=int(cpus_per_task[j]),
            ntasks_per_node=int(ntasks_per_node[j]),
            mem_node_mb=int(mem_node_mb[j]),
            mem_cpu_mb=int(mem_cpu_mb[j]),
            gres=gres[j].tolist(),
            exclusive=bool(exclusive[j]),
            mask=sets[job_mask[j]],
        )
        for j in range(len(job_mask))
    ]
    return _pass(nodes, rows, count.tolist(), starts_max)


def _pass(nodes: list[_Node], rows: list[_Job], count: list[int], starts_max: int) -> PlanResult:
    out = _Plan()
    reason = [NOT_TESTED] * len(rows)
    for row, job in enumerate(rows):
        if len(out.job) >= starts_max:
            break
        if count[row] <= 0:
            continue
        if any(node.held for node in nodes) and all(node.held for node in nodes if node.up):
            reason[row] = PRIORITY  # nothing is left to start on: no further work
            continue
        if not job.makes_sense():
            reason[row] = BAD_CONSTRAINTS
            continue
        reason[row] = STARTED
        for _ in range(count[row]):
            open_nodes = {index: nodes[index] for index in job.mask if nodes[index].up and not nodes[index].held}
            chosen = _choose(job, open_nodes) if len(out.job) < starts_max else []
            if len(out.job) >= starts_max or len(out.node) + len(chosen) > contract.PLACEMENTS_MAX:
                reason[row] = NOT_TESTED
                return out.result(reason)
            if not chosen:
                reason[row] = _refuse(job, nodes)
                break
            _take(job, row, chosen, nodes, out)
    return out.result(reason)
