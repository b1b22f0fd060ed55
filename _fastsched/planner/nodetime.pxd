# The time of a node: what runs there, its reservations, and what this pass took.

from libc.stdint cimport int32_t, int64_t, uint64_t

from _fastsched.planner.basics cimport ALL_BLOCKS, NEVER, greater, lesser
from _fastsched.planner.records cimport NOTHING, LeftOut, MembersView, PlanNode, PlanPass
from _fastsched.planner.timeline cimport NodeTimeline, PlanDemand

cdef int build_node(PlanPass* plan, PlanNode* node, LeftOut left_out) except -1 nogil
cdef NodeTimeline* timeline_without(PlanPass* plan, int32_t rank, LeftOut left_out, int32_t reservation) except NULL nogil
cdef int take_on_node(
    PlanPass* plan, int32_t rank, const PlanDemand* demand, int64_t from_s, int64_t to_s, int32_t reservation
) except -1 nogil


cdef inline bint is_license_node(const PlanPass* plan, const PlanNode* node) noexcept nogil:
    return node.index == plan.counts.nodes


cdef inline int32_t leaf_of(const PlanPass* plan, int32_t rank) noexcept nogil:
    """Returns the leaf switch above a node; without switches each node is its own."""
    cdef int32_t index = plan.cluster.nodes[rank].index
    return plan.input.nodes.switches[index] if plan.counts.switch_levels else index


cdef inline bint may_be_preempted(const PlanPass* plan, int64_t run, uint64_t classes) noexcept nogil:
    cdef int32_t own_class = plan.input.running.run_class[run]
    return 0 <= own_class < 64 and (classes >> own_class) & 1 and not plan.preemption.gone[run]


cdef inline int64_t part_end(const PlanPass* plan, const PlanNode* node, int64_t part) noexcept nogil:
    """Returns when this is released; licenses are parts of no node, one for each running job."""
    cdef int64_t run = part if is_license_node(plan, node) else plan.input.running.part_run[part]
    cdef int64_t soonest_s = plan.limits.now_s + 1
    if plan.preemption.gone[run]:
        return soonest_s
    return lesser(greater(plan.input.running.run_end_s[run], soonest_s), NEVER)


cdef inline void demand_of_part(
    const PlanPass* plan, const PlanNode* node, int64_t part, PlanDemand* demand
) noexcept nogil:
    cdef int64_t run
    if is_license_node(plan, node):
        demand.cpus = demand.user = demand.exclusive = 0
        demand.mem_mb = 0
        demand.gres = plan.input.running.run_licenses + part * plan.counts.license_kinds
        return
    run = plan.input.running.part_run[part]
    demand.cpus = plan.input.running.part_cpus[part]
    demand.mem_mb = plan.input.running.part_mem_mb[part]
    demand.gres = plan.input.running.part_gres + part * plan.counts.gres_kinds
    demand.user = plan.input.running.run_user[run]
    demand.exclusive = plan.input.running.run_exclusive[run]


cdef inline MembersView* find_view(const PlanNode* node, int32_t reservation) noexcept nogil:
    cdef MembersView* view = node.views
    while view != NULL:
        if view.reservation == reservation:
            return view
        view = view.next
    return NULL


cdef inline NodeTimeline* timeline_in_view(PlanNode* node, int32_t reservation) noexcept nogil:
    cdef MembersView* view
    if node.views == NULL or reservation == ALL_BLOCKS:
        return &node.timeline
    view = find_view(node, reservation)
    return &node.timeline if view == NULL else &view.timeline


cdef inline NodeTimeline* timeline_of(PlanPass* plan, int32_t rank, int32_t reservation) except NULL nogil:
    """Returns the time of a node as a row of that reservation sees it."""
    cdef PlanNode* node = plan.cluster.nodes + rank
    if not node.built:
        build_node(plan, node, NOTHING)
    return timeline_in_view(node, reservation)
