"""PostgreSQL as the controller's database: the parts of its entry in dialect.py.

Rules
    - One connection writes. It may be lost at any time (a restart, a firewall, a fail-over to another machine), and
      the transaction in progress is then committed or not: the committer reconnects and reads `meta`.
    - `synchronous_commit` is on for it, whatever the server's default: an acknowledged commit is on the disk.
    - A controller that is suspended in the middle of a transaction holds the lock on `meta` no longer than a lease lasts.
    - Rows of one kind are one statement with one parameter, a JSON array of objects c0, c1, ... Its work is a third of
      that of a statement for each row, on both sides. Bytes are base64 in it.
    - The writer's statements find rows by their keys, one after the other, whatever the server's statistics: they are
      planned once, perhaps while a table is still empty. So sequential scans and hash joins are disabled for it, and so
      is JIT compilation, which the cost of such plans would trigger.
    - Numbers are sent as bigint whatever their size, as the driver would otherwise prepare a statement for each
      combination of sizes.
    - The database sorts by code points (collation C) and is in UTF-8, as SQLite: the order of names affects the
      scheduler's results. Other databases are refused before a table is created.
    - The tables are in the first schema of the search path: `public`, or that of the URL (accounting/database.py), which
      is made if it is missing. All statements name tables without a schema, so nothing else depends on it; the lock of
      migrations is the schema's own, as migrations of one cluster do not concern another one.
"""

import logging
from collections.abc import Sequence

# Any: the driver's own connections and cursors, for which SQLAlchemy has no types
from typing import Any, Final
from zlib import crc32

import psycopg
from msgspec.json import encode as encode_json
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    LargeBinary,
    Text,
    bindparam,
    column,
    event,
    func,
    literal_column,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateSchema

from accounting.database import bare, schema_of, server_arguments, server_engine
from accounting.serverwait import answers
from ctld.store.dialect_type import BUSY_TIMEOUT_MS, ROWS, SCHEMA_OPTION, Dialect, Many
from ctld.store.errors import StoreError

#: Timeout of a statement in a commit, after which the batch is tried again.
STATEMENT_TIMEOUT_MS: Final = 60_000
#: As long as a lease: a process that was suspended for longer may have been replaced.
IDLE_IN_TRANSACTION_MS: Final = 10_000

SETTINGS = {
    "synchronous_commit": "on",
    "lock_timeout": str(BUSY_TIMEOUT_MS),
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

#: Names of the columns in the parameter of a statement for many rows.
_NAMES: Final = tuple(f"c{number}" for number in range(100))
_BASE64: ColumnElement[str] = literal_column("'base64'")

#: Lock for checking and migrating a schema, which serialises controllers that start at the same time.
_MIGRATION_LOCK: Final = 0x70656E73746F636B & 0x7FFFFFFFFFFFFFFF

#: The driver's own messages about a lost connection; the controller has its own.
logging.getLogger("psycopg").setLevel(logging.ERROR)

_DISK_FULL = "53100"
#: SQLSTATEs after which the work may be tried again on a new connection: cancelled by a timeout, no more connections,
#: server stopping or starting, a standby that takes no writes, a deadlock with another client.
_PASSING = frozenset(
    ("57014", "53300", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25006", "55P03", "40001", "40P01")
)
_CONNECTION_CLASS = "08"
#: data_corrupted, index_corrupted.
_DAMAGED = frozenset(("XX001", "XX002"))


def _is_full(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) == _DISK_FULL


def _is_damaged(error: Exception) -> bool:
    return getattr(error, "sqlstate", None) in _DAMAGED


def _is_away(error: Exception) -> bool:
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:  # reported by the client's library: no connection, or it was lost
        return isinstance(error, psycopg.OperationalError)
    return state in _PASSING or state.startswith(_CONNECTION_CLASS)


def _in_transaction(connection: psycopg.Connection[object]) -> bool:
    status = connection.info.transaction_status
    return status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)


def _check(connection: Connection) -> None:
    schema = str(connection.get_execution_options().get(SCHEMA_OPTION, ""))
    key = _MIGRATION_LOCK ^ crc32(schema.encode())
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
    encoding, by_code_points = connection.execute(
        text("SELECT current_setting('server_encoding'), 'B' < 'a' AND 'a-b' < 'aa'")
    ).one()
    if encoding != "UTF8" or not by_code_points:
        raise StoreError(
            "it must be in UTF-8 and sort by code points; make it so: "
            "CREATE DATABASE penstock TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
        )
    if schema:
        _make_schema(connection, schema)


def _make_schema(connection: Connection, schema: str) -> None:
    """Creates the schema if it is missing. Raises StoreError when the role may not create or use it."""
    known = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
    may = text("SELECT has_database_privilege(current_database(), 'CREATE'), current_user, current_database()")
    if connection.execute(known, {"schema": schema}).first() is None:
        may_create, role, database = connection.execute(may).one()
        if not may_create:
            raise StoreError(
                f"its schema {schema} does not exist, and the role {role} may not create it; run as its owner: "
                f'CREATE SCHEMA {schema} AUTHORIZATION "{role}", or GRANT CREATE ON DATABASE "{database}" TO "{role}"'
            )
        connection.execute(CreateSchema(schema))
    role, may_use = connection.execute(
        text("SELECT current_user, has_schema_privilege(:schema, 'USAGE') AND has_schema_privilege(:schema, 'CREATE')"),
        {"schema": schema},
    ).one()
    if not may_use:
        raise StoreError(
            f"the role {role} may not use its schema {schema}: it is another role's; run as its owner: "
            f'GRANT USAGE, CREATE ON SCHEMA {schema} TO "{role}", or name another PenstockDatabaseSchema'
        )


def _answers(url: URL) -> bool:
    words = bare(make_url(url)).set(drivername="postgresql").render_as_string(hide_password=False)
    return answers(server_arguments(url, {}) | {"conninfo": words})


def _given(columns: Sequence[Column[object]]) -> FromClause:
    names = [
        column(name, Text if isinstance(one.type, LargeBinary) else one.type)
        for name, one in zip(_NAMES, columns, strict=False)
    ]
    rows = func.json_to_recordset(bindparam(ROWS, type_=postgresql.JSON))
    texts = rows.table_valued(*names, name="texts").render_derived(with_types=True)
    return select(
        *(
            func.decode(text, _BASE64).label(text.name) if isinstance(one.type, LargeBinary) else text
            for text, one in zip(texts.c, columns, strict=True)
        )
    ).subquery("given")


def _run(cursor: Any, statement: Many, rows: Sequence[tuple[object, ...]]) -> int:
    if statement.key is not None:
        rows = list({row[statement.key]: row for row in rows}.values())  # one statement may change a row only once
    cursor.execute(statement.text, (encode_json([dict(zip(_NAMES, row, strict=False)) for row in rows]).decode(),))
    return len(rows)


DIALECT = Dialect(
    begin="BEGIN",
    snapshot="SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    insert=postgresql.insert,
    paramstyle="format",
    error=psycopg.Error,
    is_full=_is_full,
    is_away=_is_away,
    is_damaged=_is_damaged,
    in_transaction=_in_transaction,
    pipeline=lambda connection: connection.pipeline(),
    given=_given,
    run=_run,
    check=_check,
    parameters_max=65_535,
    answers=_answers,
)


def write_engine(url: URL) -> Engine:
    """Creates the engine of the one writing connection; a lost one is replaced when the engine is disposed of."""
    engine = server_engine(url, SETTINGS, poolclass=StaticPool, execution_options={SCHEMA_OPTION: schema_of(url)})
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(DIALECT.begin))
    return engine


def _prepare_writer(connection: psycopg.Connection[object], _record: object) -> None:
    connection.autocommit = True  # a transaction begins explicitly
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, Int8Dumper)
