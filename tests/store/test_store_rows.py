"""What is written comes back: every row type, through a real database."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.schema import JOB, join_strings, split_strings
from ctld.core.model import (
    GpuShare,
    HistoryRow,
    JobRequest,
    JobRow,
    NodeAlloc,
    NodeRow,
    PartitionRow,
    SpecRow,
)
from ctld.core.step_model import RankCommand, StepPart, StepRequest, StepRow
from ctld.store import rows
from ctld.store.committer import Store
from penstock.values.states import ACTIVE_STATES, Hold, JobState, NodeFlag, Reason, Suspend
from penstock.values.taskset import TaskSet
from tests.store.making import HASH, NOW_US, leading, make_batch, make_job

#: SQLite and the wire know no lone surrogates; NUL is refused long before.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
small = st.integers(0, 2**31 - 1)
big = st.integers(0, 2**62)
nodes = st.from_regex(r"[a-z]{1,3}[0-9]{1,3}", fullmatch=True)
grants = st.tuples(text, text, st.integers(0, 2**200))
allocations = st.lists(
    st.builds(NodeAlloc, nodes, small, big, small, st.lists(grants, max_size=3).map(tuple)), max_size=3
).map(tuple)
requests = st.builds(
    JobRequest,
    name=text, partitions=st.lists(text, max_size=2).map(tuple), account=text, qos=text, comment=text,
    work_dir=st.binary(max_size=20), std_out=st.binary(max_size=20), open_append=st.booleans(),
    time_limit_s=st.none() | small, begin_at_us=big, nodes_min=small, nodes_max=small,
    ntasks=st.integers(1, 16_000_000), cpus_per_task=st.integers(1, 16_000_000), mem_per_node_mb=st.none() | small,
    gres_per_node=st.lists(st.tuples(text, text, small), max_size=2).map(tuple),
    nodes_required=st.lists(nodes, max_size=2).map(tuple), array=text, nice=st.integers(-(2**31), 2**31),
    rlimits=st.lists(st.tuples(text, st.integers(-1, 2**63 - 1)), max_size=2).map(tuple), umask=st.none() | small,
)  # fmt: skip
tasks = st.none() | st.sets(st.integers(0, 200), min_size=1).map(TaskSet.of)
jobs = st.builds(
    JobRow,
    job_id=st.just(0), attempt=st.integers(0, 9), array_job_id=small, array_task_id=st.none() | small,
    array_tasks=tasks, array_throttle=small, request_id=st.just(0), request=requests,
    spec_hash=st.binary(min_size=32, max_size=32), submit_key=st.just("") | st.text("0123456789abcdef", min_size=32,
    max_size=32), user_id=small, group_id=small, user_name=text, group_name=text, partition=text,
    state=st.sampled_from(sorted(ACTIVE_STATES)), end_state=st.none() | st.sampled_from(JobState),
    reason=st.sampled_from(Reason), reason_detail=text, hold=st.sampled_from(Hold), priority=st.integers(0, 2**32),
    dependency=text, submit_at_us=big, eligible_at_us=big, start_at_us=big, end_at_us=big,
    time_limit_s=st.integers(-1, 2**40), alloc=allocations, batch_node=text, exit_code=small, exit_signal=small,
    derived_code=small, derived_signal=small, cancelled_by_uid=st.integers(-1, 2**32), failed_node=text,
    admin_comment=text, tres_req=text, tres_alloc=text, suspended_by=st.sampled_from(Suspend), suspended_us=big,
    suspended_at_us=big, preempt_at_us=big, preempt_end_at_us=big, preemptor_id=small, assoc_id=small,
    borrowed=small,
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


def put(store: Store, **rows_of: list[object]) -> None:
    Numbers.sequence += 1
    store.commit(make_batch(Numbers.sequence, next_id=Numbers.job_id + 1, **rows_of))  # type: ignore[arg-type]


@given(jobs, jobs)
def test_job_comes_back_as_inserted_and_as_changed(store: Store, row: JobRow, later: JobRow) -> None:
    Numbers.job_id += 1
    number = Numbers.job_id
    row = row._replace(job_id=number, request_id=number)
    put(store, jobs=[row], requests=[(number, row.request)])
    assert store.load(NOW_US, 0, 0).jobs == [row]
    # What does not change with the request keeps its value; all else is the later row's.
    kept = {name: getattr(row, name) for name in FIXED if name in JobRow._fields}
    changed = later._replace(**kept, request=row.request, submit_key=row.submit_key)
    put(store, jobs=[changed])
    assert store.load(NOW_US, 0, 0).jobs == [changed]
    gone = changed._replace(state=JobState.COMPLETED, end_at_us=1)
    put(store, jobs=[gone])
    assert store.load(NOW_US, 0, 0).jobs == []


#: Columns that an update of a known job leaves alone.
FIXED = tuple(JOB.c.keys())[: tuple(JOB.c.keys()).index("array_task_id")]


#: Columns that every step has.
PLAIN = dict(
    job_id=st.just(0), attempt=st.just(0), step_id=st.integers(-6, 2**31 - 1), name=text,
    state=st.sampled_from(JobState), node=text, epoch=big, tasks=small, start_at_us=big, end_at_us=big,
    exit_code=small, exit_signal=small, user_cpu_us=big, system_cpu_us=big, max_rss_kb=big, max_vmsize_kb=big,
    disk_read_bytes=big, disk_write_bytes=big,
)  # fmt: skip
PARTS = st.builds(
    StepPart, node=text, cpus=small, mem_mb=big, cpu_ids=st.integers(0, 2**200),
    gres=st.lists(st.tuples(text, text, st.integers(0, 2**70)), max_size=2).map(tuple),
    shares=st.lists(st.builds(GpuShare, text, text, small, small, small), max_size=1).map(tuple),
    ranks=st.sets(st.integers(0, 4000), max_size=20).map(lambda ranks: tuple(sorted(ranks))),
    state=st.sampled_from(JobState), start_at_us=big, end_at_us=big, exit_code=small, exit_signal=small, failure=text,
    out_of_memory=st.booleans(),
)  # fmt: skip
REQUESTS = st.builds(
    StepRequest, name=text, ntasks=small, relative=st.none() | small, exact=st.booleans(), work_dir=st.binary(),
    gres_per_node=st.lists(st.tuples(text, text, small), max_size=2).map(tuple),
    multi_prog=st.lists(st.builds(RankCommand, text, st.lists(st.binary(), max_size=2).map(tuple)), max_size=2).map(tuple),
)  # fmt: skip
SPREAD = dict(
    request=st.none() | REQUESTS, parts=st.lists(PARTS, max_size=3).map(tuple), spec_hash=st.binary(), step_key=text,
    node_list=text, nodes=small, cpus=small, tres_alloc=text, submit_at_us=big, time_limit_s=big,
    cancelled_by_uid=small, usage=text, note=text, ports=st.lists(st.integers(0, 65535), max_size=3).map(tuple),
)  # fmt: skip
REST = {name: st.just(StepRow._field_defaults[name]) for name in SPREAD}


@given(st.builds(StepRow, **PLAIN, **REST) | st.builds(StepRow, **PLAIN, **SPREAD))
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


@given(
    st.builds(
        NodeRow, name=text.filter(bool), flags=st.integers(0, 63).map(NodeFlag), reason=text, reason_uid=small,
        reason_at_us=big, comment=text, boot_id=text, spool_id=text, version=text, last_busy_at_us=big,
        extra=text, resume_after_us=big,
    ),
    st.builds(PartitionRow, name=text.filter(bool), state=text),
)  # fmt: skip
def test_node_and_partition_come_back(store: Store, node: NodeRow, partition: PartitionRow) -> None:
    put(store, nodes=[node._replace(reason="before")], partitions=[partition._replace(state="before")])
    put(store, nodes=[node], partitions=[partition])
    loaded = store.load(NOW_US, 0, 0)
    assert [n for n in loaded.nodes if n.name == node.name] == [node]
    assert [p for p in loaded.partitions if p.name == partition.name] == [partition]
    assert all(type(n.flags) is NodeFlag for n in loaded.nodes)


strings = st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\0", b"")), max_size=4).map(tuple)


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


def test_unknown_spec_is_none(store: Store) -> None:
    assert store.spec(HASH[::-1]) is None


def test_parameters_are_plain_values() -> None:
    row = make_job(7, state=JobState.COMPLETING, end_state=JobState.FAILED, hold=Hold.USER)
    assert {type(value) for value in rows.job_insert(row)} <= {int, str, bytes, type(None)}
    assert len(rows.job_insert(row)) == len(JOB.c)


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
