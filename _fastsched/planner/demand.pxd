# Rules 1 and 2: a job's demand on one node, and how many of its tasks fit into the free resources.

from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t

from _fastsched.planner.basics cimport NOBODY, WHOLE_NODES, greater, lesser
from _fastsched.planner.records cimport PendingJob, PlanNode
from _fastsched.planner.timeline cimport PlanDemand, Segment, gres_of


cdef inline int64_t rounded_cpus(const PlanNode* node, int64_t cpus) noexcept nogil:
    """Computes k of rule 1."""
    cdef int64_t past = cpus % node.cpu_quantum
    return cpus + node.cpu_quantum - past if past else cpus


cdef inline int64_t memory_taken(const PendingJob* job, const PlanNode* node, int64_t cpus) noexcept nogil:
    """Computes the memory of rule 2, for so many cpus; -1 when it exceeds the range."""
    if job.mem_node_mb >= 0:
        return job.mem_node_mb if job.mem_node_mb else node.total_mem_mb
    if job.mem_cpu_mb >= 0:
        if job.exclusive & WHOLE_NODES:
            cpus = greater(cpus, node.total_cpus // job.cpu_units)
        return -1 if job.mem_cpu_mb > INT64_MAX // cpus else job.mem_cpu_mb * cpus
    return node.total_mem_mb if job.exclusive & WHOLE_NODES else 0


cdef inline bint demand_of(const PendingJob* job, const PlanNode* node, int64_t tasks, PlanDemand* demand) noexcept nogil:
    """Computes the demand of so many tasks on the node; False if no node has that."""
    cdef int64_t cpus = rounded_cpus(node, tasks * job.cpus_per_task), units
    if cpus > node.cpus:
        return False
    units = cpus * job.cpu_units
    if job.exclusive & WHOLE_NODES:
        if units > node.total_cpus:
            return False
        units = node.total_cpus
    if units > INT32_MAX:
        return False
    demand.mem_mb = memory_taken(job, node, cpus)
    if demand.mem_mb < 0:
        return False
    if demand.mem_mb == 0:
        demand.mem_mb = INT64_MIN
    demand.cpus = <int32_t> units
    demand.user = job.user
    demand.exclusive = job.exclusive
    demand.gres = job.gres_needed
    return True


cdef inline int32_t tasks_within(const PendingJob* job, const PlanNode* node, const Segment* free) noexcept nogil:
    """Computes t of rule 1 from the least free amounts; `free` holds one task already as far as GRES and users go."""
    cdef int64_t cpus = free.cpus, tasks, mem_mb = free.mem_mb
    if job.exclusive & WHOLE_NODES:
        cpus = node.total_cpus
    cpus = lesser(cpus // job.cpu_units, node.cpus)
    if job.mem_node_mb < 0 and job.mem_cpu_mb > 0 and not job.exclusive & WHOLE_NODES:
        cpus = lesser(cpus, mem_mb // job.mem_cpu_mb if mem_mb > 0 else 0)
    cpus -= cpus % node.cpu_quantum
    tasks = lesser(cpus // job.cpus_per_task, job.tasks_max)
    return <int32_t> tasks if tasks >= job.tasks_min else 0


cdef inline void empty_node(const PlanNode* node, Segment* free) noexcept nogil:
    """Returns what is free on a node where nothing runs."""
    cdef int32_t kind
    free.cpus = node.total_cpus
    free.mem_mb = node.total_mem_mb
    free.jobs = 0
    free.user = free.exclusive_user = NOBODY
    for kind in range(node.gres_kinds):
        gres_of(free)[kind] = node.total_gres[kind]
