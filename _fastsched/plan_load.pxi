# Part of plan.pyx: a row made ready.

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
