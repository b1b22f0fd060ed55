"""The first tables of a pass: validates all indices, orders nodes by rank, allocates memory for choices."""

from libc.stdint cimport INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from _fastsched.planner.basics cimport NEVER, ONE_USER, WHOLE_LEAVES, greater, lesser, set_bit
from _fastsched.planner.shapes cimport BUCKETS, length_class_of
from _fastsched.planner.columns cimport AxisLengths, PlanningInput
from _fastsched.planner.events cimport TimelineEvent
from _fastsched.planner.gaps cimport GapBlock
from _fastsched.planner.leaves cimport mark_blocks, prepare_leaves
from _fastsched.planner.memory cimport allocate, allocate_zeroed, append_int32
from _fastsched.planner.records cimport (
    NodeCandidate, Picks, PlanCluster, PlanNode, PlanShape, ReservedBlock, Scratch, SeenJob,
)
from _fastsched.planner.timeline cimport Segment

cdef enum:
    FREQUENT_ROWS = 32  # masks of so many rows get gaps of their own
    LONGEST_S = 1 << 22  # all longer rows are in one class of durations
    GAP_BYTES = 256 << 20  # maximum memory of gaps before all are dropped


cdef bint prepare(PlanPass* plan) except -1 nogil:
    """Returns False for invalid input."""
    plan.cluster.rank_of = <int32_t*> allocate(&plan.arena, 4 * (<size_t> plan.counts.nodes + 1))
    if not (order_is_valid(plan) and rows_are_valid(plan) and indices_are_valid(plan)):
        return False
    prepare_nodes(plan)
    prepare_parts(plan)
    prepare_leaves(plan)
    prepare_blocks(plan)
    mark_blocks(plan)
    prepare_shapes(plan)
    prepare_scratch(plan)
    prepare_answer(plan)
    return True


cdef inline bint in_range(const int32_t* index, int64_t count, int64_t low, int64_t high) noexcept nogil:
    cdef int64_t i
    cdef bint good = True
    for i in range(count):
        good = good and low <= index[i] < high
    return good


cdef bint order_is_valid(PlanPass* plan) noexcept nogil:
    """Checks that each node is in `order` once, and sizes are not negative. Fills rank_of."""
    cdef const PlanningInput* given = &plan.input
    cdef int32_t* rank_of = plan.cluster.rank_of
    cdef int64_t i
    cdef bint good = True
    plan.cluster.in_index_order = True
    for i in range(plan.counts.nodes):
        rank_of[i] = -1
    for i in range(plan.counts.nodes):
        if not 0 <= given.nodes.order[i] < plan.counts.nodes or rank_of[given.nodes.order[i]] >= 0:
            return False
        rank_of[given.nodes.order[i]] = <int32_t> i
        plan.cluster.in_index_order = plan.cluster.in_index_order and given.nodes.order[i] == i
        good = good and given.nodes.total_cpus[i] >= 0 and given.nodes.total_mem_mb[i] >= 0
        good = good and given.nodes.cpu_quantum[i] >= 1
    for i in range(<int64_t> plan.counts.nodes * plan.counts.gres_kinds):
        good = good and given.nodes.total_gres[i] >= 0
    return good


cdef bint rows_are_valid(PlanPass* plan) noexcept nogil:
    """Checks that rows refer to existing jobs, masks, reservations and groups. Notes which features the pass needs."""
    cdef const PlanningInput* given = &plan.input
    cdef const AxisLengths* counts = &plan.counts
    cdef int64_t i, row
    cdef bint good = True
    for i in range(counts.rows):
        row = given.rows[i]
        if not 0 <= row < counts.job_rows:
            return False
        good = good and 0 <= given.jobs.mask[row] < counts.masks
        good = good and -1 <= given.jobs.resv[row] < counts.reservations
        good = good and -1 <= given.jobs.group[row] < counts.group_bounds - 1
        plan.cluster.users_matter = plan.cluster.users_matter or given.jobs.exclusive[row] == ONE_USER
        plan.cluster.leaves_matter = plan.cluster.leaves_matter or (given.jobs.exclusive[row] & WHOLE_LEAVES) != 0
        plan.cluster.keep_uses = (
            plan.cluster.keep_uses
            or given.jobs.group[row] >= 0
            or given.jobs.switches_max[row] > 0
            or given.jobs.segment[row] > 0
            or given.jobs.het[row] > 0
            or given.jobs.preempts[row] != 0
        )
    return good


cdef bint indices_are_valid(PlanPass* plan) noexcept nogil:
    """Checks the rest of contract.check, without messages."""
    cdef const PlanningInput* given = &plan.input
    cdef const AxisLengths* counts = &plan.counts
    cdef int64_t i
    cdef bint good = True
    if counts.group_bounds < 1 or given.group_first[0] != 0:
        return False
    if given.group_first[counts.group_bounds - 1] != counts.group_entries:
        return False
    for i in range(counts.group_bounds - 1):
        good = good and given.group_first[i] <= given.group_first[i + 1]
    for i in range(counts.parts):
        good = good and -1 <= given.running.part_run[i] < counts.running
        good = good and (given.running.part_run[i] < 0 or 0 <= given.running.part_node[i] < counts.nodes)
    return (
        good
        and in_range(given.reservations.resv_mask, counts.reservations, 0, counts.masks)
        and in_range(given.reservations.block_resv, counts.blocks, 0, counts.reservations)
        and in_range(given.reservations.block_node, counts.blocks, 0, counts.nodes)
        and in_range(given.reservations.licblock_resv, counts.license_blocks, 0, counts.reservations)
        and in_range(given.reservations.licblock_kind, counts.license_blocks, 0, counts.license_kinds)
        and in_range(given.group_mask, counts.group_entries, 0, counts.masks)
        and in_range(given.nodes.switches, <int64_t> counts.switch_levels * counts.nodes, 0, max(counts.nodes, 1))
    )


cdef int prepare_nodes(PlanPass* plan) except -1 nogil:
    """Builds nodes by rank, and the node of the licenses."""
    cdef const PlanningInput* given = &plan.input
    cdef PlanCluster* cluster = &plan.cluster
    cdef size_t mask_bytes = 8 * (<size_t> plan.counts.mask_words + 1)
    cdef PlanNode* node
    cdef int32_t rank, index
    cluster.nodes = <PlanNode*> allocate_zeroed(&plan.arena, (<size_t> plan.counts.nodes + 1) * sizeof(PlanNode))
    cluster.versions = <int32_t*> allocate_zeroed(&plan.arena, 4 * (<size_t> plan.counts.nodes + 1))
    cluster.masks = <const uint64_t**> allocate_zeroed(&plan.arena, 8 * (<size_t> plan.counts.masks + 1))
    cluster.up = <uint64_t*> allocate_zeroed(&plan.arena, mask_bytes)
    plan.progress.waited_for = <uint64_t*> allocate_zeroed(&plan.arena, mask_bytes)
    cluster.all_up = True
    for rank in range(plan.counts.nodes):
        index = given.nodes.order[rank]
        node = cluster.nodes + rank
        node.index = index
        node.total_cpus = given.nodes.total_cpus[index]
        node.cpus = <int32_t> (node.total_cpus // plan.limits.units_per_cpu)
        node.cpu_quantum = given.nodes.cpu_quantum[index]
        node.weight_class = given.nodes.weight_class[index]
        node.gres_kinds = plan.counts.gres_kinds
        node.up = given.nodes.up[index] != 0
        node.free_cpus = given.nodes.free_cpus[index]
        node.free_mem_mb = given.nodes.free_mem_mb[index]
        node.total_mem_mb = given.nodes.total_mem_mb[index]
        node.free_gres = given.nodes.free_gres + <int64_t> index * plan.counts.gres_kinds
        node.total_gres = given.nodes.total_gres + <int64_t> index * plan.counts.gres_kinds
        if node.up:
            set_bit(cluster.up, rank)
        else:
            cluster.all_up = False
    node = cluster.nodes + plan.counts.nodes
    node.index = plan.counts.nodes
    node.gres_kinds = plan.counts.license_kinds
    node.free_gres = given.free_licenses
    return 0


cdef int prepare_parts(PlanPass* plan) except -1 nogil:
    """Builds what runs: the parts of a node together, and each running job as its one part of the licenses."""
    cdef const PlanningInput* given = &plan.input
    cdef PlanCluster* cluster = &plan.cluster
    cdef PlanNode* node
    cdef int32_t rank, run
    cdef int64_t i, first = 0, count
    cluster.parts = <int64_t*> allocate(&plan.arena, 8 * (plan.counts.parts + plan.counts.running + 1))
    for i in range(plan.counts.parts):
        if given.running.part_run[i] >= 0:
            cluster.nodes[cluster.rank_of[given.running.part_node[i]]].last_part += 1
    for rank in range(plan.counts.nodes):
        node = cluster.nodes + rank
        count = node.last_part
        node.first_part = node.last_part = first
        first += count
    for i in range(plan.counts.parts):
        if given.running.part_run[i] >= 0:
            node = cluster.nodes + cluster.rank_of[given.running.part_node[i]]
            cluster.parts[node.last_part] = i
            node.last_part += 1
    node = cluster.nodes + plan.counts.nodes
    node.first_part = first
    node.last_part = first + plan.counts.running
    plan.preemption.gone = <uint8_t*> allocate_zeroed(&plan.arena, plan.counts.running + 1)
    for run in range(plan.counts.running):
        cluster.parts[first + run] = run
        cluster.users_matter = cluster.users_matter or given.running.run_exclusive[run] == 2
        if 0 <= given.running.run_class[run] < 64:
            plan.preemption.classes |= <uint64_t> 1 << given.running.run_class[run]
    return 0


cdef int prepare_blocks(PlanPass* plan) except -1 nogil:
    """Builds each node's list of blocks; those of licenses are blocks of their node."""
    cdef const PlanningInput* given = &plan.input
    cdef ReservedBlock* block
    cdef PlanNode* node
    cdef int64_t i
    cdef int32_t* gres
    for i in range(plan.counts.blocks):
        block = <ReservedBlock*> allocate(&plan.arena, sizeof(ReservedBlock))
        node = plan.cluster.nodes + plan.cluster.rank_of[given.reservations.block_node[i]]
        block.reservation = given.reservations.block_resv[i]
        block.cpus = given.reservations.block_cpus[i]
        block.mem_mb = given.reservations.block_mem_mb[i]
        block.gres = given.reservations.block_gres + i * plan.counts.gres_kinds
        block.from_s = given.reservations.block_from_s[i]
        block.to_s = lesser(given.reservations.block_to_s[i], NEVER)
        block.next = node.blocks
        node.blocks = block
    node = plan.cluster.nodes + plan.counts.nodes
    for i in range(plan.counts.license_blocks):
        block = <ReservedBlock*> allocate(&plan.arena, sizeof(ReservedBlock))
        gres = <int32_t*> allocate_zeroed(&plan.arena, 4 * (<size_t> plan.counts.license_kinds + 1))
        gres[given.reservations.licblock_kind[i]] = given.reservations.licblock_count[i]
        block.reservation = given.reservations.licblock_resv[i]
        block.cpus = 0
        block.mem_mb = 0
        block.gres = gres
        block.from_s = given.reservations.licblock_from_s[i]
        block.to_s = lesser(given.reservations.licblock_to_s[i], NEVER)
        block.next = node.blocks
        node.blocks = block
    return 0


cdef int prepare_shapes(PlanPass* plan) except -1 nogil:
    """Initialises shapes: none; which masks are frequent, and the shortest duration of all rows."""
    cdef const PlanningInput* given = &plan.input
    cdef int64_t i, least, count = lesser(plan.counts.rows, plan.limits.rows_max)
    cdef int32_t most_nodes = 1, most_tasks = 1
    cdef int32_t* rows_of_mask = <int32_t*> allocate_zeroed(&plan.arena, 4 * (<size_t> plan.counts.masks + 1))
    plan.shapes.is_frequent = <uint8_t*> allocate_zeroed(&plan.arena, <size_t> plan.counts.masks + 1)
    plan.shapes.shortest_s = NEVER
    for i in range(count):
        rows_of_mask[given.jobs.mask[given.rows[i]]] += 1
        plan.shapes.shortest_s = lesser(plan.shapes.shortest_s, given.jobs.limit_min_s[given.rows[i]])
        most_nodes = max(most_nodes, given.jobs.nodes_min[given.rows[i]])
        most_tasks = max(most_tasks, given.jobs.ntasks[given.rows[i]])
        plan.shapes.longest_s = greater(plan.shapes.longest_s, given.jobs.limit_min_s[given.rows[i]])
    plan.shapes.shortest_s = greater(plan.shapes.shortest_s, 1)
    plan.shapes.longest_s = greater(lesser(plan.shapes.longest_s, LONGEST_S), plan.shapes.shortest_s)
    plan.shapes.first_class = length_class_of(plan.shapes.shortest_s, &least)
    plan.shapes.length_classes = length_class_of(plan.shapes.longest_s, &least) + 1 - plan.shapes.first_class
    plan.shapes.node_classes = length_class_of(max(min(most_nodes, plan.counts.nodes), 1), &least) + 1
    plan.shapes.task_classes = length_class_of(most_tasks, &least) + 1
    for i in range(plan.counts.masks):
        plan.shapes.is_frequent[i] = rows_of_mask[i] >= FREQUENT_ROWS
    plan.shapes.count_max = 1024
    plan.shapes.blocks_max = <int64_t> (GAP_BYTES // sizeof(GapBlock))
    plan.shapes.buckets = <PlanShape**> allocate_zeroed(&plan.arena, sizeof(PlanShape*) * BUCKETS)
    plan.shapes.list = <PlanShape*> allocate(&plan.arena, <size_t> plan.shapes.count_max * sizeof(PlanShape))
    return 0


cdef int allocate_picks(PlanPass* plan, Picks* picks) except -1 nogil:
    picks.rank = <int32_t*> allocate(&plan.arena, 4 * (<size_t> plan.counts.nodes + 1))
    picks.tasks = <int32_t*> allocate(&plan.arena, 4 * (<size_t> plan.counts.nodes + 1))
    return 0


cdef int prepare_scratch(PlanPass* plan) except -1 nogil:
    """Allocates entries for all nodes in every array that a choice may fill."""
    cdef Scratch* scratch = &plan.scratch
    cdef size_t nodes = <size_t> plan.counts.nodes + 1
    cdef size_t kinds = <size_t> max(plan.counts.gres_kinds, plan.counts.license_kinds) + 1
    cdef int32_t i
    allocate_picks(plan, &plan.picks)
    allocate_picks(plan, &plan.kept_picks)
    scratch.least = <Segment*> allocate(&plan.arena, sizeof(Segment) + 4 * kinds + 8)
    scratch.candidates = <NodeCandidate*> allocate(&plan.arena, nodes * sizeof(NodeCandidate))
    scratch.other_candidates = <NodeCandidate*> allocate(&plan.arena, 2 * nodes * sizeof(NodeCandidate))
    scratch.heap.events = <TimelineEvent*> allocate(&plan.arena, nodes * sizeof(TimelineEvent))
    scratch.possible = <uint64_t*> allocate(&plan.arena, 8 * (<size_t> plan.counts.mask_words + 1))
    scratch.is_member = <uint8_t*> allocate(&plan.arena, nodes)
    scratch.is_watched = <uint8_t*> allocate(&plan.arena, nodes)
    scratch.gap_s = <int64_t*> allocate(&plan.arena, 8 * nodes)
    scratch.gap_version = <int32_t*> allocate(&plan.arena, 4 * nodes)
    scratch.room_by_rank = <int32_t*> allocate(&plan.arena, 4 * nodes)
    scratch.members = <int32_t*> allocate(&plan.arena, 4 * nodes)
    scratch.switch_counts = <int32_t*> allocate(&plan.arena, 4 * nodes)
    scratch.sort_keys = <int64_t*> allocate(&plan.arena, 8 * nodes)
    scratch.nothing_needed = <int32_t*> allocate(&plan.arena, 4 * kinds)
    for i in range(<int32_t> kinds):
        scratch.nothing_needed[i] = INT32_MIN
    return 0


cdef int prepare_answer(PlanPass* plan) except -1 nogil:
    """Initialises the progress: nothing is decided, and no job was seen."""
    cdef int64_t rows = plan.counts.rows, slots = 16
    while slots < 2 * lesser(rows, plan.limits.rows_max):
        slots *= 2
    plan.progress.seen = <SeenJob*> allocate_zeroed(&plan.arena, slots * sizeof(SeenJob))
    plan.progress.seen_mask = slots - 1
    plan.answer.reason = <uint8_t*> allocate_zeroed(&plan.arena, rows + 1)
    plan.answer.plan_count = <int32_t*> allocate_zeroed(&plan.arena, 4 * (rows + 1))
    plan.answer.start_s = <int64_t*> allocate(&plan.arena, 8 * (rows + 1))
    memset(plan.answer.start_s, 0xFF, 8 * rows)
    append_int32(&plan.arena, &plan.answer.node_first, 0)
    return 0
