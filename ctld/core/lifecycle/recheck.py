"""Decides again about many pending jobs after a change that concerns them all: a partition's state, reservations.

A job takes some 20 us, and its new reason is a row to be written. So many jobs leave the queue with the change and come
back in slices, one before each seal, as after a start (passes/queue_recovery.py). Passes are suspended until the last
slice, so that no job starts by what was true before. Requests are answered meanwhile.
"""

from collections.abc import Sequence

from ctld.core.lifecycle.ready import refresh
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer

#: So many jobs are refreshed within the event: all of them on most clusters.
AT_ONCE = 1_000


def recheck(state: ClusterState, jobs: Sequence[Job], now_us: int) -> None:
    """Renews the scheduler's rows of these pending jobs, in this order: at once, or soon if there are many.

    Components of a heterogeneous job, which become ready together, are not deferred.
    """
    pending, is_long = state.pending, len(jobs) > AT_ONCE
    if is_long:
        pending.defer([job.job_id for job in jobs if not job.request.het_job_id])
        state.timers.set(now_us, Timer.QUEUE_RECOVERY)
    for job in jobs:
        if not is_long or job.request.het_job_id:
            pending.remove(job.job_id)
            refresh(state, state.jobs.own(job), now_us)
