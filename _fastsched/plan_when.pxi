# Part of plan.pyx: rule 4, the earliest time.

cdef int64_t single_start(Pass* p, Job* job, int64_t from_s, int64_t limit_s, int32_t* best_rank) except -1 nogil:
    """The earliest start of a job that needs one node, and the first node in rank order that has it; NEVER if none."""
    cdef Entry* entry = job.entry
    cdef const uint64_t* mask = job.mask
    cdef int64_t best_s = limit_s + 1, found_s, low_s = NEVER, bound_s
    cdef int32_t word, rank, first = -1
    cdef uint64_t bits
    best_rank[0] = -1
    # The node with the lowest bound first: it is likely to be the one, and then no other is searched far.
    for word in range(p.words):
        if entry.low[word] >= low_s or entry.low[word] >= best_s:
            continue
        bits = mask[word]
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            if entry.bound[rank] < low_s:
                low_s = entry.bound[rank]
                first = rank
                if low_s <= from_s:
                    break
        if low_s <= from_s:
            break
    if first < 0 or low_s >= best_s:
        return NEVER
    found_s = next_start(p, job, first, from_s, best_s - 1)
    if found_s < best_s:
        best_s = found_s
        best_rank[0] = first
    for word in range(p.words):
        if entry.low[word] > best_s:
            continue
        bits = mask[word]
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            bound_s = entry.bound[rank]
            if bound_s > best_s or rank == first:
                continue
            if rank < best_rank[0]:
                found_s = next_start(p, job, rank, from_s, best_s)
                if found_s <= best_s:
                    best_s = found_s
                    best_rank[0] = rank
            elif bound_s < best_s and from_s < best_s:
                found_s = next_start(p, job, rank, from_s, best_s - 1)
                if found_s < best_s:
                    best_s = found_s
                    best_rank[0] = rank
        if best_s <= from_s and best_rank[0] >= 0 and (word << 6) + 63 >= best_rank[0]:
            break
    return best_s if best_rank[0] >= 0 else NEVER


cdef inline bint before(const Event* a, const Event* b) noexcept nogil:
    return a.at_s < b.at_s or (a.at_s == b.at_s and a.rank < b.rank)


cdef void sift_down(Event* heap, int32_t size, int32_t i) noexcept nogil:
    cdef Event moved = heap[i]
    cdef int32_t child = 2 * i + 1
    while child < size:
        if child + 1 < size and before(heap + child + 1, heap + child):
            child += 1
        if not before(heap + child, &moved):
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = moved


cdef inline void replace_top(Pass* p, int64_t at_s) noexcept nogil:
    p.heap[0].at_s = at_s
    sift_down(p.heap, p.heap_size, 0)


cdef inline void drop_top(Pass* p) noexcept nogil:
    p.heap_size -= 1
    if p.heap_size:
        p.heap[0] = p.heap[p.heap_size]
        sift_down(p.heap, p.heap_size, 0)


cdef int64_t next_rise(const Pass* p, const Line* line, int64_t at_s) noexcept nogil:
    """The next time at which a node may have more to give."""
    cdef int32_t i = find_seg(line, at_s) + 1
    return rounded(p, seg_at(line, i).from_s) if i < line.count else NEVER


cdef bint room_enough(Pass* p, const Job* job, int32_t members) noexcept nogil:
    cdef int64_t room = 0
    cdef int32_t i
    if members < job.nodes_min:
        return False
    for i in range(members):
        room += p.caps[p.members[i]]
    if room < job.ntasks:
        return False
    if members <= job.nodes_max:
        return True
    for i in range(members):
        p.sorted[i] = -<int64_t> p.caps[p.members[i]]
    qsort(p.sorted, members, sizeof(int64_t), &by_rank)
    room = 0
    for i in range(job.nodes_max):
        room -= p.sorted[i]
    return room >= job.ntasks


cdef int64_t several_start(Pass* p, Job* job, int64_t from_s, int64_t limit_s) except -1 nogil:
    """The first time from which enough nodes have room; NEVER if that is past limit_s.

    Members are nodes that had `floor` tasks at some time up to at_s, with their room then: at least what it is now, as
    room grows only when a node's event comes. When the members seem enough, all are looked at again at at_s.
    """
    cdef Entry* entry = job.entry
    cdef int32_t word, rank, members = 0, keep, i, tasks
    cdef uint64_t bits
    cdef int64_t at_s, found_s
    cdef bint changed
    p.heap_size = 0
    for word in range(p.words):
        if entry.low[word] > limit_s:
            continue
        bits = job.mask[word]
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            if entry.bound[rank] <= limit_s:
                p.heap[p.heap_size].at_s = greater(from_s, entry.bound[rank])
                p.heap[p.heap_size].rank = rank
                p.caps[rank] = 0
                p.heap_size += 1
    if p.heap_size < job.nodes_min:
        return NEVER
    for i in range(p.heap_size // 2 - 1, -1, -1):
        sift_down(p.heap, p.heap_size, i)
    at_s = from_s
    while p.heap_size:
        at_s = greater(at_s, p.heap[0].at_s)
        if at_s > limit_s:
            return NEVER
        while p.heap_size and p.heap[0].at_s <= at_s:
            rank = p.heap[0].rank
            found_s = next_start(p, job, rank, at_s, limit_s)
            if found_s > at_s:
                if found_s > limit_s:
                    drop_top(p)
                else:
                    replace_top(p, found_s)
                continue
            tasks = measure(p, job, rank, at_s, p.least)
            if not p.caps[rank]:
                p.members[members] = rank
                members += 1
            p.caps[rank] = tasks
            if tasks < job.most:
                found_s = next_rise(p, line_of(p, rank, job.view), at_s)
                if found_s > limit_s:
                    drop_top(p)
                else:
                    replace_top(p, found_s)
            else:
                drop_top(p)
            # Where each node has all or nothing, no more than are needed have to be looked at.
            if job.floor == job.most and members >= job.nodes_max:
                break
        while room_enough(p, job, members):
            changed = False
            keep = 0
            for i in range(members):
                rank = p.members[i]
                found_s = next_start(p, job, rank, at_s, limit_s)
                if found_s > at_s:
                    # A member with less than `most` has its next event in the heap already.
                    changed = True
                    if p.caps[rank] == job.most:
                        push(p, found_s, rank)
                    p.caps[rank] = 0
                    continue
                tasks = measure(p, job, rank, at_s, p.least)
                if tasks < p.caps[rank]:
                    changed = True
                    if p.caps[rank] == job.most:
                        push(p, next_rise(p, line_of(p, rank, job.view), at_s), rank)
                    p.caps[rank] = tasks
                p.members[keep] = rank
                keep += 1
            members = keep
            if not changed:
                return at_s
    return NEVER


cdef void push(Pass* p, int64_t at_s, int32_t rank) noexcept nogil:
    """An event for a node that has none."""
    cdef int32_t i = p.heap_size, parent
    p.heap_size += 1
    while i:
        parent = (i - 1) >> 1
        if p.heap[parent].at_s <= at_s:
            break
        p.heap[i] = p.heap[parent]
        i = parent
    p.heap[i].at_s = at_s
    p.heap[i].rank = rank


cdef inline void license_need(const Pass* p, const Job* job, Need* need) noexcept nogil:
    need[0] = Need(mem_mb=INT64_MIN, cpus=INT32_MIN, user=0, exclusive=0, gres=job.licenses_wanted)


cdef int64_t licenses_from(Pass* p, const Job* job, int64_t from_s, int64_t limit_s, int32_t view) except -1 nogil:
    cdef Need need
    cdef int64_t bound_s
    if job.licenses == NULL:
        return from_s
    license_need(p, job, &need)
    return earliest(p, line_of(p, p.N, view), &need, from_s, job.length_s, limit_s, job.length_s, &bound_s)


cdef bint fits_at(Pass* p, Job* job, int64_t at_s) except -1 nogil:
    """Rules 3 and 4 at one time."""
    return licenses_from(p, job, at_s, at_s, job.view) <= at_s and choose(p, job, at_s, True)


cdef int64_t when(Pass* p, Job* job, int64_t from_s, int64_t limit_s) except -1 nogil:
    """The earliest time from from_s (one that rule 0 allows) to limit_s at which the job fits; its picks. NEVER: none."""
    cdef int64_t at_s = from_s, found_s
    cdef int32_t rank = -1
    p.measure = PLANNED
    if job.never:
        return NEVER
    if known(p, job) == NULL:
        find_entry(p, job)
    while at_s <= limit_s:
        found_s = licenses_from(p, job, at_s, limit_s, job.view)
        if found_s > limit_s:
            return NEVER
        at_s = found_s
        if job.nodes_max == 1:
            found_s = single_start(p, job, at_s, limit_s, &rank)
        else:
            found_s = several_start(p, job, at_s, limit_s)
        if found_s > limit_s:
            return NEVER
        if found_s > at_s and job.licenses != NULL:
            at_s = found_s
            if licenses_from(p, job, at_s, limit_s, job.view) > at_s:
                continue
        at_s = found_s
        if job.nodes_max == 1 and job.order_kind == 0 and not job.odd:
            p.pick_rank[0] = rank
            p.pick_tasks[0] = job.ntasks
            p.picks = 1
            return at_s
        if choose(p, job, at_s, True):
            return at_s
        at_s = next_end(p, job, at_s)
    return NEVER


cdef int64_t next_end(Pass* p, const Job* job, int64_t after_s) except -1 nogil:
    """The next of the times that rule 0 names; for rows that may fit at odd times."""
    cdef int32_t word, rank
    cdef uint64_t bits
    cdef int64_t next_s = NEVER
    for word in range(p.words):
        bits = job.mask[word] & p.up[word]
        while bits:
            rank = (word << 6) + count_zeros(bits)
            bits &= bits - 1
            next_s = lesser(next_s, node_end(p, job, p.node + rank, after_s))
    if job.licenses != NULL:
        next_s = lesser(next_s, node_end(p, job, p.node + p.N, after_s))
    return rounded(p, next_s)


cdef int64_t node_end(Pass* p, const Job* job, const Node* node, int64_t after_s) noexcept nogil:
    """The first end after a time of anything on a node, or of licenses of a kind that is asked for."""
    cdef int64_t next_s = NEVER, i, end_s
    cdef Need need
    cdef const Take* take = node.takes
    cdef const Block* block = node.blocks
    for i in range(node.first_part, node.last_part):
        part_need(p, node, p.part[i], &need)
        end_s = part_end(p, node, p.part[i])
        if after_s < end_s < next_s and (node.index < p.N or asked(p, job, need.gres)):
            next_s = end_s
    while take != NULL:
        if after_s < take.to_s < next_s and (node.index < p.N or asked(p, job, take.need.gres)):
            next_s = take.to_s
        take = take.next
    while block != NULL:
        if after_s < block.to_s < next_s and block.resv != job.view and (node.index < p.N or asked(p, job, block.gres)):
            next_s = block.to_s
        block = block.next
    return next_s


cdef bint asked(const Pass* p, const Job* job, const int32_t* licenses) noexcept nogil:
    cdef int32_t kind
    for kind in range(p.L):
        if job.licenses[kind] > 0 and licenses[kind] > 0:
            return True
    return False
