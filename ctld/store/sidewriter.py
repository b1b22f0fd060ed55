"""A second writer beside the committer: small transactions of the roll-up and of purges, under the same fence.

Each transaction first checks whether this controller still leads, and locks that row until its end, so that a deposed
controller writes nothing. It may block the committer for its duration: callers limit it to some 10 ms.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from accounting.database import shown
from ctld.store.dialect import dialect_of, kind_of, reader_engine, write_engine
from ctld.store.errors import Deposed, StoreError
from ctld.store.schema import META


class SideWriter:
    """Connections of its own to a database that a Store has opened. One thread at a time.

    `leads`: whether the leadership with that epoch is ours (Store.leads).
    """

    def __init__(self, address: str, leads: Callable[[int], bool]) -> None:
        self._address = address
        self._leads = leads
        self._engine = write_engine(address)
        self._reader = reader_engine(address, self._engine)

    def close(self) -> None:
        """Closes the connections."""
        self._reader.dispose()
        self._engine.dispose()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Begins a transaction that writes. Raises Deposed, StorageWaits or another StoreError; then nothing is
        written.
        """
        try:
            with self._engine.begin() as connection:
                epoch = connection.execute(select(META.c.epoch).with_for_update()).scalar() or 0
                if not self._leads(epoch):
                    raise Deposed(f"another controller has taken over (leadership number {epoch})")
                yield connection
        except DBAPIError as error:
            raise self._translated(error) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Opens a connection that reads committed data. Raises StoreError."""
        try:
            with self._reader.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._translated(error) from error

    def _translated(self, error: DBAPIError) -> StoreError:
        kind, said = kind_of(dialect_of(self._engine), error)
        return kind(f"database {shown(self._address)}: {said}")
