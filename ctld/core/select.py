"""Which jobs a request means: filters over records, and ids with array expressions.

`matches` serves live records and committed rows alike (both have the same names), so `scancel` and `squeue` cannot
differ. Going over all jobs is the price of a filter that a user gives, never of an event.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ctld.core import arrays
from ctld.core.events import JobFilter
from ctld.core.model import Job, JobRow
from ctld.core.state import ClusterState
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selector
from penstock.values.states import END_STATES, JobState
from penstock.values.taskset import TaskSet


class Target(NamedTuple):
    """A record that a selector means.

    `tasks`: the part of a record of pending tasks that is meant, None = all of it.
    """

    job: Job
    tasks: TaskSet | None
    step_id: int | None


def matches(job: Job | JobRow, which: JobFilter) -> bool:
    """True when the record passes every filter that is given (ids apart)."""
    request = job.request
    return not (
        which.unknown_user
        or (which.uids and job.user_id not in which.uids)
        or (which.states and int(job.state) not in which.states)
        or (which.partitions and not _in_partitions(job, which.partitions))
        or (which.names and request.name not in which.names)
        or (which.accounts and request.account not in which.accounts)
        or (which.qos and request.qos not in which.qos)
        or (which.nodes and not any(part.node in which.nodes for part in job.alloc))
    )


def _in_partitions(job: Job | JobRow, names: tuple[str, ...]) -> bool:
    if job.state is JobState.PENDING:
        return any(name in names for name in job.request.partitions)
    return job.partition in names


def targets_of(state: ClusterState, text: str) -> list[Target]:
    """The records that one id means; empty = no such job. Raises BadValue for text that is no id."""
    selector = parse_selector(text)
    if selector.het_offset is not None:
        raise BadValue(f"{text}: heterogeneous jobs are not supported yet")
    record = state.arrays.get(selector.job_id)
    if record is None or (selector.tasks is None and selector.job_id not in (record.array_job_id,)):
        job = state.jobs.get(selector.job_id)
        return [Target(job, None, selector.step_id)] if job is not None and selector.tasks is None else []
    members = arrays.records_of(state, record.array_job_id)
    if selector.tasks is None:
        return [Target(job, None, selector.step_id) for job in members]
    return [t for job in members if (t := _part(job, selector)) is not None]


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
    found: Iterable[Job] = (job for job in state.jobs.values() if job.state not in END_STATES and matches(job, which))
    return [Target(job, None, None) for job in sorted(found, key=lambda j: j.job_id)]
