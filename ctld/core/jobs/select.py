"""Selects the jobs of a request: filters over records, and ids with array expressions.

`matching` serves live records and committed rows alike (both have the same names), so `scancel` and `squeue` cannot
differ. A user's filter scans all jobs; events never do.
"""

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

from ctld.core.jobs import arrays, het
from ctld.core.records.events import JobFilter
from ctld.core.records.job import Job, JobRow
from ctld.core.state.state import ClusterState
from penstock.values.jobid import JobSelector, parse_selector
from penstock.values.states import END_STATES, JobState
from penstock.values.taskset import TaskSet

_Record = TypeVar("_Record", Job, JobRow)
_name_of, _account_of, _qos_of, _wckey_of = map(attrgetter, ("name", "account", "qos", "wckey"))


class JobTarget(NamedTuple):
    """A record that a selector matches.

    `tasks`: the selected part of a record of pending tasks, None = all of it.
    """

    job: Job
    tasks: TaskSet | None
    step_id: int | None


def matching(jobs: Iterable[_Record], which: JobFilter) -> list[_Record]:
    """Returns the records that pass every given filter (ids apart), in their order.

    Filters are applied one after the other: most requests have one, and applying it to 100,000 records takes 5 ms.
    """
    found = [] if which.unknown_user else list(jobs)
    if which.seen_uid >= 0:
        mine, accounts = which.seen_uid, frozenset(which.seen_accounts)
        found = [job for job in found if job.user_id == mine or job.request.account.lower() in accounts]
    if which.uids:
        uids = frozenset(which.uids)
        found = [job for job in found if job.user_id in uids]
    if which.states:
        states = frozenset(which.states)
        found = [job for job in found if job.state in states]
    for values, read in (
        (which.names, _name_of),
        (which.accounts, _account_of),
        (which.qos, _qos_of),
        (which.wckeys, _wckey_of),
    ):
        if values:
            wanted = frozenset(values)
            found = [job for job in found if read(job.request) in wanted]
    if which.partitions:
        names = frozenset(which.partitions)
        found = [job for job in found if _in_partitions(job, names)]
    if which.reservations:
        names = frozenset(which.reservations)
        found = [job for job in found if _in_reservations(job, names)]
    if which.nodes:
        names = frozenset(which.nodes)
        found = [job for job in found if any(part.node in names for part in job.alloc)]
    return found


def _in_partitions(job: Job | JobRow, names: frozenset[str]) -> bool:
    if job.state is JobState.PENDING:
        return any(name in names for name in job.request.partitions)
    return job.partition in names


def _in_reservations(job: Job | JobRow, names: frozenset[str]) -> bool:
    """Whether the job runs in one of them, or waits for one."""
    request = job.request
    return any(name in names for name in (request.reservation_run or request.reservation).split(","))


def targets_of(state: ClusterState, text: str, tasks: TaskSet | None = None) -> list[JobTarget]:
    """Returns the records that one id selects; empty = no such job. `tasks`: instead of those in the text. Raises BadValue
    for text that is no id."""
    selector = parse_selector(text, state.handling.allowance)
    if selector.submitted_s is not None:  # a SLUID: one record, whatever array or heterogeneous job it belongs to
        job = state.jobs.get(selector.job_id)
        is_it = job is not None and selector.is_of(job.job_id, job.submit_at_us)
        return [JobTarget(job, None, selector.step_id)] if job is not None and is_it else []
    if tasks is not None:
        selector = replace(selector, tasks=tasks)
    if selector.het_offset is not None:
        found = het.component(state, selector.job_id, selector.het_offset)
        if found is None:
            return []
        chosen = het.members(state, found) if takes_all(state) else [found]
        return [JobTarget(job, None, selector.step_id) for job in chosen]
    record = state.arrays.get(selector.job_id)
    if record is None or (selector.tasks is None and selector.job_id not in (record.array_job_id,)):
        job = state.jobs.get(selector.job_id)
        if job is None or selector.tasks is not None:
            return []
        is_whole = job.request.het_job_id and (not job.request.het_offset or takes_all(state))
        return [JobTarget(one, None, selector.step_id) for one in (het.members(state, job) if is_whole else (job,))]
    if selector.tasks is None:
        return [JobTarget(job, None, selector.step_id) for job in arrays.records_of(state, record.array_job_id)]
    some = arrays.records_with(state, record, selector.tasks)
    return [t for job in some if (t := _part(job, selector)) is not None]


def takes_all(state: ClusterState) -> bool:
    """SchedulerParameters=whole_hetjob: extends a request about one component to all."""
    return state.config.has_word("scheduler_parameters", "whole_hetjob")


def _part(job: Job, selector: JobSelector) -> JobTarget | None:
    wanted = selector.tasks
    assert wanted is not None
    if job.array_tasks is not None:
        if not job.array_tasks.has_any(wanted):
            return None
        common = job.array_tasks.intersect(wanted)
        return (
            JobTarget(job, common if len(common) < len(job.array_tasks) else None, selector.step_id) if common else None
        )
    if job.array_task_id is not None and job.array_task_id in wanted:
        return JobTarget(job, None, selector.step_id)
    return None


def all_matching(state: ClusterState, which: JobFilter, chosen: tuple[int, ...] = ()) -> list[JobTarget]:
    """Returns every record that has not ended and passes the filters, in the order of the job ids. `chosen`: only of
    these.
    """
    jobs = [state.jobs[job_id] for job_id in chosen if job_id in state.jobs] if chosen else state.jobs.records()
    found = matching((job for job in jobs if job.state not in END_STATES), which)
    return [JobTarget(state.jobs.own(job), None, None) for job in sorted(found, key=lambda j: j.job_id)]
