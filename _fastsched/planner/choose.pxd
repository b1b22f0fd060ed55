# Rule 3: the choice of nodes at a known time.

from libc.stdint cimport int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef bint choose_nodes(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil
