"""The Accounting service: sacct's queries, read in a thread through a connection of their own.

gate/visibility.py decides which records, scripts and environments a caller may see.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Final, TypeVar

import msgspec

from accounting.filter import FilterRecord, RecordFilter
from accounting.records import ProfileRecord, Records, RecordsUnavailable
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.paging import by_bytes
from ctld.rpc.gate.refusals import refuse_as, translated_pages
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import JobVisibility, job_visibility, script_visibility
from ctld.rpc.jobs.records import record_filter, record_message
from ctld.runtime.errors import BadRequest
from penstock.v1 import accounting_pb2
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.jobcolumns import WINDOW_ROWS_MAX
from penstock.values.refusals import TEXT, Code

log = logging.getLogger("penstock.ctld")

PAGE_RECORDS: Final = 200
_Page = TypeVar("_Page")


class AccountingService:
    """The Accounting service: records, and profiles of steps."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @translated_pages
    async def ListRecords(
        self, request: accounting_pb2.ListRecordsRequest, context: Context
    ) -> AsyncIterator[accounting_pb2.ListRecordsReply]:
        """Returns records in pages."""
        view = await self._services.view(request.cluster)
        state, actor = view.state, view.actor
        uids, unknown = await self._services.names.uids(list(request.users))
        if unknown:
            return
        try:
            default = state.config.penstock_default_account.lower()
            asked = record_filter(request, uids, job_visibility(state, actor), default)
            if "nosteps" in state.config.enforce:
                asked = msgspec.structs.replace(asked, no_steps=True)  # the controller keeps them while it needs them
            scripts = script_visibility(state, actor)
            if request.HasField("window"):
                pages = _window_pages(view.records, asked, request.window, scripts, state.config)
            else:
                pages = _pages(view.records.list(asked), scripts, state.config)
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        async for page in self._read(pages, context):
            yield page

    @translated_pages
    async def ListProfiles(
        self, request: accounting_pb2.ListProfilesRequest, context: Context
    ) -> AsyncIterator[accounting_pb2.ListProfilesReply]:
        """Returns profiles of steps whose records the caller may see, in pages."""
        state, actor = self._services.runtime.core.state, caller()
        which = accounting_pb2.ListRecordsRequest(ids=request.ids)
        try:
            if not request.ids:
                raise BadValue("no job is named")
            default = state.config.penstock_default_account.lower()
            found = self._services.records.profiles(record_filter(which, (), job_visibility(state, actor), default))
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        async for page in self._read(_profile_pages(found), context):
            yield page

    async def _read(self, pages: Iterator[_Page], context: Context) -> AsyncIterator[_Page]:
        """Yields pages that are built in a thread."""
        threads, actor = self._services.record_threads, caller()
        try:
            with threads.question(actor.uid):
                while (page := await threads.turn(actor.uid, _next, lambda: pages)) is not None:
                    yield page
        except BadValue as error:  # detected while reading: more records than one answer may have
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        except RecordsUnavailable as error:
            log.error("%s", error, extra={"event": "accounting_failed"})
            await refuse_as(context, BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]))


def _next(pages: Iterator[_Page]) -> _Page | None:
    return next(pages, None)


def _profile_pages(found: Iterator[ProfileRecord]) -> Iterator[accounting_pb2.ListProfilesReply]:
    messages = (accounting_pb2.ProfileRecord(**one._asdict()) for one in found)
    for page in by_bytes(messages, PAGE_RECORDS, lambda message: message.ByteSize()):
        yield accounting_pb2.ListProfilesReply(profiles=page)


def _window_pages(
    records: Records, asked: RecordFilter, window: accounting_pb2.RecordWindow, scripts: JobVisibility, config: Config
) -> Iterator[accounting_pb2.ListRecordsReply]:
    """Yields the pages of a window; the first one has the number of all records, and is there without any."""
    total, found = records.window(asked, window.first, window.count or WINDOW_ROWS_MAX)
    pages = _pages(iter(found), scripts, config)
    first = next(pages, None) or accounting_pb2.ListRecordsReply()
    first.total = total
    yield first
    yield from pages


def _pages(
    records: Iterator[FilterRecord], scripts: JobVisibility, config: Config
) -> Iterator[accounting_pb2.ListRecordsReply]:
    """Yields pages of messages, built in the thread that reads."""
    default = config.penstock_default_account.lower()
    messages = (record_message(record, scripts, config.cluster_name, default) for record in records)
    for page in by_bytes(messages, PAGE_RECORDS, lambda message: message.ByteSize()):
        yield accounting_pb2.ListRecordsReply(records=page)
