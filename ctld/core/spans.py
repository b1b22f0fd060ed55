"""What a job's row does not say of its past: when it was suspended, and what it held before that changed.

A row comes of a suspension that is over and of a change of the allocation of a job that runs, in the batch of that
change. A job that has neither costs nothing here. The roll-up reads them (accounting/tables.py: JOB_SPAN).
"""

from ctld.core.model import Job, JobSpan
from ctld.core.state import ClusterState


def was_suspended(state: ClusterState, job: Job) -> None:
    """The suspension that began at `job.suspended_at_us` ends now, whatever becomes of the job.

    Its end is the controller's clock also when the job has ended before: what was counted until then can be told again.
    """
    since_us, until_us = job.suspended_at_us, state.now_us
    if since_us < until_us:
        state.job_spans[job.job_id, job.attempt, since_us, until_us] = JobSpan(
            job.job_id, job.attempt, since_us, until_us, ""
        )


def held(state: ClusterState, job: Job, now_us: int) -> None:
    """Until now the job has held what `job.tres_alloc` says; the caller changes it."""
    key = (job.job_id, job.attempt, 0, now_us)
    state.job_spans.setdefault(key, JobSpan(job.job_id, job.attempt, 0, now_us, job.tres_alloc))
