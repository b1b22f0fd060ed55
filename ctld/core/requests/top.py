"""scontrol top: moves a job before the others of its user in the same partition, account and QOS (scontrol(1)).

The job's nice value is lowered until it ranks first, and the others' are raised by the same total, so that the user as
a whole gains nothing against other users. Several jobs are moved to the front from the last to the first, so that they
end in the order in which they were named. Operators may do this, and owners where SchedulerParameters has
enable_user_top.
"""

from ctld.core.lifecycle.ready import refresh
from ctld.core.queue import priority
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, Role
from ctld.core.records.job import Job
from ctld.core.requests.submit import NICE_MAX
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState


def check_top(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Checks whether the job may be moved. Raises Refused."""
    if actor.role < Role.OPERATOR and not state.config.has_word("scheduler_parameters", "enable_user_top"):
        raise Refused(Code.DISABLED_STATE, "SchedulerParameters has no enable_user_top")
    if job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    if job.state is not JobState.PENDING:
        raise Refused(Code.DISABLED_STATE, "the job is not pending")
    if job.hold:
        raise Refused(Code.JOB_HELD)
    if len(job.request.partitions) > 1:
        raise Refused(Code.DISABLED_STATE, "the job was submitted to several partitions")
    if job.request.nice - _needed(state, job, _others(state, job)) < -NICE_MAX:
        raise Refused(Code.INVALID_VALUE, "nice would be out of its range")


def top(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Moves the job."""
    others = _others(state, job)
    needed = _needed(state, job, others)
    if not needed:
        return
    _renice(state, job, job.request.nice - needed, now_us)
    share, rest = divmod(needed, len(others))
    for position, other in enumerate(others):
        _renice(state, other, min(NICE_MAX, other.request.nice + share + (position < rest)), now_us)
    state.record(now_us, job, "top", f"uid {actor.uid}")


def _others(state: ClusterState, job: Job) -> list[Job]:
    """Returns the owner's other pending jobs of the same kind, by id."""
    same = [
        other
        for other in state.jobs.values()
        if other is not job
        and other.state is JobState.PENDING
        and not other.hold
        and other.user_id == job.user_id
        and other.request.partitions == job.request.partitions
        and other.request.account == job.request.account
        and other.request.qos == job.request.qos
    ]
    return sorted(same, key=lambda other: other.job_id)


def _needed(state: ClusterState, job: Job, others: list[Job]) -> int:
    """Returns by how much the priority must rise to be the highest."""
    highest = max((priority.current(state, other) for other in others), default=0)
    return max(0, highest + 1 - priority.current(state, job)) if others else 0


def _renice(state: ClusterState, job: Job, nice: int, now_us: int) -> None:
    state.replace_request(job, with_changes(job.request, nice=nice))
    priority.renew(state, job)
    state.touch(job)
    state.pending.remove(job.job_id)
    refresh(state, job, now_us)
