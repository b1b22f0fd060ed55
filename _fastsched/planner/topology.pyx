"""Rule 3b: switches. Candidates under one switch, leaf switches with most candidates first, or whole segments of leaves."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from _fastsched.planner.basics cimport compare_int64
from _fastsched.planner.candidates cimport pick
from _fastsched.planner.records cimport NodeCandidate, Scratch


cdef inline int32_t switch_of(const PlanPass* plan, int32_t level, int32_t rank) noexcept nogil:
    return plan.input.nodes.switches[<int64_t> level * plan.counts.nodes + plan.cluster.nodes[rank].index]


cdef void count_candidates_by_switch(PlanPass* plan, int32_t level) noexcept nogil:
    """Fills `switch_counts` for the switches of a level."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t i
    memset(scratch.switch_counts, 0, 4 * (<size_t> plan.counts.nodes + 1))
    for i in range(scratch.candidates_count):
        scratch.switch_counts[switch_of(plan, level, scratch.candidates[i].rank)] += 1


cdef void limit_to_switch(PlanPass* plan, const PendingJob* job, int32_t taken, int64_t room) noexcept nogil:
    """Keeps the candidates of the smallest sufficient switch of the lowest level; all, if there is none."""
    cdef Scratch* scratch = &plan.scratch
    cdef NodeCandidate* below = scratch.other_candidates + plan.counts.nodes + 1
    cdef int32_t level, i, switch, count
    for level in range(plan.counts.switch_levels):
        count_candidates_by_switch(plan, level)
        # By switch: fewest candidates first, then the lowest index, until one suffices.
        switch = next_switch(plan, -1)
        while switch >= 0:
            count = 0
            for i in range(scratch.candidates_count):
                if switch_of(plan, level, scratch.candidates[i].rank) == switch:
                    below[count] = scratch.candidates[i]
                    count += 1
            if would_fit(plan, job, below, count, taken, room):
                memcpy(scratch.candidates, below, count * sizeof(NodeCandidate))
                scratch.candidates_count = count
                return
            switch = next_switch(plan, switch)


cdef bint would_fit(
    PlanPass* plan, const PendingJob* job, const NodeCandidate* candidates, int32_t count, int32_t taken, int64_t room
) noexcept nogil:
    """Whether these fit. (nodes_max of the largest.)"""
    cdef int64_t* sort_keys = plan.scratch.sort_keys
    cdef int32_t i, most = job.nodes_max - taken
    if taken + count < job.nodes_min:
        return False
    if count <= most:
        for i in range(count):
            room += candidates[i].tasks
        return room >= job.ntasks
    for i in range(count):
        sort_keys[i] = -<int64_t> candidates[i].tasks
    qsort(sort_keys, count, sizeof(int64_t), &compare_int64)
    for i in range(most):
        room -= sort_keys[i]
    return room >= job.ntasks


cdef int32_t next_switch(const PlanPass* plan, int32_t after) noexcept nogil:
    """Returns the next switch with candidates, in the order (candidates, index); -1 = none; after -1 = first."""
    cdef const int32_t* counts = plan.scratch.switch_counts
    cdef int32_t i, best = -1, least = 0
    if after >= 0:
        least = counts[after]
    for i in range(plan.counts.nodes):
        if counts[i] == 0 or (after >= 0 and (counts[i] < least or (counts[i] == least and i <= after))):
            continue
        if best < 0 or counts[i] < counts[best]:
            best = i
    return best


cdef int compare_by_leaf(const void* left, const void* right) noexcept nogil:
    cdef const NodeCandidate* first = <const NodeCandidate*> left
    cdef const NodeCandidate* second = <const NodeCandidate*> right
    if first.leaf_candidates != second.leaf_candidates:
        return 1 if first.leaf_candidates < second.leaf_candidates else -1
    if first.leaf != second.leaf:
        return -1 if first.leaf < second.leaf else 1
    return (first.place > second.place) - (first.place < second.place)


cdef void sort_by_leaf(PlanPass* plan) noexcept nogil:
    """Moves candidates of leaf switches with most candidates to the front; within a leaf the order is kept."""
    cdef NodeCandidate* candidate
    cdef int32_t i
    count_candidates_by_switch(plan, 0)
    for i in range(plan.scratch.candidates_count):
        candidate = plan.scratch.candidates + i
        candidate.leaf = switch_of(plan, 0, candidate.rank)
        candidate.leaf_candidates = plan.scratch.switch_counts[candidate.leaf]
        candidate.place = i
    qsort(plan.scratch.candidates, plan.scratch.candidates_count, sizeof(NodeCandidate), &compare_by_leaf)


cdef void one_leaf_if_possible(const PlanPass* plan, int32_t* segments, int32_t wanted) noexcept nogil:
    """If single leaves have all the segments, keeps only the one with the fewest."""
    cdef int32_t leaf, best = -1
    for leaf in range(plan.counts.nodes):
        if segments[leaf] >= wanted and (best < 0 or segments[leaf] < segments[best]):
            best = leaf
    if best >= 0:
        for leaf in range(plan.counts.nodes):
            if leaf != best:
                segments[leaf] = 0


cdef int32_t pick_segments(PlanPass* plan, const PendingJob* job) noexcept nogil:
    """Takes whole segments of single leaves, nodes_min nodes in all; returns how many nodes are picked, 0 = no fit."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t* segments = scratch.switch_counts
    cdef int32_t i, leaf, wanted = job.nodes_min // job.segment, best, nodes, used = 0
    cdef int64_t room = 0
    count_candidates_by_switch(plan, 0)
    for leaf in range(plan.counts.nodes):
        segments[leaf] //= job.segment
    one_leaf_if_possible(plan, segments, wanted)
    while wanted:
        best = -1
        for leaf in range(plan.counts.nodes):
            if segments[leaf] > 0 and (best < 0 or segments[leaf] > segments[best]):
                best = leaf
        if best < 0:
            return 0
        nodes = min(wanted, segments[best])
        wanted -= nodes
        nodes *= job.segment
        segments[best] = 0
        for i in range(scratch.candidates_count):
            if nodes and switch_of(plan, 0, scratch.candidates[i].rank) == best:
                pick(plan, used, scratch.candidates + i)
                room += scratch.candidates[i].tasks
                used += 1
                nodes -= 1
    return used if room >= job.ntasks else 0


cdef int32_t count_leaves_of_picks(PlanPass* plan, int32_t used) noexcept nogil:
    cdef int32_t i, leaves = 0, leaf
    memset(plan.scratch.switch_counts, 0, 4 * (<size_t> plan.counts.nodes + 1))
    for i in range(used):
        leaf = switch_of(plan, 0, plan.picks.rank[i])
        leaves += plan.scratch.switch_counts[leaf] == 0
        plan.scratch.switch_counts[leaf] = 1
    return leaves
