"""Rule 4 for a job that needs one node: the earliest start, over the gaps of its shape."""

from libc.stdint cimport INT32_MAX

from _fastsched.planner.basics cimport NEVER, has_bit
from _fastsched.planner.gaps cimport GapBlock, GapIndex, GapPlace, TimeGap, find_long, gap_at, place_of
from _fastsched.planner.shapes cimport first_long_gap, refine_gap


cdef bint gap_with_lowest_rank(
    const GapIndex* index, const PendingJob* job, GapPlace first, int64_t from_s, GapPlace* found
) noexcept nogil:
    """Finds among the gaps from this place on, that begin up to from_s and leave time for the job from then on, that of the
    first node; False if there is none."""
    cdef int64_t end_s = from_s + job.length_s
    cdef int32_t lowest = INT32_MAX, number, i
    cdef const GapBlock* block
    cdef const TimeGap* gap
    for number in range(first.block, index.count):
        if index.first_s[number] > from_s:
            break
        if index.latest_s[number] < end_s:
            continue
        block = index.blocks[number]
        for i in range(block.count):
            gap = block.gaps + i
            if gap.from_s <= from_s and gap.to_s >= end_s and gap.rank < lowest and has_bit(job.mask, gap.rank):
                lowest = gap.rank
                found[0] = GapPlace(block=number, at=i)
    return lowest < INT32_MAX


cdef bint starts_at(PlanPass* plan, const PendingJob* job, int64_t at_s, int32_t* best_rank) except -1 nogil:
    """Finds the first node that is free from at_s on; False if there is none."""
    cdef GapIndex* index = &job.shape.gaps
    cdef GapPlace first, found
    cdef TimeGap* gap
    cdef int64_t to_s
    while first_long_gap(plan, job, at_s, &first) and gap_with_lowest_rank(index, job, first, at_s, &found):
        gap = gap_at(index, found)
        if gap.version == plan.cluster.versions[gap.rank]:
            best_rank[0] = gap.rank
            return True
        refine_gap(plan, job, found, at_s, at_s, &to_s)
    return False


cdef int64_t single_node_start(
    PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s, int32_t* best_rank
) except -1 nogil:
    """Returns the earliest start of a job that needs one node, and the first node in rank order that has it; NEVER if none."""
    cdef GapIndex* index = &job.shape.gaps
    cdef int64_t gap_s, found_s, to_s
    cdef int32_t rank, changes
    cdef GapPlace place
    cdef TimeGap* gap
    best_rank[0] = -1
    if from_s > plan.limits.now_s and starts_at(plan, job, from_s, best_rank):
        return from_s
    if not first_long_gap(plan, job, limit_s, &place):
        return NEVER
    while find_long(index, job.length_s, 0, &place):
        gap = gap_at(index, place)
        if gap.from_s > limit_s:
            return NEVER
        if gap.from_s < from_s or not has_bit(job.mask, gap.rank):
            place.at += 1
            continue
        if gap.version == plan.cluster.versions[gap.rank]:
            best_rank[0] = gap.rank
            return gap.from_s
        gap_s = gap.from_s
        rank = gap.rank
        changes = index.changes
        # Gaps after the first that is found do not matter any more.
        found_s = refine_gap(plan, job, place, from_s, limit_s, &to_s)
        if found_s < limit_s:
            limit_s = found_s
        # The remainder of the first gap of a block may be in the block before it, if there is one.
        if (place.at == 0 and place.block > 0) or index.changes != changes:
            place = place_of(index, gap_s, rank)
    return NEVER
