"""Rule 10: the reason of a row that waits. Also records of decided rows: what they wait for, and which jobs they were."""

from libc.stdint cimport int32_t, uint64_t

from _fastsched.planner.basics cimport (
    DEADLINE, LICENSES, NO_BLOCKS, PREEMPTING, PRIORITY, RESERVED, RESOURCES, STARTED, mix_hash,
)
from _fastsched.planner.choose cimport choose_nodes
from _fastsched.planner.earliest cimport fits_at, licenses_free_from
from _fastsched.planner.records cimport EMPTY, PLANNED, WITHOUT_BLOCKS, Basis


cdef bint fits_now(PlanPass* plan, PendingJob* job, Basis basis, bint only_up) except -1 nogil:
    """Applies rule 3 at this time on another basis, without licenses."""
    cdef bint found
    plan.basis = basis
    found = choose_nodes(plan, job, plan.limits.now_s, only_up)
    plan.basis = PLANNED
    return found


cdef bint blocked_by_reservations(PlanPass* plan, PendingJob* job) except -1 nogil:
    """Whether it would start now without blocks of nodes and licenses."""
    cdef int64_t now_s = plan.limits.now_s
    if not plan.counts.blocks and not plan.counts.license_blocks:
        return False
    return licenses_free_from(plan, job, now_s, now_s, NO_BLOCKS) <= now_s and fits_now(plan, job, WITHOUT_BLOCKS, True)


cdef uint8_t waiting_reason(PlanPass* plan, PendingJob* job) except? 255 nogil:
    """Returns the reason of a row that cannot start now; the caller handles PREEMPTING and DEADLINE of a planned one."""
    cdef int32_t word
    cdef bint allowed
    cdef int64_t now_s = plan.limits.now_s, latest_s = plan.input.jobs.latest_s[job.row]
    if not job.makes_sense or not fits_now(plan, job, EMPTY, False):
        return BAD_CONSTRAINTS
    if not plan.cluster.all_up and not fits_now(plan, job, EMPTY, True):
        return NODES_DOWN
    if latest_s < now_s or latest_s < plan.input.jobs.earliest_s[job.row]:
        return DEADLINE
    allowed = job.first_s <= now_s <= job.last_s
    if allowed and plan.input.jobs.het[job.row] > 0 and fits_at(plan, job, now_s):
        allowed = False  # by itself it could start now
    if allowed and job.licenses != NULL and fits_now(plan, job, PLANNED, True):
        return LICENSES
    if job.not_begun or (allowed and blocked_by_reservations(plan, job)):
        return RESERVED
    for word in range(plan.counts.mask_words):
        if job.mask[word] & plan.cluster.up[word] & ~plan.progress.waited_for[word]:
            return RESOURCES
    return PRIORITY


cdef void record_reason(PlanPass* plan, const PendingJob* job, int64_t position, uint8_t reason) noexcept nogil:
    """Records a reason; the nodes of rows that wait for resources count for PRIORITY of those after them."""
    cdef int32_t word
    plan.answer.reason[position] = reason
    if reason == STARTED:
        plan.answer.start_s[position] = plan.limits.now_s
    elif LICENSES <= reason <= PREEMPTING or reason == RESOURCES or reason == PRIORITY:
        for word in range(plan.counts.mask_words):
            plan.progress.waited_for[word] |= job.mask[word]


cdef SeenJob* seen_job(PlanPass* plan, int64_t job) noexcept nogil:
    """Returns the entry of a job in the table of jobs; a new one is not `known`."""
    cdef SeenJob* seen = plan.progress.seen
    cdef uint64_t mask = <uint64_t> plan.progress.seen_mask, at = mix_hash(0, <uint64_t> job) & mask
    while seen[at].known and seen[at].job != job:
        at = (at + 1) & mask
    seen[at].job = job
    return seen + at
