"""The jobs that a term of a dependency names. waiters.py has the jobs that wait for them, lifecycle/depends.py
evaluates terms."""

from ctld.core.jobs import arrays
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.dependency import SINGLETON, Dependency, Term, format_dependency
from penstock.values.states import JobState


def named_by(state: ClusterState, term: Term) -> list[Job] | None:
    """Returns the records of a job, of a whole array or of one task of it; None = unknown job."""
    record = state.arrays.get(term.job_id)
    if record is not None:
        if term.task_id is None:
            return arrays.records_of(state, term.job_id)
        job_id = record.members.get(term.task_id)
        if job_id is not None:
            return [state.jobs[job_id]] if job_id in state.jobs else None
        for queued_id in record.unsplit:
            tasks = state.jobs[queued_id].array_tasks
            if tasks is not None and term.task_id in tasks:
                return [state.jobs[queued_id]]
        return None
    job = state.jobs.get(term.job_id)
    return None if job is None or term.task_id is not None else [job]


def describe(state: ClusterState, job: Job, term: Term) -> str:
    """Describes a term that a job waits for, with the states of the jobs that it names."""
    if term.kind == SINGLETON:
        return f"singleton (an older job of the name {job.request.name} is not over)"
    counts: dict[JobState, int] = {}
    for named in named_by(state, term) or ():
        counts[named.state] = counts.get(named.state, 0) + arrays.weight(named)
    states = ", ".join(f"{number} {one.name}" for one, number in sorted(counts.items()))
    if sum(counts.values()) == 1:
        states = next(iter(counts)).name
    return f"{format_dependency(Dependency(False, (term,)))} ({states or 'gone'})"
