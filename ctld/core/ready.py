"""May a pending job start now, as far as everything but resources goes? One table of checks, the first that holds is
the reason.

`refresh()` is called whenever something that a check looks at may have changed for a job: at submit, hold, release,
update, the end of a dependency, a begin time, a task of its array, a partition's state. It puts the job's rows among
the ready ones or takes them out. Resources and priority are the planner's business (schedule.py).
"""

from collections.abc import Callable

import numpy as np

from ctld.core import admit, arrays, budgets, het, limit_ages, limit_nodes, limits, predict, preempt, priority, standing
from ctld.core.expect import UNLIMITED_S
from ctld.core.feasible import is_possible
from ctld.core.model import Job, JobRequest, Partition
from ctld.core.pending import NO_DEADLINE, Shape, Terms
from ctld.core.reserve_view import choices
from ctld.core.reserve_who import least_s
from ctld.core.shapes import shapes
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import END_STATES, Hold, JobState, Reason

US = 1_000_000
#: Reasons that the planner gives to ready jobs; a refresh leaves them as they are.
PLANNER_REASONS = frozenset(
    {
        Reason.PRIORITY, Reason.RESOURCES, Reason.REQ_NODE_NOT_AVAIL, Reason.BAD_CONSTRAINTS, Reason.LICENSES,
        Reason.RESERVATION, Reason.DEADLINE,
    }
)  # fmt: skip
#: Reasons for which the controller itself holds a job; kept in `reason_detail` while it is held.
HELD_BY_CONTROLLER = frozenset(
    r.value for r in (Reason.LAUNCH_FAILED_REQUEUED_HELD, Reason.JOB_HOLD_MAX_REQUEUE, Reason.RESERVATION_DELETED)
)


def _held(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.hold is Hold.NO:
        return None
    if job.reason_detail in HELD_BY_CONTROLLER:
        return Reason(job.reason_detail)
    return Reason.JOB_HELD_ADMIN if job.hold is Hold.ADMIN else Reason.JOB_HELD_USER


def _dependency(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    if job.job_id not in state.waiting_for:
        return None
    return job.reason if job.reason is Reason.DEPENDENCY_NEVER_SATISFIED else Reason.DEPENDENCY


def _begin(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.BEGIN_TIME if max(job.request.begin_at_us, job.eligible_at_us) > now_us else None


def _array_limit(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.JOB_ARRAY_TASK_LIMIT if arrays.startable(state, job) == 0 else None


def _partition(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    worst = None
    for name in job.request.partitions:
        worst = partition_reason(state, state.partitions[name], job)
        if worst is None:
            return None
    return worst


def _standing(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return standing.obstacle(state, job)


def _budget(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return budgets.obstacle(state, job, now_us)


def _reservation(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    return Reason.RESERVATION if job.request.reservation and not choices(state, job) else None


def preemptor(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """It was preempted by QOS: the preemptor, which may well rank below it, has the first choice."""
    if not job.preemptor_id or state.config.preempt_type != preempt.BY_QOS:
        return None
    other = state.jobs.get(job.preemptor_id)
    waits = other is not None and other.state is JobState.PENDING and state.pending.is_ready(other.job_id)
    return Reason.PRIORITY if waits else None


CHECKS: tuple[Callable[[ClusterState, Job, int], Reason | None], ...] = (
    _held,
    _dependency,
    _begin,
    _array_limit,
    _standing,
    _partition,
    _reservation,
    _budget,
    preemptor,
)


def partition_reason(state: ClusterState, partition: Partition, job: Job) -> Reason | None:
    """Why the partition takes no such job now, None if it does."""
    if partition.state == "DOWN":
        return Reason.PARTITION_DOWN
    if partition.state == "INACTIVE":
        return Reason.PARTITION_INACTIVE
    qos = state.qos.get(job.request.qos)
    limit = admit.limit(partition, job.request, job.time_limit_s, qos)
    return limit or admit.bar(state, partition, job.request)


def refresh(state: ClusterState, job: Job, now_us: int) -> None:
    """Look again whether a pending job is ready."""
    if job.state is not JobState.PENDING:
        return
    if not state.pending.rows_of(job.job_id):
        _enter(state, job, now_us)
    reason = _obstacle(state, job, now_us)
    if reason is None and not job.eligible_at_us:
        job.eligible_at_us = now_us  # also when a clock that was set back puts that before its submission
        state.touch(job)
        if job.request.switches_max:
            _await_switches(state, job)
    if state.ledger is not None:
        limit_ages.look(state, job)
    ranks = _ranks(state, job, reason)
    if state.ledger is not None and not job.request.het_job_id:
        reason, ranks = _limited(state, job, reason, ranks)
    if reason is not None:
        _wait(state, job)
        if reason is Reason.BEGIN_TIME is not job.reason:
            # also a time that had come once, before the clock was set back
            due_us = max(job.request.begin_at_us, job.eligible_at_us)
            state.timers.set(due_us, Timer.BEGIN_TIME, job.job_id)
        set_reason(state, job, reason, job.reason_detail if reason.value == job.reason_detail else "")
        return
    if job.request.het_job_id:
        if _join(state, job, ranks, now_us):
            return
    else:
        count = arrays.startable(state, job)
        if count > 1 and state.ledger is not None:
            count = limits.room(state, job, count)
        state.pending.set_ready(job.job_id, ranks, count, job.eligible_at_us // US)
        if state.ledger is not None:
            limit_ages.keeps_nodes(state, job)
    if job.reason not in PLANNER_REASONS:
        set_reason(state, job, Reason.PRIORITY)
    if state.quick_pass_due or _only_waits(state, job):
        state.revision += 1
    else:
        state.changed()


def _enter(state: ClusterState, job: Job, now_us: int) -> None:
    """Give the job its rows."""
    any_switches = bool(job.request.switches_max) and now_us >= switch_wait_ends_us(state, job) > 0
    # A job whose reservations are not for it any more keeps rows, which never get ready.
    resvs = choices(state, job) or (-1,)
    found = shapes(state, job.request, resvs, any_switches=any_switches)
    if job.request.het_job_id:
        found = _one_way(state, found)
    if state.ledger is not None:
        found = limit_nodes.fenced(state, job, found)
    state.pending.add(job.job_id, found, terms_of(state, job))
    preempt.tell_pending(state, job)
    if job.request.switches_max and not any_switches:
        _await_switches(state, job)


def _one_way(state: ClusterState, found: list[tuple[int, Shape]]) -> list[tuple[int, Shape]]:
    """Of a component's alternatives the first that could ever run: the planner has no others for it."""
    found = [one for one in found if one[1].resv < 0] or found  # no magnetic reservations
    return [next((one for one in found if is_possible(state, one[1])), found[0])] if len(found) > 1 else found


def _obstacle(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    for check in CHECKS:
        reason = check(state, job, now_us)
        if reason is not None:
            return reason
    return None


def _ranks(state: ClusterState, job: Job, reason: Reason | None) -> list[int | None]:
    open_to: list[Partition | None] = []
    for row in state.pending.rows_of(job.job_id):
        partition = state.partition_list[state.pending.partition[row]]
        open_to.append(partition if reason or not partition_reason(state, partition, job) else None)
    return predict.aged(state, job, priority.ranks(state, job, open_to))


def _limited(
    state: ClusterState, job: Job, reason: Reason | None, ranks: list[int | None]
) -> tuple[Reason | None, list[int | None]]:
    """What limits have to say of a job that nothing else holds back: no rank where one stands in its way."""
    if reason is not None:
        _leave_limits(state, job)
        return reason, ranks
    found = limits.hold_back(state, job, max((rank for rank in ranks if rank is not None), default=0))
    if found:
        names = [state.partition_list[state.pending.partition[r]].name for r in state.pending.rows_of(job.job_id)]
        ranks = [None if name in found else rank for name, rank in zip(names, ranks, strict=True)]
        if not any(rank is not None for rank in ranks):
            return next(iter(found.values())).reason, ranks
    return None, ranks


def wait_for_limit(state: ClusterState, job: Job, block: limits.Block) -> None:
    """A job that was about to start may not: it waits for that limit, with all that start together, which stand in the
    queue as one."""
    members = [job]
    if job.request.het_job_id:
        members = [one for one in het.members(state, job) if one.state is JobState.PENDING]
    first = members[0]
    rank = state.pending.rank_of(first.job_id)
    if rank is None:
        rank = max((one for one in _ranks(state, first, None) if one is not None), default=0)
    _leave_limits(state, first)
    limits.wait(state, first, (block,), rank)
    _wait(state, job)
    for member in members:
        set_reason(state, member, block.reason, "")


def _leave_limits(state: ClusterState, job: Job) -> None:
    if state.ledger is not None and job.job_id in state.ledger.waiting:
        state.ledger.leave(job.job_id)


def _wait(state: ClusterState, job: Job) -> bool:
    """It is not ready, and neither is any component that starts with it. Always False."""
    for member in het.members(state, job) if job.request.het_job_id else (job,):
        if member.state is JobState.PENDING:
            state.pending.set_waiting(member.job_id)
    return False


def _join(state: ClusterState, job: Job, ranks: list[int | None], now_us: int) -> bool:
    """A component is ready as far as it goes: if the others are, all may start, with the lowest of their ranks. True when
    a limit holds them back together, which is then the reason of all."""
    given = {job.job_id: ranks}
    members = [member for member in het.members(state, job) if member.state not in END_STATES]
    _leave_limits(state, members[0])
    for member in members:
        if member.state is not JobState.PENDING or not state.pending.rows_of(member.job_id):
            return _wait(state, job)
        if member is not job:
            if not member.eligible_at_us or _obstacle(state, member, now_us) is not None:
                return _wait(state, job)
            given[member.job_id] = _ranks(state, member, None)
    known = [rank for ranks in given.values() for rank in ranks]
    lowest = min((rank for rank in known if rank is not None), default=None)
    if None in known or lowest is None:
        return _wait(state, job)
    block = next(limits.look_together(state, members), None) if state.ledger is not None else None
    if block is not None:
        wait_for_limit(state, job, block)
        return True
    for member in members:
        state.pending.set_ready(member.job_id, [lowest], 1, member.eligible_at_us // US)
        if member.reason not in PLANNER_REASONS:
            set_reason(state, member, Reason.PRIORITY)
    return False


def _only_waits(state: ClusterState, job: Job) -> bool:
    """No pass is due for it: the last of the queue, it asks for more cpus than are free in all, and a planned start for it
    is not wanted (PenstockBackfillEstimate). Who joins behind all others enables nobody.
    """
    if state.policy.estimate or job.request.het_job_id:
        return False
    job_id, row = state.pending.last_ready()
    if job_id != job.job_id or state.pending.table.preempts[row]:
        return False
    return job.request.ntasks * job.request.cpus_per_task > int(np.add.reduce(state.node_columns.free_cpus))


def _await_switches(state: ClusterState, job: Job) -> None:
    if job.eligible_at_us:
        state.timers.set(switch_wait_ends_us(state, job), Timer.SWITCH_WAIT, job.job_id)


def switch_wait_ends_us(state: ClusterState, job: Job) -> int:
    """Until when the job waits for as few switches as it asks for; 0 = its time has not begun (sbatch(1), --switches)."""
    most = state.policy.switch_wait_s
    wait_s = min(job.request.switches_wait_s or most, most)
    return job.eligible_at_us + wait_s * US if job.eligible_at_us else 0


def set_reason(state: ClusterState, job: Job, reason: Reason, detail: str | None = None) -> None:
    """Say why the job waits; nothing is written when it is what it was."""
    if job.reason is not reason or (detail is not None and job.reason_detail != detail):
        job.reason = reason
        if detail is not None:
            job.reason_detail = detail
        state.touch_words(job)


def terms_of(state: ClusterState, job: Job) -> Terms:
    """The job's own side of its rows."""
    limit_s = _limit_s(job)
    leader = het.members(state, job)[0] if job.request.het_offset else job  # alike, so that they stay together
    return Terms(
        state.user_number(job.user_id),
        limit_s,
        min(limit_s, least_s(job) or limit_s),
        latest_s=latest_start_s(job),
        het=job.request.het_job_id,
        assoc=state.assoc_number(job),
        expected_s=predict.expected_s(state, leader, limit_s if leader is job else _limit_s(leader)),
        reserve=standing.reserves(state, job),
    )


def _limit_s(job: Job) -> int:
    return UNLIMITED_S if job.time_limit_s < 0 else job.time_limit_s


def latest_start_s(job: Job) -> int:
    """With --deadline: when it must have started to end in time. A job without a limit must only begin before it."""
    request = job.request
    if not request.deadline_at_us:
        return NO_DEADLINE
    return request.deadline_at_us // US - (request.time_min_s or max(0, job.time_limit_s))


def most_s(request: JobRequest, now_us: int) -> int:
    """How long it may run that starts now and has to end before its --deadline."""
    return max(1, (request.deadline_at_us - now_us) // US) if request.deadline_at_us else UNLIMITED_S
