# Part of plan.pyx: rule 9. Rare, so nodes are simply made again without those who may go.

cdef struct Mark:  # how far the memory of the pass was used
    Chunk* chunk
    size_t used


cdef inline Mark marked(const Pass* p) noexcept nogil:
    return Mark(chunk=p.chunk, used=p.chunk.used)


cdef void rewind(Pass* p, Mark mark) noexcept nogil:
    """Give back all memory since then."""
    cdef Chunk* older
    while p.chunk != mark.chunk:
        older = p.chunk.older
        free(p.chunk)
        p.chunk = older
    p.chunk.used = mark.used


cdef Line* without_victims(Pass* p, int32_t rank, Without without, int32_t view) except NULL nogil:
    """A node's time as if victims, or all that may be preempted, were gone. Its memory is the caller's to rewind."""
    cdef Node* copy = <Node*> room_for(p, sizeof(Node))
    copy[0] = p.node[rank]
    build(p, copy, without)
    p.node[rank].takes = copy.takes
    return view_line(copy, view)


cdef bint will_do(Pass* p, const Job* job) except -1 nogil:
    """Does it suffice for what was chosen that victims are gone?"""
    cdef Mark mark = marked(p)
    cdef Need need
    cdef int32_t i
    cdef bint enough = True
    for i in range(p.picks):
        need_of(job, p.node + p.pick_rank[i], p.pick_tasks[i], &need)
        if clear_until(
            without_victims(p, p.pick_rank[i], VICTIMS, job.view), &need, p.now_s, p.now_s + job.length_s
        ) < p.now_s + job.length_s:
            enough = False
            break
    rewind(p, mark)
    return enough


cdef int64_t victims_on_picks(Pass* p, Cand* there) noexcept nogil:
    """All that may be preempted on the chosen nodes, each once, lowest (cost, index) first."""
    cdef int64_t at, count = 0, keep = 0, i
    cdef int32_t run
    cdef Node* node
    for i in range(p.picks):
        node = p.node + p.pick_rank[i]
        for at in range(node.first_part, node.last_part):
            run = p.c.part_run[p.part[at]]
            if preemptable(p, run, p.victim_bits):
                there[count] = Cand(key1=p.c.run_cost[run], key2=run, key3=0, key4=0, rank=0, tasks=0, place=0)
                count += 1
    qsort(there, count, sizeof(Cand), &by_keys)
    for i in range(count):
        if i == 0 or there[i].key2 != there[i - 1].key2:
            there[keep] = there[i]
            keep += 1
    return keep


cdef int preempt(Pass* p, Job* job, int64_t position) except -1 nogil:
    """1 if the row preempts: its victims are marked and named, its picks are set; 0 if it does not."""
    cdef Mark mark
    cdef Cand* there
    cdef int64_t count = 0, used = 0, i
    cdef int32_t rank
    cdef bint found
    if not (job.preempts & p.classes) or job.first_s > p.now_s or job.last_s < p.now_s:
        return 0
    if licenses_from(p, job, p.now_s, p.now_s, job.view) > p.now_s:
        return 0
    load_group_masks(p, job)
    mark = marked(p)
    p.victim_bits = job.preempts
    p.measure = WITHOUT_VICTIMS
    found = choose(p, job, p.now_s, True)
    p.measure = PLANNED
    rewind(p, mark)
    if not found:
        return 0
    for i in range(p.picks):
        count += p.node[p.pick_rank[i]].last_part - p.node[p.pick_rank[i]].first_part
    there = <Cand*> room_for(p, (count + 1) * sizeof(Cand))
    count = victims_on_picks(p, there)
    while not will_do(p, job) and used < count:
        p.gone[there[used].key2] = 1
        used += 1
    if used == 0:
        return 0
    for i in range(used - 1, -1, -1):
        p.gone[there[i].key2] = 0
        if not will_do(p, job):
            p.gone[there[i].key2] = 1
    for i in range(used):
        if p.gone[there[i].key2]:
            add_i32(p, &p.out_victim_row, <int32_t> position)
            add_i32(p, &p.out_victim_run, <int32_t> there[i].key2)
            free_nodes_of(p, <int32_t> there[i].key2)
    return 1


cdef int free_nodes_of(Pass* p, int32_t run) except -1 nogil:
    """A victim ends at now_s + 1: its nodes and its licenses are made again, and nothing is known of them."""
    cdef int64_t part
    cdef int32_t rank
    for part in range(p.P):
        if p.c.part_run[part] == run:
            rank = p.rank_of[p.c.part_node[part]]
            p.node[rank].built = False
            reset_bounds(p, rank)
    p.node[p.N].built = False
    return 0
