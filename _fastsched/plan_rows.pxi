# Part of plan.pyx: rules 6, 7, 8 and 10: what is done with a row, and with rows that belong together.

cdef const uint64_t* ranks_of(Pass* p, int32_t mask) except NULL nogil:
    """A set of nodes by rank."""
    cdef const uint64_t* words = p.c.masks + <int64_t> mask * p.words
    cdef uint64_t* made
    cdef uint64_t bits
    cdef int32_t word, rank
    if p.rank_mask[mask] == NULL:
        made = <uint64_t*> zeros(p, 8 * (<size_t> p.words + 1))
        for word in range(p.words):
            bits = words[word]
            if (word << 6) + 64 > p.N:
                bits &= (<uint64_t> 1 << (p.N & 63)) - 1 if p.N & 63 else bits
            if p.identity:
                made[word] = bits
                continue
            while bits:
                rank = p.rank_of[(word << 6) + count_zeros(bits)]
                bits &= bits - 1
                put(made, rank)
        p.rank_mask[mask] = made
    return p.rank_mask[mask]


cdef int load_group_masks(Pass* p, const Job* job) except -1 nogil:
    cdef int32_t entry
    if job.group >= 0:
        for entry in range(p.c.group_first[job.group], p.c.group_first[job.group + 1]):
            ranks_of(p, p.c.group_mask[entry])
    return 0


cdef const int32_t* wanted(Pass* p, const int32_t* asked, int32_t kinds, bint* any) except NULL nogil:
    """The same counts, but "any number will do" where nothing is asked; a shared list where nothing is asked at all."""
    cdef int32_t kind
    cdef int32_t* made
    any[0] = False
    for kind in range(kinds):
        if asked[kind]:
            any[0] = True
    if not any[0]:
        return p.none_wanted
    made = <int32_t*> room_for(p, 4 * <size_t> kinds)
    for kind in range(kinds):
        made[kind] = asked[kind] if asked[kind] else INT32_MIN
    return made


cdef bint makes_sense(const Pass* p, const Job* job, int64_t row) noexcept nogil:
    cdef int32_t kind
    for kind in range(p.G):
        if job.gres[kind] < 0:
            return False
    for kind in range(p.L):
        if p.c.licenses[row * p.L + kind] < 0:
            return False
    return (
        1 <= job.nodes_min <= job.nodes_max
        and job.nodes_min <= job.ntasks
        and job.cpus_per_task >= 1
        and job.cpu_units >= 1
        and p.c.ntasks_per_node[row] >= 0
        and 1 <= job.length_s <= job.limit_s <= FOREVER
        and job.exclusive <= 2
        and job.order_kind <= 2
        and job.switches_max >= 0
        and job.segment >= 0
        and (job.segment == 0 or (job.nodes_min % job.segment == 0 and job.group < 0))
    )


cdef int load(Pass* p, Job* job, int64_t row) except -1 nogil:
    """Gather one row."""
    cdef const Columns* c = &p.c
    cdef int32_t resv = c.resv[row], word
    cdef int64_t least, latest_s
    cdef uint64_t* mask
    cdef const uint64_t* inside
    cdef bint any
    memset(job, 0, sizeof(Job))
    job.generation = -1
    job.row = row
    job.nodes_min = c.nodes_min[row]
    job.nodes_max = c.nodes_max[row]
    job.ntasks = c.ntasks[row]
    job.cpus_per_task = c.cpus_per_task[row]
    job.mem_node_mb = greater(c.mem_node_mb[row], -1)
    job.mem_cpu_mb = greater(c.mem_cpu_mb[row], -1)
    job.gres = c.gres + row * p.G
    job.exclusive = c.exclusive[row]
    job.user = c.user[row]
    job.cpu_units = c.cpu_units[row]
    job.order_kind = c.order_kind[row]
    job.group = c.group[row]
    job.segment = c.segment[row]
    job.switches_max = c.switches_max[row]
    job.spread = c.spread[row] != 0
    job.reserve = c.reserve[row] != 0
    job.limit_s = c.limit_s[row]
    job.length_s = c.limit_min_s[row]
    job.preempts = c.preempts[row]
    job.view = resv
    job.mask = ranks_of(p, c.mask[row])
    job.resv_to_s = NEVER
    job.first_s = p.now_s
    job.last_s = p.last_s
    if resv >= 0 and not c.resv_flex[resv]:
        inside = ranks_of(p, c.resv_mask[resv])
        mask = <uint64_t*> room_for(p, 8 * (<size_t> p.words + 1))
        for word in range(p.words):
            mask[word] = job.mask[word] & inside[word]
        job.mask = mask
        job.not_begun = c.resv_from_s[resv] > p.now_s
        job.first_s = greater(job.first_s, c.resv_from_s[resv])
        job.resv_to_s = lesser(c.resv_to_s[resv], NEVER)
    job.sane = makes_sense(p, job, row)
    if not job.sane:
        return 0
    job.nodes_max = min(job.nodes_max, job.ntasks)
    if job.segment > 0:
        job.nodes_max = job.nodes_min
    job.most = job.ntasks - job.nodes_min + 1
    if 0 < c.ntasks_per_node[row] < job.most:
        job.most = c.ntasks_per_node[row]
    job.least = job.ntasks if job.nodes_max == 1 else 1
    # If all others of the largest set held `most`, this one would still have to hold the rest.
    least = job.ntasks - <int64_t> (job.nodes_max - 1) * job.most
    job.floor = <int32_t> greater(job.least, least) if least <= INT32_MAX else INT32_MAX
    job.never = job.floor > job.most
    job.topology = p.S > 0 and job.nodes_max > 1
    job.odd = job.group >= 0 or (job.topology and (job.segment > 0 or job.switches_max > 0))
    job.wanted = wanted(p, job.gres, p.G, &any)
    job.licenses_wanted = wanted(p, c.licenses + row * p.L, p.L, &any)
    job.licenses = c.licenses + row * p.L if any else NULL
    job.first_s = greater(job.first_s, c.earliest_s[row])
    if job.first_s > p.now_s:
        job.first_s = rounded(p, lesser(job.first_s, NEVER))
    latest_s = c.latest_s[row]
    job.late = latest_s < lesser(p.window_end_s, FOREVER)
    job.last_s = lesser(lesser(job.last_s, latest_s), job.resv_to_s - job.length_s)
    return 0


# -- what a job takes


cdef int take_pick(Pass* p, const Job* job, int32_t rank, int32_t tasks, int64_t from_s, int64_t to_s) except -1 nogil:
    cdef Need need
    need_of(job, p.node + rank, tasks, &need)
    need.mem_mb = greater(need.mem_mb, 0)
    need.gres = job.gres
    return take_node(p, rank, &need, from_s, to_s, job.view)


cdef int take_all(Pass* p, const Job* job, int64_t from_s, int64_t to_s) except -1 nogil:
    """The picks, and the licenses, for an interval."""
    cdef Need need
    cdef int32_t i
    for i in range(p.picks):
        take_pick(p, job, p.pick_rank[i], p.pick_tasks[i], from_s, to_s)
    if job.licenses != NULL:
        need = Need(mem_mb=0, cpus=0, user=0, exclusive=0, gres=job.licenses)
        take_node(p, p.N, &need, from_s, to_s, job.view)
    return 0


cdef int64_t granted_s(Pass* p, const Job* job) except -1 nogil:
    """Rule 4: how long the picks may be kept from now on, beyond length_s."""
    cdef int64_t from_s = p.now_s + job.length_s, to_s = lesser(p.now_s + job.limit_s, job.resv_to_s)
    cdef Need need
    cdef int32_t i
    if job.licenses != NULL and to_s > from_s:
        license_need(p, job, &need)
        to_s = clear_until(line_of(p, p.N, job.view), &need, from_s, to_s)
    for i in range(p.picks):
        if to_s <= from_s:
            break
        need_of(job, p.node + p.pick_rank[i], p.pick_tasks[i], &need)
        to_s = clear_until(line_of(p, p.pick_rank[i], job.view), &need, from_s, to_s)
    return greater(to_s, from_s) - p.now_s


cdef int write_start(Pass* p, const Job* job, int64_t position, int64_t limit_s) except -1 nogil:
    cdef int32_t i, tasks
    cdef int64_t k
    cdef Node* node
    for i in range(p.picks):
        node = p.node + p.pick_rank[i]
        tasks = p.pick_tasks[i]
        k = rounded_cpus(node, <int64_t> tasks * job.cpus_per_task)
        add_i32(p, &p.out_node, node.index)
        add_i32(p, &p.out_cpus, <int32_t> (node.total_cpus // job.cpu_units if job.exclusive == 1 else k))
        add_i32(p, &p.out_tasks, tasks)
        add_i64(p, &p.out_mem, mem_taken(job, node, k))
    p.placements += p.picks
    p.starts += 1
    add_i32(p, &p.out_job, <int32_t> position)
    add_i64(p, &p.out_limit, limit_s)
    add_i32(p, &p.out_first, <int32_t> p.placements)
    return 0


cdef bint plan_is_full(const Pass* p, int64_t more) noexcept nogil:
    return p.out_plan_node.used // 4 + more > p.placements_max


cdef int write_plan(Pass* p, int64_t position, int64_t start_s) except -1 nogil:
    """The planned nodes of a position: the picks."""
    cdef int32_t i
    p.start_s[position] = start_s
    p.plan_count[position] = p.picks
    for i in range(p.picks):
        add_i32(p, &p.out_plan_node, p.node[p.pick_rank[i]].index)
    return 0


# -- rule 10


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


# -- rules 6 and 8: alternatives, each with copies


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


# -- rule 8: heterogeneous jobs


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


# -- the pass


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
