# The first tables of a pass.

from _fastsched.planner.records cimport PlanPass

cdef bint prepare(PlanPass* plan) except -1 nogil
