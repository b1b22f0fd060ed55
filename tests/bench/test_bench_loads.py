"""The loads do what they say: every job ends, every submission is accepted, the filled database is a real one."""

import pytest

from bench import incore
from bench.fill import fill
from ctld.store.committer import Store
from penstock.values.states import JobState

US = 1_000_000
AFTER_US = 4_000_000_000 * US


def test_loads_of_the_core_end_by_themselves():
    assert incore.array(300) > 0
    assert incore.single(300) > 0
    assert incore.queued(300) > 0


def test_a_long_queue_of_gpu_jobs():
    found = incore.congested(jobs=200, nodes=20, rounds=2)
    assert found.jobs > 128 and found.running > 0
    assert found.full_pass_ms > 0 and found.submit_ms > 0


def test_the_core_after_a_load_is_sound():
    cluster = incore.CoreCluster(incore.make_config(2, 4))
    cluster.submit(array="1-50%3")
    assert cluster.run_until_idle() == 50
    cluster.core.check()


@pytest.mark.parametrize(
    "config", [incore.make_config(2, 64, gpus=8), incore.make_config(1, 1, mem_mb=500)], ids=["gpus", "small"]
)
def test_a_filled_database_has_the_history_and_the_queue(tmp_path, config):
    database = tmp_path / "penstock.db"
    fill(database, config, finished=40, pending=30, seeds=10)
    store = Store.open(str(database), "test")
    try:
        store.acquire_lease(AFTER_US)
        loaded = store.load(AFTER_US, 300 * US, 600 * US)
        assert [job.state for job in loaded.jobs] == [JobState.PENDING] * 30
        assert [job.job_id for job in loaded.jobs] == list(range(41, 71))
        assert len({(job.request.std_out, job.request.submit_line) for job in loaded.jobs}) == 30
        everything = store.load(AFTER_US, AFTER_US, 0)
        ended = [job for job in everything.jobs if job.state is JobState.COMPLETED]
        assert [job.job_id for job in ended] == list(range(1, 41))
        assert len(everything.steps) == 40
        assert loaded.next_job_id == 71 and loaded.next_request_id > 70
        assert [line.event for line in store.history(40)] == [line.event for line in store.history(10)]
    finally:
        store.close()
