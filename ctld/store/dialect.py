"""The differences between database systems: how to connect, how to begin to write, how to read an error.

Everything else in the store is SQLAlchemy Core text, compiled once, run through the driver's own cursor. Another system
is another entry in `_DIALECTS`; code for PostgreSQL is in postgresql.py, which is imported on demand.

SQLite: WAL with synchronous=FULL, since NORMAL may lose acknowledged commits when power fails. The driver's implicit
transactions are off, so that a transaction begins where we say, as a writer (BEGIN IMMEDIATE): one that begins as a
reader can fail in its middle.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import nullcontext

# Any: each driver has its own classes of connections and cursors, with the same methods
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from accounting.database import database_url, is_server, read_engine
from ctld.store.dialect_type import BUSY_TIMEOUT_MS, SCHEMA_OPTION, Dialect, Many
from ctld.store.errors import StorageAway, StorageFull, StoreDamaged, StoreError, ValueRefused

#: Pages in the log before a commit copies them back into the file: 16 MB. More makes restarts slower, less makes
#: commits slower.
WAL_CHECKPOINT_PAGES = 4_000
#: Size to which the log is truncated after a burst.
WAL_BYTES_MAX = 64 * 1024 * 1024
#: Page cache of the writing connection. With more, commits take as long: the system keeps the file's pages, too.
CACHE_KB = 4 * 1024

#: Offset of the format version in the header of a file, and its value with a write-ahead log.
_FORMAT_AT = 18
_FORMAT_WITH_LOG = 2

_PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}",
    f"PRAGMA cache_size = -{CACHE_KB}",  # negative = kilobytes
    "PRAGMA trusted_schema = OFF",
)

#: Extended result codes that mean "the disk takes no write now": full, no space for the log's index, over quota.
_FULL_CODES = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE))
#: Primary result codes of a damaged file.
_DAMAGED_CODES = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
#: Errors of every driver over a value, by the names that PEP 249 gives them.
_VALUE_ERRORS = frozenset(("DataError", "IntegrityError"))
#: Advice for the administrator about a damaged file.
HINT_OF_THE_CHECK = "run `penstock db check`, "
DAMAGED_HINT = f"the database is damaged: stop the controller, {HINT_OF_THE_CHECK}restore a backup (docs/database.md)"


def _sqlite_is_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) in _FULL_CODES


def _sqlite_is_damaged(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_CODES


def _one_by_one(cursor: Any, statement: Many, rows: Sequence[tuple[object, ...]]) -> int:
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
    is_damaged=_sqlite_is_damaged,
    in_transaction=lambda connection: bool(connection.in_transaction),
    pipeline=lambda connection: nullcontext(),
    given=None,
    run=_one_by_one,
    check=lambda connection: None,
    parameters_max=32_766,
    shrink="PRAGMA shrink_memory",  # the page cache is full of the queue's rows, which are not read again
)


def _postgresql() -> Dialect:
    from ctld.store.postgresql import DIALECT

    return DIALECT


_DIALECTS: dict[str, Callable[[], Dialect]] = {"sqlite": lambda: SQLITE, "postgresql": _postgresql}


def dialect_of(engine: Engine) -> Dialect:
    """Returns the entry for an engine created by `write_engine`."""
    return _DIALECTS[engine.dialect.name]()


def one_moment(connection: Connection) -> None:
    """Makes a new connection, or transaction, read from one consistent snapshot."""
    dialect = dialect_of(connection.engine)
    if dialect.snapshot:
        connection.execute(text(dialect.snapshot))
    elif not dialect.in_transaction(connection.connection.dbapi_connection):
        connection.execute(text("BEGIN"))  # the driver begins none before a query


def kind_of(dialect: Dialect, error: Exception) -> tuple[type[StoreError], str]:
    """Classifies an error of the driver; also returns its message as one line."""
    cause = error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, Exception) else error
    said = "; ".join(filter(None, map(str.strip, str(cause).splitlines())))
    if dialect.is_full(cause):
        return StorageFull, said
    if dialect.is_damaged(cause):
        return StoreDamaged, f"{said}; {DAMAGED_HINT}"
    if dialect.is_away(cause):
        return StorageAway, said
    return (ValueRefused if _VALUE_ERRORS & {kind.__name__ for kind in type(cause).__mro__} else StoreError), said


def write_engine(address: str) -> Engine:
    """Creates the engine of the one writing connection. Creates an SQLite file, readable by its owner only."""
    if address == ":memory:":
        url = URL.create("sqlite")
    elif is_server(address):
        from ctld.store.postgresql import write_engine as server_write_engine

        return server_write_engine(database_url(address))
    else:
        url = database_url(address)
        _create_private(str(url.database))
        _refuse_foreign_log(str(url.database))
    # One permanent connection. It is created in one thread and used in another, never in two at once.
    engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(SQLITE.begin))
    return engine


def reader_engine(address: str, writer: Engine) -> Engine:
    """Creates an engine for look-ups beside the writer. A database in memory has one connection, for both."""
    return writer if address == ":memory:" else read_engine(address)


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"database {path}: {error.strerror}") from error


def own_schema(connection: Connection) -> str:
    """Returns the schema of the tables on a server: the URL's, which may not exist yet, or that of the search path."""
    named = str(connection.get_execution_options().get(SCHEMA_OPTION, ""))
    return named or str(connection.execute(text("SELECT current_schema()")).scalar())


def why_not_opened(address: str, error: DBAPIError) -> OSError | None:
    """The system's error behind SQLite's "unable to open database file", which hides it: a file beside it cannot be made."""
    if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CANTOPEN:
        return None
    probe = f"{database_url(address).database}.probe"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        os.unlink(probe)
    except OSError as found:
        return found
    return None


def _refuse_foreign_log(path: str) -> None:
    """Refuses the log of another database, which SQLite would apply to a backup that was put in this one's place.

    A database that has such a log says so in its header before the log is created; a backup does not.
    """
    log = f"{path}-wal"
    try:
        with open(path, "rb") as file:
            header = file.read(_FORMAT_AT + 1)
        if len(header) <= _FORMAT_AT or header[_FORMAT_AT] == _FORMAT_WITH_LOG or not os.path.getsize(log):
            return
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"database {path}: {error.strerror}") from error
    raise StoreError(
        f"database {path}: it is a backup, and {log} belongs to the database that was here before: remove {log} and "
        f"{path}-shm, then start again (Backup and restore in docs/database.md)"
    )


def _prepare_writer(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()
