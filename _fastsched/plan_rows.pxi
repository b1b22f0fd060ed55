# Part of plan.pyx: rules 6, 7, 8 and 10: what is done with a row, and with alternatives; the pass.

cdef bint could_now(Pass* p, Job* job, bint licenses, Measure measure) except -1 nogil:
    """Would it start now, if licenses, or blocks, were no obstacle?"""
    cdef bint found
    if licenses and licenses_from(p, job, p.now_s, p.now_s, NO_BLOCKS) > p.now_s:
        return False
    p.measure = measure
    found = choose(p, job, p.now_s, True)
    p.measure = PLANNED
    return found


cdef bint fits_empty(Pass* p, Job* job, bint need_up) except -1 nogil:
    cdef bint found
    p.measure = EMPTY
    found = choose(p, job, p.now_s, need_up)
    p.measure = PLANNED
    return found


cdef uint8_t reason_of(Pass* p, Job* job) except? 255 nogil:
    """Rule 10 for a row that cannot start now; PREEMPTING and DEADLINE of a planned one are the caller's."""
    cdef int32_t word
    cdef bint allowed
    cdef int64_t latest_s = p.c.latest_s[job.row]
    if not job.sane or not fits_empty(p, job, False):
        return BAD_CONSTRAINTS
    if not p.all_up and not fits_empty(p, job, True):
        return NODES_DOWN
    if latest_s < p.now_s or latest_s < p.c.earliest_s[job.row]:
        return DEADLINE
    allowed = job.first_s <= p.now_s <= job.last_s
    if allowed and p.c.het[job.row] > 0 and fits_at(p, job, p.now_s):
        allowed = False  # alone it could start now
    if allowed and job.licenses != NULL and could_now(p, job, False, PLANNED):
        return LICENSES
    if job.not_begun or (allowed and (p.B or p.F) and could_now(p, job, True, WITHOUT_BLOCKS)):
        return RESERVED
    for word in range(p.words):
        if job.mask[word] & p.up[word] & ~p.waited[word]:
            return RESOURCES
    return PRIORITY


cdef inline bint hopeless(uint8_t reason) noexcept nogil:
    return reason == BAD_CONSTRAINTS or reason == NODES_DOWN


cdef void decide(Pass* p, const Job* job, int64_t position, uint8_t reason) noexcept nogil:
    cdef int32_t word
    p.reason[position] = reason
    if reason == STARTED:
        p.start_s[position] = p.now_s
    elif reason >= LICENSES and reason <= PREEMPTING or reason == RESOURCES or reason == PRIORITY:
        for word in range(p.words):
            p.waited[word] |= job.mask[word]


cdef inline bint may_hold(const Pass* p) noexcept nogil:
    return p.reserve_max < 0 or p.holding < p.reserve_max


cdef inline int64_t* seen(Pass* p, int64_t job) noexcept nogil:
    """Where the table of jobs has this one: (number, used, copies started or -1 = it preempts)."""
    cdef uint64_t at = mixed(0, <uint64_t> job) & <uint64_t> p.seen_mask
    while p.seen[3 * at + 1] and p.seen[3 * at] != job:
        at = (at + 1) & <uint64_t> p.seen_mask
    p.seen[3 * at] = job
    return p.seen + 3 * at


cdef int start_copies(Pass* p, Job* jobs, int32_t n, int64_t first, int64_t* left, uint8_t* here) except -1 nogil:
    """Start what can start now. -1 is an error, 0: the pass ends here."""
    cdef int32_t a
    cdef int64_t limit_s
    memset(here, 0, n)
    while left[0] > 0:
        if p.starts >= p.starts_max:
            return 0
        for a in range(n):
            if jobs[a].sane and jobs[a].first_s <= p.now_s <= jobs[a].last_s:
                if when(p, jobs + a, p.now_s, p.now_s) == p.now_s:
                    break
        else:
            return 1
        if p.placements + p.picks > p.placements_max:
            return 0
        limit_s = granted_s(p, jobs + a)
        take_all(p, jobs + a, p.now_s, p.now_s + limit_s)
        write_start(p, jobs + a, first + a, limit_s)
        here[a] = 1
        left[0] -= 1
    return 1


cdef int plan_copies(Pass* p, Job* jobs, int32_t n, int64_t first, int64_t left, uint8_t* reasons) except -1 nogil:
    """Rules 6 and 7: plan the copies that wait. 0: the pass ends here."""
    cdef bint hold = may_hold(p), full
    cdef int64_t copy, from_s = p.now_s, best_s, found_s, limit_s
    cdef int32_t a, winner
    for copy in range(min(left, p.copies_max)):
        best_s = NEVER
        winner = -1
        for a in range(n):
            if hopeless(reasons[a]) or not ((jobs[a].reserve and hold) or p.estimate):
                continue
            full = jobs[a].late and copy == 0
            limit_s = jobs[a].last_s if full else lesser(jobs[a].last_s, best_s - 1)
            found_s = when(p, jobs + a, greater(from_s, jobs[a].first_s), limit_s)
            if found_s == NEVER:
                if full:
                    reasons[a] = DEADLINE
            elif found_s < best_s:
                best_s = found_s
                winner = a
                if n > 1:
                    keep_picks(p)
        if winner < 0:
            return 1
        if n > 1:
            kept_picks(p)
        if copy == 0:
            if plan_is_full(p, p.picks):
                return 0
            write_plan(p, first + winner, best_s)
        if not (jobs[winner].reserve and hold):
            return 1
        take_all(p, jobs + winner, best_s, best_s + jobs[winner].length_s)
        p.holding += copy == 0
        from_s = best_s
    return 1


cdef void keep_picks(Pass* p) noexcept nogil:
    memcpy(p.kept_rank, p.pick_rank, 4 * <size_t> p.picks)
    memcpy(p.kept_tasks, p.pick_tasks, 4 * <size_t> p.picks)
    p.kept = p.picks


cdef void kept_picks(Pass* p) noexcept nogil:
    memcpy(p.pick_rank, p.kept_rank, 4 * <size_t> p.kept)
    memcpy(p.pick_tasks, p.kept_tasks, 4 * <size_t> p.kept)
    p.picks = p.kept


cdef int alternatives(Pass* p, Job* jobs, int32_t n, int64_t first) except -1 nogil:
    """0: the pass ends here."""
    cdef int64_t* known = seen(p, p.c.job[jobs[0].row])
    cdef bint again = known[1]
    cdef int64_t count = p.c.count[jobs[0].row], left, before
    cdef uint8_t* here
    cdef uint8_t* reasons
    cdef uint8_t small[64]
    cdef int32_t a
    known[1] = 1
    if not again:
        known[2] = 0
    if known[2] < 0 or count - known[2] <= 0:
        return 1
    before = left = count - known[2]
    here = &small[0]
    if n > 32:
        here = <uint8_t*> room_for(p, 2 * <size_t> n)
    reasons = here + n
    if not start_copies(p, jobs, n, first, &left, here):
        return 0
    known[2] += before - left
    if left == 0:
        for a in range(n):
            if here[a]:
                decide(p, jobs + a, first + a, STARTED)
        return 1
    for a in range(n):
        reasons[a] = reason_of(p, jobs + a)
    if not again:
        for a in range(n):
            if jobs[a].preempts and not hopeless(reasons[a]) and preempt(p, jobs + a, first + a):
                if plan_is_full(p, p.picks):
                    return 0
                write_plan(p, first + a, p.now_s)
                take_all(p, jobs + a, p.now_s, p.now_s + jobs[a].length_s)
                p.holding += 1
                known[2] = -1
                reasons[a] = PREEMPTING
                break
        else:
            if not plan_copies(p, jobs, n, first, left, reasons):
                return 0
    for a in range(n):
        decide(p, jobs + a, first + a, reasons[a])
    return 1


cdef int64_t unit_end(const Pass* p, int64_t at) noexcept nogil:
    """Rows that belong together: from `at` up to this."""
    cdef const int64_t* rows = p.c.rows
    cdef int32_t het = p.c.het[rows[at]], other
    cdef int64_t end = at + 1
    while end < p.Q:
        other = p.c.het[rows[end]]
        if het > 0:
            if other != het:
                break
        elif other > 0 or p.c.job[rows[end]] != p.c.job[rows[at]]:
            break
        end += 1
    return end


cdef int run_pass(Pass* p) except -1 nogil:
    cdef int64_t at = 0, end, i
    cdef Job one
    cdef Job* jobs
    cdef int going = 1
    while going and at < p.Q:
        end = unit_end(p, at)
        if end > p.rows_max or p.c.stop[0] or p.starts >= p.starts_max:
            break
        jobs = &one if end == at + 1 else <Job*> room_for(p, (end - at) * sizeof(Job))
        for i in range(at, end):
            load(p, jobs + (i - at), p.c.rows[i])
        if p.c.het[p.c.rows[at]] > 0:
            going = heterogeneous(p, jobs, <int32_t> (end - at), at)
        else:
            going = alternatives(p, jobs, <int32_t> (end - at), at)
        at = end
    return 0
