# Rule 9: the running jobs to preempt.

from libc.stdint cimport int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef bint preempt(PlanPass* plan, PendingJob* job, int64_t position) except -1 nogil
