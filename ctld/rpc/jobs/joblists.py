"""ListJobs: selects jobs and returns them in pages that are encoded already.

Four forms: whole JobInfo messages (documents, scontrol), columns (tables; jobcolumns.py), a window of the list in an order,
and counts (jobwindows.py).

Many clients send the same query, such as 200 dashboards that poll every two seconds. A table is therefore encoded once
for each (query, commit): the same query before the next commit gets the same bytes, and one that arrives during the
encoding waits for it (keptanswers.py). Tables are never older than the last commit, so users see the jobs that they have
submitted.

A poller of messages names the moment of the answer that it has, and learns that nothing has changed (gate/moments.py).

Visibility is part of the query: with PrivateData=jobs it is limited to what the user may see (gate/visibility.py).
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from ctld.core.records.events import Actor
from ctld.core.records.job import JobRow
from ctld.rpc.gate.moments import AnswerMoments
from ctld.rpc.gate.paging import by_bytes, halved
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.unread import POINTER_BYTES
from ctld.rpc.gate.users import job_filter
from ctld.rpc.gate.visibility import JobVisibility, hidden_partitions, job_visibility
from ctld.rpc.jobs import jobcolumns
from ctld.rpc.jobs.alikejobs import AlikeJobs
from ctld.rpc.jobs.jobcounts import JobCounter
from ctld.rpc.jobs.joborders import REUSE_FACTOR, JobOrders
from ctld.rpc.jobs.jobwindows import is_of_the_time
from ctld.rpc.jobs.keptanswers import AnswerMoment, KeptAnswers
from ctld.rpc.jobs.listing import JobSelection
from ctld.rpc.jobs.shownjobs import ShownJobs
from ctld.runtime.errors import BadRequest
from penstock.v1 import controller_pb2
from penstock.values.jobcolumns import NAMES
from penstock.values.refusals import Code
from penstock.values.varint import text_tag, varint

#: Jobs in one page of messages, and of a table: some 5 ms of work between two turns of the loop.
PAGE_JOBS: Final = 200
PAGE_ROWS: Final = 4_000
#: Cached tables: the queries of a busy site's dashboards, and one of 100,000 jobs.
TABLES_MAX: Final = 256
TABLE_BYTES_MAX: Final = 16 * 1024 * 1024
#: Cached counts.
COUNTS_MAX: Final = 32
_JOBS_TAG: Final = text_tag(controller_pb2.ListJobsReply.DESCRIPTOR.fields_by_name["jobs"].number)


class JobListQuery(NamedTuple):
    """The key of an answer, beside the time."""

    request: bytes
    visibility: JobVisibility
    hidden: frozenset[str]


class JobLists:
    """The listings of one controller."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runtime = services.runtime
        self._scans = services.scans
        self._tables: KeptAnswers[list[bytes]] = KeptAnswers(
            self._scans, TABLES_MAX, TABLE_BYTES_MAX, lambda pages: sum(map(len, pages))
        )
        self._orders = JobOrders(services.runtime, services.scans)
        self._counts: KeptAnswers[list[controller_pb2.JobCount]] = KeptAnswers(
            self._scans, COUNTS_MAX, reuse_factor=REUSE_FACTOR
        )
        self._counter = JobCounter()
        self._moments = AnswerMoments()
        self._alike = AlikeJobs()

    async def pages(self, request: controller_pb2.ListJobsRequest, actor: Actor) -> AsyncIterator[bytes]:
        """Returns the answer. Raises BadRequest."""
        state = self._runtime.core.state
        hidden = hidden_partitions(state, actor) if request.hide_hidden else frozenset()
        known = request.known if request.HasField("known") else None
        request.ClearField("known")  # what a caller has is no part of what it asks for
        question = JobListQuery(
            request.SerializeToString(deterministic=True),
            job_visibility(state, actor),
            hidden,
        )
        if bool(request.columns) + request.HasField("window") + request.counts > 1:
            raise BadRequest(Code.INVALID_VALUE, "columns, a window and counts are three answers: one of them")
        moment = b""
        if known is not None and not request.columns:
            moment = await self._moment_of_answer(request, question)
            if known == moment:
                yield controller_pb2.ListJobsReply(moment=moment, unchanged=True).SerializeToString()
                return
        if request.counts:
            counts, is_of_now = await self._counted(request, question, actor.uid)
            for page in _beginning(moment, is_of_now):
                yield page
            yield controller_pb2.ListJobsReply(counts=counts).SerializeToString()
            return
        if request.columns:
            unknown = next((name for name in request.columns if name not in NAMES), None)
            if unknown is not None:
                raise BadRequest(Code.INVALID_VALUE, f"jobs have no column {unknown[:64]!r}")
            table = await self._table(request, question, actor.uid)
            with self._services.unread.counted_list(actor, sum(map(len, table))):
                for page in table:
                    yield page
            return
        if request.HasField("window"):
            rows, total, is_of_now = await self._window(request, question, actor.uid)
            for page in _beginning(moment, is_of_now):
                yield page
            yield controller_pb2.ListJobsReply(total=total).SerializeToString()
        else:
            for page in _beginning(moment):
                yield page
            async with self._scans.one(actor.uid) as pace:
                rows = await self._rows(request, question, pace)
        with self._services.unread.counted_list(actor, POINTER_BYTES * len(rows)):
            async for page in self._messages(request, rows, actor.uid):
                yield page

    async def _messages(
        self, request: controller_pb2.ListJobsRequest, rows: list[JobRow], uid: int
    ) -> AsyncIterator[bytes]:
        shown = ShownJobs(self._runtime, self._alike, request.detail, request.planned)
        messages = (
            data for first in range(0, len(rows), PAGE_JOBS) for data in shown.encoded(rows[first : first + PAGE_JOBS])
        )
        pace = self._scans.pace(uid)
        await pace.begin()
        for page_of in by_bytes(messages, PAGE_JOBS, len):
            page = b"".join([part for data in page_of for part in (_JOBS_TAG, varint(len(data)), data)])
            pace.end()
            yield page
            await pace.pause()

    async def _moment_of_answer(self, request: controller_pb2.ListJobsRequest, question: JobListQuery) -> bytes:
        """Returns what is the same only while the answer in messages is. Taken before the answer is made: an answer that is
        partly younger has another moment when it is asked for again."""
        which = await job_filter(request.filter, self._services.names)
        at_us = self._runtime.clock_us() if is_of_the_time(request.window) else 0
        return self._moments.of(
            at_us, question.request, question.visibility.uid, sorted(question.visibility.accounts), sorted(question.hidden),
            which, *self._moment(request.planned or request.HasField("window")), self._runtime.core.state.layout.cpus_largest,
        )  # fmt: skip

    # ---- tables --------------------------------------------------------------------------------------------------

    async def _table(self, request: controller_pb2.ListJobsRequest, question: JobListQuery, uid: int) -> list[bytes]:
        async def encoded(pace: ScanPace) -> list[bytes]:
            rows = await self._rows(request, question, pace)
            state, names = self._runtime.core.state, list(dict.fromkeys(request.columns))
            forecast = self._runtime.snapshot.forecast if request.planned else None
            pages: list[bytes] = []
            for first in range(0, len(rows), PAGE_ROWS):
                if first:
                    await pace.pause()
                part = rows[first : first + PAGE_ROWS]
                pages += halved(part, lambda some: jobcolumns.page(some, names, state, forecast))
            return pages

        return (await self._tables.get(uid, question, self._moment(request.planned), encoded)).value

    def _moment(self, is_planned: bool) -> AnswerMoment:
        state, snapshot = self._runtime.core.state, self._runtime.snapshot
        priorities = (state.priorities.at_us if state.priorities is not None else 0, state.priority_generation)
        plan = snapshot.forecast if is_planned else None
        return AnswerMoment(snapshot.revision, priorities, (plan.made_at_us, id(plan)) if plan is not None else None)

    # ---- windows and counts -------------------------------------------------------------------------------------------------

    async def _window(
        self, request: controller_pb2.ListJobsRequest, question: JobListQuery, uid: int
    ) -> "tuple[list[JobRow], int, bool]":
        """Returns the rows of the window, as they are now, the number of all that pass its filter, and whether the order is of
        this moment and not of a while ago."""
        snapshot = self._runtime.snapshot
        selection = await self._selection(request, question)
        window, moment = request.window, self._moment(is_planned=True)
        listed = controller_pb2.ListJobsRequest()
        listed.CopyFrom(request)
        listed.ClearField("window")
        key = question._replace(request=listed.SerializeToString(deterministic=True))
        ids, is_of_now = await self._orders.get(uid, key, selection, window, moment)
        chosen = ids[window.first : window.first + window.count]
        rows = [snapshot.jobs[job_id] for job_id in chosen if job_id in snapshot.jobs]
        return rows, len(ids), is_of_now

    async def _counted(
        self, request: controller_pb2.ListJobsRequest, question: JobListQuery, uid: int
    ) -> tuple[list[controller_pb2.JobCount], bool]:
        """Returns the counts, and whether they are of this moment."""
        moment = AnswerMoment(self._runtime.snapshot.revision)

        async def count(pace: ScanPace) -> list[controller_pb2.JobCount]:
            selection = await self._selection(request, question)
            return await self._counter.counts(self._runtime.snapshot, selection, pace)

        answer = await self._counts.get(uid, question, moment, count)
        return answer.value, answer.moment == moment

    # ---- rows ---------------------------------------------------------------------------------------

    async def _rows(
        self, request: controller_pb2.ListJobsRequest, question: JobListQuery, pace: ScanPace
    ) -> list[JobRow]:
        return await (await self._selection(request, question)).rows(self._runtime.snapshot, pace)

    async def _selection(self, request: controller_pb2.ListJobsRequest, question: JobListQuery) -> JobSelection:
        which = await job_filter(request.filter, self._services.names)
        return JobSelection(question.visibility.narrow(which), request.all_states, question.hidden)


def _beginning(moment: bytes, is_of_now: bool = True) -> Iterator[bytes]:
    """The part of an answer that has its moment, for who has asked for one, and of an answer that is of it."""
    if moment and is_of_now:
        yield controller_pb2.ListJobsReply(moment=moment).SerializeToString()
