"""Which jobs a request means: filters over records, and ids with array expressions.

`matching` serves live records and committed rows alike (both have the same names), so `scancel` and `squeue` cannot
differ. Going over all jobs is the price of a filter that a user gives, never of an event.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from ctld.core import arrays, het
from ctld.core.events import JobFilter
from ctld.core.model import Job, JobRow
from ctld.core.state import ClusterState
from penstock.values.jobid import JobSelector, parse_selector
from penstock.values.states import END_STATES, JobState
from penstock.values.taskset import TaskSet

Record = TypeVar("Record", Job, JobRow)


class Target(NamedTuple):
    """A record that a selector means.

    `tasks`: the part of a record of pending tasks that is meant, None = all of it.
    """

    job: Job
    tasks: TaskSet | None
    step_id: int | None


def matching(jobs: Iterable[Record], which: JobFilter) -> list[Record]:
    """The records that pass every filter that is given (ids apart), in their order.

    One filter after the other: most requests give one, and going over 100,000 records with it takes 5 ms.
    """
    found = [] if which.unknown_user else list(jobs)
    if which.seen_uid >= 0:
        mine, accounts = which.seen_uid, frozenset(which.seen_accounts)
        found = [job for job in found if job.user_id == mine or job.request.account.lower() in accounts]
    if which.uids:
        found = [job for job in found if job.user_id in which.uids]
    if which.states:
        found = [job for job in found if job.state in which.states]
    if which.partitions:
        found = [job for job in found if _in_partitions(job, which.partitions)]
    if which.names:
        found = [job for job in found if job.request.name in which.names]
    if which.accounts:
        found = [job for job in found if job.request.account in which.accounts]
    if which.qos:
        found = [job for job in found if job.request.qos in which.qos]
    if which.wckeys:
        found = [job for job in found if job.request.wckey in which.wckeys]
    if which.reservations:
        found = [job for job in found if _in_reservations(job, which.reservations)]
    if which.nodes:
        found = [job for job in found if any(part.node in which.nodes for part in job.alloc)]
    return found


def _in_partitions(job: Job | JobRow, names: tuple[str, ...]) -> bool:
    if job.state is JobState.PENDING:
        return any(name in names for name in job.request.partitions)
    return job.partition in names


def _in_reservations(job: Job | JobRow, names: tuple[str, ...]) -> bool:
    """Whether it runs in one of them, or waits for one."""
    request = job.request
    return any(name in names for name in (request.reservation_run or request.reservation).split(","))


def targets_of(state: ClusterState, text: str) -> list[Target]:
    """The records that one id means; empty = no such job. Raises BadValue for text that is no id."""
    selector = parse_selector(text)
    if selector.het_offset is not None:
        found = het.component(state, selector.job_id, selector.het_offset)
        if found is None:
            return []
        chosen = het.members(state, found) if _takes_all(state) else [found]
        return [Target(job, None, selector.step_id) for job in chosen]
    record = state.arrays.get(selector.job_id)
    if record is None or (selector.tasks is None and selector.job_id not in (record.array_job_id,)):
        job = state.jobs.get(selector.job_id)
        if job is None or selector.tasks is not None:
            return []
        is_whole = job.request.het_job_id and (not job.request.het_offset or _takes_all(state))
        return [Target(one, None, selector.step_id) for one in (het.members(state, job) if is_whole else (job,))]
    members = arrays.records_of(state, record.array_job_id)
    if selector.tasks is None:
        return [Target(job, None, selector.step_id) for job in members]
    return [t for job in members if (t := _part(job, selector)) is not None]


def _takes_all(state: ClusterState) -> bool:
    """SchedulerParameters=whole_hetjob: what is asked of one component is done to all."""
    return state.config.has_word("scheduler_parameters", "whole_hetjob")


def _part(job: Job, selector: JobSelector) -> Target | None:
    wanted = selector.tasks
    assert wanted is not None
    if job.array_tasks is not None:
        common = job.array_tasks.intersect(wanted)
        return Target(job, common if len(common) < len(job.array_tasks) else None, selector.step_id) if common else None
    if job.array_task_id is not None and job.array_task_id in wanted:
        return Target(job, None, selector.step_id)
    return None


def all_matching(state: ClusterState, which: JobFilter) -> list[Target]:
    """Every record that has not ended and passes the filters, in the order of the job ids."""
    found = matching((job for job in state.jobs.values() if job.state not in END_STATES), which)
    return [Target(job, None, None) for job in sorted(found, key=lambda j: j.job_id)]
