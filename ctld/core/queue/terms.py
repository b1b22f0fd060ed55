"""The terms that all rows of a job share for the planner: its identity, its time limit, and its latest start.

shapes.py computes the demand of each row on nodes.
"""

from ctld.core.jobs import het
from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.queue import prediction, resolve_association
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.reservations.access import least_s
from ctld.core.state.pending import NO_DEADLINE, Terms
from ctld.core.state.state import ClusterState

US = 1_000_000


def terms_of(state: ClusterState, job: Job) -> Terms:
    """Returns the terms that all rows of the job share."""
    limit_s = _limit_s(job)
    leader = het.members(state, job)[0] if job.request.het_offset else job  # alike, so that they stay together
    fields = (
        state.sharing_number(job),
        limit_s,
        min(limit_s, least_s(job) or limit_s),
        0,
        latest_start_s(job),
        0,
        job.request.het_job_id,
        state.assoc_number(job),
        prediction.expected_s(state, leader, limit_s if leader is job else _limit_s(leader)),
        resolve_association.reserves(state, job),
    )
    return tuple.__new__(Terms, fields)  # all of its fields; a start makes one for each waiting job


def _limit_s(job: Job) -> int:
    return UNLIMITED_S if job.time_limit_s < 0 else job.time_limit_s


def latest_start_s(job: Job) -> int:
    """Returns the last time at which a job with --deadline may start to end in time; without a limit it must only begin
    before it."""
    request = job.request
    if not request.deadline_at_us:
        return NO_DEADLINE
    return request.deadline_at_us // US - (request.time_min_s or max(0, job.time_limit_s))


def most_s(request: JobRequest, now_us: int) -> int:
    """Returns the longest time that a job may run which starts now and must end before its --deadline."""
    return max(1, (request.deadline_at_us - now_us) // US) if request.deadline_at_us else UNLIMITED_S
