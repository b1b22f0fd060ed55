"""Jobs without a script (salloc, and srun outside of a job): clients that wait for them, and their end.

Such a job runs as soon as it has its nodes, and continues until its owner process ends it; live steps are ended with
it. When the owner disappears (state/calls.py determines when), the job does not continue indefinitely:

    PENDING             is cancelled
    RUNNING, srun       ends with its last step
    RUNNING, salloc     continues, as in Slurm, unless InactiveLimit is set: then it ends when it has had neither owner nor
                        step for that time (TIMEOUT, reason InactiveLimit); so does the job of an srun

It is never requeued: no client waits for a second run.
"""

from ctld.core.jobs import het, outcome
from ctld.core.lifecycle import job_life, step_orders
from ctld.core.queue import preemption
from ctld.core.queue.rights import is_own, not_yours
from ctld.core.records.effects import AllocationState, Done, Refused
from ctld.core.records.events import Actor, AwaitAllocation, EndAllocation
from ctld.core.records.job import Job, job_row
from ctld.core.state.calls import OWNER_GONE_US, CallOwner
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.jobid import EXTERN_STEP
from penstock.values.jobkind import JobKind
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, Reason

S = JobState
US = 1_000_000
#: What `immediate_s` 0 means for a timer: time for one pass.
AT_ONCE_US = 1 * US


def _job_of(state: ClusterState, actor: Actor, job_id: int) -> Job:
    job = state.jobs.get(job_id)
    if job is None:
        raise Refused(Code.INVALID_JOB_ID, str(job_id))
    if not is_own(actor, job):
        raise not_yours(state, actor, job, Code.INVALID_JOB_ID, str(job_id))
    return job


def await_allocation(state: ClusterState, now_us: int, event: AwaitAllocation) -> None:
    """Answers now if the job has its nodes or has ended, otherwise at that moment. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    state.applying()
    if event.actor.uid == job.user_id:
        state.calls.enter(het.whole_id(job), event.reply_to)
    if event.wait and not het.is_up(state, job):
        state.calls.wait((job.job_id,), event.reply_to)
    else:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, allocation_of(state, job))


def allocation_of(state: ClusterState, job: Job) -> AllocationState:
    """Describes the allocation state of a job, with the other components of a heterogeneous one."""
    others = [job_row(other) for other in het.members(state, job) if other is not job]
    return AllocationState(job_row(job), tuple(others))


def end_allocation(state: ClusterState, now_us: int, event: EndAllocation) -> None:
    """Ends an allocation on the request of its owner. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    job = state.jobs.get(het.whole_id(job), job)
    if not job.request.has_owner():
        raise Refused(Code.NOT_ALLOCATION)
    state.applying()
    state.reply(event.reply_to, Done())
    if job.state is S.PENDING:
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "CANCELLED", event.actor.uid)
    elif job.state not in END_STATES and job.state is not S.COMPLETING:
        end(state, job, now_us, event.exit_code, event.exit_signal, "its owner is done")


def end(state: ClusterState, job: Job, now_us: int, code: int, signal: int, why: str) -> None:
    """Ends a job without a script with a given exit code; live steps are ended first."""
    outcome.set_exit(job, code, signal)
    state.record(now_us, job, "release", why)
    failed = bool(code or signal)
    end_state, reason = (S.FAILED, Reason.NON_ZERO_EXIT_CODE) if failed else (S.COMPLETED, Reason.NONE)
    if signal:
        reason = Reason.RAISED_SIGNAL
    if failed and job.preempt_end_at_us:
        end_state, reason = preemption.end_state_of(state, job), Reason.PREEMPTED
    job_life.terminate(state, job, end_state, reason, now_us)


# ---- liveness of the owner
# --------------------------------------------------------------------------------------------


def watch(state: ClusterState, job: Job, now_us: int) -> None:
    """Starts the liveness check of the owner of a job without a script, also after a restart."""
    state.calls.owners[job.job_id] = CallOwner(now_us)
    state.timers.set(now_us + OWNER_GONE_US, Timer.OWNER, job.job_id)


def owner_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Handles the timer of the liveness check; a live job has one such timer."""
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
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "its owner has disconnected")
    elif _works(state, job):
        return
    elif job.request.kind is JobKind.SRUN:
        _end_alone(state, job, now_us)
    elif limit_us and gone_us >= limit_us:
        job_life.terminate(state, job, S.TIMEOUT, Reason.INACTIVE_LIMIT, now_us, "TIME LIMIT")


def _end_alone(state: ClusterState, job: Job, now_us: int) -> None:
    if any(step.step_id != EXTERN_STEP for member in het.members(state, job) for step in member.steps.values()):
        end(state, job, now_us, job.derived_code, job.derived_signal, "its owner has disconnected")
    else:
        job_life.terminate(state, job, S.CANCELLED, Reason.NONE, now_us, "its owner has disconnected")


def step_gone(state: ClusterState, job: Job, now_us: int) -> None:
    """Handles the end of a step: an srun job whose owner has disappeared ends with its last step."""
    owner, job = state.calls.owners.get(het.whole_id(job)), state.jobs.get(het.whole_id(job), job)
    if owner is None or owner.calls:
        return
    if job.request.kind is not JobKind.SRUN:
        owner.seen_at_us = now_us  # InactiveLimit is counted from now
        return
    if job.state in END_STATES or job.state is S.COMPLETING or _works(state, job):
        return
    if now_us - owner.seen_at_us >= OWNER_GONE_US:
        _end_alone(state, job, now_us)


def _works(state: ClusterState, job: Job) -> bool:
    return any(step_orders.working_steps(state, member) for member in het.active(state, job))


def immediate_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Handles the timer of --immediate: ends the job if it has not started in time."""
    job = state.jobs.get(job_id)
    if job is not None and job.state is S.PENDING:
        job_life.terminate(state, job, S.CANCELLED, Reason.NODES_BUSY, now_us)
