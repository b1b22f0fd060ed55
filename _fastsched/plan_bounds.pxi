# Part of plan.pyx: what is known of time (rule 4).
#
# Within a pass nodes only fill up (victims aside), so a time before which a node has nothing for a shape stays one. An
# Entry keeps these bounds for a shape and a class of durations; what one row has found out, the next of its shape knows.

cdef uint64_t mixed(uint64_t hash, uint64_t value) noexcept nogil:
    hash = (hash ^ value) * <uint64_t> 0x9E3779B97F4A7C15
    return hash ^ (hash >> 29)


cdef inline int32_t class_of(int64_t length_s, int64_t* shortest_s) noexcept nogil:
    """Classes of durations, from one power of four to the next, and their shortest.

    Finer classes have tighter bounds but each is asked less often, so that it is further behind: on the generated GPU
    queue eight classes to a power of two took three times as long, and a single class sixteen times.
    """
    cdef int32_t power = (63 - leading_zeros(<uint64_t> length_s)) & ~1
    shortest_s[0] = <int64_t> 1 << power
    return power


cdef bint same_shape(const Pass* p, const Entry* entry, const Job* job) noexcept nogil:
    cdef int32_t kind
    if (
        entry.mem_node_mb != job.mem_node_mb
        or entry.mem_cpu_mb != job.mem_cpu_mb
        or entry.floor != job.floor
        or entry.cpus_per_task != job.cpus_per_task
        or entry.cpu_units != job.cpu_units
        or entry.exclusive != job.exclusive
        or (p.users_matter and entry.user != job.user)
        or entry.view != job.view
    ):
        return False
    for kind in range(p.G):
        if entry.gres[kind] != job.gres[kind]:
            return False
    return True


cdef int find_entry(Pass* p, Job* job) except -1 nogil:
    """The bounds of a row's shape and duration; new ones begin where those of shorter durations are."""
    cdef uint64_t hash = mixed(mixed(job.mem_node_mb, job.mem_cpu_mb), job.floor)
    cdef int64_t shortest_s
    cdef int32_t kind, length_class = class_of(job.length_s, &shortest_s), i
    cdef Entry* entry
    cdef Entry* base = NULL
    hash = mixed(hash, <uint64_t> job.cpus_per_task << 32 | <uint32_t> job.cpu_units)
    hash = mixed(hash, <uint64_t> <uint32_t> job.view << 8 | <uint32_t> job.exclusive)
    if p.users_matter:
        hash = mixed(hash, <uint32_t> job.user)
    for kind in range(p.G):
        hash = mixed(hash, <uint32_t> job.gres[kind])
    entry = p.table[hash & TABLE_MASK]
    while entry != NULL:
        if entry.hash == hash and same_shape(p, entry, job):
            if entry.length_class == length_class:
                job.entry = entry
                job.generation = p.generation
                return 0
            if entry.length_class < length_class and (base == NULL or entry.length_class > base.length_class):
                base = entry
        entry = entry.next
    if p.entries == p.entries_max:
        forget_entries(p)
        base = NULL
    entry = p.entry + p.entries
    p.entries += 1
    if p.entries > p.entries_made:
        p.entries_made = p.entries
        entry.bound = <int64_t*> room_for(p, 8 * (64 * <size_t> p.words + 1))
        entry.low = <int64_t*> room_for(p, 8 * (<size_t> p.words + 1))
    if base != NULL:
        memcpy(entry.bound, base.bound, 8 * 64 * <size_t> p.words)
        memcpy(entry.low, base.low, 8 * <size_t> p.words)
    else:
        for i in range(64 * p.words):
            entry.bound[i] = p.now_s if i < p.N and p.node[i].up else NEVER
        for i in range(p.words):
            set_low(entry, i)
    entry.hash = hash
    entry.mem_node_mb = job.mem_node_mb
    entry.mem_cpu_mb = job.mem_cpu_mb
    entry.gres = job.gres
    entry.floor = job.floor
    entry.cpus_per_task = job.cpus_per_task
    entry.cpu_units = job.cpu_units
    entry.exclusive = job.exclusive
    entry.user = job.user
    entry.view = job.view
    entry.length_class = length_class
    entry.length_s = shortest_s
    entry.next = p.table[hash & TABLE_MASK]
    p.table[hash & TABLE_MASK] = entry
    job.entry = entry
    job.generation = p.generation
    return 0


cdef inline const Entry* known(const Pass* p, const Job* job) noexcept nogil:
    """What is known of a row's shape; NULL = nothing."""
    return job.entry if job.generation == p.generation else NULL


cdef void forget_entries(Pass* p) noexcept nogil:
    """Memory is bounded: begin again."""
    memset(p.table, 0, sizeof(Entry*) * (TABLE_MASK + 1))
    p.entries = 0
    p.generation += 1


cdef inline void set_low(Entry* entry, int32_t word) noexcept nogil:
    cdef int64_t low = NEVER
    cdef int64_t* bound = entry.bound + 64 * <int64_t> word
    cdef int32_t i
    for i in range(64):
        low = bound[i] if bound[i] < low else low
    entry.low[word] = low


cdef void reset_bounds(Pass* p, int32_t rank) noexcept nogil:
    """Something has come back to a node."""
    cdef int32_t i
    for i in range(p.entries):
        if p.entry[i].bound[rank] != NEVER or p.node[rank].up:
            p.entry[i].bound[rank] = p.now_s
            p.entry[i].low[rank >> 6] = p.now_s


cdef int64_t next_start(Pass* p, Job* job, int32_t rank, int64_t from_s, int64_t limit_s) except -1 nogil:
    """The first time from from_s on at which this node holds `floor` tasks; past limit_s only a bound."""
    cdef Entry* entry = job.entry
    cdef Need need
    cdef int64_t found_s, bound_s, old_s = entry.bound[rank]
    if old_s > from_s:
        from_s = old_s
        if from_s > limit_s:
            return from_s
    if need_of(job, p.node + rank, job.floor, &need):
        found_s = earliest(
            p, line_of(p, rank, job.view), &need, from_s, job.length_s, limit_s, entry.length_s, &bound_s
        )
    else:
        found_s = bound_s = NEVER
    # Nothing is known of the time between the old bound and from_s, if there is any.
    if p.learn and old_s >= from_s and bound_s > old_s:
        entry.bound[rank] = bound_s
        if entry.low[rank >> 6] == old_s:
            set_low(entry, rank >> 6)
    return found_s
