# Prepares a row of the queue for planning.

from libc.stdint cimport int32_t, int64_t, uint64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef const uint64_t* mask_by_rank(PlanPass* plan, int32_t mask) except NULL nogil
cdef int load_group_masks(PlanPass* plan, const PendingJob* job) except -1 nogil
cdef int load_row(PlanPass* plan, PendingJob* job, int64_t row) except -1 nogil
