"""Dependencies: after, afterany, afterok, afternotok, aftercorr, afterburstbuffer, singleton; `,` = all, `?` = any.

The unmet terms of a job are in `state.dependencies.waiting_for`, with an index from each job or array that a term names
to the jobs that wait for it. When such a job starts or ends, its waiters are evaluated again, TERMS_A_TURN terms in one
turn: met terms are removed, and a term that can never be met makes the job wait as DependencyNeverSatisfied, or cancels it
(--kill-on-invalid-dep). A term that names a whole array is evaluated by the array's counters.
The remaining terms are in `job.dependency`, in Slurm's syntax, from which a restart rebuilds the tables.

A job that ended with an exit other than 0, was cancelled, ran out of time or lost its node has "failed" for afterok and
afternotok. Without burst buffers afterburstbuffer is afterany. aftercorr between two arrays is afterok between tasks of
the same number: when a task of the other array ends, the task that waits for it is split off its array's record, and so
are tasks that can never run because of it; tasks without a counterpart wait for the whole array. A job never waits for
itself, directly or through others (is_circular): only an update could cause that, since a new job's id is not known
beforehand.

Deliberately absent: expand (refused at submit).
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final

from ctld.core.jobs import arrays, mail
from ctld.core.jobs.dependees import named_by
from ctld.core.jobs.waiters import check_room, forget, wait_for
from ctld.core.lifecycle.job_life import terminate
from ctld.core.lifecycle.ready import refresh
from ctld.core.lifecycle.waiting import set_reason
from ctld.core.queue.rights import sees_job, sees_jobs_of_others
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.dependency import KINDS, SINGLETON, Dependency, Term, format_dependency, parse_dependency
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, JobState, Reason
from penstock.values.taskset import TaskSet

#: Jobs that are visited in the search for a circular dependency; longer than any real chain.
CHAIN_MAX = 100_000
CORRESPONDING = "aftercorr"
#: Terms that are examined in one turn of the loop: some 20 ms. The next turn follows after a pause for others.
TERMS_A_TURN: Final = 4_000
PAUSE_US: Final = 1_000


class Met(Enum):
    """The present truth value of a term."""

    NOT_YET = 0
    YES = 1
    NEVER = 2


def parse(state: ClusterState, actor: Actor, text: str) -> Dependency | None:
    """Parses --dependency and checks that the jobs it names are known. Raises Refused.

    A job that PrivateData hides from the caller counts as unknown: otherwise the dependent job would reveal whether it
    exists, when it ends and how.
    """
    if not text:
        return None
    try:
        dependency = parse_dependency(text, state.handling.allowance)
    except BadValue as error:
        raise Refused(Code.INVALID_DEPENDENCY, str(error)) from None
    dependency = replace(dependency, terms=tuple(_by_id(state, term) for term in dependency.terms))
    known: dict[tuple[int, int | None], None] = {}
    for term in dependency.terms:
        if term.kind not in KINDS:
            raise Refused(Code.NOT_SUPPORTED, f"dependency type {term.kind} is not supported yet")
        if term.kind != SINGLETON and (term.job_id, term.task_id) not in known and not _is_known(state, actor, term):
            raise Refused(Code.INVALID_DEPENDENCY, f"job {term.job_id} is not known (any more)")
        known[term.job_id, term.task_id] = None
    dependency = replace(dependency, terms=tuple(dict.fromkeys(dependency.terms)))
    check_room(state, actor.uid, len(dependency.terms))
    return dependency


def _by_id(state: ClusterState, term: Term) -> Term:
    """Replaces a term with a SLUID by the term that names the same record by its id."""
    if term.submitted_s is None:
        return term
    job = state.jobs.get(term.job_id)
    if job is None or job.submit_at_us // 1_000_000 != term.submitted_s:
        raise Refused(Code.INVALID_DEPENDENCY, f"no job with the id {term.job_id} has this SLUID")
    job_id = job.job_id if job.array_task_id is None else job.array_job_id
    return replace(term, job_id=job_id, task_id=job.array_task_id, submitted_s=None)


def _is_known(state: ClusterState, actor: Actor, term: Term) -> bool:
    found = named_by(state, term)
    if not found:  # of an existing array, all records may be purged
        return found is not None and sees_jobs_of_others(state.config, actor)
    return all(sees_job(state, actor, job) for job in found)


def attach(state: ClusterState, job: Job, dependency: Dependency | None, now_us: int) -> None:
    """Makes a pending job wait for the terms that are not yet met. Its earlier dependency, if any, is replaced."""
    forget(state, job)
    job.dependency = ""
    if dependency is not None:
        wait_for(state, job, dependency.any_of, dependency.terms)
        for other in _ended_counterparts(state, job):
            if job.array_tasks is not None:
                _give_own_task(state, job, other, now_us)
        if job.job_id in state.dependencies.waiting_for:
            evaluate(state, job, now_us)


def is_circular(state: ClusterState, job: Job, dependency: Dependency) -> bool:
    """Whether the job would wait, directly or through others, for its own end."""
    own = {job.job_id, job.array_job_id} - {0}
    terms = [term for term in dependency.terms if term.kind != "singleton"]
    seen: dict[int, None] = {}
    named: dict[tuple[int, int | None], None] = {}
    while terms:
        term = terms.pop()
        if term.job_id in own:
            return True
        if (term.job_id, term.task_id) in named:
            continue
        named[term.job_id, term.task_id] = None
        for target in named_by(state, term) or ():
            if target.job_id not in seen and len(seen) < CHAIN_MAX:
                seen[target.job_id] = None
                if target.job_id in own:
                    return True
                terms.extend(
                    t
                    for t in state.dependencies.waiting_for.get(target.job_id, (False, ()))[1]
                    if t.kind != "singleton"
                )
    return False


def _ended_counterparts(state: ClusterState, job: Job) -> list[Job]:
    """Returns the ended tasks of arrays for which an array waits task by task."""
    if job.array_tasks is None:
        return []
    terms = [term for term in state.dependencies.waiting_for[job.job_id][1] if _is_between_arrays(state, term)]
    return [other for term in terms for other in arrays.records_of(state, term.job_id) if other.state in END_STATES]


def _is_between_arrays(state: ClusterState, term: Term) -> bool:
    return term.kind == CORRESPONDING and term.task_id is None and term.job_id in state.arrays


def _has_counterparts(state: ClusterState, waiter: Job, job: Job) -> bool:
    """Whether tasks of an array wait for their counterparts in the array whose task has ended."""
    if waiter.array_tasks is None or not job.array_job_id or job.state not in END_STATES:
        return False
    terms = state.dependencies.waiting_for[waiter.job_id][1]
    return any(term.job_id == job.array_job_id and _is_between_arrays(state, term) for term in terms)


def _give_own_task(state: ClusterState, job: Job, other: Job, now_us: int) -> None:
    """Splits off the counterparts of tasks of another array that have ended, so that each is evaluated separately."""
    assert job.array_tasks is not None
    ended = other.array_tasks if other.array_tasks is not None else TaskSet.of([other.array_task_id or 0])
    common = job.array_tasks.intersect(ended)
    if not common:
        return
    any_of, terms = state.dependencies.waiting_for[job.job_id]
    part = arrays.split(state, job, common)
    forget(state, part)
    own = tuple(
        Term(term.kind, term.job_id, common.first()) if term.job_id == other.array_job_id and _is_between_arrays(state, term)
        else term
        for term in terms
    )  # fmt: skip
    wait_for(state, part, any_of, own)
    evaluate(state, part, now_us)


def settle(state: ClusterState, now_us: int) -> None:
    """Evaluates the dependents of jobs that have started or ended, and of those that end as a consequence: as many as fit
    into a turn. For the rest a timer is set; until it has come, other events only add to them."""
    table = state.dependencies
    left = 0 if table.is_timed else TERMS_A_TURN
    while table.due or table.changed:
        due = table.due
        table.due = {}
        for job_id in due:
            table.changed.update(((job_id, waiter), None) for waiter in _dependents_of(state, state.jobs[job_id]))
        if left <= 0:
            break
        if table.changed:
            pair, _ = table.changed.popitem(last=False)
            left -= _on_change(state, *pair, now_us)
    if table.changed and not table.is_timed:
        table.is_timed = True
        state.timers.set(now_us + PAUSE_US, Timer.DEPENDENTS)


def settle_more(state: ClusterState, now_us: int) -> None:
    """Evaluates the dependents that the turn before has left."""
    state.dependencies.is_timed = False
    settle(state, now_us)


def _dependents_of(state: ClusterState, job: Job) -> list[int]:
    ids = dict(state.dependencies.dependents.get(job.job_id, {}))
    if job.array_job_id:
        ids.update(state.dependencies.dependents.get(job.array_job_id, {}))
    if job.state in END_STATES:
        ids.update(state.dependencies.singletons.get((job.user_id, job.request.name), {}))
    return sorted(ids)


def _on_change(state: ClusterState, job_id: int, waiter_id: int, now_us: int) -> int:
    """Evaluates a job that waits for one that has changed. Returns the number of its terms."""
    waiting = state.dependencies.waiting_for.get(waiter_id)
    if waiting is None:  # the evaluation of another one may have ended this one
        return 1
    waiter, job = state.jobs[waiter_id], state.jobs.get(job_id)
    if job is not None and _has_counterparts(state, waiter, job):
        _give_own_task(state, waiter, job, now_us)
    if waiter_id in state.dependencies.waiting_for:
        evaluate(state, waiter, now_us)
    return len(waiting[1])


def evaluate(state: ClusterState, job: Job, now_us: int) -> None:
    """Removes the terms that are met; decides whether the job may start, must wait or can never start."""
    before = job.dependency
    any_of, terms = state.dependencies.waiting_for[job.job_id]
    results = [(term, _met(state, job, term, now_us)) for term in terms]
    left = tuple(term for term, result in results if result is not Met.YES)
    never = [term for term, result in results if result is Met.NEVER]
    if not left or (any_of and len(left) < len(terms)):
        forget(state, job)
        job.dependency = ""
    else:
        if len(left) < len(terms):
            forget(state, job)
            wait_for(state, job, any_of, left)
        job.dependency = format_dependency(Dependency(any_of, left), frozenset(never))
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
    terminate(state, job, JobState.CANCELLED, Reason.DEPENDENCY_NEVER_SATISFIED, now_us)


def _met(state: ClusterState, job: Job, term: Term, now_us: int) -> Met:
    if term.kind == "singleton":
        return Met.NOT_YET if state.jobs_by_name.has_older(job, state.jobs) else Met.YES
    record = state.arrays.get(term.job_id) if term.task_id is None else None
    if record is not None and term.kind != "after":
        return _MET_BY_KIND[term.kind](arrays.is_over(record), record.failed > 0)
    if record is not None and record.pending:
        return Met.NOT_YET
    targets = named_by(state, term)
    if not targets:
        # purged since: its end was evaluated when it happened, so its remaining terms can no longer be met
        return Met.YES if term.kind in ("after", "afterany", "afterburstbuffer") else Met.NEVER
    if term.kind == "after":
        return _after(state, job, targets, term.delay_s * 1_000_000, now_us)
    over = all(t.state in END_STATES for t in targets)
    failed = any(t.state is not JobState.COMPLETED for t in targets if t.state in END_STATES)
    return _MET_BY_KIND[term.kind](over, failed)


_MET_BY_KIND: dict[str, Callable[[bool, bool], Met]] = {
    "afterany": lambda over, failed: Met.YES if over else Met.NOT_YET,
    "afterburstbuffer": lambda over, failed: Met.YES if over else Met.NOT_YET,
    "aftercorr": lambda over, failed: Met.YES if over and not failed else Met.NEVER if over else Met.NOT_YET,
    "afterok": lambda over, failed: Met.NEVER if failed else Met.YES if over else Met.NOT_YET,
    "afternotok": lambda over, failed: Met.NOT_YET if not over else Met.YES if failed else Met.NEVER,
}


def _after(state: ClusterState, job: Job, targets: list[Job], delay_us: int, now_us: int) -> Met:
    """Evaluates `after:id[+minutes]`: the job (each task of the array) started or was cancelled at least so long ago."""
    if any(t.state is JobState.PENDING for t in targets):
        return Met.NOT_YET
    due_us = max(t.start_at_us or t.end_at_us for t in targets) + delay_us
    if due_us <= now_us:
        return Met.YES
    state.timers.set(due_us, Timer.DEPENDENCY_DELAY, job.job_id)
    return Met.NOT_YET
