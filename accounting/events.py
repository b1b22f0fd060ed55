"""Reads events from the database: when nodes, or the cluster, were not up."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, or_, select

from accounting.dbrow import DbRow
from accounting.tables import NODE_EVENT

#: Events in one answer.
EVENTS_MAX = 100_000


class EventQuery(NamedTuple):
    """A query of events that were at some time of [start, end]; 0 = no bound. Of several values of one field one must
    hold.
    """

    start_at_us: int = 0
    end_at_us: int = 0
    nodes: frozenset[str] = frozenset()
    states: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    ended_too: bool = False  # else only those that have not ended


def events(connection: Connection, ask: EventQuery) -> Sequence[DbRow]:
    """Yields rows of `node_event`, by node and start."""
    columns = NODE_EVENT.c
    query = select(NODE_EVENT)
    if not ask.ended_too:
        query = query.where(columns.end_at_us == 0)
    if ask.start_at_us:
        query = query.where(or_(columns.end_at_us == 0, columns.end_at_us >= ask.start_at_us))
    if ask.end_at_us:
        query = query.where(columns.start_at_us <= ask.end_at_us)
    if ask.uids:
        query = query.where(columns.reason_uid.in_(ask.uids), columns.node != "")
    if ask.reasons:
        query = query.where(columns.reason.in_(ask.reasons))
    found = connection.execute(query.order_by(columns.node, columns.start_at_us).limit(EVENTS_MAX)).all()
    wanted = {state.upper() for state in ask.states}
    return [
        row
        for row in found
        if (not ask.nodes or row.node in ask.nodes) and (not wanted or wanted & {row.state, *row.state.split("+")})
    ]
