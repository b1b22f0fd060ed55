# Rules 1 and 3 at one time: the capacity of a node, and the nodes that could be chosen.

from libc.stdint cimport int32_t, int64_t

from _fastsched.planner.records cimport NodeCandidate, PendingJob, PlanPass

cdef enum:
    SORT_NEEDED = -2  # first_fit cannot decide: all candidates have to be collected


cdef int32_t tasks_on_node(PlanPass* plan, const PendingJob* job, int32_t rank, int64_t at_s) except -1 nogil
cdef int collect_candidates(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil
cdef int32_t first_fit(PlanPass* plan, const PendingJob* job, int64_t at_s, bint only_up) except -1 nogil


cdef inline void pick(PlanPass* plan, int32_t used, const NodeCandidate* candidate) noexcept nogil:
    plan.picks.rank[used] = candidate.rank
    plan.picks.tasks[used] = candidate.tasks
