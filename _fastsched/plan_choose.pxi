# Part of plan.pyx: rules 1, 2 and 3 at one time: what a node can hold, and which nodes a job gets.

cdef inline int64_t rounded_cpus(const Node* node, int64_t cpus) noexcept nogil:
    """Rule 1's k."""
    cdef int64_t past = cpus % node.quantum
    return cpus + node.quantum - past if past else cpus


cdef int64_t mem_taken(const Job* job, const Node* node, int64_t k) noexcept nogil:
    """Rule 2; -1 when it is more than can be counted."""
    if job.mem_node_mb >= 0:
        return job.mem_node_mb if job.mem_node_mb else node.total_mem_mb
    if job.mem_cpu_mb >= 0:
        return -1 if job.mem_cpu_mb > INT64_MAX // k else job.mem_cpu_mb * k
    return node.total_mem_mb if job.exclusive == 1 else 0


cdef bint need_of(const Job* job, const Node* node, int64_t tasks, Need* need) noexcept nogil:
    """What so many tasks need on the node; False if no node has that."""
    cdef int64_t k = rounded_cpus(node, tasks * job.cpus_per_task), units
    if k > INT32_MAX:
        return False
    units = k * job.cpu_units
    if job.exclusive == 1:
        if units > node.total_cpus:
            return False
        units = node.total_cpus
    if units > INT32_MAX:
        return False
    need.mem_mb = mem_taken(job, node, k)
    if need.mem_mb < 0:
        return False
    if need.mem_mb == 0:
        need.mem_mb = INT64_MIN
    need.cpus = <int32_t> units
    need.user = job.user
    need.exclusive = job.exclusive
    need.gres = job.wanted
    return True


cdef int32_t tasks_in(const Job* job, const Node* node, const Seg* free) noexcept nogil:
    """Rule 1's t, from the least that is free; `free` holds one task already as far as GRES and users go."""
    cdef int64_t k = free.cpus, tasks, mem_mb = free.mem_mb
    if job.exclusive == 1:
        k = node.total_cpus
    k //= job.cpu_units
    if job.mem_node_mb < 0 and job.mem_cpu_mb > 0:
        k = lesser(k, mem_mb // job.mem_cpu_mb if mem_mb > 0 else 0)
    k -= k % node.quantum
    tasks = lesser(k // job.cpus_per_task, job.most)
    return <int32_t> tasks if tasks >= job.least else 0


cdef void whole_node(Pass* p, const Node* node, Seg* seg) noexcept nogil:
    cdef int32_t kind
    seg.cpus = node.total_cpus
    seg.mem_mb = node.total_mem_mb
    seg.jobs = 0
    seg.user = seg.xuser = NOBODY
    for kind in range(node.kinds):
        gres_of(seg)[kind] = node.total_gres[kind]


cdef int32_t measure(Pass* p, const Job* job, int32_t rank, int64_t at_s, Seg* least) except -1 nogil:
    """How many tasks the node can hold from at_s on, 0 = no candidate; `least` becomes what is free throughout."""
    cdef Node* node = p.node + rank
    cdef Need need
    cdef const Line* line
    cdef const Seg* seg
    cdef int64_t end_s = at_s + job.length_s
    cdef int32_t i, kind
    if not need_of(job, node, job.least, &need):
        return 0
    if p.measure == EMPTY:
        whole_node(p, node, least)
        return tasks_in(job, node, least) if holds(least, &need, node.kinds) else 0
    if p.measure == WITHOUT_VICTIMS:
        line = without_victims(p, rank, PREEMPTABLE, job.view)
    else:
        line = line_of(p, rank, NO_BLOCKS if p.measure == WITHOUT_BLOCKS else job.view)
    i = find_seg(line, at_s)
    seg = seg_at(line, i)
    if not holds(seg, &need, line.kinds):
        return 0
    memcpy(least, seg, line.stride)
    for i in range(i + 1, line.count):
        seg = seg_at(line, i)
        if seg.from_s >= end_s:
            break
        if not holds(seg, &need, line.kinds):
            return 0
        least.cpus = min(least.cpus, seg.cpus)
        least.mem_mb = lesser(least.mem_mb, seg.mem_mb)
        for kind in range(line.kinds):
            gres_of(least)[kind] = min(gres_of(least)[kind], (<const int32_t*> (seg + 1))[kind])
    return tasks_in(job, node, least)


cdef int set_keys(Pass* p, const Job* job, Cand* cand, Seg* least) except -1 nogil:
    """Rule 3's order, rule 9's when victims are looked for."""
    cdef Node* node = p.node + cand.rank
    cdef int32_t kind
    cdef bint asks = False
    cdef int64_t part
    cand.key1 = cand.key2 = cand.key3 = cand.key4 = 0
    if p.measure == WITHOUT_VICTIMS:
        for part in range(node.first_part, node.last_part):
            if first_of_run(p, node, part) and preemptable(p, p.c.part_run[p.part[part]], p.victim_bits):
                cand.key1 += 1
                cand.key2 += p.c.run_cost[p.c.part_run[p.part[part]]]
    if job.order_kind:
        cand.key3 = node.weight_class
        if job.order_kind == 1:
            cand.key4 = -<int64_t> least.cpus
        else:
            for kind in range(node.kinds):
                if job.gres[kind] > 0:
                    asks = True
                    cand.key4 += gres_of(least)[kind]
            if not asks:
                cand.key4 = least.cpus
    return 0


cdef bint first_of_run(const Pass* p, const Node* node, int64_t at) noexcept nogil:
    """Is this the node's first part of its running job?"""
    cdef int64_t i
    for i in range(node.first_part, at):
        if p.c.part_run[p.part[i]] == p.c.part_run[p.part[at]]:
            return False
    return True


cdef int collect(Pass* p, const Job* job, int64_t at_s, bint need_up) except -1 nogil:
    """All candidates at a time, in the order in which they stand."""
    cdef int32_t word, rank, tasks
    cdef uint64_t bits
    cdef bint keyed = p.measure == WITHOUT_VICTIMS or job.order_kind != 0
    cdef const Entry* entry = known(p, job) if p.measure == PLANNED and job.floor == job.least else NULL
    p.cands = 0
    for word in range(p.words):
        bits = job.mask[word] & p.up[word] if need_up else job.mask[word]
        if entry != NULL and entry.low[word] > at_s:
            continue
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            if entry != NULL and entry.bound[rank] > at_s:
                continue
            tasks = measure(p, job, rank, at_s, p.least)
            if tasks:
                p.cand[p.cands].rank = rank
                p.cand[p.cands].tasks = tasks
                if keyed:
                    set_keys(p, job, p.cand + p.cands, p.least)
                p.cands += 1
    if keyed:
        qsort(p.cand, p.cands, sizeof(Cand), &by_keys)
    return 0


cdef int32_t first_fit(Pass* p, const Job* job, int64_t at_s, bint need_up) except -1 nogil:
    """Rule 3 where only node order matters: stop at the last node that is needed. -1 is an error, -2 "go the long way"."""
    cdef int32_t word, rank, tasks, used = 0
    cdef int64_t room = 0
    cdef uint64_t bits
    cdef const Entry* entry = known(p, job) if p.measure == PLANNED and (job.floor == job.least or job.floor == job.most) else NULL
    for word in range(p.words):
        bits = job.mask[word] & p.up[word] if need_up else job.mask[word]
        if entry != NULL and entry.low[word] > at_s:
            continue
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            if entry != NULL and entry.bound[rank] > at_s:
                continue
            tasks = measure(p, job, rank, at_s, p.least)
            if tasks < job.floor and (tasks == 0 or job.floor == job.most):
                continue
            if used == job.nodes_max:
                return -2
            p.pick_rank[used] = rank
            p.pick_tasks[used] = tasks
            used += 1
            room += tasks
            if used >= job.nodes_min and room >= job.ntasks and not (job.spread and used < job.nodes_max):
                return used
    if used >= job.nodes_min and room >= job.ntasks:
        return used
    return 0


cdef int choose(Pass* p, const Job* job, int64_t at_s, bint need_up) except -1 nogil:
    """Rule 3: fill pick_rank, ascending, and pick_tasks with what each node is given. False: no fit."""
    cdef int32_t used
    p.picks = 0
    if not job.odd and not job.order_kind and not job.topology and p.measure != WITHOUT_VICTIMS:
        used = first_fit(p, job, at_s, need_up)
        if used >= 0:
            if used:
                give_tasks(p, job, used)
            return used > 0
    collect(p, job, at_s, need_up)
    used = choose_among(p, job)
    if used:
        give_tasks(p, job, used)
    return used > 0


cdef int by_rank(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const int64_t*> a)[0]
    cdef int64_t y = (<const int64_t*> b)[0]
    return (x > y) - (x < y)


cdef void give_tasks(Pass* p, const Job* job, int32_t used) noexcept nogil:
    """Sort the chosen by rank and fill them one after the other, leaving a task for each that follows."""
    cdef int32_t i
    cdef int64_t rest = job.ntasks, tasks
    cdef bint sorted = True
    for i in range(1, used):
        if p.pick_rank[i] < p.pick_rank[i - 1]:
            sorted = False
    if not sorted:
        for i in range(used):
            p.sorted[i] = <int64_t> p.pick_rank[i] << 32 | p.pick_tasks[i]
        qsort(p.sorted, used, sizeof(int64_t), &by_rank)
        for i in range(used):
            p.pick_rank[i] = <int32_t> (p.sorted[i] >> 32)
            p.pick_tasks[i] = <int32_t> (p.sorted[i] & 0x7FFFFFFF)
    for i in range(used):
        tasks = lesser(p.pick_tasks[i], rest - (used - 1 - i))
        rest -= tasks
        p.pick_tasks[i] = <int32_t> tasks
    p.picks = used


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


# -- topology


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
