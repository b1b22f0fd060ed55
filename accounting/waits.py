"""TRES demand of waiting jobs, for the cluster's `planned` time: the request of a job, by TRES, for all tasks it stands
for.
"""

from functools import lru_cache

from accounting.rollup import amounts_of
from penstock.values.taskset import TaskSet

#: TRES without demand: they are derived from others.
_MADE = ("billing", "energy")


@lru_cache(maxsize=4_096)
def wanted_of(tres_req: str, array_tasks: str | None) -> dict[str, int]:
    """The demand by TRES; callers must not change it."""
    tasks = len(TaskSet.parse(array_tasks)) if array_tasks else 1
    return {name: amount * tasks for name, amount in amounts_of(tres_req) if name not in _MADE}
