"""Rule 3: the choice of nodes at a known time: the first that suffice where only node order matters, else all candidates,
sorted, and then groups of features, topology, and the shortest run. The chosen nodes are in `PlanPass.picks`.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport qsort

from _fastsched.planner.basics cimport compare_int64, greater, has_bit, lesser
from _fastsched.planner.candidates cimport SORT_NEEDED, collect_candidates, first_fit, pick
from _fastsched.planner.load cimport mask_by_rank
from _fastsched.planner.records cimport WITHOUT_VICTIMS, NodeCandidate, Picks, Scratch
from _fastsched.planner.topology cimport count_leaves_of_picks, limit_to_switch, pick_segments, sort_by_leaf


cdef bint choose_nodes(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil:
    """Picks nodes by rule 3, by rank ascending, with the tasks of each. False: no fit."""
    cdef int32_t used = SORT_NEEDED
    plan.picks.count = plan.picks.taken = 0
    if not job.not_monotonic and not job.order_kind and not job.topology and plan.basis != WITHOUT_VICTIMS:
        used = first_fit(plan, job, at_s, only_up)
    if used == SORT_NEEDED:
        collect_candidates(plan, job, at_s, only_up)
        used = choose_among_candidates(plan, job)
    if used:
        distribute_tasks(plan, job, used)
    return used > 0


cdef int32_t choose_among_candidates(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Applies rules 3a to 3c to the candidates in their order; returns how many are chosen, 0 = no fit."""
    cdef int32_t taken = 0, used, i
    cdef int64_t room = 0
    if job.group >= 0:
        taken = pick_groups(plan, job)
        if taken < 0 or taken > job.nodes_max:
            return 0
        plan.picks.taken = taken
        for i in range(taken):
            room += plan.picks.tasks[i]
    if job.segment > 0 and job.topology:
        used = pick_segments(plan, job)
    else:
        if job.topology:
            limit_to_switch(plan, job, taken, room)
            sort_by_leaf(plan)
        used = shortest_run(plan, job, taken, room)
    if used and job.topology and job.switches_max > 0 and count_leaves_of_picks(plan, used) > job.switches_max:
        return 0
    return used


cdef int32_t pick_groups(PlanPass* plan, const PendingJob* job) except -2 nogil:
    """Applies rule 3a: picks nodes for each entry of the set; the rest of the candidates stay in place. -1: not enough."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t entry, i, left, keep, taken = 0
    cdef const uint64_t* mask
    for entry in range(plan.input.group_first[job.group], plan.input.group_first[job.group + 1]):
        mask = mask_by_rank(plan, plan.input.group_mask[entry])
        left = plan.input.group_count[entry]
        for i in range(taken):
            left -= has_bit(mask, plan.picks.rank[i])
        keep = 0
        for i in range(scratch.candidates_count):
            if left > 0 and has_bit(mask, scratch.candidates[i].rank):
                pick(plan, taken, scratch.candidates + i)
                taken += 1
                left -= 1
            else:
                scratch.candidates[keep] = scratch.candidates[i]
                keep += 1
        scratch.candidates_count = keep
        if left > 0:
            return -1
    return taken


cdef int compare_by_tasks(const void* left, const void* right) noexcept nogil:
    cdef const NodeCandidate* first = <const NodeCandidate*> left
    cdef const NodeCandidate* second = <const NodeCandidate*> right
    if first.tasks != second.tasks:
        return 1 if first.tasks < second.tasks else -1
    return (first.place > second.place) - (first.place < second.place)


cdef int32_t shortest_run(PlanPass* plan, const PendingJob* job, int32_t taken, int64_t room) noexcept nogil:
    """Applies rule 3c after `taken` nodes with this room; appends picks to those. 0 = no fit."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t used, i
    used = pick_in_order(plan, job, scratch.candidates, taken, room)
    if used or scratch.candidates_count <= job.nodes_max - taken:
        return used
    for i in range(scratch.candidates_count):
        scratch.other_candidates[i] = scratch.candidates[i]
        scratch.other_candidates[i].place = i
    qsort(scratch.other_candidates, scratch.candidates_count, sizeof(NodeCandidate), &compare_by_tasks)
    return pick_in_order(plan, job, scratch.other_candidates, taken, room)


cdef int32_t pick_in_order(
    PlanPass* plan, const PendingJob* job, const NodeCandidate* candidates, int32_t taken, int64_t room
) noexcept nogil:
    """Picks as few of these as needed, the first ones; 0 if the first nodes_max have no room for the job."""
    cdef int32_t used = taken, i, count = plan.scratch.candidates_count
    for i in range(count):
        if used == job.nodes_max or (used >= job.nodes_min and room >= job.ntasks):
            break
        pick(plan, used, candidates + i)
        used += 1
        room += candidates[i].tasks
    if used < job.nodes_min or room < job.ntasks:
        return 0
    while job.spread and used < job.nodes_max and used - taken < count:
        pick(plan, used, candidates + (used - taken))
        used += 1
    return used


cdef void distribute_tasks(PlanPass* plan, const PendingJob* job, int32_t used) noexcept nogil:
    """Fills the chosen nodes by the last paragraph of rule 3c, and sorts them by rank."""
    cdef Picks* picks = &plan.picks
    cdef int32_t taken = picks.taken, i
    cdef int64_t rest = job.ntasks, following = 0, tasks
    sort_by_rank(plan, 0, taken)
    sort_by_rank(plan, taken, used)
    for i in range(used):
        following += left_for(plan, job, i)
    for i in range(used):
        following -= left_for(plan, job, i)
        tasks = lesser(picks.tasks[i], greater(1, rest - following))
        rest -= tasks
        picks.tasks[i] = <int32_t> tasks
    if taken:
        sort_by_rank(plan, 0, used)
    picks.count = used


cdef inline int64_t left_for(PlanPass* plan, const PendingJob* job, int32_t place) noexcept nogil:
    """Returns the tasks that are left for this pick by those before it."""
    cdef int32_t quantum = plan.cluster.nodes[plan.picks.rank[place]].cpu_quantum
    return lesser(plan.picks.tasks[place], greater(1, quantum // job.cpus_per_task))


cdef void sort_by_rank(PlanPass* plan, int32_t first, int32_t end) noexcept nogil:
    """Sorts the picks from `first` to before `end`."""
    cdef Picks* picks = &plan.picks
    cdef int64_t* sort_keys = plan.scratch.sort_keys
    cdef int32_t i
    cdef bint ascending = True
    for i in range(first + 1, end):
        if picks.rank[i] < picks.rank[i - 1]:
            ascending = False
    if ascending:
        return
    for i in range(first, end):
        sort_keys[i - first] = <int64_t> picks.rank[i] << 32 | picks.tasks[i]
    qsort(sort_keys, end - first, sizeof(int64_t), &compare_int64)
    for i in range(first, end):
        picks.rank[i] = <int32_t> (sort_keys[i - first] >> 32)
        picks.tasks[i] = <int32_t> (sort_keys[i - first] & 0x7FFFFFFF)
