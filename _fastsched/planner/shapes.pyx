"""Known times (rule 4).

Within a pass nodes only fill up (victims aside), so an interval in which a node is not free for a shape stays so. For each
shape a `GapIndex` has all intervals in which a node may be free: at first one a node, from now on forever. A gap that a
search reaches is compared with the node's time, unless that has not changed since, and is replaced by what remains of it:
as far as the search needs, the rest stays one gap. So the first gap in order that is long enough, and is not replaced, is
the result, and each change of a node's time is read once by each shape that reaches it.

Gaps shorter than any row of the pass are left out. `earliest_s` are, by class of durations, the times before which no gap
is long enough; they only rise. Victims of preemption reset the gaps of their nodes.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from _fastsched.planner.basics cimport NEVER, count_leading_zeros, greater, has_bit, lesser, mix_hash, set_bit
from _fastsched.planner.demand cimport demand_of
from _fastsched.planner.firstgaps cimport look_ahead
from _fastsched.planner.gaps cimport (
    GAPS_PER_BLOCK, GapBlock, TimeGap, append_gap, clear_gaps, find_long, gap_at, insert_gap, place_of, remove_gap,
    remove_gaps_of, reserve_blocks,
)
from _fastsched.planner.memory cimport allocate
from _fastsched.planner.nodetime cimport timeline_of
from _fastsched.planner.timeline cimport (
    NodeTimeline, PlanDemand, Segment, rounded_up, satisfies, segment_at, segment_index,
)


cdef struct Refinement:  # of one gap
    TimeGap old
    GapPlace place  # of the old gap, while it exists
    bint there
    int32_t version  # the node's


cdef bint is_shape_of(const PlanPass* plan, const PlanShape* shape, const PendingJob* job) noexcept nogil:
    cdef int32_t kind
    if (
        shape.mem_node_mb != job.mem_node_mb
        or shape.mem_cpu_mb != job.mem_cpu_mb
        or shape.tasks_floor != job.tasks_floor
        or shape.cpus_per_task != job.cpus_per_task
        or shape.cpu_units != job.cpu_units
        or shape.exclusive != job.exclusive
        or (plan.cluster.users_matter and shape.user != job.user)
        or shape.reservation != job.reservation
        or shape.frequent_mask != job.frequent_mask
    ):
        return False
    for kind in range(plan.counts.gres_kinds):
        if shape.gres[kind] != job.gres[kind]:
            return False
    return True


cdef uint64_t hash_of_shape(const PlanPass* plan, const PendingJob* job) noexcept nogil:
    cdef uint64_t hash = mix_hash(mix_hash(job.mem_node_mb, job.mem_cpu_mb), job.tasks_floor)
    cdef int32_t kind
    hash = mix_hash(hash, <uint64_t> job.cpus_per_task << 32 | <uint32_t> job.cpu_units)
    hash = mix_hash(hash, <uint64_t> <uint32_t> job.reservation << 8 | <uint32_t> job.exclusive)
    hash = mix_hash(hash, <uint32_t> job.frequent_mask)
    if plan.cluster.users_matter:
        hash = mix_hash(hash, <uint32_t> job.user)
    for kind in range(plan.counts.gres_kinds):
        hash = mix_hash(hash, <uint32_t> job.gres[kind])
    return hash


cdef int fill_gaps(PlanPass* plan, PlanShape* shape) except -1 nogil:
    """Initialises one gap for each node that is up: nothing is known."""
    cdef TimeGap gap = TimeGap(from_s=plan.limits.now_s, to_s=NEVER, rank=0, version=UNKNOWN)
    cdef int32_t rank, i
    reserve_blocks(&plan.arena, &plan.shapes.pool, &shape.gaps, plan.counts.nodes // GAPS_PER_BLOCK + 1)
    for rank in range(plan.counts.nodes):
        if has_bit(plan.cluster.up, rank) and (shape.mask == NULL or has_bit(shape.mask, rank)):
            gap.rank = rank
            append_gap(&plan.arena, &plan.shapes.pool, &shape.gaps, &gap)
    for i in range(plan.shapes.length_classes):
        shape.earliest_s[i] = plan.limits.now_s
    shape.searches = 0
    return 0


cdef PlanShape* new_shape(PlanPass* plan, const PendingJob* job) except NULL nogil:
    cdef PlanShape* shape = plan.shapes.list + plan.shapes.count
    plan.shapes.count += 1
    if plan.shapes.count > plan.shapes.allocated:
        plan.shapes.allocated = plan.shapes.count
        memset(shape, 0, sizeof(PlanShape))
        shape.earliest_s = <int64_t*> allocate(&plan.arena, 8 * <size_t> plan.shapes.length_classes)
    shape.mem_node_mb = job.mem_node_mb
    shape.mem_cpu_mb = job.mem_cpu_mb
    shape.gres = job.gres
    shape.tasks_floor = job.tasks_floor
    shape.cpus_per_task = job.cpus_per_task
    shape.cpu_units = job.cpu_units
    shape.exclusive = job.exclusive
    shape.user = job.user
    shape.reservation = job.reservation
    shape.frequent_mask = job.frequent_mask
    shape.mask = job.mask if job.frequent_mask >= 0 else NULL
    shape.nodes_s = shape.tasks_s = NULL
    fill_gaps(plan, shape)
    return shape


cdef int find_shape(PlanPass* plan, PendingJob* job) except -1 nogil:
    """Sets the shape of a row; creates it if there is none."""
    cdef uint64_t hash = hash_of_shape(plan, job)
    cdef PlanShape** bucket = plan.shapes.buckets + (hash & <uint64_t> (BUCKETS - 1))
    cdef PlanShape* shape = bucket[0]
    if plan.shapes.pool.used > plan.shapes.blocks_max:
        forget_shapes(plan)
        shape = NULL
    while shape != NULL and not (shape.hash == hash and is_shape_of(plan, shape, job)):
        shape = shape.next
    if shape == NULL:
        if plan.shapes.count == plan.shapes.count_max:
            forget_shapes(plan)
        shape = new_shape(plan, job)
        shape.hash = hash
        shape.next = bucket[0]
        bucket[0] = shape
    job.shape = shape
    job.generation = plan.shapes.generation
    return 0


cdef void forget_shapes(PlanPass* plan) noexcept nogil:
    """Memory is bounded: drops all gaps."""
    cdef int32_t i
    for i in range(plan.shapes.count):
        clear_gaps(&plan.shapes.pool, &plan.shapes.list[i].gaps)
    memset(plan.shapes.buckets, 0, sizeof(PlanShape*) * BUCKETS)
    plan.shapes.count = 0
    plan.shapes.generation += 1


cdef void forget_bounds(PlanPass* plan, int64_t* bounds, int32_t amounts) noexcept nogil:
    cdef int64_t i
    if bounds != NULL:
        for i in range(<int64_t> amounts * plan.shapes.length_classes):
            bounds[i] = plan.limits.now_s


cdef int reset_node(PlanPass* plan, int32_t rank) except -1 nogil:
    """Resets the gaps of a node on which something was released."""
    cdef TimeGap gap = TimeGap(from_s=plan.limits.now_s, to_s=NEVER, rank=rank, version=UNKNOWN)
    cdef PlanShape* shape
    cdef int32_t i, k
    if not has_bit(plan.cluster.up, rank):
        return 0
    for i in range(plan.shapes.count):
        shape = plan.shapes.list + i
        if shape.mask != NULL and not has_bit(shape.mask, rank):
            continue
        remove_gaps_of(&plan.shapes.pool, &shape.gaps, rank)
        insert_gap(&plan.arena, &plan.shapes.pool, &shape.gaps, &gap)
        for k in range(plan.shapes.length_classes):
            shape.earliest_s[k] = plan.limits.now_s
        forget_bounds(plan, shape.nodes_s, plan.shapes.node_classes)
        forget_bounds(plan, shape.tasks_s, plan.shapes.task_classes)
    return 0


cdef inline int32_t class_of_length(const PlanPass* plan, const PendingJob* job, int64_t* shortest_s) noexcept nogil:
    """Returns the class of a row's duration, among those of the pass, and the shortest of the class."""
    return length_class_of(lesser(job.length_s, plan.shapes.longest_s), shortest_s) - plan.shapes.first_class


cdef inline void raise_earliest(
    const PlanPass* plan, PlanShape* shape, int32_t length_class, int64_t earliest_s
) noexcept nogil:
    """Raises the bound of a class of durations, and of all longer ones."""
    while length_class < plan.shapes.length_classes and shape.earliest_s[length_class] < earliest_s:
        shape.earliest_s[length_class] = earliest_s
        length_class += 1


cdef bint first_long_gap(PlanPass* plan, const PendingJob* job, int64_t limit_s, GapPlace* place) except -1 nogil:
    """Finds the first gap that is as long as the job; False if there is none up to limit_s."""
    cdef PlanShape* shape = job.shape
    cdef int64_t shortest_s
    cdef int32_t length_class = class_of_length(plan, job, &shortest_s)
    if shape.earliest_s[length_class] > limit_s:
        return False
    if shape.searches < 2:
        look_ahead(plan, job)
    place[0] = place_of(&shape.gaps, shape.earliest_s[length_class], UNKNOWN)
    if not find_long(&shape.gaps, shortest_s, 0, place):
        raise_earliest(plan, shape, length_class, NEVER)
        return False
    raise_earliest(plan, shape, length_class, gap_at(&shape.gaps, place[0]).from_s)
    return find_long(&shape.gaps, job.length_s, 0, place) and gap_at(&shape.gaps, place[0]).from_s <= limit_s


cdef inline int32_t class_at_least(int64_t amount) noexcept nogil:
    """Returns the first class whose members are all at least this amount."""
    cdef int64_t least
    cdef int32_t found = length_class_of(amount, &least)
    return found if least == amount else found + 1


cdef int64_t bound_of(
    const PlanPass* plan, const PendingJob* job, const int64_t* bounds, int32_t amounts, int32_t amount
) noexcept nogil:
    """Returns a time before which that amount is not free at once for the job's duration."""
    cdef int64_t least
    cdef int32_t length_class = class_of_length(plan, job, &least)
    if bounds == NULL:
        return plan.limits.now_s
    return bounds[min(length_class_of(amount, &least), amounts - 1) * plan.shapes.length_classes + length_class]


cdef int note_bound(
    PlanPass* plan, const PendingJob* job, int64_t** bounds, int32_t amounts, int32_t amount, int64_t at_s
) except -1 nogil:
    """Raises that bound for this amount, for larger ones, and for longer durations."""
    cdef int32_t classes = plan.shapes.length_classes, amount_class, length_class
    cdef int32_t shortest = class_at_least(job.length_s) - plan.shapes.first_class
    cdef int64_t* earliest_s
    if bounds[0] == NULL:
        bounds[0] = <int64_t*> allocate(&plan.arena, 8 * <size_t> amounts * <size_t> classes)
        forget_bounds(plan, bounds[0], amounts)
    for amount_class in range(class_at_least(amount), amounts):
        earliest_s = bounds[0] + <int64_t> amount_class * classes
        length_class = shortest
        while length_class < classes and earliest_s[length_class] < at_s:
            earliest_s[length_class] = at_s
            length_class += 1
        if length_class == shortest:
            break
    return 0


cdef int64_t earliest_together(const PlanPass* plan, const PendingJob* job, int32_t nodes) noexcept nogil:
    """Returns a time before which so many nodes, or room for the job's tasks, are not free at once for its duration."""
    cdef int64_t found_s
    if nodes > plan.counts.nodes:
        return NEVER
    found_s = bound_of(plan, job, job.shape.nodes_s, plan.shapes.node_classes, nodes)
    if job.any_nodes:
        found_s = greater(found_s, bound_of(plan, job, job.shape.tasks_s, plan.shapes.task_classes, job.ntasks))
    return found_s


cdef int note_nodes_together(PlanPass* plan, const PendingJob* job, int32_t nodes, int64_t at_s) except -1 nogil:
    """Raises the bound for so many nodes to a start that was found."""
    return note_bound(plan, job, &job.shape.nodes_s, plan.shapes.node_classes, nodes, at_s)


cdef int note_tasks_together(PlanPass* plan, const PendingJob* job, int64_t at_s) except -1 nogil:
    """Raises the bound for the job's number of tasks to a start that was found."""
    return note_bound(plan, job, &job.shape.tasks_s, plan.shapes.task_classes, job.ntasks, at_s)


cdef int leave(PlanPass* plan, PlanShape* shape, Refinement* refined, int64_t from_s, int64_t to_s, int32_t version) except -1 nogil:
    """Keeps a part of the old gap."""
    cdef TimeGap gap = TimeGap(from_s=from_s, to_s=to_s, rank=refined.old.rank, version=version)
    if to_s - from_s < plan.shapes.shortest_s:
        return 0
    if refined.there:
        refined.there = False
        if from_s == refined.old.from_s:
            gap_at(&shape.gaps, refined.place).to_s = to_s
            gap_at(&shape.gaps, refined.place).version = version
            return 0
        remove_gap(&plan.shapes.pool, &shape.gaps, refined.place)
    return insert_gap(&plan.arena, &plan.shapes.pool, &shape.gaps, &gap)


cdef int64_t refine_gap(
    PlanPass* plan, const PendingJob* job, GapPlace place, int64_t from_s, int64_t limit_s, int64_t* to_s
) except -1 nogil:
    """Replaces a gap by what remains of it, up to the first part in which the job fits from from_s on; returns its start, with
    its end in `to_s`. Nothing past limit_s is read; NEVER if there is none up to there."""
    cdef PlanShape* shape = job.shape
    cdef Refinement refined
    cdef PlanDemand demand
    cdef int64_t found_s
    refined.old = gap_at(&shape.gaps, place)[0]
    refined.place = place
    refined.there = True
    refined.version = plan.cluster.versions[refined.old.rank]
    found_s = NEVER
    if demand_of(job, plan.cluster.nodes + refined.old.rank, job.tasks_floor, &demand):
        found_s = leave_free_parts(plan, job, &refined, &demand, from_s, limit_s, to_s)
    if refined.there:
        remove_gap(&plan.shapes.pool, &shape.gaps, refined.place)
    return found_s


cdef int64_t leave_free_parts(
    PlanPass* plan, const PendingJob* job, Refinement* refined, const PlanDemand* demand, int64_t from_s, int64_t limit_s,
    int64_t* to_s,
) except -1 nogil:
    """Does the work of refine_gap, along the node's time."""
    cdef const NodeTimeline* line = timeline_of(plan, refined.old.rank, job.reservation)
    cdef int64_t free_s = refined.old.from_s, end_s = refined.old.to_s
    cdef int32_t index = segment_index(line, free_s)
    cdef const Segment* segment
    cdef PlanShape* shape = job.shape
    while index < line.count:
        segment = segment_at(line, index)
        if segment.from_s >= end_s:
            break
        if not satisfies(segment, demand, line.gres_kinds):
            if segment.from_s > free_s:
                leave(plan, shape, refined, free_s, segment.from_s, refined.version)
                to_s[0] = segment.from_s
            if index + 1 == line.count:
                return free_s if segment.from_s - greater(free_s, from_s) >= job.length_s else NEVER
            if segment.from_s - greater(free_s, from_s) >= job.length_s:
                leave(plan, shape, refined, rounded_up(segment_at(line, index + 1).from_s, plan.limits.resolution_s), end_s, UNKNOWN)
                return free_s
            free_s = rounded_up(segment_at(line, index + 1).from_s, plan.limits.resolution_s)
            if free_s > limit_s:
                leave(plan, shape, refined, free_s, end_s, UNKNOWN)
                return NEVER
            while index + 2 < line.count and segment_at(line, index + 2).from_s <= free_s:
                index += 1
        index += 1
    leave(plan, shape, refined, free_s, end_s, refined.version)
    to_s[0] = end_s
    return free_s if end_s - greater(free_s, from_s) >= job.length_s else NEVER


cdef int mark_possible_nodes(PlanPass* plan, const PendingJob* job, int64_t at_s) except -1 nogil:
    """Fills `scratch.possible` with the nodes that may hold the job from at_s on."""
    cdef PlanShape* shape = job.shape
    cdef int64_t shortest_s, latest_s, end_s = at_s + job.length_s
    cdef GapPlace place
    cdef int32_t block, i
    cdef const GapBlock* gaps
    memset(plan.scratch.possible, 0, 8 * (<size_t> plan.counts.mask_words + 1))
    place = place_of(&shape.gaps, shape.earliest_s[class_of_length(plan, job, &shortest_s)], UNKNOWN)
    for block in range(place.block, shape.gaps.count):
        if shape.gaps.first_s[block] > at_s:
            break
        if shape.gaps.latest_s[block] < end_s:
            continue
        gaps = shape.gaps.blocks[block]
        latest_s = 0
        for i in range(gaps.count):
            latest_s = greater(latest_s, gaps.gaps[i].to_s)
            if gaps.gaps[i].from_s <= at_s and gaps.gaps[i].to_s >= end_s:
                set_bit(plan.scratch.possible, gaps.gaps[i].rank)
        shape.gaps.latest_s[block] = latest_s
    return 0
