# The gaps of a new shape, moved to where nodes are first free.

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef int look_ahead(PlanPass* plan, const PendingJob* job) except -1 nogil
