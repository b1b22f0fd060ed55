"""INSERT with ON CONFLICT, which SQLAlchemy has only in each database's own dialect; all other SQL is common."""

import functools
from collections.abc import Iterable, Mapping, Sequence

# Any: each database has its own class of INSERT, and columns have values of any type
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Executable, Table, case, literal_column
from sqlalchemy.dialects import sqlite

#: Parts of `micros` in `seconds` (accounting/tables.py).
MICROS = 1_000_000
#: A sum of seconds saturates here: two such sums and a carry are still a BIGINT. Beyond it PostgreSQL refuses each
#: addition, and SQLite makes the number a float.
SECONDS_MAX = (1 << 62) - 1


def insert_for(dialect: str, table: Table) -> Any:
    """The INSERT of a database by the name of its dialect."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql  # 20 modules that a cluster on SQLite does not need

        return postgresql.insert(table)
    return sqlite.insert(table)


def put(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Inserts rows, or updates those with the same primary key to these values. All rows have the same columns."""
    if rows:
        connection.execute(_putting(connection.dialect.name, table, tuple(rows[0])), rows)


def add(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, object]], amounts: Iterable[str] = ("",)
) -> None:
    """Inserts rows, or adds to those with the same primary key. `amounts`: prefixes of pairs of `seconds` and `micros`."""
    if rows:
        connection.execute(_adding(connection.dialect.name, table, tuple(amounts)), rows)


@functools.cache
def _putting(dialect: str, table: Table, columns: tuple[str, ...]) -> Executable:
    statement = insert_for(dialect, table)
    keys = [column.name for column in table.primary_key]
    values = {name: statement.excluded[name] for name in columns if name not in keys}
    putting: Executable = statement.on_conflict_do_update(index_elements=keys, set_=values)
    return putting


@functools.cache
def _adding(dialect: str, table: Table, amounts: tuple[str, ...]) -> Executable:
    statement = insert_for(dialect, table)
    keys = [column.name for column in table.primary_key]
    values: dict[str, object] = {}
    for prefix in amounts:
        seconds, micros = f"{prefix}seconds", f"{prefix}micros"
        sum_ = table.c[micros] + statement.excluded[micros]
        values[seconds] = _saturated(
            _saturated(table.c[seconds]) + statement.excluded[seconds] + sum_ // _constant(MICROS)
        )
        values[micros] = sum_ % _constant(MICROS)
    adding: Executable = statement.on_conflict_do_update(index_elements=keys, set_=values)
    return adding


def _constant(value: int) -> ColumnElement[int]:
    """A number in the statement's text: as a parameter it would be one of each row, of which a roll-up writes many."""
    return literal_column(str(value), BigInteger)


def _saturated(seconds: ColumnElement[int]) -> ColumnElement[int]:
    most, least = _constant(SECONDS_MAX), _constant(-SECONDS_MAX)
    return case((seconds > most, most), (seconds < least, least), else_=seconds)


def split(amount_us: int, prefix: str = "") -> Mapping[str, int]:
    """An amount as its two columns."""
    seconds, micros = divmod(amount_us, MICROS)
    return {f"{prefix}seconds": max(-SECONDS_MAX, min(seconds, SECONDS_MAX)), f"{prefix}micros": micros}
