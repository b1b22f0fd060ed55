"""Purges: deletes old records, a page at a time, while the controller works.

Rules
    - Only counted records are deleted: jobs, suspensions and usage up to the roll-up's cursor, and no attempt that is
      in `rollup_open`. Active records stay, and those that the controller still has in memory (`keep_us`: MinJobAge).
    - A step is deleted with its profiles, a job with its steps, history, suspensions and request. Tasks of an array stay
      while a task of it is active, since the controller counts them at a start. The request of an array stays as long as
      one of its tasks, and a script as long as any job uses it.
    - Suspensions are purged by themselves; past allocations of an attempt are deleted with their job.
    - Usage is deleted by whole hours, days and months that are over. Late changes of them are no longer entered.
    - The audit log is never purged.
    - A page is archived first, if configured (archive.py), then deleted in one fenced transaction of some 10 ms.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, literal_column, not_, or_, select

from accounting.archive import Archive
from accounting.dbrow import RowValues
from accounting.marks import read_mark
from accounting.query import HAS_ENDED, IS_ACTIVE, ended_since
from accounting.rolling import Begin, read_marks
from accounting.rollup import Calendar, purged_to
from accounting.schema import ENDED_FROM, JOB, JOB_REQUEST, JOB_SPEC, STEP, STEP_PROFILE, TXN
from accounting.tables import (
    CLUSTER_DAY,
    CLUSTER_HOUR,
    CLUSTER_MONTH,
    JOB_SPAN,
    NODE_EVENT,
    RESERVATION_SPAN,
    ROLLUP_MARK,
    ROLLUP_OPEN,
    STEPS_PURGED_MARK,
    SUSPEND_PURGED_MARK,
    USAGE_DAY,
    USAGE_HOUR,
    USAGE_MONTH,
)
from accounting.upsert import put

#: Records of one transaction.
PAGE_RECORDS = 100

_Rows = Sequence[tuple[Table, RowValues]]


class Access(NamedTuple):
    """The database access of one purge. `pause` is called between transactions and returns whether to stop."""

    begin: Begin
    read: Begin
    pause: Callable[[], bool]
    history: Table  # the controller's table of the history of jobs
    calendar: Calendar  # of the controller's days and months


def cut_us(access: Access, kind: str, before_us: int, keep_us: int) -> int:
    """The time up to which a purge of this kind may delete."""
    with access.read() as connection:
        marks = read_marks(connection)
    if kind in ("jobs", "steps", "suspend", "usage"):
        before_us = min(before_us, marks.cursor_us)
    if kind == "usage":
        before_us = min(before_us, marks.folded_us)
    return min(before_us, keep_us)


def count(access: Access, kind: str, before_us: int) -> int:
    """Counts the records that would be deleted."""
    with access.read() as connection:
        return sum(
            int(connection.execute(select(func.count()).select_from(table).where(condition)).scalar() or 0)
            for table, condition in _conditions(access, kind, before_us)
        )


def _conditions(access: Access, kind: str, before_us: int) -> list[tuple[Table, ColumnElement[bool]]]:
    """Returns the tables, and the conditions of their rows."""
    if kind == "usage":
        hour_us, day_us, month_us = purged_to(access.calendar, before_us)
        cuts = (
            (hour_us, USAGE_HOUR, CLUSTER_HOUR),
            (day_us, USAGE_DAY, CLUSTER_DAY),
            (month_us, USAGE_MONTH, CLUSTER_MONTH),
        )
        return [(table, table.c.start_at_us < cut) for cut, *tables in cuts for table in tables]
    table, when = _WHAT[kind]
    return [(table, when(before_us))]


def purge(access: Access, kind: str, before_us: int, archive: Archive | None) -> int:
    """Deletes the records that `count` counts. Returns the number of deleted records; fewer when it was stopped. Raises
    OSError.
    """
    if kind == "usage":
        _raise_mark(access, "purged_us", before_us)  # from now on nothing is entered before it
    if kind == "suspend":
        _raise_mark(access, SUSPEND_PURGED_MARK, before_us)  # from now on the sums in job rows are used
    if kind == "steps":
        return _purge_steps(access, before_us, archive)
    done = 0
    hashes: set[bytes] = set()
    for one, condition in _conditions(access, kind, before_us):
        while not access.pause():
            with access.read() as connection:
                page = _page(connection, one, condition)
                more = _with_jobs(connection, page, access.history) if kind == "jobs" else []
            if not page:
                break
            if kind == "jobs":
                hashes.update(one_hash for row in page if isinstance(one_hash := row["spec_hash"], bytes))
            everything = [*((one, row) for row in page), *more]
            if archive is not None:
                archive.write([(of, row) for of, row in everything if of is not access.history])
            with access.begin() as connection:
                for of, row in everything:
                    connection.execute(delete(of).where(*(column == row[column.name] for column in of.primary_key)))
            done += len(page)
    if hashes:
        _sweep_specs(access, hashes, archive)
    return done


def _raise_mark(access: Access, name: str, to_us: int) -> None:
    """Raises the mark; a purge that reaches less far than an earlier one leaves it."""
    with access.begin() as connection:
        put(connection, ROLLUP_MARK, [{"name": name, "value": max(to_us, read_mark(connection, name))}])


def _purge_steps(access: Access, before_us: int, archive: Archive | None) -> int:
    """Goes through the jobs that have ended, in the order of their ends, from the end of the last purge."""
    done, job_id = 0, -1
    with access.read() as connection:
        at_us = read_mark(connection, STEPS_PURGED_MARK)
    while not access.pause():
        with access.read() as connection:
            later = or_(JOB.c.end_at_us > at_us, and_(JOB.c.end_at_us == at_us, JOB.c.job_id > job_id))
            jobs = select(JOB.c.job_id, JOB.c.end_at_us).where(ended_since(at_us), later)
            jobs = jobs.where(JOB.c.end_at_us < before_us, JOB.c.state >= ENDED_FROM)
            found = connection.execute(jobs.order_by(JOB.c.end_at_us, JOB.c.job_id).limit(PAGE_RECORDS)).all()
            ids = sorted({row.job_id for row in found})
            rows = connection.execute(select(STEP).where(STEP.c.job_id.in_(ids), _steps(before_us))).mappings()
            page = [dict(row) for row in rows]
            profiles = _profiles_of(connection, page)
        if not found:
            break
        job_id, at_us = found[-1]
        if archive is not None and page:
            archive.write([*((STEP, row) for row in page), *((STEP_PROFILE, row) for row in profiles)])
        with access.begin() as connection:
            for table, rows_of in ((STEP, page), (STEP_PROFILE, profiles)):
                for row in rows_of:
                    is_it = (column == row[column.name] for column in table.primary_key)
                    connection.execute(delete(table).where(*is_it))
            put(connection, ROLLUP_MARK, [{"name": STEPS_PURGED_MARK, "value": at_us}])
        done += len(page)
    return done


def _profiles_of(connection: Connection, steps: Sequence[RowValues]) -> list[RowValues]:
    keys = {(row["job_id"], row["attempt"], row["step_id"]) for row in steps}
    asked = select(STEP_PROFILE).where(STEP_PROFILE.c.job_id.in_(_numbers(steps, "job_id")))
    found = (dict(row) for row in connection.execute(asked).mappings())
    return [row for row in found if (row["job_id"], row["attempt"], row["step_id"]) in keys]


def _page(connection: Connection, table: Table, condition: ColumnElement[bool]) -> list[RowValues]:
    query = select(table).where(condition).limit(PAGE_RECORDS)
    return [dict(row) for row in connection.execute(query).mappings()]


def _numbers(page: Sequence[RowValues], name: str) -> list[int]:
    """The numbers in a column but 0, each once."""
    return sorted({number for row in page if isinstance(number := row[name], int) and number})


def _with_jobs(connection: Connection, page: Sequence[RowValues], history: Table) -> _Rows:
    """Returns the records that are deleted with these attempts."""
    keys = {(row["job_id"], row["attempt"]) for row in page}
    ids = _numbers(page, "job_id")
    found: list[tuple[Table, RowValues]] = []
    for table in (STEP, STEP_PROFILE, JOB_SPAN, history):
        for row in connection.execute(select(table).where(table.c.job_id.in_(ids))).mappings():
            if (row["job_id"], row["attempt"]) in keys:
                found.append((table, dict(row)))
    requests = {row["request_id"] for row in page}
    arrays = _numbers(page, "array_job_id")
    others = [JOB.c.job_id.in_(ids)] + (
        [and_(JOB.c.array_job_id > 0, JOB.c.array_job_id.in_(arrays))] if arrays else []
    )
    for other in others:
        for job_id, attempt, request_id in connection.execute(
            select(JOB.c.job_id, JOB.c.attempt, JOB.c.request_id).where(other)
        ):
            if (job_id, attempt) not in keys:
                requests.discard(request_id)
    asked = select(JOB_REQUEST).where(JOB_REQUEST.c.request_id.in_(sorted(requests)))
    found += [(JOB_REQUEST, dict(row)) for row in connection.execute(asked).mappings()]
    return found


def _sweep_specs(access: Access, hashes: set[bytes], archive: Archive | None) -> None:
    """Deletes scripts that no job uses. All jobs are checked once; new ones in the transaction of a page."""
    with access.read() as connection:
        last = connection.execute(select(func.max(JOB.c.job_id))).scalar() or 0
        for table in (JOB, STEP):
            hashes -= set(_hashes(connection, table))
    left = sorted(hashes)
    for at in range(0, len(left), PAGE_RECORDS):
        if access.pause():
            return
        page = left[at : at + PAGE_RECORDS]
        with access.read() as connection:
            rows = [
                dict(r) for r in connection.execute(select(JOB_SPEC).where(JOB_SPEC.c.spec_hash.in_(page))).mappings()
            ]
        if archive is not None:
            archive.write([(JOB_SPEC, row) for row in rows])
        with access.begin() as connection:
            newer = {bytes(h) for (h,) in connection.execute(select(JOB.c.spec_hash).where(JOB.c.job_id > last))}
            newer |= {bytes(h) for (h,) in connection.execute(select(STEP.c.spec_hash).where(_is_recent_step())) if h}
            gone = [row["spec_hash"] for row in rows if bytes(row["spec_hash"]) not in newer]
            connection.execute(delete(JOB_SPEC).where(JOB_SPEC.c.spec_hash.in_(gone)))


def _is_recent_step() -> ColumnElement[bool]:
    """Returns the condition for steps of active jobs, which may still grow in number."""
    return STEP.c.job_id.in_(select(JOB.c.job_id).where(IS_ACTIVE))


def _hashes(connection: Connection, table: Table) -> Iterator[bytes]:
    asked = select(table.c.spec_hash).where(table.c.spec_hash.is_not(None))
    for (one,) in connection.execute(asked.execution_options(yield_per=10_000)):
        yield bytes(one)


# ---- conditions of records
# --------------------------------------------------------------------------------------------


def _jobs(before_us: int) -> ColumnElement[bool]:
    active = JOB.alias("active")
    is_open = exists().where(ROLLUP_OPEN.c.job_id == JOB.c.job_id, ROLLUP_OPEN.c.attempt == JOB.c.attempt)
    going = select(active.c.array_job_id).where(active.c.state < _literal_ended(), active.c.array_job_id > 0)
    return and_(
        HAS_ENDED,
        JOB.c.end_at_us < before_us,
        JOB.c.state >= ENDED_FROM,
        not_(is_open),
        or_(JOB.c.array_job_id == 0, JOB.c.array_job_id.not_in(going)),
    )


def _literal_ended() -> ColumnElement[bool]:
    return literal_column(str(ENDED_FROM))


def _steps(before_us: int) -> ColumnElement[bool]:
    old = select(JOB.c.job_id).where(HAS_ENDED, JOB.c.end_at_us < before_us, JOB.c.state >= ENDED_FROM)
    is_active = exists().where(JOB.c.job_id == STEP.c.job_id, IS_ACTIVE)
    return and_(STEP.c.job_id.in_(old), STEP.c.end_at_us > 0, STEP.c.end_at_us < before_us, not_(is_active))


def _suspensions(before_us: int) -> ColumnElement[bool]:
    is_open = exists().where(ROLLUP_OPEN.c.job_id == JOB_SPAN.c.job_id, ROLLUP_OPEN.c.attempt == JOB_SPAN.c.attempt)
    is_active = exists().where(JOB.c.job_id == JOB_SPAN.c.job_id, JOB.c.attempt == JOB_SPAN.c.attempt, IS_ACTIVE)
    return and_(JOB_SPAN.c.end_at_us < before_us, JOB_SPAN.c.tres == "", not_(is_open), not_(is_active))


_WHAT: dict[str, tuple[Table, Callable[[int], ColumnElement[bool]]]] = {
    "events": (NODE_EVENT, lambda us: and_(NODE_EVENT.c.end_at_us > 0, NODE_EVENT.c.end_at_us < us)),
    "jobs": (JOB, _jobs),
    "reservations": (RESERVATION_SPAN, lambda us: RESERVATION_SPAN.c.end_at_us < us),
    "steps": (STEP, _steps),
    "suspend": (JOB_SPAN, _suspensions),
    "transactions": (TXN, lambda us: TXN.c.at_us < us),
}
