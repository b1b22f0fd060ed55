"""Small things about jobs that several commands share."""

from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobid import JobSelector


def selector_text(selector: JobSelector) -> str:
    """A job or tasks of an array, as requests carry it."""
    if selector.tasks is None:
        return str(selector.job_id)
    if len(selector.tasks) == 1:
        return f"{selector.job_id}_{selector.tasks.first()}"
    return f"{selector.job_id}_[{selector.tasks.format()}]"


def begin_at(job: JobInfo) -> int:
    """The begin time of a job that waits for it, else 0."""
    return job.request.begin_at_us if job.state == "PENDING" and job.reason == "BeginTime" else 0
