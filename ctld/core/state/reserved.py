"""Derived state of active reservations; the reservations themselves are `ClusterState.reservations`."""

# Any: values of a room above, whose types may not be imported here
from typing import Any


class Reserved:
    """The derived state. Kept by the state's own mutators, reservations/ and lifecycle/reservation_life.py."""

    __slots__ = ("had_magnetic", "jobs", "nodes_due", "revision", "view")

    def __init__(self) -> None:
        self.jobs: dict[str, dict[int, None]] = {}  # name -> jobs that hold resources in it
        self.view: Any = None  # the planner's last view; None = something has changed since
        self.had_magnetic = False  # pending jobs may have rows for reservations that they do not request
        self.nodes_due = False  # a node has changed since they were checked
        self.revision = 0  # plans older than this do not include present reservations
