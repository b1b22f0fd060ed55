"""A private PostgreSQL server for tests, and the fixture that runs a test on both database systems.

    def test_it(any_database: str) -> None:        # runs twice: with an SQLite file, with a new PostgreSQL database
        store = Store.open(any_database, "me")
        assert rows(any_database, "SELECT count(*) FROM job") == [(0,)]

    def test_restart(postgresql: Server) -> None:  # the session's server itself: shared, so do not stop it
        place = postgresql.new_database()

    with Server() as server: ...                   # one for a test that stops and starts it

`any_database` is empty (a controller makes its tables); `any_store` is the same with the tables of this program, which
saves the time of the migrations. Both are imported by tests/conftest.py and there for every test.

Rules
    - The server is a child of the test process: made with initdb in a temporary folder, reached through a Unix socket
      only, run by another user when the tests are root (it refuses to be root's), gone when the tests are.
    - fsync is off: what is acknowledged survives any death of the server, and the power does not fail here.
    - Tests are skipped only where no server binaries can be found. `.ci/run` installs them; PENSTOCK_NEED_POSTGRESQL=1
      makes that a failure.
"""

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from migrated import lay_database
from patience import ANSWER_S, END_S

POLL_S = 0.02
USER = "penstock"

#: The signals of the shutdown modes: `immediate` is like a crash, with recovery.
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "max_connections=60",
    "shared_buffers=32MB",
    "max_wal_size=256MB",
    "log_min_messages=log",
    "log_checkpoints=off",
)


@functools.cache
def binaries() -> Path | None:
    """The folder of initdb and postgres: on the PATH, or where Debian puts them."""
    places = [Path(found).resolve().parent for name in ("initdb", "postgres") if (found := shutil.which(name))]
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: [int(path.parent.name), 0])
    for folder in (*places, *reversed(versions)):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def need_binaries() -> Path:
    """The folder; skips the test where there is none."""
    folder = binaries()
    if folder is None:
        text = "no PostgreSQL server found (Debian package postgresql)"
        if os.environ.get("PENSTOCK_NEED_POSTGRESQL") == "1":
            pytest.fail(text)
        pytest.skip(text)
    return folder


def _user() -> tuple[int, int]:
    """The uid and gid of the server; -1 = those of this process."""
    if os.geteuid():
        return -1, -1
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    return 65534, 65534


#: Becomes another user, asks to end with the thread that has started it, and runs a program. A program of its own, as
#: code between fork and exec would meet the threads of gRPC in a test process.
_BECOME = """
import ctypes, os, sys
uid, gid = int(sys.argv[1]), int(sys.argv[2])
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
ctypes.CDLL(None).prctl(1, 3)  # PR_SET_PDEATHSIG, SIGQUIT
os.execv(sys.argv[3], sys.argv[3:])
"""


class Server:
    """One cluster in a folder of its own. As a context manager it is started, and at the end stopped and removed."""

    def __init__(self) -> None:
        self._binaries = need_binaries()
        self._user = _user()
        self.folder = Path(tempfile.mkdtemp(prefix="pstk-pg-"))
        self.folder.chmod(0o755)
        self._data, self._socket = self.folder / "data", self.folder / "s"
        for path in (self._data, self._socket):
            path.mkdir(mode=0o700)
            os.chown(path, *self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self._template = ""

    def __enter__(self) -> Self:
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pids(self) -> list[int]:
        """The server's processes: its first one and the children of that."""
        assert self._process is not None
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def _become(self) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", _BECOME, *map(str, self._user)]

    def _initialise(self) -> None:
        words: list[str | Path] = [
            *self._become(),
            self._binaries / "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        words += ["--no-sync", "--no-instructions"]
        done = subprocess.run(words, cwd="/", env=self._environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start the server and wait until it takes connections. It ends with the thread that has started it."""
        words: list[str | Path] = [*self._become(), self._binaries / "postgres", "-D", self._data, "-k", self._socket]
        for setting in _SETTINGS:
            words += ["-c", setting]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                words, cwd="/", env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + END_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.conninfo("template1")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, mode: str = "fast") -> None:
        """End the server: smart, fast or immediate, as with pg_ctl -m."""
        if self._process is not None:
            self._process.send_signal(SIGNALS[mode])
            self._process.wait(ANSWER_S)
            self._process = None

    def restart(self, mode: str = "fast") -> None:
        """As pg_ctl restart -m MODE."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """End it and remove its folder."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def conninfo(self, database: str) -> str:
        """For libpq."""
        return f"host={self._socket} user={USER} dbname={database}"

    def url(self, database: str) -> str:
        """For PenstockDatabaseUrl."""
        return f"postgresql://{USER}@/{database}?host={self._socket}"

    def socket_path(self) -> str:
        """The socket on which it listens."""
        return str(self._socket / ".s.PGSQL.5432")

    def execute(self, sql: str, database: str = "template1") -> list[tuple[Any, ...]]:
        """Run a statement outside of a transaction; its rows."""
        import psycopg

        with psycopg.connect(self.conninfo(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, migrated: bool = False, options: str = "") -> str:
        """The URL of a new database, empty or with this program's tables."""
        template = "template0"
        if migrated:
            if not self._template:
                from ctld.store.committer import Store

                place = self.new_database()
                Store.open(place, "template").close()
                self._template = place.partition("@/")[2].partition("?")[0]
            template = self._template
        self._made += 1
        name = f"t{self._made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} {options}")
        return self.url(name)

    def drop(self, place: str) -> None:
        """Remove a database, even with clients connected."""
        self.execute(f"DROP DATABASE {place.partition('@/')[2].partition('?')[0]} WITH (FORCE)")


# ---- what tests look at ----------------------------------------------------------------------------------------------


def rows(place: str | Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query on either system, over its own connection."""
    from sqlalchemy import text

    with _engine(place).connect() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


def change(place: str | Path, sql: str) -> int:
    """Changes the database without the store; returns the number of rows."""
    from sqlalchemy import text

    with _engine(place).begin() as connection:
        return int(connection.execute(text(sql)).rowcount)


def dump(place: str | Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database: table -> its rows, sorted."""
    from sqlalchemy import inspect, text

    with _engine(place).connect() as connection:
        names = inspect(connection).get_table_names()
        return {
            name: sorted((tuple(row) for row in connection.execute(text(f'SELECT * FROM "{name}"'))), key=repr)
            for name in sorted(names)
        }


def _engine(place: str | Path) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    from accounting.database import database_url

    return create_engine(database_url(place), poolclass=NullPool)


# ---- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """The session's server."""
    with Server() as server:
        yield server


def _be_patient(patch: pytest.MonkeyPatch) -> None:
    """The server ends a transaction that stands still for as long as a lease. Here it may be the machine that does."""
    from ctld.store import postgresql

    patch.setitem(postgresql.SETTINGS, "idle_in_transaction_session_timeout", str(int(ANSWER_S * 1000)))


def _database(request: pytest.FixtureRequest, migrated: bool) -> Iterator[str]:
    if request.param == "sqlite":
        path = request.getfixturevalue("tmp_path") / "penstock.db"
        if migrated:
            lay_database(path)
        yield str(path)
        return
    _be_patient(request.getfixturevalue("monkeypatch"))
    server: Server = request.getfixturevalue("postgresql")
    place = server.new_database(migrated)
    yield place
    server.drop(place)


@pytest.fixture(params=["sqlite", "postgresql"])
def any_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The place of an empty database; the test runs with each system."""
    yield from _database(request, migrated=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The place of a database that has its tables; the test runs with each system."""
    yield from _database(request, migrated=True)
