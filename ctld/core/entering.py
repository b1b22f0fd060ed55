"""After a start a long queue gets its rows a slice at a time, and the controller answers meanwhile.

What a pending job's rows are made of takes some 20 us a job: 2 s for a queue of 100,000. Nothing but the scheduler asks
for them. So a start gives the first jobs their rows, and the others theirs in slices, one before each seal. Passes wait
until all stand in line, since one that sees half of the queue would start what should wait. Everything else finds the
jobs as always: they are listed, held, changed and cancelled, and one that is looked at again (ready.refresh) enters at
once.

Nobody waits where others or the order count: under limits (who comes first has the room), and components of a
heterogeneous job, which are ready together.
"""

from itertools import islice

from ctld.core.ready import refresh
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import JobState

#: Jobs that enter before the start is over: all of them on most clusters, in some 20 ms.
AT_ONCE = 1_000
#: Jobs of a slice: some 10 ms of the loop.
SLICE = 500


def begin(state: ClusterState, now_us: int) -> None:
    """Give pending jobs their rows: the first at once, the others with `go_on`."""
    pending = [job for job in state.jobs.values() if job.state is JobState.PENDING]
    if state.ledger is None:
        state.pending.outside = {job.job_id: None for job in pending[AT_ONCE:] if not job.request.het_job_id}
    for job in pending:
        if job.job_id not in state.pending.outside:
            refresh(state, job, now_us)
    if state.pending.outside:
        state.timers.set(now_us, Timer.ENTER)


def go_on(state: ClusterState, now_us: int) -> None:
    """The next slice. After the last one a pass is due."""
    outside = state.pending.outside
    for job_id in list(islice(outside, SLICE)):
        del outside[job_id]
        if job_id in state.jobs:
            refresh(state, state.jobs[job_id], now_us)
    if outside:
        state.timers.set(now_us, Timer.ENTER)
    else:
        state.changed()
