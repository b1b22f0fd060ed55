"""scontrol top: a job to the front of those that its owner has in the same partition, account and QOS (scontrol(1)).

The job's nice value goes down by what it takes to stand first, and the others' go up together by as much, so that the user
as a whole gains nothing against other users. Several jobs are asked for from the last to the first, each of which goes to
the front, so they end in the order in which they were named. Operators may, and owners where SchedulerParameters has
enable_user_top.
"""

from ctld.core import priority
from ctld.core.effects import Refused
from ctld.core.events import Actor, Role
from ctld.core.model import Job
from ctld.core.plain import with_changes
from ctld.core.ready import refresh
from ctld.core.state import ClusterState
from ctld.core.submit import NICE_MAX
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState


def check_top(state: ClusterState, now_us: int, actor: Actor, job: Job) -> None:
    """Whether it may be done. Raises Refused."""
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
    """Do it."""
    others = _others(state, job)
    needed = _needed(state, job, others)
    if not needed:
        return
    _renice(state, job, job.request.nice - needed, now_us)
    share, rest = divmod(needed, len(others))
    for place, other in enumerate(others):
        _renice(state, other, min(NICE_MAX, other.request.nice + share + (place < rest)), now_us)
    state.record(now_us, job, "top", f"uid {actor.uid}")


def _others(state: ClusterState, job: Job) -> list[Job]:
    """The owner's other pending jobs of the same kind, by id."""
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
    """How much its priority has to rise to be the highest."""
    highest = max((priority.current(state, other) for other in others), default=0)
    return max(0, highest + 1 - priority.current(state, job)) if others else 0


def _renice(state: ClusterState, job: Job, nice: int, now_us: int) -> None:
    job.request = with_changes(job.request, nice=nice)
    job.request_id = state.new_request(job.request)
    priority.renew(state, job)
    state.touch(job)
    state.pending.remove(job.job_id)
    refresh(state, job, now_us)
