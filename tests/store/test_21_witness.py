"""The witness outside of the database: what it notices, what it lets pass, that no number comes twice (issue 14, 21)."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from postgres import change

from ctld.core.records.gap import CLOSED, OpenGap
from ctld.dbtool.backup import backup
from ctld.dbtool.move import move
from ctld.store.committer import LEASE_US, Store
from ctld.store.errors import StoreError, StoreOlder
from ctld.store.loss import NOTHING, Accept
from ctld.store.witness import Mark, Witness
from penstock.crash import EXIT_STATUS
from tests.store.making import NOW_US, all_jobs, make_job, submitted

ACCEPTED = Accept(is_accepted=True)


def leading(place: str | Path, witness: Path, accept: Accept = NOTHING, now_us: int = NOW_US) -> Store:
    store = Store.open(place, "me", Witness(witness))
    try:
        store.acquire_lease(now_us, accept)
    except StoreOlder:
        store.close()
        raise
    return store


def fill(store: Store, first: int, last: int) -> None:
    for sequence, job_id in enumerate(range(first, last + 1), store.sequence + 1):
        store.commit(submitted(sequence, [make_job(job_id)]))


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


def test_21_restarts_are_not_losses(any_store: str, witness: Path) -> None:
    for life in range(3):
        store = leading(any_store, witness)
        assert store.epoch == life + 1
        fill(store, 1 + 3 * life, 3 + 3 * life)
        store.close()
    assert Witness(witness).found.next_job_id == 10


def test_21_an_older_copy_is_refused_with_both_numbers(tmp_path: Path, witness: Path) -> None:
    place, copy = tmp_path / "penstock.db", tmp_path / "backup.db"
    store = leading(place, witness)
    fill(store, 1, 3)
    backup(str(place), copy)
    fill(store, 4, 9)
    store.close()
    for name in ("penstock.db", "penstock.db-wal", "penstock.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(copy, place)
    for _ in range(2):  # asking does not change the answer
        with pytest.raises(StoreOlder, match=r"older.*epoch 1, batch 3, next job 4;.*epoch 1, batch 9, next job 10"):
            leading(place, witness, now_us=NOW_US + 2 * LEASE_US)
    store = leading(place, witness, ACCEPTED, NOW_US + 2 * LEASE_US)
    loaded = store.load(NOW_US, 0, 0)
    assert (store.epoch, loaded.next_job_id) == (2, 10)
    store.close()
    store = leading(place, witness, now_us=NOW_US + 4 * LEASE_US)  # once is enough
    assert store.epoch == 3 and len(all_jobs(store)) == 3
    store.close()


def test_21_an_accepted_loss_is_kept_until_all_nodes_are_here(any_store: str, witness: Path) -> None:
    """The process that has accepted it may end before they are."""
    leading(any_store, witness).close()
    store = leading(any_store, witness, ACCEPTED)
    fill(store, 1, 3)
    store.close()
    for accept in (NOTHING, ACCEPTED):
        store = leading(any_store, witness, accept)
        assert store.load(NOW_US, 0, 0).gap == OpenGap(2, 1)
        if accept is not NOTHING:
            batch = submitted(store.sequence + 1, [])
            batch.counters = list(CLOSED._asdict().items())
            store.commit(batch)
        store.close()
    store = leading(any_store, witness)
    assert store.load(NOW_US, 0, 0).gap == CLOSED
    store.close()


def test_21_the_log_of_the_database_before_is_not_applied_to_a_backup(tmp_path: Path, witness: Path) -> None:
    """SQLite would apply it, and bring back or mix what came after the backup."""
    state, copy = tmp_path / "state", tmp_path / "backup.db"
    state.mkdir()
    place, log = state / "penstock.db", state / "penstock.db-wal"
    store = leading(place, witness)
    fill(store, 1, 3)
    backup(str(place), copy)
    fill(store, 4, 9)
    left = log.read_bytes()  # as after kill -9
    store.close()
    shutil.copy(copy, place)
    log.write_bytes(left)
    for accept in (NOTHING, ACCEPTED):
        with pytest.raises(
            StoreError, match=r"it is a backup, and .*penstock\.db-wal belongs to the database that was"
        ):
            leading(place, witness, accept, NOW_US + 2 * LEASE_US)
        assert log.read_bytes() == left and place.read_bytes() == copy.read_bytes()
    log.unlink()
    store = leading(place, witness, ACCEPTED, NOW_US + 2 * LEASE_US)
    assert len(all_jobs(store)) == 3
    fill(store, 10, 12)
    assert log.stat().st_size  # its own
    shutil.copytree(state, tmp_path / "crashed")
    store.close()
    store = leading(tmp_path / "crashed" / "penstock.db", tmp_path / "new", now_us=NOW_US + 4 * LEASE_US)
    assert len(all_jobs(store)) == 6
    store.close()


def test_21_a_restored_server_is_older_too(postgresql, witness: Path) -> None:
    place = postgresql.new_database(migrated=True)
    store = leading(place, witness)
    fill(store, 1, 5)
    store.close()
    change(place, "UPDATE meta SET sequence = 2, next_job_id = 3")  # as pg_restore would leave it
    with pytest.raises(StoreOlder):
        leading(place, witness)
    store = leading(place, witness, Accept(True, epoch_above=40, job_id_above=1000))
    assert (store.epoch, store.load(NOW_US, 0, 0).next_job_id) == (41, 1001)
    store.close()


def test_21_a_log_that_was_cut_short_is_noticed(tmp_path: Path, witness: Path) -> None:
    """The loss that nobody saw: SQLite takes what is whole of the log, and goes on from there."""
    state, lost = tmp_path / "state", tmp_path / "lost"
    state.mkdir()
    store = leading(state / "penstock.db", witness)
    fill(store, 1, 5)
    size = (state / "penstock.db-wal").stat().st_size
    fill(store, 6, 20)
    shutil.copytree(state, lost)  # as after kill -9: the log has not been copied back
    shutil.copy(witness, lost / "witness")
    store.close()
    os.truncate(lost / "penstock.db-wal", size)
    (lost / "penstock.db-shm").unlink()
    with sqlite3.connect(lost / "penstock.db") as connection:
        assert connection.execute("SELECT max(job_id) FROM job").fetchone() == (5,)
    with pytest.raises(StoreOlder, match=r"next job 6;.*next job 21"):
        leading(lost / "penstock.db", lost / "witness", now_us=NOW_US + 2 * LEASE_US)
    store = leading(lost / "penstock.db", lost / "witness", ACCEPTED, NOW_US + 2 * LEASE_US)
    assert store.load(NOW_US, 0, 0).next_job_id == 21  # ids are not used again
    store.close()


@pytest.mark.parametrize("point", ["commit:before", "commit:begun", "commit:before-commit", "commit:after"])
def test_21_a_death_at_each_point_of_a_commit_is_no_loss(tmp_path: Path, witness: Path, point: str) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.store.test_21_witness import leading, fill\n"
        "store = leading(sys.argv[1], Path(sys.argv[2]), now_us=int(sys.argv[3])); fill(store, 1, 9)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "penstock.db"), str(witness), str(NOW_US)]
    environment = {**os.environ, "PENSTOCK_CRASH_AT": f"{point}@4", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, check=False)
    assert done.returncode == EXIT_STATUS
    store = leading(tmp_path / "penstock.db", witness, now_us=NOW_US + 2 * LEASE_US)
    there = len(all_jobs(store))
    assert there == (4 if point == "commit:after" else 3)
    # The witness has heard of the batch that did not come, unless it was too early even for that.
    assert store.load(NOW_US, 0, 0).next_job_id == (4 if point == "commit:before" else 5)
    store.close()


def test_21_a_move_takes_it_along(tmp_path: Path, witness: Path) -> None:
    old, new = tmp_path / "penstock.db", tmp_path / "new.db"
    store = leading(old, witness)
    fill(store, 1, 3)
    store.close()
    list(move(str(old), str(new), NOW_US))
    store = leading(new, witness)
    assert store.epoch == 2
    store.close()


def test_21_another_database_is_not_the_one_that_was_acknowledged(tmp_path: Path, witness: Path) -> None:
    store = leading(tmp_path / "one.db", witness)
    fill(store, 1, 3)
    store.close()
    with pytest.raises(StoreOlder, match="another one"):
        leading(tmp_path / "two.db", witness, now_us=NOW_US + 5)
    store = leading(tmp_path / "two.db", witness, ACCEPTED, now_us=NOW_US + 5)
    assert (store.epoch, store.load(NOW_US, 0, 0).next_job_id) == (2, 4)
    store.close()


def test_21_a_torn_record_leaves_the_other_one(witness: Path) -> None:
    one = Witness(witness)
    marks = [Mark(7, 1, number, 1, 10 + number, 1) for number in range(1, 6)]
    for mark in marks:
        one.begin(mark)
        one.end(mark)
    one.close()
    assert Witness(witness).found == marks[-1]
    data = bytearray(witness.read_bytes())
    newest = max((0, 4096), key=lambda at: int.from_bytes(data[at + 8 : at + 16], "little"))
    data[newest + 20] ^= 1
    witness.write_bytes(data)
    assert Witness(witness).found == marks[-1]  # the record before it says the same here
    data[4096 - newest + 20] ^= 1
    witness.write_bytes(data)
    damaged = Witness(witness)
    assert damaged.found is None and damaged.is_damaged
    damaged.begin(marks[0])
    damaged.close()
    assert Witness(witness).found == marks[0]


def test_21_a_file_without_a_record_yet_is_not_damaged(witness: Path) -> None:
    assert not Witness(witness).is_damaged
    assert not Witness(witness).is_damaged  # pages of zeros: a process ended before its first batch


@pytest.mark.parametrize("instead", ["nothing", "an older one", "a link"])
def test_21_a_witness_that_is_removed_meanwhile_is_written_again(
    tmp_path: Path, witness: Path, caplog, instead: str
) -> None:
    """Else the next start would find none, or one that vouches for an older database."""
    store = leading(tmp_path / "penstock.db", witness)
    fill(store, 1, 2)
    older = witness.read_bytes()
    fill(store, 3, 5)
    witness.unlink()
    if instead == "an older one":
        witness.write_bytes(older)
    elif instead == "a link":
        witness.symlink_to(tmp_path / "elsewhere")
    store.renew_lease(NOW_US + 1)
    fill(store, 6, 7)
    found = Witness(witness).found
    assert found is not None and found.next_job_id == 8
    store.renew_lease(NOW_US + 2)
    witness.unlink()
    store.close()  # at the end, too
    assert sum("was removed or replaced" in record.message for record in caplog.records) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if "witness" in path.name) == ["witness"]


def test_21_a_witness_whose_folder_is_gone_is_reported_once(tmp_path: Path, caplog) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    store = leading(tmp_path / "penstock.db", folder / "witness")
    shutil.rmtree(folder)
    for number in range(1, 4):
        store.renew_lease(NOW_US + number)
        fill(store, number, number)
    assert len(all_jobs(store)) == 3
    assert sum("cannot be written" in record.message for record in caplog.records) == 1
    folder.mkdir()  # and when it is back, so is the file
    store.renew_lease(NOW_US + 9)
    store.close()
    found = Witness(folder / "witness").found
    assert found is not None and found.next_job_id == 4


def test_21_a_witness_that_cannot_be_written_stops_nothing(
    tmp_path: Path, witness: Path, caplog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = leading(tmp_path / "penstock.db", witness)
    assert store.witness is not None
    monkeypatch.setattr(os, "pwrite", full)
    fill(store, 1, 5)
    assert len(all_jobs(store)) == 5
    assert sum("cannot be written" in record.message for record in caplog.records) == 1
    store.close()
