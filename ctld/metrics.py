"""In-memory counters of the controller: of the loop, the links and the services.

`Metrics` counts since the start. `Diagnostics` is what sdiag shows: jobs, scheduling passes and calls since its last
reset.

One object, plain integers, one thread. `ctld/observe` shows them over HTTP; tests read them directly.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

#: Classes of short times, in microseconds: of commits, passes and turns of the loop.
SHORT_BOUNDS_US: Final = (
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000,
)  # fmt: skip


class Histogram:
    """Observations by class, since the start. `bounds` are the inclusive upper ends of all classes but the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int] = SHORT_BOUNDS_US) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0  # sum of the observations

    def count(self, value: int) -> None:
        """Counts one observation, in the unit of the bounds."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Exemplar(NamedTuple):
    """One observation of a class, and the trace that tells more of it."""

    value: int
    trace_id: str
    at_us: int


class TracedHistogram(Histogram):
    """A histogram with the last traced observation of each class."""

    __slots__ = ("exemplars",)

    def __init__(self, bounds: Sequence[int] = SHORT_BOUNDS_US) -> None:
        super().__init__(bounds)
        self.exemplars: list[Exemplar | None] = [None] * len(self.counts)

    def trace(self, found: Exemplar) -> None:
        """Keeps an observation, which `count` counts besides."""
        self.exemplars[bisect_left(self.bounds, found.value)] = found


class Metrics:
    """Everything counted since the start."""

    __slots__ = (
        "batches", "commands_sent", "commit_us_total", "commits", "effects", "events", "inbox_full", "links_dropped",
        "links_opened", "plans", "reports", "rows", "spans_dropped", "spans_sent", "spared", "spec_hits", "spec_misses",
        "storage_away", "storage_full", "submits",
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
    inbox_full: int  # requests refused because too many were pending
    links_dropped: int  # by us: silent, overfull or superseded
    links_opened: int
    plans: int
    reports: int
    rows: int
    spans_dropped: int  # of traces: more than the queue holds, or refused
    spans_sent: int
    spared: int  # requests refused for an internal error, before anything was changed
    spec_hits: int
    spec_misses: int
    storage_away: int  # commits and renewals of the lease attempted while the database's server did not answer
    storage_full: int  # failed commits
    submits: int

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Durations:
    """How long things take, since the start."""

    __slots__ = ("commits", "full_passes", "quick_passes", "submissions")

    def __init__(self) -> None:
        self.commits = Histogram()
        self.full_passes = Histogram()
        self.quick_passes = Histogram()
        self.submissions = TracedHistogram()  # from the request until it is in the database


class CallOutcomes:
    """Calls by method and gRPC status, since the start. Both are known names: there are some hundred pairs."""

    __slots__ = ("by_outcome",)

    def __init__(self) -> None:
        self.by_outcome: dict[tuple[str, str], int] = {}

    def count(self, method: str, status: str) -> None:
        """Counts a call that has ended."""
        key = method, status
        self.by_outcome[key] = self.by_outcome.get(key, 0) + 1


class Passes:
    """Passes of one kind: of scheduling, or of the roll-up of usage; times in microseconds."""

    __slots__ = ("cycles", "depth", "last_depth", "last_queue", "last_us", "max_us", "queue", "table", "total_us")

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    cycles: int
    depth: int  # total of rows examined
    last_depth: int
    last_queue: int  # rows that were ready to start
    last_us: int
    max_us: int
    queue: int  # sum of the queue lengths
    table: int  # planned starts of the last one
    total_us: int

    def count(self, took_us: int, depth: int, queue: int, table: int = 0) -> None:
        """Counts one pass that has ended."""
        self.cycles += 1
        self.last_us = took_us
        self.last_depth = depth
        self.last_queue = queue
        self.table = table
        self.max_us = max(self.max_us, took_us)
        self.total_us += took_us
        self.depth += depth
        self.queue += queue


#: Users with counters of their own; further users share one line.
USERS_MAX = 10_000
OTHERS = -1


class Diagnostics:
    """The figures of sdiag, since the last reset."""

    def __init__(self, now_us: int = 0) -> None:
        self.backfilled_boot = 0
        self.reset(now_us)

    def reset(self, now_us: int) -> None:
        """Counts from zero again."""
        self.since_us = now_us
        self.main = Passes()
        self.backfill = Passes()
        self.rollup = Passes()  # of usage
        self.last_rollup_at_us = 0
        self.jobs = dict.fromkeys(("submit", "start", "completed", "canceled", "failed"), 0)
        self.backfilled = 0
        self.backfilled_last = 0
        self.last_backfill_at_us = 0
        self.commits = 0
        self.commit_us = 0
        self.spared = 0  # requests refused for an internal error: see the log
        self.filter_calls = 0  # requests that the site's submit filters were asked about
        self.filter_failures = 0
        self.filter_refusals = 0
        self.by_method: dict[str, list[int]] = {}  # [calls, total microseconds]
        self.by_user: dict[int, list[int]] = {}  # uid -> the same

    def count_history(self, event: str, detail: str) -> None:
        """Counts a line of a job's history."""
        if event in self.jobs:
            self.jobs[event] += 1
        elif event == "end":
            state = detail.partition(" ")[0]
            outcome = {"COMPLETED": "completed", "CANCELLED": "canceled"}.get(state, "failed")
            self.jobs[outcome] += 1

    def count_backfill(self, took_us: int, rows: int, starts: int, table: int, at_us: int) -> None:
        """Counts a full pass that has returned."""
        self.backfill.count(took_us, rows, rows, table)
        self.backfilled += starts
        self.backfilled_boot += starts
        self.backfilled_last = starts
        self.last_backfill_at_us = at_us

    def count_call(self, method: str, uid: int, took_us: int) -> None:
        """Counts a call that has been answered."""
        if uid not in self.by_user and len(self.by_user) >= USERS_MAX:
            uid = OTHERS
        for counts in (self.by_method.setdefault(method, [0, 0]), self.by_user.setdefault(uid, [0, 0])):
            counts[0] += 1
            counts[1] += took_us
