# A heap of times at which nodes may become available, the earliest on top, of equal ones the lowest rank.

from libc.stdint cimport int32_t, int64_t


cdef struct TimelineEvent:
    int64_t at_s
    int32_t rank


cdef struct EventHeap:
    TimelineEvent* events
    int32_t count


cdef inline bint is_before(const TimelineEvent* event, const TimelineEvent* other) noexcept nogil:
    return event.at_s < other.at_s or (event.at_s == other.at_s and event.rank < other.rank)


cdef inline void sift_down(EventHeap* heap, int32_t index) noexcept nogil:
    cdef TimelineEvent moved = heap.events[index]
    cdef int32_t child = 2 * index + 1
    while child < heap.count:
        if child + 1 < heap.count and is_before(heap.events + child + 1, heap.events + child):
            child += 1
        if not is_before(heap.events + child, &moved):
            break
        heap.events[index] = heap.events[child]
        index = child
        child = 2 * index + 1
    heap.events[index] = moved


cdef inline void make_heap(EventHeap* heap) noexcept nogil:
    """Builds the heap from events in any order."""
    cdef int32_t index
    for index in range(heap.count // 2 - 1, -1, -1):
        sift_down(heap, index)


cdef inline void drop_top(EventHeap* heap) noexcept nogil:
    heap.count -= 1
    if heap.count:
        heap.events[0] = heap.events[heap.count]
        sift_down(heap, 0)


cdef inline void move_top(EventHeap* heap, int64_t at_s, int64_t limit_s) noexcept nogil:
    """Moves the top node to a later time; removes it past limit_s."""
    if at_s > limit_s:
        drop_top(heap)
    else:
        heap.events[0].at_s = at_s
        sift_down(heap, 0)


cdef inline void push(EventHeap* heap, int64_t at_s, int32_t rank) noexcept nogil:
    """Adds an event for a node that has none."""
    cdef int32_t index = heap.count, parent
    heap.count += 1
    while index:
        parent = (index - 1) >> 1
        if heap.events[parent].at_s <= at_s:
            break
        heap.events[index] = heap.events[parent]
        index = parent
    heap.events[index].at_s = at_s
    heap.events[index].rank = rank
