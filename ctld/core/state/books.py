"""The counters of limits as stored: books, their members, and the jobs that wait at them. The rules are in
limits/ledger.py.
"""

from collections import OrderedDict

# Any: values of a room above, whose types may not be imported here
from typing import Any, NamedTuple

from ctld.core.records.decay import Decay
from ctld.core.records.qos import Qos
from ctld.core.state.fairshare import ShareTree
from ctld.core.state.limit_waits import LimitQueues, WaitEntry
from ctld.core.state.spent_minutes import Spent
from penstock.values.limits import Limits

US = 1_000_000

#: The key of a book: ("assoc", id), ("qos", name), ("user", qos, user), ("account", qos, account).
BookKey = tuple[str | int, ...]


Amounts = tuple[tuple[str, int], ...]


class LimitEntry(NamedTuple):
    """What one job counts for in the books."""

    assoc_id: int
    qos: str
    partition_qos: str
    user: str
    account: str
    tasks: int  # submitted
    accruing: int
    runs: bool  # it holds `tres`
    tres: Amounts
    factor_ppm: int  # UsageFactor of its QOS
    end_s: int  # its latest end while it runs; 0 = it is suspended, or is ending
    left_s: int  # of a suspended one
    nodes: tuple[str, ...] = ()  # where it runs
    also: tuple[str, ...] = ()  # QOS of its other partitions, in which it counts as submitted while it waits


class LimitBook:
    """The counters of one entity."""

    __slots__ = (
        "accruing",
        "end_due_us",
        "fixed",
        "jobs",
        "key",
        "nodes",
        "run_end",
        "run_rate",
        "spent",
        "submitted",
        "tres",
        "waits",
    )

    def __init__(self, key: BookKey) -> None:
        self.key = key
        self.jobs = 0
        self.submitted = 0
        self.accruing = 0
        self.tres: dict[str, int] = {}  # `node`: different ones
        self.nodes: dict[str, int] = {}  # on which its jobs run -> how many of them
        self.run_rate: dict[str, int] = {}  # of running jobs: TRES x factor,
        self.run_end: dict[str, int] = {}  # and that times their end
        self.fixed: dict[str, int] = {}  # of suspended ones: TRES x factor x seconds left
        self.spent: Spent | None = None
        self.waits = LimitQueues()
        self.end_due_us = 0  # the time of its timer (lifecycle/limit_ends.py)

    def enter(self, entry: LimitEntry, sign: int) -> None:
        """Counts an entry, or removes it."""
        self.submitted += sign * entry.tasks
        self.accruing += sign * entry.accruing
        if not entry.runs:
            return
        self.jobs += sign
        for node in entry.nodes:
            _change(self.nodes, node, sign)
        for name, amount in entry.tres:
            if name != "node":
                _change(self.tres, name, sign * amount)
            if entry.end_s:
                _change(self.run_rate, name, sign * amount * entry.factor_ppm)
                _change(self.run_end, name, sign * amount * entry.factor_ppm * entry.end_s)
            elif entry.left_s:
                _change(self.fixed, name, sign * amount * entry.factor_ppm * entry.left_s)
        if self.nodes:
            self.tres["node"] = len(self.nodes)
        else:
            self.tres.pop("node", None)

    def run_left(self, tres: str, now_us: int) -> int:
        """Returns the amount that running jobs may still use: TRES x seconds x millionths."""
        sliding = self.run_end.get(tres, 0) - self.run_rate.get(tres, 0) * now_us // US
        return max(0, sliding) + self.fixed.get(tres, 0)

    def is_empty(self) -> bool:
        """Whether nothing is counted."""
        return not (self.jobs or self.submitted or self.accruing or self.tres or self.run_rate or self.fixed)

    def counts(self) -> tuple[object, ...]:
        """Returns the counters, for the comparison."""
        return self.jobs, self.submitted, self.accruing, self.tres, self.nodes, self.run_rate, self.run_end, self.fixed


def _change(counts: dict[str, int], name: str, by: int) -> None:
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        counts.pop(name, None)


class LimitLedger:
    """All books, and their members."""

    def __init__(self) -> None:
        self.books: dict[BookKey, LimitBook] = {}
        self.entries: dict[int, LimitEntry] = {}
        self.accruing: dict[int, int] = {}  # pending jobs that age -> number of their tasks that count
        self.aging: dict[int, int] = {}  # jobs that began to age later than they could (limits/ages.py): since when
        self.thresholds: dict[int, None] = {}  # pending jobs with a MinPrioThreshold
        self.claims: dict[BookKey, dict[int, None]] = {}  # jobs that were woken since the last pass
        self.freed: OrderedDict[BookKey, None] = OrderedDict()  # books with freed amounts for which jobs wait
        self.rules: dict[tuple[str | int, ...], Any] = {}  # limits/rules.py
        self.demands: dict[int, tuple[Any, int, str, Any]] = {}  # limits/checks.py, by the id of a request
        self.chains: dict[BookKey, tuple[LimitBook, ...]] = {}  # `books_of`, by its inputs
        self.waiting: dict[int, tuple[WaitEntry, ...]] = {}  # blocked jobs -> their positions in the queues
        self.armed: dict[BookKey, None] = {}  # books whose queues may need a timer (lifecycle/limit_wake.py)
        self.timers: dict[str, BookKey] = {}  # keys of those timers
        self.moved: dict[BookKey, None] = {}  # books that have got or left a node since the last pass
        self.sums_due = False  # usage was set to 0: accounts' usage must be summed up again
        self.generation = 0  # incremented when priorities were calculated
        self.known: dict[int, tuple[str, Limits]] = {}  # associations as entered (lifecycle/limit_changes.py)
        self.known_qos: dict[str, Qos] = {}
        self.started: dict[int, None] = {}  # jobs that have started since the last run of lifecycle/limit_ends.py
        self.touches = 0  # number of updated books: the cost of a change (tests)

    def book(self, key: BookKey) -> LimitBook:
        """Returns the book of that key; an empty one if there is none."""
        found = self.books.get(key)
        if found is None:
            found = self.books[key] = LimitBook(key)
        return found

    def forget(self, job_id: int) -> None:
        """Removes a job that is not waiting any more."""
        if job_id in self.waiting:
            self.leave(job_id)
        self.accruing.pop(job_id, None)
        if self.aging:
            self.aging.pop(job_id, None)
        if self.thresholds:
            self.thresholds.pop(job_id, None)

    def leave(self, job_id: int) -> None:
        """Removes the job from all queues of limits."""
        for entry in self.waiting.pop(job_id, ()):
            entry.queue.leave(job_id, entry.need)

    def take_decay(self, old: Decay, forget: bool, now_us: int) -> None:
        """Changes the decay: earlier usage has decayed by the old rule."""
        for book in self.books.values():
            if book.spent is not None:
                book.spent.advance(old, now_us)
                if forget and book.spent.decays:
                    book.spent.amounts = {}

    def books_of(self, shares: ShareTree, entry: LimitEntry) -> tuple[LimitBook, ...]:
        """Returns the books of an entry. They are cached: when the tree of accounts changes there is another ledger."""
        key = entry[:5]  # the inputs
        known = self.chains.get(key)
        if known is None:
            known = self.chains[key] = tuple(self._books_of(shares, entry))
        self.touches += len(known)
        return known

    def _books_of(self, shares: ShareTree, entry: LimitEntry) -> list[LimitBook]:
        found, at = [], shares.by_id.get(entry.assoc_id)
        while at is not None:
            found.append(self.book(("assoc", at.assoc_id)))
            at = at.parent
        for qos in dict.fromkeys((entry.qos, entry.partition_qos)):
            if qos:
                found.append(self.book(("qos", qos)))
                found.append(self.book(("user", qos, entry.user)))
                found.append(self.book(("account", qos, entry.account)))
        return found

    def submitted_in(self, shares: ShareTree, entry: LimitEntry) -> tuple[LimitBook, ...]:
        """Returns the books in which it counts as submitted, including those of other partitions that it may run in."""
        return (*self.books_of(shares, entry), *self.also_in(entry))

    def also_in(self, entry: LimitEntry) -> tuple[LimitBook, ...]:
        """Returns those of them in which it does not count otherwise."""
        keys = (
            key
            for qos in entry.also
            for key in (("qos", qos), ("user", qos, entry.user), ("account", qos, entry.account))
        )
        return tuple(self.book(key) for key in keys)

    def is_in(self, shares: ShareTree, entry: LimitEntry, book: LimitBook) -> bool:
        """Whether an entry counts in a book."""
        return any(one is book for one in self.books_of(shares, entry))
