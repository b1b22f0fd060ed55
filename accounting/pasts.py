"""What the job's row alone does not say of an attempt: when it was suspended, and what it held before that changed.

Few attempts have such a past: a report counts all of them as their rows say, and then puts these few right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from accounting.rollup import Attempt, amounts_of, pieces
from accounting.schema import JOB
from accounting.tables import JOB_SPAN
from penstock.values.states import JobState

Key = tuple[int, int]
#: Columns of a job that `attempt_of` looks at.
TIMES = (
    JOB.c.job_id, JOB.c.attempt, JOB.c.state, JOB.c.start_at_us, JOB.c.end_at_us, JOB.c.suspended_at_us,
    JOB.c.tres_alloc,
)  # fmt: skip
IS_SUSPENDED = JOB.c.state == int(JobState.SUSPENDED)
#: Attempts in one IN list.
_IDS_MAX = 5_000


class Pasts:
    """By attempt: suspensions that are over, and (until when, what it held until then)."""

    def __init__(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        self.suspended: dict[Key, list[tuple[int, int]]] = {}
        self.changes: dict[Key, list[tuple[int, str]]] = {}
        asked = select(JOB_SPAN).where(*which).order_by(JOB_SPAN.c.end_at_us, JOB_SPAN.c.start_at_us)
        for job_id, attempt, start_us, end_us, tres in connection.execute(asked):
            if tres:
                self.changes.setdefault((job_id, attempt), []).append((end_us, tres))
            else:
                self.suspended.setdefault((job_id, attempt), []).append((start_us, end_us))

    def attempt_of(self, row: Any) -> Attempt:
        """The times of a row with the columns `TIMES`."""
        key = (row.job_id, row.attempt)
        since_us = row.suspended_at_us if row.state == JobState.SUSPENDED else 0
        return Attempt(
            row.start_at_us or 0, row.end_at_us or 0, row.tres_alloc or "", since_us or 0,
            tuple(self.suspended.get(key, ())), tuple(self.changes.get(key, ())),
        )  # fmt: skip

    def has(self, row: Any) -> bool:
        """Whether there is more to say of it than its row says."""
        key = (row.job_id, row.attempt)
        return row.state == JobState.SUSPENDED or key in self.suspended or key in self.changes

    def job_ids(self) -> list[int]:
        """All of them, in order."""
        return sorted({job_id for job_id, _ in (*self.suspended, *self.changes)})


def used(attempt: Attempt, from_us: int, until_us: int) -> dict[str, int]:
    """What it used in [from, until), and until its end, by TRES times microseconds."""
    found: dict[str, int] = {}
    until_us = min(until_us, attempt.end_at_us) if attempt.end_at_us else until_us
    for piece in pieces(attempt, from_us, until_us):
        for name, amount in amounts_of(piece.tres):
            found[name] = found.get(name, 0) + amount * (piece.until_us - piece.from_us)
    return found


def by_row(attempt: Attempt, from_us: int, until_us: int) -> dict[str, int]:
    """The same if it had held what its row says all the time, and never been suspended."""
    return used(Attempt(attempt.start_at_us, attempt.end_at_us, attempt.tres), from_us, until_us)


def corrections(
    connection: Connection, window: tuple[int, int], columns: Sequence[Any], where: Sequence[Any]
) -> list[tuple[Any, Mapping[str, int]]]:
    """Of attempts with a past that reaches into the window: the row, and what has to be added to what it alone says."""
    from_us, until_us = window
    pasts = Pasts(connection, JOB_SPAN.c.end_at_us > from_us, JOB_SPAN.c.start_at_us < until_us)
    ids = pasts.job_ids()
    picked = [IS_SUSPENDED, *(JOB.c.job_id.in_(ids[at : at + _IDS_MAX]) for at in range(0, len(ids), _IDS_MAX))]
    found: dict[Key, tuple[Any, Mapping[str, int]]] = {}
    for one in picked:
        for row in connection.execute(select(*TIMES, *columns).where(one, *where)):
            if pasts.has(row):
                attempt = pasts.attempt_of(row)
                plain, real = by_row(attempt, from_us, until_us), used(attempt, from_us, until_us)
                more = {name: real.get(name, 0) - plain.get(name, 0) for name in plain | real}
                found[row.job_id, row.attempt] = (row, more)
    return [found[key] for key in sorted(found)]
