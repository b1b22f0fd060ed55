"""The table of dependencies: which jobs wait for which others. They are evaluated in lifecycle/depends.py."""

from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.dependency import Term


def wait_for(state: ClusterState, job: Job, any_of: bool, terms: tuple[Term, ...]) -> None:
    """Registers a job's dependency."""
    state.dependencies.waiting_for[job.job_id] = (any_of, terms)
    for term in terms:
        _waiters(state, job, term, True)[job.job_id] = None


def _waiters(state: ClusterState, job: Job, term: Term, create: bool) -> dict[int, None]:
    """Returns the jobs that wait for the term's object: a job, an array, or the release of a name (singleton)."""
    if term.kind == "singleton":
        names, name = state.dependencies.singletons, (job.user_id, job.request.name)
        return names.setdefault(name, {}) if create else names.get(name, {})
    table = state.dependencies.dependents
    return table.setdefault(term.job_id, {}) if create else table.get(term.job_id, {})


def forget(state: ClusterState, job: Job) -> None:
    """Removes a job's dependency."""
    waiting = state.dependencies.waiting_for.pop(job.job_id, None)
    if waiting is None:
        return
    for term in waiting[1]:
        _waiters(state, job, term, False).pop(job.job_id, None)
