"""The tally counts after any changes what a new count has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import Batch
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.tally import JobTally, class_of
from penstock.values.states import ALLOCATED_STATES, Hold, JobState, Reason
from penstock.values.taskset import TaskSet

S = 1_000_000


def row(job_id: int, state: JobState = JobState.PENDING, **changes: Any) -> JobRow:
    """A row with these values."""
    fields: dict[str, Any] = dict.fromkeys(JobRow._fields, 0) | {
        "job_id": job_id, "array_task_id": None, "array_tasks": None, "state": state, "reason": Reason.NONE,
        "hold": Hold.NO, "alloc": (), "end_state": None, "partition": "p", "user_name": "ann",
        "request": JobRequest(name="j", account="a", partitions=("p", "q")),
    }  # fmt: skip
    return JobRow(**(fields | changes))


def batch(*jobs: JobRow, purged: tuple[int, ...] = ()) -> Batch:
    """A batch with these rows."""
    return Batch(1, list(jobs), [], [], [], [], [], [], 1, 1, [], list(purged))


@st.composite
def rows(draw: st.DrawFn) -> JobRow:
    """Any row of one of five jobs."""
    state = draw(st.sampled_from([*JobState]))
    if state is JobState.REQUEUED:
        state = JobState.RUNNING
    alloc = (NodeAlloc("n1", 2, 100, 1, (("gpu", "h200", draw(st.integers(0, 15))),)),) * draw(st.integers(0, 2))
    changes = {
        "user_name": draw(st.sampled_from(["ann", "bob"])), "reason": draw(st.sampled_from([*Reason][:4])),
        "hold": draw(st.sampled_from([*Hold])), "alloc": alloc if state in ALLOCATED_STATES else (),
        "array_tasks": draw(st.sampled_from([None, TaskSet.parse("0-9")])) if state is JobState.PENDING else None,
        "end_state": JobState.FAILED if state is JobState.COMPLETING else None,
    }  # fmt: skip
    return row(draw(st.integers(1, 5)), state, **changes)


def shown(tally: JobTally) -> dict[Any, tuple[int, ...]]:
    """The cells as values."""
    return {key: (cell.jobs, cell.cpus, cell.mem_mb, cell.gpus, cell.nodes) for key, cell in tally.cells.items()}


@given(st.lists(st.one_of(rows(), st.integers(1, 6)), max_size=30))
def test_changes_and_a_new_count_agree(changes: list[Any]) -> None:
    snapshot = Snapshot()
    tally = snapshot.count_for_metrics()
    for change in changes:
        snapshot.apply(batch(purged=(change,)) if isinstance(change, int) else batch(change))
    kept = shown(tally), tally.gpus_allocated
    assert kept == (shown(again := snapshot.count_for_metrics()), again.gpus_allocated)
    assert sum(cell.jobs for cell in tally.cells.values()) == sum(snapshot.counts.values())


def test_a_wait_is_from_when_the_job_could_start_and_counts_once() -> None:
    snapshot = Snapshot([row(9, JobState.RUNNING, start_at_us=50 * S)])
    tally = snapshot.count_for_metrics()
    assert tally.waits == {}
    snapshot.apply(batch(row(1, submit_at_us=10 * S, eligible_at_us=20 * S)))
    started = {"submit_at_us": 10 * S, "eligible_at_us": 20 * S, "start_at_us": 24 * S}
    snapshot.apply(batch(row(1, JobState.CONFIGURING, **started)))
    snapshot.apply(batch(row(1, JobState.RUNNING, **started)))
    snapshot.apply(batch(row(2, JobState.RUNNING, submit_at_us=S, start_at_us=S)))  # at once: never seen pending
    assert {name: (sum(found.counts), found.total) for name, found in tally.waits.items()} == {("p", "cpu"): (2, 4 * S)}


@pytest.mark.parametrize(
    ("nodes", "gres", "found"),
    [
        (1, (), "cpu"),
        (2, (), "cpu_multinode"),
        (1, (("gpu", "h200", 1),), "gpu"),
        (3, (("gpu", "h200", 255),), "gpu_multinode"),
    ],
)
def test_the_class_of_a_job_is_by_gpus_and_nodes(nodes: int, gres: tuple[Any, ...], found: str) -> None:
    assert class_of(row(1, JobState.RUNNING, alloc=(NodeAlloc("n1", 2, 100, 1, gres),) * nodes)) == found


def test_a_task_that_starts_leaves_the_others_of_its_array() -> None:
    request = JobRequest(name="j", account="a", partitions=("p", "q"))
    of_array: dict[str, Any] = {"array_job_id": 1, "request": request}
    snapshot = Snapshot([row(1, array_tasks=TaskSet.parse("0-9"), **of_array)])
    tally = snapshot.count_for_metrics()
    started = row(2, JobState.RUNNING, array_task_id=0, **of_array)
    snapshot.apply(batch(row(1, array_tasks=TaskSet.parse("1-9"), **of_array), started))
    snapshot.apply(batch(row(1, array_tasks=TaskSet.parse("2-9"), **of_array)))
    assert sorted(cell.jobs for cell in tally.cells.values()) == [1, 8]
    snapshot.apply(batch(row(1, array_task_id=9, **of_array)))
    assert sorted(cell.jobs for cell in tally.cells.values()) == [1, 1]
    assert shown(tally) == shown(snapshot.count_for_metrics())
