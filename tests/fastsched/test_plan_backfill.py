"""On one pool of identical processors the planner's two parameters are the two classic backfills.

reserve_max 1 is EASY: only the head of the queue has a reservation, at its shadow time, and others may start if they end by
then or need no more than the processors that the head leaves over (Lifka 1995; Mu'alem and Feitelson 2001).
reserve_max -1 is conservative backfilling: each job gets the earliest hole when it arrives (Feitelson and Weil 1998). Both
are simulated here in a few lines that know nothing of the planner, and job by job the starts must be the same.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fastsched.planner_input import Node, Planner, Run, planner, planner_input

#: (now_s, waiting jobs in order of arrival, {running job: start_s}) -> jobs that start now
Pass = Callable[[int, list["Job"], dict["Job", int]], list["Job"]]


@dataclass(frozen=True)
class Job:
    name: int
    arrives_s: int
    procs: int
    asked_s: int
    runs_s: int


#: The oracle is compared with the compiled planner in test_plan_properties.py.
@pytest.fixture(
    scope="module", params=["_fastsched.plan", pytest.param("_fastsched.reference", marks=pytest.mark.slow)]
)
def plan(request: pytest.FixtureRequest) -> Planner:
    return planner(request.param)


def simulate(jobs: list[Job], decide: Pass) -> dict[int, int]:
    """Start of each job. At each time: ends, then arrivals, then one pass."""
    start_s: dict[int, int] = {}
    running: dict[Job, int] = {}
    waiting: list[Job] = []
    coming = sorted(jobs, key=lambda job: (job.arrives_s, job.name))
    while coming or waiting:
        turns = [at_s + job.runs_s for job, at_s in running.items()] + [job.arrives_s for job in coming]
        now_s = min(turns)
        running = {job: at_s for job, at_s in running.items() if at_s + job.runs_s > now_s}
        waiting += [job for job in coming if job.arrives_s <= now_s]
        coming = [job for job in coming if job.arrives_s > now_s]
        for job in decide(now_s, waiting, running):
            waiting.remove(job)
            running[job] = start_s[job.name] = now_s
    return start_s


def planned(plan: Planner, procs: int, reserve_max: int) -> Pass:
    def decide(now_s: int, waiting: list[Job], running: dict[Job, int]) -> list[Job]:
        result = plan(
            planner_input(
                [Node(procs)],
                *({"ntasks": job.procs, "limit_s": job.asked_s} for job in waiting),
                running=[Run({0: job.procs}, at_s + job.asked_s) for job, at_s in running.items()],
                now_s=now_s,
                reserve_max=reserve_max,
                estimate=False,
            )
        )
        return [waiting[row] for row in result.job]

    return decide


def easy(procs: int) -> Pass:
    def decide(now_s: int, waiting: list[Job], running: dict[Job, int]) -> list[Job]:
        free = procs - sum(job.procs for job in running)
        ends = [(at_s + job.asked_s, job.procs) for job, at_s in running.items()]
        chosen: list[Job] = []

        def start(job: Job) -> None:
            nonlocal free
            chosen.append(job)
            free -= job.procs
            ends.append((now_s + job.asked_s, job.procs))

        queue = list(waiting)
        while queue and queue[0].procs <= free:
            start(queue.pop(0))
        if not queue:
            return chosen
        at_shadow, shadow_s = free, now_s
        for end_s, back in sorted(ends):
            if at_shadow >= queue[0].procs and end_s > shadow_s:
                break
            at_shadow, shadow_s = at_shadow + back, end_s
        extra = at_shadow - queue[0].procs
        for job in queue[1:]:
            in_time = now_s + job.asked_s <= shadow_s
            if job.procs <= free and (in_time or job.procs <= extra):
                start(job)
                extra -= 0 if in_time else job.procs
        return chosen

    return decide


def conservative(jobs: list[Job], procs: int) -> dict[int, int]:
    """Each job in the earliest hole of a table of seconds; nothing moves afterwards."""
    used = [0] * (1 + max(job.arrives_s for job in jobs) + sum(job.asked_s for job in jobs))
    start_s = {}
    for job in sorted(jobs, key=lambda job: (job.arrives_s, job.name)):
        at_s = job.arrives_s
        while any(u + job.procs > procs for u in used[at_s : at_s + job.asked_s]):
            at_s += 1
        start_s[job.name] = at_s
        for second in range(at_s, at_s + job.asked_s):
            used[second] += job.procs
    return start_s


def workload(seed: int, procs: int, exact: bool) -> list[Job]:
    rng = random.Random(seed)
    jobs = []
    for name in range(rng.randint(1, 25)):
        asked_s = rng.randint(1, 12)
        runs_s = asked_s if exact else rng.randint(1, asked_s)
        jobs.append(Job(name, rng.randint(0, 30), rng.randint(1, procs), asked_s, runs_s))
    return jobs


@given(seed=st.integers(0, 10**6), procs=st.integers(1, 9), exact=st.booleans())
def test_reserve_max_1_is_easy(plan: Planner, seed: int, procs: int, exact: bool) -> None:
    jobs = workload(seed, procs, exact)
    assert simulate(jobs, planned(plan, procs, 1)) == simulate(jobs, easy(procs))


@given(seed=st.integers(0, 10**6), procs=st.integers(1, 9))
def test_without_a_limit_it_is_conservative_backfilling(plan: Planner, seed: int, procs: int) -> None:
    jobs = workload(seed, procs, exact=True)
    assert simulate(jobs, planned(plan, procs, -1)) == conservative(jobs, procs)


def test_the_two_differ_from_each_other_and_from_first_fit(plan: Planner) -> None:
    """4 processors, 2 of them in use until 10; then come jobs of 3, 4, 1 and 1 processors."""
    sizes = [(0, 2, 10), (1, 3, 5), (1, 4, 5), (1, 1, 30), (1, 1, 12)]
    jobs = [Job(name, arrives_s, procs, asked_s, asked_s) for name, (arrives_s, procs, asked_s) in enumerate(sizes)]
    # First fit: the small ones delay the head by 3 s.
    assert simulate(jobs, planned(plan, 4, 0)) == {0: 0, 1: 13, 2: 31, 3: 1, 4: 1}
    # EASY: the first small one fits beside the head and delays the job after it; the second fits no more.
    assert simulate(jobs, planned(plan, 4, 1)) == {0: 0, 1: 10, 2: 31, 3: 1, 4: 15}
    # Conservative: the first small one would delay the second job, the other one nobody.
    assert simulate(jobs, planned(plan, 4, -1)) == {0: 0, 1: 10, 2: 15, 3: 20, 4: 1}
