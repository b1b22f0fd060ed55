"""Jobs without a script (salloc, and srun outside of a job): who waits for them, and how they end.

Such a job runs from the moment its nodes are its own, and goes on until its owner says that it is over; steps that live
then are ended with it. Without an owner (callers.py says when he is gone) it does not go on for ever:

    PENDING             is cancelled
    RUNNING, srun       ends with its last step
    RUNNING, salloc     goes on, as in Slurm, unless InactiveLimit is set: then it ends when no owner was there and no step
                        ran for so long (TIMEOUT, reason InactiveLimit); so does the job of an srun

It is never queued again: nobody waits for its second run.
"""

from ctld.core import het, job_life, preempt
from ctld.core.callers import OWNER_GONE_US, Owner
from ctld.core.effects import Allocation, Done, Refused
from ctld.core.events import Actor, AwaitAllocation, EndAllocation
from ctld.core.model import Job, job_row
from ctld.core.rights import is_own, not_yours
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.jobid import EXTERN_STEP
from penstock.values.jobkind import JobKind
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, Reason

S = JobState
US = 1_000_000
#: What `immediate_s` 0 means for a timer: a pass has looked at the job by then.
AT_ONCE_US = 1 * US


def _job_of(state: ClusterState, actor: Actor, job_id: int) -> Job:
    job = state.jobs.get(job_id)
    if job is None:
        raise Refused(Code.INVALID_JOB_ID, str(job_id))
    if not is_own(actor, job):
        raise not_yours(state, actor, job, Code.INVALID_JOB_ID, str(job_id))
    return job


def await_allocation(state: ClusterState, now_us: int, event: AwaitAllocation) -> None:
    """Answer now if the job has its nodes or has ended, else when that is so. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    if event.actor.uid == job.user_id:
        state.calls.enter(het.whole_id(job), event.reply_to)
    if event.wait and not het.is_up(state, job):
        state.calls.wait((job.job_id,), event.reply_to)
    else:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, allocation_of(state, job))


def allocation_of(state: ClusterState, job: Job) -> Allocation:
    """How things stand with a job, and with the other components of a heterogeneous one."""
    others = [job_row(other) for other in het.members(state, job) if other is not job]
    return Allocation(job_row(job), tuple(others))


def end_allocation(state: ClusterState, now_us: int, event: EndAllocation) -> None:
    """The owner needs it no more. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    job = state.jobs.get(het.whole_id(job), job)
    if not job.request.has_owner():
        raise Refused(Code.NOT_ALLOCATION)
    # -- apply
    state.reply(event.reply_to, Done())
    if job.state is S.PENDING:
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "CANCELLED", event.actor.uid)
    elif job.state not in END_STATES and job.state is not S.COMPLETING:
        end(state, job, now_us, event.exit_code, event.exit_signal, "its owner is done")


def end(state: ClusterState, job: Job, now_us: int, code: int, signal: int, why: str) -> None:
    """End a job without a script with an exit of its own; steps that live go first."""
    job.exit_code, job.exit_signal = code, signal
    state.record(now_us, job, "release", why)
    failed = bool(code or signal)
    end_state, reason = (S.FAILED, Reason.NON_ZERO_EXIT_CODE) if failed else (S.COMPLETED, Reason.NONE)
    if signal:
        reason = Reason.RAISED_SIGNAL
    if failed and job.preempt_end_at_us:
        end_state, reason = preempt.end_state_of(state, job), Reason.PREEMPTED
    job_life.terminate(state, job, end_state, reason, now_us)


# ---- is the owner there -----------------------------------------------------------------------------------------------


def watch(state: ClusterState, job: Job, now_us: int) -> None:
    """A job without a script is there, or there again after a restart."""
    state.calls.owners[job.job_id] = Owner(now_us)
    state.timers.set(now_us + OWNER_GONE_US, Timer.OWNER, job.job_id)


def owner_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Look after the owner; as long as the job lives there is one such timer."""
    owner, job = state.calls.owners.get(job_id), state.jobs.get(job_id)
    if owner is None or job is None or job.state in END_STATES:
        return
    gone_us = 0 if owner.calls else now_us - owner.seen_at_us
    if gone_us >= OWNER_GONE_US and job.state is not S.COMPLETING:
        _without_owner(state, job, now_us, gone_us)
    due_us = now_us + OWNER_GONE_US
    if 0 < gone_us < OWNER_GONE_US:
        due_us = owner.seen_at_us + OWNER_GONE_US
    state.timers.set(due_us, Timer.OWNER, job_id)


def _without_owner(state: ClusterState, job: Job, now_us: int, gone_us: int) -> None:
    limit_us = state.config.inactive_limit_s * US
    if job.state is S.PENDING:
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "its owner is gone")
    elif _works(state, job):
        return
    elif job.request.kind is JobKind.SRUN:
        _end_alone(state, job, now_us)
    elif limit_us and gone_us >= limit_us:
        job_life.terminate(state, job, S.TIMEOUT, Reason.INACTIVE_LIMIT, now_us, "TIME LIMIT")


def _end_alone(state: ClusterState, job: Job, now_us: int) -> None:
    if any(step.step_id != EXTERN_STEP for member in het.members(state, job) for step in member.steps.values()):
        end(state, job, now_us, job.derived_code, job.derived_signal, "its owner is gone")
    else:
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "its owner is gone")


def step_gone(state: ClusterState, job: Job, now_us: int) -> None:
    """A step of the job has ended: the job of an srun that is gone ends with its last one."""
    owner, job = state.calls.owners.get(het.whole_id(job)), state.jobs.get(het.whole_id(job), job)
    if owner is None or owner.calls:
        return
    if job.request.kind is not JobKind.SRUN:
        owner.seen_at_us = now_us  # InactiveLimit begins now
        return
    if job.state in END_STATES or job.state is S.COMPLETING or _works(state, job):
        return
    if now_us - owner.seen_at_us >= OWNER_GONE_US:
        _end_alone(state, job, now_us)


def _works(state: ClusterState, job: Job) -> bool:
    return any(job_life.working_steps(state, member) for member in het.active(state, job))


def immediate_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """--immediate: the job has not started in time."""
    job = state.jobs.get(job_id)
    if job is not None and job.state is S.PENDING:
        job_life.terminate(state, job, S.CANCELLED, Reason.NODES_BUSY, now_us)
