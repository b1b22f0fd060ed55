"""What is written comes back: every row type, through a real database."""

from collections.abc import Iterator
from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from accounting.schema import join_strings, split_strings
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.records.node import NodeRow, PartitionRow
from ctld.core.records.request import JobRequest
from ctld.core.records.step import PLAIN_COLUMNS, StepRow
from ctld.store import rows
from ctld.store.committer import Store
from penstock.values.states import ACTIVE_STATES, Hold, JobState, NodeFlag
from tests.store.fieldvalues import big, rows_of, small, strings, text
from tests.store.making import HASH, NOW_US, leading, make_batch, make_job
from tools.records.cluster import NODE, PARTITION
from tools.records.code import RECORDS
from tools.records.declare import Record
from tools.records.jobs import JOB, STEP

jobs = rows_of(
    JOB, job_id=st.just(0), attempt=st.integers(0, 9), request_id=st.just(0),
    spec_hash=st.binary(min_size=32, max_size=32),
    submit_key=st.just("") | st.text("0123456789abcdef", min_size=32, max_size=32),
    state=st.sampled_from(sorted(ACTIVE_STATES)), array_job_id=small,
)  # fmt: skip


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        place = str(tmp_path_factory.mktemp("rows") / "penstock.db")
    else:
        place = request.getfixturevalue("postgresql").new_database(migrated=True)
    store = leading(place)
    Numbers.sequence = Numbers.job_id = 0
    yield store
    store.close()


class Numbers:
    """One store serves all examples of a module: each takes the next batch and the next job."""

    sequence = 0
    job_id = 0


def put(store: Store, **rows_of: Any) -> None:
    Numbers.sequence += 1
    store.commit(make_batch(Numbers.sequence, next_id=Numbers.job_id + 1, **rows_of))


@examples(quick=20, full=1000)
@given(jobs, jobs)
def test_job_comes_back_as_inserted_and_as_changed(store: Store, row: JobRow, later: JobRow) -> None:
    Numbers.job_id += 1
    number = Numbers.job_id
    row = row._replace(job_id=number, request_id=number)
    put(store, jobs=[row], requests=[(number, row.request)])
    assert store.load(NOW_US, 0, NOW_US).jobs == [row]
    # What does not change with the request keeps its value; all else is the later row's.
    kept = {name: getattr(row, name) for name in FIXED if name in JobRow._fields}
    changed = later._replace(**kept, request=row.request, submit_key=row.submit_key)
    put(store, jobs=[changed])
    assert store.load(NOW_US, 0, NOW_US).jobs == [changed]
    gone = changed._replace(state=JobState.COMPLETED, end_at_us=1)
    put(store, jobs=[gone])
    assert store.load(NOW_US, 0, NOW_US).jobs == []


#: Columns that an update of a known job leaves alone.
FIXED = tuple(column.name for column in JOB.columns if column.fixed)


#: A job that is loaded has its steps of the attempt.
OF_JOB = {"job_id": st.just(0), "attempt": st.just(0), "step_id": st.integers(-6, 2**31 - 1)}
REST = {name: st.just(StepRow._field_defaults[name]) for name in StepRow._fields[PLAIN_COLUMNS:]}


@examples(quick=20, full=1000)
@given(rows_of(STEP, **OF_JOB, **REST) | rows_of(STEP, **OF_JOB))
def test_step_comes_back(store: Store, step: StepRow) -> None:
    Numbers.job_id += 1
    number = Numbers.job_id
    job = make_job(number, state=JobState.RUNNING)
    step = step._replace(job_id=number)
    put(store, jobs=[job], requests=[(number, job.request)], steps=[step._replace(name="before", tasks=0)])
    put(store, steps=[step])
    assert [s for s in store.load(NOW_US, 0, 0).steps if s.job_id == number] == [step]
    put(store, jobs=[job._replace(state=JobState.FAILED, end_at_us=1)])
    assert [s for s in store.load(NOW_US, 0, 0).steps if s.job_id == number] == []


@given(rows_of(NODE, name=text.filter(bool)), rows_of(PARTITION, name=text.filter(bool)))
def test_node_and_partition_come_back(store: Store, node: NodeRow, partition: PartitionRow) -> None:
    put(store, nodes=[node._replace(reason="before")], partitions=[partition._replace(state="before")])
    put(store, nodes=[node], partitions=[partition])
    loaded = store.load(NOW_US, 0, 0)
    assert [n for n in loaded.nodes if n.name == node.name] == [node]
    assert [p for p in loaded.partitions if p.name == partition.name] == [partition]
    assert all(type(n.flags) is NodeFlag for n in loaded.nodes)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=99), strings, strings)
def test_spec_comes_back_and_the_first_stays(store: Store, digest: bytes, script: bytes, argv: tuple[bytes, ...],
                                             environment: tuple[bytes, ...]) -> None:  # fmt: skip
    known = store.spec(digest)
    put(store, specs=[SpecRow(digest, script, argv, environment)])
    assert store.spec(digest) == (known or SpecRow(digest, script, argv, environment))
    put(store, specs=[SpecRow(digest, b"another", (), ())])
    assert store.spec(digest) == (known or SpecRow(digest, script, argv, environment))


@given(strings)
def test_strings_join_and_split(some: tuple[bytes, ...]) -> None:
    assert split_strings(join_strings(some)) == some


@given(st.lists(st.tuples(big, st.integers(0, 9), text, text), min_size=1, max_size=4))
def test_history_keeps_its_order_and_repeats(store: Store, lines: list[tuple[int, int, str, str]]) -> None:
    Numbers.job_id += 1
    story = [HistoryRow(at_us, Numbers.job_id, attempt, event, detail) for at_us, attempt, event, detail in lines]
    put(store, history=story)
    put(store, history=story)
    assert store.history(Numbers.job_id) == story * 2
    assert store.history(2**40) == []


@pytest.mark.parametrize(
    "record",
    [r for r in RECORDS if not (r.is_document or r.is_write_only or r is JOB)],
    ids=lambda record: record.name,
)
@given(data=st.data())
def test_every_row_comes_back_from_its_parameters(record: Record, data: st.DataObject) -> None:
    row = data.draw(rows_of(record))
    as_stored = record.is_as_stored
    values = row if as_stored else getattr(rows, f"{record.name}_values")(row)
    assert type(values) is (type(row) if as_stored else tuple)
    assert as_stored or {type(value) for value in values} <= {int, str, bytes, type(None)}
    assert getattr(rows, f"{record.name}_from")(tuple(values)) == row


def test_unknown_spec_is_none(store: Store) -> None:
    assert store.spec(HASH[::-1]) is None


def test_parameters_are_plain_values() -> None:
    row = make_job(7, state=JobState.COMPLETING, end_state=JobState.FAILED, hold=Hold.USER)
    assert {type(value) for value in rows.job_insert(row)} <= {int, str, bytes, type(None)}
    assert len(rows.job_insert(row)) == len(JOB.columns)


def test_equal_requests_become_one_object(store: Store) -> None:
    first = Numbers.job_id + 1
    Numbers.job_id += 2
    request = JobRequest(name="same")
    both = [make_job(i, request=request) for i in (first, first + 1)]
    put(store, jobs=both, requests=[(row.request_id, request) for row in both])
    a, b = store.load(NOW_US, 0, 0).jobs
    assert a.request is b.request
    assert a.user_name is b.user_name
    put(store, jobs=[row._replace(state=JobState.COMPLETED, end_at_us=1) for row in both])
