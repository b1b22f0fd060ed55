"""Runs reports in threads of their own, through read-only connections to the database, fairly between users (fair.py)."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accounting.database import read_engine
from ctld.rpc.gate.auth import caller
from ctld.runtime.errors import BadRequest
from ctld.runtime.fair import FairThreads
from ctld.store.dialect import dialect_of, kind_of
from ctld.store.errors import StorageWaits
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code

T = TypeVar("T")

#: Concurrent reports; the rest is queued.
REPORTS_MAX: Final = 2


class Reading:
    """The threads and the connections, created at their first use."""

    def __init__(self, address: str | Path) -> None:
        self._address = address
        self._threads = FairThreads("reports", REPORTS_MAX)
        self._engine: Engine | None = None

    async def read(self, work: Callable[[Connection], T], of_other: Engine | None = None) -> T:
        """Runs `work` with a connection, of the own database or of that engine. Raises BadRequest when the query is
        invalid, or the database cannot be read."""
        if self._engine is None:
            self._engine = read_engine(self._address)
        engine = of_other or self._engine

        def run(engine: Engine) -> T:
            with engine.connect() as connection:
                return work(connection)

        try:
            return await self._threads.ask(caller().uid, run, lambda: engine)
        except BadValue as error:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from error
        except SQLAlchemyError as error:
            if isinstance(error, DBAPIError) and issubclass(kind_of(dialect_of(engine), error)[0], StorageWaits):
                raise BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]) from error
            raise BadRequest(Code.INTERNAL, f"{TEXT[Code.INTERNAL]}: {error}") from error
