"""The course of a pass: rules 6, 7 and 8. Rows that belong together are handled together: alternatives of one job here,
components of a heterogeneous job in heterogeneous.pyx.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from _fastsched.planner.assign cimport granted_limit_s, plan_is_full, take_picks, write_planned_start, write_start
from _fastsched.planner.basics cimport DEADLINE, NEVER, PREEMPTING, STARTED, greater, lesser
from _fastsched.planner.earliest cimport earliest_start
from _fastsched.planner.heterogeneous cimport plan_heterogeneous
from _fastsched.planner.load cimport load_row
from _fastsched.planner.memory cimport allocate
from _fastsched.planner.outcome cimport is_hopeless, may_reserve, record_reason, seen_job, waiting_reason
from _fastsched.planner.preempt cimport preempt
from _fastsched.planner.records cimport PendingJob, SeenJob, copy_picks

cdef enum:
    FEW_ROWS = 32  # alternatives up to this number need no memory of the pass


cdef struct Alternatives:  # adjacent rows of one job
    PendingJob* jobs
    int32_t rows
    int64_t first  # position of the first
    int64_t copies_left
    bint may_reserve
    uint8_t* started  # by row: whether a copy has started here
    uint8_t* reasons


cdef bint start_copies(PlanPass* plan, Alternatives* given) except -1 nogil:
    """Starts what can start now. False: the pass ends here."""
    cdef int64_t now_s = plan.limits.now_s, limit_s
    cdef PendingJob* job
    cdef int32_t index
    memset(given.started, 0, given.rows)
    while given.copies_left > 0:
        if plan.progress.starts >= plan.limits.starts_max:
            return False
        for index in range(given.rows):
            job = given.jobs + index
            if job.makes_sense and job.first_s <= now_s <= job.last_s:
                if earliest_start(plan, job, now_s, now_s) == now_s:
                    break
        else:
            return True
        if plan.progress.placements + plan.picks.count > plan.limits.placements_max:
            return False
        limit_s = granted_limit_s(plan, job)
        take_picks(plan, job, now_s, now_s + limit_s)
        write_start(plan, job, given.first + index, limit_s)
        given.started[index] = 1
        given.copies_left -= 1
    return True


cdef int32_t earliest_alternative(
    PlanPass* plan, Alternatives* given, int64_t from_s, bint first_copy, int64_t* best_s
) except -2 nogil:
    """Returns the alternative that can start first, with its start and picks. -1: none."""
    cdef int32_t index, winner = -1
    cdef int64_t limit_s, found_s
    cdef bint full
    cdef PendingJob* job
    best_s[0] = NEVER
    for index in range(given.rows):
        job = given.jobs + index
        if is_hopeless(given.reasons[index]) or not ((job.reserve and given.may_reserve) or plan.limits.estimate):
            continue
        # Whether there is any start matters only for the reason DEADLINE.
        full = job.deadline_in_window and first_copy
        limit_s = job.last_s if full else lesser(job.last_s, best_s[0] - 1)
        found_s = earliest_start(plan, job, greater(from_s, job.first_s), limit_s)
        if found_s == NEVER:
            if full:
                given.reasons[index] = DEADLINE
        elif found_s < best_s[0]:
            best_s[0] = found_s
            winner = index
            if given.rows > 1:
                copy_picks(&plan.kept_picks, &plan.picks)
    if winner >= 0 and given.rows > 1:
        copy_picks(&plan.picks, &plan.kept_picks)
    return winner


cdef bint plan_copies(PlanPass* plan, Alternatives* given) except -1 nogil:
    """Plans the waiting copies by rules 6 and 7. False: the pass ends here."""
    cdef int64_t copy, from_s = plan.limits.now_s, best_s
    cdef int32_t winner
    given.may_reserve = may_reserve(plan)
    for copy in range(min(given.copies_left, plan.limits.copies_max)):
        winner = earliest_alternative(plan, given, from_s, copy == 0, &best_s)
        if winner < 0:
            return True
        if copy == 0:
            if plan_is_full(plan, plan.picks.count):
                return False
            write_planned_start(plan, given.first + winner, best_s)
        if not (given.jobs[winner].reserve and given.may_reserve):
            return True
        take_picks(plan, given.jobs + winner, best_s, best_s + given.jobs[winner].length_s)
        plan.progress.reserving += copy == 0
        from_s = best_s
    return True


cdef bint preempt_or_plan(PlanPass* plan, Alternatives* given, SeenJob* seen) except -1 nogil:
    """Preempts for the first alternative that can; else plans the copies. False: the pass ends here."""
    cdef int64_t now_s = plan.limits.now_s
    cdef int32_t index
    cdef PendingJob* job
    for index in range(given.rows):
        job = given.jobs + index
        if job.preempts and not is_hopeless(given.reasons[index]) and preempt(plan, job, given.first + index):
            if plan_is_full(plan, plan.picks.count):
                return False
            write_planned_start(plan, given.first + index, now_s)
            take_picks(plan, job, now_s, now_s + job.length_s)
            plan.progress.reserving += 1
            seen.copies_started = -1
            given.reasons[index] = PREEMPTING
            return True
    return plan_copies(plan, given)


cdef bint plan_alternatives(PlanPass* plan, PendingJob* jobs, int32_t rows, int64_t first) except -1 nogil:
    """Applies rule 8 to rows of one job, and to a single row. False: the pass ends here."""
    cdef SeenJob* seen = seen_job(plan, plan.input.jobs.job[jobs[0].row])
    cdef bint again = seen.known
    cdef int64_t copies = plan.input.jobs.count[jobs[0].row]
    cdef uint8_t[2 * FEW_ROWS] few
    cdef Alternatives given
    cdef int32_t index
    seen.known = 1
    if not again:
        seen.copies_started = 0
    if seen.copies_started < 0 or copies <= seen.copies_started:
        return True
    given.jobs = jobs
    given.rows = rows
    given.first = first
    given.copies_left = copies - seen.copies_started
    given.started = &few[0] if rows <= FEW_ROWS else <uint8_t*> allocate(&plan.arena, 2 * <size_t> rows)
    given.reasons = given.started + rows
    if not start_copies(plan, &given):
        return False
    seen.copies_started = copies - given.copies_left
    if given.copies_left == 0:
        for index in range(rows):
            if given.started[index]:
                record_reason(plan, jobs + index, first + index, STARTED)
        return True
    for index in range(rows):
        given.reasons[index] = waiting_reason(plan, jobs + index)
    if not again and not preempt_or_plan(plan, &given, seen):
        return False
    for index in range(rows):
        record_reason(plan, jobs + index, first + index, given.reasons[index])
    return True


cdef int64_t end_of_unit(const PlanPass* plan, int64_t first) noexcept nogil:
    """Returns the end of the rows that belong together from this position on."""
    cdef const int64_t* rows = plan.input.rows
    cdef int32_t het = plan.input.jobs.het[rows[first]], other_het
    cdef int64_t end = first + 1
    while end < plan.counts.rows:
        other_het = plan.input.jobs.het[rows[end]]
        if het > 0:
            if other_het != het:
                break
        elif other_het > 0 or plan.input.jobs.job[rows[end]] != plan.input.jobs.job[rows[first]]:
            break
        end += 1
    return end


cdef int run_pass(PlanPass* plan) except -1 nogil:
    """Handles all rows, until the pass ends by rule 10."""
    cdef int64_t first = 0, end, position
    cdef PendingJob single
    cdef PendingJob* jobs
    cdef bint going_on = True
    while going_on and first < plan.counts.rows:
        end = end_of_unit(plan, first)
        if end > plan.limits.rows_max or plan.input.stop[0] or plan.progress.starts >= plan.limits.starts_max:
            break
        jobs = &single
        if end > first + 1:
            jobs = <PendingJob*> allocate(&plan.arena, (end - first) * sizeof(PendingJob))
        for position in range(first, end):
            load_row(plan, jobs + (position - first), plan.input.rows[position])
        if plan.input.jobs.het[plan.input.rows[first]] > 0:
            going_on = plan_heterogeneous(plan, jobs, <int32_t> (end - first), first)
        else:
            going_on = plan_alternatives(plan, jobs, <int32_t> (end - first), first)
        first = end
    return 0
