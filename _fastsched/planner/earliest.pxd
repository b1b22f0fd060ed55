# Rule 4: the earliest time at which a row fits.

from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t

from _fastsched.planner.records cimport PendingJob, PlanPass
from _fastsched.planner.timeline cimport PlanDemand

cdef int64_t licenses_free_from(
    PlanPass* plan, const PendingJob* job, int64_t from_s, int64_t limit_s, int32_t reservation
) except -1 nogil
cdef bint fits_at(PlanPass* plan, PendingJob* job, int64_t at_s) except -1 nogil
cdef int64_t earliest_start(PlanPass* plan, PendingJob* job, int64_t from_s, int64_t limit_s) except -1 nogil
cdef int64_t next_end(PlanPass* plan, const PendingJob* job, int64_t after_s) except -1 nogil


cdef inline void license_demand(const PendingJob* job, PlanDemand* demand) noexcept nogil:
    demand[0] = PlanDemand(mem_mb=INT64_MIN, cpus=INT32_MIN, user=0, exclusive=0, gres=job.licenses_needed)
