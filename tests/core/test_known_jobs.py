"""A job that waits unchanged is its row alone; code that asks for it gets a job, and no result depends on which is kept."""

import pytest

from bench.incore import CoreCluster, make_config
from ctld.core.controller import Core
from ctld.core.records.effects import Batch
from ctld.core.records.events import Tick
from ctld.core.records.job import Job, JobRow, job_row
from ctld.core.recover import LoadedState
from ctld.core.state import known_jobs
from penstock.values.states import JobState, Reason

JOBS = 12
US = 1_000_000


class Kept:
    """The committed rows, as the database and the read snapshot have them."""

    def __init__(self) -> None:
        self.rows: dict[int, JobRow] = {}

    def commit(self, batch: Batch) -> None:
        self.rows.update({row.job_id: row for row in batch.jobs})


def queue(kept: Kept) -> CoreCluster:
    """Jobs of two CPUs each, and no node yet."""
    cluster = CoreCluster(make_config(2, 4), commit=kept.commit, register=False)
    for number in range(JOBS):
        cluster.submit(name=f"j{number}", cpus_per_task=2)
        cluster.seal()
    return cluster


def resting(core: Core) -> list[int]:
    return [job_id for job_id in core.state.jobs if type(core.state.jobs.look(job_id)) is not Job]


@pytest.fixture
def _all_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_jobs, "AWAKE_MAX", 0)


@pytest.mark.usefixtures("_all_rest")
def test_a_job_that_waits_rests_and_wakes_when_it_is_asked_for() -> None:
    kept = Kept()
    core = queue(kept).core
    jobs = core.state.jobs
    assert resting(core) == list(range(1, JOBS + 1)) and len(jobs) == JOBS
    assert all(jobs.look(job_id) is kept.rows[job_id] for job_id in jobs), "a second copy of the row"
    job = jobs[5]
    assert type(job) is Job and jobs.get(5) is job and jobs.look(5) is job
    assert resting(core) == [i for i in range(1, JOBS + 1) if i != 5]
    assert list(jobs) == [record.job_id for record in jobs.records()] == list(range(1, JOBS + 1)), "another order"
    assert [record.job_id for record in jobs.last(2)] == [JOBS, JOBS - 1]
    assert 99 not in jobs and jobs.get(99) is None and jobs.look(99) is None
    with pytest.raises(KeyError):
        jobs[99]
    core.check()


@pytest.mark.usefixtures("_all_rest")
def test_lists_are_in_the_order_of_ids_whatever_woke_or_rests_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one of many is awake, whose list is put together from pieces, and after one that rested out of order."""
    kept = Kept()
    core = queue(kept).core
    jobs = core.state.jobs
    every = list(range(1, JOBS + 1))
    for few in (1.0, 0.0):
        monkeypatch.setattr(known_jobs, "FEW", few)
        for awake in ((), (7,), (7, 3), (7, 3, JOBS, 1)):
            for job_id in awake:
                assert jobs[job_id].job_id == job_id
            assert [job.job_id for job in jobs.records()] == every
            assert [job.job_id for job in jobs.others()] == sorted(awake)
            assert all(job is jobs.look(job.job_id) for job in jobs.records()), "not what is kept"
        core.seal()
        assert resting(core) == every and not jobs.others()


@pytest.mark.usefixtures("_all_rest")
def test_a_change_without_a_row_to_write_is_not_lost() -> None:
    kept = Kept()
    core = queue(kept).core
    core.state.jobs[3].priority = 7
    core.seal()
    assert 3 in resting(core) and kept.rows[3].priority != 7
    assert core.state.jobs[3].priority == 7


@pytest.mark.usefixtures("_all_rest")
def test_a_reason_wakes_nobody_and_is_written() -> None:
    kept = Kept()
    core = queue(kept).core
    job = core.state.jobs.look(4)
    assert job is not None
    core.state.jobs.give_reason(job, Reason.REQ_NODE_NOT_AVAIL, "n1")
    core.state.touch_reason(job)
    batch = core.seal()
    assert batch is not None
    (row,) = batch.jobs
    assert (row.job_id, row.reason, row.reason_detail) == (4, Reason.REQ_NODE_NOT_AVAIL, "n1")
    assert core.state.jobs.look(4) is row and 4 in resting(core)


def test_all_goes_as_it_does_where_no_job_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for most in (known_jobs.AWAKE_MAX, 0):
        monkeypatch.setattr(known_jobs, "AWAKE_MAX", most)
        kept = Kept()
        cluster = queue(kept)
        cluster.now_us = lambda: cluster.core.state.now_us + 1000  # type: ignore[method-assign]  # equal times in both
        assert bool(resting(cluster.core)) is (most == 0)
        cluster.register(make_config(2, 4))
        cluster.run_until_idle()
        cluster.core.check()
        assert {row.state for row in kept.rows.values()} == {JobState.COMPLETED}
        made.append([(row.job_id, row.alloc, row.exit_code) for row in kept.rows.values()])
    assert made[0] == made[1]


def test_jobs_rest_from_a_start_on() -> None:
    kept = Kept()
    before = queue(kept)
    state = before.core.state
    loaded = LoadedState(2, state.next_job_id, state.next_request_id, list(kept.rows.values()), [], [], [], [], [])
    after = CoreCluster(make_config(2, 4), before.now_us() + US, loaded, register=False).core
    assert after.digest() != ""
    for job_id, row in kept.rows.items():
        job = after.state.jobs[job_id]
        assert job_row(job)._replace(submit_key=row.submit_key) == job_row(before.core.state.jobs[job_id])
    after.step(before.now_us() + 2 * US, Tick())
    after.check()
