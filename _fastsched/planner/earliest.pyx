"""Rule 4: the earliest time at which a row fits, with its nodes and its licenses.

For most rows the time is found from the gaps of their shape and nodes are chosen once. Rows for which more capacity may be
worse (groups, segments, switches) try the times of rule 0 one after the other.
"""

from libc.stdint cimport uint64_t

from _fastsched.planner.basics cimport MARK_OF_BLOCK, MARK_OF_LEAF, NEVER, WHOLE_LEAVES, lesser, take_lowest_bit
from _fastsched.planner.shapes cimport find_shape, known_shape
from _fastsched.planner.choose cimport choose_nodes
from _fastsched.planner.earliest_several cimport several_nodes_start
from _fastsched.planner.earliest_single cimport single_node_start
from _fastsched.planner.nodetime cimport demand_of_part, is_license_node, leaf_of, part_end, timeline_of
from _fastsched.planner.records cimport PLANNED, PlanNode, PlannedUse, ReservedBlock
from _fastsched.planner.timeline cimport earliest_fit, rounded_up


cdef int64_t licenses_free_from(
    PlanPass* plan, const PendingJob* job, int64_t from_s, int64_t limit_s, int32_t reservation
) except -1 nogil:
    """Returns the first time at which its licenses are free, as the members of that reservation see them."""
    cdef PlanDemand demand
    if job.licenses == NULL:
        return from_s
    license_demand(job, &demand)
    return earliest_fit(
        timeline_of(plan, plan.counts.nodes, reservation), &demand, plan.limits.resolution_s, from_s, job.length_s, limit_s
    )


cdef bint fits_at(PlanPass* plan, PendingJob* job, int64_t at_s) except -1 nogil:
    """Applies rules 3 and 4 at one time."""
    return licenses_free_from(plan, job, at_s, at_s, job.reservation) <= at_s and choose_nodes(plan, job, at_s, True)


cdef int64_t earliest_start(PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s) except -1 nogil:
    """Returns the earliest time of rule 0 from from_s to limit_s at which the job fits, with its picks; or NEVER."""
    cdef int64_t at_s = from_s, found_s
    cdef int32_t rank = -1
    plan.basis = PLANNED
    if job.impossible:
        return NEVER
    if known_shape(plan, job) == NULL:
        find_shape(plan, job)
    while at_s <= limit_s:
        found_s = licenses_free_from(plan, job, at_s, limit_s, job.reservation)
        if found_s > limit_s:
            return NEVER
        at_s = found_s
        if job.nodes_max == 1:
            found_s = single_node_start(plan, job, at_s, limit_s, &rank)
        else:
            found_s = several_nodes_start(plan, job, at_s, limit_s)
        if found_s > limit_s:
            return NEVER
        if found_s > at_s and job.licenses != NULL:
            at_s = found_s
            if licenses_free_from(plan, job, at_s, limit_s, job.reservation) > at_s:
                continue
        at_s = found_s
        if job.nodes_max == 1 and job.order_kind == 0 and not job.not_monotonic:
            plan.picks.rank[0] = rank
            plan.picks.tasks[0] = job.ntasks
            plan.picks.count = 1
            return at_s
        if choose_nodes(plan, job, at_s, True):
            return at_s
        at_s = next_end(plan, job, at_s)
    return NEVER


cdef int64_t next_end(PlanPass* plan, const PendingJob* job, int64_t after_s) except -1 nogil:
    """Returns the next time of rule 0, for rows for which more capacity may be worse."""
    cdef int32_t word, rank
    cdef uint64_t bits
    cdef int64_t next_s = NEVER
    for word in range(plan.counts.mask_words):
        bits = job.mask[word] & plan.cluster.up[word]
        while bits:
            rank = (word << 6) + take_lowest_bit(&bits)
            next_s = lesser(next_s, next_end_on_node(plan, job, plan.cluster.nodes + rank, after_s))
            if job.exclusive & WHOLE_LEAVES:
                next_s = lesser(next_s, next_end_on_leaf(plan, leaf_of(plan, rank), after_s))
    if job.licenses != NULL:
        next_s = lesser(next_s, next_end_on_node(plan, job, plan.cluster.nodes + plan.counts.nodes, after_s))
    return rounded_up(next_s, plan.limits.resolution_s)


cdef int64_t next_end_on_leaf(PlanPass* plan, int32_t leaf, int64_t after_s) noexcept nogil:
    """Returns the first end after a time of a running job under a leaf switch."""
    cdef int64_t next_s = NEVER, part, end_s
    cdef int32_t at
    cdef PlanNode* node
    for at in range(plan.cluster.leaf_first[leaf], plan.cluster.leaf_first[leaf + 1]):
        node = plan.cluster.nodes + plan.cluster.leaf_ranks[at]
        for part in range(node.first_part, node.last_part):
            end_s = part_end(plan, node, plan.cluster.parts[part])
            if end_s > after_s:
                next_s = lesser(next_s, end_s)
    return next_s


cdef int64_t next_end_on_node(PlanPass* plan, const PendingJob* job, const PlanNode* node, int64_t after_s) noexcept nogil:
    """Returns the first end after a time of anything on a node, or of licenses of a requested kind."""
    cdef int64_t next_s = NEVER, i, end_s
    cdef PlanDemand demand
    cdef const PlannedUse* use = node.uses
    cdef const ReservedBlock* block = node.blocks
    for i in range(node.first_part, node.last_part):
        demand_of_part(plan, node, plan.cluster.parts[i], &demand)
        end_s = part_end(plan, node, plan.cluster.parts[i])
        if after_s < end_s < next_s and concerns(plan, job, node, demand.gres):
            next_s = end_s
    while use != NULL:
        if after_s < use.to_s < next_s and concerns(plan, job, node, use.demand.gres):
            if use.demand.exclusive != MARK_OF_LEAF or job.exclusive & WHOLE_LEAVES:
                next_s = use.to_s
        use = use.next
    while block != NULL:
        if after_s < block.to_s < next_s and block.reservation != job.reservation:
            if block.cpus == MARK_OF_BLOCK and not job.exclusive & WHOLE_LEAVES:
                block = block.next
                continue
            if concerns(plan, job, node, block.gres):
                next_s = block.to_s
        block = block.next
    return next_s


cdef bint concerns(
    const PlanPass* plan, const PendingJob* job, const PlanNode* node, const int32_t* licenses
) noexcept nogil:
    """Whether the end matters: on a node always; of licenses only those of a kind that the job requests."""
    cdef int32_t kind
    if not is_license_node(plan, node):
        return True
    for kind in range(plan.counts.license_kinds):
        if job.licenses[kind] > 0 and licenses[kind] > 0:
            return True
    return False
