"""The oracle's searches in time: whether a row fits at t, when it first fits, how long it may run, which jobs it preempts.

Rules 0, 4, 8 (heterogeneous jobs), 9 and the first two reasons of rule 10.
"""

from collections.abc import Sequence
from typing import NamedTuple

from _fastsched.contract import PlanLimits
from _fastsched.reference_choose import Chosen, choose, takes
from _fastsched.reference_world import PlacedJob, ReferenceJob, Share, World


def fit(world: World, job: ReferenceJob, at_s: int, *, blocks: bool = True, licenses: bool = True) -> Chosen:
    """Returns the nodes of a start at this second; empty: none. Without blocks or licenses: as if these did not conflict."""
    if not job.may_run(at_s, job.limit_min_s):
        return []
    if licenses and not world.has_licenses(job, at_s, job.limit_min_s, blocks):
        return []
    rooms = {n: world.room(job, n, at_s, job.limit_min_s, blocks=blocks) for n in job.nodes if world.up[n]}
    return choose(job, world, rooms)


def fits_empty(world: World, job: ReferenceJob, up_only: bool) -> bool:
    """Whether the row fits on the empty nodes of its mask."""
    return bool(choose(job, world, {n: world.empty_room(n) for n in job.nodes if world.up[n] or not up_only}))


def allocate(world: World, job: ReferenceJob, at_s: int, chosen: Chosen) -> PlacedJob:
    return world.take(job, at_s, job.limit_min_s, {node: takes(job, world, node, tasks) for node, tasks in chosen})


def fit_all(world: World, jobs: Sequence[ReferenceJob], at_s: int) -> list[Chosen]:
    """Places each after the one before it; empty when one of them does not fit. Takes nothing."""
    answer: list[Chosen] = []
    allocations: list[PlacedJob] = []
    for job in jobs:
        chosen = fit(world, job, at_s)
        if not chosen:
            answer = []
            break
        answer.append(chosen)
        allocations.append(allocate(world, job, at_s, chosen))
    for allocation in allocations:
        world.drop(allocation)
    return answer


def first_later(
    world: World, jobs: Sequence[ReferenceJob], limits: PlanLimits, not_before_s: int
) -> tuple[int, list[Chosen]] | None:
    """Applies rule 4 to times after now_s."""
    step_s = limits.resolution_s
    times = [-(-s // step_s) * step_s for job in jobs for s in world.later_times(job)]
    for at_s in sorted(dict.fromkeys(times)):
        if not_before_s <= at_s < limits.now_s + limits.window_s:
            chosen = fit_all(world, jobs, at_s)
            if chosen:
                return at_s, chosen
    return None


def _still_covered(
    world: World, job: ReferenceJob, at_s: int, for_s: int, on: dict[int, Share], gone: Sequence[PlacedJob]
) -> bool:
    rooms = {node: world.room(job, node, at_s, for_s, gone) for node in on}
    return all(rooms[node].open and rooms[node].free.covers(share) for node, share in on.items())


def lengthen(world: World, job: ReferenceJob, allocation: PlacedJob) -> int:
    """Extends a start as long as nothing conflicts, at most to limit_s; returns that limit (rule 4)."""
    at_s = allocation.from_s
    world.drop(allocation)
    ends = [at_s + job.limit_s, *world.later_begins(at_s)]
    if job.inside is not None:
        ends.append(job.inside[1])
    lengths = [end - at_s for end in ends if job.limit_min_s < end - at_s <= job.limit_s]
    good = [
        length
        for length in lengths
        if job.may_run(at_s, length)
        and world.has_licenses(job, at_s, length)
        and _still_covered(world, job, at_s, length, allocation.on, ())
    ]
    world.put(allocation)
    allocation.to_s = at_s + max(good, default=job.limit_min_s)
    return allocation.to_s - at_s


class PreemptionFit(NamedTuple):
    chosen: Chosen
    victims: list[int]  # running jobs in the order (run_cost, index)


def preempt(world: World, job: ReferenceJob) -> PreemptionFit | None:
    """Applies rule 9."""
    now_s, for_s = world.now_s, job.limit_min_s
    if not job.preempts or not job.may_run(now_s, for_s) or not world.has_licenses(job, now_s, for_s):
        return None
    may_go = [
        run for run in world.runs
        if 0 <= run.run_class < 64 and job.preempts >> run.run_class & 1 and run not in world.victims
    ]  # fmt: skip
    gone = world.victims + may_go
    nodes = [n for n in job.nodes if world.up[n]]
    on_node = {n: [run for run in may_go if n in run.on] for n in nodes}
    cost = {n: (len(runs), sum(run.run_cost for run in runs)) for n, runs in on_node.items()}
    chosen = choose(job, world, {n: world.room(job, n, now_s, for_s, gone) for n in nodes}, cost)
    if not chosen:
        return None
    on = {node: takes(job, world, node, tasks) for node, tasks in chosen}
    there = [run for run in may_go if any(n in run.on for n in on)]
    there.sort(key=lambda run: (run.run_cost, world.runs.index(run)))

    def will_do(victims: list[PlacedJob]) -> bool:
        return _still_covered(world, job, now_s, for_s, on, world.victims + victims)

    victims: list[PlacedJob] = []
    while not will_do(victims):
        victims.append(there[len(victims)])
    for spared in reversed(list(victims)):
        rest = [run for run in victims if run is not spared]
        if will_do(rest):
            victims = rest
    return PreemptionFit(chosen, [world.runs.index(run) for run in victims]) if victims else None
