"""What a job that waits wants, for the cluster's `planned` time: what it asked for, by TRES, of all tasks it stands for."""

from functools import lru_cache

from accounting.rollup import amounts_of
from penstock.values.taskset import TaskSet

#: TRES that nobody waits for: they are made of others.
_MADE = ("billing", "energy")


@lru_cache(maxsize=4_096)
def wanted_of(tres_req: str, array_tasks: str | None) -> dict[str, int]:
    """By TRES; callers do not change it."""
    tasks = len(TaskSet.parse(array_tasks)) if array_tasks else 1
    return {name: amount * tasks for name, amount in amounts_of(tres_req) if name not in _MADE}
