"""The table of dependencies: which jobs wait for which others. They are evaluated in lifecycle/depends.py."""

from typing import Final

from ctld.core.records.effects import Refused
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.dependency import Term
from penstock.values.refusals import Code

#: Terms of all of a user's waiting records: each may be examined when a job ends.
USER_TERMS_MAX: Final = 200_000


def wait_for(state: ClusterState, job: Job, any_of: bool, terms: tuple[Term, ...]) -> None:
    """Registers a job's dependency."""
    state.dependencies.waiting_for[job.job_id] = (any_of, terms)
    _count(state, job, len(terms))
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
    _count(state, job, -len(waiting[1]))
    for term in waiting[1]:
        _waiters(state, job, term, False).pop(job.job_id, None)


def _count(state: ClusterState, job: Job, number: int) -> None:
    counts = state.dependencies.terms_of
    counts[job.user_id] = counts.get(job.user_id, 0) + number
    if not counts[job.user_id]:
        del counts[job.user_id]


def check_room(state: ClusterState, uid: int, number: int) -> None:
    """Checks that the user's waiting jobs may have so many more terms. Raises Refused."""
    had = state.dependencies.terms_of.get(uid, 0)
    if had + number > USER_TERMS_MAX:
        text = f"this user's waiting jobs have {had} terms and these are {number} more, the limit is {USER_TERMS_MAX}"
        raise Refused(Code.INVALID_DEPENDENCY, text)


def check_split(state: ClusterState, job: Job) -> None:
    """Checks that tasks may be split off the record: each has the terms of all. Raises Refused."""
    waiting = state.dependencies.waiting_for.get(job.job_id)
    if waiting is not None:
        check_room(state, job.user_id, len(waiting[1]))
