"""Rebuilds the rows of a long queue after a start, a slice at a time; the controller answers meanwhile.

Computing a pending job's rows takes some 8 us: 0.8 s for a queue of 100,000. Only the scheduler needs them. So a start
creates the rows of the first jobs, and those of the others in slices, one before each seal. Passes are suspended until
all rows exist, since one that sees half of the queue would start jobs that should wait. Everything else works
meanwhile: jobs can be listed, held, changed and cancelled, and a refreshed job (ready.refresh) gets its rows at once.

Rows of components of a heterogeneous job, which become ready together, are created at once. Under limits the order of jobs
is that of their ids, as without slices: it decides who ages first (limits/ages.py).

A change that concerns many jobs, such as a partition's state, uses the same slices (lifecycle/recheck.py).
"""

from ctld.core.lifecycle.lost_licenses import keep_back
from ctld.core.lifecycle.ready import enter_many, refresh
from ctld.core.records.job import Job
from ctld.core.state.pending import Outside
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import JobState

#: Jobs that get their rows before the start is over: all of them on most clusters, in some 20 ms.
AT_ONCE = 1_000
#: Jobs of a slice: some 8 ms of the loop.
SLICE = 1_000


def begin(state: ClusterState, now_us: int) -> None:
    """Creates the rows of pending jobs: of the first at once, of the others with `enter_slice`."""
    pending = [job for job in state.jobs.records() if job.state is JobState.PENDING]
    state.pending.outside = Outside(job.job_id for job in pending[AT_ONCE:] if not job.request.het_job_id)
    for job in (*pending[:AT_ONCE], *(job for job in pending[AT_ONCE:] if job.request.het_job_id)):
        own = state.jobs.own(job)
        keep_back(state, own, now_us)
        refresh(state, own, now_us)
    if state.pending.outside:
        state.timers.set(now_us, Timer.QUEUE_RECOVERY)


def enter_slice(state: ClusterState, now_us: int) -> None:
    """Creates the rows of the next slice. After the last one a pass is due."""
    outside = state.pending.outside
    state.pending.reserve(AT_ONCE + len(outside))  # once, in the first slice: later ones have fewer jobs left
    jobs: list[Job] = []
    for job_id in outside.take(SLICE):
        job = state.jobs.look(job_id)
        if job is not None:
            jobs.append(keep_back(state, job, now_us) if job.request.licenses else job)
    enter_many(state, jobs, now_us)
    if outside:
        state.timers.set(now_us, Timer.QUEUE_RECOVERY)
    else:
        state.pending.outside = Outside()  # one that is emptied keeps its memory
        state.changed()
