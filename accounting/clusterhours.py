"""Computes hours of the cluster from its events: its capacity, and the part that was down or planned. Reads only; the
caller writes.

Resources of a reservation with MAINT are planned to be down while it lasts: not with IGNORE_JOBS, as in Slurm, since
jobs may run in it. Its row has the resources of each node (`node_tres`). Rows of older programs have only the total of
its nodes; each of them counts with its part of that.
"""

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, func, or_, select

from accounting.dbrow import DbRow
from accounting.rollup import HOUR_US, ClusterHour, Span, amounts_of, cluster_hour
from accounting.tables import NODE_EVENT, RESERVATION_SPAN
from penstock.values.hostlist import expand
from penstock.values.reservations import ResvFlag

Hours = list[tuple[int, dict[str, ClusterHour]]]


def count_hours(connection: Connection, from_us: int, until_us: int, hours_max: int) -> tuple[Hours, int]:
    """Counts up to `hours_max` hours from `from_us`; returns also where the next one begins. Hours without events are
    left out.
    """
    first_us = connection.execute(select(func.min(NODE_EVENT.c.start_at_us)).where(NODE_EVENT.c.node == "")).scalar()
    if first_us is None or first_us >= until_us:
        return [], until_us
    at_us = max(from_us, first_us - first_us % HOUR_US)
    until_us = min(until_us, at_us + hours_max * HOUR_US)
    had, away, down = _events(connection, at_us, until_us)
    planned = _planned(connection, at_us, until_us)
    found = []
    for hour_us in range(at_us, until_us, HOUR_US):
        found.append((hour_us, cluster_hour(hour_us, had, down, away, planned)))
    return found, until_us


def _events(
    connection: Connection, from_us: int, until_us: int
) -> tuple[list[Span], list[tuple[int, int]], dict[str, list[Span]]]:
    had: list[Span] = []
    away: list[tuple[int, int]] = []
    down: dict[str, list[Span]] = {}
    goes_on = or_(NODE_EVENT.c.end_at_us == 0, NODE_EVENT.c.end_at_us > from_us)
    asked = select(NODE_EVENT).where(goes_on, NODE_EVENT.c.start_at_us < until_us)
    for event in connection.execute(asked.order_by(NODE_EVENT.c.node, NODE_EVENT.c.start_at_us)):
        span = Span(event.start_at_us, event.end_at_us, dict(amounts_of(event.tres)))
        if event.node:
            down.setdefault(event.node, []).append(span)
        elif event.state:
            away.append((event.start_at_us, event.end_at_us))
        else:
            had.append(span)
    return had, away, down


def _planned(connection: Connection, from_us: int, until_us: int) -> dict[str, list[Span]]:
    """Maintenance, by node."""
    table = RESERVATION_SPAN.c
    asked = select(RESERVATION_SPAN).where(table.end_at_us > from_us, table.start_at_us < until_us)
    found: dict[str, list[Span]] = {}
    for row in connection.execute(asked.order_by(table.resv_id, table.start_at_us)):
        if row.flags & ResvFlag.MAINT and not row.flags & ResvFlag.IGNORE_JOBS:
            for name, amounts in _of_nodes(row):
                found.setdefault(name, []).append(Span(row.start_at_us, row.end_at_us, amounts))
    return found


def _of_nodes(row: DbRow) -> Iterator[tuple[str, Mapping[str, int]]]:
    if row.node_tres:
        for line in row.node_tres.splitlines():
            nodes, _, tres = line.partition(" ")
            amounts = dict(amounts_of(tres))
            yield from ((name, amounts) for name in expand(nodes))
        return
    names = expand(row.nodes) if row.nodes else []
    for i, name in enumerate(names):
        # Integer division of the remainders, so that the parts add up to the total.
        yield (
            name,
            {what: amount * (i + 1) // len(names) - amount * i // len(names) for what, amount in amounts_of(row.tres)},
        )
