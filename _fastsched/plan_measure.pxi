# Part of plan.pyx: rules 1, 2 and 3c at one time: what a node can hold, and the first nodes that do.

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
