"""The life cycle of a reservation: it begins, ends, recurs, is purged; and the effects on jobs.

    waiting -> active -> over -> purged          once
    waiting -> active -> waiting (next time)     recurring

The record's times are those of the present or next occurrence; the state follows from them and from the clock, so a
restart has nothing to repair. A reservation that is over and still has running jobs is kept until the last of them has
ended.

Jobs: one that runs past the end gets ResvOverRun more and then ends as TIMEOUT, unless the reservation is FLEX. A
pending one that requested a deleted reservation loses that request and is held (ReservationDeleted), unless
NO_HOLD_JOBS_AFTER lets it run elsewhere.
"""

from typing import Final

from ctld.core.lifecycle import job_life, requeue_policy
from ctld.core.lifecycle.ready import refresh
from ctld.core.lifecycle.recheck import recheck
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.job import Job
from ctld.core.records.reservation import Reservation, ReservedPart
from ctld.core.reservations import nodes as reserve_nodes
from ctld.core.reservations import recurrence
from ctld.core.reservations.access import is_active, names_asked, running_in
from ctld.core.reservations.view import view_of
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from ctld.core.state.timers import Timer
from penstock.values.reservations import RECURRING, ResvFlag
from penstock.values.states import JobState, Reason

US: Final = 1_000_000


def arm(state: ClusterState, reservation: Reservation, now_us: int) -> None:
    """Sets the timer of the reservation's next transition."""
    if reservation.float_us >= 0:
        return
    due_us = reservation.start_at_us if reservation.start_at_us > now_us else reservation.end_at_us
    state.timers.set(due_us, Timer.RESERVATION, reservation.name)
    idle = not state.reserved.jobs.get(reservation.name)
    if reservation.flags & ResvFlag.PURGE_COMP and idle and is_active(reservation, now_us):
        state.timers.set(max(now_us, _purge_at_us(reservation)), Timer.RESERVATION, reservation.name)


def _purge_at_us(reservation: Reservation) -> int:
    return max(reservation.idle_since_us, reservation.start_at_us) + reservation.purge_comp_s * US


def due(state: ClusterState, now_us: int, name: str) -> None:
    """Handles the timer of a reservation."""
    reservation = state.reservations.get(name)
    if reservation is None or reservation.float_us >= 0:
        return
    idle = not state.reserved.jobs.get(name)
    if now_us >= reservation.end_at_us:
        end_occurrence(state, now_us, reservation)
    elif is_active(reservation, now_us):
        purge = reservation.flags & ResvFlag.PURGE_COMP and idle and now_us >= _purge_at_us(reservation)
        if purge and not any(name in names_asked(job) for job in _pending(state)):
            end_occurrence(state, now_us, reservation)
            return
        if purge:  # a pending job that names it counts as well: check again
            state.timers.set(now_us + max(US, reservation.purge_comp_s * US), Timer.RESERVATION, name)
        else:
            arm(state, reservation, now_us)
        state.reserved.view = None
        state.changed()


def end_occurrence(state: ClusterState, now_us: int, reservation: Reservation) -> None:
    """Ends a reservation permanently, or until it recurs."""
    name = reservation.name
    if reservation.flags & RECURRING:
        offsets, length_us = state.config.utc_offsets, reservation.end_at_us - reservation.start_at_us
        earliest_us = max(now_us - length_us + 1, reservation.start_at_us + 1)
        start_us = next(recurrence.starts(reservation.anchor_at_us, reservation.flags, offsets, earliest_us))
        ended_at_us = min(reservation.end_at_us, now_us)
        following = reservation._replace(
            start_at_us=start_us, end_at_us=start_us + length_us, previous_end_at_us=ended_at_us
        )
        state.put_reservation(following)
        set_overruns(state, following)
        arm(state, following, now_us)
        renew_rows(state, now_us)
        return
    running = state.reserved.jobs.get(name)
    orphan(state, now_us, reservation)
    if running:
        set_overruns(state, reservation)
    else:
        state.drop_reservation(name)
    state.reserved.view = None
    renew_rows(state, now_us)


def set_overruns(state: ClusterState, reservation: Reservation) -> None:
    """Sets the end of the jobs that run in an occurrence that ends, or has ended."""
    over_s = state.config.resv_over_run_s
    if reservation.flags & ResvFlag.FLEX or over_s < 0 or reservation.float_us >= 0:
        return
    for job_id in state.reserved.jobs.get(reservation.name, ()):
        job = state.jobs[job_id]
        before = job.start_at_us < reservation.previous_end_at_us
        end_us = reservation.previous_end_at_us if before else reservation.end_at_us
        state.timers.set(end_us + over_s * US, Timer.RESERVATION_OVERRUN, job_id, job.attempt)


def overrun(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Ends a job whose reservation has ended, after ResvOverRun, if that still applies."""
    job = state.jobs.get(job_id)
    if job is None or job.attempt != attempt or job.state not in (JobState.CONFIGURING, JobState.RUNNING):
        return
    reservation = state.reservations.get(running_in(job))
    if reservation is not None:
        before = job.start_at_us < reservation.previous_end_at_us
        end_us = reservation.previous_end_at_us if before else reservation.end_at_us
        if reservation.flags & ResvFlag.FLEX or now_us < end_us + state.config.resv_over_run_s * US:
            return
    job_life.terminate(state, job, JobState.TIMEOUT, Reason.TIME_LIMIT, now_us, "TIME LIMIT")


def _pending(state: ClusterState) -> list[Job]:
    """The waiting jobs, to be read."""
    return [job for job in state.jobs.records() if job.state is JobState.PENDING]


def orphan(state: ClusterState, now_us: int, reservation: Reservation) -> None:
    """Removes a deleted reservation from the requests of waiting jobs."""
    for job in [state.jobs.own(job) for job in _pending(state) if reservation.name in names_asked(job)]:
        hold = not reservation.flags & ResvFlag.NO_HOLD_JOBS_AFTER
        requeue_policy.leave_reservations(state, job, (reservation.name,), now_us, hold)
        state.pending.remove(job.job_id)
        refresh(state, job, now_us)


def renew_rows(state: ClusterState, now_us: int) -> None:
    """Renews the rows of jobs whose columns point into the view, or now could, after its rows have changed."""
    had_magnetic = state.reserved.had_magnetic
    state.reserved.had_magnetic = bool(view_of(state, now_us).magnetic)
    is_magnetic = had_magnetic or state.reserved.had_magnetic
    jobs = [job for job in _pending(state) if is_magnetic or job.request.reservation]
    recheck(state, jobs, now_us)


def give_request(state: ClusterState, job: Job, **changes: str) -> None:
    """Changes the reservations that a job requests; the record is shared, so the job gets a copy."""
    request = with_changes(job.request, **changes)
    if request != job.request:
        state.replace_request(job, request)
        state.touch(job)


def enter(state: ClusterState, job: Job, name: str) -> None:
    """Records that the job starts in that reservation ("" = in none); call before it gets its nodes."""
    job_says = job.request.reservation
    give_request(state, job, reservation_run="" if name == job_says else name)


def recover_all(state: ClusterState, now_us: int) -> None:
    """Sets the timers of all reservations after a start. Transitions that became due meanwhile are done at the next
    step."""
    state.reserved.had_magnetic = bool(view_of(state, now_us).magnetic) if state.reservations else False
    for reservation in state.reservations.values():
        arm(state, reservation, now_us)
        set_overruns(state, reservation)


def replace_nodes(state: ClusterState, now_us: int) -> None:
    """Replaces nodes that are down or drained in reservations whose nodes were chosen automatically.

    REPLACE also replaces those that its jobs hold, so that as many as were requested are idle. If too few are
    available, the rest is kept; the next change of a node tries again.
    """
    state.reserved.nodes_due = False
    for reservation in list(state.reservations.values()):
        if reservation.flags & ResvFlag.PART_NODES:
            _follow_partition(state, reservation)
            continue
        fixed = reservation.flags & (ResvFlag.SPEC_NODES | ResvFlag.STATIC_ALLOC | ResvFlag.ANY_NODES | ResvFlag.MAINT)
        if fixed or not reservation.parts or now_us >= reservation.end_at_us:
            continue
        whole_partition = not (reservation.ask.node_count or reservation.ask.cpus or reservation.ask.gres)
        if whole_partition and not reservation.ask.gres_per_node:
            continue
        lost = [part for part in reservation.parts if _is_lost(state, reservation, part.node)]
        if lost:
            _choose_others(state, now_us, reservation, tuple(part.node for part in lost))


def _follow_partition(state: ClusterState, reservation: Reservation) -> None:
    """Updates a PART_NODES reservation to all nodes of the partition after a reload of the configuration."""
    partition = state.partitions.get(reservation.ask.partition)
    nodes = partition.config.nodes if partition is not None else ()
    parts = tuple(ReservedPart(node.name, reserve_nodes.WHOLE, 0, ()) for node in state.node_list if node.name in nodes)
    if parts and parts != reservation.parts:
        state.put_reservation(reservation._replace(parts=parts))


def _is_lost(state: ClusterState, reservation: Reservation, name: str) -> bool:
    node = state.nodes.get(name)
    if node is None or node.flags & CLOSED_FLAGS:
        return True
    return bool(reservation.flags & ResvFlag.REPLACE and node.jobs)


def _choose_others(state: ClusterState, now_us: int, reservation: Reservation, lost: tuple[str, ...]) -> None:
    """Replaces lost nodes where others may be chosen."""
    try:
        parts = _others(state, now_us, reservation, lost)
    except Refused:
        return
    if parts != reservation.parts:
        state.put_reservation(reservation._replace(parts=parts))


def _others(
    state: ClusterState, now_us: int, reservation: Reservation, lost: tuple[str, ...]
) -> tuple[ReservedPart, ...]:
    """Returns its parts: whole nodes are replaced one by one, parts of nodes are chosen again. Raises Refused."""
    spans = reserve_nodes.spans_of(state, reservation, now_us)
    ask = reservation.ask
    flags = reservation.flags
    name = reservation.name
    if ask.cpus or ask.gres or ask.gres_per_node:
        return reserve_nodes.choose(state, now_us, ask, flags, spans, name)
    have = [part.node for part in reservation.parts]
    fresh = [n for n in reserve_nodes.replacements(state, now_us, ask, flags, spans, name) if n not in have][
        : len(lost)
    ]
    gone = lost[: len(fresh)]
    kept = [part for part in reservation.parts if part.node not in gone]
    return (*kept, *(ReservedPart(node, reserve_nodes.WHOLE, 0, ()) for node in fresh))
