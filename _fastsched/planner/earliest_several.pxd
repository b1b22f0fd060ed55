# Rule 4 for a job that needs several nodes.

from libc.stdint cimport int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef int64_t several_nodes_start(PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s) except -1 nogil
