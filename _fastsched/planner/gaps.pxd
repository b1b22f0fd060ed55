# Gaps: intervals in which a node may be free for a shape, ordered by (from_s, rank).
#
# They are stored in blocks of up to GAPS_PER_BLOCK. An index has for each block an upper bound of the length of its gaps,
# and of their ends, so that a search passes over whole blocks, and over whole stripes of blocks. A bound may be too high
# after a gap is removed, until a search corrects it. A full block is split in halves; neighbours that together fill no more
# than half a block are joined, which bounds the number of blocks.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.memory cimport Arena

cdef enum:
    GAPS_PER_BLOCK = 64
    STRIPE_SHIFT = 6  # blocks of a stripe, as a power of two


cdef struct TimeGap:
    int64_t from_s  # a time at which a job may start
    int64_t to_s
    int32_t rank
    int32_t version  # of the node's time, if the gap is known to be free throughout


cdef struct GapBlock:
    GapBlock* next_spare
    int32_t count
    TimeGap[GAPS_PER_BLOCK] gaps


cdef struct GapPool:  # unused blocks, and the number of used ones
    GapBlock* spare
    int64_t used


cdef struct GapIndex:
    GapBlock** blocks  # in order
    int64_t* first_s  # by block, as are the next two: the start of the first gap
    int64_t* longest_s  # no gap of the block is longer
    int64_t* latest_s  # nor ends later
    int64_t* stripe_longest_s  # by stripe, a number of consecutive blocks: no gap in it is longer
    int64_t* stripe_latest_s
    int32_t count  # of blocks
    int32_t capacity
    int32_t changes  # of the list of blocks


cdef struct GapPlace:
    int32_t block
    int32_t at


cdef int reserve_blocks(Arena* arena, GapPool* pool, GapIndex* index, int32_t blocks) except -1 nogil
cdef int append_gap(Arena* arena, GapPool* pool, GapIndex* index, const TimeGap* gap) except -1 nogil
cdef int insert_gap(Arena* arena, GapPool* pool, GapIndex* index, const TimeGap* gap) except -1 nogil
cdef void remove_gap(GapPool* pool, GapIndex* index, GapPlace place) noexcept nogil
cdef void remove_gaps_of(GapPool* pool, GapIndex* index, int32_t rank) noexcept nogil
cdef void clear_gaps(GapPool* pool, GapIndex* index) noexcept nogil
cdef GapPlace place_of(const GapIndex* index, int64_t from_s, int32_t rank) noexcept nogil
cdef bint find_long(GapIndex* index, int64_t length_s, int64_t end_s, GapPlace* place) noexcept nogil


cdef inline TimeGap* gap_at(const GapIndex* index, GapPlace place) noexcept nogil:
    return index.blocks[place.block].gaps + place.at
