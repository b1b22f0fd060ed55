"""Reads the audit log and the transactions, a page at a time.

No transaction stays open between two pages, as with records: pages go on from the last id, and rows are only ever added.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Column, Engine, Table, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accounting.database import read_engine
from accounting.dbrow import DbRow, Query
from accounting.schema import AUDIT, TXN

PAGE_ROWS = 500


class TracesUnavailable(Exception):
    """The database cannot be read."""


class AuditQuestion(NamedTuple):
    """A query of the audit log. 0 and () do not filter; `until_us` is exclusive."""

    from_id: int = 0
    since_us: int = 0
    until_us: int = 0
    users: tuple[str, ...] = ()
    records_max: int = 0


class TxnQuestion(NamedTuple):
    """A query of transactions. 0 and () do not filter; `until_us` is exclusive."""

    since_us: int = 0
    until_us: int = 0
    actions: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()


class Traces:
    """Reads both logs. May be used from several threads."""

    def __init__(self, address: str | Path, engine: Engine | None = None) -> None:
        """`engine`: one for this address whose connections cannot write, in place of its own."""
        self._address = address
        self._engine = engine or read_engine(address)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def audit(self, asked: AuditQuestion) -> Iterator[list[DbRow]]:
        """Pages of rows of AUDIT, in order of id. Raises TracesUnavailable."""
        statement = _in_time(select(AUDIT), AUDIT, asked.since_us, asked.until_us)
        if asked.users:
            statement = statement.where(AUDIT.c.user_name.in_(asked.users))
        left = asked.records_max
        for page in self._pages(statement, AUDIT, AUDIT.c.audit_id, max(0, asked.from_id - 1)):
            if asked.records_max:
                page = page[:left]
                left -= len(page)
            if page:
                yield page
            if asked.records_max and left <= 0:
                return

    def hash_of(self, audit_id: int) -> str:
        """A record's hash, "" when it does not exist. Raises TracesUnavailable."""
        found = self._read(select(AUDIT.c.hash).where(AUDIT.c.audit_id == audit_id))
        return str(found[0].hash) if found else ""

    def head(self) -> tuple[int, str]:
        """The last record's id and hash; (0, "") = there is none. Raises TracesUnavailable."""
        found = self._read(select(AUDIT.c.audit_id, AUDIT.c.hash).order_by(AUDIT.c.audit_id.desc()).limit(1))
        return (int(found[0].audit_id), str(found[0].hash)) if found else (0, "")

    def transactions(self, asked: TxnQuestion) -> Iterator[list[DbRow]]:
        """Pages of rows of TXN, in order of id. Raises TracesUnavailable."""
        statement = _in_time(select(TXN), TXN, asked.since_us, asked.until_us)
        if asked.actors:
            statement = statement.where(TXN.c.actor.in_(asked.actors))
        if asked.ids:
            statement = statement.where(TXN.c.txn_id.in_(asked.ids))
        actions = {word.lower() for word in asked.actions}
        for page in self._pages(statement, TXN, TXN.c.txn_id, 0):
            found = [
                row
                for row in page
                if (not actions or row.action.lower() in actions)
                and _names_one(row.accounts, asked.accounts)
                and _names_one(row.users, asked.users)
            ]
            if found:
                yield found

    def _pages(self, statement: Query, table: Table, key: Column[int], after: int) -> Iterator[list[DbRow]]:
        while rows := self._read(statement.where(key > after).order_by(key).limit(PAGE_ROWS)):
            yield rows
            after = rows[-1]._mapping[key.name]

    def _read(self, statement: Query) -> list[DbRow]:
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(statement))
        except SQLAlchemyError as error:
            said = error.orig if isinstance(error, DBAPIError) else error
            raise TracesUnavailable(f"audit log {self._address}: {said}") from error


def _in_time(statement: Query, table: Table, since_us: int, until_us: int) -> Query:
    if since_us:
        statement = statement.where(table.c.at_us >= since_us)
    return statement.where(table.c.at_us < until_us) if until_us else statement


def _names_one(joined: str, wanted: Sequence[str]) -> bool:
    """Whether a comma-separated list contains one of them."""
    return not wanted or any(word in wanted for word in joined.split(","))
