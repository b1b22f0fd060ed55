# Part of plan.pyx: rule 3 the long way: all candidates are known and sorted. Groups, topology, the shortest run.

cdef inline void pick(Pass* p, int32_t used, const Cand* cand) noexcept nogil:
    p.pick_rank[used] = cand.rank
    p.pick_tasks[used] = cand.tasks


cdef int32_t choose_among(Pass* p, const Job* job) except -1 nogil:
    """Rules 3a to 3c for the candidates as they stand; how many are chosen, 0 = no fit."""
    cdef int32_t taken = 0, used, i
    cdef int64_t room = 0
    if job.group >= 0:
        taken = take_groups(p, job)
        if taken < 0 or taken > job.nodes_max:
            return 0
        for i in range(taken):
            room += p.pick_tasks[i]
    if job.segment > 0 and job.topology:
        used = take_segments(p, job)
    else:
        if job.topology:
            limit_to_switch(p, job, taken, room)
            leaves_first(p)
        used = shortest_run(p, job, p.cand, p.cands, taken, room)
    if used and job.topology and job.switches_max > 0 and leaves_of_picks(p, used) > job.switches_max:
        return 0
    return used


cdef int32_t take_groups(Pass* p, const Job* job) except -2 nogil:
    """Rule 3a: pick for each entry of the set; the rest of the candidates stay in place. -1: not enough."""
    cdef int32_t entry, i, left, keep, taken = 0
    cdef const uint64_t* mask
    for entry in range(p.c.group_first[job.group], p.c.group_first[job.group + 1]):
        mask = ranks_of(p, p.c.group_mask[entry])
        left = p.c.group_count[entry]
        for i in range(taken):
            left -= in_set(mask, p.pick_rank[i])
        keep = 0
        for i in range(p.cands):
            if left > 0 and in_set(mask, p.cand[i].rank):
                pick(p, taken, p.cand + i)
                taken += 1
                left -= 1
            else:
                p.cand[keep] = p.cand[i]
                keep += 1
        p.cands = keep
        if left > 0:
            return -1
    return taken


cdef int by_room(const void* a, const void* b) noexcept nogil:
    cdef const Cand* x = <const Cand*> a
    cdef const Cand* y = <const Cand*> b
    if x.tasks != y.tasks:
        return 1 if x.tasks < y.tasks else -1
    return (x.place > y.place) - (x.place < y.place)


cdef int32_t shortest_run(
    Pass* p, const Job* job, const Cand* cand, int32_t cands, int32_t taken, int64_t room
) noexcept nogil:
    """Rule 3c after `taken` nodes with this room; picks are appended to those. 0 = no fit."""
    cdef int32_t used = taken, i
    cdef int64_t start = room
    for i in range(cands):
        if used >= job.nodes_min and room >= job.ntasks:
            break
        if used == job.nodes_max:
            break
        pick(p, used, cand + i)
        used += 1
        room += cand[i].tasks
    if used >= job.nodes_min and room >= job.ntasks:
        while job.spread and used < job.nodes_max and used - taken < cands:
            pick(p, used, cand + (used - taken))
            used += 1
        return used
    if used - taken == cands:
        return 0
    for i in range(cands):
        p.other[i] = cand[i]
        p.other[i].place = i
    qsort(p.other, cands, sizeof(Cand), &by_room)
    used = taken
    room = start
    for i in range(cands):
        if used == job.nodes_max or (used >= job.nodes_min and room >= job.ntasks):
            break
        pick(p, used, p.other + i)
        used += 1
        room += p.other[i].tasks
    if used < job.nodes_min or room < job.ntasks:
        return 0
    while job.spread and used < job.nodes_max and used - taken < cands:
        pick(p, used, p.other + (used - taken))
        used += 1
    return used


cdef inline int32_t switch_of(const Pass* p, int32_t level, int32_t rank) noexcept nogil:
    return p.c.switches[<int64_t> level * p.N + p.node[rank].index]


cdef int count_switches(Pass* p, int32_t level) noexcept nogil:
    cdef int32_t i
    memset(p.switch_count, 0, 4 * (p.N + 1))
    for i in range(p.cands):
        p.switch_count[switch_of(p, level, p.cand[i].rank)] += 1
    return 0


cdef int limit_to_switch(Pass* p, const Job* job, int32_t taken, int64_t room) except -1 nogil:
    """Rule 3b: keep the candidates of the smallest switch of the lowest level that would do."""
    cdef int32_t level, i, best, keep
    cdef Cand* mine = p.other + p.N + 1
    for level in range(p.S):
        count_switches(p, level)
        # By switch: fewest candidates first, then the lowest index; each is asked whether it would do.
        best = -1
        while True:
            best = next_switch(p, best)
            if best < 0:
                break
            keep = 0
            for i in range(p.cands):
                if switch_of(p, level, p.cand[i].rank) == best:
                    mine[keep] = p.cand[i]
                    keep += 1
            if would_do(p, job, mine, keep, taken, room):
                memcpy(p.cand, mine, keep * sizeof(Cand))
                p.cands = keep
                return 0
    return 0


cdef bint would_do(Pass* p, const Job* job, const Cand* cand, int32_t cands, int32_t taken, int64_t room) noexcept nogil:
    """Is there a fit among these? (nodes_max of the largest.)"""
    cdef int32_t i, most = job.nodes_max - taken
    if taken + cands < job.nodes_min:
        return False
    if cands <= most:
        for i in range(cands):
            room += cand[i].tasks
        return room >= job.ntasks
    for i in range(cands):
        p.sorted[i] = -<int64_t> cand[i].tasks
    qsort(p.sorted, cands, sizeof(int64_t), &by_rank)
    for i in range(most):
        room -= p.sorted[i]
    return room >= job.ntasks


cdef int32_t next_switch(const Pass* p, int32_t after) noexcept nogil:
    """The switch that follows in the order (candidates, index), -1 = none; of those with candidates."""
    cdef int32_t i, best = -1, count, low = 0
    if after >= 0:
        low = p.switch_count[after]
    for i in range(p.N):
        count = p.switch_count[i]
        if count == 0 or (after >= 0 and (count < low or (count == low and i <= after))):
            continue
        if best < 0 or count < p.switch_count[best]:
            best = i
    return best


cdef int leaves_first(Pass* p) noexcept nogil:
    """Rule 3b: leaf switches with most candidates first."""
    cdef int32_t i, leaf
    count_switches(p, 0)
    for i in range(p.cands):
        leaf = switch_of(p, 0, p.cand[i].rank)
        p.cand[i].key1 = -<int64_t> p.switch_count[leaf]
        p.cand[i].key2 = leaf
        p.cand[i].place = i
    qsort(p.cand, p.cands, sizeof(Cand), &by_leaf)
    return 0


cdef int by_leaf(const void* a, const void* b) noexcept nogil:
    cdef const Cand* x = <const Cand*> a
    cdef const Cand* y = <const Cand*> b
    if x.key1 != y.key1:
        return -1 if x.key1 < y.key1 else 1
    if x.key2 != y.key2:
        return -1 if x.key2 < y.key2 else 1
    return (x.place > y.place) - (x.place < y.place)


cdef int32_t take_segments(Pass* p, const Job* job) noexcept nogil:
    """Rule 3b with segments: whole segments of single leaves, nodes_min nodes in all."""
    cdef int32_t i, wanted = job.nodes_min // job.segment, best = -1, given, used = 0
    cdef int64_t room = 0
    count_switches(p, 0)
    for i in range(p.N):
        p.switch_count[i] //= job.segment
        if p.switch_count[i] >= wanted and (best < 0 or p.switch_count[i] < p.switch_count[best]):
            best = i
    if best >= 0:
        for i in range(p.N):
            if i != best:
                p.switch_count[i] = 0
    while wanted:
        best = -1
        for i in range(p.N):
            if p.switch_count[i] > 0 and (best < 0 or p.switch_count[i] > p.switch_count[best]):
                best = i
        if best < 0:
            return 0
        given = min(wanted, p.switch_count[best])
        wanted -= given
        p.switch_count[best] = 0
        given *= job.segment
        for i in range(p.cands):
            if given and switch_of(p, 0, p.cand[i].rank) == best:
                pick(p, used, p.cand + i)
                room += p.cand[i].tasks
                used += 1
                given -= 1
    return used if room >= job.ntasks else 0


cdef int32_t leaves_of_picks(Pass* p, int32_t used) noexcept nogil:
    cdef int32_t i, leaves = 0, leaf
    memset(p.switch_count, 0, 4 * (p.N + 1))
    for i in range(used):
        leaf = switch_of(p, 0, p.pick_rank[i])
        leaves += p.switch_count[leaf] == 0
        p.switch_count[leaf] = 1
    return leaves
