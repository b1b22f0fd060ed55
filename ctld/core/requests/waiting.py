"""Registers and removes callers that wait for the end of a job.

`state.awaiting` lists the callers. The code that ends a job answers them; a caller that disconnects is
removed here, whatever it waited for.
"""

from ctld.core.jobs import arrays
from ctld.core.lifecycle import job_life
from ctld.core.queue.rights import may_touch, not_yours
from ctld.core.records.effects import JobEnded, Refused
from ctld.core.records.events import AwaitJob, StopWaiting
from ctld.core.state.state import ClusterState
from ctld.core.steps import creation
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState


def await_job(state: ClusterState, now_us: int, event: AwaitJob) -> None:
    """Answers now if the job has ended, otherwise when it does. Raises Refused."""
    job, record = state.jobs.get(event.job_id), state.arrays.get(event.job_id)
    if job is None and record is None:
        raise Refused(Code.INVALID_JOB_ID, str(event.job_id))
    one = job
    if one is None and record is not None:
        one = next((state.jobs[i] for i in (*record.members.values(), *record.unsplit) if i in state.jobs), None)
    if one is not None and not may_touch(state, event.actor, one):
        raise not_yours(state, event.actor, one, Code.INVALID_JOB_ID, str(event.job_id))
    state.applying()
    if job is not None and job.user_id == event.actor.uid:
        state.calls.enter(job.job_id, event.reply_to)
    if record is not None and arrays.is_over(record):
        ended = JobState.FAILED if record.failed else JobState.COMPLETED
        state.reply(event.reply_to, JobEnded(ended.name, record.exit_code, record.exit_signal))
    elif record is None and job is not None and job.state in END_STATES:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, job_life.ended(job))
    else:
        state.awaiting.add(event.job_id, event.reply_to)


def stop_waiting(state: ClusterState, now_us: int, event: StopWaiting) -> None:
    """Removes a caller that has disconnected, or whose wait has timed out."""
    state.applying()
    state.calls.stop(event.reply_to, now_us)
    creation.abandon_creation(state, now_us, event.reply_to)
    state.awaiting.stop(event.reply_to)
