"""Purges: what is old and counted goes, with all that belongs to it, while a controller commits; archives come back."""

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, func, insert, select

from accounting import archive as archives
from accounting.archive import Archive
from accounting.purge import Access, count, cut_us, purge
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from accounting.runaway import active, fix
from accounting.schema import JOB, JOB_REQUEST, JOB_SPEC, STEP, STEP_PROFILE
from accounting.tables import CLUSTER_DAY, JOB_SPAN, USAGE_DAY, USAGE_HOUR, USAGE_MONTH
from ctld.core.records.job import JobSpan
from ctld.core.records.step import ProfileRow
from ctld.store.dialect import write_engine
from ctld.store.errors import Deposed
from ctld.store.schema import JOB_HISTORY
from ctld.store.sidewriter import SideWriter
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState
from tests.accounting.pastmaker import Stopped
from tests.store.making import NOW_US, end, leading, make_batch, make_job, make_step, start, submitted

OLD_US = NOW_US - 30 * 24 * HOUR_US


def past(store, sequence: int, ids, at_us: int, **changes):
    jobs = [
        end(
            start(make_job(i, submit_at_us=at_us, eligible_at_us=at_us), at_us=at_us + 1), at_us + 60_000_000, **changes
        )
        for i in ids
    ]
    steps = [make_step(job, state=JobState.COMPLETED, end_at_us=job.end_at_us) for job in jobs]
    store.commit(submitted(sequence, jobs, steps=steps))


def rows_of(place: Path | str, table) -> int:
    engine = write_engine(str(place))
    with engine.connect() as connection:
        found = connection.execute(select(func.count()).select_from(table)).scalar()
    engine.dispose()
    return int(found or 0)


def rolled(writer: SideWriter) -> None:
    roller = Roller(writer.begin, writer.read, Calendar(()), "root")
    while roller.advance(NOW_US, NOW_US):
        pass


def access_of(writer: SideWriter) -> Access:
    return Access(writer.begin, writer.read, lambda: False, JOB_HISTORY, Calendar(()))


def test_old_jobs_go_while_commits_go_on_and_come_back_from_the_archive(any_store: str, tmp_path: Path) -> None:
    place = any_store
    store = leading(place)
    past(store, 1, range(1, 301), OLD_US)
    past(store, 2, range(301, 311), NOW_US - HOUR_US // 2)
    store.commit(submitted(3, [start(make_job(311, submit_at_us=OLD_US), at_us=OLD_US)]))
    writer = SideWriter(str(place), store.leads)
    rolled(writer)
    access = access_of(writer)
    before_us = cut_us(access, "jobs", NOW_US - HOUR_US, NOW_US)
    assert count(access, "jobs", before_us) == 300
    committed = []

    def commit() -> None:
        for sequence in range(4, 60):
            store.commit(submitted(sequence, [make_job(1000 + sequence)]))
            committed.append(sequence)

    beside = threading.Thread(target=commit)
    beside.start()
    archive = Archive(str(tmp_path), "test", "jobs", 1)
    assert purge(access, "jobs", before_us, archive) == 300
    archive.close()
    beside.join()
    assert len(committed) == 56
    assert rows_of(place, JOB) == 11 + 56
    assert rows_of(place, STEP) == 10
    assert rows_of(place, JOB_REQUEST) == 11 + 56
    assert rows_of(place, JOB_HISTORY) == 11 + 56
    assert rows_of(place, JOB_SPEC) == 1  # others have the same script
    hours = rows_of(place, USAGE_HOUR)
    assert archives.load(str(archive.path), writer.begin) == 900
    assert rows_of(place, JOB) == 311 + 56
    assert rows_of(place, STEP) == 310
    assert archives.load(str(archive.path), writer.begin) == 900  # again: nothing is there twice
    assert rows_of(place, JOB) == 311 + 56
    rolled(writer)
    assert rows_of(place, USAGE_HOUR) == hours
    writer.close()
    store.close()


@pytest.mark.parametrize("kind", ["jobs", "steps"])
def test_profiles_go_with_their_steps_and_come_back(any_store: str, tmp_path: Path, kind: str) -> None:
    store = leading(any_store)
    past(store, 1, (1, 2), OLD_US)
    past(store, 2, (3,), NOW_US - HOUR_US // 2)
    profiles = [ProfileRow(i, 0, BATCH_STEP, node, b"\0%d" % i) for i in (1, 2, 3) for node in ("n1", "n2")]
    store.commit(make_batch(3, next_id=4, profiles=profiles))
    writer = SideWriter(any_store, store.leads)
    rolled(writer)
    archive = Archive(str(tmp_path), "test", kind, 1)
    assert purge(access_of(writer), kind, NOW_US - HOUR_US, archive) == 2
    archive.close()
    assert rows_of(any_store, STEP_PROFILE) == 2
    archives.load(str(archive.path), writer.begin)
    engine = write_engine(any_store)
    with engine.connect() as connection:
        found = [ProfileRow._make(row) for row in connection.execute(select(STEP_PROFILE))]
    engine.dispose()
    assert sorted(found) == profiles
    writer.close()
    store.close()


def stopping(writer: SideWriter, transactions: int, committed: bool) -> Any:
    """`begin` of a controller that is killed in its so many-th transaction, before or after that is committed."""
    left = transactions

    @contextmanager
    def begin() -> Iterator[Connection]:
        nonlocal left
        left -= 1
        with writer.begin() as connection:
            yield connection
            if not left and not committed:
                raise Stopped
        if not left:
            raise Stopped

    return begin


@pytest.mark.parametrize("kind", ["jobs", "steps", "suspend", "usage"])
def test_a_kill_in_any_transaction_of_a_purge_loses_and_doubles_nothing(
    any_store: str, tmp_path: Path, kind: str
) -> None:
    """At each step: the controller is killed, another one rolls up, reports, and purges on. What is left, what is in the
    archives and what was counted are as if nothing had happened."""
    store = leading(any_store)
    for sequence, ids in enumerate((range(1, 131), range(131, 261)), 1):
        past(store, sequence, ids, OLD_US + sequence * HOUR_US)
    spans = [JobSpan(i, 0, OLD_US + 2 * HOUR_US, OLD_US + 2 * HOUR_US + i, "") for i in range(131, 261)]
    store.commit(make_batch(3, next_id=261, job_spans=spans))
    past(store, 4, range(261, 264), NOW_US - HOUR_US // 2)
    writer = SideWriter(any_store, store.leads)
    rolled(writer)
    tables = (JOB, STEP, JOB_REQUEST, JOB_SPAN, USAGE_HOUR, USAGE_DAY, CLUSTER_DAY)
    before = {table.name: rows_of(any_store, table) for table in tables}
    counted_before = counted(writer)
    wanted = count(access_of(writer), kind, NOW_US - HOUR_US)
    files, step = [], 0
    while True:
        step += 1
        archive = Archive(str(tmp_path), "test", kind, step)
        files.append(archive.path)
        access = access_of(writer)._replace(begin=stopping(writer, 1 + step // 2, committed=bool(step % 2)))
        try:
            purge(access, kind, NOW_US - HOUR_US, archive)
            break
        except Stopped:
            rolled(writer)
            if kind != "usage":
                assert counted(writer) == counted_before
        finally:
            archive.close()
    assert step > 2 and wanted > 0 and count(access_of(writer), kind, NOW_US - HOUR_US) == 0
    if kind != "usage":
        assert counted(writer) == counted_before
    for path in files:
        archives.load(str(path), writer.begin)
    assert {table.name: rows_of(any_store, table) for table in tables} == before
    rolled(writer)
    assert counted(writer) == counted_before
    writer.close()
    store.close()


def test_what_is_not_counted_stays(tmp_path: Path) -> None:
    store = leading(tmp_path / "penstock.db")
    past(store, 1, range(1, 4), OLD_US)
    writer = SideWriter(str(tmp_path / "penstock.db"), store.leads)
    access = access_of(writer)
    assert cut_us(access, "jobs", NOW_US, NOW_US) == 0
    rolled(writer)
    assert cut_us(access, "jobs", NOW_US, NOW_US - HOUR_US) <= NOW_US - HOUR_US
    writer.close()
    store.close()


def test_steps_go_before_their_jobs_and_usage_by_the_hour(tmp_path: Path) -> None:
    place = tmp_path / "penstock.db"
    store = leading(place)
    past(store, 1, range(1, 151), OLD_US)
    writer = SideWriter(str(place), store.leads)
    with writer.begin() as connection:
        connection.execute(insert(JOB_SPAN), {"job_id": 1, "attempt": 0, "start_at_us": 5, "end_at_us": 9, "tres": ""})
    rolled(writer)
    access = access_of(writer)
    assert purge(access, "steps", NOW_US - HOUR_US, None) == 150
    assert rows_of(place, STEP) == 0 and rows_of(place, JOB) == 150
    assert purge(access, "steps", NOW_US - HOUR_US, None) == 0
    assert purge(access, "suspend", NOW_US - HOUR_US, None) == 1
    assert rows_of(place, USAGE_HOUR) > 0
    assert purge(access, "usage", NOW_US - HOUR_US, None) > 0
    assert rows_of(place, USAGE_HOUR) == 0
    writer.close()
    store.close()


def test_a_deposed_controller_purges_nothing(tmp_path: Path) -> None:
    place = tmp_path / "penstock.db"
    store = leading(place)
    past(store, 1, range(1, 4), OLD_US)
    writer = SideWriter(str(place), store.leads)
    rolled(writer)
    store.close()
    other = leading(place, "second", NOW_US + 1)
    with pytest.raises(Deposed):
        purge(access_of(writer), "jobs", NOW_US - HOUR_US, None)
    assert rows_of(place, JOB) == 3
    writer.close()
    other.close()


@pytest.mark.parametrize("line", [b"nonsense", b'["job",{"shoe":1}]', b'["audit",{}]'])
def test_a_bad_archive_is_refused_with_its_line(tmp_path: Path, line: bytes) -> None:
    store = leading(tmp_path / "penstock.db")
    writer = SideWriter(str(tmp_path / "penstock.db"), store.leads)
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(gzip.compress(line + b"\n"))
    with pytest.raises(BadValue, match="line 1"):
        archives.load(str(path), writer.begin)
    writer.close()
    store.close()


def test_the_month_that_a_purge_cuts_goes_on_to_count(any_store: str) -> None:
    """Usage older than two days goes: hours and days of then, and not the month, which is not over."""
    store = leading(any_store)
    day_us = 24 * HOUR_US
    past(
        store, 1, range(1, 3), NOW_US - 5 * day_us
    )  # of one CPU and 60 seconds each, less the microsecond of the start
    past(store, 2, range(3, 4), NOW_US - 40 * day_us)
    writer = SideWriter(any_store, store.leads)
    rolled(writer)
    access = access_of(writer)
    cut = NOW_US - 2 * day_us
    assert counted(writer) == {"usage_hour": 3 * 60, "usage_day": 3 * 60, "usage_month": 3 * 60}
    wanted = count(access, "usage", cut)
    assert purge(access, "usage", cut, None) == wanted > 0
    assert counted(writer) == {"usage_hour": 0, "usage_day": 0, "usage_month": 2 * 60}
    # What comes later belongs to the month still.
    past(store, 3, range(4, 5), NOW_US)
    roller = Roller(writer.begin, writer.read, Calendar(()), "root")
    while roller.advance(NOW_US + HOUR_US, NOW_US + HOUR_US):
        pass
    assert counted(writer) == {"usage_hour": 60, "usage_day": 60, "usage_month": 3 * 60}
    assert purge(access, "jobs", NOW_US - day_us * 3, None) == 3
    writer.close()
    store.close()


def counted(writer: SideWriter) -> dict[str, int]:
    """CPU seconds, rounded, by table."""
    found = {}
    with writer.read() as connection:
        for table in (USAGE_HOUR, USAGE_DAY, USAGE_MONTH):
            sums = select(func.sum(table.c.seconds), func.sum(table.c.micros)).where(table.c.tres_id == 1)
            seconds, micros = connection.execute(sums).one()
            found[table.name] = round(int(seconds or 0) + int(micros or 0) / 1e6)
    return found


def test_what_was_counted_of_a_runaway_job_is_taken_back(any_store: str) -> None:
    store = leading(any_store)
    job = start(make_job(1, submit_at_us=NOW_US, eligible_at_us=NOW_US), at_us=NOW_US)
    step = make_step(job, state=JobState.COMPLETED, end_at_us=NOW_US + 600_000_000)
    store.commit(submitted(1, [job], steps=[step]))
    writer = SideWriter(any_store, store.leads)
    for hours in (3, 4):
        roller = Roller(writer.begin, writer.read, Calendar(()), "root")
        to_us = NOW_US - NOW_US % HOUR_US + hours * HOUR_US
        while roller.advance(to_us, to_us):
            pass
        if hours == 3:
            assert counted(writer)["usage_day"] == (to_us - NOW_US) // 1_000_000
            with writer.begin() as connection:
                assert [row.job_id for row in active(connection)] == [1]
                assert fix(connection, [(1, 0), (1, 1)]) == 1
    assert counted(writer) == {"usage_hour": 600, "usage_day": 600, "usage_month": 600}
    writer.close()
    store.close()


def test_what_is_no_archive_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    broken = bytearray(gzip.compress(b'["job",{}]\n' * 1000))
    broken[12:30] = b"\xff" * 18
    (tmp_path / "broken").write_bytes(broken)
    os.mkfifo(tmp_path / "pipe")
    for name in ("broken", "pipe"):
        with pytest.raises(BadValue, match=f"^archive {tmp_path}/{name}"):
            archives.load(str(tmp_path / name), create_engine("sqlite://").begin)
    with pytest.raises(OSError):
        archives.load(str(tmp_path), create_engine("sqlite://").begin)
