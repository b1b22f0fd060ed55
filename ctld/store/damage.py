"""Rows that cannot be decoded: which one, and which of its columns.

A page that is damaged is the database's own error. A value that is none any more, because another program has written into
the database or its medium has lost bits, is found by the decoder, whose error names neither table nor row.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from sqlalchemy import Connection, Table

from accounting.dbrow import Query
from ctld.store.errors import StoreDamaged
from penstock.values.states import Reason

T = TypeVar("T")
#: What decoders raise for a value that is none of theirs.
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError)
_TEXT_CHARS_MAX: Final = 200
#: Values of which each column takes one.
_NEUTRAL: Final = (0, "", None, "[]", "{}", b"{}", Reason.NONE.value)


def decoded(connection: Connection, query: Query, decode: Callable[..., T], table: Table) -> list[T]:
    """The rows of a query of this table, decoded from the tuple of its columns. Raises StoreDamaged, which names the row."""
    found = []
    for row in connection.execute(query):
        try:
            found.append(decode(tuple(row)))
        except UNREADABLE as error:
            raise damaged(table, dict(row._mapping), decode, error) from error
    return found


def damaged(
    table: Table, row: Mapping[str, object], decode: Callable[..., object] | None, error: Exception
) -> StoreDamaged:
    """The error for a row of this table whose decoding failed. `row`: its columns by name, in the order of `decode`;
    None: its last column alone was decoded. A name with a point is of another table."""
    key = " ".join(f"{column.name}={row[column.name]}" for column in table.primary_key if column.name in row)
    of, _, name = (_column(row, decode) if decode is not None else list(row)[-1]).rpartition(".")
    where = f"table {of or table.name}, row of {key}" + (f", column {name}" if name else "")
    said = str(error).partition("\n")[0][:_TEXT_CHARS_MAX] or "its values do not fit"
    return StoreDamaged(
        f"{where}: cannot be read: {said if isinstance(error, ValueError) else f'unknown value {said}'}"
    )


def _column(row: Mapping[str, object], decode: Callable[..., object]) -> str:
    """The column without whose value the row can be decoded; "" if it is not one alone."""
    values = dict(row)
    return next((name for name in values if any(_reads(decode, values | {name: other}) for other in _NEUTRAL)), "")


def _reads(decode: Callable[..., object], values: Mapping[str, object]) -> bool:
    try:
        decode(tuple(values.values()))
    except UNREADABLE:
        return False
    return True
