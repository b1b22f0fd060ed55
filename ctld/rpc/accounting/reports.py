"""Events, reports from roll-ups, runaway jobs and purges, for the Governance service.

All of them read in threads (gate/reading.py). Visibility: with PrivateData=usage a user sees their own usage, a
coordinator that of their accounts, operators all (gate/visibility.py); with PrivateData=events only operators see events.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from accounting.dbrow import DbRow
from accounting.events import EventQuery, events
from accounting.jobreports import REPORTS, JobReportQuery
from accounting.rolling import read_marks
from accounting.rollup import Calendar
from accounting.runaway import RUNAWAY_MAX, active, fix
from accounting.usage import UsageQuery, UsageRowValues, cluster, usage
from ctld.core.state.fairshare import ShareTree
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.neighbours import NeighbourRead
from ctld.rpc.gate.refusals import refuse_as, translated_pages
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import is_private, usage_filter
from ctld.runtime.errors import BadRequest
from ctld.runtime.purging import PurgeOrder
from ctld.store.errors import StoreError
from penstock.v1 import governance_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand_all
from penstock.values.numbers import within_int64
from penstock.values.purging import KINDS, parse_age
from penstock.values.refusals import TEXT, Code
from penstock.values.states import JobState

T = TypeVar("T")

#: Rows of a page.
PAGE_ROWS: Final = 1_000
#: Maximum number of values of one field of a query.
VALUES_MAX: Final = 10_000

_KINDS = governance_pb2.ReportRequest.Kind
#: Reports of the whole cluster, by their data: (connection, calendar, query).
_OF_CLUSTER: dict[int, Callable[[Connection, Calendar, UsageQuery], list[UsageRowValues]]] = {_KINDS.CLUSTER: cluster}
#: Fields of a query that a report does not support. Ignoring them would show too much.
_OF_JOBS: Final = ("nodes", "names", "gids", "job_ids")
_NOT_TAKEN: Final[dict[int, tuple[str, ...]]] = {
    _KINDS.USAGE: _OF_JOBS,
    _KINDS.CLUSTER: (*_OF_JOBS, "accounts", "users", "wckeys", "qos", "partitions"),
}
_WHY_NOT: Final = {
    _KINDS.USAGE: "usage is rolled up by whom, and not by jobs and nodes",
    _KINDS.CLUSTER: "it is of the cluster as a whole",
}


class Reports:
    """The methods about events, usage and old records."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def _read(self, context: Context, work: Callable[[Connection], T], read: NeighbourRead | None = None) -> T:
        """Runs `work` with a connection, in a thread. An invalid query ends the call."""
        try:
            return await (read or self._services.reading.read)(work)
        except BadRequest as error:
            await refuse_as(context, error)

    @translated_pages
    async def ListEvents(
        self, request: governance_pb2.ListEventsRequest, context: Context
    ) -> AsyncIterator[governance_pb2.ListEventsReply]:
        """Returns events in pages."""
        services = self._services
        view = await services.view(request.cluster)
        if is_private(view.state.config, view.actor, "events"):
            return
        uids, unknown = await services.names.uids(list(request.users))
        if unknown:
            return
        ask = EventQuery(
            request.start_at_us,
            request.end_at_us,
            await _nodes_of(request, context),
            tuple(request.states),
            uids,
            tuple(request.reasons),
            request.all_clusters_events,
        )
        found = await self._read(context, lambda connection: events(connection, ask), view.read)
        names = {uid: await services.names.shown(uid) for uid in sorted({row.reason_uid for row in found})}
        for at in range(0, len(found), PAGE_ROWS):
            page = [
                governance_pb2.EventInfo(
                    node=row.node,
                    start_at_us=row.start_at_us,
                    end_at_us=row.end_at_us,
                    state=row.state,
                    reason=row.reason,
                    user=names[row.reason_uid],
                    tres=row.tres,
                    event_type="Node" if row.node else "Cluster",
                )
                for row in found[at : at + PAGE_ROWS]
            ]
            yield governance_pb2.ListEventsReply(events=page)

    @translated_pages
    async def Report(
        self, request: governance_pb2.ReportRequest, context: Context
    ) -> AsyncIterator[governance_pb2.ReportReply]:
        """Returns rows in pages; the first contains the time up to which usage is counted."""
        view = await self._services.view(request.cluster)
        state, actor = view.state, view.actor
        if unclaimed := [name for name in _NOT_TAKEN.get(request.kind, ()) if getattr(request, name)]:
            text = (
                f"report {_KINDS.Name(request.kind)} cannot be restricted by {unclaimed[0]}: {_WHY_NOT[request.kind]}"
            )
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {text}"))
        ask = _asked(state, request)
        calendar = Calendar(state.config.utc_offsets)
        sees = usage_filter(state, actor)
        by_job = REPORTS.get(_KINDS.Name(request.kind))
        if request.kind == _KINDS.USAGE:
            found = await self._read(context, lambda c: (usage(c, calendar, ask, sees), read_marks(c)), view.read)
        elif request.kind in _OF_CLUSTER:
            make = _OF_CLUSTER[request.kind]
            found = await self._read(context, lambda c: (make(c, calendar, ask), read_marks(c)), view.read)
        elif by_job is not None and not (
            request.kind == _KINDS.RESERVATIONS and is_private(state.config, actor, "reservations")
        ):
            default, now_us = state.config.penstock_default_account.lower(), self._services.runtime.clock_us()
            nodes, sees_jobs = await _nodes_of(request, context), usage_filter(state, actor, "usage", "jobs")
            more = _job_ask(request, ask, nodes, default, now_us)
            found = await self._read(context, lambda c: (by_job(c, more, sees_jobs), read_marks(c)), view.read)
        else:
            await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, f"Report {request.kind}"))
        rows, marks = found
        for at in range(0, max(1, len(rows)), PAGE_ROWS):
            yield governance_pb2.ReportReply(
                rows=[
                    governance_pb2.ReportRow(keys=row.keys, tres=row.tres, values=map(within_int64, row.values))
                    for row in rows[at : at + PAGE_ROWS]
                ],
                rolled_up_to_us=marks.cursor_us if at == 0 else 0,
            )

    async def ListRunaway(
        self, request: governance_pb2.ListRunawayRequest, context: Context
    ) -> governance_pb2.ListRunawayReply:
        """Returns the attempts that are active in the database and unknown to the controller."""
        found = await self._runaway(context)
        jobs = [
            governance_pb2.RunawayJob(
                job_id=row.job_id, attempt=row.attempt, name=row.name, partition=row.partition,
                state=JobState(row.state).name, submit_at_us=row.submit_at_us, start_at_us=row.start_at_us,
                end_at_us=row.end_at_us, user=row.user_name, account=row.account,
            )
            for row in found[:RUNAWAY_MAX]
        ]  # fmt: skip
        return governance_pb2.ListRunawayReply(jobs=jobs)

    async def _runaway(self, context: Context) -> list[DbRow]:
        """Reads the rows first, then the controller's jobs: a job that is submitted meanwhile is in both."""
        found = await self._read(context, active)
        look = self._services.runtime.core.state.jobs.look
        return [row for row in found if (job := look(row.job_id)) is None or job.attempt != row.attempt]

    async def FixRunaway(
        self, request: governance_pb2.FixRunawayRequest, context: Context
    ) -> governance_pb2.FixRunawayReply:
        """Ends runaway attempts: all that are listed now, or those of these ids."""
        wanted = set(request.job_ids)
        # When this is durable everything before it is: no job that has ended meanwhile has an active row any more.
        await self._services.record("fix runaway jobs", tuple(f"job {job_id}" for job_id in sorted(wanted)))
        found = [(row.job_id, row.attempt) for row in await self._runaway(context)]
        chosen = [key for key in found if not wanted or key[0] in wanted]
        fixed = await self._services.rollups.write(lambda connection: fix(connection, chosen)) if chosen else 0
        return governance_pb2.FixRunawayReply(fixed=fixed)

    async def Purge(self, request: governance_pb2.PurgeRequest, context: Context) -> governance_pb2.PurgeReply:
        """Deletes old records, or only counts them; answers when that is done."""
        try:
            ages = {kind: parse_age(text, kind) for kind, text in request.after.items()}
            if unknown := sorted(set(ages) - set(KINDS)):
                raise BadValue(f"{unknown[0]}: known are {', '.join(KINDS)}")
            _check_path(request.archive_folder, "the archive's folder")
            if not request.check_only:
                await self._services.record("purge", tuple(sorted(ages)), asked=_asked_to_purge(request))
            gone, files = await self._services.rollups.purge(
                PurgeOrder(ages, request.archive_folder, check_only=request.check_only)
            )
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        except (OSError, StoreError) as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"the purge has stopped: {error}"))
        return governance_pb2.PurgeReply(records=gone, files=files)

    async def LoadArchive(
        self, request: governance_pb2.LoadArchiveRequest, context: Context
    ) -> governance_pb2.LoadArchiveReply:
        """Loads records of a file that Purge has written."""
        try:
            _check_path(request.file or ".", "the archive")
            await self._services.record("load archive", (request.file,))
            number = await self._services.rollups.load_archive(request.file)
        except (BadValue, OSError, StoreError) as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"the archive cannot be read in: {error}"))
        return governance_pb2.LoadArchiveReply(records=number)


def _asked(state: ClusterState, request: governance_pb2.ReportRequest) -> UsageQuery:
    """Returns the query, with the accounts below the named ones, and users by name."""
    accounts = dict.fromkeys(name.lower() for name in request.accounts)
    if request.with_subaccounts:
        tree = state.shares
        for name in list(accounts):
            accounts.update(dict.fromkeys(_below(tree, name)))
    return UsageQuery(
        request.start_at_us, request.end_at_us, tuple(request.group_by), tuple(request.tres), tuple(accounts)[:VALUES_MAX],
        tuple(request.users), tuple(request.wckeys), tuple(request.qos), tuple(request.partitions),
    )  # fmt: skip


async def _nodes_of(
    request: governance_pb2.ReportRequest | governance_pb2.ListEventsRequest, context: Context
) -> frozenset[str]:
    """Returns the nodes of a request. An invalid list ends the call."""
    try:
        return frozenset(expand_all(request.nodes))
    except BadValue as error:
        await refuse_as(context, BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}"))


def _check_path(path: str, what: str) -> None:
    """Refuses paths in the controller's own working folder. Raises BadValue."""
    if path and not path.startswith("/"):
        raise BadValue(f"{what}: give the whole path on the controller's host, from / on")


def _asked_to_purge(request: governance_pb2.PurgeRequest) -> dict[str, str]:
    folder = {"archive_folder": request.archive_folder} if request.archive_folder else {}
    return dict(sorted(request.after.items())) | folder


def _job_ask(
    request: governance_pb2.ReportRequest, base: UsageQuery, nodes: frozenset[str], default_account: str, now_us: int
) -> JobReportQuery:
    return JobReportQuery(
        base,
        tuple(request.bounds),
        request.sizes_in_nodes,
        nodes,
        tuple(request.names),
        tuple(request.gids),
        request.each_size,
        tuple(request.job_ids),
        default_account,
        now_us,
    )


def _below(tree: ShareTree, name: str) -> list[str]:
    """Returns all accounts below one, at any depth."""
    found: list[str] = []
    for account, assoc in tree.accounts.items():
        above = assoc.parent
        while above is not None:
            if above.account == name:
                found.append(account)
                break
            above = above.parent
    return found
