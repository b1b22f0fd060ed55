"""What counts against limits: jobs and TRES by association, QOS, user and account, kept as jobs change.

A `Book` is one holder of counters. A job is entered into those of its association and of all accounts above, and into
those of its QOS and of its partition's: of the QOS itself, of its user in it, of its account in it. Nodes are
counted once, however many of a book's jobs run there. An `Entry` says what a job
counts for; it is a function of the job (`entry_of`). `state.touch` notes jobs that have changed, and `settle` takes
the old entry out and puts the new one in. So nothing else needs to know of limits when it changes a job, and
`check` counts all of it a second way.

What running jobs may still use (TRES x time left) is a formula, not a sum that ages: of jobs whose clock runs the
TRES times their end is kept, and the TRES; of those that are suspended what is left. Minutes that were used decay:
spent.py. They are kept for users and QOS, which are in the database, and of accounts for those that have such a limit.

There is a ledger only where AccountingStorageEnforce has limits. Deliberately absent: which limit applies (limits.py).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ctld.core import assocs
from ctld.core.arrays import weight
from ctld.core.decay import RATE_ONE
from ctld.core.expect import UNLIMITED_S, limit_at_us
from ctld.core.fairshare import Assoc, Decay
from ctld.core.limit_waits import Place, Waits
from ctld.core.model import Job, Qos
from ctld.core.qos import DEFAULT_QOS
from ctld.core.spent import Spent, rates_of
from ctld.core.state import ClusterState
from ctld.core.violation import need
from penstock.values.licenses import parse_licenses
from penstock.values.limits import Limits
from penstock.values.states import END_STATES, HOLDING_STATES, JobState

US = 1_000_000
PPM = 1_000_000

#: What a book is of: ("assoc", id), ("qos", name), ("user", qos, user), ("account", qos, account).
Key = tuple[str | int, ...]
Amounts = tuple[tuple[str, int], ...]


class Entry(NamedTuple):
    """What a job counts for."""

    assoc_id: int
    qos: str
    partition_qos: str
    user: str
    account: str
    tasks: int  # submitted
    accruing: int
    runs: bool  # it holds what `tres` says
    tres: Amounts
    factor_ppm: int  # UsageFactor of its QOS
    end_s: int  # by when it must end while its clock runs; 0 = it stands still, or is ending
    left_s: int  # of one that is suspended
    nodes: tuple[str, ...] = ()  # where it runs
    also: tuple[str, ...] = ()  # QOS of its other partitions, in which it is submitted as well while it waits


class Book:
    """Counters of one holder."""

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

    def __init__(self, key: Key) -> None:
        self.key = key
        self.jobs = self.submitted = self.accruing = 0
        self.tres: dict[str, int] = {}  # `node`: different ones
        self.nodes: dict[str, int] = {}  # on which its jobs run -> how many of them
        self.run_rate: dict[str, int] = {}  # of jobs whose clock runs: TRES x factor,
        self.run_end: dict[str, int] = {}  # and that times their end
        self.fixed: dict[str, int] = {}  # of suspended ones: TRES x factor x seconds left
        self.spent: Spent | None = None
        self.waits = Waits()
        self.end_due_us = 0  # for when its timer was set (limit_ends.py)

    def enter(self, entry: Entry, sign: int) -> None:
        """Count an entry, or take it out."""
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
        """What running jobs may still use: TRES x seconds x millionths."""
        sliding = self.run_end.get(tres, 0) - self.run_rate.get(tres, 0) * now_us // US
        return max(0, sliding) + self.fixed.get(tres, 0)

    def is_empty(self) -> bool:
        """Nothing is counted."""
        return not (self.jobs or self.submitted or self.accruing or self.tres or self.run_rate or self.fixed)

    def counts(self) -> tuple[object, ...]:
        """For comparing."""
        return self.jobs, self.submitted, self.accruing, self.tres, self.nodes, self.run_rate, self.run_end, self.fixed


def _change(counts: dict[str, int], name: str, by: int) -> None:
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        counts.pop(name, None)


class Ledger:
    """All books, and who is in them."""

    def __init__(self) -> None:
        self.books: dict[Key, Book] = {}
        self.entries: dict[int, Entry] = {}
        self.accruing: dict[int, int] = {}  # pending jobs that age -> how many tasks of them count
        self.aging: dict[int, int] = {}  # jobs that began to age later than they could (limit_ages.py): since when
        self.thresholds: dict[int, None] = {}  # pending jobs with a MinPrioThreshold
        self.claims: dict[Key, dict[int, None]] = {}  # jobs that were woken since the last pass
        self.freed: dict[Key, None] = {}  # books from which something was taken that jobs wait for
        self.rules: dict[tuple[str | int, ...], Any] = {}  # limit_rules.py
        self.wishes: dict[int, tuple[Any, int, str, Any]] = {}  # limits.py, by the id of a request
        self.chains: dict[Key, tuple[Book, ...]] = {}  # `books_of`, by what they come from
        self.waiting: dict[int, tuple[Place, ...]] = {}  # jobs that a limit holds back -> where they stand
        self.armed: dict[Key, None] = {}  # books whose queues may need a timer (limit_wake.py)
        self.timers: dict[str, Key] = {}  # keys of those timers
        self.moved: dict[Key, None] = {}  # books that have got or left a node since the last pass
        self.sums_due = False  # usage was set to 0: what accounts have used is to be summed up anew
        self.generation = 0  # rises when priorities were calculated
        self.known: dict[int, tuple[str, Limits]] = {}  # associations as they are entered (limit_changes.py)
        self.known_qos: dict[str, Qos] = {}
        self.started: dict[int, None] = {}  # jobs that have started since limit_ends.py looked
        self.touches = 0  # of books: what a change costs (tests)

    def book(self, key: Key) -> Book:
        """The book of that key; an empty one if there is none."""
        found = self.books.get(key)
        if found is None:
            found = self.books[key] = Book(key)
        return found

    def forget(self, job_id: int) -> None:
        """The job does not wait any more, for whatever."""
        if job_id in self.waiting:
            self.leave(job_id)
        self.accruing.pop(job_id, None)
        if self.aging:
            self.aging.pop(job_id, None)
        if self.thresholds:
            self.thresholds.pop(job_id, None)

    def leave(self, job_id: int) -> None:
        """The job waits for no limit any more."""
        for place in self.waiting.pop(job_id, ()):
            place.queue.leave(job_id, place.need)

    def take_decay(self, old: Decay, forget: bool, now_us: int) -> None:
        """What was used so far was forgotten by the old rule."""
        for book in self.books.values():
            if book.spent is not None:
                book.spent.advance(old, now_us)
                if forget and book.spent.decays:
                    book.spent.amounts = {}

    def books_of(self, state: ClusterState, entry: Entry) -> tuple[Book, ...]:
        """Those that an entry is in. They are kept: when the tree of accounts changes there is another ledger."""
        key = entry[:5]  # all that counts here
        known = self.chains.get(key)
        if known is None:
            known = self.chains[key] = tuple(self._books_of(state, entry))
        self.touches += len(known)
        return known

    def _books_of(self, state: ClusterState, entry: Entry) -> list[Book]:
        found, at = [], state.shares.by_id.get(entry.assoc_id)
        while at is not None:
            found.append(self.book(("assoc", at.assoc_id)))
            at = at.parent
        for qos in dict.fromkeys((entry.qos, entry.partition_qos)):
            if qos:
                found.append(self.book(("qos", qos)))
                found.append(self.book(("user", qos, entry.user)))
                found.append(self.book(("account", qos, entry.account)))
        return found

    def submitted_in(self, state: ClusterState, entry: Entry) -> tuple[Book, ...]:
        """Those in which it counts as submitted: also those of partitions that it may still run in."""
        return (*self.books_of(state, entry), *self.also_in(entry))

    def also_in(self, entry: Entry) -> tuple[Book, ...]:
        """Those of them in which it does not count otherwise."""
        keys = (
            key
            for qos in entry.also
            for key in (("qos", qos), ("user", qos, entry.user), ("account", qos, entry.account))
        )
        return tuple(self.book(key) for key in keys)

    def is_in(self, state: ClusterState, entry: Entry, book: Book) -> bool:
        """Whether an entry counts there."""
        return any(one is book for one in self.books_of(state, entry))


def qos_of(state: ClusterState, name: str) -> Qos:
    """A QOS by name; one without limits if there is none."""
    return state.qos.get(name or DEFAULT_QOS) or Qos(name)


def assoc_of(state: ClusterState, job: Job, partition: str = "") -> Assoc | None:
    """A job's association in its partition, or in another one."""
    tree = state.shares
    if partition in ("", job.partition):
        known = tree.by_id.get(job.assoc_id) if job.assoc_id else None
        return known or assocs.find(state, job)
    account = assocs.account_of(state, job)
    return tree.find(account, job.user_name, partition) or assocs.find(state, job)


def partition_qos(state: ClusterState, name: str) -> str:
    """The QOS of a partition; "" = it has none."""
    partition = state.partitions.get(name)
    return partition.config.qos if partition is not None else ""


def held(state: ClusterState, job: Job) -> Amounts:
    """What a job has been given, with billing and licenses."""
    tres = assocs.allocated(job)
    tres["billing"] = assocs.rate_of(state, job, tres) // RATE_ONE
    if job.request.licenses:
        for name, count in parse_licenses(job.request.licenses):
            tres[f"license/{name}"] = count
    return tuple(sorted((name, amount) for name, amount in tres.items() if amount))


def entry_of(state: ClusterState, job: Job, accruing: int = 0) -> Entry | None:
    """What a job counts for; None if it has ended."""
    if job.state in END_STATES:
        return None
    assoc, name = assoc_of(state, job), job.request.qos or DEFAULT_QOS
    qos = qos_of(state, name)
    runs = job.state in HOLDING_STATES
    end_s = left_s = 0
    if runs and job.state is not JobState.COMPLETING:
        unlimited_us = job.start_at_us + job.suspended_us + UNLIMITED_S * US
        end_us = unlimited_us if job.time_limit_s < 0 else limit_at_us(state, job)
        if job.state is JobState.SUSPENDED:
            left_s = max(0, end_us - job.suspended_at_us) // US
        else:
            end_s = -(-end_us // US)
    return Entry(
        assoc.assoc_id if assoc is not None else 0, name, partition_qos(state, job.partition),
        job.user_name, assoc.account if assoc is not None else assocs.account_of(state, job),
        weight(job), 0 if runs else min(accruing, weight(job)), runs,
        held(state, job) if runs else (), qos.usage_factor_ppm, end_s, left_s,
        tuple(part.node for part in job.alloc) if runs else (),
        _also(state, job, name) if len(job.request.partitions) > 1 and not runs else (),
    )  # fmt: skip


def _also(state: ClusterState, job: Job, own: str) -> tuple[str, ...]:
    counted = ("", own, partition_qos(state, job.partition))
    found = dict.fromkeys(partition_qos(state, name) for name in job.request.partitions)
    return tuple(name for name in found if name not in counted)


def settle(state: ClusterState) -> None:
    """Bring the books up to date with the jobs that have changed."""
    ledger = state.ledger
    if ledger is None:
        return
    while state.limits_due:
        due, state.limits_due = state.limits_due, {}
        for job_id in due:
            job = state.jobs.get(job_id)
            if job is None or job.state is not JobState.PENDING:
                ledger.forget(job_id)
            enter(state, ledger, job_id, entry_of(state, job, ledger.accruing.get(job_id, 0)) if job else None)


def enter(state: ClusterState, ledger: Ledger, job_id: int, new: Entry | None) -> None:
    """Count a job for `new` from now on."""
    old = ledger.entries.get(job_id)
    if old == new:
        return
    if old is not None:
        _count(state, ledger, job_id, old, -1)
        del ledger.entries[job_id]
    if new is not None:
        ledger.entries[job_id] = new
        _count(state, ledger, job_id, new, 1)


def _count(state: ClusterState, ledger: Ledger, job_id: int, entry: Entry, sign: int) -> None:
    books = ledger.books_of(state, entry)
    if entry.runs:
        _count_running(state, ledger, job_id, entry, books, sign)
    else:
        tasks, accruing = sign * entry.tasks, sign * entry.accruing
        for book in books:
            book.submitted += tasks
            book.accruing += accruing
    if sign < 0:
        for book in books:
            if book.waits.queues:
                ledger.freed[book.key] = None
    for book in ledger.also_in(entry) if entry.also else ():
        book.submitted += sign * entry.tasks


def _count_running(
    state: ClusterState, ledger: Ledger, job_id: int, entry: Entry, books: tuple[Book, ...], sign: int
) -> None:
    rates = rates_of(entry.tres, entry.factor_ppm)
    if rates and sign > 0:
        ledger.started[job_id] = None
    ended_us = _ended_us(state, job_id) if rates and sign < 0 else 0
    for book in books:
        nodes = len(book.nodes)
        book.enter(entry, sign)
        if len(book.nodes) != nodes:
            ledger.moved[book.key] = None
        spent = _to_charge(state, entry, book) if rates else None
        if spent is not None:
            spent.advance(state.shares.decay, state.now_us)
            spent.begin(rates, sign)
            if ended_us:
                spent.undo(rates, ended_us, state.shares.decay)


def _to_charge(state: ClusterState, entry: Entry, book: Book) -> Spent | None:
    """What of a book is charged when its rates change; marks what must be written."""
    kind, holder = book.key[0], book.key[1]
    if kind == "qos":
        state.dirty_qos_usage[str(holder)] = None
        if book.spent is None:
            book.spent = Spent(state.now_us)
            book.spent.decays = "NoDecay" not in qos_of(state, str(holder)).flags
    elif holder == entry.assoc_id and kind == "assoc":
        state.dirty_usage[entry.assoc_id] = None
        if book.spent is None:
            assoc = state.shares.by_id[entry.assoc_id]
            assoc.spent = book.spent = assoc.spent or Spent(state.now_us)
    return book.spent


def _ended_us(state: ClusterState, job_id: int) -> int:
    """When a job has really ended that is heard of later; 0 = now."""
    job = state.jobs.get(job_id)
    return job.end_at_us if job is not None and 0 < job.end_at_us < state.now_us else 0


def track(state: ClusterState, book: Book) -> Spent:
    """The minutes that an account has used, with all below it: summed up once, and kept from then on."""
    if book.spent is None:
        assoc = state.shares.by_id[int(book.key[1])]
        assert state.ledger is not None
        if assoc.user_name:
            assoc.spent = book.spent = assoc.spent or Spent(state.now_us)
        else:
            book.spent = _sum_below(state, assoc)
    return book.spent


def sum_again(state: ClusterState, ledger: Ledger) -> None:
    """What accounts have used, from what is below them."""
    ledger.sums_due = False
    for book in ledger.books.values():
        if book.spent is not None and book.key[0] == "assoc":
            assoc = state.shares.by_id.get(int(book.key[1]))
            if assoc is not None and not assoc.user_name:
                book.spent = _sum_below(state, assoc)
            ledger.freed[book.key] = None


def _sum_below(state: ClusterState, account: Assoc) -> Spent:
    total = Spent(state.now_us)
    for assoc in below(account):
        if assoc.spent is not None:
            total.add(assoc.spent, state.shares.decay, state.now_us)
    return total


def below(assoc: Assoc) -> Iterator[Assoc]:
    """It and everything below it, from the top."""
    order = [assoc]
    for one in order:
        yield one
        order += one.children.values()


class QosUsageRow(NamedTuple):
    """What the jobs of a QOS have used (spent.py). Primary key name; "" = nothing."""

    name: str
    tres: str


def qos_usage_row(state: ClusterState, name: str) -> QosUsageRow:
    """Freeze it."""
    book = state.ledger.books.get(("qos", name)) if state.ledger is not None else None
    return QosUsageRow(name, book.spent.text() if book is not None and book.spent is not None else "")


def check(state: ClusterState) -> None:
    """Count everything anew and compare."""
    ledger = state.ledger
    if ledger is None:
        need(not state.limits_due, "jobs wait to be counted, and nobody counts")
        return
    settle(state)
    again = Ledger()
    rates: dict[Key, dict[str, int]] = {}
    for job in state.jobs.values():
        entry = entry_of(state, job, ledger.accruing.get(job.job_id, 0))
        need(entry == ledger.entries.get(job.job_id), f"job {job.job_id}: counts for {ledger.entries.get(job.job_id)}")
        if entry is None:
            continue
        own = rates_of(entry.tres, entry.factor_ppm) if entry.runs else {}
        for book in again.books_of(state, entry):
            book.enter(entry, 1)
            total = rates.setdefault(book.key, {})
            for name, rate in own.items():
                total[name] = total.get(name, 0) + rate
        for book in again.also_in(entry):
            book.submitted += entry.tasks
    need(set(ledger.entries) <= set(state.jobs), "a job that is gone is counted")
    for key, book in ledger.books.items():
        other = again.books.get(key)
        need(book.is_empty() if other is None else book.counts() == other.counts(), f"counters of {key}")
        if book.spent is not None:
            need(book.spent.rates == rates.get(key, {}), f"rates of {key}: {book.spent.rates}, not {rates.get(key)}")
    need(set(again.books) <= set(ledger.books), "a book is missing")
