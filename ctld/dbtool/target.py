"""The database that a move writes: made, filled, finished, and nothing is left of it when that fails.

A server's is filled in one transaction, by COPY; the rows are frozen, so that no vacuum goes over them later. A file is
filled without a journal under a name that nobody looks for, and gets its name when it is complete and on the disk.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, insert, select, text, true
from sqlalchemy.exc import DBAPIError

from accounting.database import database_url, is_server, shown
from ctld.store.dialect import dialect_of, kind_of, write_engine
from ctld.store.errors import StoreError
from ctld.store.migrate import migrate, revision_of
from ctld.store.schema import METADATA
from penstock.errors import BadSetup

#: Rows that are held in memory at once: some MB; the largest are those with scripts and environments.
ROWS_AT_A_TIME: Final = 2_000

#: For the one transaction on a server: it lasts, and sorts for indexes and for the check.
_SERVER_SETTINGS: Final = (
    ("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0"), ("maintenance_work_mem", "256MB"),
    ("work_mem", "64MB"),
)  # fmt: skip
_FILE_PRAGMAS: Final = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144")


@contextmanager
def new_database(place: str) -> Iterator[Connection]:
    """A connection in a transaction, to an empty database with our tables and without their indexes.

    What is written is there when the block ends without an error. Raises BadSetup (TO is not empty), StoreError, OSError.
    """
    if is_server(place):
        with _transaction(place, place, ()) as connection:
            for setting, value in _SERVER_SETTINGS:
                connection.execute(select(func.set_config(setting, value, true())))
            _make(connection, place)
            yield connection
        return
    file = Path(str(database_url(place).database))
    if file.exists():
        raise BadSetup(f"{file}: is there already; nothing was moved")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with _transaction(place, str(draft), _FILE_PRAGMAS) as connection:
            _make(connection, place)
            yield connection
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        os.link(draft, file)  # fails when somebody has made it meanwhile
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _transaction(place: str, really: str, pragmas: Sequence[str]) -> Iterator[Connection]:
    """`place` is what errors name."""
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
        raise kind(f"database {shown(place)}: {said}") from error
    finally:
        engine.dispose()


def _make(connection: Connection, place: str) -> None:
    try:
        found = revision_of(connection)
    except StoreError as error:
        raise StoreError(f"database {shown(place)}: {error}") from error
    if found is not None:
        raise BadSetup(f"database {shown(place)}: Penstock's tables are there already; nothing was moved")
    migrate(connection)
    for table in METADATA.sorted_tables:
        connection.execute(delete(table))  # migrations have written first rows
        for index in table.indexes:
            index.drop(connection)


def fill(connection: Connection, table: Table, chunks: Iterable[Sequence[Any]]) -> int:
    """Write a table's rows; how many. They have all of its columns."""
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
    """The rows that are there."""
    return connection.execute(select(func.count()).select_from(table)).scalar() or 0


def finish(connection: Connection) -> None:
    """What comes when the rows are there: indexes, the next numbers, and what the planner knows of them."""
    is_server = connection.dialect.name == "postgresql"
    for table in METADATA.sorted_tables:
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            index.create(connection)
        numbered = table.autoincrement_column
        if is_server and numbered is not None:  # SQLite takes the number behind the highest by itself
            last = connection.execute(select(func.max(numbered))).scalar()
            sequence = func.pg_get_serial_sequence(table.name, numbered.name)
            connection.execute(select(func.setval(sequence, last or 1, last is not None)))
    connection.execute(text("ANALYZE"))
