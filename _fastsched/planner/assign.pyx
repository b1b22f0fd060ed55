"""Books what a job takes, determines how long it may keep it (rule 4), and records both."""

from libc.stdint cimport int32_t

from _fastsched.planner.basics cimport WHOLE_NODES, greater, lesser
from _fastsched.planner.demand cimport demand_of, memory_taken, rounded_cpus
from _fastsched.planner.earliest cimport license_demand
from _fastsched.planner.leaves cimport hold_leaves
from _fastsched.planner.memory cimport append_int32, append_int64
from _fastsched.planner.nodetime cimport take_on_node, timeline_of
from _fastsched.planner.records cimport PlanAnswer, PlanNode
from _fastsched.planner.timeline cimport PlanDemand, free_until


cdef int take_picks(PlanPass* plan, const PendingJob* job, int64_t from_s, int64_t to_s) except -1 nogil:
    """Takes the picks, and the licenses, for an interval."""
    cdef PlanDemand demand
    cdef int32_t i, rank
    for i in range(plan.picks.count):
        rank = plan.picks.rank[i]
        demand_of(job, plan.cluster.nodes + rank, plan.picks.tasks[i], &demand)
        demand.mem_mb = greater(demand.mem_mb, 0)
        demand.gres = job.gres
        take_on_node(plan, rank, &demand, from_s, to_s, job.reservation)
    if plan.cluster.leaves_matter:
        hold_leaves(plan, job, &plan.picks, from_s, to_s)
    if job.licenses != NULL:
        demand = PlanDemand(mem_mb=0, cpus=0, user=0, exclusive=0, gres=job.licenses)
        take_on_node(plan, plan.counts.nodes, &demand, from_s, to_s, job.reservation)
    return 0


cdef int64_t granted_limit_s(PlanPass* plan, const PendingJob* job) except -1 nogil:
    """Returns until when the picks may be kept from now on (rule 4): at least length_s, which they have already."""
    cdef int64_t now_s = plan.limits.now_s, from_s = now_s + job.length_s
    cdef int64_t to_s = lesser(now_s + job.limit_s, job.resv_to_s)
    cdef PlanDemand demand
    cdef int32_t i
    if job.licenses != NULL and to_s > from_s:
        license_demand(job, &demand)
        to_s = free_until(timeline_of(plan, plan.counts.nodes, job.reservation), &demand, from_s, to_s)
    for i in range(plan.picks.count):
        if to_s <= from_s:
            break
        demand_of(job, plan.cluster.nodes + plan.picks.rank[i], plan.picks.tasks[i], &demand)
        to_s = free_until(timeline_of(plan, plan.picks.rank[i], job.reservation), &demand, from_s, to_s)
    return greater(to_s, from_s) - now_s


cdef int write_start(PlanPass* plan, const PendingJob* job, int64_t position, int64_t limit_s) except -1 nogil:
    """Records a start of the row at this position, on the picks."""
    cdef PlanAnswer* answer = &plan.answer
    cdef int32_t i, tasks
    cdef int64_t cpus
    cdef PlanNode* node
    for i in range(plan.picks.count):
        node = plan.cluster.nodes + plan.picks.rank[i]
        tasks = plan.picks.tasks[i]
        cpus = rounded_cpus(node, <int64_t> tasks * job.cpus_per_task)
        append_int64(&plan.arena, &answer.mem_mb, memory_taken(job, node, cpus))
        if job.exclusive & WHOLE_NODES:
            cpus = node.total_cpus // job.cpu_units
        append_int32(&plan.arena, &answer.node, node.index)
        append_int32(&plan.arena, &answer.cpus, <int32_t> cpus)
        append_int32(&plan.arena, &answer.tasks, tasks)
    plan.progress.placements += plan.picks.count
    plan.progress.starts += 1
    append_int32(&plan.arena, &answer.job, <int32_t> position)
    append_int64(&plan.arena, &answer.limit_s, limit_s)
    append_int32(&plan.arena, &answer.node_first, <int32_t> plan.progress.placements)
    return 0


cdef int write_planned_start(PlanPass* plan, int64_t position, int64_t start_s) except -1 nogil:
    """Records the planned start of the row at this position, and its nodes: the picks."""
    cdef int32_t i
    plan.answer.start_s[position] = start_s
    plan.answer.plan_count[position] = plan.picks.count
    for i in range(plan.picks.count):
        append_int32(&plan.arena, &plan.answer.plan_node, plan.cluster.nodes[plan.picks.rank[i]].index)
    return 0
