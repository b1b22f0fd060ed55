"""What only a server can do: be away, come back, sort otherwise, hold a lock. And where its URL may stand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import Server, change, rows

from accounting.database import DatabaseUrlError, database_url, shown
from accounting.filter import RecordFilter
from accounting.records import Records
from ctld.store.address import database_address
from ctld.store.committer import LEASE_US, Store
from ctld.store.dialect import dialect_of, write_engine
from ctld.store.errors import Deposed, StorageAway, StoreError
from ctld.store.statements import compile_statements
from penstock.errors import BadSetup
from tests.store.making import NOW_US, SPEC, all_jobs, leading, make_job, submitted

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that tests may stop."""
    with Server() as server:
        yield server


@pytest.fixture
def place(own: Server) -> str:
    return own.new_database(migrated=True)


# ---- many rows in one statement --------------------------------------------------------------------------------------


def test_rows_of_known_jobs_are_found_by_their_key_in_a_plan_made_while_the_table_is_empty(place: str) -> None:
    engine = write_engine(place)
    sql = compile_statements(engine, dialect_of(engine))
    with engine.connect() as connection:
        cursor = connection.connection.dbapi_connection.cursor()
        for statement, index in ((sql.update_jobs, "job_pkey"), (sql.delete_gpus, "gpu_pkey")):
            plan = [line for (line,) in cursor.execute(f"EXPLAIN {statement.text}", ("[]",)).fetchall()]
            assert any(f"Index Scan using {index}" in line for line in plan), plan
            assert not any("Seq Scan" in line or "Hash Join" in line for line in plan), plan
    engine.dispose()


def test_what_texts_and_bytes_a_row_may_have(place: str) -> None:
    store = leading(place)
    odd = 'tab\t "quote" \\N \\u0041 {} \u00e4\u4e2d\U0001f600\r\n'
    spec = SPEC._replace(script=bytes(range(256)), environment=(b"X=\xff",))
    store.commit(submitted(1, [make_job(1, admin_comment=odd, priority=2**62)], specs=[spec]))
    (found,) = all_jobs(store)
    assert (found.admin_comment, found.priority, store.spec(spec.spec_hash)) == (odd, 2**62, spec)
    store.close()


# ---- lost connections ------------------------------------------------------------------------------------------------


def cut(place: str) -> None:
    """End all connections to the database, as a firewall or an administrator would."""
    rows(place, f"SELECT pg_terminate_backend(pid) {OTHERS}")


def test_a_connection_that_was_cut_between_commits_is_not_noticed(place: str) -> None:
    store = leading(place)
    store.commit(submitted(1, [make_job(1)]))
    assert len(store.history(1)) == 1
    cut(place)
    store.commit(submitted(2, [make_job(2)]))
    cut(place)
    assert len(store.history(2)) == 1
    store.close()


def test_an_immediate_restart_of_the_server(own: Server, place: str) -> None:
    store = leading(place)
    with Records(place) as reader:
        for number in range(1, 10):
            store.commit(submitted(number, [make_job(number)]))
            if number % 3 == 0:
                assert len(list(reader.list(RecordFilter()))) == number
                own.restart("immediate")
        store.renew_lease(NOW_US)
        assert [r.job_id for r in reader.list(RecordFilter())] == list(range(1, 10))
    assert [job.job_id for job in all_jobs(store)] == list(range(1, 10))
    store.close()


def test_a_server_that_is_gone_and_comes_back(own: Server, place: str) -> None:
    store = leading(place)
    store.commit(submitted(1, [make_job(1)]))
    own.stop()
    try:
        for _ in range(2):
            with pytest.raises(StorageAway, match="database postgresql://"):
                store.commit(submitted(2, [make_job(2)]))
        for act in (lambda: store.renew_lease(NOW_US), lambda: store.history(1), lambda: Store.open(place, "other")):
            with pytest.raises(StorageAway):
                act()
    finally:
        own.start()
    store.commit(submitted(2, [make_job(2)]))
    store.renew_lease(NOW_US)
    assert all_jobs(store) == [make_job(1), make_job(2)]
    own.stop()
    try:
        store.close()  # the lease ends by itself
    finally:
        own.start()


class Wire:
    """The driver's connection, with a break at COMMIT: before it has reached the server, or after."""

    def __init__(self, raw: Any, before: bool) -> None:
        self.raw, self.before = raw, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def commit(self) -> None:
        if not self.before:
            self.raw.commit()
        self.raw.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.mark.parametrize("before", [True, False])
def test_a_lost_answer_to_commit(place: str, before: bool) -> None:
    store = leading(place)
    store.raw = Wire(store.raw, before)
    store.commit(submitted(1, [make_job(1)]))
    store.commit(submitted(2, [make_job(2)]))
    assert all_jobs(store) == [make_job(1), make_job(2)]
    assert [len(store.history(i)) for i in (1, 2)] == [1, 1]
    store.close()


def test_a_lost_answer_after_the_server_was_away_for_longer(own: Server, place: str) -> None:
    """The batch is in, the server gone, and the controller asks again and again until it hears so."""
    store = leading(place)
    raw = store.raw
    store.raw = Wire(raw, before=False)
    commit = raw.commit

    def commit_and_stop() -> None:
        commit()
        own.stop("immediate")
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    store.raw.commit = commit_and_stop
    batch = submitted(1, [make_job(1)])
    try:
        for _ in range(3):
            with pytest.raises(StorageAway):
                store.commit(batch)
    finally:
        own.start()
    store.commit(batch)
    assert [len(store.history(1)), len(all_jobs(store))] == [1, 1]
    store.close()


def test_who_was_replaced_while_the_server_was_away_learns_it(own: Server, place: str) -> None:
    first = leading(place, "first")
    own.restart("immediate")
    second = leading(place, "second", NOW_US + LEASE_US)
    with pytest.raises(Deposed):
        first.commit(submitted(1, [make_job(1)]))
    second.commit(submitted(1, [make_job(2)]))
    assert all_jobs(second) == [make_job(2)]
    first.close()
    second.close()


def test_a_commit_still_under_way_is_waited_for(place: str) -> None:
    """The connection was lost, the server has not noticed yet and holds the row: the batch's fate is not guessed."""
    store = leading(place)
    with psycopg.connect(conninfo(place)) as hanging:
        hanging.execute("UPDATE meta SET sequence = 1")
        # private: only the network can lose a connection that the server still has, and these go through a Unix socket
        store._lose()
        change(place, "ALTER ROLE penstock SET lock_timeout = 0")
        from ctld.store import postgresql

        settings, postgresql.SETTINGS["lock_timeout"] = dict(postgresql.SETTINGS), "50"
        try:
            store.engine.dispose()
            impatient = Store(place, "first", postgresql.write_engine(database_url(place)))
            impatient._epoch = store.epoch  # private: another process of the same leadership
            impatient._lose()  # private: as above
            with pytest.raises(StorageAway, match="lock timeout"):
                impatient.commit(submitted(1, [make_job(1)]))
        finally:
            postgresql.SETTINGS.update(settings)
        hanging.commit()
    impatient.commit(submitted(1, [make_job(1)]))  # it was in, after all
    assert rows(place, "SELECT count(*) FROM job") == [(0,)]
    impatient.close()
    store.close()


def conninfo(place: str) -> str:
    return database_url(place).set(drivername="postgresql").render_as_string(hide_password=False)


def test_an_acknowledged_commit_is_on_the_disk_whatever_the_server_says(own: Server) -> None:
    place = own.new_database(migrated=True)
    name = database_url(place).database
    own.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = leading(place)
    assert store.raw.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert store.raw.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("10s",)
    store.close()


# ---- databases that are not taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", ["LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'", "ENCODING 'SQL_ASCII' LOCALE 'C'"]
)
def test_a_database_that_sorts_or_writes_otherwise_is_refused_empty(own: Server, options: str) -> None:
    try:
        place = own.new_database(options=options)
    except psycopg.errors.WrongObjectType:
        pytest.skip("machine lacks the locale")
    with pytest.raises(StoreError, match="must be in UTF-8 and sort by code points; make it so: CREATE DATABASE"):
        Store.open(place, "me")
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert own.execute(count, database_url(place).database or "") == [(0,)]


def test_two_that_start_at_once_on_an_empty_database(own: Server) -> None:
    import threading

    place = own.new_database()
    failed: list[BaseException] = []

    def start() -> None:
        try:
            Store.open(place, "me").close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# ---- URLs and passwords ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://root:secret@host/x", "only SQLite and PostgreSQL"),
        ("postgresql://root:secret@host", "has no name"),
        ("postgresql://root:secret@host:port/x", "not a URL"),
    ],
)
def test_urls_that_are_none(text: str, words: str) -> None:
    with pytest.raises(DatabaseUrlError, match=words) as refused:
        database_url(text)
    assert "secret" not in str(refused.value)


def test_a_password_is_never_in_a_message() -> None:
    for url in ("postgresql://a:secret@/x?host=/nowhere", "postgresql://a@/x?host=/nowhere&password=secret"):
        assert "secret" not in shown(url) and "/x" in shown(url)
        with pytest.raises(StorageAway) as away:
            Store.open(url, "me")
        assert "secret" not in str(away.value) and "nowhere" in str(away.value)


def test_where_a_password_may_stand(tmp_path: Path) -> None:
    conf, default = tmp_path / "slurm.conf", tmp_path / "penstock.db"
    conf.write_text("")
    conf.chmod(0o644)
    url = "postgresql://a:secret@host/x"
    assert database_address("", conf, default) == str(default)
    assert database_address("sqlite:////x/y.db", conf, default) == "/x/y.db"
    assert database_address("postgresql://a@host/x", conf, default, {}) == "postgresql://a@host/x"
    for text in (url, "postgresql://a@host/x?password=secret"):
        with pytest.raises(BadSetup, match=r"slurm\.conf: .*all users can read the file \(mode 0644\)") as refused:
            database_address(text, conf, default)
        assert refused.value.exit_status == 78 and "secret" not in str(refused.value)
    conf.chmod(0o640)
    assert database_address(url, conf, default) == url

    file = tmp_path / "database.url"
    file.write_text(f"# of the cluster\n{url}\n")
    file.chmod(0o600)
    assert database_address(f"file:{file}", conf, default) == url
    file.chmod(0o604)
    with pytest.raises(BadSetup, match=r"database\.url: file of the database's URL is accessible by others"):
        database_address(f"file:{file}", conf, default)
    with pytest.raises(BadSetup, match="write the whole path"):
        database_address("file:database.url", conf, default)

    passwords = tmp_path / "pgpass"
    passwords.write_text("host:5432:x:a:secret\n")
    passwords.chmod(0o644)
    for text, environment in (
        (f"postgresql://a@host/x?passfile={passwords}", {}),
        ("postgresql://a@host/x", {"PGPASSFILE": str(passwords)}),
    ):
        with pytest.raises(BadSetup, match="pgpass: file of passwords is accessible by others"):
            database_address(text, conf, default, environment)
