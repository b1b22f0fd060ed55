"""Handlers of a job's timers: purge it, check it again, end it at its deadline.

The job of a timer may have been purged or be in another attempt by now; each handler checks that first and then does
nothing.
"""

from ctld.core.lifecycle import depends, job_life, ready
from ctld.core.queue.terms import latest_start_s
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import END_STATES, JobState, Reason

#: Delay before another attempt to purge an ended job whose end is not committed yet.
PURGE_PAUSE_US = 1_000_000


def purge(state: ClusterState, now_us: int, key: int, attempt: int) -> None:
    """Purges the job: MinJobAge has passed since its end. Not before all that wait for jobs have been evaluated."""
    job = state.jobs.get(key)
    if job is None or job.attempt != attempt or job.state not in END_STATES:
        return
    if state.dependencies.changed:
        state.timers.set(now_us + 2 * depends.PAUSE_US, Timer.PURGE, key, attempt)
    elif (
        key in state.outputs.dirty_jobs
    ):  # it ended long ago, on a node that was unreachable, and its end is not written yet
        state.timers.set(now_us + PURGE_PAUSE_US, Timer.PURGE, key, attempt)
    else:
        state.purge_job(job)


def begin_time(state: ClusterState, now_us: int, key: int, attempt: int) -> None:
    """Checks the job again: a begin time has passed, or its obstacle may have ended."""
    job = state.jobs.get(key)
    if job is None:
        return
    ready.refresh(state, job, now_us)
    if job.preemptor_id and job.state is JobState.PENDING and not state.pending.is_ready(job.job_id):
        state.timers.set(now_us + job_life.PREEMPTOR_PAUSE_US, Timer.BEGIN_TIME, job.job_id)


def deadline(state: ClusterState, now_us: int, key: int, attempt: int) -> None:
    """Ends a job that can no longer end by its --deadline."""
    job = state.jobs.get(key)
    if job is None or job.state is not JobState.PENDING or not job.request.deadline_at_us:
        return
    if latest_start_s(job) * 1_000_000 <= now_us:
        job_life.terminate(state, job, JobState.DEADLINE, Reason.DEADLINE, now_us)


def switch_wait(state: ClusterState, now_us: int, key: int, attempt: int) -> None:
    """Ends the job's wait for few switches."""
    job = state.jobs.get(key)
    if job is not None and job.state is JobState.PENDING:
        state.pending.remove(job.job_id)
        ready.refresh(state, job, now_us)


def depend_on(state: ClusterState, now_us: int, key: int, check: int) -> None:
    """Evaluates the next dependents of jobs that have changed."""
    depends.settle_more(state, now_us)


def depend_again(state: ClusterState, now_us: int, key: int, attempt: int) -> None:
    """Evaluates a dependency again at its time (after:JOB+MINUTES)."""
    if key in state.dependencies.waiting_for:
        depends.evaluate(state, state.jobs[key], now_us)
