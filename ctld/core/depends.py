"""Dependencies: after, afterany, afterok, afternotok, aftercorr, afterburstbuffer, singleton; `,` = all, `?` = any.

A job that depends on something keeps the terms that are not yet met in `state.waiting_for`, and each job or array
that a term names knows who waits for it. When such a job starts or ends, those that wait are looked at again: terms
that are met fall away, and a term that can never be met makes the job wait as DependencyNeverSatisfied, or cancels it
(--kill-on-invalid-dep). What is left is in `job.dependency`, in Slurm's text, so that a restart needs nothing else.

A job that ended with an exit other than 0, was cancelled, ran out of time or lost its node has "failed" for afterok
and afternotok. Without burst buffers afterburstbuffer is afterany. aftercorr between two arrays is afterok for each task
and the one of its number: when a task of the other ends, the one that waits for it is split off its array's record, and
so is what can never run because of it; tasks without such a one wait for the whole array. A job never waits for itself,
neither over others (is_circular): only a change can lead there, since a new job's id is not known before.

Deliberately absent: expand (refused at submit).
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

from ctld.core import arrays, mail
from ctld.core.effects import Refused
from ctld.core.events import Actor
from ctld.core.model import Job
from ctld.core.ready import refresh, set_reason
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.dependency import KINDS, Dependency, Term, format_dependency, parse_dependency
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, Reason
from penstock.values.taskset import TaskSet

#: Jobs that are looked at to see whether a dependency goes round in a circle; more than a chain that anybody makes.
CHAIN_MAX = 100_000
CORRESPONDING = "aftercorr"


class Met(Enum):
    """What a term is worth now."""

    NOT_YET = 0
    YES = 1
    NEVER = 2


def parse(state: ClusterState, actor: Actor, text: str) -> Dependency | None:
    """Read --dependency and check that what it names is known. Raises Refused."""
    if not text:
        return None
    try:
        dependency = parse_dependency(text)
    except BadValue as error:
        raise Refused(Code.INVALID_DEPENDENCY, str(error)) from None
    for term in dependency.terms:
        if term.kind not in KINDS:
            raise Refused(Code.NOT_SUPPORTED, f"dependency type {term.kind} is not supported yet")
        if term.kind != "singleton" and targets_of(state, term) is None:
            raise Refused(Code.INVALID_DEPENDENCY, f"job {term.job_id} is not known (any more)")
    return dependency


def targets_of(state: ClusterState, term: Term) -> list[Job] | None:
    """The records that a term speaks of; None = unknown job."""
    record = state.arrays.get(term.job_id)
    if record is not None:
        if term.task_id is None:
            return arrays.records_of(state, term.job_id)
        job_id = record.members.get(term.task_id)
        if job_id is not None:
            return [state.jobs[job_id]] if job_id in state.jobs else None
        for holder_id in record.holders:
            tasks = state.jobs[holder_id].array_tasks
            if tasks is not None and term.task_id in tasks:
                return [state.jobs[holder_id]]
        return None
    job = state.jobs.get(term.job_id)
    return None if job is None or term.task_id is not None else [job]


def attach(state: ClusterState, job: Job, dependency: Dependency | None, now_us: int) -> None:
    """Make a pending job wait for what is not yet met. Its earlier dependency, if any, is replaced."""
    forget(state, job)
    job.dependency = ""
    if dependency is not None:
        wait_for(state, job, dependency.any_of, dependency.terms)
        for other in _ended_counterparts(state, job):
            if job.array_tasks is not None:
                _give_own_task(state, job, other, now_us)
        if job.job_id in state.waiting_for:
            evaluate(state, job, now_us)


def is_circular(state: ClusterState, job: Job, dependency: Dependency) -> bool:
    """Whether the job would wait, over others or at once, for its own end."""
    own = {job.job_id, job.array_job_id} - {0}
    terms = [term for term in dependency.terms if term.kind != "singleton"]
    seen: dict[int, None] = {}
    while terms:
        term = terms.pop()
        if term.job_id in own:
            return True
        for target in targets_of(state, term) or ():
            if target.job_id not in seen and len(seen) < CHAIN_MAX:
                seen[target.job_id] = None
                if target.job_id in own:
                    return True
                terms.extend(t for t in state.waiting_for.get(target.job_id, (False, ()))[1] if t.kind != "singleton")
    return False


def _ended_counterparts(state: ClusterState, job: Job) -> list[Job]:
    """Tasks that have ended of arrays that an array waits for task by task."""
    if job.array_tasks is None:
        return []
    terms = [term for term in state.waiting_for[job.job_id][1] if _is_between_arrays(state, term)]
    return [other for term in terms for other in arrays.records_of(state, term.job_id) if other.state in END_STATES]


def _is_between_arrays(state: ClusterState, term: Term) -> bool:
    return term.kind == CORRESPONDING and term.task_id is None and term.job_id in state.arrays


def _has_counterparts(state: ClusterState, waiter: Job, job: Job) -> bool:
    """Whether tasks of an array wait each for its own of the array whose task has ended."""
    if waiter.array_tasks is None or not job.array_job_id or job.state not in END_STATES:
        return False
    terms = state.waiting_for[waiter.job_id][1]
    return any(term.job_id == job.array_job_id and _is_between_arrays(state, term) for term in terms)


def _give_own_task(state: ClusterState, job: Job, other: Job, now_us: int) -> None:
    """A task, or several, of another array have ended: those of the same numbers are decided for themselves."""
    assert job.array_tasks is not None
    ended = other.array_tasks if other.array_tasks is not None else TaskSet.of([other.array_task_id or 0])
    common = job.array_tasks.intersect(ended)
    if not common:
        return
    any_of, terms = state.waiting_for[job.job_id]
    part = arrays.split(state, job, common)
    forget(state, part)
    own = tuple(
        Term(term.kind, term.job_id, common.first()) if term.job_id == other.array_job_id and _is_between_arrays(state, term)
        else term
        for term in terms
    )  # fmt: skip
    wait_for(state, part, any_of, own)
    evaluate(state, part, now_us)


def wait_for(state: ClusterState, job: Job, any_of: bool, terms: tuple[Term, ...]) -> None:
    """Write down what a job waits for, and with what it waits."""
    state.waiting_for[job.job_id] = (any_of, terms)
    for term in terms:
        _waiters(state, job, term, True)[job.job_id] = None


def _waiters(state: ClusterState, job: Job, term: Term, create: bool) -> dict[int, None]:
    """Those who wait for what the term names: a job, an array, or to be the only one of a name."""
    table: dict[Any, dict[int, None]] = state.dependents
    key: Any = term.job_id
    if term.kind == "singleton":
        table, key = state.singletons, (job.user_id, job.request.name)
    return table.setdefault(key, {}) if create else table.get(key, {})


def forget(state: ClusterState, job: Job) -> None:
    """The job no longer waits for anything."""
    waiting = state.waiting_for.pop(job.job_id, None)
    if waiting is None:
        return
    for term in waiting[1]:
        _waiters(state, job, term, False).pop(job.job_id, None)


def on_change(state: ClusterState, job: Job, now_us: int) -> None:
    """The job has started or ended: look again at those who wait for it."""
    if not state.waiting_for:
        return
    ids = dict(state.dependents.get(job.job_id, {}))
    if job.array_job_id:
        ids.update(state.dependents.get(job.array_job_id, {}))
    if job.state in END_STATES:
        ids.update(state.singletons.get((job.user_id, job.request.name), {}))
    for job_id in sorted(ids):
        if job_id in state.waiting_for:  # an earlier one of them may have ended this one
            waiter = state.jobs[job_id]
            if _has_counterparts(state, waiter, job):
                _give_own_task(state, waiter, job, now_us)
            if job_id not in state.waiting_for:
                continue
            evaluate(state, waiter, now_us)


def evaluate(state: ClusterState, job: Job, now_us: int) -> None:
    """Drop the terms that are met; decide whether the job may go on, must wait or can never start."""
    before = job.dependency
    any_of, terms = state.waiting_for[job.job_id]
    fates = [(term, _met(state, job, term, now_us)) for term in terms]
    left = tuple(term for term, fate in fates if fate is not Met.YES)
    never = [term for term, fate in fates if fate is Met.NEVER]
    if not left or (any_of and len(left) < len(terms)):
        forget(state, job)
        job.dependency = ""
    else:
        if len(left) < len(terms):
            forget(state, job)
            wait_for(state, job, any_of, left)
        job.dependency = format_dependency(Dependency(any_of, left), never)
        if never and (not any_of or len(never) == len(left)):
            if job.request.mail_types and job.reason is not Reason.DEPENDENCY_NEVER_SATISFIED:
                mail.never_satisfied(state, job)
            set_reason(state, job, Reason.DEPENDENCY_NEVER_SATISFIED)
            if job.request.kill_on_invalid_dep:
                _cancel(state, job, now_us)
                return
    if job.dependency != before:
        state.touch(job)
    refresh(state, job, now_us)


def _cancel(state: ClusterState, job: Job, now_us: int) -> None:
    from ctld.core.job_life import terminate  # job_life calls us when jobs start and end

    terminate(state, job, JobState.CANCELLED, Reason.DEPENDENCY_NEVER_SATISFIED, now_us)


def _met(state: ClusterState, job: Job, term: Term, now_us: int) -> Met:
    if term.kind == "singleton":
        return Met.NOT_YET if state.namesakes.has_older(job, state.jobs) else Met.YES
    targets = targets_of(state, term)
    if not targets:
        # purged since: its end was seen when it happened, so what is left of it can no longer be met
        return Met.YES if term.kind in ("after", "afterany", "afterburstbuffer") else Met.NEVER
    if term.kind == "after":
        return _after(state, job, targets, term.delay_s * 1_000_000, now_us)
    record = state.arrays.get(term.job_id) if term.task_id is None else None
    over = all(t.state in END_STATES for t in targets) and (record is None or arrays.is_over(record))
    failed = (
        record.failed > 0
        if record
        else any(t.state not in (JobState.COMPLETED,) for t in targets if t.state in END_STATES)
    )
    return _FATE[term.kind](over, failed)


_FATE: dict[str, Callable[[bool, bool], Met]] = {
    "afterany": lambda over, failed: Met.YES if over else Met.NOT_YET,
    "afterburstbuffer": lambda over, failed: Met.YES if over else Met.NOT_YET,
    "aftercorr": lambda over, failed: Met.YES if over and not failed else Met.NEVER if over else Met.NOT_YET,
    "afterok": lambda over, failed: Met.NEVER if failed else Met.YES if over else Met.NOT_YET,
    "afternotok": lambda over, failed: Met.NOT_YET if not over else Met.YES if failed else Met.NEVER,
}


def _after(state: ClusterState, job: Job, targets: list[Job], delay_us: int, now_us: int) -> Met:
    """`after:id[+minutes]`: the job (each task of the array) has started or been cancelled, so long ago."""
    if any(t.state is JobState.PENDING for t in targets):
        return Met.NOT_YET
    due_us = max(t.start_at_us or t.end_at_us for t in targets) + delay_us
    if due_us <= now_us:
        return Met.YES
    state.timers.set(due_us, Timer.DEPENDENCY_DELAY, job.job_id)
    return Met.NOT_YET
