"""The type of a database system's entry in dialect.py."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

# Any: each driver has its own classes of connections and cursors, with the same methods
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import URL, Column, Connection, FromClause, Table

#: How long a commit waits for another writer (a second controller that acquires the lease, a shell) before it fails.
BUSY_TIMEOUT_MS = 15_000
#: The option of an engine with the schema of its tables; "" or none = that of the search path.
SCHEMA_OPTION: Final = "penstock_schema"
#: The one parameter of a statement for many rows, where the database takes them as one.
ROWS = "rows"


class Many(NamedTuple):
    """A statement for a list of rows, which have its columns in its order."""

    text: str
    key: slice | None = None  # columns of a row: of rows with equal values the last one counts; None = all count


@dataclass(frozen=True)
class Dialect:
    """The operations that differ between database systems."""

    begin: str  # starts a transaction that writes
    snapshot: str  # makes a transaction read from one snapshot; "" = its transactions always do
    insert: Callable[[Table], Any]  # SQLAlchemy's INSERT with ON CONFLICT
    paramstyle: Literal["qmark", "format"]  # of the driver's positional parameters
    error: type[Exception]  # base of the driver's errors
    is_full: Callable[[Exception], bool]
    is_away: Callable[[Exception], bool]  # connection or server lost; the result of work in progress is unknown
    is_damaged: Callable[[Exception], bool]
    in_transaction: Callable[[Any], bool]
    pipeline: Callable[
        [Any], AbstractContextManager[object]
    ]  # statements inside are sent without waiting for each answer
    given: (
        Callable[[Sequence[Column[object]]], FromClause] | None
    )  # a parameter as a table of rows; None = a row at a time
    run: Callable[[object, "Many", Sequence[tuple[object, ...]]], int]  # on a cursor; returns how many rows were sent
    check: Callable[[Connection], None]  # before migrations: checks that this database can be used. Raises StoreError
    parameters_max: int  # in one statement
    answers: Callable[[URL], bool] | None = None  # whether its server accepts connections; None = no server
    shrink: str = ""  # statement that frees the memory of a large query
