"""The target database of a move: created, filled and completed; if that fails, it is removed.

On a server it is filled in one transaction, by COPY; the rows are frozen, so that no later vacuum has to process them.
A file is filled without a journal under a temporary name, and renamed when it is complete and on the disk.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

# Any: the driver's own connection, for which SQLAlchemy has no type
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, insert, select, text, true
from sqlalchemy.exc import DBAPIError

from accounting.database import database_url, is_server, shown
from accounting.schema import for_postgresql
from ctld.store.dialect import dialect_of, kind_of, write_engine
from ctld.store.errors import StoreError
from ctld.store.migrate import migrate, revision_of
from ctld.store.schema import METADATA
from penstock.errors import BadSetup

#: Rows held in memory at once: some MB; the largest are those with scripts and environments.
ROWS_AT_A_TIME: Final = 2_000

#: For the one transaction on a server, which is long, and sorts for indexes and for the check.
_SERVER_SETTINGS: Final = (
    ("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0"), ("maintenance_work_mem", "256MB"),
    ("work_mem", "64MB"),
)  # fmt: skip
_FILE_PRAGMAS: Final = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144")


@contextmanager
def new_database(address: str) -> Iterator[Connection]:
    """Yields a connection in a transaction, to an empty database with our tables and without their indexes.

    The database exists only if the block ends without an error. Raises BadSetup (TO is not empty), StoreError, OSError.
    """
    if is_server(address):
        with _transaction(address, address, ()) as connection:
            for setting, value in _SERVER_SETTINGS:
                connection.execute(select(func.set_config(setting, value, true())))
            _make(connection, address)
            yield connection
        return
    file = Path(str(database_url(address).database))
    if file.exists():
        raise BadSetup(f"{file}: exists already; nothing was moved")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with _transaction(address, str(draft), _FILE_PRAGMAS) as connection:
            _make(connection, address)
            yield connection
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        os.link(draft, file)  # fails when it was created meanwhile
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _transaction(address: str, really: str, pragmas: Sequence[str]) -> Iterator[Connection]:
    """Opens the transaction. `address` appears in errors."""
    engine = write_engine(really)
    try:
        handle = engine.raw_connection()  # the only one that the pool has
        for pragma in pragmas:
            handle.cursor().execute(f"PRAGMA {pragma}").close()
        handle.close()
        with engine.begin() as connection:
            dialect_of(engine).check(connection)
            yield connection
    except (DBAPIError, dialect_of(engine).error) as error:
        kind, said = kind_of(dialect_of(engine), error)
        raise kind(f"database {shown(address)}: {said}") from error
    finally:
        engine.dispose()


def _make(connection: Connection, address: str) -> None:
    try:
        found = revision_of(connection)
    except StoreError as error:
        raise StoreError(f"database {shown(address)}: {error}") from error
    if found is not None:
        raise BadSetup(f"database {shown(address)}: Penstock's tables exist already; nothing was moved")
    migrate(connection)
    for table in METADATA.sorted_tables:
        connection.execute(delete(table))  # migrations have inserted initial rows
        for index in table.indexes:
            index.drop(connection)


def fill(connection: Connection, table: Table, chunks: Iterable[Sequence[object]]) -> int:
    """Writes a table's rows; returns how many. They have all of its columns."""
    raw: Any = connection.connection.dbapi_connection
    written = 0
    with closing(raw.cursor()) as cursor:
        if connection.dialect.name == "postgresql":
            quote = connection.dialect.identifier_preparer.quote
            columns = ", ".join(quote(column.name) for column in table.columns)
            with cursor.copy(f"COPY {quote(table.name)} ({columns}) FROM STDIN (FREEZE)") as stream:
                for rows in chunks:
                    written += len(rows)
                    for row in rows:
                        stream.write_row(row)
            return written
        statement = str(insert(table).compile(dialect=connection.dialect))
        for rows in chunks:
            written += len(rows)
            cursor.executemany(statement, rows)
    return written


def count(connection: Connection, table: Table) -> int:
    """Returns the number of rows in the table."""
    return connection.execute(select(func.count()).select_from(table)).scalar() or 0


def finish(connection: Connection) -> None:
    """Completes the database after its rows: indexes, the next numbers, and the statistics of its planner."""
    is_server = connection.dialect.name == "postgresql"
    for table in METADATA.sorted_tables:
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            (for_postgresql(index) if is_server else index).create(connection)
        numbered = table.autoincrement_column
        if is_server and numbered is not None:  # SQLite uses the highest number plus one by itself
            last = connection.execute(select(func.max(numbered))).scalar()
            sequence = func.pg_get_serial_sequence(table.name, numbered.name)
            connection.execute(select(func.setval(sequence, last or 1, last is not None)))
    connection.execute(text("ANALYZE"))
