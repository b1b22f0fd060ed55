# The jobs of one request that wait, in the order of their keys.

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport realloc
from libc.string cimport memmove

from _fastsched.noderunner.records cimport RunEntry, RunQueue


cdef inline bint entry_before(const RunEntry* entry, double key, int32_t job) noexcept nogil:
    return entry.key < key or (entry.key == key and entry.job < job)


cdef inline int64_t place_of(const RunQueue* queue, double key, int32_t job) noexcept nogil:
    cdef int64_t low = queue.first, high = queue.end, middle
    while low < high:
        middle = (low + high) // 2
        if entry_before(&queue.entry[middle], key, job):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint queue_room(RunQueue* queue) noexcept nogil:
    """Makes room for one entry at the end; False when there is no memory."""
    cdef RunEntry* grown
    if queue.end < queue.room:
        return True
    if queue.first > 0 and queue.first >= queue.room // 2:
        memmove(queue.entry, &queue.entry[queue.first], (queue.end - queue.first) * sizeof(RunEntry))
        queue.end -= queue.first
        queue.first = 0
        return True
    grown = <RunEntry*> realloc(queue.entry, (2 * queue.room + 8) * sizeof(RunEntry))
    if grown == NULL:
        return False
    queue.entry = grown
    queue.room = 2 * queue.room + 8
    return True


cdef inline bint queue_insert(RunQueue* queue, double key, int32_t job, int64_t length) noexcept nogil:
    cdef int64_t place
    if not queue_room(queue):
        return False
    place = place_of(queue, key, job)
    memmove(&queue.entry[place + 1], &queue.entry[place], (queue.end - place) * sizeof(RunEntry))
    queue.entry[place].key = key
    queue.entry[place].job = job
    queue.entry[place].length = length
    queue.end += 1
    return True


cdef inline int64_t queue_find(const RunQueue* queue, int32_t job, double key, bint changing) noexcept nogil:
    """The place of a job that is there. Keys that change are those of the last sorting."""
    cdef int64_t place
    if not changing:
        return place_of(queue, key, job)
    for place in range(queue.first, queue.end):
        if queue.entry[place].job == job:
            return place
    return queue.first


cdef inline void queue_take(RunQueue* queue, int64_t place) noexcept nogil:
    if place == queue.first:
        queue.first += 1
    else:
        memmove(&queue.entry[place], &queue.entry[place + 1], (queue.end - place - 1) * sizeof(RunEntry))
        queue.end -= 1
    if queue.first == queue.end:
        queue.first = 0
        queue.end = 0
