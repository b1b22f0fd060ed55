# Rule 3b: switches.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass

cdef void limit_to_switch(PlanPass* plan, const PendingJob* job, int32_t taken, int64_t room) noexcept nogil
cdef void sort_by_leaf(PlanPass* plan) noexcept nogil
cdef int32_t pick_segments(PlanPass* plan, const PendingJob* job) noexcept nogil
cdef int32_t count_leaves_of_picks(PlanPass* plan, int32_t used) noexcept nogil
