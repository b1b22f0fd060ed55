"""Rule 9: the running jobs to preempt. It is rare, so nodes are simply rebuilt without those that may be preempted."""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport qsort

from _fastsched.planner.shapes cimport reset_node
from _fastsched.planner.choose cimport choose_nodes
from _fastsched.planner.demand cimport demand_of
from _fastsched.planner.earliest cimport licenses_free_from
from _fastsched.planner.basics cimport WHOLE_LEAVES
from _fastsched.planner.leaves cimport measure_leaf
from _fastsched.planner.load cimport load_group_masks
from _fastsched.planner.memory cimport ArenaMark, allocate, append_int32, mark_of, rewind
from _fastsched.planner.nodetime cimport leaf_of, may_be_preempted, timeline_without
from _fastsched.planner.records cimport PLANNED, VICTIMS, WITHOUT_VICTIMS, PlanNode
from _fastsched.planner.timeline cimport NodeTimeline, PlanDemand, free_until


cdef struct PreemptableRun:
    int64_t cost
    int64_t run


cdef int cheapest_first(const void* left, const void* right) noexcept nogil:
    cdef const PreemptableRun* first = <const PreemptableRun*> left
    cdef const PreemptableRun* second = <const PreemptableRun*> right
    if first.cost != second.cost:
        return -1 if first.cost < second.cost else 1
    return (first.run > second.run) - (first.run < second.run)


cdef bint picks_suffice(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Whether the chosen nodes suffice without these victims."""
    cdef ArenaMark mark = mark_of(&plan.arena)
    cdef int64_t now_s = plan.limits.now_s, end_s = now_s + job.length_s
    cdef PlanDemand demand
    cdef NodeTimeline* line
    cdef int32_t i
    cdef bint enough = True
    for i in range(plan.picks.count):
        demand_of(job, plan.cluster.nodes + plan.picks.rank[i], plan.picks.tasks[i], &demand)
        line = timeline_without(plan, plan.picks.rank[i], VICTIMS, job.reservation)
        if free_until(line, &demand, now_s, end_s) < end_s:
            enough = False
            break
    rewind(&plan.arena, mark)
    return enough


cdef PreemptableRun* preemptable_on_picks(PlanPass* plan, int64_t* count) except NULL nogil:
    """Collects all preemptable jobs on the chosen nodes, each once, lowest (cost, index) first."""
    cdef int64_t part, found = 0, i
    cdef int32_t run
    cdef PlanNode* node
    cdef PreemptableRun* runs
    for i in range(plan.picks.count):
        node = plan.cluster.nodes + plan.picks.rank[i]
        found += node.last_part - node.first_part
    runs = <PreemptableRun*> allocate(&plan.arena, (found + 1) * sizeof(PreemptableRun))
    found = 0
    for i in range(plan.picks.count):
        node = plan.cluster.nodes + plan.picks.rank[i]
        for part in range(node.first_part, node.last_part):
            run = plan.input.running.part_run[plan.cluster.parts[part]]
            if may_be_preempted(plan, run, plan.preemption.victim_classes):
                runs[found] = PreemptableRun(cost=plan.input.running.run_cost[run], run=run)
                found += 1
    qsort(runs, found, sizeof(PreemptableRun), &cheapest_first)
    count[0] = 0
    for i in range(found):
        if i == 0 or runs[i].run != runs[i - 1].run:
            runs[count[0]] = runs[i]
            count[0] += 1
    return runs


cdef bint choose_without_victims(PlanPass* plan, PendingJob* job) except -1 nogil:
    """Picks nodes as if all that the row may preempt were gone; the timelines built for that are dropped."""
    cdef ArenaMark mark
    cdef bint found
    load_group_masks(plan, job)
    mark = mark_of(&plan.arena)
    plan.preemption.victim_classes = job.preempts
    plan.preemption.for_leaves = (job.exclusive & WHOLE_LEAVES) != 0
    plan.basis = WITHOUT_VICTIMS
    found = choose_nodes(plan, job, plan.limits.now_s, True)
    plan.basis = PLANNED
    rewind(&plan.arena, mark)
    return found


cdef bint preempt(PlanPass* plan, PendingJob* job, int64_t position) except -1 nogil:
    """Returns True if the row preempts: its victims are marked and recorded, its picks are set."""
    cdef uint8_t* gone = plan.preemption.gone
    cdef PreemptableRun* runs
    cdef int64_t now_s = plan.limits.now_s, count, used = 0, i
    if not (job.preempts & plan.preemption.classes) or job.first_s > now_s or job.last_s < now_s:
        return False
    if licenses_free_from(plan, job, now_s, now_s, job.reservation) > now_s:
        return False
    if not choose_without_victims(plan, job):
        return False
    runs = preemptable_on_picks(plan, &count)
    while not picks_suffice(plan, job) and used < count:
        gone[runs[used].run] = 1
        used += 1
    if used == 0:
        return False
    for i in range(used - 1, -1, -1):
        gone[runs[i].run] = 0
        if not picks_suffice(plan, job):
            gone[runs[i].run] = 1
    for i in range(used):
        if gone[runs[i].run]:
            append_int32(&plan.arena, &plan.answer.victim_row, <int32_t> position)
            append_int32(&plan.arena, &plan.answer.victim_run, <int32_t> runs[i].run)
            rebuild_nodes_of(plan, <int32_t> runs[i].run)
    return True


cdef int rebuild_node(PlanPass* plan, int32_t rank) except -1 nogil:
    plan.cluster.nodes[rank].built = False
    plan.cluster.versions[rank] += 1
    return reset_node(plan, rank)


cdef int rebuild_nodes_of(PlanPass* plan, int32_t run) except -1 nogil:
    """Ends a victim at now_s + 1: its nodes and its licenses are rebuilt, and their gaps are reset."""
    cdef int64_t part
    cdef int32_t rank, leaf, at
    for part in range(plan.counts.parts):
        if plan.input.running.part_run[part] == run:
            rank = plan.cluster.rank_of[plan.input.running.part_node[part]]
            rebuild_node(plan, rank)
            if plan.cluster.leaves_matter:
                leaf = leaf_of(plan, rank)
                measure_leaf(plan, leaf)
                for at in range(plan.cluster.leaf_first[leaf], plan.cluster.leaf_first[leaf + 1]):
                    rebuild_node(plan, plan.cluster.leaf_ranks[at])
    plan.cluster.nodes[plan.counts.nodes].built = False
    return 0
