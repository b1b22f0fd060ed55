"""`penstock db move FROM TO`: copies all rows of one database into another that is empty, of the same system or the
other.

Rules
    - FROM is only read, in one snapshot, and must not have a leader. Its `meta` is read once more at the end: if a
      controller has led meanwhile, the move fails.
    - TO is empty, and gets the tables of this program's schema. FROM must have the same schema.
    - TO is complete or does not exist: one transaction on a server, a file that is renamed when it is complete.
    - Indexes beside primary keys are created after the rows.
    - Before TO is committed, the rows in each table are counted, and `penstock db check` must find nothing new in it.

Deliberately absent: continuing an interrupted move, and choosing tables.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import DBAPIError

from accounting.database import read_engine, shown
from accounting.dbrow import DbRow
from ctld.dbtool.check import examine
from ctld.dbtool.errors import DatabaseBusy
from ctld.dbtool.migrate import leader
from ctld.dbtool.target import ROWS_AT_A_TIME, count, fill, finish, new_database
from ctld.store.dialect import dialect_of, kind_of, one_moment
from ctld.store.errors import StoreError
from ctld.store.migrate import REVISIONS, revision_of
from ctld.store.schema import META, METADATA


def move(source: str, target: str, now_us: int) -> Iterator[str]:
    """Moves the rows; yields lines to print. Raises BadSetup, DatabaseBusy, StoreError, OSError; then TO does not
    exist."""
    begun = time.monotonic()
    reader = read_engine(source)
    try:
        with _reading(source, reader.connect()) as old:
            meta = _may_leave(old, source, now_us)
            with new_database(target) as new:
                for table in METADATA.sorted_tables:
                    written = fill(new, table, _chunks(source, old, table))
                    there = count(new, table)
                    if there != written:
                        raise StoreError(f"{table.name}: {written} rows were written, and {there} are there")
                    if written:
                        yield f"{table.name:<20}{written:>12}"
                finish(new)
                yield _judge(source, old, new)
                with _reading(source, reader.connect()) as later:
                    if later.execute(select(META)).one() != meta:
                        raise DatabaseBusy(
                            f"database {shown(source)}: a controller has led meanwhile; nothing was moved"
                        )
    finally:
        reader.dispose()
    yield f"moved in {time.monotonic() - begun:.0f} s"


@contextmanager
def _reading(source: str, connection: Connection) -> Iterator[Connection]:
    with connection, _named_errors(source, connection):
        one_moment(connection)
        yield connection


@contextmanager
def _named_errors(source: str, connection: Connection) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        kind, said = kind_of(dialect_of(connection.engine), error)
        raise kind(f"database {shown(source)}: {said}") from error


def _may_leave(connection: Connection, source: str, now_us: int) -> object:
    """Returns the row of `meta` of a database that may be moved."""
    found = revision_of(connection)
    if found != REVISIONS[-1]:
        hint = "run `penstock db migrate` first" if found in REVISIONS else "this program cannot move it"
        raise StoreError(f"database {shown(source)}: its schema is {found or 'none'}, not {REVISIONS[-1]}; {hint}")
    if holder := leader(connection, now_us):
        raise DatabaseBusy(f"database {shown(source)}: {holder} leads; stop the controller first")
    return connection.execute(select(META)).one()


def _chunks(source: str, connection: Connection, table: Table) -> Iterator[list[DbRow]]:
    """Yields rows in the order of the primary key, so that TO is sorted whatever the history of FROM."""
    statement = select(table).order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_A_TIME)
    with _named_errors(source, connection):
        yield from map(list, connection.execute(statement).partitions())


def _judge(source: str, old: Connection, new: Connection) -> str:
    """Evaluates the check. A problem that FROM has, too, does not prevent the move; a new one does."""
    found = examine(new)
    if not found.problems:
        return found.summary
    with _named_errors(source, old):
        known = examine(old).problems
    if more := [line for line in found.problems if line not in known]:
        raise StoreError("\n".join(["what was written does not fit together; nothing was moved", *more]))
    return "\n".join(["the check finds the same in both:", *found.problems])
