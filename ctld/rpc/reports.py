"""Of the Governance service: events, reports from roll-ups, runaway jobs, purges.

All of them read in threads (reading.py). Who sees what: with PrivateData=usage a
user sees his own usage, a coordinator that of his accounts, operators all (sight.py says so in one place); with
PrivateData=events only operators see events.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from accounting.events import EventAsk, events
from accounting.rolling import read_marks
from accounting.rollup import Calendar
from accounting.usage import Row, UsageAsk, cluster, usage
from ctld.rpc.auth import caller
from ctld.rpc.refusals import BadRequest, refuse_as
from ctld.rpc.services import Services
from ctld.rpc.sight import is_private, usage_filter
from penstock.v1 import governance_pb2
from penstock.values.hostlist import expand
from penstock.values.refusals import Code

T = TypeVar("T")

#: Rows of a page.
PAGE_ROWS: Final = 1_000
#: Values of one field of a question.
VALUES_MAX: Final = 10_000

_KINDS = governance_pb2.ReportRequest.Kind
#: Reports of the whole cluster, by what they are made from: (connection, calendar, question).
_OF_CLUSTER: dict[int, Callable[[Connection, Calendar, UsageAsk], list[Row]]] = {_KINDS.CLUSTER: cluster}


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
            frozenset(name for text in request.nodes for name in expand(text)),
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
        ask = self._asked(request)
        calendar = Calendar(state.config.utc_offsets)
        sees = usage_filter(state, actor)
        if request.kind == _KINDS.USAGE:
            found = await self._read(context, lambda c: (usage(c, calendar, ask, sees), read_marks(c)))
        elif request.kind in _OF_CLUSTER:
            make = _OF_CLUSTER[request.kind]
            found = await self._read(context, lambda c: (make(c, calendar, ask), read_marks(c)))
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
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "ListRunaway"))

    async def FixRunaway(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "FixRunaway"))

    async def Purge(self, request: Any, context: Any) -> Any:
        """See proto/penstock/v1/governance.proto."""
        await refuse_as(context, BadRequest(Code.NOT_SUPPORTED, "Purge"))


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
