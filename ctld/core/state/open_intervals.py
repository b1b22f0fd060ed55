"""Open intervals of history for accounting: nodes/history.py, reservations/spans.py."""

from ctld.core.records.node import NodeEvent
from ctld.core.records.reservation import ReservationSpan


class OpenIntervals:
    """Open intervals, and the nodes and reservations that have to be checked again."""

    __slots__ = ("node_events", "nodes_touched", "reservation_spans", "reservations_touched")

    def __init__(self) -> None:
        self.node_events: dict[str, NodeEvent] = {}  # open ones, by node; "" = the cluster
        self.reservation_spans: dict[str, ReservationSpan] = {}  # of the present or next occurrence, by name
        self.nodes_touched: dict[str, None] = {}  # since the last run
        self.reservations_touched: dict[str, None] = {}
