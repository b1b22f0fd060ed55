"""All that differs between database systems: how to connect, how to begin to write, how to read an error.

Everything else in the store is SQLAlchemy Core text, compiled once, run through the driver's own cursor. Another system
is another entry in `_DIALECTS`; what only PostgreSQL's has is in postgresql.py, which is imported for one.

SQLite: WAL with synchronous=FULL, since NORMAL may lose acknowledged commits when power fails. The driver's implicit
transactions are off, so that a transaction begins where we say, as a writer (BEGIN IMMEDIATE): one that begins as a
reader can fail in its middle.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import URL, Column, Connection, Engine, FromClause, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from accounting.database import database_url, is_server, read_engine
from ctld.store.errors import StorageAway, StorageFull, StoreError

#: How long a commit waits for another writer (a second controller that asks for the lease, a shell) before it fails.
BUSY_TIMEOUT_MS = 15_000
#: Pages in the log before a commit copies them back into the file: 16 MB. More makes restarts slower, less makes
#: commits slower.
WAL_CHECKPOINT_PAGES = 4_000
#: What the log is cut back to after a burst.
WAL_BYTES_MAX = 64 * 1024 * 1024
#: Page cache of the writing connection.
CACHE_KB = 16 * 1024

_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}",
    f"PRAGMA cache_size = -{CACHE_KB}",  # negative = kilobytes
    "PRAGMA trusted_schema = OFF",
)

#: Extended result codes that mean "the disk does not take it now": full, no room for the log's index, over quota.
_FULL_CODES = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE))


#: The one parameter of a statement for many rows, where the database takes them as one.
ROWS = "rows"


class Many(NamedTuple):
    """A statement for a list of rows, which have its columns in its order."""

    text: str
    key: slice | None = None  # of a row: of rows that have this in common the last one counts; None = all count


@dataclass(frozen=True)
class Dialect:
    """One database system."""

    begin: str  # starts a transaction that will write
    snapshot: str  # makes what a transaction reads all of one moment; "" = a transaction's reads are anyway
    insert: Callable[[Any], Any]  # SQLAlchemy's INSERT with ON CONFLICT
    paramstyle: str  # of the driver's positional parameters
    error: type[Exception]  # base of the driver's errors
    is_full: Callable[[Exception], bool]
    is_away: Callable[[Exception], bool]  # the server, or the way to it; nothing is known of what was under way
    in_transaction: Callable[[Any], bool]
    pipeline: Callable[[Any], AbstractContextManager[Any]]  # statements inside are sent without waiting for each answer
    given: (
        Callable[[Sequence[Column[Any]]], FromClause] | None
    )  # a parameter as a table of rows; None = a row at a time
    run: Callable[[Any, "Many", Sequence[tuple[Any, ...]]], int]  # on a cursor; how many rows were sent
    check: Callable[[Connection], None]  # before migrations: may this database be used at all? Raises StoreError
    parameters_max: int  # in one statement


def _sqlite_is_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) in _FULL_CODES


def _one_by_one(cursor: Any, statement: Many, rows: Sequence[tuple[Any, ...]]) -> int:
    cursor.executemany(statement.text, rows)
    return len(rows)


SQLITE = Dialect(
    begin="BEGIN IMMEDIATE",
    snapshot="",
    insert=sqlite.insert,
    paramstyle="qmark",
    error=sqlite3.Error,
    is_full=_sqlite_is_full,
    is_away=lambda error: False,
    in_transaction=lambda connection: bool(connection.in_transaction),
    pipeline=lambda connection: nullcontext(),
    given=None,
    run=_one_by_one,
    check=lambda connection: None,
    parameters_max=32_766,
)


def _postgresql() -> Dialect:
    from ctld.store.postgresql import DIALECT

    return DIALECT


_DIALECTS: dict[str, Callable[[], Dialect]] = {"sqlite": lambda: SQLITE, "postgresql": _postgresql}


def dialect_of(engine: Engine) -> Dialect:
    """The entry for an engine made by `write_engine`."""
    return _DIALECTS[engine.dialect.name]()


def one_moment(connection: Connection) -> None:
    """What a new connection, or transaction, reads from now on is all of one moment."""
    dialect = dialect_of(connection.engine)
    if dialect.snapshot:
        connection.execute(text(dialect.snapshot))
    elif not dialect.in_transaction(connection.connection.dbapi_connection):
        connection.execute(text("BEGIN"))  # the driver begins none before a question


def kind_of(dialect: Dialect, error: Exception) -> tuple[type[StoreError], str]:
    """What an error of the driver means, and its words in one line."""
    cause = error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, Exception) else error
    said = "; ".join(filter(None, map(str.strip, str(cause).splitlines())))
    if dialect.is_full(cause):
        return StorageFull, said
    return (StorageAway if dialect.is_away(cause) else StoreError), said


def write_engine(place: str) -> Engine:
    """An engine for the one writing connection. Creates an SQLite file, readable by its owner only."""
    if place == ":memory:":
        url = URL.create("sqlite")
    elif is_server(place):
        from ctld.store.postgresql import write_engine as server_write_engine

        return server_write_engine(database_url(place))
    else:
        url = database_url(place)
        _create_private(str(url.database))
    # One connection for life. It is made in one thread and used in another, never in two at once.
    engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(SQLITE.begin))
    return engine


def reader_engine(place: str, writer: Engine) -> Engine:
    """An engine for look-ups beside the writer. A database in memory has one connection, for both."""
    return writer if place == ":memory:" else read_engine(place)


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"database {path}: {error.strerror}") from error


def _prepare_writer(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()
