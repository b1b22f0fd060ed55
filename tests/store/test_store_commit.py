"""Commits: whole or not at all, in order, by the leader only."""

import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from postgres import change, dump, rows

from ctld.core.records.effects import Batch, Done, Reply
from ctld.core.records.job import HistoryRow
from ctld.core.records.node import NodeRow, PartitionRow
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.request import JobRequest
from ctld.core.records.revocation import TokenRevocation
from ctld.store.committer import LEASE_US, Store
from ctld.store.errors import Deposed, LeaseHeld, StorageFull, StoreError
from penstock.values.states import JobState, NodeFlag
from tests.store.making import (
    NOW_US,
    SPEC,
    all_jobs,
    end,
    leading,
    make_batch,
    make_job,
    make_step,
    start,
    submitted,
)


@pytest.fixture
def place(any_store: str) -> str:
    return any_store


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Path:
    return tmp_path / "penstock.db"


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_life_of_a_job(place: str) -> None:
    store = leading(place)
    job = make_job(1)
    store.commit(submitted(1, [job]))
    assert store.load(NOW_US, 0, 600 * 10**6).submit_keys == [(job.user_id, job.submit_key, 1, NOW_US)]
    running = start(job)
    store.commit(make_batch(2, [running], next_id=2, steps=[make_step(running)]))
    loaded = store.load(NOW_US, 0, 0)
    assert (loaded.jobs, loaded.steps) == ([running], [make_step(running)])
    done = end(running)
    step = make_step(running, state=JobState.COMPLETED, end_at_us=done.end_at_us)
    store.commit(make_batch(3, [done], next_id=2, steps=[step], history=[HistoryRow(done.end_at_us, 1, 0, "end", "")]))
    assert all_jobs(store) == [done]
    assert store.load(done.end_at_us + 1, 0, 0).jobs == []
    assert [line.event for line in store.history(1)] == ["submit", "end"]
    assert store.spec(SPEC.spec_hash) == SPEC
    store.close()
    again = leading(place)
    assert all_jobs(again) == [done]
    assert again.load(NOW_US, NOW_US, 0).steps == [step]
    again.close()


def test_counters_and_epoch_survive(place: str) -> None:
    store = leading(place)
    assert store.epoch == 1
    store.commit(submitted(1, [make_job(7)], next_id=20))
    store.close()
    store = leading(place)
    loaded = store.load(NOW_US, 0, 0)
    assert (loaded.epoch, loaded.next_job_id, loaded.next_request_id) == (2, 20, 20)
    assert loaded.jobs == [make_job(7)]
    store.close()


def test_numbers_rise_and_may_leave_out_batches_without_rows(place: str) -> None:
    store = leading(place)
    before = dump(place)
    store.commit(make_batch(1, effects=[Reply(1, Done())], purged=[4]))
    assert dump(place) == before
    store.commit(submitted(5, [make_job(1)]))
    for stale in (4, 5):
        with pytest.raises(ValueError, match=f"batch {stale} after 5"):
            store.commit(submitted(stale, [make_job(2)]))
    assert all_jobs(store) == [make_job(1)]
    store.close()


def test_without_lease_nothing_is_written(place: str) -> None:
    store = Store.open(place, "me")
    with pytest.raises(ValueError, match="leadership 0"):
        store.commit(submitted(1, [make_job(1)]))
    store.close()


def test_requeue_keeps_both_attempts_and_loads_the_last(place: str) -> None:
    store = leading(place)
    job = make_job(1)
    running = start(job)
    store.commit(submitted(1, [job]))
    store.commit(make_batch(2, [running], next_id=2, steps=[make_step(running)]))
    ended = end(running, state=JobState.REQUEUED)
    second = job._replace(attempt=1, eligible_at_us=NOW_US + 5)
    store.commit(make_batch(3, [ended, second], next_id=2))
    assert all_jobs(store) == [second]
    again = start(second)
    store.commit(make_batch(4, [again], next_id=2, steps=[make_step(again)]))
    loaded = store.load(NOW_US, NOW_US, NOW_US)
    assert (loaded.jobs, loaded.steps) == ([again], [make_step(again)])
    found = rows(place, "SELECT attempt, state FROM job ORDER BY attempt")
    assert found == [(0, JobState.REQUEUED), (1, JobState.RUNNING)]
    store.close()


def test_changed_request_replaces_what_came_from_it(place: str) -> None:
    store = leading(place)
    job = make_job(1)
    store.commit(submitted(1, [job]))
    request = JobRequest(name="renamed", account="physics", ntasks=4)
    lost = JobRequest(name="lost")
    changed = job._replace(request=request, request_id=3, tres_req="cpu=4")
    batch = make_batch(2, [changed], requests=[(2, lost), (3, request)])
    batch.next_request_id = 4
    store.commit(batch)
    loaded = store.load(NOW_US, 0, NOW_US)
    assert loaded.jobs == [changed]
    assert loaded.submit_keys == [(job.user_id, job.submit_key, 1, NOW_US)]
    assert rows(place, "SELECT name, account, cpus_req FROM job") == [("renamed", "physics", 4)]
    assert rows(place, "SELECT request_id FROM job_request ORDER BY 1") == [(1,), (3,)]
    store.close()


def test_array_tasks_share_one_request_and_have_no_key(place: str) -> None:
    store = leading(place)
    holder = make_job(1, array_job_id=1)
    store.commit(submitted(1, [holder]))
    tasks = [start(holder._replace(job_id=i, array_task_id=i, submit_key="")) for i in (2, 3)]
    store.commit(make_batch(2, [holder, *tasks]))
    loaded = store.load(NOW_US, 0, NOW_US)
    assert loaded.jobs == [holder, *tasks]
    assert loaded.submit_keys == [(holder.user_id, holder.submit_key, 1, NOW_US)]
    assert rows(place, "SELECT count(*) FROM job_request") == [(1,)]
    store.close()


def test_row_that_should_be_there_but_is_not_ends_it(place: str) -> None:
    store = leading(place)
    store.commit(submitted(1, [make_job(1)], next_id=9))
    before = dump(place)
    with pytest.raises(StoreError, match="1 rows of known jobs are not in the database"):
        store.commit(make_batch(2, [make_job(1, priority=0), make_job(5, request_id=1)], next_id=9))
    assert dump(place) == before
    store.commit(make_batch(2, [make_job(1, priority=0)], next_id=9))
    assert all_jobs(store) == [make_job(1, priority=0)]
    store.close()


def test_batch_that_cannot_be_written_leaves_nothing(place: str) -> None:
    store = leading(place)
    before = dump(place)
    with pytest.raises((OverflowError, StoreError)):
        store.commit(submitted(1, [make_job(1), make_job(2, priority=2**70)]))
    assert dump(place) == before
    store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == [make_job(1)]
    store.close()


def test_all_tables_in_one_batch(place: str) -> None:
    store = leading(place)
    node = NodeRow("n1", NodeFlag.DRAIN | NodeFlag.DOWN, "bad disk", 0, NOW_US, "", "b", "s", "1", 0)
    store.commit(submitted(1, [make_job(1)], nodes=[node], partitions=[PartitionRow("debug", "DRAIN")]))
    loaded = store.load(NOW_US, 0, 0)
    assert (loaded.nodes, loaded.partitions) == ([node], [PartitionRow("debug", "DRAIN")])
    store.close()


def test_of_rows_that_come_twice_the_last_one_counts(place: str) -> None:
    store = leading(place)
    rows = [PartitionRow("debug", "DRAIN"), PartitionRow("long", "UP"), PartitionRow("debug", "DOWN")]
    store.commit(submitted(1, [make_job(1)], specs=[SPEC, SPEC], partitions=rows))
    store.commit(make_batch(2, [make_job(1, priority=5), make_job(1, priority=7)], next_id=2))
    assert store.load(NOW_US, 0, 0).partitions == [PartitionRow("debug", "DOWN"), PartitionRow("long", "UP")]
    assert [job.priority for job in all_jobs(store)] == [7]
    store.close()


def test_commit_in_another_thread_and_reading_beside_it(place: str) -> None:
    store = leading(place)
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1, 60):
                store.commit(submitted(number, [make_job(number)]))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        story = store.history(1)
        assert len(story) <= 1
        assert store.spec(SPEC.spec_hash) == (SPEC if story else None) or not story
    thread.join()
    assert failed == []
    assert [row.job_id for row in all_jobs(store)] == list(range(1, 60))
    store.close()


def test_memory_for_simulations() -> None:
    store = Store.open(":memory:", "sim")
    store.acquire_lease(NOW_US)
    store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == [make_job(1)]
    assert store.spec(SPEC.spec_hash) == SPEC
    assert len(store.history(1)) == 1
    store.close()


# ---- leadership ------------------------------------------------------------------------------------------------------


def test_second_store_is_refused_until_the_lease_ends(place: str) -> None:
    first, second = leading(place, "first"), Store.open(place, "second")
    first.commit(submitted(1, [make_job(1)]))
    with pytest.raises(LeaseHeld, match="another controller leads on this database: first") as held:
        second.acquire_lease(NOW_US + LEASE_US - 1)
    assert (held.value.holder, held.value.expires_at_us) == ("first", NOW_US + LEASE_US)
    assert second.epoch == 0
    first.commit(submitted(2, [make_job(2)]))  # a refused rival changes nothing
    first.renew_lease(NOW_US + LEASE_US)
    with pytest.raises(LeaseHeld):
        second.acquire_lease(NOW_US + 2 * LEASE_US - 1)
    assert second.acquire_lease(NOW_US + 2 * LEASE_US) == 2
    for act in (
        lambda: first.commit(submitted(3, [make_job(3)])),
        lambda: first.renew_lease(NOW_US + 3 * LEASE_US),
    ):
        with pytest.raises(Deposed, match="leadership was number 1"):
            act()
    assert [row.job_id for row in all_jobs(second)] == [1, 2]
    second.commit(submitted(1, [make_job(3)]))
    first.close()
    second.commit(submitted(2, [make_job(4)]))  # the deposed one's farewell gave nothing away
    with pytest.raises(LeaseHeld, match="second"):
        Store.open(place, "third").acquire_lease(NOW_US + 2 * LEASE_US)
    second.close()


def test_same_holder_takes_over_its_own_lease(place: str) -> None:
    crashed = leading(place, "host1")
    crashed.commit(submitted(1, [make_job(1)]))
    again = leading(place, "host1")
    assert again.epoch == 2
    with pytest.raises(Deposed):
        crashed.commit(submitted(2, [make_job(2)]))
    assert all_jobs(again) == [make_job(1)]
    crashed.close()
    again.close()


def test_clean_stop_gives_the_lease_back(place: str) -> None:
    store = leading(place, "first")
    store.close()
    store.close()
    other = Store.open(place, "second")
    assert other.acquire_lease(NOW_US) == 2
    other.close()


def test_sequence_is_part_of_the_fence(place: str) -> None:
    store = leading(place)
    store.commit(submitted(1, [make_job(1)]))
    change(place, "UPDATE meta SET sequence = 7")
    with pytest.raises(Deposed):
        store.commit(submitted(2, [make_job(2)]))
    assert all_jobs(store) == [make_job(1)]
    store.close()


# ---- lost answers and full disks -------------------------------------------------------------------------------------


def lost(raw: Any) -> Exception:
    """An error of the driver that says nothing of what the server did."""
    if isinstance(raw, sqlite3.Connection):
        return sqlite3.OperationalError("the answer was lost")
    import psycopg

    return psycopg.errors.InternalError_("the answer was lost")


class Wire:
    """The driver's connection, with a fault at COMMIT. `before`: the fault comes before the commit, so it is not in."""

    def __init__(self, raw: Any, before: bool, code: int = 0) -> None:
        self.raw, self.before, self.code, self.faults = raw, before, code, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def commit(self) -> None:
        if self.faults:
            self.raw.commit()
            return
        self.faults += 1
        if not self.before:
            self.raw.commit()
        error: Any = lost(self.raw)
        if self.code:
            error.sqlite_errorcode = self.code
        raise error


def test_lost_answer_of_a_commit_that_is_in(place: str) -> None:
    store = leading(place)
    store.raw = Wire(store.raw, before=False)
    store.commit(submitted(1, [make_job(1)]))
    store.commit(submitted(2, [make_job(2)]))
    assert store.raw.faults == 1
    assert all_jobs(store) == [make_job(1), make_job(2)]
    store.close()


def test_lost_answer_of_a_commit_that_is_not_in(place: str) -> None:
    store = leading(place)
    store.raw = Wire(store.raw, before=True)
    with pytest.raises(StoreError, match="the answer was lost"):
        store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == []
    store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == [make_job(1)]
    store.close()


def test_lost_answer_after_another_took_over(place: str) -> None:
    store = leading(place)
    store.raw = Wire(store.raw, before=False)
    real_commit = store.raw.raw.commit

    def commit_and_lose() -> None:
        real_commit()
        Store.open(place, "second").acquire_lease(NOW_US + LEASE_US)
        raise lost(store.raw.raw)

    store.raw.commit = commit_and_lose
    with pytest.raises(Deposed):
        store.commit(submitted(1, [make_job(1)]))
    store.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE])
def test_full_disk_at_commit(sqlite_place: Path, code: int) -> None:
    store = leading(sqlite_place)
    store.raw = Wire(store.raw, before=True, code=code)
    with pytest.raises(StorageFull):
        store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == []
    store.commit(submitted(1, [make_job(1)]))
    assert all_jobs(store) == [make_job(1)]
    store.close()


def test_database_that_may_not_grow(sqlite_place: Path) -> None:
    """The database's own limit of pages stands in for a full disk."""
    store = leading(sqlite_place)
    store.commit(submitted(1, [make_job(1)]))
    pages = store.raw.execute("PRAGMA page_count").fetchone()[0]
    store.raw.execute(f"PRAGMA max_page_count = {pages}")
    many = [make_job(i, admin_comment="x" * 3000) for i in range(2, 50)]
    for _ in range(3):
        with pytest.raises(StorageFull, match="full"):
            store.commit(submitted(2, many))
        assert all_jobs(store) == [make_job(1)]
    store.raw.execute("PRAGMA max_page_count = 1000000")
    store.commit(submitted(2, many))
    assert [row.job_id for row in all_jobs(store)] == list(range(1, 50))
    store.close()


def fits(store: Store, batch: Batch) -> bool:
    try:
        store.commit(batch)
    except StorageFull:
        return False
    return True


@pytest.mark.root
def test_full_file_system(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True)
    if done.returncode:
        pytest.skip("machine lacks the right to mount a tmpfs")
    try:
        store = leading(mount / "penstock.db")
        batches = (submitted(i, [make_job(i, admin_comment="x" * 5000)]) for i in range(1, 1000))
        batch = next(batch for batch in batches if not fits(store, batch))
        number = batch.sequence
        assert number > 1
        assert not fits(store, batch)
        assert [row.job_id for row in store.load(NOW_US, 0, 0).jobs] == list(range(1, number))
        subprocess.run(["mount", "-o", "remount,size=8m", str(mount)], check=True)
        store.commit(submitted(number, [make_job(number)]))
        store.close()
        again = leading(mount / "penstock.db")
        assert [row.job_id for row in all_jobs(again)] == list(range(1, number + 1))
        again.close()
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_revocations_of_tokens_are_kept(place: str) -> None:
    """As the only change of a batch, and replaced by the next one of the same user."""
    store = leading(place)
    store.commit(submitted(1, [], token_revocations=[TokenRevocation("ann", 5), TokenRevocation("", 6)]))
    store.commit(submitted(2, [], token_revocations=[TokenRevocation("ann", 9)]))
    assert store.load(NOW_US, 0, 0).token_revocations == (TokenRevocation("", 6), TokenRevocation("ann", 9))
    store.close()


def test_personal_tokens_are_kept_replaced_and_deleted(place: str) -> None:
    """As the only change of a batch each."""
    ci, laptop = PersonalToken("a", "ann", "ci", 1, 5, 9), PersonalToken("b", "ann", "laptop", 3, 6, 9)
    store = leading(place)
    store.commit(submitted(1, [], personal_tokens=[laptop, ci]))
    assert store.load(NOW_US, 0, 0).personal_tokens == (ci, laptop)
    used = ci._replace(used_at_us=7, used_from="10.0.0.1")
    store.commit(submitted(2, [], personal_tokens=[used]))
    store.commit(submitted(3, [], personal_tokens_gone=["b"]))
    assert store.load(NOW_US, 0, 0).personal_tokens == (used,)
    store.close()
