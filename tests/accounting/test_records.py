"""sacct's records: which jobs a filter means, in what order, by which index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import rows
from sqlalchemy import create_engine, event

from accounting import records as records_module
from accounting.database import read_engine
from accounting.filter import FilterRecord, RecordFilter
from accounting.query import question
from accounting.records import Records, RecordsUnavailable
from accounting.schema import METADATA
from ctld.core.records.job import JobRow, JobSpan
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.step import ProfileRow
from ctld.rpc.gate.visibility import ALL_JOBS
from ctld.rpc.jobs.records import record_filter, record_message
from ctld.store.committer import Store
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.values.errors import BadValue
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet
from tests.store.making import NOW_US, SPEC, end, leading, make_batch, make_job, make_step, start, submitted

S = 1_000_000


def at(seconds: int) -> int:
    return NOW_US + seconds * S


class Past:
    """Writes a history of jobs, and asks about it."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.store: Store = leading(place)
        self.sequence = 0
        self.reader = Records(place)

    def put(self, *jobs: JobRow, steps: bool = True) -> None:
        self.sequence += 1
        begun = [job for job in jobs if job.start_at_us and steps]
        made = [make_step(j, state=j.state, end_at_us=j.end_at_us, exit_code=j.exit_code) for j in begun]
        self.store.commit(submitted(self.sequence, list(jobs), steps=made))

    def ask(self, **fields: Any) -> list[FilterRecord]:
        return list(self.reader.list(RecordFilter(**fields)))

    def ids(self, **fields: Any) -> list[int]:
        return [record.job_id for record in self.ask(**fields)]


@pytest.fixture
def past(any_store: str) -> Iterator[Past]:
    past = Past(any_store)
    yield past
    past.reader.close()
    past.store.close()


def life(job_id: int, submit: int, begin: int, stop: int, **changes: Any) -> JobRow:
    """A job with times in seconds; 0 = has not happened. `state` is COMPLETED when it has ended and nothing is said."""
    job = make_job(job_id, submit_at_us=at(submit), eligible_at_us=at(submit))
    if begin:
        job = start(job, changes.pop("node", "n1"), at(begin))
    if stop:
        job = end(job, at(stop), changes.pop("state", JobState.COMPLETED))
    return job._replace(**changes)


# ---- one record ------------------------------------------------------------------------------------------------------


def test_record_says_all(past: Past) -> None:
    request = JobRequest(name="train", account="physics", qos="high", ntasks=3, cpus_per_task=2, nodes_min=2)
    alloc = (
        NodeAlloc("n1", 4, 200, 2, (("gpu", "a100", 0b1011),)),
        NodeAlloc("n2", 2, 100, 1, (("gpu", "", 0b1),)),
    )
    job = life(1, 1, 2, 9, request=request, alloc=alloc, exit_code=3, tres_req="cpu=6", tres_alloc="cpu=6,gres/gpu=4",
               cancelled_by_uid=5, admin_comment="hm", failed_node="n9", time_limit_s=60)  # fmt: skip
    past.put(job)
    (record,) = past.ask(ids=("1",))
    fields = ("job_id", "attempt", "array_job_id", "array_task_id", "user_id", "group_id", "user_name", "group_name",
              "partition", "state", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s",
              "tres_req", "tres_alloc", "exit_code", "exit_signal", "cancelled_by_uid", "admin_comment",
              "failed_node", "batch_node", "priority", "array_throttle", "derived_code", "derived_signal")  # fmt: skip
    for name in fields:
        assert getattr(record, name) == getattr(job, name), name
    assert (record.name, record.account, record.qos, record.reason) == ("train", "physics", "high", "None")
    assert (record.nodes_req, record.cpus_req, record.nodes_alloc, record.cpus_alloc) == (2, 6, 2, 6)
    assert (record.node_list, record.array_tasks) == ("n[1-2]", "")
    assert b'"ntasks":3' in record.request
    assert (record.script, record.environment) == (b"", ())
    (step,) = record.steps
    assert (step.step_id, step.name, step.node, step.exit_code) == (-5, "batch", "n1", 3)
    assert (step.cpus_alloc, step.tres_alloc) == (4, "cpu=4,mem=200M,node=1,gres/gpu=3,gres/gpu:a100=3")
    (record,) = past.ask(ids=("1",), with_script=True, with_environment=True, no_steps=True)
    assert (record.script, record.environment, record.steps) == (SPEC.script, SPEC.environment, ())


def test_ends_of_tasks_are_read_when_asked_for_and_nothing_is_stored_where_there_are_none(past: Past) -> None:
    job, fine = life(1, 1, 2, 9), life(2, 1, 2, 9)
    said = '[[["n2",0,0,15,"0-1"],["n1",0,3,0,"2"]],4]'
    steps = [make_step(one, step_id=0, tasks=8, parts=(), task_ends=text) for one, text in ((job, said), (fine, ""))]
    past.store.commit(submitted(1, [job, fine], steps=[*steps, make_step(fine)]))
    assert [step.task_ends for record in past.ask() for step in record.steps] == ["", "", ""]
    found = past.ask(with_task_ends=True)
    assert [step.task_ends for record in found for step in record.steps] == [said, "", ""]
    (step,) = record_message(found[0], ALL_JOBS, "c").steps
    assert [(one.node, one.ranks, one.exit.code, one.exit.signal) for one in step.task_ends] == [
        ("n1", "2", 3, 0), ("n2", "0-1", 0, 15),
    ] and step.task_ends_left_out == 4  # fmt: skip
    assert rows(past.place, "SELECT count(*) FROM step WHERE task_ends IS NULL") == [(2,)]
    assert record_filter(ListRecordsRequest(with_task_ends=True), ()).with_task_ends


def test_a_window_has_the_newest_and_says_how_many_match(past: Past) -> None:
    """Each job once, its last attempt; a page beyond the last record is empty."""
    tasks = [life(10 + i, 1, 5, 6, array_job_id=10, array_task_id=i, submit_key="") for i in range(3)]
    past.put(life(1, 1, 2, 30), life(2, 1, 2, 9, user_id=77), life(3, 1, 0, 0), *tasks)
    past.put(life(1, 1, 40, 50, attempt=1))

    def ids(first: int, count: int, **fields: Any) -> tuple[int, list[int]]:
        total, found = past.reader.window(RecordFilter(**fields), first, count)
        return total, [record.job_id for record in found]

    assert ids(0, 4) == (6, [12, 11, 10, 3])
    assert ids(4, 4) == (6, [2, 1])
    assert ids(6, 4) == ids(9, 4) == (6, [])
    assert ids(0, 9, uids=(77,)) == (1, [2])
    assert ids(0, 1, start_at_us=at(20), states=("COMPLETED",), end_at_us=at(60)) == (1, [1])
    _, (newest,) = past.reader.window(RecordFilter(ids=("1",)), 0, 1)
    assert (newest.attempt, newest.end_at_us) == (1, at(50))


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_window_of_as_many_as_may_be_is_answered_and_of_one_more_refused(
    past: Past, monkeypatch: pytest.MonkeyPatch, duplicates: bool
) -> None:
    """Attempts count, as in a list; a job that is ending both has an end and is active, and is one."""
    ending = life(3, 1, 2, 30, state=JobState.COMPLETING, end_state=JobState.COMPLETED, completing_at_us=at(29))
    past.put(life(1, 1, 2, 30, state=JobState.REQUEUED), life(2, 1, 0, 0), ending, life(4, 1, 9, 0))
    past.put(life(1, 1, 40, 50, attempt=1))
    monkeypatch.setattr(records_module, "RECORDS_MAX", 5)
    asked = RecordFilter(start_at_us=at(20), duplicates=duplicates)
    total, found = past.reader.window(asked, 0, 9)
    assert (total, [one.job_id for one in found]) == ((5, [4, 3, 2, 1, 1]) if duplicates else (4, [4, 3, 2, 1]))
    assert past.reader.window(asked, 8, 9) == (total, [])
    monkeypatch.setattr(records_module, "RECORDS_MAX", 4)
    for first in (0, 8):
        with pytest.raises(BadValue, match="more than 4 records match; ask for a shorter time"):
            past.reader.window(asked, first, 9)
    assert past.reader.window(RecordFilter(start_at_us=at(20), names=("nobody's",)), 0, 9) == (0, [])


def test_too_many_records_are_not_all_read_to_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite counts the instructions of its machine: no more for thirty times the history."""
    monkeypatch.setattr(records_module, "RECORDS_MAX", 20)
    past = Past(str(tmp_path / "history.db"))
    engine = create_engine(f"sqlite:///{past.place}")
    steps = [0]

    def count() -> None:
        steps[0] += 1

    @event.listens_for(engine, "connect")
    def _counted(connection: Any, record: Any) -> None:
        connection.set_progress_handler(count, 1)

    def effort() -> int:
        before = steps[0]
        with pytest.raises(BadValue, match="more than 20 records"):
            Records(past.place, engine).window(RecordFilter(start_at_us=at(1)), 0, 10)
        return steps[0] - before

    past.put(*(life(i, 1, 2, 3) for i in range(1, 31)), steps=False)
    few = effort()
    past.put(*(life(i, 1, 2, 3) for i in range(31, 931)), steps=False)
    many = effort()
    engine.dispose()
    past.reader.close()
    past.store.close()
    assert 100 < many <= few


@pytest.mark.parametrize("fields", [
    {}, {"duplicates": True}, {"start_at_us": at(20)}, {"start_at_us": at(20), "duplicates": True}, {"uids": (77,)}, {"uids": (9,)},
    {"start_at_us": at(5), "end_at_us": at(20), "states": ("COMPLETED", "REQUEUED")}, {"names": ("train",), "end_at_us": at(8)},
    {"nodes": ("n2",)}, {"ids": ("10_[1-2]", "1")}, {"ids": ("10",), "duplicates": True}, {"seen_uid": 77, "seen_accounts": ("physics",)},
])  # fmt: skip
def test_windows_together_are_the_list_from_its_end(past: Past, fields: dict[str, Any]) -> None:
    """Whether the database counts and sorts (all but ids and nodes) or not."""
    tasks = [life(10 + i, 1, 5, 6, array_job_id=10, array_task_id=i, submit_key="") for i in range(3)]
    requeued = life(1, 1, 2, 30, state=JobState.REQUEUED), life(4, 1, 2, 7, state=JobState.REQUEUED, node="n2")
    past.put(
        *requeued,
        life(2, 1, 2, 9, user_id=77, request=JobRequest(name="train", account="Physics")),
        life(3, 1, 0, 0),
        life(5, 1, 9, 0),
        *tasks,
    )
    past.put(life(1, 1, 40, 50, attempt=1), life(4, 1, 8, 21, attempt=1))
    listed = [(one.job_id, one.attempt) for one in past.ask(**fields)][::-1]
    found: list[tuple[int, int]] = []
    for first in range(0, len(listed) + 2, 2):
        total, some = past.reader.window(RecordFilter(**fields), first, 2)
        assert total == len(listed)
        found += [(one.job_id, one.attempt) for one in some]
    assert found == listed


def test_truncate_cuts_at_the_window(past: Past) -> None:
    past.put(life(1, 1, 10, 90), life(2, 1, 30, 0), life(3, 1, 0, 0), life(4, 1, 30, 40))
    window = {"start_at_us": at(20), "end_at_us": at(50)}
    times = [(r.start_at_us, r.end_at_us) for r in past.ask(truncate=True, **window)]
    assert times == [(at(20), at(50)), (at(30), at(50)), (0, 0), (at(30), at(40))]
    assert [s.start_at_us for r in past.ask(truncate=True, **window) for s in r.steps] == [at(20), at(30), at(30)]
    assert past.ask(**window)[0].start_at_us == at(10)


# ---- which jobs ------------------------------------------------------------------------------------------------------


def test_ids_at_any_time_arrays_tasks_and_steps(past: Past) -> None:
    holder = life(10, 1, 0, 0, array_job_id=10, array_tasks=TaskSet.parse("4-9"))
    tasks = [life(10 + i, 1, 5, 6, array_job_id=10, array_task_id=i, submit_key="") for i in (1, 2, 3)]
    past.put(life(1, 1, 2, 3), life(2, 1, 0, 0), holder, *tasks)
    assert past.ids(ids=("2", "1", "1", "999")) == [1, 2]
    assert past.ids(ids=("10",)) == [10, 11, 12, 13]
    assert past.ids(ids=("10_2",)) == [12]
    assert past.ids(ids=("10_7",)) == [10]
    assert past.ids(ids=("10_[3-5]",)) == [10, 13]
    assert past.ids(ids=("10_77",)) == []
    assert past.ids(ids=("12",)) == [12]
    assert past.ids(ids=("1+0",)) == []
    assert [[s.step_id for s in r.steps] for r in past.ask(ids=("1.batch",))] == [[-5]]
    assert [[s.step_id for s in r.steps] for r in past.ask(ids=("1.0", "11"))] == [[], [-5]]
    assert [[s.step_id for s in r.steps] for r in past.ask(ids=("1.0", "1"))] == [[-5]]
    assert past.ask(ids=("10",))[0].array_tasks == "4-9"


@pytest.mark.parametrize("ids", [("x",), ("0",), ("1_",), ("1.foo",)])
def test_bad_ids_are_said_before_anything_is_read(past: Past, ids: tuple[str, ...]) -> None:
    with pytest.raises(BadValue, match="Invalid job id"):
        past.reader.list(RecordFilter(ids=ids))


def test_window_without_states(past: Past) -> None:
    past.put(
        life(1, 1, 2, 10),  # over before
        life(2, 1, 2, 20),  # ends as the window begins
        life(3, 1, 2, 30),
        life(4, 1, 2, 99),  # runs all through it
        life(5, 1, 2, 0),
        life(6, 25, 0, 28, state=JobState.CANCELLED),
        life(7, 1, 0, 0),
        life(8, 51, 0, 0),  # submitted after it
        life(9, 1, 0, 0, eligible_at_us=at(60)),
        life(10, 1, 0, 0, eligible_at_us=0),
    )
    assert past.ids(start_at_us=at(20), end_at_us=at(50)) == [2, 3, 4, 5, 6, 7]
    assert past.ids(start_at_us=at(20)) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert past.ids(end_at_us=at(5)) == [1, 2, 3, 4, 5, 7]
    assert past.ids() == list(range(1, 11))
    assert past.ids(start_at_us=at(20), end_at_us=at(50), states=("all",)) == [2, 3, 4, 5, 6, 7]
    assert past.ids(start_at_us=at(20), end_at_us=at(50), states=("PD",)) == [6, 7]
    assert past.ids(ids=("9", "10"), start_at_us=at(20)) == [9, 10]  # named, it need not be eligible
    assert past.ids(ids=("1", "3"), start_at_us=at(20)) == [3]
    assert past.ids(names=("job1", "job3"), start_at_us=at(20)) == [3]


def test_states_now_and_in_a_window(past: Past) -> None:
    past.put(
        life(1, 1, 10, 20),
        life(2, 1, 10, 0),
        life(3, 1, 0, 0),
        life(4, 1, 10, 20, state=JobState.FAILED),
        life(5, 1, 0, 15, state=JobState.CANCELLED),
        life(6, 1, 40, 60),
        life(7, 1, 40, 0, state=JobState.COMPLETING, end_state=JobState.COMPLETED, completing_at_us=at(50)),
    )

    def of(states: str, start: int = 0, stop: int = 0) -> list[int]:
        return past.ids(
            states=tuple(states.split(",")), start_at_us=at(start) if start else 0, end_at_us=at(stop) if stop else 0
        )

    assert (of("RUNNING"), of("pd"), of("CD,F"), of("COMPLETING")) == ([2], [3], [1, 4, 6, 7], [7])
    assert of("SUSPENDED") == []
    assert of("R", 12, 15) == [1, 2, 4]
    assert of("R", 45, 45) == [2, 6, 7]
    assert of("CG", 45, 45) == [7]
    assert of("PD", 12, 15) == [3, 5, 6, 7]
    assert of("PD", 16, 17) == [3, 6, 7]
    assert of("CD", 15, 30) == [1]
    assert of("CD", 15) == [1, 6, 7]
    assert of("CD", 45, 55) == [7]  # as in Slurm: it has ended, although processes of it are left
    assert of("CD", 45, 49) == of("CG", 51, 55) == []
    assert of("R", 51, 55) == [2, 6]
    assert of("CA,F", 1, 30) == [4, 5]
    assert of("CD", 21, 49) == []
    with pytest.raises(BadValue, match="Invalid job state specified: nonsense"):
        of("nonsense")


def test_other_filters(past: Past) -> None:
    physics, high = JobRequest(name="same", account="physics"), JobRequest(name="same", qos="high")
    past.put(
        life(1, 1, 2, 3, user_id=7, request=physics),
        life(2, 1, 2, 0, user_id=8, request=high, partition="gpu"),
        life(3, 1, 0, 0, user_id=7, request=high),
    )
    assert past.ids(uids=(7,)) == [1, 3]
    assert past.ids(uids=(7, 8)) == [1, 2, 3]
    assert past.ids(uids=(9,)) == []
    assert past.ids(uids=(7,), start_at_us=at(5)) == [3]
    assert past.ids(accounts=("physics", "x")) == [1]
    assert past.ids(qos=("high",)) == [2, 3]
    assert past.ids(partitions=("gpu",)) == [2]
    assert past.ids(names=("same",)) == [1, 2, 3]
    assert past.ids(names=("same",), uids=(7,), qos=("high",)) == [3]
    assert past.ids(names=("sam",)) == []
    assert past.ids(group_ids=(1, 2)) == []


def test_wckeys_and_associations(past: Past) -> None:
    """A key that its user's default has given (`*key`) is the key; the record has it as it was written."""
    past.put(
        life(1, 1, 2, 3, request=JobRequest(name="a", wckey="key"), assoc_id=7),
        life(2, 1, 2, 3, request=JobRequest(name="b", wckey="*key"), assoc_id=8),
        life(3, 1, 2, 3, assoc_id=7),
    )
    assert past.ids(wckeys=("key",)) == [1, 2]
    assert past.ids(wckeys=("*key", "x")) == [2]
    assert past.ids(assoc_ids=(7,)) == [1, 3]
    assert [(record.wckey, record.assoc_id) for record in past.ask()] == [("key", 7), ("*key", 8), ("", 7)]


def test_nodes_overlap(past: Past) -> None:
    wide = tuple(NodeAlloc(f"n{i}", 1, 1, 1, ()) for i in range(1, 6))
    past.put(life(1, 1, 2, 3, node="n10"), life(2, 1, 2, 3, alloc=wide), life(3, 1, 0, 0), life(4, 1, 2, 0, node="n3"))
    assert past.ids(nodes=("n3",)) == [2, 4]
    assert past.ids(nodes=("n[5-10]",)) == [1, 2]
    assert past.ids(nodes=("n99", "n10")) == [1]
    assert past.ids(nodes=("n1",)) == [2]
    with pytest.raises(BadValue):
        past.ask(nodes=("n[1",))


def test_last_attempt_or_all(past: Past) -> None:
    first = life(1, 1, 10, 20, state=JobState.REQUEUED)
    second = life(1, 1, 40, 50, attempt=1, request_id=1)
    past.put(first, second, life(2, 1, 2, 3))
    assert [(r.job_id, r.attempt) for r in past.ask()] == [(1, 1), (2, 0)]
    assert [(r.job_id, r.attempt) for r in past.ask(duplicates=True)] == [(1, 0), (1, 1), (2, 0)]
    assert [(r.job_id, r.attempt, len(r.steps)) for r in past.ask(ids=("1",))] == [(1, 1, 1)]
    assert [(r.attempt, r.steps[0].start_at_us) for r in past.ask(ids=("1",), duplicates=True)] == [
        (0, at(10)), (1, at(40)),
    ]  # fmt: skip
    # Slurm shows the last of the attempts that the question is about.
    assert [(r.attempt, r.state) for r in past.ask(states=("RQ",))] == [(0, JobState.REQUEUED)]


def test_pages_join_without_gap_or_repeat(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "PAGE_RECORDS", 3)
    jobs = []
    for job_id in range(1, 11):
        jobs += [life(job_id, 1, 2, 3, state=JobState.REQUEUED), life(job_id, 1, 4, 5, attempt=1, request_id=job_id)]
    past.put(*jobs)
    assert past.ids() == list(range(1, 11))
    assert past.ids(duplicates=True) == [i for i in range(1, 11) for _ in range(2)]


def test_records_are_read_while_jobs_are_written(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reader keeps the log from being cut: between two pages nothing is held."""
    monkeypatch.setattr(records_module, "PAGE_RECORDS", 2)
    past.put(*(life(i, 1, 2, 3) for i in range(1, 8)))
    reading = past.reader.list(RecordFilter())
    seen = [next(reading).job_id]
    past.put(life(8, 1, 2, 3))
    if "://" in past.place:
        held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'"
        assert rows(past.place, held) == [(0,)]
    else:
        busy, in_log, copied = past.store.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert (busy, in_log, copied) == (0, 0, 0)
    seen += [record.job_id for record in reading]
    assert seen == list(range(1, 8))


# ---- limits and faults -----------------------------------------------------------------------------------------------


def test_too_much_is_refused_with_advice(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    past.put(*(life(i, 1, 2, 3) for i in range(1, 8)))
    with pytest.raises(BadValue, match="the limit is 10000"):
        past.ask(ids=tuple(str(i) for i in range(1, 10_002)))
    with pytest.raises(BadValue, match="more than 10000 values"):
        past.ask(names=tuple(str(i) for i in range(10_001)))
    assert past.ids(ids=tuple(str(i) for i in range(1, 10_001))) == list(range(1, 8))
    monkeypatch.setattr(records_module, "RECORDS_MAX", 6)
    with pytest.raises(BadValue, match="more than 6 records match; ask for a shorter time"):
        past.ask()


def test_missing_database_is_said(tmp_path: Path) -> None:
    with Records(tmp_path / "gone.db") as reader, pytest.raises(RecordsUnavailable, match=r"gone\.db"):
        list(reader.list(RecordFilter()))
    assert not (tmp_path / "gone.db").exists()


def test_odd_path(tmp_path: Path) -> None:
    place = tmp_path / "a b?c#d%20e.db"
    store = leading(place)
    store.commit(submitted(1, [make_job(1)]))
    with Records(place) as reader:
        assert [r.job_id for r in reader.list(RecordFilter())] == [1]
    store.close()


def test_reader_cannot_write(past: Past) -> None:
    from sqlalchemy.exc import DBAPIError

    with read_engine(past.place).connect() as connection, pytest.raises(DBAPIError, match="read-?only"):
        connection.exec_driver_sql("DELETE FROM job")


# ---- indexes ---------------------------------------------------------------------------------------------------------

SINCE: dict[str, Any] = {"start_at_us": at(1000)}


@pytest.mark.parametrize(
    ("asked", "indexes"),
    [
        (RecordFilter(ids=("5", "6_1")), ["sqlite_autoindex_job_1", "job_array", "job_het"]),
        (RecordFilter(ids=("5",), uids=(7,), states=("CD",)), ["sqlite_autoindex_job_1", "job_array", "job_het"]),
        (RecordFilter(**SINCE), ["job_end", "job_active"]),
        (RecordFilter(**SINCE, end_at_us=at(2000), states=("R", "PD", "CD")), ["job_end", "job_active"]),
        (RecordFilter(**SINCE, accounts=("physics",), nodes=("n1",)), ["job_end", "job_active"]),
        (RecordFilter(**SINCE, uids=(7,)), ["job_user_end", "job_active"]),
        (RecordFilter(uids=(7, 8)), ["job_user_end", "job_active"]),
        (RecordFilter(names=("x",)), ["job_name"]),
        (RecordFilter(**SINCE, names=("x", "y"), uids=(7,)), ["job_name"]),
    ],
)  # fmt: skip
def test_usual_questions_use_indexes(asked: RecordFilter, indexes: list[str]) -> None:
    """What EXPLAIN QUERY PLAN says: a search in one index for each part, and a scan of the active jobs' at most."""
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    plans: list[str] = []

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def _explain(connection: Any, cursor: Any, sql: str, values: Any, context: Any, many: bool) -> tuple[str, Any]:
        plans.extend(row[3] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))
        return sql, values

    with engine.connect() as connection:
        for statement in question(asked).selects:
            connection.execute(statement)
    engine.dispose()
    lines = [line for line in plans if "job" in line]
    assert len(lines) == len(indexes), plans
    for line, index in zip(lines, indexes, strict=True):
        assert f"USING INDEX {index}" in line, plans
        assert line.startswith("SEARCH") or index == "job_active", plans


def test_a_step_on_several_nodes_says_what_it_had_and_used(past: Past) -> None:
    from ctld.core.records.step import StepPart, StepRequest
    from ctld.rpc.jobs.records import step_messages

    job = life(1, 1, 2, 9)
    usage = '{"1":[8000,3000,"n2",3,1000,"n1",0],"99":[1,1,"n1",0,1,"n1",0]}'  # one figure is of a later version
    solver = make_step(job, step_id=0, name="solver", state=JobState.FAILED, end_at_us=at(8), exit_code=2)._replace(
        request=StepRequest(distribution="cyclic", submit_line="srun solver"),
        parts=(StepPart("n1", 2, 100), StepPart("n2", 2, 100)),
        node_list="n[1-2]", nodes=2, cpus=4, tasks=4, tres_alloc="cpu=4,mem=200M,node=2", usage=usage,
        submit_at_us=at(3), cancelled_by_uid=1002,
    )  # fmt: skip
    past.sequence += 1
    past.store.commit(submitted(past.sequence, [job], steps=[make_step(job), solver]))
    (record,) = past.ask(ids=("1",))
    batch, step = record.steps
    assert (batch.node_list, batch.nodes, batch.usage, batch.request) == ("", 1, "", b"")
    assert (step.node_list, step.nodes, step.cpus_alloc, step.tres_alloc) == ("n[1-2]", 2, 4, "cpu=4,mem=200M,node=2")
    shown = step_messages([batch, step], cancelled_by_uid=-1)
    assert (shown[0].node_list, shown[0].nodes_alloc, len(shown[0].metrics)) == ("n1", 1, 0)
    assert (shown[1].node_list, shown[1].nodes_alloc, shown[1].tasks) == ("n[1-2]", 2, 4)
    assert (shown[1].distribution, shown[1].submit_line, shown[1].cancelled_by_uid) == ("cyclic", "srun solver", 1002)
    (metric,) = shown[1].metrics
    assert (metric.total, metric.max, metric.max_node, metric.max_task) == (8000, 3000, "n2", 3)
    assert (metric.min, metric.min_node, metric.min_task, shown[1].submit_at_us) == (1000, "n1", 0, at(3))


def test_a_job_whose_end_is_decided_is_shown_as_what_it_will_be(past: Past) -> None:
    """As in Slurm: who cancelled it need not wait for the last of its processes."""
    ending = {"state": JobState.COMPLETING, "end_at_us": 0, "completing_at_us": at(15)}
    past.put(
        life(1, 1, 10, 0, **ending, end_state=JobState.CANCELLED),
        life(2, 1, 10, 0, **ending, end_state=JobState.REQUEUED),
        life(3, 1, 10, 0, **ending),
        life(4, 1, 10, 20, state=JobState.CANCELLED),
    )
    shown = {r.job_id: r.state for r in past.ask(ids=("1", "2", "3", "4"))}
    still = JobState.COMPLETING
    assert shown == {1: JobState.CANCELLED, 2: still, 3: still, 4: JobState.CANCELLED}
    assert past.ids(states=("CA",)) == [1, 4]
    assert past.ids(states=("CA",), start_at_us=at(5)) == [1, 4]
    assert past.ids(states=("CA",), start_at_us=at(5), end_at_us=at(30)) == [1, 4]
    assert past.ids(states=("CA",), start_at_us=at(5), end_at_us=at(14)) == []
    assert {r.job_id: r.end_at_us for r in past.ask(ids=("1", "2", "3", "4"))} == {1: at(15), 2: 0, 3: 0, 4: at(20)}
    assert past.ids(states=("RQ",)) == []


def test_a_job_without_an_account_is_charged_to_the_default_one(past: Past) -> None:
    """Where it has an association; and that account's jobs are found by its name."""
    past.put(
        life(1, 1, 2, 3, assoc_id=7), life(2, 1, 2, 3), life(3, 1, 2, 3, request=JobRequest(name="a", account="bio"))
    )
    messages = [record_message(record, ALL_JOBS, "c", "default") for record in past.ask()]
    assert [message.account for message in messages] == ["default", "", "bio"]

    def ids(*accounts: str) -> list[int]:
        asked = record_filter(ListRecordsRequest(accounts=accounts), (), default_account="default")
        return [record.job_id for record in past.reader.list(asked)]

    assert (ids("default"), ids("bio"), ids("default", "bio")) == ([1, 2], [3], [1, 2, 3])


# ---- resized jobs ----------------------------------------------------------------------------------------------------


def test_profiles_of_the_jobs_that_one_sees(past: Past) -> None:
    for job_id, uid in ((1, 1000), (2, 2000)):
        past.put(life(job_id, 1, 10, 20, user_id=uid))
    profiles = [ProfileRow(i, 0, BATCH_STEP, node, b"\0%d" % i) for i in (1, 2, 9) for node in ("n1", "n2")]
    past.store.commit(make_batch(past.store.sequence + 1, next_id=10, profiles=profiles))

    def found(**which: Any) -> list[tuple[int, str]]:
        return [(one.job_id, one.node) for one in past.reader.profiles(RecordFilter(**which))]

    assert found(ids=("1", "2", "9")) == [(1, "n1"), (1, "n2"), (2, "n1"), (2, "n2")]  # 9 has no record
    assert found(ids=("1", "2"), seen_uid=2000) == [(2, "n1"), (2, "n2")]
    assert found(ids=("2.batch",)) == [(2, "n1"), (2, "n2")]
    assert found(ids=("2.0",)) == []
    assert [one.profile for one in past.reader.profiles(RecordFilter(ids=("1",)))] == [b"\x001"] * 2


@pytest.fixture
def resized(past: Past) -> Past:
    """A job from 10 to 90 with four nodes until 30, two until 60, then one; a step of each size."""
    four, two = "cpu=16,mem=400M,node=4,billing=16", "cpu=8,mem=200M,node=2,billing=8"
    job = life(1, 1, 10, 90, resized_at_us=at(60), tres_alloc="cpu=4,mem=100M,node=1,billing=4")
    steps = [make_step(job, state=job.state, end_at_us=job.end_at_us)]
    for step_id, second in enumerate((11, 31, 61)):
        begun = {"step_id": step_id, "start_at_us": at(second), "submit_at_us": at(second), "end_at_us": at(second + 9)}
        steps.append(make_step(job, state=JobState.COMPLETED, **begun))
    spans = [JobSpan(1, 0, 0, at(30), four, "n[1-4]"), JobSpan(1, 0, 0, at(60), two, "n[1-2]")]
    past.put(job, steps=False)
    past.put(life(2, 1, 20, 50))
    past.store.commit(make_batch(3, steps=steps, job_spans=spans, next_id=3))
    return past


def test_a_resized_job_has_a_record_for_each_size(resized: Past) -> None:
    found = [
        (r.job_id, r.state.name, (r.submit_at_us - NOW_US) // S, (r.start_at_us - NOW_US) // S,
         (r.end_at_us - NOW_US) // S, r.node_list, r.nodes_alloc, r.cpus_alloc, r.tres_alloc.split(",")[0],
         [s.step_id for s in r.steps])
        for r in resized.ask()
    ]  # fmt: skip
    assert found == [
        (1, "COMPLETED", 60, 60, 90, "n1", 1, 1, "cpu=4", [-5, 2]),
        (1, "RESIZING", 30, 30, 60, "n[1-2]", 2, 8, "cpu=8", [1]),
        (1, "RESIZING", 1, 10, 30, "n[1-4]", 4, 16, "cpu=16", [0]),
        (2, "COMPLETED", 1, 20, 50, "n1", 1, 1, "cpu=1", [-5]),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"states": ("RS",)}, ["RESIZING", "RESIZING"]),
        ({"states": ("RESIZING",), "start_at_us": at(40), "end_at_us": at(70)}, ["RESIZING"]),
        ({"states": ("CD",), "ids": ("1",)}, ["COMPLETED"]),
        ({"ids": ("1",), "start_at_us": at(35), "end_at_us": at(50)}, ["RESIZING"]),
        ({"states": ("F",)}, []),
    ],
)
def test_states_and_windows_choose_among_the_sizes(resized: Past, fields: Any, expected: list[str]) -> None:
    assert [r.state.name for r in resized.ask(**fields)] == expected
