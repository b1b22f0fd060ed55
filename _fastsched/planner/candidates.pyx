"""Rules 1 and 3 at one time: the capacity of a node, and the nodes that could be chosen.

Where only node order matters, `first_fit` stops at the last node that is needed; else all candidates are collected and
sorted. Nodes without a gap of the shape at that time are skipped.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from _fastsched.planner.basics cimport NO_BLOCKS, lesser, take_lowest_bit
from _fastsched.planner.shapes cimport known_shape, mark_possible_nodes
from _fastsched.planner.demand cimport demand_of, empty_node, tasks_within
from _fastsched.planner.nodetime cimport may_be_preempted, timeline_of, timeline_without
from _fastsched.planner.records cimport (
    EMPTY, PLANNED, PREEMPTABLE, WITHOUT_BLOCKS, WITHOUT_VICTIMS, NodeCandidate, PlanNode,
)
from _fastsched.planner.timeline cimport (
    NodeTimeline, PlanDemand, Segment, gres_of, satisfies, segment_at, segment_index,
)


cdef int32_t tasks_on_node(PlanPass* plan, const PendingJob* job, int32_t rank, int64_t at_s) except -1 nogil:
    """Returns how many tasks the node can hold from at_s on, 0 = no candidate; `scratch.least` is then free throughout."""
    cdef PlanNode* node = plan.cluster.nodes + rank
    cdef Segment* least = plan.scratch.least
    cdef PlanDemand demand
    cdef const NodeTimeline* line
    cdef const Segment* segment
    cdef int64_t end_s = at_s + job.length_s
    cdef int32_t index, kind
    if not demand_of(job, node, job.tasks_min, &demand):
        return 0
    if plan.basis == EMPTY:
        empty_node(node, least)
        return tasks_within(job, node, least) if satisfies(least, &demand, node.gres_kinds) else 0
    if plan.basis == WITHOUT_VICTIMS:
        line = timeline_without(plan, rank, PREEMPTABLE, job.reservation)
    else:
        line = timeline_of(plan, rank, NO_BLOCKS if plan.basis == WITHOUT_BLOCKS else job.reservation)
    index = segment_index(line, at_s)
    segment = segment_at(line, index)
    if not satisfies(segment, &demand, line.gres_kinds):
        return 0
    memcpy(least, segment, line.stride_bytes)
    for index in range(index + 1, line.count):
        segment = segment_at(line, index)
        if segment.from_s >= end_s:
            break
        if not satisfies(segment, &demand, line.gres_kinds):
            return 0
        least.cpus = min(least.cpus, segment.cpus)
        least.mem_mb = lesser(least.mem_mb, segment.mem_mb)
        for kind in range(line.gres_kinds):
            gres_of(least)[kind] = min(gres_of(least)[kind], gres_of(segment)[kind])
    return tasks_within(job, node, least)


cdef bint is_first_of_run(const PlanPass* plan, const PlanNode* node, int64_t at) noexcept nogil:
    """Whether this is the node's first part of its running job."""
    cdef const int32_t* part_run = plan.input.running.part_run
    cdef int64_t i
    for i in range(node.first_part, at):
        if part_run[plan.cluster.parts[i]] == part_run[plan.cluster.parts[at]]:
            return False
    return True


cdef void set_sort_keys(PlanPass* plan, const PendingJob* job, NodeCandidate* candidate) noexcept nogil:
    """Compares by rule 3's order, or rule 9's when victims are searched."""
    cdef PlanNode* node = plan.cluster.nodes + candidate.rank
    cdef const Segment* least = plan.scratch.least
    cdef int32_t kind, run
    cdef bint asks = False
    cdef int64_t part
    candidate.victims = candidate.weight_class = 0
    candidate.victims_cost = candidate.preference = 0
    if plan.basis == WITHOUT_VICTIMS:
        for part in range(node.first_part, node.last_part):
            run = plan.input.running.part_run[plan.cluster.parts[part]]
            if is_first_of_run(plan, node, part) and may_be_preempted(plan, run, plan.preemption.victim_classes):
                candidate.victims += 1
                candidate.victims_cost += plan.input.running.run_cost[run]
    if job.order_kind:
        candidate.weight_class = node.weight_class
        if job.order_kind == 1:
            candidate.preference = -<int64_t> least.cpus
        else:
            for kind in range(node.gres_kinds):
                if job.gres[kind] > 0:
                    asks = True
                    candidate.preference += gres_of(least)[kind]
            if not asks:
                candidate.preference = least.cpus


cdef int compare_candidates(const void* left, const void* right) noexcept nogil:
    cdef const NodeCandidate* first = <const NodeCandidate*> left
    cdef const NodeCandidate* second = <const NodeCandidate*> right
    if first.victims != second.victims:
        return -1 if first.victims < second.victims else 1
    if first.victims_cost != second.victims_cost:
        return -1 if first.victims_cost < second.victims_cost else 1
    if first.weight_class != second.weight_class:
        return -1 if first.weight_class < second.weight_class else 1
    if first.preference != second.preference:
        return -1 if first.preference < second.preference else 1
    return (first.rank > second.rank) - (first.rank < second.rank)


cdef int collect_candidates(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil:
    """Collects all candidates at a time, in node order."""
    cdef int32_t word, rank, tasks, count = 0
    cdef uint64_t bits
    cdef bint keyed = plan.basis == WITHOUT_VICTIMS or job.order_kind != 0
    cdef NodeCandidate* candidate
    cdef bint narrowed = False
    if plan.basis == PLANNED and job.tasks_floor == job.tasks_min:
        narrowed = known_shape(plan, job) != NULL
    if narrowed:
        mark_possible_nodes(plan, job, at_s)
    for word in range(plan.counts.mask_words):
        bits = job.mask[word] & plan.cluster.up[word] if only_up else job.mask[word]
        if narrowed:
            bits &= plan.scratch.possible[word]
        while bits:
            rank = (word << 6) + take_lowest_bit(&bits)
            tasks = tasks_on_node(plan, job, rank, at_s)
            if tasks:
                candidate = plan.scratch.candidates + count
                candidate.rank = rank
                candidate.tasks = tasks
                if keyed:
                    set_sort_keys(plan, job, candidate)
                count += 1
    if keyed:
        qsort(plan.scratch.candidates, count, sizeof(NodeCandidate), &compare_candidates)
    plan.scratch.candidates_count = count
    return 0


cdef int32_t first_fit(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil:
    """Applies rule 3 where only node order matters; returns how many nodes are picked, 0 = no fit, or SORT_NEEDED."""
    cdef int32_t word, rank, tasks, used = 0
    cdef int64_t room = 0
    cdef uint64_t bits
    cdef bint narrowed = False
    if plan.basis == PLANNED and (job.tasks_floor == job.tasks_min or job.tasks_floor == job.tasks_max):
        narrowed = known_shape(plan, job) != NULL
    if narrowed:
        mark_possible_nodes(plan, job, at_s)
    for word in range(plan.counts.mask_words):
        bits = job.mask[word] & plan.cluster.up[word] if only_up else job.mask[word]
        if narrowed:
            bits &= plan.scratch.possible[word]
        while bits:
            rank = (word << 6) + take_lowest_bit(&bits)
            tasks = tasks_on_node(plan, job, rank, at_s)
            if tasks < job.tasks_floor and (tasks == 0 or job.tasks_floor == job.tasks_max):
                continue
            if used == job.nodes_max:
                return SORT_NEEDED
            plan.picks.rank[used] = rank
            plan.picks.tasks[used] = tasks
            used += 1
            room += tasks
            if used >= job.nodes_min and room >= job.ntasks and not (job.spread and used < job.nodes_max):
                return used
    return used if used >= job.nodes_min and room >= job.ntasks else 0
