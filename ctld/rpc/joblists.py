"""ListJobs: the jobs that somebody asks for, in pages that are encoded already.

Two forms: whole JobInfo messages (documents, scontrol), and columns (tables; jobcolumns.py).

Many ask the same at the same time: 200 dashboards that poll every two seconds. A table is therefore made once for each
(question, commit): whoever asks the same before anything has changed is given the same bytes, and whoever asks while
they are being made waits for them. Nothing is ever older than the last commit, so who has submitted a job sees it.

Who may see what is part of the question: whom PrivateData=jobs keeps others' from asks for what he may see (sight.py).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, NamedTuple

from ctld.core import priority
from ctld.core.events import Actor
from ctld.core.model import JobRow
from ctld.rpc import jobcolumns, jobinfo
from ctld.rpc.listing import select_rows
from ctld.rpc.refusals import BadRequest
from ctld.rpc.services import Services
from ctld.rpc.sight import JobSight, hidden_partitions, job_sight
from ctld.rpc.users import job_filter
from penstock.values.jobcolumns import NAMES
from penstock.values.refusals import Code
from penstock.values.states import END_STATES

#: Jobs in one page of messages, and of a table: some 5 ms of work between two turns of the loop.
PAGE_JOBS: Final = 200
PAGE_ROWS: Final = 4_000
#: Tables that are kept: the questions of a busy site's dashboards, and one of 100,000 jobs.
TABLES_MAX: Final = 256
TABLE_BYTES_MAX: Final = 16 * 1024 * 1024
#: JobInfo is field 1 of ListJobsReply: its tag and wire type, before a length.
_JOBS_TAG: Final = b"\x0a"
#: JobInfo.priority is field 14, a varint. Of two values of one field the last counts.
_PRIORITY_TAG: Final = b"\x70"


class Question(NamedTuple):
    """What decides about an answer, beside the moment."""

    request: bytes
    sight: JobSight
    hidden: frozenset[str]


class JobLists:
    """The listings of one controller."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime
        self._moment: tuple[Any, ...] = ()
        self._tables: dict[Question, asyncio.Future[list[bytes]]] = {}  # of this moment
        self._bytes = 0

    async def pages(self, request: Any, actor: Actor) -> AsyncIterator[bytes]:
        """The answer. Raises BadRequest."""
        state = self._runtime.core.state
        hidden = hidden_partitions(state, actor) if request.hide_hidden else frozenset()
        question = Question(
            request.SerializeToString(deterministic=True),
            job_sight(state, actor),
            hidden,
        )
        if request.columns:
            unknown = next((name for name in request.columns if name not in NAMES), None)
            if unknown is not None:
                raise BadRequest(Code.INVALID_VALUE, f"jobs have no column {unknown[:64]!r}")
            for page in await self._shared(request, question):
                yield page
            return
        snapshot = self._runtime.snapshot
        rows = await self._rows(request, question)
        for first in range(0, len(rows), PAGE_JOBS):
            chosen = rows[first : first + PAGE_JOBS]
            page_of = [self._encoded(row, request.detail) + self._priority(row) for row in chosen]
            if request.planned:
                plans = (jobinfo.planned(row, snapshot.forecast) for row in chosen)
                page_of = [data + plan for data, plan in zip(page_of, plans, strict=True)]
            yield b"".join([part for data in page_of for part in (_JOBS_TAG, _varint(len(data)), data)])
            await asyncio.sleep(0)

    # ---- tables --------------------------------------------------------------------------------------------------

    async def _shared(self, request: Any, question: Question) -> list[bytes]:
        state, snapshot = self._runtime.core.state, self._runtime.snapshot
        generation = (state.priorities.at_us if state.priorities is not None else 0, state.priority_generation)
        moment = (snapshot.revision, generation, id(snapshot.forecast) if request.planned else 0)
        if moment[:2] != self._moment[:2]:
            self._tables.clear()
            self._moment, self._bytes = moment, 0
        found = self._tables.get(question)
        if found is None or (request.planned and moment != self._moment):
            found = asyncio.ensure_future(self._table(request, question))
            if len(self._tables) < TABLES_MAX and self._bytes < TABLE_BYTES_MAX:
                self._tables[question] = found
                found.add_done_callback(lambda made: self._count(question, made))
            self._moment = moment
        return await asyncio.shield(found)

    def _count(self, question: Question, made: "asyncio.Future[list[bytes]]") -> None:
        if made.cancelled() or made.exception() is not None:
            if self._tables.get(question) is made:
                del self._tables[question]
        elif self._tables.get(question) is made:
            self._bytes += sum(map(len, made.result()))

    async def _table(self, request: Any, question: Question) -> list[bytes]:
        rows = await self._rows(request, question)
        state, names = self._runtime.core.state, list(dict.fromkeys(request.columns))
        forecast = self._runtime.snapshot.forecast if request.planned else None
        pages = []
        for first in range(0, len(rows), PAGE_ROWS):
            if first:
                await asyncio.sleep(0)
            pages.append(jobcolumns.page(rows[first : first + PAGE_ROWS], names, state, forecast))
        return pages

    # ---- rows and messages ---------------------------------------------------------------------------------------

    async def _rows(self, request: Any, question: Question) -> list[JobRow]:
        which = await job_filter(request.filter, self._services.names)
        which = question.sight.narrow(which)
        rows = await select_rows(self._runtime.snapshot, which, request.all_states)
        if question.hidden and not which.ids:
            rows = [row for row in rows if not _is_hidden(row, question.hidden)]
        return rows

    def _encoded(self, row: JobRow, detail: bool) -> bytes:
        if detail:
            return jobinfo.job_info(row, True, self._runtime.core.state.nodes).SerializeToString()
        data = self._runtime.snapshot.encoded(row)
        if data is None:
            data = jobinfo.job_info(row, False).SerializeToString()
            self._runtime.snapshot.keep(row, data)
        return data

    def _priority(self, row: JobRow) -> bytes:
        """The number of now behind the encoded job, whose own it replaces: a calculation encodes no job anew."""
        state = self._runtime.core.state
        job = state.jobs.get(row.job_id)
        if state.priorities is None or job is None or row.hold or row.state in END_STATES:
            return b""
        return _PRIORITY_TAG + _varint(priority.current(state, job))


def _is_hidden(row: JobRow, hidden: Iterable[str]) -> bool:
    return all(name in hidden for name in jobcolumns.partition_of(row).split(","))


def _varint(number: int) -> bytes:
    """A length as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
