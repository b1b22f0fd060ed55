"""The loader: what the core starts with after any story is what the committed rows say."""

from pathlib import Path
from weakref import ref

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from postgres import change

from ctld.core.controller import Core
from ctld.core.records.effects import Batch
from ctld.core.recover import ArrayCounts
from ctld.core.state.job_step_table import ENDED_KEPT
from ctld.store.committer import Store
from ctld.store.errors import StoreError
from ctld.store.jobreader import JobReader
from penstock.values.config import Config
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet
from tests.core import test_properties
from tests.core.world import US, World, make_config
from tests.store.making import NOW_US, end, leading, make_batch, make_job, make_step, start, submitted


class StoreWorld(World):
    """The core's test world, with each batch in a real database too; every restart compares what both remember."""

    def __init__(self, config: Config) -> None:
        self.store = Store.open(":memory:", "world")
        super().__init__(config)

    def _commit(self, batch: Batch) -> None:
        self.store.commit(batch)
        super()._commit(batch)

    def restart(self) -> None:
        self.store.acquire_lease(self.now_us)
        if not self.epoch:  # root's rows come with a new database
            shares = self.store.load(self.now_us, 0, 0).shares
            self.assoc_rows = {row.assoc_id: row for row in shares.assocs}
            self.user_rows = {row.name: row for row in shares.users}
        super().restart()
        loaded = self.store.load(self.now_us, self.config.min_job_age_s * US - 1, 10**15)
        if self.jobs:
            assert Core(self.config, loaded, self.now_us).digest() == self.core.digest()
            assert loaded.next_job_id == self.core.state.next_job_id
            assert loaded.reservation_id == self.core.state.registry.reservation_id
            assert loaded.reservations == tuple(self.core.state.reservations.values())
            rows = [self.jobs[max(k for k in self.jobs if k[0] == job_id)] for job_id in self.core.state.jobs]
            assert loaded.jobs == sorted(rows, key=lambda row: row.job_id)
            mine = self.core.state.arrays
            theirs = Core(self.config, loaded, self.now_us).state.arrays
            facts = ("total", "pending", "running", "ok", "failed", "exit_code", "exit_signal", "unsplit", "members")
            assert {i: [getattr(a, f) for f in facts] for i, a in mine.items()} == {
                i: [getattr(a, f) for f in facts] for i, a in theirs.items()
            }


OPERATIONS = [
    getattr(test_properties, name)
    for name in (
        "submit_plain",
        "submit_array",
        "submit_dependent",
        "start_one",
        "exit_one",
        "cancel_one",
        "control_one",
    )
]


@examples(quick=12, full=25)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), min_size=8, max_size=40))
def test_restart_from_the_database_is_restart_from_the_rows(story: list[tuple[int, int, int]]) -> None:
    world = StoreWorld(make_config(nodes=2, gpus=2))
    for node in ("n1", "n2"):
        world.register(node)
    for pick, a, b in story:
        if pick % 9 == 7:
            world.advance(a)
        elif pick % 9 == 8:
            world.restart()
            for node in ("n1", "n2"):
                world.register(node)
        else:
            OPERATIONS[pick % 9](world, a, b)
    world.restart()
    world.store.close()


def test_loads_active_and_recent_only(any_store: str) -> None:
    store = leading(any_store)
    old, recent, running, waiting = (make_job(i) for i in range(1, 5))
    store.commit(submitted(1, [old, recent, running, waiting]))
    later = [end(start(old), NOW_US + 10), end(start(recent), NOW_US + 20), start(running)]
    store.commit(make_batch(2, later, next_id=5, steps=[make_step(row, state=row.state) for row in later]))
    loaded = store.load(NOW_US + 100, 80, 200)
    assert loaded.jobs == [later[1], later[2], waiting]
    assert [step.job_id for step in loaded.steps] == [2, 3]
    assert store.load(NOW_US + 100, 79, 200).jobs == [later[2], waiting]
    assert {row.submit_key for row in loaded.jobs} == {row.submit_key for row in (recent, running, waiting)}
    assert {row.submit_key for row in store.load(NOW_US + 100, 80, 0).jobs} == {""}  # too old to be sent again
    store.close()


def test_restart_reads_no_history(tmp_path: Path) -> None:
    """The conditions of the loader are those of the partial indexes, word for word."""
    store = leading(tmp_path / "penstock.db")
    asked: list[str] = []
    store.raw.set_trace_callback(asked.append)
    store.commit(submitted(1, [make_job(1, array_job_id=1)]))
    store.load(NOW_US, 10**6, 10**6)
    store.raw.set_trace_callback(None)
    plans = [
        line[3]
        for sql in asked
        if sql.startswith("SELECT") and ("FROM job" in sql)
        for line in store.raw.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    ]
    scans = [line for line in plans if line.startswith("SCAN")]
    assert scans == ["SCAN job USING INDEX job_active"] * len(scans)
    used = " ".join(plans)
    assert all(f"INDEX {name}" in used for name in ("job_active", "job_end", "job_array", "job_request_submitted"))
    store.close()


def test_array_counts_come_from_the_whole_history(any_store: str) -> None:
    store = leading(any_store)
    holder = make_job(1, array_job_id=1, array_tasks=TaskSet.parse("5-9"))
    other = make_job(2, array_job_id=2, array_tasks=TaskSet.parse("0-3"))
    store.commit(submitted(1, [holder, other]))
    task = holder._replace(submit_key="", array_tasks=None)
    ended = [
        end(start(task._replace(job_id=10, array_task_id=0)), 5),
        end(start(task._replace(job_id=11, array_task_id=1)), 6, JobState.FAILED, exit_code=255),
        end(start(task._replace(job_id=12, array_task_id=2)), 7, JobState.TIMEOUT, exit_code=0, exit_signal=9),
        end(start(task._replace(job_id=13, array_task_id=3)), 8, JobState.REQUEUED, exit_signal=15),
        start(task._replace(job_id=13, attempt=1, array_task_id=3)),
        end(task._replace(job_id=14, array_tasks=TaskSet.parse("20-49")), 9, JobState.CANCELLED),
        end(other._replace(submit_key=""), 9, JobState.CANCELLED),
    ]
    store.commit(make_batch(2, ended, next_id=15))
    loaded = store.load(NOW_US, 10, 0)
    assert [row.job_id for row in loaded.jobs] == [1, 13]
    assert loaded.arrays == [ArrayCounts(1, 1, 32, 0, 9)]
    store.close()


def test_submit_keys_by_age(any_store: str) -> None:
    store = leading(any_store)
    jobs = [make_job(i, submit_at_us=NOW_US + at) for i, at in ((1, 30), (2, 10), (3, 20))]
    store.commit(submitted(1, jobs))
    keys = [(jobs[i].user_id, jobs[i].submit_key, jobs[i].job_id, jobs[i].submit_at_us) for i in (1, 2, 0)]
    assert store.load(NOW_US + 100, 0, 90).submit_keys == keys
    assert store.load(NOW_US + 100, 0, 89).submit_keys == keys[1:]
    store.close()


def test_two_users_may_have_the_same_submit_key(any_store: str) -> None:
    store = leading(any_store)
    jobs = [make_job(i, submit_at_us=NOW_US + i)._replace(user_id=1000 + i, submit_key="k" * 32) for i in (1, 2)]
    store.commit(submitted(1, jobs))
    assert store.load(NOW_US + 100, 0, 200).submit_keys == [
        (1001, "k" * 32, 1, NOW_US + 1),
        (1002, "k" * 32, 2, NOW_US + 2),
    ]
    store.close()


def test_submit_keys_of_loaded_jobs_take_no_memory_of_their_own(any_store: str) -> None:
    store = leading(any_store)
    store.commit(submitted(1, [make_job(300 + i, submit_at_us=NOW_US + 95 + i) for i in range(3)]))
    loaded = store.load(NOW_US + 100, 0, 90)
    rows = {row.job_id: row for row in loaded.jobs}
    assert len(loaded.submit_keys) == 3
    for _, key, job_id, at_us in loaded.submit_keys:
        row = rows[job_id]
        assert key is row.submit_key and job_id is row.job_id and at_us is row.submit_at_us
    store.close()


def test_job_without_its_request_is_said(any_store: str) -> None:
    store = leading(any_store)
    store.commit(submitted(1, [make_job(1)]))
    change(any_store, "DELETE FROM job_request")
    with pytest.raises(StoreError, match="job 1: its request 1 is not in the database"):
        store.load(NOW_US, 0, 0)
    store.close()


def test_of_a_job_with_very_many_steps_the_live_and_the_newest_are_read(any_store: str) -> None:
    store = leading(any_store)
    job, other = (start(make_job(job_id)) for job_id in (1, 2))
    old = make_step(job)._replace(step_id=7, state=JobState.COMPLETED)
    count = 3 * ENDED_KEPT
    steps = [make_step(job), make_step(other), make_step(other)._replace(attempt=1)]
    steps += [old._replace(step_id=i, attempt=1) for i in range(2 * ENDED_KEPT)]
    steps += [old._replace(step_id=i) for i in range(count)]
    steps[-count + 5] = old._replace(step_id=5, state=JobState.RUNNING)
    store.commit(submitted(1, [job, other], steps=steps))
    loaded = store.load(NOW_US, NOW_US, NOW_US).steps
    assert [(s.job_id, s.attempt, s.step_id) for s in loaded] == [
        (2, 0, -5), (1, 0, -5), (1, 0, 5), *((1, 0, i) for i in range(count - ENDED_KEPT, count)),
    ]  # fmt: skip


def test_a_reader_of_rows_is_gone_after_its_use() -> None:
    """A start collects no cycles: its caches would stay, 1 MB and more with a long queue."""
    reader = JobReader()
    waiting, other = reader.read_waiting, reader.read
    kept = ref(reader)
    del waiting, other, reader
    assert kept() is None
