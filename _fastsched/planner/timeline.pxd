# A timeline: what is free on a node from now on, as segments of equal use. Taking from it, searching in it.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.basics cimport (
    CLOSED, LEAF_BUSY, MARK_OF_LEAF, NEVER, NOBODY, ONE_USER, OWN_JOBS, WHOLE_LEAVES,
)
from _fastsched.planner.memory cimport Arena


cdef struct Segment:  # what is free from one time to the next; counts of GRES follow in memory
    int64_t from_s
    int64_t mem_mb
    int32_t cpus  # units
    int32_t jobs  # those here, and LEAF_BUSY
    int32_t user  # of all jobs there, CLOSED if several
    int32_t exclusive_user  # the user who has the node alone; NOBODY, CLOSED


cdef struct NodeTimeline:  # segments by time, the first from now on, the last without end
    char* data
    int32_t count
    int32_t capacity
    int32_t gres_kinds
    int32_t stride_bytes


cdef struct PlanDemand:  # what a job takes, or needs, on one node
    int64_t mem_mb
    int32_t cpus  # units
    int32_t user
    int32_t exclusive
    const int32_t* gres


cdef struct SavedTimeline:
    SavedTimeline* next
    NodeTimeline* timeline
    int32_t count
    size_t capacity_bytes
    char* copy


cdef struct UndoLog:  # timelines as they were before a trial
    bint active
    SavedTimeline* saved
    SavedTimeline* unused  # memory of earlier trials


cdef int new_timeline(Arena* arena, NodeTimeline* line, int32_t gres_kinds, int32_t capacity) except -1 nogil
cdef int32_t split_at(Arena* arena, NodeTimeline* line, int64_t at_s) except -1 nogil
cdef int take_from(
    Arena* arena, UndoLog* undo, NodeTimeline* line, const PlanDemand* demand, int64_t from_s, int64_t to_s, int32_t jobs
) except -1 nogil
cdef int note_interval(
    Arena* arena, NodeTimeline* line, int64_t from_s, int64_t to_s, bint closes, int32_t mark
) except -1 nogil
cdef int save(Arena* arena, UndoLog* undo, NodeTimeline* line) except -1 nogil
cdef void undo_all(UndoLog* undo) noexcept nogil
cdef int64_t earliest_fit(
    const NodeTimeline* line, const PlanDemand* demand, int64_t resolution_s, int64_t from_s, int64_t length_s, int64_t limit_s
) noexcept nogil
cdef int64_t free_until(const NodeTimeline* line, const PlanDemand* demand, int64_t from_s, int64_t to_s) noexcept nogil


cdef inline Segment* segment_at(const NodeTimeline* line, int32_t index) noexcept nogil:
    return <Segment*> (line.data + <int64_t> index * line.stride_bytes)


cdef inline int32_t* gres_of(const Segment* segment) noexcept nogil:
    return <int32_t*> (segment + 1)


cdef inline int32_t segment_index(const NodeTimeline* line, int64_t at_s) noexcept nogil:
    """Returns the segment in which a time (not before the first) lies. Most queries are near the end."""
    cdef int32_t high = line.count - 1, step = 1, low = high, middle
    while low > 0 and segment_at(line, low).from_s > at_s:
        high = low - 1
        low = max(low - step, 0)
        step *= 2
    while low < high:
        middle = (low + high + 1) >> 1
        if segment_at(line, middle).from_s <= at_s:
            low = middle
        else:
            high = middle - 1
    return low


cdef inline int64_t rounded_up(int64_t at_s, int64_t resolution_s) noexcept nogil:
    """Returns the first time by rule 0 at which something may be planned to start, not before at_s > now_s."""
    cdef int64_t past
    if at_s >= NEVER:
        return NEVER
    past = at_s % resolution_s
    if past < 0:
        past += resolution_s
    return at_s + resolution_s - past if past else at_s


cdef inline void add_occupant(Segment* segment, int32_t user, int32_t exclusive) noexcept nogil:
    """Adds one more job to the node, or notes one on its leaf."""
    if exclusive == MARK_OF_LEAF:
        segment.jobs |= LEAF_BUSY
        return
    if not segment.jobs & OWN_JOBS:
        segment.user = user
    elif segment.user != user:
        segment.user = CLOSED
    segment.jobs += 1
    if exclusive & ~ONE_USER or (
        exclusive == ONE_USER and segment.exclusive_user != NOBODY and segment.exclusive_user != user
    ):
        segment.exclusive_user = CLOSED
    elif exclusive == ONE_USER:
        segment.exclusive_user = user


cdef inline bint satisfies(const Segment* segment, const PlanDemand* demand, int32_t gres_kinds) noexcept nogil:
    """Whether a segment has what is needed. A demand of nothing is INT32_MIN (memory: INT64_MIN)."""
    cdef const int32_t* gres = <const int32_t*> (segment + 1)
    cdef int32_t kind
    if segment.cpus < demand.cpus or segment.mem_mb < demand.mem_mb:
        return False
    for kind in range(gres_kinds):
        if gres[kind] < demand.gres[kind]:
            return False
    if segment.exclusive_user != NOBODY and (
        segment.exclusive_user == CLOSED or segment.exclusive_user != demand.user
    ):
        return False
    if demand.exclusive and segment.jobs and (segment.jobs & OWN_JOBS or demand.exclusive & WHOLE_LEAVES):
        return demand.exclusive == ONE_USER and segment.user == demand.user
    return True
