# From Python's records to a pass: pointers, lengths and limits.

from _fastsched.planner.records cimport PlanPass

cdef bint read_columns(PlanPass* plan, object given) except -1
cdef bint read_limits(PlanPass* plan, object limits) except -1
