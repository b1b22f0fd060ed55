# Leaf switches that a job has for itself alone (exclusive 4 and 5 of rule 1).

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass, Picks

cdef int prepare_leaves(PlanPass* plan) except -1 nogil
cdef int mark_blocks(PlanPass* plan) except -1 nogil
cdef int hold_leaves(PlanPass* plan, const PendingJob* job, const Picks* picks, int64_t from_s, int64_t to_s) except -1 nogil
cdef void measure_leaf(PlanPass* plan, int32_t leaf) noexcept nogil
