"""Past intervals of a job that its row does not have: its suspensions, and its allocations before they changed.

The end of a suspension and a change of a running job's allocation add a row each, in the batch of that change. Other
jobs have no overhead. The roll-up reads them (accounting/tables.py: JOB_SPAN).
"""

from ctld.core.records.job import Job, JobSpan
from ctld.core.state.state import ClusterState
from penstock.values.hostlist import compress


def was_suspended(state: ClusterState, job: Job) -> None:
    """Records the suspension that began at `job.suspended_at_us` and ends now.

    Its end is the controller's time even when the job ended earlier, so that it agrees with what was counted until
    then.
    """
    since_us, until_us = job.suspended_at_us, state.now_us
    if since_us < until_us:
        state.outputs.job_spans[job.job_id, job.attempt, since_us, until_us] = JobSpan(
            job.job_id, job.attempt, since_us, until_us, ""
        )


def allocation_changed(state: ClusterState, job: Job, now_us: int) -> None:
    """Records the allocation that the job has had until now (`job.tres_alloc`); the caller changes it."""
    key = (job.job_id, job.attempt, 0, now_us)
    state.outputs.job_spans.setdefault(key, JobSpan(job.job_id, job.attempt, 0, now_us, job.tres_alloc))


def resized(state: ClusterState, job: Job, now_us: int) -> None:
    """Records the allocation and the nodes that the job has had until now. sacct shows them as a record of its own."""
    nodes = compress(part.node for part in job.alloc)
    key = (job.job_id, job.attempt, 0, now_us)
    state.outputs.job_spans[key] = JobSpan(job.job_id, job.attempt, 0, now_us, job.tres_alloc, nodes)
