"""Turns an unexpected error into a refusal of one request, as long as nothing was applied.

A handler's first half only reads, so an error there has changed nothing: the request is refused, and the controller
continues. `state.applying()` is the boundary. An error below it may leave the state inconsistent, so it is raised again
and the process ends; the database, which has none of the changes, remains correct.

A request about many jobs has two halves for each (`each_target`): the jobs that were completed are consistent. Facts (a
node's report, a timer, a plan) cannot be refused: an error in them always ends the process, and the runtime prevents
the same one from ending the next process, too (runtime/fatalcauses.py).

tests/core/test_unexpected_errors.py proves on every scenario that handlers call `applying` before they change anything.
"""

from ctld.core.jobs import holds
from ctld.core.lifecycle.ready import refresh
from ctld.core.records.effects import Refused
from ctld.core.records.events import Quarantine
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import JobState

#: Appears in the history of a held job, and so in the log.
WHY = "the controller has ended over this job: see its log, then release it"


def refuse_unexpected(state: ClusterState, error: Exception) -> Refused:
    """Returns the refusal for an error. Raises the error itself when something was applied."""
    if state.handling.is_applied:
        raise error
    state.handling.unexpected.append(error)
    return Refused(Code.INTERNAL)


def quarantine(state: ClusterState, now_us: int, event: Quarantine) -> None:
    """Holds the pending jobs, and defers the timers, that made earlier processes fail, until an administrator has
    checked them."""
    state.applying()
    state.handling.quarantined = frozenset(event.timers)
    for job_id in event.jobs:
        job = state.jobs.get(job_id)
        if job is not None and job.state is JobState.PENDING and not holds.is_administrators(job):
            holds.hold_until_checked(job)
            state.touch(job)
            state.record(now_us, job, "hold", WHY)
            refresh(state, job, now_us)
