"""What a request about several tasks of an array answers: one result for each group of tasks with the same outcome.

As in Slurm: if all tasks succeed there is one result for the id as it was written. If some are refused, or the array does
not have them, each group has its own result, those without an error, too, in the order of their first tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ctld.core.records.effects import JobResult, Refused
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.jobid import parse_selector
from penstock.values.refusals import TEXT, Code
from penstock.values.taskset import TaskSet

NO_ERROR = "No error"


class TaskOutcome(NamedTuple):
    """The outcome for one record. `tasks`: the pending tasks that were selected, None = that of the record."""

    job: Job
    tasks: TaskSet | None
    refusal: Refused | None

    def own_tasks(self) -> TaskSet:
        if self.tasks is not None:
            return self.tasks
        return TaskSet.of([self.job.array_task_id] if self.job.array_task_id is not None else [])


def results_by_task(
    state: ClusterState, text: str, outcomes: Sequence[TaskOutcome], part: TaskSet | None
) -> list[JobResult]:
    """Returns the results of one id; empty = each task has succeeded. `part`: the request is about these of its tasks alone,
    further events are about the others."""
    wanted = parse_selector(text, state.handling.allowance)
    groups: dict[tuple[int, str], TaskSet] = {}
    for outcome in outcomes:
        refusal, own = outcome.refusal, outcome.own_tasks()
        key = (int(refusal.code), refusal.text) if refusal is not None else (0, NO_ERROR)
        if own:
            groups[key] = groups[key].union(own) if key in groups else own
    if wanted.tasks is not None and part is None:
        unknown = wanted.tasks
        for own in groups.values():
            unknown = unknown.minus(own)
        if unknown:
            groups[int(Code.INVALID_JOB_ID), TEXT[Code.INVALID_JOB_ID]] = unknown
    if all(code == 0 for code, _ in groups):
        return []
    in_order = sorted(groups.items(), key=lambda group: group[1].first())
    return [JobResult(f"{wanted.job_id}_[{own.format()}]", code, said) for (code, said), own in in_order]
