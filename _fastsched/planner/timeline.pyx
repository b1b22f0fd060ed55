"""A node's time as an array of segments of equal use: splitting, taking, undoing, searching.

A planned job adds at most two segments. The first segment begins now and times before it are cut off; the last has no
end. Nothing here knows nodes or jobs: a node's timelines are made in nodetime.pyx.
"""

from libc.string cimport memcpy, memmove

from _fastsched.planner.basics cimport CLOSED, NEVER, greater
from _fastsched.planner.memory cimport allocate


cdef int new_timeline(Arena* arena, NodeTimeline* line, int32_t gres_kinds, int32_t capacity) except -1 nogil:
    """Creates a timeline of one segment, not filled in, with room for `capacity`."""
    line.gres_kinds = gres_kinds
    line.stride_bytes = <int32_t> ((sizeof(Segment) + 4 * gres_kinds + 7) & ~7)
    line.capacity = capacity
    line.count = 1
    line.data = <char*> allocate(arena, <size_t> capacity * line.stride_bytes)
    return 0


cdef int32_t split_at(Arena* arena, NodeTimeline* line, int64_t at_s) except -1 nogil:
    """Returns the segment that begins at this time, created if there is none."""
    cdef int32_t index = segment_index(line, at_s)
    cdef char* data
    if segment_at(line, index).from_s >= at_s:
        return index
    if line.count == line.capacity:
        data = <char*> allocate(arena, <size_t> 2 * line.capacity * line.stride_bytes)
        memcpy(data, line.data, <size_t> line.count * line.stride_bytes)
        line.data = data
        line.capacity *= 2
    memmove(segment_at(line, index + 1), segment_at(line, index), <size_t> (line.count - index) * line.stride_bytes)
    line.count += 1
    segment_at(line, index + 1).from_s = at_s
    return index + 1


cdef int take_from(
    Arena* arena, UndoLog* undo, NodeTimeline* line, const PlanDemand* demand, int64_t from_s, int64_t to_s, int32_t jobs
) except -1 nogil:
    """Books a job (jobs = 1), a block (0) or released amounts (negative) for an interval (rule 7)."""
    cdef int32_t first, last, index, kind
    cdef Segment* segment
    cdef int32_t* gres
    from_s = greater(from_s, segment_at(line, 0).from_s)
    if to_s <= from_s:
        return 0
    if undo.active:
        save(arena, undo, line)
    first = split_at(arena, line, from_s)
    last = split_at(arena, line, to_s) if to_s < NEVER else line.count
    for index in range(first, last):
        segment = segment_at(line, index)
        segment.cpus -= demand.cpus
        segment.mem_mb -= demand.mem_mb
        gres = gres_of(segment)
        for kind in range(line.gres_kinds):
            gres[kind] -= demand.gres[kind]
        if jobs:
            add_occupant(segment, demand.user, demand.exclusive)
    return 0


cdef int note_interval(
    Arena* arena, NodeTimeline* line, int64_t from_s, int64_t to_s, bint closes, int32_t mark
) except -1 nogil:
    """Notes what books nothing for an interval: the node is closed to all users, or has a mark among its jobs."""
    cdef int32_t first, last, index
    cdef Segment* segment
    from_s = greater(from_s, segment_at(line, 0).from_s)
    if to_s <= from_s:
        return 0
    first = split_at(arena, line, from_s)
    last = split_at(arena, line, to_s)
    for index in range(first, last):
        segment = segment_at(line, index)
        segment.jobs |= mark
        if closes:
            segment.exclusive_user = CLOSED
    return 0


cdef int save(Arena* arena, UndoLog* undo, NodeTimeline* line) except -1 nogil:
    """Saves a timeline as it is."""
    cdef size_t size = <size_t> line.count * line.stride_bytes
    cdef SavedTimeline* saved = undo.unused
    if saved == NULL:
        saved = <SavedTimeline*> allocate(arena, sizeof(SavedTimeline))
        saved.capacity_bytes = 0
    else:
        undo.unused = saved.next
    if saved.capacity_bytes < size:
        saved.capacity_bytes = 2 * size
        saved.copy = <char*> allocate(arena, saved.capacity_bytes)
    memcpy(saved.copy, line.data, size)
    saved.timeline = line
    saved.count = line.count
    saved.next = undo.saved
    undo.saved = saved
    return 0


cdef void undo_all(UndoLog* undo) noexcept nogil:
    """Restores all timelines as they were when the log became active."""
    cdef SavedTimeline* saved
    while undo.saved != NULL:
        saved = undo.saved
        saved.timeline.count = saved.count
        memcpy(saved.timeline.data, saved.copy, <size_t> saved.count * saved.timeline.stride_bytes)
        undo.saved = saved.next
        saved.next = undo.unused
        undo.unused = saved


cdef int64_t earliest_fit(
    const NodeTimeline* line, const PlanDemand* demand, int64_t resolution_s, int64_t from_s, int64_t length_s, int64_t limit_s
) noexcept nogil:
    """Returns the first time from from_s on, by rule 0, from which the demand is met for length_s; past limit_s a time before
    which there is none."""
    cdef int32_t index = segment_index(line, from_s)
    cdef int64_t at_s = from_s, end_s = from_s + length_s
    cdef const Segment* segment
    while index < line.count:
        segment = segment_at(line, index)
        if segment.from_s >= end_s:
            break
        if not satisfies(segment, demand, line.gres_kinds):
            if index + 1 == line.count:
                at_s = NEVER
            else:
                at_s = rounded_up(segment_at(line, index + 1).from_s, resolution_s)
                while index + 2 < line.count and segment_at(line, index + 2).from_s <= at_s:
                    index += 1
            if at_s > limit_s:
                return at_s
            end_s = at_s + length_s
        index += 1
    return at_s


cdef int64_t free_until(const NodeTimeline* line, const PlanDemand* demand, int64_t from_s, int64_t to_s) noexcept nogil:
    """Returns until when, up to to_s, nothing conflicts with what is taken (rule 4)."""
    cdef int32_t index
    cdef const Segment* segment
    if from_s >= to_s:
        return from_s
    index = segment_index(line, from_s)
    while index < line.count:
        segment = segment_at(line, index)
        if segment.from_s >= to_s:
            break
        if not satisfies(segment, demand, line.gres_kinds):
            return greater(segment.from_s, from_s)
        index += 1
    return to_s
