"""Hours of the cluster from its events: what it had, what of it was down or planned to be. Reads; the caller writes."""

from sqlalchemy import Connection, func, or_, select

from accounting.rollup import HOUR_US, ClusterHour, Reserved, Span, amounts_of, cluster_hour
from accounting.tables import NODE_EVENT, RESERVATION_SPAN
from penstock.values.hostlist import expand
from penstock.values.reservations import ResvFlag

Hours = list[tuple[int, dict[str, ClusterHour]]]


def count_hours(connection: Connection, from_us: int, until_us: int, hours_max: int) -> tuple[Hours, int]:
    """Up to `hours_max` hours from `from_us`, and where the next one begins. What no event tells of is left out."""
    first_us = connection.execute(select(func.min(NODE_EVENT.c.start_at_us)).where(NODE_EVENT.c.node == "")).scalar()
    if first_us is None or first_us >= until_us:
        return [], until_us
    at_us = max(from_us, first_us - first_us % HOUR_US)
    until_us = min(until_us, at_us + hours_max * HOUR_US)
    had, away, down = _events(connection, at_us, until_us)
    reserved = _reserved(connection, at_us, until_us)
    found = []
    for hour_us in range(at_us, until_us, HOUR_US):
        found.append((hour_us, cluster_hour(hour_us, had, down, away, reserved)))
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


def _reserved(connection: Connection, from_us: int, until_us: int) -> list[Reserved]:
    """Maintenance: nodes that are planned to be down."""
    table = RESERVATION_SPAN.c
    asked = select(RESERVATION_SPAN).where(table.end_at_us > from_us, table.start_at_us < until_us)
    return [
        Reserved(row.start_at_us, row.end_at_us, dict(amounts_of(row.tres)), frozenset(expand(row.nodes)))
        for row in connection.execute(asked.order_by(table.resv_id, table.start_at_us))
        if row.flags & ResvFlag.MAINT
    ]
