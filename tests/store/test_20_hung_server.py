"""A server that is stopped while its TCP connections live on is away, not slow (issue 14, 20). And damage has a name."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from patience import ANSWER_S, END_S
from postgres import Server

from accounting import serverwait
from ctld.dbtool.main import main
from ctld.store import committer, registry, watchdog
from ctld.store.committer import Store
from ctld.store.dialect import SQLITE, kind_of
from ctld.store.errors import StorageAway, StoreDamaged
from tests.store.making import NOW_US, all_jobs, leading, make_job, submitted


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that tests may stop."""
    with Server() as server:
        yield server


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    pids = server.pids()
    for pid in pids:
        with suppress(ProcessLookupError):  # a connection that has just ended
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # a connection that has just ended
                os.kill(pid, signal.SIGCONT)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "CHECK_S", 0.2)


def test_20_a_stopped_server_is_away_and_the_batch_is_in_once(own: Server) -> None:
    place = own.new_database(migrated=True) + "&connect_timeout=2"
    store = leading(place)
    store.commit(submitted(1, [make_job(1)]))
    with stopped(own):
        for _ in range(2):
            with pytest.raises(StorageAway):
                store.commit(submitted(2, [make_job(2)]))
        with pytest.raises(StorageAway):
            store.renew_lease(NOW_US)
    store.commit(submitted(2, [make_job(2)]))
    assert all_jobs(store) == [make_job(1), make_job(2)]
    assert [len(store.history(i)) for i in (1, 2)] == [1, 1]
    store.close()


def test_20_the_registry_of_a_stopped_server_is_away(own: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops beneath a registration, which waits for that of another controller."""
    monkeypatch.setattr(serverwait, "CHECK_S", 0.2)
    place = own.new_database()
    name = place.partition("@/")[2].partition("?")[0]
    row = registry.RegisteredCluster("east", "", "h", 1, "25.05.0", 1, "{}")
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
    with psycopg.connect(own.conninfo(name)) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT pg_advisory_lock(%s)", (registry.LOCK_KEY,))
        writing = pool.submit(registry.Registry(f"{place}&connect_timeout=2", True).write, row)
        deadline_s = time.monotonic() + ANSWER_S
        while own.execute(waiting, name) != [(1,)]:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        with stopped(own), pytest.raises(StorageAway, match="the server does not answer"):
            writing.result(END_S)


def test_20_a_slow_server_is_waited_for(own: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds the row of the leadership for longer than the first looks take: the server answers, so we wait."""
    place = own.new_database(migrated=True)
    looks: list[bool] = []

    class Noting(watchdog.Watchdog):
        def __init__(self, answers: Callable[[], bool]) -> None:
            super().__init__(lambda: looks.append(answers()) or looks[-1])

    monkeypatch.setattr(committer, "Watchdog", Noting)
    store = leading(place)
    assert store.watchdog is not None
    with store.engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is store.raw
    with store.watchdog.over(lambda: store.raw):
        store.raw.execute("SELECT pg_sleep(1)")
    store.raw.rollback()
    assert looks and all(looks)
    store.commit(submitted(1, [make_job(1)]))
    store.close()


def test_20_a_damaged_page_has_an_error_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "penstock.db"
    store = leading(place)
    store.commit(submitted(1, [make_job(i) for i in range(1, 200)]))
    store.close()
    with open(place, "r+b") as file:  # the header stays, everything behind it is gone
        file.seek(100)
        file.write(b"\xff" * (os.path.getsize(place) - 100))
    with pytest.raises(StoreDamaged, match=r"penstock db check"):
        again = Store.open(place, "me")
        again.acquire_lease(NOW_US)
        again.commit(submitted(1, [make_job(200)]))


def test_20_a_check_names_damage_that_it_cannot_read_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "penstock.db"
    leading(place).close()
    with open(place, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (os.path.getsize(place) - 100))
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nStateSaveLocation={tmp_path}\n"
        "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1 Default=YES\n"
    )
    assert main(["-f", str(conf), "check"]) == 1
    said = capsys.readouterr()
    assert f"database {place}: " in said.out and "restore a backup" in said.out
    assert "penstock db check" not in said.out and said.err == ""


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_VTAB, sqlite3.SQLITE_NOTADB])
def test_20_codes_of_damage(code: int) -> None:
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = code
    assert kind_of(SQLITE, error)[0] is StoreDamaged


def test_20_sqlstates_of_damage() -> None:
    from psycopg import errors

    from ctld.store.postgresql import DIALECT

    for kind in (errors.DataCorrupted, errors.IndexCorrupted):
        assert kind_of(DIALECT, kind("invalid page in block 7"))[0] is StoreDamaged


def test_20_the_watch_ends_with_its_store(own: Server) -> None:
    before = set(threading.enumerate())
    store = leading(own.new_database(migrated=True))
    store.commit(submitted(1, [make_job(1)]))
    (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "watchdog")
    store.close()
    thread.join(ANSWER_S)
    assert not thread.is_alive()
    assert time.monotonic()
