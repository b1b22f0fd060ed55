# Rule 8: heterogeneous jobs.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef bint plan_heterogeneous(PlanPass* plan, PendingJob* jobs, int32_t components, int64_t first) except -1 nogil
