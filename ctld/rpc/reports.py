"""Of the Governance service: events, reports from roll-ups, runaway jobs, purges.

All of them read in threads (reading.py). Who sees what: with PrivateData=usage a
user sees his own usage, a coordinator that of his accounts, operators all (sight.py says so in one place); with
PrivateData=events only operators see events.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from accounting.events import EventAsk, events
from accounting.jobreports import REPORTS, JobAsk
from accounting.rolling import read_marks
from accounting.rollup import Calendar
from accounting.runaway import RUNAWAY_MAX, active, fix
from accounting.usage import Row, UsageAsk, cluster, usage
from ctld.rpc.auth import caller
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from ctld.rpc.sight import is_private, usage_filter
from ctld.runtime.purging import Order
from ctld.store.errors import StoreError
from penstock.v1 import governance_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.purging import KINDS, parse_age
from penstock.values.refusals import TEXT, Code
from penstock.values.states import JobState

T = TypeVar("T")

#: Rows of a page.
PAGE_ROWS: Final = 1_000
#: Values of one field of a question.
VALUES_MAX: Final = 10_000

_KINDS = governance_pb2.ReportRequest.Kind
#: Reports of the whole cluster, by what they are made from: (connection, calendar, question).
_OF_CLUSTER: dict[int, Callable[[Connection, Calendar, UsageAsk], list[Row]]] = {_KINDS.CLUSTER: cluster}
#: Fields of a question that a report has no answer to. To leave them out would show too much as if it was that.
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
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def _read(self, context: Any, work: Callable[[Connection], T]) -> T:
        """`work` with a connection, in a thread. What is wrong ends the call."""
        try:
            return await self._services.reading.read(work)
        except BadRequest as error:
            await refuse_as(context, error)

    async def ListEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Events in pages."""
        services = self._services
        if is_private(services.runtime.core.state.config, caller(), "events"):
            return
        uids, unknown = await services.names.uids(list(request.users))
        if unknown:
            return
        ask = EventAsk(
            request.start_at_us,
            request.end_at_us,
            await _nodes_of(request, context),
            tuple(request.states),
            uids,
            tuple(request.reasons),
            request.all_clusters_events,
        )
        found = await self._read(context, lambda connection: events(connection, ask))
        names = {uid: await services.names.name(uid) for uid in sorted({row.reason_uid for row in found})}
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

    async def Report(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Rows in pages; the first says how far usage is counted."""
        state, actor = self._services.runtime.core.state, caller()
        if untaken := [name for name in _NOT_TAKEN.get(request.kind, ()) if getattr(request, name)]:
            text = f"report {_KINDS.Name(request.kind)} cannot be asked for by {untaken[0]}: {_WHY_NOT[request.kind]}"
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {text}"))
        ask = self._asked(request)
        calendar = Calendar(state.config.utc_offsets)
        sees = usage_filter(state, actor)
        by_job = REPORTS.get(_KINDS.Name(request.kind))
        if request.kind == _KINDS.USAGE:
            found = await self._read(context, lambda c: (usage(c, calendar, ask, sees), read_marks(c)))
        elif request.kind in _OF_CLUSTER:
            make = _OF_CLUSTER[request.kind]
            found = await self._read(context, lambda c: (make(c, calendar, ask), read_marks(c)))
        elif by_job is not None and not (
            request.kind == _KINDS.RESERVATIONS and is_private(state.config, actor, "reservations")
        ):
            default, now_us = state.config.penstock_default_account.lower(), self._services.runtime.clock_us()
            nodes, sees_jobs = await _nodes_of(request, context), usage_filter(state, actor, "usage", "jobs")
            more = _job_ask(request, ask, nodes, default, now_us)
            found = await self._read(context, lambda c: (by_job(c, more, sees_jobs), read_marks(c)))
        else:
            await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, f"Report {request.kind}"))
        rows, marks = found
        for at in range(0, max(1, len(rows)), PAGE_ROWS):
            yield governance_pb2.ReportReply(
                rows=[
                    governance_pb2.ReportRow(keys=row.keys, tres=row.tres, values=row.values)
                    for row in rows[at : at + PAGE_ROWS]
                ],
                rolled_up_to_us=marks.cursor_us if at == 0 else 0,
            )

    def _asked(self, request: Any) -> UsageAsk:
        """The question, with the accounts below those that are named, and users by name."""
        accounts = dict.fromkeys(name.lower() for name in request.accounts)
        if request.with_subaccounts:
            tree = self._services.runtime.core.state.shares
            for name in list(accounts):
                accounts.update(dict.fromkeys(_below(tree, name)))
        return UsageAsk(
            request.start_at_us, request.end_at_us, tuple(request.group_by), tuple(request.tres), tuple(accounts)[:VALUES_MAX],
            tuple(request.users), tuple(request.wckeys), tuple(request.qos), tuple(request.partitions),
        )  # fmt: skip

    async def ListRunaway(self, request: Any, context: Any) -> Any:
        """Attempts that the database has as active and the controller does not know."""
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

    async def _runaway(self, context: Any) -> list[Any]:
        """First the rows, then what the controller knows: a job that comes meanwhile is in both."""
        found = await self._read(context, active)
        jobs = self._services.runtime.core.state.jobs
        return [row for row in found if row.job_id not in jobs or jobs[row.job_id].attempt != row.attempt]

    async def FixRunaway(self, request: Any, context: Any) -> Any:
        """Give them an end: all that are listed now, or those of these ids."""
        wanted = set(request.job_ids)
        # When this is durable all that came before it is: no row is active any more of a job that has ended meanwhile.
        await self._services.record("fix runaway jobs", tuple(f"job {job_id}" for job_id in sorted(wanted)))
        found = [(row.job_id, row.attempt) for row in await self._runaway(context)]
        chosen = [key for key in found if not wanted or key[0] in wanted]
        fixed = await self._services.rollups.write(lambda connection: fix(connection, chosen)) if chosen else 0
        return governance_pb2.FixRunawayReply(fixed=fixed)

    async def Purge(self, request: Any, context: Any) -> Any:
        """What is old goes, or is counted only; it answers when that is done."""
        try:
            ages = {kind: parse_age(text, kind) for kind, text in request.after.items()}
            if unknown := sorted(set(ages) - set(KINDS)):
                raise BadValue(f"{unknown[0]}: known are {', '.join(KINDS)}")
            _check_path(request.archive_folder, "the archive's folder")
            if not request.check_only:
                await self._services.record("purge", tuple(sorted(ages)), asked=_asked_to_purge(request))
            gone, files = await self._services.rollups.purge(
                Order(ages, request.archive_folder, check_only=request.check_only)
            )
        except BadValue as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}"))
        except (OSError, StoreError) as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"the purge has stopped: {error}"))
        return governance_pb2.PurgeReply(records=gone, files=files)

    async def LoadArchive(self, request: Any, context: Any) -> Any:
        """Records of a file that Purge has written."""
        try:
            _check_path(request.file or ".", "the archive")
            await self._services.record("load archive", (request.file,))
            number = await self._services.rollups.load_archive(request.file)
        except (BadValue, OSError, StoreError) as error:
            await refuse_as(context, BadRequest(Code.INVALID_VALUE, f"the archive cannot be read in: {error}"))
        return governance_pb2.LoadArchiveReply(records=number)


async def _nodes_of(request: Any, context: Any) -> frozenset[str]:
    """The nodes that a request names. What is no list of nodes ends the call."""
    try:
        return frozenset(name for text in request.nodes for name in expand(text))
    except BadValue as error:
        await refuse_as(context, BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}"))


def _check_path(path: str, what: str) -> None:
    """The controller's own working folder is nobody's business. Raises BadValue."""
    if path and not path.startswith("/"):
        raise BadValue(f"{what}: give the whole path on the controller's host, from / on")


def _asked_to_purge(request: Any) -> dict[str, str]:
    folder = {"archive_folder": request.archive_folder} if request.archive_folder else {}
    return dict(sorted(request.after.items())) | folder


def _job_ask(request: Any, base: UsageAsk, nodes: frozenset[str], default_account: str, now_us: int) -> JobAsk:
    return JobAsk(
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


def _below(tree: Any, name: str) -> list[str]:
    """The accounts below one, all the way down."""
    found: list[str] = []
    for account, assoc in tree.accounts.items():
        above = assoc.parent
        while above is not None:
            if above.account == name:
                found.append(account)
                break
            above = above.parent
    return found
