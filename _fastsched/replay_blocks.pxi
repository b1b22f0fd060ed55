# Sorted entries in blocks: the one container of the replay (included by replay.pyx).
#
# Entries are ordered by (key, tie). They are stored in blocks of up to BLOCK entries; `order` lists the blocks. Finding a place
# is a binary search over blocks and a short walk; inserting moves part of one block. Each block has the fewest processors, the
# shortest length and the sum of processors in it, so that whole blocks are skipped: by a search for what fits, and by a sum
# up to where enough is free. A queue of 100,000 is some 2,000 blocks.
#
# Keys are arbitrary numbers computed when the entry was made; no order of submissions is assumed. A full block is split in
# halves; neighbours that together fill no more than half a block are joined. So two neighbours always have more than BLOCK / 2
# entries, which bounds the number of blocks.

cdef enum:
    BLOCK = 64


cdef struct ReplayEntry:
    int64_t key
    int64_t length  # estimate of the run time
    int32_t tie
    int32_t procs


cdef struct ReplayBlock:
    int32_t count
    int32_t procs_min
    int64_t length_min
    int64_t procs_sum
    ReplayEntry entry[BLOCK]


cdef struct ReplayBlocks:
    ReplayBlock* pool
    int32_t* order  # the blocks in use, in order of their entries
    int32_t* spare  # the blocks not in use
    int32_t blocks
    int32_t spares
    int64_t count  # entries


cdef bint blocks_open(ReplayBlocks* some, int64_t entries_max) noexcept nogil:
    """Makes room for so many at a time; False when there is no memory."""
    cdef int64_t k, room = entries_max // (BLOCK // 4) + 3
    some.pool = <ReplayBlock*> malloc(room * sizeof(ReplayBlock))
    some.order = <int32_t*> malloc(room * sizeof(int32_t))
    some.spare = <int32_t*> malloc(room * sizeof(int32_t))
    if some.pool == NULL or some.order == NULL or some.spare == NULL:
        return False
    for k in range(room):
        some.spare[k] = <int32_t> (room - 1 - k)
    some.spares = <int32_t> room
    some.blocks = 0
    some.count = 0
    return True


cdef void blocks_close(ReplayBlocks* some) noexcept nogil:
    free(some.pool)
    free(some.order)
    free(some.spare)


cdef inline bint before(const ReplayEntry* entry, int64_t key, int32_t tie) noexcept nogil:
    return entry.key < key or (entry.key == key and entry.tie < tie)


cdef inline ReplayEntry* first_of(const ReplayBlocks* some) noexcept nogil:
    """Returns the first entry; there must be one."""
    return &some.pool[some.order[0]].entry[0]


cdef inline int64_t first_key(const ReplayBlocks* some) noexcept nogil:
    """Returns the key of the first entry, or NEVER."""
    return some.pool[some.order[0]].entry[0].key if some.count > 0 else NEVER


cdef int32_t block_of(const ReplayBlocks* some, int64_t key, int32_t tie) noexcept nogil:
    """Returns the place in `order` of the first block whose last entry is not before this one; `blocks` if there is none."""
    cdef int32_t low = 0, high = some.blocks, middle
    cdef const ReplayBlock* block
    while low < high:
        middle = (low + high) // 2
        block = &some.pool[some.order[middle]]
        if before(&block.entry[block.count - 1], key, tie):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int32_t place_in(const ReplayBlock* block, int64_t key, int32_t tie) noexcept nogil:
    cdef int32_t low = 0, high = block.count, middle
    while low < high:
        middle = (low + high) // 2
        if before(&block.entry[middle], key, tie):
            low = middle + 1
        else:
            high = middle
    return low


cdef void measure(ReplayBlock* block) noexcept nogil:
    """Updates a block's minima and sum."""
    cdef int32_t k
    block.procs_min = INT32_MAX
    block.length_min = NEVER
    block.procs_sum = 0
    for k in range(block.count):
        block.procs_min = min(block.procs_min, block.entry[k].procs)
        block.length_min = min(block.length_min, block.entry[k].length)
        block.procs_sum += block.entry[k].procs


cdef void open_block(ReplayBlocks* some, int32_t place) noexcept nogil:
    """Inserts an empty block at a place in the order."""
    cdef int32_t block
    some.spares -= 1
    block = some.spare[some.spares]
    memmove(&some.order[place + 1], &some.order[place], (some.blocks - place) * sizeof(int32_t))
    some.order[place] = block
    some.blocks += 1
    some.pool[block].count = 0
    measure(&some.pool[block])


cdef void split(ReplayBlocks* some, int32_t place) noexcept nogil:
    cdef ReplayBlock* full = &some.pool[some.order[place]]
    cdef ReplayBlock* other
    open_block(some, place + 1)
    other = &some.pool[some.order[place + 1]]
    memcpy(&other.entry[0], &full.entry[BLOCK // 2], (BLOCK - BLOCK // 2) * sizeof(ReplayEntry))
    full.count = BLOCK // 2
    other.count = BLOCK - BLOCK // 2
    measure(full)
    measure(other)


cdef void insert(ReplayBlocks* some, int64_t key, int32_t tie, int32_t procs, int64_t length) noexcept nogil:
    cdef int32_t place = block_of(some, key, tie), k
    cdef ReplayBlock* block
    if some.blocks == 0:
        open_block(some, 0)
    elif place == some.blocks:
        place -= 1
    if some.pool[some.order[place]].count == BLOCK:
        split(some, place)
        block = &some.pool[some.order[place]]
        if before(&block.entry[block.count - 1], key, tie):
            place += 1
    block = &some.pool[some.order[place]]
    k = place_in(block, key, tie)
    memmove(&block.entry[k + 1], &block.entry[k], (block.count - k) * sizeof(ReplayEntry))
    block.entry[k].key = key
    block.entry[k].tie = tie
    block.entry[k].procs = procs
    block.entry[k].length = length
    block.count += 1
    block.procs_min = min(block.procs_min, procs)
    block.length_min = min(block.length_min, length)
    block.procs_sum += procs
    some.count += 1


cdef void close_block(ReplayBlocks* some, int32_t place) noexcept nogil:
    """Releases an empty block."""
    some.spare[some.spares] = some.order[place]
    some.spares += 1
    some.blocks -= 1
    memmove(&some.order[place], &some.order[place + 1], (some.blocks - place) * sizeof(int32_t))


cdef void join(ReplayBlocks* some, int32_t place) noexcept nogil:
    """Joins the block at a place with the next, if both exist and are small."""
    cdef ReplayBlock* block
    cdef ReplayBlock* other
    if place < 0 or place + 1 >= some.blocks:
        return
    block = &some.pool[some.order[place]]
    other = &some.pool[some.order[place + 1]]
    if block.count + other.count <= BLOCK // 2:
        memcpy(&block.entry[block.count], &other.entry[0], other.count * sizeof(ReplayEntry))
        block.count += other.count
        measure(block)
        close_block(some, place + 1)


cdef void take_out(ReplayBlocks* some, int32_t place, int32_t k) noexcept nogil:
    """Removes entry k of the block at a place in the order."""
    cdef ReplayBlock* block = &some.pool[some.order[place]]
    cdef ReplayEntry gone = block.entry[k]
    block.count -= 1
    some.count -= 1
    memmove(&block.entry[k], &block.entry[k + 1], (block.count - k) * sizeof(ReplayEntry))
    if gone.procs == block.procs_min or gone.length == block.length_min:
        measure(block)
    else:
        block.procs_sum -= gone.procs
    if block.count == 0:
        close_block(some, place)
    elif block.count < BLOCK // 2:
        join(some, place)
        join(some, place - 1)


cdef void remove(ReplayBlocks* some, int64_t key, int32_t tie) noexcept nogil:
    """Removes an existing entry."""
    cdef int32_t place = block_of(some, key, tie)
    take_out(some, place, place_in(&some.pool[some.order[place]], key, tie))


cdef ReplayEntry pop(ReplayBlocks* some) noexcept nogil:
    """Removes the first entry; there must be one."""
    cdef ReplayEntry found = first_of(some)[0]
    take_out(some, 0, 0)
    return found
