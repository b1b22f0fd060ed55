"""Splits a request about very many jobs into parts, each an event of its own: others are handled in between, and commits
stay small.

A part has few ids, and fewer if they take much work: an id of an array's task is searched among the array's records of
several unsplit tasks, and an array or a range of its tasks concerns many records. The work is estimated from the committed
rows when a part is due, so that it follows what the parts before did.

One id may stand for more records than a part has: an array whose tasks have records of their own. Its tasks are
partitioned, so that each is changed once, whichever record it belongs to when its part is due.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from ctld.runtime.snapshot import Snapshot
from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.taskset import TaskSet

T = TypeVar("T")
#: Maximum number of jobs in one event: some 20 ms of work, and of rows to commit.
PART_IDS: Final = 500
#: Maximum number of records that the ids of one event are compared with, unless one id alone needs more: some 20 ms.
PART_LOOKS: Final = 20_000
#: Digits of a job id.
DIGITS_MAX: Final = 10
#: Changing a record takes as long as so many comparisons.
CHANGE_LOOKS: Final = 200
#: Maximum number of records of an array in one event.
PART_RECORDS: Final = PART_LOOKS // CHANGE_LOOKS
#: Records of unsplit tasks with more ranges than this are not joined with others: that would take long.
JOINED_RANGES_MAX: Final = 8


def no_looks(one: object) -> int:
    """Returns the work to find a job whose id is known."""
    return 0


def looks_for(snapshot: Snapshot, text: str) -> int:
    """Returns an estimate of the records to look at for an id as the user wrote it."""
    job_id, records = array_records(snapshot, text)
    return CHANGE_LOOKS * records + snapshot.count_unsplit(job_id)


def array_records(snapshot: Snapshot, text: str) -> tuple[int, int]:
    """Returns the array of an id as the user wrote it, and how many of its records the id selects at most; of a single
    task none is counted."""
    base, underscore, tasks = text.partition(".")[0].partition("_")
    if not base.isdecimal() or len(base) > DIGITS_MAX:
        return 0, 0
    job_id = int(base)
    if underscore and tasks.isdecimal():
        return job_id, 0
    records = snapshot.count_of_array(job_id)
    return job_id, min(records, 1 + tasks.count(",")) if underscore and "-" not in tasks else records


def parts(ids: Sequence[T], looks_of: Callable[[T], int] = no_looks) -> Iterator[tuple[T, ...]]:
    """Yields the ids in parts, one part at least."""
    part: list[T] = []
    looks = 0
    for one in ids:
        more = looks_of(one)
        if part and (len(part) == PART_IDS or looks + more > PART_LOOKS):
            yield tuple(part)
            part, looks = [], 0
        part.append(one)
        looks += more
    yield tuple(part)


def partition(snapshot: Snapshot, text: str, records: int = PART_RECORDS) -> list[TaskSet]:
    """Returns the tasks that an id selects, in sets of at most so many records, those without records of their own first.
    None for an id that selects few."""
    if array_records(snapshot, text)[1] <= records or "." in text:
        return []  # a step is looked up in each record, and most have none of its number
    try:
        selector = parse_selector(text, Allowance())
    except BadValue:
        return []  # the core says why
    job_id, wanted = selector.job_id, selector.tasks
    rows = snapshot.of_array(job_id) if wanted is None else snapshot.of_tasks(job_id, wanted)
    found: list[TaskSet] = []
    joined, count = TaskSet(), 0
    for tasks in (row.array_tasks for row in rows if row.array_tasks is not None):
        some = tasks if wanted is None else tasks.intersect(wanted)
        if not some:
            continue
        if len(some.ranges) > JOINED_RANGES_MAX:
            found.append(some)
            continue
        joined, count = joined.union(some), count + 1
        if count == records:
            found.append(joined)
            joined, count = TaskSet(), 0
    if joined:
        found.append(joined)
    single = [row.array_task_id for row in rows if row.array_task_id is not None]
    single = [task_id for task_id in single if wanted is None or task_id in wanted]
    return found + [TaskSet.of(single[at : at + records]) for at in range(0, len(single), records)]
