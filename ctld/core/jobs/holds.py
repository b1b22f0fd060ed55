"""Holds of pending jobs, and who may release them.

Holds are ordered by strength (`stronger`): the user's, that of an exit status, the controller's, an administrator's.
Whatever happens to a job (it is requeued, held once more, fails to start), the stronger of two holds remains. Only a
release removes one, and only operators may release an administrator's.

The controller's hold is an administrator's hold with one of its own reasons in `reason_detail`; the job's owner may
release it. Therefore such a reason must never overwrite an administrator's hold, which its owner could then release.
"""

from typing import Final

from ctld.core.records.job import Job
from penstock.values.states import Hold, JobState, Reason, stronger

#: Reasons for which the controller itself holds a job; in `reason_detail` while it is held.
HELD_BY_CONTROLLER: Final = frozenset(
    r.value for r in (Reason.LAUNCH_FAILED_REQUEUED_HELD, Reason.JOB_HOLD_MAX_REQUEUE, Reason.RESERVATION_DELETED)
)


def is_administrators(job: Job) -> bool:
    """Whether only an operator may release it."""
    return job.hold is Hold.ADMIN and job.reason_detail not in HELD_BY_CONTROLLER


def hold_as(job: Job, kind: Hold) -> None:
    """Sets a user's hold. It replaces the controller's only where it is stronger."""
    if kind is not Hold.ADMIN and job.hold is Hold.ADMIN:
        return
    job.hold = stronger(job.hold, kind)
    if job.state is JobState.PENDING or job.reason_detail in HELD_BY_CONTROLLER:
        job.reason_detail = ""


def hold_after_exit(job: Job) -> None:
    """Sets the hold of a job that is requeued as SPECIAL_EXIT. Its owner may release it."""
    job.hold = stronger(job.hold, Hold.SPECIAL_EXIT)


def hold_until_checked(job: Job) -> None:
    """Sets an administrator's hold, whatever held it before; a reason stays that is not the controller's."""
    job.hold = Hold.ADMIN
    if job.reason_detail in HELD_BY_CONTROLLER:
        job.reason_detail = ""


def hold_like(job: Job, kind: Hold, reason: str) -> None:
    """Sets a hold of another job, which had that `reason_detail`."""
    if kind is Hold.ADMIN and reason in HELD_BY_CONTROLLER:
        hold_for(job, reason)
    else:
        hold_as(job, kind)


def release(job: Job) -> None:
    """Removes any hold, and its reason."""
    job.hold = Hold.NO
    if job.state is JobState.PENDING:
        job.reason_detail = ""


def hold_for(job: Job, reason: str) -> None:
    """Sets the controller's hold. Without a reason it equals an administrator's."""
    if not is_administrators(job):
        job.hold = Hold.ADMIN
        job.reason_detail = reason
