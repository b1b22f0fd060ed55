# Books what a job takes, determines how long it may keep it (rule 4), and records both.

from libc.stdint cimport int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef int take_picks(PlanPass* plan, const PendingJob* job, int64_t from_s, int64_t to_s) except -1 nogil
cdef int64_t granted_limit_s(PlanPass* plan, const PendingJob* job) except -1 nogil
cdef int write_start(PlanPass* plan, const PendingJob* job, int64_t position, int64_t limit_s) except -1 nogil
cdef int write_planned_start(PlanPass* plan, int64_t position, int64_t start_s) except -1 nogil


cdef inline bint plan_is_full(const PlanPass* plan, int64_t more) noexcept nogil:
    """Whether that many more planned nodes exceed PLACEMENTS_MAX."""
    return plan.answer.plan_node.used_bytes // 4 + more > plan.limits.placements_max
