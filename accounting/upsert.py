"""INSERT with ON CONFLICT, which SQLAlchemy keeps under each database's own name; all else of the SQL is common."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
#: Parts of `micros` in `seconds` (accounting/tables.py).
MICROS = 1_000_000


def insert_for(connection: Connection, table: Table) -> Any:
    """The INSERT of the connection's database."""
    return _INSERTS[connection.dialect.name](table)


def put(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, or give those with the same primary key these values. All rows have the same columns."""
    if not rows:
        return
    statement = insert_for(connection, table)
    keys = [column.name for column in table.primary_key]
    values = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values), rows)


def add(connection: Connection, table: Table, rows: list[dict[str, Any]], amounts: Iterable[str] = ("",)) -> None:
    """Insert rows, or add to those with the same primary key. `amounts`: prefixes of pairs of `seconds` and `micros`."""
    if not rows:
        return
    statement = insert_for(connection, table)
    keys = [column.name for column in table.primary_key]
    values: dict[str, Any] = {}
    for prefix in amounts:
        seconds, micros = f"{prefix}seconds", f"{prefix}micros"
        sum_ = table.c[micros] + statement.excluded[micros]
        values[seconds] = table.c[seconds] + statement.excluded[seconds] + sum_ // MICROS
        values[micros] = sum_ % MICROS
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values), rows)


def split(amount_us: int, prefix: str = "") -> Mapping[str, int]:
    """An amount as its two columns."""
    seconds, micros = divmod(amount_us, MICROS)
    return {f"{prefix}seconds": seconds, f"{prefix}micros": micros}
