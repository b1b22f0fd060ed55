# The ends of running jobs: the true ones as a heap, the expected ones sorted.

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memmove

from _fastsched.noderunner.records cimport RunEnd, RunWorld


cdef inline bint end_before(const RunEnd* one, const RunEnd* other) noexcept nogil:
    return one.at_s < other.at_s or (one.at_s == other.at_s and one.number < other.number)


cdef inline void push_end(RunWorld* world, RunEnd added) noexcept nogil:
    cdef int64_t k = world.ends_n, above
    world.ends_n += 1
    while k > 0:
        above = (k - 1) // 2
        if not end_before(&added, &world.ends[above]):
            break
        world.ends[k] = world.ends[above]
        k = above
    world.ends[k] = added


cdef inline int32_t pop_end(RunWorld* world) noexcept nogil:
    """The job that ends first."""
    cdef int32_t found = world.ends[0].job
    cdef RunEnd moved
    cdef int64_t k = 0, below
    world.ends_n -= 1
    moved = world.ends[world.ends_n]
    while True:
        below = 2 * k + 1
        if below >= world.ends_n:
            break
        if below + 1 < world.ends_n and end_before(&world.ends[below + 1], &world.ends[below]):
            below += 1
        if not end_before(&world.ends[below], &moved):
            break
        world.ends[k] = world.ends[below]
        k = below
    world.ends[k] = moved
    return found


cdef inline int64_t place_of_expected(const RunWorld* world, int64_t at_s, int32_t job) noexcept nogil:
    cdef int64_t low = world.expected_first, high = world.expected_end, middle
    cdef const RunEnd* end
    while low < high:
        middle = (low + high) // 2
        end = &world.expected[middle]
        if end.at_s < at_s or (end.at_s == at_s and end.job < job):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void expect(RunWorld* world, int32_t j) noexcept nogil:
    cdef int64_t at_s = world.job[j].start_s + world.job[j].estimate_s
    cdef int64_t place = place_of_expected(world, at_s, j)
    memmove(&world.expected[place + 1], &world.expected[place], (world.expected_end - place) * sizeof(RunEnd))
    world.expected_end += 1
    world.expected[place].at_s = at_s
    world.expected[place].job = j


cdef inline void forget(RunWorld* world, int32_t j) noexcept nogil:
    cdef int64_t place = place_of_expected(world, world.job[j].start_s + world.job[j].estimate_s, j)
    if place == world.expected_first:
        world.expected_first += 1
    else:
        memmove(&world.expected[place], &world.expected[place + 1], (world.expected_end - place - 1) * sizeof(RunEnd))
        world.expected_end -= 1
    if world.expected_first == world.expected_end:
        world.expected_first = 0
        world.expected_end = 0
