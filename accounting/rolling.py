"""The roll-up: counts the usage of attempts into hours, days and months, once, in small transactions.

A pass counts all usage up to a whole hour, its target, in phases, each a page of attempts at a time:
    SCAN     attempts that have not ended: counted up to the target, and entered in `rollup_open` as counted until then
    ENDED    attempts that ended until the target, in the order of their ends: counted to the end, and settled
    AFTER    attempts that ended after the target: counted up to it, as those of SCAN
    LATE     attempts of `rollup_open` that ended before the counted time: usage after the end is subtracted again
    CLUSTER  the cluster's capacity in each hour, and the part of it that was down
    FOLD     the cluster's hours are added to its days and months (clusterdays.py)
Then the cursor is at the target: all usage up to it is counted.

Why nothing is counted twice or left out, even when a pass is interrupted:
    - A page's amounts, the counted time of its attempts and the progress of the phase are one transaction. An
      interrupted pass continues with its target (`rollup_mark`).
    - An attempt is active when SCAN sees it, and then in `rollup_open`; or it has ended before, and ENDED or AFTER
      finds it. The end of one that SCAN has seen may be reported later, and may be before an hour that is counted (its
      node was unreachable): it is in `rollup_open`, where LATE finds it. No hour has to be recounted, and no history
      read twice.
    - The target is some time before the last commit (ctld/runtime/rolling.py), so that every start before it is in the
      database.
A history older than the first pass is counted by ENDED alone, in its order, however long that takes.

Each write is fenced by the caller's `begin`: a deposed controller writes nothing. Reads are outside of it, so that the
write lock is held for the rows of one page and no longer.
Deliberately absent: when a pass is made (ctld/runtime/rolling.py), the arithmetic (rollup.py), reports (usage.py).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select

from accounting.clusterdays import Changes, fold, pages
from accounting.clusterhours import count_hours
from accounting.dbrow import DbRow, Query
from accounting.numbers import Numbers
from accounting.past_intervals import PastIntervals
from accounting.query import HAS_ENDED, IS_ACTIVE, ended_since
from accounting.rollup import HOUR_US, Attempt, Calendar, Sums, purged_to, settle
from accounting.schema import JOB, STEP
from accounting.tables import CLUSTER_HOUR, JOB_SPAN, ROLLUP_MARK, ROLLUP_OPEN, USAGE_DAY, USAGE_HOUR, USAGE_MONTH
from accounting.upsert import add, put, split
from accounting.waits import wanted_of

#: Attempts in one transaction: some 10 ms of the write lock.
PAGE_ATTEMPTS: Final = 100
#: Hours of the cluster in one transaction.
PAGE_HOURS: Final = 24

#: Their numbers are in databases.
SCAN, ENDED, AFTER, LATE, CLUSTER, DONE, FOLD = range(7)

_USAGE = (USAGE_HOUR, USAGE_DAY, USAGE_MONTH)
_COLUMNS = (
    JOB.c.job_id, JOB.c.attempt, JOB.c.state, JOB.c.start_at_us, JOB.c.end_at_us, JOB.c.eligible_at_us,
    JOB.c.suspended_at_us, JOB.c.tres_alloc, JOB.c.tres_req, JOB.c.array_tasks, JOB.c.assoc_id, JOB.c.account,
    JOB.c.user_name, JOB.c.user_id, JOB.c.partition, JOB.c.wckey, JOB.c.qos,
)  # fmt: skip
#: Kinds of figures of a step (proto UsageMetric.Kind) that are energy: measured, and estimated where not measured.
_ENERGY = ("9", "11")
#: Maximum energy of a step that is counted (ten megawatts for three years): a node may report any number, and the
#: usage of an account includes it from then on.
_JOULES_MAX: Final = 1 << 50

Begin = Callable[[], AbstractContextManager[Connection]]


class Marks(NamedTuple):
    """The progress of the roll-up; names are those of `rollup_mark`."""

    cursor_us: int = 0  # everything before this is counted
    target_us: int = 0  # of the present or last pass
    from_us: int = 0  # the cursor at its beginning
    now_us: int = 0  # time of its beginning
    phase: int = DONE
    scan_job: int = -1  # the last attempt of SCAN, or of AFTER
    scan_attempt: int = 0
    scan_end_us: int = 0
    ended_us: int = 0  # the last attempt of ENDED, over all passes
    ended_job: int = 0
    ended_attempt: int = 0
    purged_us: int = 0  # hours before this are purged, for good; days and months that were over by then, too
    folded_us: int = 0  # hours of the cluster before this are in its days and months


def read_marks(connection: Connection) -> Marks:
    """The marks as committed."""
    found = {name: value for name, value in connection.execute(select(ROLLUP_MARK)) if name in Marks._fields}
    return Marks(**found)


class Roller:
    """Rolls up usage. Single-threaded; only one per database."""

    def __init__(
        self, begin: Begin, read: Begin, calendar: Calendar, default_account: str, page: int = PAGE_ATTEMPTS
    ) -> None:
        self._begin = begin
        self._read = read
        self._calendar = calendar
        self._page = page
        self._numbers = Numbers(default_account)
        self._is_stale = False
        with read() as connection:
            self.marks = read_marks(connection)

    def advance(self, to_us: int, now_us: int) -> bool:
        """Does one transaction's worth towards the last whole hour before `to_us`. False = there is no work left."""
        target_us = to_us - to_us % HOUR_US
        if self._is_stale:
            with self._read() as connection:
                self.marks = read_marks(connection)
                self._is_stale = False
        try:
            if self.marks.phase == DONE:
                if target_us <= self.marks.cursor_us:
                    return False
                self._keep(
                    target_us=target_us, from_us=self.marks.cursor_us, now_us=now_us, phase=SCAN, scan_job=-1,
                    scan_attempt=0, scan_end_us=target_us,
                )  # fmt: skip
            _PHASES[self.marks.phase](self)
        except BaseException:
            self._numbers.forget()  # ids that were assigned here may not have been committed
            self._is_stale = True
            raise
        return True

    # ---- phases --------------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        marks = self.marks
        after = _after((JOB.c.job_id, marks.scan_job), (JOB.c.attempt, marks.scan_attempt))
        query = (
            select(*_COLUMNS)
            .where(IS_ACTIVE, JOB.c.job_id >= marks.scan_job, after, _has_usage_before(marks.target_us))
            .order_by(JOB.c.job_id, JOB.c.attempt)
        )
        found = self._attempts(query)
        if found:
            self._count(found, scan_job=found[-1].row.job_id, scan_attempt=found[-1].row.attempt)
        if len(found) < self._page:
            self._keep(phase=ENDED)

    def _ended(self) -> None:
        marks = self.marks
        after = _after(
            (JOB.c.end_at_us, marks.ended_us), (JOB.c.job_id, marks.ended_job), (JOB.c.attempt, marks.ended_attempt)
        )
        found = self._attempts(by_end(marks.ended_us).where(JOB.c.end_at_us <= marks.target_us, after))
        if found:
            last = found[-1].row
            self._count(found, ended_us=last.end_at_us, ended_job=last.job_id, ended_attempt=last.attempt)
        if len(found) < self._page:
            self._keep(phase=AFTER, scan_job=_LAST_ID, scan_attempt=0, ended_us=marks.target_us, ended_job=_LAST_ID)

    def _after(self) -> None:
        marks = self.marks
        after = _after(
            (JOB.c.end_at_us, marks.scan_end_us), (JOB.c.job_id, marks.scan_job), (JOB.c.attempt, marks.scan_attempt)
        )
        found = self._attempts(by_end(marks.scan_end_us).where(after))
        if found:
            last = found[-1].row
            self._count(found, scan_end_us=last.end_at_us, scan_job=last.job_id, scan_attempt=last.attempt)
        if len(found) < self._page:
            self._keep(phase=LATE)

    def _late(self) -> None:
        opened = ROLLUP_OPEN.outerjoin(
            JOB, and_(JOB.c.job_id == ROLLUP_OPEN.c.job_id, JOB.c.attempt == ROLLUP_OPEN.c.attempt)
        )
        is_gone = JOB.c.job_id.is_(None)
        is_late = and_(HAS_ENDED, JOB.c.end_at_us <= self.marks.target_us)
        keys = (ROLLUP_OPEN.c.job_id.label("open_job"), ROLLUP_OPEN.c.attempt.label("open_attempt"))
        query = select(*_COLUMNS, *keys).select_from(opened).where(or_(is_gone, is_late)).order_by(*keys)
        found = self._attempts(query)
        if found:
            self._count(found)
        if len(found) < self._page:
            self._keep(phase=CLUSTER)

    def _cluster(self) -> None:
        marks = self.marks
        with self._read() as connection:
            hours, done_us = count_hours(connection, marks.cursor_us, marks.target_us, PAGE_HOURS)
        with self._begin() as connection:
            numbers = self._numbers.load(connection)
            rows = [
                {
                    "start_at_us": hour_us,
                    "tres_id": numbers.tres(connection, name),
                    "count": one.units,
                    "count_seconds": one.total_us // 1_000_000,
                    "down_seconds": one.down_us // 1_000_000,
                    "planned_down_seconds": one.planned_down_us // 1_000_000,
                }
                for hour_us, by_tres in hours
                for name, one in by_tres.items()
            ]
            put(connection, CLUSTER_HOUR, rows)
            phase = FOLD if done_us >= marks.target_us else CLUSTER
            self._write_marks(connection, cursor_us=done_us, phase=phase)

    def _fold(self) -> None:
        marks = self.marks
        with self._read() as connection:
            from_us, until_us = pages(connection, marks.folded_us, marks.target_us)
        with self._begin() as connection:
            fold(connection, self._calendar, from_us, until_us)
            phase = DONE if until_us >= marks.target_us else FOLD
            self._write_marks(connection, folded_us=until_us, phase=phase)

    # ---- a page --------------------------------------------------------------------------------------------------

    def _attempts(self, query: Query) -> list["_Found"]:
        with self._read() as connection:
            rows = connection.execute(query.limit(self._page)).all()
            ids = sorted({row.job_id for row in rows if row.job_id is not None})
            is_ours = ROLLUP_OPEN.c.job_id.in_(ids)
            counted = {
                (job_id, attempt): (counted_us, key_id)
                for job_id, attempt, counted_us, key_id in connection.execute(select(ROLLUP_OPEN).where(is_ours))
            }
            intervals = PastIntervals(connection, JOB_SPAN.c.job_id.in_(ids), is_whole=True)
            energy = _energy(connection, sorted({row.job_id for row in rows if row.end_at_us}))
        found = []
        for row in rows:
            key = (row.job_id, row.attempt)
            found.append(_Found(row, intervals.attempt_of(row), counted.get(key), energy.get(key, 0)))
        return found

    def _count(self, found: Sequence["_Found"], **marks: int) -> None:
        """Enters a page, in one transaction with the phase's progress."""
        target_us = self.marks.target_us
        sums = Sums(self._calendar)
        with self._begin() as connection:
            numbers = self._numbers.load(connection)
            opened: list[dict[str, int]] = []
            closed: list[tuple[int, int]] = []
            for row, times, counted, energy in found:
                if row.job_id is None:  # its row is gone: no further usage is known
                    closed.append((row.open_job, row.open_attempt))
                    continue
                self._want(sums, row, counted)
                if not times.start_at_us or times.start_at_us >= target_us:
                    continue
                counted_us, key_id = counted or (0, 0)
                if not counted or (times.end_at_us or target_us) >= counted_us:
                    key_id = numbers.key(connection, row)
                until_us = settle(sums, key_id, times, counted_us, target_us)
                if not times.end_at_us or times.end_at_us > target_us:
                    entry = {"job_id": row.job_id, "attempt": row.attempt, "counted_to_us": until_us, "key_id": key_id}
                    opened.append(entry)
                else:
                    if energy:
                        sums.energy(key_id, max(times.end_at_us - 1, times.start_at_us), energy)
                    if counted:
                        closed.append((row.job_id, row.attempt))
            self._write(connection, sums)
            put(connection, ROLLUP_OPEN, opened)
            for job_id, attempt in closed:
                connection.execute(
                    delete(ROLLUP_OPEN).where(ROLLUP_OPEN.c.job_id == job_id, ROLLUP_OPEN.c.attempt == attempt)
                )
            self._write_marks(connection, **marks)

    def _want(self, sums: Sums, row: DbRow, counted: tuple[int, int] | None) -> None:
        """Adds its waiting time, unless that is counted already."""
        marks = self.marks
        if counted or not row.eligible_at_us or 0 < row.start_at_us <= marks.from_us:
            return
        if marks.phase == LATE or (marks.phase == AFTER and not row.start_at_us and row.end_at_us > marks.now_us):
            return  # SCAN has counted its waiting time
        until_us = min(row.start_at_us or row.end_at_us or marks.target_us, marks.target_us)
        amounts = wanted_of(row.tres_req, row.array_tasks)
        sums.want(amounts, max(row.eligible_at_us, marks.from_us), until_us)

    def _write(self, connection: Connection, sums: Sums) -> None:
        numbers, purged_us = self._numbers, self.marks.purged_us
        for table, entries, kept_us in zip(_USAGE, sums.usage, purged_to(self._calendar, purged_us), strict=True):
            rows = [
                {
                    "start_at_us": start_us,
                    "tres_id": numbers.tres(connection, name),
                    "key_id": key_id,
                    **split(amount_us),
                }
                for (start_us, name, key_id), amount_us in entries.items()
                if amount_us and start_us >= kept_us
            ]
            add(connection, table, rows)
        touched = (hour_us for hour_us, _ in (*sums.allocated, *sums.wanted))
        changes = Changes(connection, touched, self.marks.folded_us, purged_us)
        for prefix, hours in (("alloc_", sums.allocated), ("wanted_", sums.wanted)):
            rows = [
                {"start_at_us": hour_us, "tres_id": numbers.tres(connection, name), **split(amount_us, prefix)}
                for (hour_us, name), amount_us in hours.items()
                if amount_us and hour_us >= purged_us
            ]
            add(connection, CLUSTER_HOUR, rows, (prefix,))
        changes.enter(self._calendar, sums.allocated, lambda name: numbers.tres(connection, name))

    def _keep(self, **marks: int) -> None:
        with self._begin() as connection:
            self._write_marks(connection, **marks)

    def _write_marks(self, connection: Connection, **marks: int) -> None:
        put(connection, ROLLUP_MARK, [{"name": name, "value": value} for name, value in marks.items()])
        self.marks = self.marks._replace(**marks)


#: Above all job ids: an order by end, job and attempt continues with the next end.
_LAST_ID: Final = 2**62

_PHASES: dict[int, Callable[[Roller], None]] = {
    SCAN: Roller._scan,
    ENDED: Roller._ended,
    AFTER: Roller._after,
    LATE: Roller._late,
    CLUSTER: Roller._cluster,
    FOLD: Roller._fold,
}


class _Found(NamedTuple):
    """One attempt of a page; `counted`: until when it is counted, and for whom."""

    row: DbRow
    times: Attempt
    counted: tuple[int, int] | None
    energy_j: int


def _has_usage_before(target_us: int) -> ColumnElement[bool]:
    """Whether an attempt waited or ran before the target. Others need no page: the queue may be long, and new."""
    return or_(JOB.c.eligible_at_us < target_us, JOB.c.start_at_us.between(1, target_us - 1))


def by_end(since_us: int) -> Query:
    """The jobs that have ended since then, in the order in which the roll-up reads them."""
    return select(*_COLUMNS).where(ended_since(since_us)).order_by(JOB.c.end_at_us, JOB.c.job_id, JOB.c.attempt)


def _after(*parts: tuple[ColumnElement[object], int]) -> ColumnElement[bool]:
    """Returns the condition for rows after these values in the order of these columns."""
    (column, value), *rest = parts
    if not rest:
        return column > value
    return or_(column > value, and_(column == value, _after(*rest)))


def _energy(connection: Connection, job_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Returns the joules that the steps of these jobs have used, as far as known and plausible."""
    found: dict[tuple[int, int], int] = {}
    asked = select(STEP.c.job_id, STEP.c.attempt, STEP.c.usage).where(STEP.c.job_id.in_(job_ids), STEP.c.usage != "")
    for job_id, attempt, usage in connection.execute(asked):
        if any(f'"{kind}":' in usage for kind in _ENERGY):
            figures = msgspec.json.decode(usage)
            joules = min(next(figures[kind][0] for kind in _ENERGY if kind in figures), _JOULES_MAX)
            found[job_id, attempt] = found.get((job_id, attempt), 0) + joules
    return found
