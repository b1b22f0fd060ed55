"""What is asked about the last hours does not read the years before, counted in steps of SQLite's machine."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from accounting.database import read_engine
from accounting.filter import RecordFilter
from accounting.jobreports import JobReportQuery, efficiency, sizes, waits
from accounting.records import Records
from accounting.rolling import Roller, by_end
from accounting.rollup import HOUR_US, Calendar
from accounting.usage import UsageQuery
from bench.historydb import DAY_US, fill, settle
from ctld.store.committer import Store
from ctld.store.dialect import write_engine
from ctld.store.loader import load
from tests.store.making import NOW_US, leading, make_job, submitted

JOBS = 4_000
#: Far below the number of jobs. A question that reads an index from its beginning takes several steps for each.
STEPS_MAX = 1_500


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many jobs, all ended, most of one user."""
    place = tmp_path_factory.mktemp("past") / "penstock.db"
    Store.open(place, "me").close()
    engine = write_engine(str(place))
    fill(engine, NOW_US, JOBS, 1)
    settle(engine)
    engine.dispose()
    return place


@contextmanager
def counted() -> Iterator[list[int]]:
    """Steps of all connections that are made meanwhile."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def listen(connection: Any, _record: Any) -> None:
        connection.set_progress_handler(step, 1)

    event.listen(Engine, "connect", listen)
    try:
        yield steps
    finally:
        event.remove(Engine, "connect", listen)


def ask_job(connection: Connection, report: Callable[..., Any]) -> None:
    report(
        connection, JobReportQuery(UsageQuery(NOW_US, NOW_US + DAY_US, ("account",)), bounds=(2, 4)), lambda owner: True
    )


QUESTIONS: dict[str, Callable[[Connection], Any]] = {
    "a start": lambda connection: load(connection, NOW_US, NOW_US),
    "a page of the roll-up": lambda connection: connection.execute(by_end(NOW_US).limit(100)).all(),
    "sizes": lambda connection: ask_job(connection, sizes),
    "waits": lambda connection: ask_job(connection, waits),
    "efficiency": lambda connection: ask_job(connection, efficiency),
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_the_last_hours_cost_what_is_in_them(past: Path, what: str) -> None:
    engine = read_engine(past)
    with counted() as steps, engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM meta").close()
        before = steps[0]
        QUESTIONS[what](connection)
        if what == "a start":  # the accounts and users are read whole
            before += 20 * (440 + 440)
        assert steps[0] - before < STEPS_MAX
    engine.dispose()


@pytest.mark.parametrize("uids", [(), (10_000,)], ids=["all", "one user"])
def test_sacct_reads_what_has_ended_since(past: Path, uids: tuple[int, ...]) -> None:
    with counted() as steps, Records(past) as records:
        assert list(records.list(RecordFilter(uids=uids, start_at_us=NOW_US))) == []
        assert 0 < steps[0] < STEPS_MAX


@pytest.mark.parametrize("states", [("CANCELLED",), ("CANCELLED", "COMPLETED", "TIMEOUT")], ids=["one", "several"])
def test_sacct_of_the_beginning_reads_nothing_later(past: Path, states: tuple[str, ...]) -> None:
    with counted() as steps, Records(past) as records:
        assert list(records.list(RecordFilter(states=states, start_at_us=1, end_at_us=2))) == []
        assert 0 < steps[0] < STEPS_MAX


def test_a_roll_up_skips_a_queue_that_is_newer_than_its_target(tmp_path: Path) -> None:
    """One page for the job that waited before the target, none for the hundreds submitted after it."""
    place = tmp_path / "penstock.db"
    hour_us = NOW_US - NOW_US % HOUR_US
    old = make_job(1, submit_at_us=hour_us - 1_000_000, eligible_at_us=hour_us - 1_000_000)
    young = [make_job(n, submit_at_us=hour_us + n, eligible_at_us=hour_us + n) for n in range(2, 400)]
    with contextlib.closing(leading(place)) as store:
        store.commit(submitted(1, [old, *young]))
    engine = write_engine(str(place))
    begun = 0

    @contextmanager
    def begin() -> Iterator[Connection]:
        nonlocal begun
        begun += 1
        with engine.begin() as connection:
            yield connection

    roller = Roller(begin, engine.connect, Calendar(((0, 0),)), "root", page=1)
    transactions = {}
    while roller.advance(NOW_US, NOW_US):
        transactions[roller.marks.phase] = begun
    engine.dispose()
    assert roller.marks.cursor_us == hour_us
    assert roller.marks.scan_job > young[-1].job_id  # all phases are over
    assert begun < 20, transactions
