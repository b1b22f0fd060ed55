"""Past intervals of an attempt that the job's row does not keep: its suspensions, and its allocations before they
changed.

Few attempts have such intervals: a report counts all attempts by their rows, and then corrects these few.

After a purge of suspensions a job's row still has their total: they are counted as one suspension at the job's start,
which is before the purged time. Sums over a whole job are exact then; for a window that begins or ends inside of such a
job they are estimates. The roll-up has counted the purged suspensions, and never reads them again.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select

from accounting.dbrow import DbRow
from accounting.marks import read_mark
from accounting.query import IS_ACTIVE
from accounting.rollup import Attempt, amounts_of, pieces
from accounting.schema import JOB
from accounting.tables import JOB_SPAN, SUSPEND_PURGED_MARK
from penstock.values.states import JobState

_Key = tuple[int, int]
#: Columns of a job that `attempt_of` needs.
TIMES = (
    JOB.c.job_id, JOB.c.attempt, JOB.c.state, JOB.c.start_at_us, JOB.c.end_at_us, JOB.c.suspended_at_us,
    JOB.c.suspended_us, JOB.c.tres_alloc,
)  # fmt: skip
IS_SUSPENDED = and_(IS_ACTIVE, JOB.c.state == int(JobState.SUSPENDED))  # selects the index of active jobs
#: Attempts in one IN list.
_IDS_MAX = 5_000


class PastIntervals:
    """Past intervals by attempt: past suspensions, and past allocations with the end of each."""

    def __init__(self, connection: Connection, *which: ColumnElement[bool], is_whole: bool = False) -> None:
        """Spans under these conditions. `is_whole`: the caller knows that no span of these attempts is purged."""
        self.suspended: dict[_Key, list[tuple[int, int]]] = {}
        self.changes: dict[_Key, list[tuple[int, str]]] = {}
        #: Suspensions that ended before this are purged.
        self.purged_us: int = 0 if is_whole else read_mark(connection, SUSPEND_PURGED_MARK)
        self._enter(connection, *which)

    def _enter(self, connection: Connection, *which: ColumnElement[bool]) -> None:
        columns = [JOB_SPAN.c[name] for name in ("job_id", "attempt", "start_at_us", "end_at_us", "tres")]
        asked = select(*columns).where(*which).order_by(JOB_SPAN.c.end_at_us, JOB_SPAN.c.start_at_us)
        for job_id, attempt, start_us, end_us, tres in connection.execute(asked):
            if tres:
                self.changes.setdefault((job_id, attempt), []).append((end_us, tres))
            else:
                self.suspended.setdefault((job_id, attempt), []).append((start_us, end_us))

    def complete(self, connection: Connection, from_us: int, *which: ColumnElement[bool]) -> None:
        """Adds all remaining spans of jobs under these conditions that may have lost suspensions after `from_us`."""
        if self.purged_us <= from_us:
            return
        poorer = select(JOB.c.job_id).where(JOB.c.suspended_us > 0, JOB.c.start_at_us < self.purged_us, *which)
        ids = sorted({job_id for (job_id,) in connection.execute(poorer)})
        known = set(ids)
        self.suspended = {key: spans for key, spans in self.suspended.items() if key[0] not in known}
        self.changes = {key: spans for key, spans in self.changes.items() if key[0] not in known}
        for at in range(0, len(ids), _IDS_MAX):
            self._enter(connection, JOB_SPAN.c.job_id.in_(ids[at : at + _IDS_MAX]))

    def attempt_of(self, row: DbRow) -> Attempt:
        """The times of a row with the columns `TIMES`."""
        key = (row.job_id, row.attempt)
        since_us = row.suspended_at_us if row.state == JobState.SUSPENDED else 0
        suspended = tuple(self.suspended.get(key, ()))
        if 0 < row.start_at_us < self.purged_us:
            suspended = (*_purged(row, suspended), *suspended)
        return Attempt(
            row.start_at_us or 0, row.end_at_us or 0, row.tres_alloc or "", since_us or 0,
            suspended, tuple(self.changes.get(key, ())),
        )  # fmt: skip

    def has(self, row: DbRow) -> bool:
        """Whether the attempt has past intervals beside its row."""
        key = (row.job_id, row.attempt)
        known = row.state == JobState.SUSPENDED or key in self.suspended or key in self.changes
        return known or bool(row.suspended_us and row.start_at_us < self.purged_us)

    def job_ids(self) -> list[int]:
        """All job ids, in order."""
        return sorted({job_id for job_id, _ in (*self.suspended, *self.changes)})


def _purged(row: DbRow, known: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Returns the part of the row's suspended time that has no spans."""
    end_us = row.end_at_us or max((until_us for _, until_us in known), default=0)
    missing_us = row.suspended_us - sum(max(0, min(until_us, end_us) - since_us) for since_us, until_us in known)
    if missing_us > 0:
        yield row.start_at_us, row.start_at_us + missing_us


def used(attempt: Attempt, from_us: int, until_us: int) -> dict[str, int]:
    """The usage in [from, until), up to its end, by TRES times microseconds."""
    found: dict[str, int] = {}
    until_us = min(until_us, attempt.end_at_us) if attempt.end_at_us else until_us
    for piece in pieces(attempt, from_us, until_us):
        for name, amount in amounts_of(piece.tres):
            found[name] = found.get(name, 0) + amount * (piece.until_us - piece.from_us)
    return found


def by_row(attempt: Attempt, from_us: int, until_us: int) -> dict[str, int]:
    """The usage if it had always had the allocation in its row, and never been suspended."""
    return used(Attempt(attempt.start_at_us, attempt.end_at_us, attempt.tres), from_us, until_us)


def corrections(
    connection: Connection, window: tuple[int, int], columns: Sequence[object], where: Sequence[ColumnElement[bool]]
) -> list[tuple[DbRow, Mapping[str, int]]]:
    """Corrections of attempts with past intervals in the window: the row, and the amounts to add to those of the row
    alone.
    """
    from_us, until_us = window
    intervals = PastIntervals(connection, JOB_SPAN.c.end_at_us > from_us, JOB_SPAN.c.start_at_us < until_us)
    intervals.complete(connection, from_us, *where)
    ids = intervals.job_ids()
    picked = [IS_SUSPENDED, *(JOB.c.job_id.in_(ids[at : at + _IDS_MAX]) for at in range(0, len(ids), _IDS_MAX))]
    found: dict[_Key, tuple[DbRow, Mapping[str, int]]] = {}
    if intervals.purged_us > from_us:
        picked.append(JOB.c.suspended_us > 0)
    for one in picked:
        for row in connection.execute(select(*TIMES, *columns).where(one, *where)):
            if intervals.has(row):
                attempt = intervals.attempt_of(row)
                estimated, real = by_row(attempt, from_us, until_us), used(attempt, from_us, until_us)
                more = {name: real.get(name, 0) - estimated.get(name, 0) for name in estimated | real}
                found[row.job_id, row.attempt] = (row, more)
    return [found[key] for key in sorted(found)]
