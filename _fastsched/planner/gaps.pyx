"""Gaps in order of (from_s, rank), in blocks: see gaps.pxd. Nothing here knows nodes or jobs."""

from libc.string cimport memcpy, memmove

from _fastsched.planner.basics cimport greater
from _fastsched.planner.memory cimport allocate, allocate_zeroed


cdef inline bint is_before(const TimeGap* gap, int64_t from_s, int32_t rank) noexcept nogil:
    return gap.from_s < from_s or (gap.from_s == from_s and gap.rank < rank)


cdef inline void raise_limits(GapIndex* index, int32_t block, int64_t longest_s, int64_t latest_s) noexcept nogil:
    """Raises the bounds of a block, and so of its stripe, for a gap of this length and end."""
    cdef int32_t stripe = block >> STRIPE_SHIFT
    index.longest_s[block] = greater(index.longest_s[block], longest_s)
    index.latest_s[block] = greater(index.latest_s[block], latest_s)
    index.stripe_longest_s[stripe] = greater(index.stripe_longest_s[stripe], longest_s)
    index.stripe_latest_s[stripe] = greater(index.stripe_latest_s[stripe], latest_s)


cdef void measure(GapIndex* index, int32_t block) noexcept nogil:
    """Updates the index's data of a block, which is not empty."""
    cdef const GapBlock* measured = index.blocks[block]
    cdef int64_t longest_s = 0, latest_s = measured.gaps[0].to_s
    cdef int32_t i
    for i in range(measured.count):
        longest_s = greater(longest_s, measured.gaps[i].to_s - measured.gaps[i].from_s)
        latest_s = greater(latest_s, measured.gaps[i].to_s)
    index.first_s[block] = measured.gaps[0].from_s
    index.longest_s[block] = index.latest_s[block] = 0
    raise_limits(index, block, longest_s, latest_s)


cdef int reserve_blocks(Arena* arena, GapPool* pool, GapIndex* index, int32_t blocks) except -1 nogil:
    """Makes room for so many blocks. The memory of shorter lists is released at the end of the pass."""
    cdef GapBlock** moved
    cdef int64_t* columns
    cdef size_t count = <size_t> index.count, stripes
    if blocks <= index.capacity:
        return 0
    blocks = max(blocks, 2 * index.capacity)
    moved = <GapBlock**> allocate(arena, sizeof(GapBlock*) * <size_t> blocks)
    columns = <int64_t*> allocate_zeroed(arena, 5 * sizeof(int64_t) * <size_t> blocks)
    if count:
        stripes = (count >> STRIPE_SHIFT) + 1
        memcpy(columns + 3 * <int64_t> blocks, index.stripe_longest_s, sizeof(int64_t) * stripes)
        memcpy(columns + 4 * <int64_t> blocks, index.stripe_latest_s, sizeof(int64_t) * stripes)
        memcpy(moved, index.blocks, sizeof(GapBlock*) * count)
        memcpy(columns, index.first_s, sizeof(int64_t) * count)
        memcpy(columns + blocks, index.longest_s, sizeof(int64_t) * count)
        memcpy(columns + 2 * <int64_t> blocks, index.latest_s, sizeof(int64_t) * count)
    index.blocks = moved
    index.first_s = columns
    index.longest_s = columns + blocks
    index.latest_s = columns + 2 * <int64_t> blocks
    index.stripe_longest_s = columns + 3 * <int64_t> blocks
    index.stripe_latest_s = columns + 4 * <int64_t> blocks
    index.capacity = blocks
    return 0


cdef void move_blocks(GapIndex* index, int32_t into, int32_t block) noexcept nogil:
    """Moves all blocks from this one on to another place in the list."""
    cdef size_t count = <size_t> (index.count - block)
    cdef int32_t stripe, moved
    memmove(index.blocks + into, index.blocks + block, sizeof(GapBlock*) * count)
    memmove(index.first_s + into, index.first_s + block, sizeof(int64_t) * count)
    memmove(index.longest_s + into, index.longest_s + block, sizeof(int64_t) * count)
    memmove(index.latest_s + into, index.latest_s + block, sizeof(int64_t) * count)
    # From here on one block has moved into each stripe.
    for stripe in range(into >> STRIPE_SHIFT, (into + <int32_t> count - 1 >> STRIPE_SHIFT) + 1 if count else 0):
        moved = stripe << STRIPE_SHIFT if into > block else min((stripe + 1 << STRIPE_SHIFT), into + <int32_t> count) - 1
        if moved >= into:
            raise_limits(index, moved, index.longest_s[moved], index.latest_s[moved])


cdef int open_block(Arena* arena, GapPool* pool, GapIndex* index, int32_t block) except -1 nogil:
    """Inserts an empty block at a place in the list."""
    cdef GapBlock* opened = pool.spare
    reserve_blocks(arena, pool, index, index.count + 1)
    if opened == NULL:
        opened = <GapBlock*> allocate(arena, sizeof(GapBlock))
    else:
        pool.spare = opened.next_spare
    opened.count = 0
    pool.used += 1
    move_blocks(index, block + 1, block)
    index.blocks[block] = opened
    index.count += 1
    index.changes += 1
    return 0


cdef void close_block(GapPool* pool, GapIndex* index, int32_t block) noexcept nogil:
    cdef GapBlock* closed = index.blocks[block]
    closed.next_spare = pool.spare
    pool.spare = closed
    pool.used -= 1
    move_blocks(index, block, block + 1)
    index.count -= 1
    index.changes += 1


cdef int append_gap(Arena* arena, GapPool* pool, GapIndex* index, const TimeGap* gap) except -1 nogil:
    """Appends a gap after all others."""
    cdef GapBlock* last
    if index.count == 0 or index.blocks[index.count - 1].count == GAPS_PER_BLOCK:
        open_block(arena, pool, index, index.count)
        index.first_s[index.count - 1] = gap.from_s
        index.longest_s[index.count - 1] = index.latest_s[index.count - 1] = 0
    last = index.blocks[index.count - 1]
    last.gaps[last.count] = gap[0]
    last.count += 1
    raise_limits(index, index.count - 1, gap.to_s - gap.from_s, gap.to_s)
    return 0


cdef int32_t block_of(const GapIndex* index, int64_t from_s, int32_t rank) noexcept nogil:
    """Returns the last block whose first gap is not after this one; 0 if there is none."""
    cdef int32_t low = 0, high = index.count - 1, middle
    while low < high:
        middle = (low + high + 1) >> 1
        if index.first_s[middle] < from_s or (
            index.first_s[middle] == from_s and index.blocks[middle].gaps[0].rank <= rank
        ):
            low = middle
        else:
            high = middle - 1
    return low


cdef int32_t place_in(const GapBlock* block, int64_t from_s, int32_t rank) noexcept nogil:
    """Returns the position in a block where a gap is, or would be."""
    cdef int32_t low = 0, high = block.count, middle
    while low < high:
        middle = (low + high) >> 1
        if is_before(block.gaps + middle, from_s, rank):
            low = middle + 1
        else:
            high = middle
    return low


cdef GapPlace place_of(const GapIndex* index, int64_t from_s, int32_t rank) noexcept nogil:
    """Finds the first gap that is not before this one; `at` may be one past the block's last."""
    cdef GapPlace place = GapPlace(block=0, at=0)
    if index.count:
        place.block = block_of(index, from_s, rank)
        place.at = place_in(index.blocks[place.block], from_s, rank)
    return place


cdef int split_block(Arena* arena, GapPool* pool, GapIndex* index, int32_t block) except -1 nogil:
    cdef GapBlock* full
    cdef GapBlock* other
    open_block(arena, pool, index, block + 1)
    full = index.blocks[block]
    other = index.blocks[block + 1]
    full.count = GAPS_PER_BLOCK // 2
    other.count = GAPS_PER_BLOCK - full.count
    memcpy(other.gaps, full.gaps + full.count, sizeof(TimeGap) * <size_t> other.count)
    measure(index, block)
    measure(index, block + 1)
    return 0


cdef int insert_gap(Arena* arena, GapPool* pool, GapIndex* index, const TimeGap* gap) except -1 nogil:
    cdef int32_t block, at
    cdef GapBlock* filled
    if index.count == 0:
        return append_gap(arena, pool, index, gap)
    block = block_of(index, gap.from_s, gap.rank)
    if index.blocks[block].count == GAPS_PER_BLOCK:
        split_block(arena, pool, index, block)
        block += is_before(index.blocks[block + 1].gaps, gap.from_s, gap.rank)
    filled = index.blocks[block]
    at = place_in(filled, gap.from_s, gap.rank)
    memmove(filled.gaps + at + 1, filled.gaps + at, sizeof(TimeGap) * <size_t> (filled.count - at))
    filled.gaps[at] = gap[0]
    filled.count += 1
    index.first_s[block] = filled.gaps[0].from_s
    raise_limits(index, block, gap.to_s - gap.from_s, gap.to_s)
    return 0


cdef void join_blocks(GapPool* pool, GapIndex* index, int32_t block) noexcept nogil:
    """Joins a block with the next, if both exist and are small."""
    cdef GapBlock* first
    cdef GapBlock* second
    if block < 0 or block + 1 >= index.count:
        return
    first = index.blocks[block]
    second = index.blocks[block + 1]
    if first.count + second.count > GAPS_PER_BLOCK // 2:
        return
    memcpy(first.gaps + first.count, second.gaps, sizeof(TimeGap) * <size_t> second.count)
    first.count += second.count
    raise_limits(index, block, index.longest_s[block + 1], index.latest_s[block + 1])
    close_block(pool, index, block + 1)


cdef void remove_gap(GapPool* pool, GapIndex* index, GapPlace place) noexcept nogil:
    cdef GapBlock* block = index.blocks[place.block]
    block.count -= 1
    memmove(block.gaps + place.at, block.gaps + place.at + 1, sizeof(TimeGap) * <size_t> (block.count - place.at))
    if block.count == 0:
        close_block(pool, index, place.block)
        return
    index.first_s[place.block] = block.gaps[0].from_s
    if block.count < GAPS_PER_BLOCK // 4:
        join_blocks(pool, index, place.block)
        join_blocks(pool, index, place.block - 1)


cdef void remove_gaps_of(GapPool* pool, GapIndex* index, int32_t rank) noexcept nogil:
    """Removes all gaps of a node."""
    cdef int32_t number, i, kept
    cdef GapBlock* block
    for number in range(index.count - 1, -1, -1):
        block = index.blocks[number]
        kept = 0
        for i in range(block.count):
            if block.gaps[i].rank != rank:
                block.gaps[kept] = block.gaps[i]
                kept += 1
        if kept == 0:
            close_block(pool, index, number)
        elif kept < block.count:
            block.count = kept
            measure(index, number)


cdef void clear_gaps(GapPool* pool, GapIndex* index) noexcept nogil:
    """Removes all gaps of all nodes."""
    while index.count:
        close_block(pool, index, index.count - 1)


cdef bint find_in_block(GapIndex* index, int64_t length_s, int64_t end_s, GapPlace* place) noexcept nogil:
    """Advances a place within its block, as find_long."""
    cdef const GapBlock* block = index.blocks[place.block]
    cdef const TimeGap* gap
    cdef int64_t longest_s = 0, latest_s = 0
    cdef int32_t at
    for at in range(place.at, block.count):
        gap = block.gaps + at
        if gap.to_s - gap.from_s >= length_s and gap.to_s >= end_s:
            place.at = at
            return True
        longest_s = greater(longest_s, gap.to_s - gap.from_s)
        latest_s = greater(latest_s, gap.to_s)
    if place.at == 0:
        index.longest_s[place.block] = longest_s
        index.latest_s[place.block] = latest_s
    return False


cdef bint find_in_stripe(GapIndex* index, int64_t length_s, int64_t end_s, GapPlace* place) noexcept nogil:
    """Advances a place within its stripe, as find_long."""
    cdef int32_t stripe = place.block >> STRIPE_SHIFT, end = min(stripe + 1 << STRIPE_SHIFT, index.count)
    cdef bint whole = place.at == 0 and place.block == stripe << STRIPE_SHIFT
    cdef int64_t longest_s = 0, latest_s = 0
    while place.block < end:
        if index.longest_s[place.block] >= length_s and index.latest_s[place.block] >= end_s:
            if find_in_block(index, length_s, end_s, place):
                return True
        longest_s = greater(longest_s, index.longest_s[place.block])
        latest_s = greater(latest_s, index.latest_s[place.block])
        place.block += 1
        place.at = 0
    if whole:
        index.stripe_longest_s[stripe] = longest_s
        index.stripe_latest_s[stripe] = latest_s
    return False


cdef bint find_long(GapIndex* index, int64_t length_s, int64_t end_s, GapPlace* place) noexcept nogil:
    """Advances a place to the first gap from there on that has at least this length and does not end before end_s; False
    if there is none."""
    cdef int32_t stripe
    while place.block < index.count:
        stripe = place.block >> STRIPE_SHIFT
        if index.stripe_longest_s[stripe] >= length_s and index.stripe_latest_s[stripe] >= end_s:
            if find_in_stripe(index, length_s, end_s, place):
                return True
        else:
            place.block = stripe + 1 << STRIPE_SHIFT
            place.at = 0
    return False
