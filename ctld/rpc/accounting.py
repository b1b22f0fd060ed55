"""The Accounting service: sacct's queries, read in a thread through a connection of their own.

Who sees which records, and whose scripts and environments, is in sight.py.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final

import msgspec

from accounting.records import RecordsUnavailable
from ctld.rpc.auth import caller
from ctld.rpc.records import record_filter, record_message
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from ctld.rpc.sight import JobSight, job_sight, script_sight
from penstock.v1 import accounting_pb2
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code

log = logging.getLogger("penstock.ctld")

PAGE_RECORDS: Final = 200
#: Queries at a time: each may read for seconds; the rest stand in line.
QUERIES_MAX: Final = 2


class AccountingService:
    """One method."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._threads = ThreadPoolExecutor(QUERIES_MAX, "accounting")

    async def ListRecords(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Records in pages."""
        records, actor = self._services.records, caller()
        uids, unknown = await self._services.names.uids(list(request.users))
        state = self._services.runtime.core.state
        if unknown:
            return
        try:
            default = state.config.penstock_default_account.lower()
            asked = record_filter(request, uids, job_sight(state, actor), default)
            if "nosteps" in state.config.enforce:
                asked = msgspec.structs.replace(
                    asked, no_steps=True
                )  # they are there for as long as the controller needs them
            found = records.list(asked)
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        loop = asyncio.get_running_loop()
        pages = _pages(found, script_sight(state, actor), state.config)
        try:
            while (page := await loop.run_in_executor(self._threads, next, pages, None)) is not None:
                yield page
        except BadValue as error:  # found out while reading: more records than one answer may have
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        except RecordsUnavailable as error:
            log.error("%s", error)
            await refuse_as(context, BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]))


def _pages(records: Iterator[Any], scripts: JobSight, config: Config) -> Iterator[accounting_pb2.ListRecordsReply]:
    """Pages of messages, made in the thread that reads."""
    default = config.penstock_default_account.lower()
    while page := list(islice(records, PAGE_RECORDS)):
        messages = [record_message(r, scripts, config.cluster_name, default) for r in page]
        yield accounting_pb2.ListRecordsReply(records=messages)
