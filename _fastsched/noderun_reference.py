"""The node run as its oracle, written for reading: lists, sums and sorts, with everything recomputed each time.

The rules are in noderun_contract.py, whose numbers are named here.
"""

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from _fastsched import noderun_contract as contract
from _fastsched import replay_contract as words
from _fastsched.noderun_contract import NodeRun, RunJobs, RunNodes
from _fastsched.replay_contract import ReplayPolicy


class Amount(NamedTuple):
    """Resources of one node."""

    cpus: int
    mem_mb: int
    gpus: int

    def plus(self, other: "Amount", sign: int = 1) -> "Amount":
        return Amount(*(a + sign * b for a, b in zip(self, other, strict=True)))


class NodeJob(NamedTuple):
    """A row of the table of jobs."""

    submit_s: int
    run_s: int
    estimate_s: int
    user: int
    ntasks: int
    nodes_min: int
    nodes_max: int
    gpus: int
    mem_node_mb: int
    mem_cpu_mb: int
    urgent: int


_Placement = dict[int, Amount]  # node -> what the job takes there; empty: no fit


class _World:
    """Jobs, nodes, and the jobs that wait and run."""

    def __init__(self, jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy) -> None:
        self.jobs = [NodeJob(*row) for row in zip(*(column.tolist() for column in jobs), strict=True)]
        self.policy = policy
        self.kind = nodes.kind
        self.quantum: list[int] = nodes.quantum.tolist()
        rows = zip(nodes.cpus.tolist(), nodes.mem_mb.tolist(), nodes.gpus.tolist(), strict=True)
        self.total = [Amount(*row) for row in rows]
        self.free = list(self.total)
        self.rank_s = [job.estimate_s for job in self.jobs]
        self.start_s = [-1] * len(self.jobs)
        self.placed: list[_Placement] = [{} for _ in self.jobs]
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.ends: list[tuple[int, int, int]] = []  # (time, number of the start, job)
        self.starts = 0
        self.ended: dict[int, list[int]] = {}  # user -> jobs that have ended, latest last

    # -- rules 2 and 3

    def takes(self, job: NodeJob, node: int, tasks: int) -> Amount:
        quantum = self.quantum[node]
        cpus = -(-tasks // quantum) * quantum
        mem_mb = max(0, job.mem_cpu_mb) * cpus
        if job.mem_node_mb >= 0:
            mem_mb = job.mem_node_mb or self.total[node].mem_mb
        return Amount(cpus, mem_mb, job.gpus)

    def tasks_on(self, job: NodeJob, node: int, free: Amount) -> int:
        for tasks in range(min(free.cpus, job.ntasks - job.nodes_min + 1), 0, -1):
            if min(free.plus(self.takes(job, node, tasks), -1)) >= 0:
                return 0 if job.nodes_max == 1 and tasks < job.ntasks else tasks
        return 0

    def choose(self, job: NodeJob, free: list[Amount]) -> _Placement:
        most = {node: tasks for node in range(len(free)) if (tasks := self.tasks_on(job, node, free[node]))}
        candidates = sorted(most, key=lambda node: (self.preference(job, free[node]), node))
        chosen = _shortest(job, candidates, most)
        if not chosen:
            chosen = _shortest(job, sorted(candidates, key=lambda node: -most[node]), most)
        rest, found = job.ntasks, {}
        for k, node in enumerate(sorted(chosen)):
            following = sum(min(most[other], self.quantum[other]) for other in sorted(chosen)[k + 1 :])
            tasks = min(most[node], max(1, rest - following))
            found[node] = self.takes(job, node, tasks)
            rest -= tasks
        return found

    def preference(self, job: NodeJob, free: Amount) -> int:
        return (0, -free.cpus, free.gpus if job.gpus else free.cpus)[self.kind]

    # -- rules 4 to 7

    def expected_s(self, number: int, now: int) -> int:
        return max(self.start_s[number] + self.jobs[number].estimate_s, now + 1)

    def start(self, number: int, placement: _Placement, now: int) -> None:
        self.waiting.remove(number)
        self.running.append(number)
        self.start_s[number], self.placed[number] = now, placement
        for node, amount in placement.items():
            self.free[node] = self.free[node].plus(amount, -1)
        self.starts += 1
        heapq.heappush(self.ends, (now + self.jobs[number].run_s, self.starts, number))

    def end(self) -> None:
        number = heapq.heappop(self.ends)[2]
        self.running.remove(number)
        for node, amount in self.placed[number].items():
            self.free[node] = self.free[node].plus(amount)
        self.ended.setdefault(self.jobs[number].user, []).append(number)

    def submit(self, number: int) -> None:
        job = self.jobs[number]
        ended = self.ended.get(job.user, [])
        alike = [other for other in ended if self.shape(other) == self.shape(number)]
        if self.policy.ranker == words.SIMILAR and len(alike) > 1:
            ended = alike
        if self.policy.ranker != words.GIVEN and len(ended) > 1:
            mean_s = (self.jobs[ended[-1]].run_s + self.jobs[ended[-2]].run_s) // 2
            self.rank_s[number] = max(1, min(job.estimate_s, mean_s))
        if job.urgent:
            self.rank_s[number] = 0
        self.waiting.append(number)

    def shape(self, number: int) -> tuple[int, ...]:
        """What jobs have in common that were requested alike."""
        job = self.jobs[number]
        return (job.estimate_s, *tuple(job)[contract.REQUEST])

    def sorted(self, order: int, now: int) -> list[int]:
        return sorted(self.waiting, key=lambda number: (self.key(order, number, now), number))

    def key(self, order: int, number: int, now: int) -> float:
        job = self.jobs[number]
        if order == words.AGED:
            handicap_s = min(self.policy.aged_max_s, self.policy.aged_factor * self.rank_s[number])
            return job.submit_s + handicap_s
        return _KEYS[order](float(self.rank_s[number]), float(job.ntasks), float(job.submit_s), float(now))

    def run_pass(self, now: int) -> None:
        """One pass."""
        while self.waiting:
            head = self.sorted(self.policy.order, now)[0]
            placement = self.choose(self.jobs[head], self.free)
            if not placement:
                break
            self.start(head, placement, now)
        if self.waiting and self.policy.backfill == words.EASY:
            self.backfill(head, now)

    def backfill(self, head: int, now: int) -> None:
        shadow_s, reserved = self.reserve(head, now)
        for number in self.sorted(self.policy.candidates, now):
            job = self.jobs[number]
            room = self.free
            if now + job.estimate_s > shadow_s:
                room = [self.beside(node, shadow_s, reserved, now) for node in range(len(room))]
            placement = self.choose(job, room) if number != head else {}
            if placement:
                self.start(number, placement, now)

    def reserve(self, head: int, now: int) -> tuple[int, _Placement]:
        for at_s in sorted({self.expected_s(number, now) for number in self.running}):
            placement = self.choose(self.jobs[head], [self.free_at(node, at_s, now) for node in range(len(self.free))])
            if placement:
                return at_s, placement
        raise AssertionError("a job that fits on the empty machine fits when all have ended")

    def free_at(self, node: int, at_s: int, now: int) -> Amount:
        found = self.free[node]
        for number in self.running:
            if node in self.placed[number] and self.expected_s(number, now) <= at_s:
                found = found.plus(self.placed[number][node])
        return found

    def beside(self, node: int, shadow_s: int, reserved: _Placement, now: int) -> Amount:
        if node not in reserved:
            return self.free[node]
        later = self.free_at(node, shadow_s, now).plus(reserved[node], -1)
        return Amount(*(min(pair) for pair in zip(self.free[node], later, strict=True)))


def _shortest(job: NodeJob, candidates: list[int], most: dict[int, int]) -> list[int]:
    """The shortest run from the first candidate on that will do; empty when there is none."""
    for count in range(job.nodes_min, min(len(candidates), job.nodes_max) + 1):
        if sum(most[node] for node in candidates[:count]) >= job.ntasks:
            return candidates[:count]
    return []


def _wfp3(r: float, n: float, s: float, now: float) -> float:
    share = (now - s) / r
    return -(share * share * share * n)


def _unicep(r: float, n: float, s: float, now: float) -> float:
    return -(now - s) / ((math.log2(n) if n > 1 else contract.LOG2_OF_ONE) * r)


def _f1(r: float, n: float, s: float, now: float) -> float:
    return math.log10(r) * n + contract.F1_WEIGHT * math.log10(max(s, contract.SUBMIT_S_MIN))


_KEYS: dict[int, Callable[[float, float, float, float], float]] = {
    words.ARRIVAL: lambda r, n, s, now: 0.0,
    words.SHORTEST: lambda r, n, s, now: r,
    words.SMALLEST: lambda r, n, s, now: n,
    words.SMALLEST_AREA: lambda r, n, s, now: r * n,
    contract.WFP3: _wfp3,
    contract.UNICEP: _unicep,
    contract.F1: _f1,
}


def run_on_nodes(jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy) -> NodeRun:
    """Runs the jobs; raises ValueError for input that no run can do (contract.refuse)."""
    contract.refuse(jobs, nodes, policy)
    world = _World(jobs, nodes, policy)
    submitted = 0
    while submitted < len(world.jobs) or world.ends:
        now = min([job.submit_s for job in world.jobs[submitted : submitted + 1]] + [end[0] for end in world.ends[:1]])
        while world.ends and world.ends[0][0] == now:
            world.end()
        while submitted < len(world.jobs) and world.jobs[submitted].submit_s == now:
            world.submit(submitted)
            submitted += 1
        world.run_pass(now)
    first = np.cumsum([0, *(len(placement) for placement in world.placed)], dtype=np.int64)
    node = [node for placement in world.placed for node in placement]
    return NodeRun(np.array(world.start_s, dtype=np.int64), first, np.array(node, dtype=np.int32))
