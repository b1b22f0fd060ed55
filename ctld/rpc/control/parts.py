"""Splits a request about very many jobs into parts, each an event of its own: others are handled in between, and commits
stay small.

A part has few ids, and fewer if they take much work: an id of an array's task is searched among the array's records of
several unsplit tasks, an array or a range of its tasks concerns many records, and `scontrol top` compares a job with all
others. The work is estimated from the committed rows when a part is due, so that it follows what the parts before did.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from ctld.runtime.snapshot import Snapshot

T = TypeVar("T")
#: Maximum number of jobs in one event: some 20 ms of work, and of rows to commit.
PART_IDS: Final = 500
#: Maximum number of records that the ids of one event are compared with, unless one id alone needs more: some 20 ms.
PART_LOOKS: Final = 20_000
#: Digits of a job id.
DIGITS_MAX: Final = 10
#: Changing a record takes as long as so many comparisons.
CHANGE_LOOKS: Final = 200


def no_looks(one: object) -> int:
    """Returns the work to find a job whose id is known."""
    return 0


def looks_for(snapshot: Snapshot, text: str) -> int:
    """Returns an estimate of the records to look at for an id as the user wrote it."""
    base, underscore, tasks = text.partition(".")[0].partition("_")
    if not base.isdecimal() or len(base) > DIGITS_MAX:
        return 0
    job_id = int(base)
    if underscore and tasks.isdecimal():
        return snapshot.count_unsplit(job_id)
    records = snapshot.count_of_array(job_id)
    if underscore and "-" not in tasks:
        records = min(records, 1 + tasks.count(","))
    return CHANGE_LOOKS * records + snapshot.count_unsplit(job_id)


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
