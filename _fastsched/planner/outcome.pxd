# Rule 10, and the records of decided rows.

from libc.stdint cimport int64_t, uint8_t

from _fastsched.planner.basics cimport BAD_CONSTRAINTS, NODES_DOWN
from _fastsched.planner.records cimport PendingJob, PlanPass, SeenJob

cdef uint8_t waiting_reason(PlanPass* plan, PendingJob* job) except? 255 nogil
cdef void record_reason(PlanPass* plan, const PendingJob* job, int64_t position, uint8_t reason) noexcept nogil
cdef SeenJob* seen_job(PlanPass* plan, int64_t job) noexcept nogil


cdef inline bint is_hopeless(uint8_t reason) noexcept nogil:
    """Whether a row with such a reason is neither planned nor preempts."""
    return reason == BAD_CONSTRAINTS or reason == NODES_DOWN


cdef inline bint may_reserve(const PlanPass* plan) noexcept nogil:
    """Rule 7: whether one more waiting row may reserve resources."""
    return plan.limits.reserve_max < 0 or plan.progress.reserving < plan.limits.reserve_max
