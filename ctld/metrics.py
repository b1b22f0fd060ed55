"""Counters of the controller, in memory: what the loop, the links and the services have done.

One object, plain integers, one thread. An exporter is another module's business; a test reads them directly.
"""


class Metrics:
    """Everything counted since the start."""

    __slots__ = (
        "batches", "commands_sent", "commit_us_total", "commits", "effects", "events", "inbox_full", "links_dropped",
        "links_opened", "plans", "reports", "rows", "spec_hits", "spec_misses", "storage_full", "submits",
    )  # fmt: skip

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    batches: int  # sealed
    commands_sent: int
    commit_us_total: int
    commits: int
    effects: int
    events: int
    inbox_full: int  # requests refused because too many were waiting
    links_dropped: int  # by us: silent, overfull or superseded
    links_opened: int
    plans: int
    reports: int
    rows: int
    spec_hits: int
    spec_misses: int
    storage_full: int  # commits tried in vain
    submits: int

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}
