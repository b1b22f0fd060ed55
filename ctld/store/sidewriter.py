"""A second writer beside the committer: small transactions of the roll-up and of purges, under the same fence.

Each transaction looks first whether this controller still leads, and holds that row until its end, so that a deposed
controller writes nothing. It may keep the committer waiting for as long as it lasts: callers keep it to some 10 ms.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from accounting.database import shown
from ctld.store.dialect import dialect_of, reader_engine, write_engine
from ctld.store.errors import Deposed, StorageFull, StoreError
from ctld.store.schema import META


class SideWriter:
    """Connections of its own to a database that a Store has opened. One thread at a time."""

    def __init__(self, place: str, epoch: int) -> None:
        self._place = place
        self._epoch = epoch
        self._engine = write_engine(place)
        self._reader = reader_engine(place, self._engine)

    def close(self) -> None:
        """Close the connections."""
        self._reader.dispose()
        self._engine.dispose()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction that writes. Raises Deposed, StorageFull or another StoreError; then nothing is written."""
        try:
            with self._engine.begin() as connection:
                if connection.execute(select(META.c.epoch).with_for_update()).scalar() != self._epoch:
                    raise Deposed(f"another controller has taken over (our leadership was number {self._epoch})")
                yield connection
        except DBAPIError as error:
            raise self._translated(error) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that reads what is committed. Raises StoreError."""
        try:
            with self._reader.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._translated(error) from error

    def _translated(self, error: DBAPIError) -> StoreError:
        is_full = dialect_of(self._engine).is_full(error.orig if isinstance(error.orig, Exception) else error)
        return (StorageFull if is_full else StoreError)(f"database {shown(self._place)}: {error.orig}")
