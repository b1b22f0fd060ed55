"""Decides whether a pending job may start now, as far as everything but resources goes.

`refresh()` is called whenever an input of a rule may have changed for a job: at submit, hold, release, update, the end
of a dependency, a begin time, a task of its array, a partition's state. It makes the job's rows ready or removes them
from the ready ones. The rules are a table, obstacles.py: the first that applies is the reason. Limits are checked for a
job that passes them, partition by partition. Resources and priority are the planner's business (passes/schedule.py).
"""

from collections.abc import Iterable

import numpy as np

from ctld.core.jobs import arrays, het
from ctld.core.lifecycle.obstacles import DECISIONS, begins_at_us
from ctld.core.lifecycle.waiting import (
    Ranks,
    leave_limits,
    leave_queue,
    ranks_of,
    set_reason,
    wait_for_limit,
    wait_in_limits,
)
from ctld.core.limits import ages as limit_ages
from ctld.core.limits import budgets, checks, node_limits
from ctld.core.queue import preemption
from ctld.core.queue.feasibility import is_possible
from ctld.core.queue.shapes import shapes
from ctld.core.queue.terms import terms_of
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.reservations.view import choices
from ctld.core.state.pending import Shape, Terms
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import END_STATES, JobState, Reason

US = 1_000_000
#: Reasons that the planner gives to ready jobs; a refresh keeps them.
PLANNER_REASONS = frozenset(
    {
        Reason.PRIORITY, Reason.RESOURCES, Reason.REQ_NODE_NOT_AVAIL, Reason.BAD_CONSTRAINTS, Reason.LICENSES,
        Reason.RESERVATION, Reason.DEADLINE,
    }
)  # fmt: skip


def refresh(state: ClusterState, job: Job, now_us: int) -> None:
    """Decides again whether a pending job is ready."""
    if job.state is not JobState.PENDING:
        return
    request = job.request
    if not state.pending.has_rows(job.job_id):
        _enter(state, job, now_us)
    reason = _reason(state, job, now_us)
    if reason is None and not job.eligible_at_us:
        job = state.jobs.own(job)
        job.eligible_at_us = now_us  # also when the clock was set back to before its submission
        state.touch(job)
        if request.switches_max:
            _await_switches(state, job)
    has_limits = state.limits.ledger is not None
    if has_limits:
        limit_ages.update_age(state, job)
    ranks = ranks_of(state, job, reason, is_admitted=len(request.partitions) == 1)  # `_reason` has found that
    if has_limits and not request.het_job_id:
        if reason is None:
            reason, ranks = wait_in_limits(state, job, ranks)
        else:
            leave_limits(state, job)
    if reason is not None:
        _wait(state, job, reason)
        return
    if not request.het_job_id:
        _set_ready(state, job, ranks)
    elif _join(state, job, ranks, now_us):
        return
    if job.reason not in PLANNER_REASONS:
        set_reason(state, job, Reason.PRIORITY)
    if state.scheduling.quick_pass_due or _only_waits(state, job):
        state.scheduling.outdate_plans()
    else:
        state.changed()


def enter_many(state: ClusterState, jobs: Iterable[Job], now_us: int) -> None:
    """Does what `refresh` would for each of these pending jobs, which mostly have no rows yet and may start.

    The same rules decide. Rows of jobs that may run in one way are written together, column by column.
    """
    entered: list[Job] = []
    ways: list[tuple[int, Shape]] = []
    terms: list[Terms] = []
    others: list[Job] = []
    for job in jobs:
        way = _only_way(state, job, now_us)
        if way is None:
            others.append(job)
        else:
            entered.append(job)
            ways.append(way)
            terms.append(terms_of(state, job))
    if entered:
        _enter_together(state, entered, ways, terms)
    for job in others:
        refresh(state, job, now_us)


def _enter_together(state: ClusterState, entered: list[Job], ways: list[tuple[int, Shape]], terms: list[Terms]) -> None:
    """Makes jobs ready that may run in one way each and have no rows yet."""
    ids = [job.job_id for job in entered]
    rows = state.pending.add_many(ids, ways, terms)
    for job in entered:
        preemption.update_pending_classes(state, job)
    ranks = [rank for job in entered for rank in ranks_of(state, job, None, is_admitted=True) if rank is not None]
    counts = [arrays.startable(state, job) for job in entered]
    state.pending.set_ready_many(ids, rows, ranks, counts, [job.eligible_at_us // US for job in entered])
    for job in entered:
        if job.reason is not Reason.PRIORITY and job.reason not in PLANNER_REASONS:
            set_reason(state, job, Reason.PRIORITY)
    state.changed()


def _only_way(state: ClusterState, job: Job, now_us: int) -> tuple[int, Shape] | None:
    """Returns how a job may run that has no rows yet, is ready by all rules and has one way, without limits,
    reservations, switches or other components to consider; else None."""
    request = job.request
    if (
        type(request) is JobRequest  # it has a rare field
        or len(request.partitions) != 1
        or not job.eligible_at_us
        or job.state is not JobState.PENDING
        or state.pending.has_rows(job.job_id)
        or state.limits.ledger is not None
        or state.reservations
        or _reason(state, job, now_us) is not None
    ):
        return None
    found = shapes(state, request)
    return found[0] if len(found) == 1 else None


def task_started(state: ClusterState, job: Job, now_us: int) -> None:
    """Does what `refresh` would for an array's record of which one task has started: nothing else has changed."""
    limits, scheduling = state.limits, state.scheduling
    if (
        limits.ledger is not None
        or limits.budgets.books
        or state.priorities is not None
        or job.array_throttle
        or job.preemptor_id
        or job.reason not in PLANNER_REASONS
        or not state.pending.set_count(job.job_id, arrays.weight(job))
    ):
        refresh(state, job, now_us)
    elif scheduling.quick_pass_due or _only_waits(state, job):
        scheduling.outdate_plans()
    else:
        state.changed()


def _reason(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """Returns the first rule that applies; a job that waits for a budget is refreshed when one is freed."""
    reason = None
    for decide in DECISIONS:
        reason = decide(state, job, now_us)
        if reason is not None:
            break
    if reason is Reason.PENSTOCK_BUDGET:
        budgets.set_waiting(state, job, True)
    elif reason is None and state.limits.budgets.waiting:
        budgets.set_waiting(state, job, False)
    return reason


def _wait(state: ClusterState, job: Job, reason: Reason) -> None:
    leave_queue(state, job)
    if reason is Reason.BEGIN_TIME is not job.reason:
        # also a time that had passed once, before the clock was set back
        state.timers.set(begins_at_us(job), Timer.BEGIN_TIME, job.job_id)
    set_reason(state, job, reason, job.reason_detail if reason.value == job.reason_detail else "")


def _set_ready(state: ClusterState, job: Job, ranks: Ranks) -> None:
    count = arrays.startable(state, job) if job.array_job_id else 1
    has_limits = state.limits.ledger is not None
    if count > 1 and has_limits:
        count = checks.room(state, job, count)
    state.pending.set_ready(job.job_id, ranks, count, job.eligible_at_us // US)
    if has_limits:
        limit_ages.keeps_nodes(state, job)


def _enter(state: ClusterState, job: Job, now_us: int) -> None:
    """Creates the job's rows."""
    request = job.request
    any_switches = bool(request.switches_max) and now_us >= switch_wait_ends_us(state, job) > 0
    # A job that may not use its reservations any more keeps rows, which never become ready.
    resvs = (choices(state, job) if state.reservations else ()) or (-1,)
    has_limits = state.limits.ledger is not None
    wanted = node_limits.within(state, job) if has_limits else request
    found = shapes(state, wanted, resvs, any_switches=any_switches)
    if request.het_job_id:
        found = _one_way(state, found)
    if has_limits:
        found = node_limits.fenced(state, job, found)
    state.pending.add(job.job_id, found, terms_of(state, job))
    preemption.update_pending_classes(state, job)
    if request.switches_max and not any_switches:
        _await_switches(state, job)


def _one_way(state: ClusterState, found: list[tuple[int, Shape]]) -> list[tuple[int, Shape]]:
    """Returns the first of a component's alternatives that could ever run: the planner considers only one."""
    found = [one for one in found if one[1].resv < 0] or found  # excluding magnetic reservations
    return [next((one for one in found if is_possible(state, one[1])), found[0])] if len(found) > 1 else found


def _join(state: ClusterState, job: Job, ranks: Ranks, now_us: int) -> bool:
    """Makes all components ready, with the lowest of their ranks, if each is ready by itself. Returns True when a limit
    blocks them together, which is then the reason of all."""
    members = [member for member in het.members(state, job) if member.state not in END_STATES]
    leave_limits(state, members[0])
    lowest = _lowest_rank(state, job, ranks, members, now_us)
    if lowest is None:
        leave_queue(state, job)
        return False
    block = next(checks.blocks_together(state, members), None) if state.limits.ledger is not None else None
    if block is not None:
        wait_for_limit(state, job, block)
        return True
    for member in members:
        state.pending.set_ready(member.job_id, [lowest], 1, member.eligible_at_us // US)
        if member.reason not in PLANNER_REASONS:
            set_reason(state, member, Reason.PRIORITY)
    return False


def _lowest_rank(state: ClusterState, job: Job, ranks: Ranks, members: list[Job], now_us: int) -> int | None:
    """Returns the lowest rank of all components' rows; None unless each component is ready by itself."""
    known = list(ranks)
    for member in members:
        if member.state is not JobState.PENDING or not state.pending.rows_of(member.job_id):
            return None
        if member is not job:
            if not member.eligible_at_us or _reason(state, member, now_us) is not None:
                return None
            known += ranks_of(state, member, None)
    found = [rank for rank in known if rank is not None]
    return min(found) if found and len(found) == len(known) else None


def _only_waits(state: ClusterState, job: Job) -> bool:
    """Whether no pass is needed for the job: it is last in the queue, needs more cpus than are free in all or GRES that
    too few nodes have free, and no start estimate is configured (PenstockBackfillEstimate). A job at the end of the
    queue cannot let any other one start."""
    if state.scheduling.policy.estimate or job.request.het_job_id:
        return False
    pending, columns = state.pending, state.node_columns
    job_id, row = pending.last_ready()
    if job_id != job.job_id or pending.table.preempts.item(row):
        return False
    is_fixed = not (state.gpus.divisible or state.running.touched or state.limits.lending.is_on)
    if is_fixed and len(pending.rows_of(job_id)) == 1:
        for kind, count in enumerate(pending.gres_of(row)):
            if count and np.count_nonzero(columns.free_gres[:, kind] >= count) < pending.table.nodes_min.item(row):
                return True
    return job.request.ntasks * job.request.cpus_per_task > int(np.add.reduce(columns.free_cpus))


def _await_switches(state: ClusterState, job: Job) -> None:
    if job.eligible_at_us:
        state.timers.set(switch_wait_ends_us(state, job), Timer.SWITCH_WAIT, job.job_id)


def switch_wait_ends_us(state: ClusterState, job: Job) -> int:
    """Returns until when the job waits for as few switches as it requests; 0 = the wait has not begun (sbatch(1),
    --switches)."""
    most = state.scheduling.policy.switch_wait_s
    wait_s = min(job.request.switches_wait_s or most, most)
    return job.eligible_at_us + wait_s * US if job.eligible_at_us else 0


def refresh_throttle(state: ClusterState, job: Job) -> None:
    """Refreshes the waiting tasks of a limited array when another task has got or released its allocation."""
    if not job.array_job_id or not job.array_throttle:
        return
    record = state.arrays[job.array_job_id]
    for job_id in (*record.unsplit, *record.waiting):  # not all members: ended tasks remain among them for MinJobAge
        member = state.jobs.get(job_id)
        if member is not None and member.state is JobState.PENDING:
            refresh(state, member, state.now_us)
