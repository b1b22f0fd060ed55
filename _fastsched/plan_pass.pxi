# Part of plan.pyx: all of a pass in one record, and its memory.

cdef struct Columns:  # pointers into the input; names as in contract.py
    const int32_t* total_cpus
    const int64_t* total_mem_mb
    const int32_t* total_gres
    const int32_t* free_cpus
    const int64_t* free_mem_mb
    const int32_t* free_gres
    const int32_t* cpu_quantum
    const int32_t* order
    const int32_t* weight_class
    const uint8_t* up
    const int32_t* switches
    const int64_t* run_end_s
    const int32_t* run_user
    const uint8_t* run_exclusive
    const int32_t* run_class
    const int64_t* run_cost
    const int32_t* run_licenses
    const int32_t* part_run
    const int32_t* part_node
    const int32_t* part_cpus
    const int64_t* part_mem_mb
    const int32_t* part_gres
    const int64_t* resv_from_s
    const int64_t* resv_to_s
    const int32_t* resv_mask
    const uint8_t* resv_flex
    const int32_t* block_resv
    const int32_t* block_node
    const int64_t* block_from_s
    const int64_t* block_to_s
    const int32_t* block_cpus
    const int64_t* block_mem_mb
    const int32_t* block_gres
    const int32_t* licblock_resv
    const int32_t* licblock_kind
    const int32_t* licblock_count
    const int64_t* licblock_from_s
    const int64_t* licblock_to_s
    const int64_t* job
    const int32_t* mask
    const int32_t* nodes_min
    const int32_t* nodes_max
    const int32_t* ntasks
    const int32_t* cpus_per_task
    const int32_t* ntasks_per_node
    const int64_t* mem_node_mb
    const int64_t* mem_cpu_mb
    const int32_t* gres
    const uint8_t* exclusive
    const int32_t* user
    const int32_t* count
    const int32_t* cpu_units
    const uint8_t* spread
    const int64_t* limit_s
    const int64_t* limit_min_s
    const int64_t* earliest_s
    const int64_t* latest_s
    const uint8_t* reserve
    const int32_t* resv
    const uint64_t* preempts
    const int32_t* switches_max
    const int32_t* segment
    const uint8_t* order_kind
    const int32_t* group
    const int32_t* licenses
    const int32_t* het
    const int64_t* rows
    const uint64_t* masks
    const int32_t* group_first
    const int32_t* group_mask
    const int32_t* group_count
    const int32_t* free_licenses
    const uint8_t* stop


cdef struct Pass:
    Columns c
    Chunk* chunk
    # lengths: the letters of contract.py
    int64_t J
    int64_t Q
    int64_t P
    int64_t B
    int64_t F
    int64_t D
    int32_t N
    int32_t G
    int32_t S
    int32_t R
    int32_t L
    int32_t V
    int32_t M
    int32_t E
    int32_t words
    # limits
    int64_t now_s
    int64_t last_s
    int64_t window_end_s
    int64_t resolution_s
    int64_t starts_max
    int64_t rows_max
    int64_t copies_max
    int64_t reserve_max
    int64_t placements_max
    bint estimate
    # nodes
    bint identity  # rank = index
    bint all_up
    bint users_matter  # somebody has, or may get, a node for one user alone
    bint keep_takes
    bint learn  # what is found about time may be written to the bounds
    int32_t* rank_of
    Node* node
    int64_t* part  # parts, those of one node together
    const uint64_t** rank_mask  # masks by rank, made when asked for
    uint64_t* waited  # nodes that an earlier row waits for
    uint64_t* up
    uint8_t* gone  # running jobs removed by this pass
    uint64_t classes  # of running jobs that may be preempted
    int32_t* none_wanted
    # bounds
    Entry** table
    Entry* entry
    int32_t entries
    int32_t entries_made  # have memory
    int32_t entries_max
    int32_t generation
    # scratch
    Measure measure
    uint64_t victim_bits
    Line scratch
    Seg* least
    Cand* cand
    Cand* other
    int32_t cands
    Event* heap
    int32_t heap_size
    int32_t* caps
    int32_t* members
    int32_t* pick_rank
    int32_t* pick_tasks
    int32_t picks
    int32_t* kept_rank
    int32_t* kept_tasks
    int32_t kept
    int32_t* switch_count
    int64_t* sorted
    Saved* saved
    Saved* saved_before  # to be used again
    bint saving
    # course
    int64_t holding  # waiting rows that hold something
    int64_t* seen  # a table of jobs by open addressing; see seen()
    int64_t seen_mask
    # answer
    int64_t starts
    int64_t placements
    uint8_t* reason
    int64_t* start_s
    int32_t* plan_count  # by position; the nodes follow each other in out_plan_node
    Buffer out_job
    Buffer out_first
    Buffer out_node
    Buffer out_cpus
    Buffer out_tasks
    Buffer out_mem
    Buffer out_limit
    Buffer out_plan_node
    Buffer out_victim_row
    Buffer out_victim_run


cdef inline int64_t lesser(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef inline int64_t greater(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


cdef int new_chunk(Pass* p, size_t size) except -1 nogil:
    cdef Chunk* chunk = <Chunk*> malloc(sizeof(Chunk) + size)
    if chunk == NULL:
        with gil:
            raise MemoryError
    chunk.older = p.chunk
    chunk.size = size
    chunk.used = 0
    p.chunk = chunk
    return 0


cdef void* room_for(Pass* p, size_t size) except NULL nogil:
    """Memory until the pass ends; not zeroed, aligned for everything here."""
    cdef char* found
    size = (size + 15) & ~<size_t> 15
    if p.chunk == NULL or p.chunk.used + size > p.chunk.size:
        new_chunk(p, max(size, max(<size_t> 1 << 16, min(SPARE_BYTES, 2 * p.chunk.size if p.chunk else 0))))
    found = <char*> (p.chunk + 1) + p.chunk.used
    p.chunk.used += size
    return found


cdef void* zeros(Pass* p, size_t size) except NULL nogil:
    cdef void* found = room_for(p, size)
    memset(found, 0, size)
    return found


cdef inline int add(Pass* p, Buffer* buffer, const void* item, int64_t size) except -1 nogil:
    """Append; the old memory of a buffer that grows is left to the end of the pass."""
    cdef char* data
    if buffer.used + size > buffer.room:
        buffer.room = greater(2 * buffer.room, 512)
        data = <char*> room_for(p, buffer.room)
        if buffer.used:
            memcpy(data, buffer.data, buffer.used)
        buffer.data = data
    memcpy(buffer.data + buffer.used, item, size)
    buffer.used += size
    return 0


cdef inline int add_i32(Pass* p, Buffer* buffer, int32_t value) except -1 nogil:
    return add(p, buffer, &value, sizeof(value))


cdef inline int add_i64(Pass* p, Buffer* buffer, int64_t value) except -1 nogil:
    return add(p, buffer, &value, sizeof(value))


cdef inline bint in_set(const uint64_t* words, int32_t bit) noexcept nogil:
    return (words[bit >> 6] >> (bit & 63)) & 1


cdef inline void put(uint64_t* words, int32_t bit) noexcept nogil:
    words[bit >> 6] |= (<uint64_t> 1) << (bit & 63)


cdef inline int64_t rounded(const Pass* p, int64_t at_s) noexcept nogil:
    """Rule 0: the first time at which something may be planned to start, not before at_s > now_s."""
    cdef int64_t past
    if at_s >= NEVER:
        return NEVER
    past = at_s % p.resolution_s
    if past < 0:
        past += p.resolution_s
    return at_s + p.resolution_s - past if past else at_s
