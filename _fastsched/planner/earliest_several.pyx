"""Rule 4 for a job that needs several nodes: a sweep over the gaps of its shape, in order of their start.

Members are nodes with a gap that has begun and leaves time for the job. Gaps may have become shorter; when the members
seem enough, they are compared with the nodes' time, and the sweep continues with those that remain.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport qsort
from libc.string cimport memset

from _fastsched.planner.basics cimport NEVER, compare_int64, greater, has_bit, lesser
from _fastsched.planner.candidates cimport tasks_on_node
from _fastsched.planner.events cimport EventHeap, drop_top, make_heap, move_top, push
from _fastsched.planner.gaps cimport GapIndex, GapPlace, TimeGap, find_long, gap_at, place_of
from _fastsched.planner.nodetime cimport timeline_of
from _fastsched.planner.records cimport Scratch
from _fastsched.planner.shapes cimport (
    earliest_together, first_long_gap, note_nodes_together, note_tasks_together, refine_gap,
)
from _fastsched.planner.timeline cimport NodeTimeline, rounded_up, segment_at, segment_index


cdef struct Sweep:
    PendingJob* job
    GapIndex* index
    GapPlace place
    int64_t from_s
    int64_t limit_s
    int64_t gap_s  # the next gap
    int32_t rank
    int32_t members


cdef bint reach_gap(PlanPass* plan, Sweep* sweep) noexcept nogil:
    """Advances to the next gap that leaves time for the job; False if there is none up to the limit."""
    cdef const TimeGap* gap
    while find_long(sweep.index, sweep.job.length_s, sweep.from_s + sweep.job.length_s, &sweep.place):
        gap = gap_at(sweep.index, sweep.place)
        if gap.from_s > sweep.limit_s:
            break
        if has_bit(sweep.job.mask, gap.rank):
            sweep.gap_s = gap.from_s
            sweep.rank = gap.rank
            return True
        sweep.place.at += 1
    sweep.gap_s = NEVER
    return False


cdef bint begin_sweep(PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s, Sweep* sweep) except -1 nogil:
    """Advances to the first gap; False if there is none."""
    sweep[0] = Sweep(
        job=job, index=&job.shape.gaps, place=GapPlace(block=0, at=0), from_s=from_s, limit_s=limit_s, gap_s=NEVER, rank=-1,
        members=0,
    )
    plan.scratch.heap.count = 0
    memset(plan.scratch.is_member, 0, <size_t> plan.counts.nodes)
    return first_long_gap(plan, job, limit_s, &sweep.place) and reach_gap(plan, sweep)


cdef inline bint reach_gap_after(PlanPass* plan, Sweep* sweep) noexcept nogil:
    """Advances to the next gap, after gaps may have been replaced."""
    sweep.place = place_of(sweep.index, sweep.gap_s, sweep.rank + 1)
    return reach_gap(plan, sweep)


cdef bint stays_free(PlanPass* plan, Sweep* sweep, int32_t rank, int64_t at_s, int64_t* to_s) except -1 nogil:
    """Compares a member's gap with the node's time: whether it holds the job from at_s on, and until when it is free."""
    cdef Scratch* scratch = &plan.scratch
    cdef int64_t found_s
    if scratch.gap_s[rank] == NEVER:
        return False
    found_s = refine_gap(plan, sweep.job, place_of(sweep.index, scratch.gap_s[rank], rank), at_s, at_s, to_s)
    scratch.gap_s[rank] = found_s
    scratch.gap_version[rank] = plan.cluster.versions[rank]
    return found_s <= at_s


# -- a job that takes as many tasks on each node as it may: a member has room for these

cdef bint enough_stay(PlanPass* plan, Sweep* sweep, int32_t needed, int64_t at_s) except -1 nogil:
    """Compares members with their nodes' time until enough hold the job, or too few are left; the others are removed."""
    cdef EventHeap* heap = &plan.scratch.heap
    cdef int32_t i, rank, holding = 0, left = heap.count
    cdef int64_t to_s = 0
    for i in range(heap.count):
        rank = heap.events[i].rank
        if plan.scratch.gap_version[rank] != plan.cluster.versions[rank]:
            if stays_free(plan, sweep, rank, at_s, &to_s):
                heap.events[i].at_s = to_s - sweep.job.length_s
            else:
                heap.events[i].at_s = at_s - 1
                left -= 1
                if left < needed:
                    break
                continue
        holding += 1
        if holding == needed:
            return True
    make_heap(heap)
    return False


cdef int64_t uniform_start(PlanPass* plan, Sweep* sweep, int32_t needed) except -1 nogil:
    """Returns the earliest start. A heap has the members by the last time at which they leave time for the job."""
    cdef EventHeap* heap = &plan.scratch.heap
    cdef Scratch* scratch = &plan.scratch
    cdef const PendingJob* job = sweep.job
    cdef int64_t at_s
    cdef const TimeGap* gap
    while sweep.gap_s <= sweep.limit_s:
        at_s = greater(sweep.from_s, sweep.gap_s)
        while heap.count and heap.events[0].at_s < at_s:
            scratch.is_member[heap.events[0].rank] = 0
            drop_top(heap)
        if not scratch.is_member[sweep.rank]:
            gap = gap_at(sweep.index, sweep.place)
            scratch.is_member[sweep.rank] = 1
            scratch.gap_s[sweep.rank] = gap.from_s
            scratch.gap_version[sweep.rank] = gap.version
            push(heap, gap.to_s - job.length_s, sweep.rank)
            if heap.count >= needed:
                if enough_stay(plan, sweep, needed, at_s):
                    return at_s
                reach_gap_after(plan, sweep)
                continue
        sweep.place.at += 1
        reach_gap(plan, sweep)
    return NEVER


# -- a job whose nodes may hold different numbers of tasks: the room of a member changes within a gap

cdef int64_t next_release(PlanPass* plan, const PendingJob* job, int32_t rank, int64_t at_s) except -1 nogil:
    """Returns the next time at which a node may have more room."""
    cdef const NodeTimeline* line = timeline_of(plan, rank, job.reservation)
    cdef int32_t index = segment_index(line, at_s) + 1
    if index == line.count:
        return NEVER
    return rounded_up(segment_at(line, index).from_s, plan.limits.resolution_s)


cdef bint has_room(Scratch* scratch, const PendingJob* job, int32_t members) noexcept nogil:
    """Whether the members, or the nodes_max largest of them, have room for the job."""
    cdef int64_t room = 0
    cdef int32_t i
    if members < job.nodes_min:
        return False
    for i in range(members):
        room += scratch.room_by_rank[scratch.members[i]]
    if room < job.ntasks:
        return False
    if members <= job.nodes_max:
        return True
    for i in range(members):
        scratch.sort_keys[i] = -<int64_t> scratch.room_by_rank[scratch.members[i]]
    qsort(scratch.sort_keys, members, sizeof(int64_t), &compare_int64)
    room = 0
    for i in range(job.nodes_max):
        room -= scratch.sort_keys[i]
    return room >= job.ntasks


cdef int watch(PlanPass* plan, Sweep* sweep, int32_t rank, int64_t at_s) except -1 nogil:
    """Notes when a member may have more room, unless that is noted already."""
    cdef int64_t release_s
    if plan.scratch.room_by_rank[rank] == sweep.job.tasks_max or plan.scratch.is_watched[rank]:
        return 0
    release_s = next_release(plan, sweep.job, rank, at_s)
    if release_s <= sweep.limit_s:
        plan.scratch.is_watched[rank] = 1
        push(&plan.scratch.heap, release_s, rank)
    return 0


cdef int update_watched(PlanPass* plan, Sweep* sweep, int64_t at_s) except -1 nogil:
    """Updates members that may have more room now."""
    cdef Scratch* scratch = &plan.scratch
    cdef EventHeap* heap = &scratch.heap
    cdef int32_t rank, tasks
    while heap.count and heap.events[0].at_s <= at_s:
        rank = heap.events[0].rank
        drop_top(heap)
        scratch.is_watched[rank] = 0
        if not scratch.is_member[rank]:
            continue
        tasks = tasks_on_node(plan, sweep.job, rank, at_s)
        if tasks >= sweep.job.tasks_floor:  # otherwise it is removed when all are checked, or has room again
            scratch.room_by_rank[rank] = tasks
        watch(plan, sweep, rank, at_s)
    return 0


cdef int admit(PlanPass* plan, Sweep* sweep, int64_t at_s) except -1 nogil:
    """Adds the nodes whose gaps have begun."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t rank, tasks
    cdef int64_t to_s
    while sweep.gap_s <= at_s:
        rank = sweep.rank
        scratch.gap_s[rank] = sweep.gap_s
        tasks = tasks_on_node(plan, sweep.job, rank, at_s)
        if tasks < sweep.job.tasks_floor and stays_free(plan, sweep, rank, at_s, &to_s):
            tasks = tasks_on_node(plan, sweep.job, rank, at_s)
        if tasks >= sweep.job.tasks_floor:
            if not scratch.is_member[rank]:
                scratch.is_member[rank] = 1
                scratch.members[sweep.members] = rank
                sweep.members += 1
            scratch.room_by_rank[rank] = tasks
            watch(plan, sweep, rank, at_s)
        reach_gap_after(plan, sweep)
    return 0


cdef bint all_keep_room(PlanPass* plan, Sweep* sweep, int64_t at_s) except -1 nogil:
    """Checks all members again: those that have less room now, and those to remove. False if there are any."""
    cdef Scratch* scratch = &plan.scratch
    cdef int32_t i, rank, tasks, stay = 0
    cdef int64_t to_s
    cdef bint same = True
    for i in range(sweep.members):
        rank = scratch.members[i]
        tasks = tasks_on_node(plan, sweep.job, rank, at_s)
        if tasks < sweep.job.tasks_floor:
            same = False
            scratch.is_member[rank] = 0
            stays_free(plan, sweep, rank, at_s, &to_s)
            continue
        if tasks < scratch.room_by_rank[rank]:
            same = False
            scratch.room_by_rank[rank] = tasks
            watch(plan, sweep, rank, at_s)
        scratch.members[stay] = rank
        stay += 1
    sweep.members = stay
    return same


cdef int64_t varied_start(PlanPass* plan, Sweep* sweep) except -1 nogil:
    """Returns the earliest start. A heap has the times at which members may have more room."""
    cdef EventHeap* heap = &plan.scratch.heap
    cdef int64_t at_s = sweep.from_s
    memset(plan.scratch.is_watched, 0, <size_t> plan.counts.nodes)
    while True:
        at_s = greater(at_s, lesser(sweep.gap_s, heap.events[0].at_s if heap.count else NEVER))
        if at_s > sweep.limit_s:
            return NEVER
        update_watched(plan, sweep, at_s)
        admit(plan, sweep, at_s)
        while has_room(&plan.scratch, sweep.job, sweep.members):
            if all_keep_room(plan, sweep, at_s):
                return at_s
            sweep.gap_s = at_s  # remainders of gaps may begin before the one that was next
            sweep.rank = plan.counts.nodes
            reach_gap_after(plan, sweep)


cdef int64_t several_nodes_start(PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s) except -1 nogil:
    """Returns the first time from which enough nodes have room; NEVER if that is past limit_s."""
    cdef Sweep sweep
    cdef bint uniform = job.tasks_floor == job.tasks_max
    cdef bint from_now = from_s == plan.limits.now_s
    cdef int32_t needed = job.nodes_min
    if uniform:
        needed = max(needed, <int32_t> ((<int64_t> job.ntasks + job.tasks_max - 1) // job.tasks_max))
    if from_now:
        from_s = earliest_together(plan, job, needed)
    if from_s > limit_s or not begin_sweep(plan, job, from_s, limit_s, &sweep):
        return NEVER
    from_s = uniform_start(plan, &sweep, needed) if uniform else varied_start(plan, &sweep)
    if from_now and from_s < NEVER and job.frequent_mask >= 0:
        if uniform:
            note_nodes_together(plan, job, needed, from_s)
        elif job.any_nodes:
            note_tasks_together(plan, job, from_s)
    return from_s
