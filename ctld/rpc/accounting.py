"""The Accounting service: sacct's queries, read in a thread through a connection of their own.

All users see all records, with PrivateData=jobs their own; scripts and environments only their owner and operators.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final

from accounting.records import RecordsUnavailable
from ctld.core.events import Role
from ctld.rpc.auth import caller
from ctld.rpc.records import record_filter, record_message
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from ctld.rpc.sight import own_uids
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
        config = self._services.runtime.core.state.config
        uids, nothing = own_uids(config, actor, uids)
        if unknown or nothing:
            return
        try:
            found = records.list(record_filter(request, uids, config.penstock_default_account.lower()))
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        only_uid = None if actor.role >= Role.OPERATOR else actor.uid
        loop = asyncio.get_running_loop()
        pages = _pages(found, only_uid, config)
        try:
            while (page := await loop.run_in_executor(self._threads, next, pages, None)) is not None:
                yield page
        except BadValue as error:  # found out while reading: more records than one answer may have
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        except RecordsUnavailable as error:
            log.error("%s", error)
            await refuse_as(context, BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]))


def _pages(records: Iterator[Any], only_uid: int | None, config: Config) -> Iterator[accounting_pb2.ListRecordsReply]:
    """Pages of messages, made in the thread that reads."""
    default = config.penstock_default_account.lower()
    while page := list(islice(records, PAGE_RECORDS)):
        messages = [record_message(r, only_uid, config.cluster_name, default) for r in page]
        yield accounting_pb2.ListRecordsReply(records=messages)
