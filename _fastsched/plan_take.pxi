# Part of plan.pyx: what a job takes, how long it may keep it (rule 4), and how that is written down.

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
