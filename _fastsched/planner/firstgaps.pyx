"""The gaps of a new shape, moved to where nodes are first free.

All of them begin now. On a full machine a search would reach each, and move it by itself from the first block into a
later one. Here the first free times of all nodes are read at once, and the gaps are sorted and laid out once. That costs
more than a search that finds a node at once, so it is done at the second search of a shape, and at the first one where no
node is free now.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from _fastsched.planner.basics cimport NEVER
from _fastsched.planner.demand cimport demand_of
from _fastsched.planner.gaps cimport GapBlock, GapIndex, TimeGap, append_gap, clear_gaps
from _fastsched.planner.memory cimport allocate
from _fastsched.planner.nodetime cimport timeline_of
from _fastsched.planner.timeline cimport NodeTimeline, PlanDemand, rounded_up, satisfies, segment_at

cdef int64_t first_free_s(PlanPass* plan, const PendingJob* job, int32_t rank) except -1 nogil:
    """Returns the first time of rule 0 at which a node meets the demand of the shape; NEVER if there is none."""
    cdef const NodeTimeline* line
    cdef PlanDemand demand
    cdef int64_t free_s = plan.limits.now_s
    cdef int32_t index = 0
    if not demand_of(job, plan.cluster.nodes + rank, job.tasks_floor, &demand):
        return NEVER
    line = timeline_of(plan, rank, job.reservation)
    while not satisfies(segment_at(line, index), &demand, line.gres_kinds):
        if index + 1 == line.count:
            return NEVER
        free_s = rounded_up(segment_at(line, index + 1).from_s, plan.limits.resolution_s)
        while index + 2 < line.count and segment_at(line, index + 2).from_s <= free_s:
            index += 1
        index += 1
    return free_s


cdef bint is_any_free_now(PlanPass* plan, const PendingJob* job) except -1 nogil:
    cdef const GapIndex* index = &job.shape.gaps
    cdef int32_t block, i
    for block in range(index.count):
        for i in range(index.blocks[block].count):
            if first_free_s(plan, job, index.blocks[block].gaps[i].rank) == plan.limits.now_s:
                return True
    return False


cdef inline bint is_after(const TimeGap* gap, const TimeGap* other) noexcept nogil:
    return gap.from_s > other.from_s or (gap.from_s == other.from_s and gap.rank > other.rank)


cdef void merge(TimeGap* into, const TimeGap* left, const TimeGap* right, const TimeGap* end) noexcept nogil:
    """Merges two sorted runs, the second right after the first."""
    cdef const TimeGap* middle = right
    while left < middle and right < end:
        if is_after(left, right):
            into[0] = right[0]
            right += 1
        else:
            into[0] = left[0]
            left += 1
        into += 1
    if left < middle:
        memcpy(into, left, sizeof(TimeGap) * <size_t> (middle - left))
    elif right < end:
        memcpy(into, right, sizeof(TimeGap) * <size_t> (end - right))


cdef TimeGap* sort_gaps(TimeGap* gaps, TimeGap* spare, int32_t count) noexcept nogil:
    """Sorts by start and node; one of both arrays has the result."""
    cdef int32_t width = 1, at
    cdef TimeGap* other
    while width < count:
        at = 0
        while at < count:
            merge(spare + at, gaps + at, gaps + min(at + width, count), gaps + min(at + 2 * width, count))
            at += 2 * width
        other = gaps
        gaps = spare
        spare = other
        width *= 2
    return gaps


cdef int move_gaps(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Moves the gaps that begin now, and were not compared with their nodes' time yet, to where these are first free."""
    cdef GapIndex* index = &job.shape.gaps
    cdef TimeGap* gaps
    cdef const GapBlock* block
    cdef int32_t number, i, count = 0, kept = 0
    for number in range(index.count):
        count += index.blocks[number].count
    if count > plan.shapes.sorted_max:
        plan.shapes.sorted_max = 2 * count
        plan.shapes.sorted = <TimeGap*> allocate(&plan.arena, 2 * sizeof(TimeGap) * <size_t> plan.shapes.sorted_max)
    gaps = plan.shapes.sorted
    for number in range(index.count):
        block = index.blocks[number]
        for i in range(block.count):
            gaps[kept] = block.gaps[i]
            if gaps[kept].version < 0 and gaps[kept].from_s == plan.limits.now_s:
                gaps[kept].from_s = first_free_s(plan, job, gaps[kept].rank)
            kept += gaps[kept].from_s < gaps[kept].to_s
    gaps = sort_gaps(gaps, gaps + count, kept)
    clear_gaps(&plan.shapes.pool, index)
    for i in range(kept):
        append_gap(&plan.arena, &plan.shapes.pool, index, gaps + i)
    return 0


cdef int look_ahead(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Prepares a search of a shape whose gaps may all begin now."""
    if job.shape.gaps.count > 1 and (job.shape.searches > 0 or not is_any_free_now(plan, job)):
        move_gaps(plan, job)
        job.shape.searches = 2
    else:
        job.shape.searches += 1
    return 0
