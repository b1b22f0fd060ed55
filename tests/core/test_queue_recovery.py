"""A long queue gets its rows in slices after a start: what is seen meanwhile, and that the order stays."""

import pytest

from bench.incore import ANN, CoreCluster, make_config
from ctld.core.controller import Core
from ctld.core.passes import queue_recovery
from ctld.core.records.effects import Batch
from ctld.core.records.events import CancelJobs, JobFilter, Tick
from ctld.core.records.job import JobRow
from ctld.core.recover import LoadedState
from penstock.values.states import JobState

JOBS = 20
US = 1_000_000


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 3)
    monkeypatch.setattr(queue_recovery, "SLICE", 2)


def queue() -> CoreCluster:
    """A controller that has started again with JOBS jobs, of different priorities, and no node yet."""
    rows: dict[int, JobRow] = {}

    def commit(batch: Batch) -> None:
        rows.update({row.job_id: row for row in batch.jobs})

    config = make_config(2, 4)
    before = CoreCluster(config, commit=commit, register=False)
    for number in range(JOBS):
        before.submit(name=f"j{number}", nice=number % 5, cpus_per_task=2)
    before.seal()
    state = before.core.state
    loaded = LoadedState(2, state.next_job_id, state.next_request_id, list(rows.values()), [], [], [], [], [])
    return CoreCluster(config, before.now_us() + US, loaded, register=False)


def slices(cluster: CoreCluster) -> int:
    """Go on as the loop does, until all have rows; how often."""
    number, core = 0, cluster.core
    while core.state.pending.outside:
        due_us = core.next_deadline()
        assert due_us is not None and due_us <= cluster.now_us(), "nobody would ask for the next slice"
        core.step(cluster.now_us(), Tick())
        core.check()
        cluster.seal()
        core.check()
        number += 1
        if core.state.pending.outside:
            assert not cluster.launches and cluster.plan is None, "a pass saw a part of them"
    return number


def order(core: Core) -> list[int]:
    pending = core.state.pending
    found: list[int] = pending.table.job[pending.first(JOBS + 10)].tolist()
    return found


def test_nothing_starts_before_all_stand_in_line() -> None:
    cluster = queue()
    assert len(cluster.core.state.pending.outside) == JOBS - 3
    cluster.register(make_config(2, 4))
    assert not cluster.launches
    assert slices(cluster) >= (JOBS - 3) // 2 - 2  # each registration was sealed, with a slice
    while cluster.seal():
        pass
    state = cluster.core.state
    by_rank = sorted(state.jobs.values(), key=lambda job: (-job.priority, job.job_id))
    began = sorted(launch.job_id for launch in cluster.launches)
    assert began == sorted(job.job_id for job in by_rank[:4])
    assert order(cluster.core) == [job.job_id for job in by_rank if job.state is JobState.PENDING]


def test_the_order_is_that_of_a_start_without_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    gradually = queue()
    slices(gradually)
    monkeypatch.setattr(queue_recovery, "AT_ONCE", JOBS)
    at_once = queue()
    assert not at_once.core.state.pending.outside
    assert order(gradually.core) == order(at_once.core)


def test_jobs_without_rows_can_be_changed() -> None:
    cluster = queue()
    core, last = cluster.core, JOBS
    assert last in core.state.pending.outside
    core.step(cluster.now_us(), CancelJobs(ANN, JobFilter(ids=(str(last),)), reply_to=7))
    cluster.submit(name="new")
    core.check()
    cluster.seal()
    slices(cluster)
    state = core.state
    assert state.jobs[last].state is JobState.CANCELLED
    assert sorted(order(core)) == [*range(1, last), last + 1]
