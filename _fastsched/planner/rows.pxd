# The course of a pass.

from _fastsched.planner.records cimport PlanPass

cdef int run_pass(PlanPass* plan) except -1 nogil
