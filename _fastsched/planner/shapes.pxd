# Known times (rule 4): by shape, the gaps in which nodes may be free.

from libc.stdint cimport int32_t, int64_t, uint64_t

from _fastsched.planner.basics cimport count_leading_zeros
from _fastsched.planner.gaps cimport GapPlace
from _fastsched.planner.records cimport PendingJob, PlanPass, PlanShape

cdef enum:
    BUCKETS = 256  # of the table of shapes, by hash
    UNKNOWN = -1  # as a version: not compared with the node's time yet


cdef int find_shape(PlanPass* plan, PendingJob* job) except -1 nogil
cdef int reset_node(PlanPass* plan, int32_t rank) except -1 nogil
cdef bint first_long_gap(PlanPass* plan, const PendingJob* job, int64_t limit_s, GapPlace* place) except -1 nogil
cdef int64_t earliest_together(const PlanPass* plan, const PendingJob* job, int32_t nodes) noexcept nogil
cdef int note_nodes_together(PlanPass* plan, const PendingJob* job, int32_t nodes, int64_t at_s) except -1 nogil
cdef int note_tasks_together(PlanPass* plan, const PendingJob* job, int64_t at_s) except -1 nogil
cdef int64_t refine_gap(
    PlanPass* plan, const PendingJob* job, GapPlace place, int64_t from_s, int64_t limit_s, int64_t* to_s
) except -1 nogil
cdef int mark_possible_nodes(PlanPass* plan, const PendingJob* job, int64_t at_s) except -1 nogil


cdef inline int32_t length_class_of(int64_t length_s, int64_t* shortest_s) noexcept nogil:
    """Returns the class of a duration (or number of nodes), of which each power of two has four, and the least of a class."""
    cdef int32_t power = 63 - count_leading_zeros(<uint64_t> length_s), shift = max(power - 2, 0)
    shortest_s[0] = length_s >> shift << shift
    return power << 2 | <int32_t> (length_s >> shift & 3)


cdef inline PlanShape* known_shape(const PlanPass* plan, const PendingJob* job) noexcept nogil:
    """Returns what is known of a row's shape; NULL = nothing."""
    return job.shape if job.generation == plan.shapes.generation else NULL
