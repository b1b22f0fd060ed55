# Rule 4 for a job that needs one node.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef int64_t single_node_start(
    PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s, int32_t* best_rank
) except -1 nogil
