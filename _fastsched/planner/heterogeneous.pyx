"""Rule 8, heterogeneous jobs: all components start at the same time, each taking after the one before it.

Whether all fit at a time is found by trial: the timelines that a trial changes are saved, and restored.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from _fastsched.planner.assign cimport granted_limit_s, plan_is_full, take_picks, write_planned_start, write_start
from _fastsched.planner.basics cimport DEADLINE, NEVER, NOT_TESTED, STARTED, greater, lesser
from _fastsched.planner.earliest cimport fits_at, next_end
from _fastsched.planner.memory cimport allocate
from _fastsched.planner.outcome cimport is_hopeless, may_reserve, record_reason, seen_job, waiting_reason
from _fastsched.planner.records cimport PLANNED, SeenJob, copy_picks
from _fastsched.planner.timeline cimport undo_all


cdef bint all_fit_at(PlanPass* plan, PendingJob* jobs, int32_t components, int64_t at_s) except -1 nogil:
    """Whether all fit, each after the one before it. Keeps their picks; takes nothing."""
    cdef int32_t index
    cdef bint fits = True
    plan.undo.active = True
    plan.basis = PLANNED
    for index in range(components):
        if not (jobs[index].first_s <= at_s <= jobs[index].last_s and fits_at(plan, jobs + index, at_s)):
            fits = False
            break
        copy_picks(&jobs[index].picks, &plan.picks)
        take_picks(plan, jobs + index, at_s, at_s + jobs[index].length_s)
    plan.undo.active = False
    undo_all(&plan.undo)
    return fits


cdef int64_t earliest_start_of_all(
    PlanPass* plan, PendingJob* jobs, int32_t components, int64_t from_s
) except -1 nogil:
    """Returns the first time at which all can start; NEVER if there is none."""
    cdef int64_t at_s = from_s, next_s, last_s = NEVER
    cdef int32_t index
    for index in range(components):
        at_s = greater(at_s, jobs[index].first_s)
        last_s = lesser(last_s, jobs[index].last_s)
    while at_s <= last_s:
        if all_fit_at(plan, jobs, components, at_s):
            return at_s
        next_s = NEVER
        for index in range(components):
            next_s = lesser(next_s, next_end(plan, jobs + index, at_s))
            if jobs[index].first_s > at_s:
                next_s = lesser(next_s, jobs[index].first_s)
        at_s = next_s
    return NEVER


cdef bint start_components(PlanPass* plan, PendingJob* jobs, int32_t components, int64_t first) except -1 nogil:
    """Places all, then grants the limits in order. False: the pass ends here."""
    cdef int32_t index
    cdef int64_t now_s = plan.limits.now_s, limit_s, placements = plan.progress.placements
    for index in range(components):
        placements += jobs[index].picks.count
    if plan.progress.starts + components > plan.limits.starts_max or placements > plan.limits.placements_max:
        return False
    for index in range(components):
        copy_picks(&plan.picks, &jobs[index].picks)
        take_picks(plan, jobs + index, now_s, now_s + jobs[index].length_s)
    for index in range(components):
        copy_picks(&plan.picks, &jobs[index].picks)
        limit_s = granted_limit_s(plan, jobs + index)
        take_picks(plan, jobs + index, now_s + jobs[index].length_s, now_s + limit_s)
        write_start(plan, jobs + index, first + index, limit_s)
        record_reason(plan, jobs + index, first + index, STARTED)
        seen_job(plan, plan.input.jobs.job[jobs[index].row]).copies_started += 1
    return True


cdef bint plan_components(
    PlanPass* plan, PendingJob* jobs, int32_t components, int64_t first, bint may_be_planned, bint reserves
) except -1 nogil:
    """Handles components that cannot start now: their reasons, and the time at which all can. False: the pass ends here."""
    cdef uint8_t* reasons = <uint8_t*> allocate(&plan.arena, components)
    cdef int64_t start_s = NEVER, planned_nodes = 0
    cdef int32_t index
    for index in range(components):
        reasons[index] = waiting_reason(plan, jobs + index)
        may_be_planned = may_be_planned and not is_hopeless(reasons[index])
    if may_be_planned:
        start_s = earliest_start_of_all(plan, jobs, components, plan.limits.now_s)
        for index in range(components):
            planned_nodes += jobs[index].picks.count
            if start_s == NEVER and jobs[index].deadline_in_window:
                reasons[index] = DEADLINE
    for index in range(components):
        record_reason(plan, jobs + index, first + index, reasons[index])
    if start_s == NEVER:
        return True
    if plan_is_full(plan, planned_nodes):
        for index in range(components):
            plan.answer.reason[first + index] = NOT_TESTED
        return False
    plan.progress.reserving += reserves
    for index in range(components):
        copy_picks(&plan.picks, &jobs[index].picks)
        write_planned_start(plan, first + index, start_s)
        if reserves:
            take_picks(plan, jobs + index, start_s, start_s + jobs[index].length_s)
    return True


cdef bint plan_heterogeneous(PlanPass* plan, PendingJob* jobs, int32_t components, int64_t first) except -1 nogil:
    """Starts the components, or plans them. False: the pass ends here."""
    cdef size_t nodes = <size_t> plan.counts.nodes + 1
    cdef int32_t index
    cdef SeenJob* seen
    cdef bint again = False, reserves = may_reserve(plan), make_sense = True, to_be_tested = True
    for index in range(components):
        seen = seen_job(plan, plan.input.jobs.job[jobs[index].row])
        again = again or seen.known
        if (seen.known and seen.copies_started) or plan.input.jobs.count[jobs[index].row] < 1:
            to_be_tested = False
        make_sense = make_sense and jobs[index].makes_sense
        reserves = reserves and jobs[index].reserve
        jobs[index].picks.rank = <int32_t*> allocate(&plan.arena, 4 * nodes)
        jobs[index].picks.tasks = <int32_t*> allocate(&plan.arena, 4 * nodes)
    for index in range(components):
        seen = seen_job(plan, plan.input.jobs.job[jobs[index].row])
        if not seen.known:
            seen.copies_started = 0
        seen.known = 1
    if not to_be_tested:
        return True
    if make_sense and all_fit_at(plan, jobs, components, plan.limits.now_s):
        return start_components(plan, jobs, components, first)
    return plan_components(plan, jobs, components, first, not again and (reserves or plan.limits.estimate), reserves)
