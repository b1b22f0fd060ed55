"""A job array: one record for all of its pending tasks."""

from collections.abc import Iterable, Mapping

from penstock.values.taskset import TaskSet


class ArrayRecord:
    """The state of one array job's tasks: counters, and the ids of the records that are still in memory."""

    __slots__ = (
        "array_job_id",
        "began",
        "exit_code",
        "exit_signal",
        "facts",
        "failed",
        "unsplit",
        "members",
        "ok",
        "pending",
        "running",
        "total",
        "waiting",
    )

    array_job_id: int
    began: bool  # a task has started; only of arrays with mail
    total: int
    pending: int  # tasks that have not ended and hold nothing
    running: int  # tasks in CONFIGURING, RUNNING or COMPLETING
    ok: int  # ended with exit 0
    failed: int  # ended otherwise
    exit_code: int  # the highest of the tasks that have ended
    exit_signal: int
    unsplit: dict[int, None]  # job ids of the records of pending tasks that are not yet split off
    facts: tuple[int, int, int, int]  # number of tasks, lowest and highest id, step: as submitted
    members: dict[int, int]  # task id -> job id, of the records in memory of single tasks
    waiting: dict[int, None]  # job ids of those members that are pending


def ids_with(members: Mapping[int, int], unsplit: Iterable[int], wanted: TaskSet) -> list[int]:
    """Returns the ids of records that may have some of the tasks, ascending: those of single tasks (`members`: job ids
    by task id) are looked up, those of several unsplit tasks are all returned."""
    if len(wanted) <= len(members):
        ids = {members[task_id] for task_id in wanted if task_id in members}
    else:
        ids = {job_id for task_id, job_id in members.items() if task_id in wanted}
    if len(ids) < len(wanted):
        ids.update(unsplit)
    return sorted(ids)
