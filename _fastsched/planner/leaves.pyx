"""Leaf switches that a job has for itself alone (exclusive 4 and 5 of rule 1).

A node's time notes when another node of its leaf is in use (LEAF_BUSY): by what runs there (nodetime.pyx), by blocks of
other reservations, and by what this pass takes. A job that takes whole leaves closes their other nodes, as a running one
does by its parts of nothing. All of it is done only in passes with rows of these kinds.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from _fastsched.planner.basics cimport ALL_BLOCKS, MARK_OF_BLOCK, MARK_OF_LEAF, WHOLE_LEAVES, WHOLE_NODES, greater
from _fastsched.planner.memory cimport allocate, allocate_zeroed
from _fastsched.planner.nodetime cimport leaf_of, part_end, take_on_node
from _fastsched.planner.records cimport PlanCluster, PlanNode, ReservedBlock
from _fastsched.planner.timeline cimport PlanDemand


cdef int prepare_leaves(PlanPass* plan) except -1 nogil:
    """Builds the lists of the nodes of each leaf, if a row wants leaves for itself; without switches a node is its leaf."""
    cdef PlanCluster* cluster = &plan.cluster
    cdef size_t nodes = <size_t> plan.counts.nodes + 1
    cdef int32_t rank, leaf
    cdef int32_t* filled
    if not cluster.leaves_matter:
        return 0
    cluster.leaf_first = <int32_t*> allocate_zeroed(&plan.arena, 4 * (nodes + 1))
    cluster.leaf_ranks = <int32_t*> allocate(&plan.arena, 4 * nodes)
    cluster.leaf_taken = <int32_t*> allocate_zeroed(&plan.arena, 4 * nodes)
    cluster.leaf_busy_s = <int64_t*> allocate(&plan.arena, 8 * nodes)
    cluster.no_gres = <const int32_t*> allocate_zeroed(&plan.arena, 4 * (<size_t> plan.counts.gres_kinds + 1))
    filled = <int32_t*> allocate_zeroed(&plan.arena, 4 * nodes)
    for rank in range(plan.counts.nodes):
        cluster.leaf_first[leaf_of(plan, rank) + 1] += 1
    for leaf in range(plan.counts.nodes):
        cluster.leaf_first[leaf + 1] += cluster.leaf_first[leaf]
    for rank in range(plan.counts.nodes):
        leaf = leaf_of(plan, rank)
        cluster.leaf_ranks[cluster.leaf_first[leaf] + filled[leaf]] = rank
        filled[leaf] += 1
    for leaf in range(plan.counts.nodes):
        measure_leaf(plan, leaf)
    return 0


cdef void measure_leaf(PlanPass* plan, int32_t leaf) noexcept nogil:
    """Computes when all that runs under a leaf has ended."""
    cdef PlanCluster* cluster = &plan.cluster
    cdef PlanNode* node
    cdef int32_t at
    cdef int64_t part
    cluster.leaf_busy_s[leaf] = plan.limits.now_s
    for at in range(cluster.leaf_first[leaf], cluster.leaf_first[leaf + 1]):
        node = cluster.nodes + cluster.leaf_ranks[at]
        for part in range(node.first_part, node.last_part):
            cluster.leaf_busy_s[leaf] = greater(cluster.leaf_busy_s[leaf], part_end(plan, node, cluster.parts[part]))


cdef int mark_blocks(PlanPass* plan) except -1 nogil:
    """Adds each block to the other nodes of its leaf, as a mark. Called when all blocks are there."""
    cdef PlanCluster* cluster = &plan.cluster
    cdef ReservedBlock* block
    cdef ReservedBlock* mark
    cdef PlanNode* other
    cdef int32_t rank, leaf, at
    if not cluster.leaves_matter:
        return 0
    for rank in range(plan.counts.nodes):
        block = cluster.nodes[rank].blocks
        leaf = leaf_of(plan, rank)
        while block != NULL:
            for at in range(cluster.leaf_first[leaf], cluster.leaf_first[leaf + 1]):
                other = cluster.nodes + cluster.leaf_ranks[at]
                if block.cpus == MARK_OF_BLOCK or cluster.leaf_ranks[at] == rank:
                    continue
                mark = <ReservedBlock*> allocate(&plan.arena, sizeof(ReservedBlock))
                mark[0] = block[0]
                mark.cpus = MARK_OF_BLOCK
                mark.mem_mb = 0
                mark.gres = cluster.no_gres
                mark.next = other.blocks
                other.blocks = mark
            block = block.next
    return 0


cdef int hold_leaves(
    PlanPass* plan, const PendingJob* job, const Picks* picks, int64_t from_s, int64_t to_s
) except -1 nogil:
    """Books on all nodes of the picks' leaves that the job is there, or has them for itself."""
    cdef PlanCluster* cluster = &plan.cluster
    cdef PlanDemand demand
    cdef int32_t i, at, leaf
    if to_s <= from_s:
        return 0
    demand = PlanDemand(mem_mb=0, cpus=0, user=job.user, exclusive=MARK_OF_LEAF, gres=cluster.no_gres)
    if job.exclusive & WHOLE_LEAVES:
        demand.exclusive = WHOLE_NODES
    cluster.takings += 1
    for i in range(picks.count):
        leaf = leaf_of(plan, picks.rank[i])
        if cluster.leaf_taken[leaf] == cluster.takings:
            continue
        cluster.leaf_taken[leaf] = cluster.takings
        for at in range(cluster.leaf_first[leaf], cluster.leaf_first[leaf + 1]):
            take_on_node(plan, cluster.leaf_ranks[at], &demand, from_s, to_s, ALL_BLOCKS)
    return 0
