# Part of plan.pyx: rule 8, heterogeneous jobs.

cdef int fit_all(Pass* p, Job* jobs, int32_t n, int64_t at_s) except -1 nogil:
    """Each after the one before it; 1 if all fit: their picks are kept. Takes nothing."""
    cdef int32_t a, fits = 1
    p.saving = True
    p.learn = False
    p.measure = PLANNED
    for a in range(n):
        if not (jobs[a].first_s <= at_s <= jobs[a].last_s and fits_at(p, jobs + a, at_s)):
            fits = 0
            break
        jobs[a].picks = p.picks
        memcpy(jobs[a].pick_rank, p.pick_rank, 4 * <size_t> p.picks)
        memcpy(jobs[a].pick_tasks, p.pick_tasks, 4 * <size_t> p.picks)
        take_all(p, jobs + a, at_s, at_s + jobs[a].length_s)
    p.saving = False
    p.learn = True
    restore(p)
    return fits


cdef void picks_of(Pass* p, const Job* job) noexcept nogil:
    p.picks = job.picks
    memcpy(p.pick_rank, job.pick_rank, 4 * <size_t> job.picks)
    memcpy(p.pick_tasks, job.pick_tasks, 4 * <size_t> job.picks)


cdef int64_t when_all(Pass* p, Job* jobs, int32_t n, int64_t from_s) except -1 nogil:
    """The first time at which all can start; NEVER if there is none."""
    cdef int64_t at_s = from_s, next_s, last_s = NEVER
    cdef int32_t a
    for a in range(n):
        at_s = greater(at_s, jobs[a].first_s)
        last_s = lesser(last_s, jobs[a].last_s)
    while at_s <= last_s:
        if fit_all(p, jobs, n, at_s):
            return at_s
        next_s = NEVER
        for a in range(n):
            next_s = lesser(next_s, next_end(p, jobs + a, at_s))
            if jobs[a].first_s > at_s:
                next_s = lesser(next_s, jobs[a].first_s)
        at_s = next_s
    return NEVER


cdef int start_all(Pass* p, Job* jobs, int32_t n, int64_t first) except -1 nogil:
    """Place all, then grant the limits in order. 0: the pass ends here."""
    cdef int32_t a
    cdef int64_t limit_s, placements = 0
    for a in range(n):
        placements += jobs[a].picks
    if p.starts + n > p.starts_max or p.placements + placements > p.placements_max:
        return 0
    for a in range(n):
        picks_of(p, jobs + a)
        take_all(p, jobs + a, p.now_s, p.now_s + jobs[a].length_s)
    for a in range(n):
        picks_of(p, jobs + a)
        limit_s = granted_s(p, jobs + a)
        take_all(p, jobs + a, p.now_s + jobs[a].length_s, p.now_s + limit_s)
        write_start(p, jobs + a, first + a, limit_s)
        decide(p, jobs + a, first + a, STARTED)
        seen(p, p.c.job[jobs[a].row])[2] += 1
    return 1


cdef int heterogeneous(Pass* p, Job* jobs, int32_t n, int64_t first) except -1 nogil:
    """0: the pass ends here."""
    cdef int32_t a
    cdef int64_t* known
    cdef int64_t start_s = NEVER, placements = 0
    cdef bint again = False, able = True, hold = may_hold(p), sane = True, tested = True, planned
    cdef uint8_t* reasons = <uint8_t*> room_for(p, n)
    for a in range(n):
        known = seen(p, p.c.job[jobs[a].row])
        again = again or known[1]
        if (known[1] and known[2]) or p.c.count[jobs[a].row] < 1:
            tested = False
        sane = sane and jobs[a].sane
        hold = hold and jobs[a].reserve
        jobs[a].pick_rank = <int32_t*> room_for(p, 4 * (<size_t> p.N + 1))
        jobs[a].pick_tasks = <int32_t*> room_for(p, 4 * (<size_t> p.N + 1))
    for a in range(n):
        known = seen(p, p.c.job[jobs[a].row])
        if not known[1]:
            known[2] = 0
        known[1] = 1
    if not tested:
        return 1
    if sane and fit_all(p, jobs, n, p.now_s):
        return start_all(p, jobs, n, first)
    for a in range(n):
        reasons[a] = reason_of(p, jobs + a)
        able = able and not hopeless(reasons[a])
    planned = able and not again and (hold or p.estimate)
    if planned:
        start_s = when_all(p, jobs, n, p.now_s)
        for a in range(n):
            placements += jobs[a].picks
            if start_s == NEVER and jobs[a].late:
                reasons[a] = DEADLINE
    for a in range(n):
        decide(p, jobs + a, first + a, reasons[a])
    if start_s == NEVER:
        return 1
    if plan_is_full(p, placements):
        for a in range(n):
            p.reason[first + a] = NOT_TESTED
        return 0
    p.holding += hold
    for a in range(n):
        picks_of(p, jobs + a)
        write_plan(p, first + a, start_s)
        if hold:
            take_all(p, jobs + a, start_s, start_s + jobs[a].length_s)
    return 1
