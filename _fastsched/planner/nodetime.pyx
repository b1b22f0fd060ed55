"""The time of a node, built when the node is first needed: what runs there, its reservations, what this pass took.

Reservations are views: the time of a node as the members of one see it. Nodes without blocks have one for all. When
victims are preempted, a node is simply rebuilt, and what rows of this pass have taken there is booked again.
"""

from libc.stdlib cimport qsort
from libc.string cimport memcpy, memmove, memset

from _fastsched.planner.basics cimport (
    ALL_BLOCKS, LEAF_BUSY, MARK_OF_BLOCK, NEVER, NOBODY, NO_BLOCKS, greater, lesser,
)
from _fastsched.planner.memory cimport allocate
from _fastsched.planner.records cimport PREEMPTABLE, PlannedUse, ReservedBlock
from _fastsched.planner.timeline cimport (
    Segment, add_occupant, gres_of, new_timeline, note_interval, save, segment_at, split_at, take_from,
)

cdef enum:
    FEW_PARTS = 32  # up to this number they are sorted by insertion


cdef struct PartByEnd:
    int64_t end_s
    int64_t part


cdef inline bint is_left_out(const PlanPass* plan, const PlanNode* node, int64_t part, LeftOut left_out) noexcept nogil:
    """Whether this part is left out. (Licenses of victims are released when these end, not before.)"""
    cdef int64_t run
    if left_out == NOTHING or is_license_node(plan, node):
        return False
    run = plan.input.running.part_run[part]
    if plan.preemption.gone[run]:
        return True
    return left_out == PREEMPTABLE and may_be_preempted(plan, run, plan.preemption.victim_classes)


cdef int latest_first(const void* left, const void* right) noexcept nogil:
    cdef const PartByEnd* first = <const PartByEnd*> left
    cdef const PartByEnd* second = <const PartByEnd*> right
    if first.end_s != second.end_s:
        return 1 if first.end_s < second.end_s else -1
    return (first.part > second.part) - (first.part < second.part)


cdef int sort_parts(PlanPass* plan, PlanNode* node) except -1 nogil:
    """Sorts a node's parts by end, the latest first: by insertion where they are few, which are often nearly sorted."""
    cdef int64_t i, hole, part, end_s, count = node.last_part - node.first_part
    cdef int64_t* parts = plan.cluster.parts + node.first_part
    cdef PartByEnd* by_end
    if count > FEW_PARTS:
        by_end = <PartByEnd*> allocate(&plan.arena, <size_t> count * sizeof(PartByEnd))
        for i in range(count):
            by_end[i].end_s = part_end(plan, node, parts[i])
            by_end[i].part = parts[i]
        qsort(by_end, count, sizeof(PartByEnd), &latest_first)
        for i in range(count):
            parts[i] = by_end[i].part
        return 0
    for i in range(1, count):
        part = parts[i]
        end_s = part_end(plan, node, part)
        hole = i
        while hole > 0 and part_end(plan, node, parts[hole - 1]) < end_s:
            parts[hole] = parts[hole - 1]
            hole -= 1
        parts[hole] = part
    return 0


cdef int all_free(PlanPass* plan, PlanNode* node, Segment* segment) except -1 nogil:
    """Returns what is free when everything that runs there has ended."""
    cdef int64_t i
    cdef int32_t kind
    cdef PlanDemand demand
    segment.cpus = node.free_cpus
    segment.mem_mb = node.free_mem_mb
    segment.jobs = 0
    segment.user = segment.exclusive_user = NOBODY
    segment.from_s = plan.limits.now_s
    for kind in range(node.gres_kinds):
        gres_of(segment)[kind] = node.free_gres[kind]
    for i in range(node.first_part, node.last_part):
        demand_of_part(plan, node, plan.cluster.parts[i], &demand)
        segment.cpus += demand.cpus
        segment.mem_mb += demand.mem_mb
        for kind in range(node.gres_kinds):
            gres_of(segment)[kind] += demand.gres[kind]
    return 0


cdef int lay_out_running(PlanPass* plan, PlanNode* node, LeftOut left_out, NodeTimeline* line) except -1 nogil:
    """Builds the timeline of what runs there, from its end, where all has ended, back to now."""
    cdef int64_t i
    cdef int32_t kind, at = line.capacity - 1
    cdef PlanDemand demand
    cdef Segment* segment = segment_at(line, at)
    cdef Segment* later
    all_free(plan, node, segment)
    for i in range(node.first_part, node.last_part):
        if is_left_out(plan, node, plan.cluster.parts[i], left_out):
            continue
        segment.from_s = part_end(plan, node, plan.cluster.parts[i])
        # A part that ends together with the one after it is in the same segment.
        if at + 1 == line.capacity or segment_at(line, at + 1).from_s != segment.from_s:
            later = segment
            at -= 1
            segment = segment_at(line, at)
            memcpy(segment, later, line.stride_bytes)
        demand_of_part(plan, node, plan.cluster.parts[i], &demand)
        segment.from_s = plan.limits.now_s
        segment.cpus -= demand.cpus
        segment.mem_mb -= demand.mem_mb
        for kind in range(line.gres_kinds):
            gres_of(segment)[kind] -= demand.gres[kind]
        add_occupant(segment, demand.user, demand.exclusive)
    if at:
        memmove(line.data, segment_at(line, at), <size_t> (line.capacity - at) * line.stride_bytes)
    line.count = line.capacity - at
    return 0


cdef bint has_part_of(const PlanPass* plan, const PlanNode* node, int64_t run) noexcept nogil:
    cdef int64_t part
    for part in range(node.first_part, node.last_part):
        if plan.input.running.part_run[plan.cluster.parts[part]] == run:
            return True
    return False


cdef int64_t leaf_busy_until(const PlanPass* plan, const PlanNode* node, LeftOut left_out) noexcept nogil:
    """Returns when all that runs on other nodes of the leaf has ended, as far as it is not left out (rule 9)."""
    cdef int32_t leaf = leaf_of(plan, plan.cluster.rank_of[node.index]), at
    cdef int64_t until_s = plan.limits.now_s, part, run
    cdef const PlanNode* other
    if left_out == NOTHING:
        return plan.cluster.leaf_busy_s[leaf]
    if not plan.preemption.for_leaves:
        return until_s
    for at in range(plan.cluster.leaf_first[leaf], plan.cluster.leaf_first[leaf + 1]):
        other = plan.cluster.nodes + plan.cluster.leaf_ranks[at]
        if other.index == node.index:
            continue
        for part in range(other.first_part, other.last_part):
            run = plan.input.running.part_run[plan.cluster.parts[part]]
            if not (
                is_left_out(plan, other, plan.cluster.parts[part], left_out)
                and (plan.preemption.gone[run] or has_part_of(plan, node, run))
            ):
                until_s = greater(until_s, part_end(plan, other, plan.cluster.parts[part]))
    return until_s


cdef int lay_out_view(
    PlanPass* plan, PlanNode* node, int32_t reservation, LeftOut left_out, NodeTimeline* line
) except -1 nogil:
    """Builds a node's time at the beginning of the pass, less the blocks that this view must not use."""
    cdef PlanDemand demand
    cdef ReservedBlock* block = node.blocks
    new_timeline(&plan.arena, line, node.gres_kinds, <int32_t> (node.last_part - node.first_part + 7))
    lay_out_running(plan, node, left_out, line)
    if plan.cluster.leaves_matter and not is_license_node(plan, node):
        note_interval(&plan.arena, line, plan.limits.now_s, leaf_busy_until(plan, node, left_out), False, LEAF_BUSY)
    while block != NULL:
        if reservation == ALL_BLOCKS or (reservation >= 0 and block.reservation != reservation):
            if block.cpus >= 0 or is_license_node(plan, node):
                demand = PlanDemand(mem_mb=block.mem_mb, cpus=block.cpus, user=0, exclusive=0, gres=block.gres)
                take_from(&plan.arena, &plan.undo, line, &demand, block.from_s, block.to_s, 0)
            elif block.cpus == MARK_OF_BLOCK:
                note_interval(&plan.arena, line, block.from_s, block.to_s, False, LEAF_BUSY)
            else:
                note_interval(&plan.arena, line, block.from_s, block.to_s, True, 0)
        block = block.next
    return 0


cdef int lay_out_own_blocks(PlanPass* plan, PlanNode* node, MembersView* view) except -1 nogil:
    """Builds the rest of a reservation's blocks on a node, as amounts by time."""
    cdef PlanDemand demand
    cdef ReservedBlock* block = node.blocks
    cdef int32_t kind
    cdef int32_t* negative = <int32_t*> allocate(&plan.arena, 4 * (node.gres_kinds + 1))
    new_timeline(&plan.arena, &view.own_blocks, node.gres_kinds, 6)
    memset(view.own_blocks.data, 0, view.own_blocks.stride_bytes)
    segment_at(&view.own_blocks, 0).from_s = plan.limits.now_s
    while block != NULL:
        if block.reservation == view.reservation and (block.cpus >= 0 or is_license_node(plan, node)):
            for kind in range(node.gres_kinds):
                negative[kind] = -block.gres[kind]
            demand = PlanDemand(mem_mb=-block.mem_mb, cpus=-block.cpus, user=0, exclusive=0, gres=negative)
            take_from(&plan.arena, &plan.undo, &view.own_blocks, &demand, block.from_s, block.to_s, 0)
        block = block.next
    return 0


cdef MembersView* new_view(PlanPass* plan, PlanNode* node, int32_t reservation, LeftOut left_out) except NULL nogil:
    cdef MembersView* view = <MembersView*> allocate(&plan.arena, sizeof(MembersView))
    view.reservation = reservation
    lay_out_view(plan, node, reservation, left_out, &view.timeline)
    view.next = node.views
    node.views = view
    return view


cdef int build_node(PlanPass* plan, PlanNode* node, LeftOut left_out) except -1 nogil:
    """Builds all views of a node, and books what this pass has taken there."""
    cdef ReservedBlock* block = node.blocks
    cdef MembersView* view
    cdef PlannedUse* use
    cdef PlannedUse* oldest
    cdef bint undo_active = plan.undo.active
    plan.undo.active = False
    node.built = True
    sort_parts(plan, node)
    lay_out_view(plan, node, ALL_BLOCKS, left_out, &node.timeline)
    node.views = NULL
    while block != NULL:
        if find_view(node, block.reservation) == NULL:
            view = new_view(plan, node, block.reservation, left_out)
            lay_out_own_blocks(plan, node, view)
        block = block.next
    if node.blocks != NULL:
        view = new_view(plan, node, NO_BLOCKS, left_out)
        new_timeline(&plan.arena, &view.own_blocks, node.gres_kinds, 1)
    use = oldest = reversed_uses(node.uses)
    while use != NULL:
        apply_use(plan, node, &use.demand, use.from_s, use.to_s, use.reservation)
        use = use.next
    node.uses = reversed_uses(oldest)
    plan.undo.active = undo_active
    return 0


cdef PlannedUse* reversed_uses(PlannedUse* use) noexcept nogil:
    """Reverses the list."""
    cdef PlannedUse* done = NULL
    cdef PlannedUse* next
    while use != NULL:
        next = use.next
        use.next = done
        done = use
        use = next
    return done


cdef NodeTimeline* timeline_without(PlanPass* plan, int32_t rank, LeftOut left_out, int32_t reservation) except NULL nogil:
    """Builds a node's time as if victims, or all that may be preempted, were gone. The caller rewinds its memory."""
    cdef PlanNode* copy = <PlanNode*> allocate(&plan.arena, sizeof(PlanNode))
    copy[0] = plan.cluster.nodes[rank]
    build_node(plan, copy, left_out)
    plan.cluster.nodes[rank].uses = copy.uses
    return timeline_in_view(copy, reservation)


cdef int apply_use(
    PlanPass* plan, PlanNode* node, const PlanDemand* demand, int64_t from_s, int64_t to_s, int32_t reservation
) except -1 nogil:
    """Books on all views; a member's share is taken from its blocks, and others lose only what exceeds these."""
    cdef MembersView* view
    cdef MembersView* own_view = NULL
    take_from(&plan.arena, &plan.undo, &node.timeline, demand, from_s, to_s, 1)
    if node.views == NULL:
        return 0
    view = node.views
    while view != NULL:
        take_from(&plan.arena, &plan.undo, &view.timeline, demand, from_s, to_s, 1)
        if view.reservation == reservation and reservation >= 0:
            own_view = view
        view = view.next
    if own_view != NULL:
        use_own_blocks(plan, node, own_view, demand, greater(from_s, plan.limits.now_s), to_s)
    return 0


cdef int use_own_blocks(
    PlanPass* plan, PlanNode* node, MembersView* own_view, const PlanDemand* demand, int64_t from_s, int64_t to_s
) except -1 nogil:
    """Takes from the blocks as much of it as they have, and returns that to all other views."""
    cdef NodeTimeline* blocks = &own_view.own_blocks
    cdef int32_t i, first, last
    cdef int64_t until_s
    cdef MembersView* view
    cdef PlanDemand given_back
    cdef int32_t* gres
    if to_s <= from_s:
        return 0
    gres = <int32_t*> allocate(&plan.arena, 4 * (node.gres_kinds + 1))
    if plan.undo.active:
        save(&plan.arena, &plan.undo, blocks)
    first = split_at(&plan.arena, blocks, from_s)
    last = split_at(&plan.arena, blocks, to_s) if to_s < NEVER else blocks.count
    for i in range(first, last):
        until_s = segment_at(blocks, i + 1).from_s if i + 1 < blocks.count else NEVER
        take_from_block(segment_at(blocks, i), demand, node.gres_kinds, gres, &given_back)
        from_s = segment_at(blocks, i).from_s
        take_from(&plan.arena, &plan.undo, &node.timeline, &given_back, from_s, until_s, 0)
        view = node.views
        while view != NULL:
            if view != own_view and view.reservation != NO_BLOCKS:
                take_from(&plan.arena, &plan.undo, &view.timeline, &given_back, from_s, until_s, 0)
            view = view.next
    return 0


cdef void take_from_block(
    Segment* block, const PlanDemand* demand, int32_t gres_kinds, int32_t* gres, PlanDemand* given_back
) noexcept nogil:
    """Takes as much as there is; `given_back` are the same amounts, negative, its GRES in `gres`."""
    cdef int64_t mem_mb = greater(0, lesser(demand.mem_mb, block.mem_mb))
    cdef int32_t cpus = <int32_t> greater(0, lesser(demand.cpus, block.cpus)), amount, kind
    block.mem_mb -= mem_mb
    block.cpus -= cpus
    for kind in range(gres_kinds):
        amount = <int32_t> greater(0, lesser(demand.gres[kind], gres_of(block)[kind]))
        gres_of(block)[kind] -= amount
        gres[kind] = -amount
    given_back[0] = PlanDemand(mem_mb=-mem_mb, cpus=-cpus, user=0, exclusive=0, gres=gres)


cdef int take_on_node(
    PlanPass* plan, int32_t rank, const PlanDemand* demand, int64_t from_s, int64_t to_s, int32_t reservation
) except -1 nogil:
    """Books what a row of this pass takes on a node."""
    cdef PlanNode* node = plan.cluster.nodes + rank
    cdef PlannedUse* use
    if not node.built:
        build_node(plan, node, NOTHING)
    if plan.cluster.keep_uses and not plan.undo.active:
        use = <PlannedUse*> allocate(&plan.arena, sizeof(PlannedUse))
        use[0] = PlannedUse(next=node.uses, demand=demand[0], reservation=reservation, from_s=from_s, to_s=to_s)
        node.uses = use
    if not plan.undo.active:
        plan.cluster.versions[rank] += 1
    return apply_use(plan, node, demand, from_s, to_s, reservation)
