"""The event in progress: its remaining slices, and whether it has changed anything."""

from collections.abc import Iterator

from penstock.values.allowance import ALLOWED, Allowance


class Handling:
    """State of the event in progress. Reset by the controller's `step` for every event."""

    __slots__ = ("allowance", "quarantined", "expanded", "is_applied", "unexpected", "unfinished")

    def __init__(self) -> None:
        self.is_applied = False  # `ClusterState.applying` has been called
        self.allowance = Allowance()
        self.expanded: dict[str, tuple[str, ...]] = {}  # lists of nodes in the request, by text
        self.unfinished: Iterator[None] | None = None  # its remaining slices (Core.begin)
        self.unexpected: list[Exception] = []  # errors so far that have refused one request each
        self.quarantined: frozenset[tuple[str, int | str]] = frozenset()  # timers that are skipped (events.Quarantine)

    def take_unexpected(self) -> list[Exception]:
        """Removes and returns these errors, to be reported once."""
        taken = self.unexpected
        self.unexpected = []
        return taken

    def next_target(self) -> None:
        """Marks one of a request's many jobs as done."""
        self.is_applied = False

    def begin(self) -> None:
        """Resets the state for an event."""
        self.is_applied = False
        self.allowance.left = ALLOWED
        if self.expanded:
            self.expanded = {}
