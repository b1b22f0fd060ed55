"""Reports read the database in threads of their own, through connections that cannot write."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from accounting.database import read_engine
from ctld.rpc.refusals import BadRequest
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code

T = TypeVar("T")

#: Reports at a time; the rest stand in line.
REPORTS_MAX: Final = 2


class Reading:
    """The threads and the connections, made when they are first used."""

    def __init__(self, place: str | Path) -> None:
        self._place = place
        self._threads = ThreadPoolExecutor(REPORTS_MAX, "reports")
        self._engine: Engine | None = None

    async def read(self, work: Callable[[Connection], T]) -> T:
        """`work` with a connection. Raises BadRequest when the question is wrong, or the database cannot be read."""
        if self._engine is None:
            self._engine = read_engine(self._place)
        engine = self._engine

        def run() -> T:
            with engine.connect() as connection:
                return work(connection)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except BadValue as error:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from error
        except SQLAlchemyError as error:
            raise BadRequest(Code.INTERNAL, f"{TEXT[Code.INTERNAL]}: {error}") from error
