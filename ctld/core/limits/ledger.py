"""The limit ledger: counts of jobs and TRES by association, QOS, user and account, kept as jobs change.

A `LimitBook` has the counters of one entity. A job is entered into those of its association and of all accounts above, and
into those of its QOS and of its partition's: of the QOS itself, of its user in it, of its account in it. Nodes are
counted once, however many of a book's jobs run there. A `LimitEntry` is what a job counts for, a function of the job
(`entry_of`). `state.touch` notes changed jobs, and `settle` replaces the old entry by the new one. So code that changes
a job needs no knowledge of limits, and `check` recounts everything.

What running jobs may still use (TRES x remaining time) is computed by a formula, so that it needs no updates: the book
sums TRES x end time and TRES of running jobs, and the rest of suspended ones. Used minutes decay:
state/spent_minutes.py. They are kept for users and QOS, which are in the database, and for accounts that have such a
limit.

There is a ledger only where AccountingStorageEnforce has limits. Deliberately absent: which limit applies (checks.py).
"""

from collections.abc import Iterator
from typing import NamedTuple

from ctld.core.jobs.arrays import weight
from ctld.core.jobs.expected_end import UNLIMITED_S, limit_at_us
from ctld.core.queue import associations
from ctld.core.queue.qos import DEFAULT_QOS
from ctld.core.records.decay import RATE_ONE
from ctld.core.records.job import Job
from ctld.core.records.qos import Qos
from ctld.core.records.violation import need
from ctld.core.state.books import Amounts, BookKey, LimitBook, LimitEntry, LimitLedger
from ctld.core.state.fairshare import Assoc
from ctld.core.state.spent_minutes import Spent, rates_of
from ctld.core.state.state import ClusterState
from penstock.values.hres import parse_granted
from penstock.values.licenses import parse_licenses
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState

US = 1_000_000
PPM = 1_000_000


def qos_of(state: ClusterState, name: str) -> Qos:
    """Returns a QOS by name; one without limits if there is none."""
    return state.qos.get(name or DEFAULT_QOS) or Qos(name)


def assoc_of(state: ClusterState, job: Job, partition: str = "") -> Assoc | None:
    """Returns a job's association in its partition, or in another one."""
    tree = state.shares
    if partition in ("", job.partition):
        known = tree.by_id.get(job.assoc_id) if job.assoc_id else None
        return known or associations.find(state, job)
    account = associations.account_of(state, job)
    return tree.find(account, job.user_name, partition) or associations.find(state, job)


def partition_qos(state: ClusterState, name: str) -> str:
    """Returns the QOS of a partition; "" = it has none."""
    partition = state.partitions.get(name)
    return partition.config.qos if partition is not None else ""


def allocated_tres(state: ClusterState, job: Job) -> Amounts:
    """Returns the TRES of a job's allocation, with billing and licenses."""
    tres = associations.allocated(job)
    tres["billing"] = associations.rate_of(state, job, tres) // RATE_ONE
    if job.request.licenses:
        for name, count in parse_licenses(job.request.licenses):
            tres[f"license/{name}"] = count
        for name, layers, amount in parse_granted(job.licenses_alloc):
            if layers:  # of a resource that is counted by node the root has all
                tres[f"license/{name}"] = max(amount, tres.get(f"license/{name}", 0))
    return tuple(sorted((name, amount) for name, amount in tres.items() if amount))


def entry_of(state: ClusterState, job: Job, accruing: int = 0) -> LimitEntry | None:
    """Returns the entry that a job counts for; None if it has ended."""
    if job.state in END_STATES:
        return None
    assoc, name = assoc_of(state, job), job.request.qos or DEFAULT_QOS
    qos = qos_of(state, name)
    runs = job.state in ALLOCATED_STATES
    end_s = left_s = 0
    if runs and job.state is not JobState.COMPLETING:
        unlimited_us = job.start_at_us + job.suspended_us + UNLIMITED_S * US
        end_us = unlimited_us if job.time_limit_s < 0 else limit_at_us(state, job)
        if job.state is JobState.SUSPENDED:
            left_s = max(0, end_us - job.suspended_at_us) // US
        else:
            end_s = -(-end_us // US)
    return LimitEntry(
        assoc.assoc_id if assoc is not None else 0, name, partition_qos(state, job.partition),
        job.user_name, assoc.account if assoc is not None else associations.account_of(state, job),
        weight(job), 0 if runs else min(accruing, weight(job)), runs,
        allocated_tres(state, job) if runs else (), qos.usage_factor_ppm, end_s, left_s,
        tuple(part.node for part in job.alloc) if runs else (),
        _also(state, job, name) if len(job.request.partitions) > 1 and not runs else (),
    )  # fmt: skip


def _also(state: ClusterState, job: Job, own: str) -> tuple[str, ...]:
    counted = ("", own, partition_qos(state, job.partition))
    found = dict.fromkeys(partition_qos(state, name) for name in job.request.partitions)
    return tuple(name for name in found if name not in counted)


def settle(state: ClusterState) -> None:
    """Updates the books with the jobs that have changed."""
    ledger = state.limits.ledger
    if ledger is None:
        return
    while state.limits.due:
        due = state.limits.due
        state.limits.due = {}
        for job_id in due:
            job = state.jobs.get(job_id)
            if job is None or job.state is not JobState.PENDING:
                ledger.forget(job_id)
            enter(state, ledger, job_id, entry_of(state, job, ledger.accruing.get(job_id, 0)) if job else None)


def enter(state: ClusterState, ledger: LimitLedger, job_id: int, new: LimitEntry | None) -> None:
    """Replaces a job's entry by `new`."""
    old = ledger.entries.get(job_id)
    if old == new:
        return
    if old is not None:
        _count(state, ledger, job_id, old, -1)
        del ledger.entries[job_id]
    if new is not None:
        ledger.entries[job_id] = new
        _count(state, ledger, job_id, new, 1)


def _count(state: ClusterState, ledger: LimitLedger, job_id: int, entry: LimitEntry, sign: int) -> None:
    books = ledger.books_of(state.shares, entry)
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
    state: ClusterState, ledger: LimitLedger, job_id: int, entry: LimitEntry, books: tuple[LimitBook, ...], sign: int
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


def _to_charge(state: ClusterState, entry: LimitEntry, book: LimitBook) -> Spent | None:
    """Returns the amounts of a book that an entry's rates are charged to, None if it has none; marks the rows to write."""
    kind, holder = book.key[0], book.key[1]
    if kind == "qos":
        state.outputs.dirty_qos_usage[str(holder)] = None
        if book.spent is None:
            book.spent = Spent(state.now_us)
            book.spent.decays = "NoDecay" not in qos_of(state, str(holder)).flags
    elif holder == entry.assoc_id and kind == "assoc":
        state.outputs.dirty_usage[entry.assoc_id] = None
        if book.spent is None:
            assoc = state.shares.by_id[entry.assoc_id]
            assoc.spent = book.spent = assoc.spent or Spent(state.now_us)
    return book.spent


def _ended_us(state: ClusterState, job_id: int) -> int:
    """Returns the real end of a job that is reported later; 0 = now."""
    job = state.jobs.get(job_id)
    return job.end_at_us if job is not None and 0 < job.end_at_us < state.now_us else 0


def track(state: ClusterState, book: LimitBook) -> Spent:
    """Returns the minutes that an account has used, with all below it: summed up once, and updated from then on."""
    if book.spent is None:
        assoc = state.shares.by_id[int(book.key[1])]
        assert state.limits.ledger is not None
        if assoc.user_name:
            assoc.spent = book.spent = assoc.spent or Spent(state.now_us)
        else:
            book.spent = _sum_below(state, assoc)
    return book.spent


def sum_again(state: ClusterState, ledger: LimitLedger) -> None:
    """Sums up the usage of accounts again, from what is below them."""
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
    """Returns the association and everything below it, from the top."""
    order = [assoc]
    for one in order:
        yield one
        order += one.children.values()


class QosUsageRow(NamedTuple):
    """The usage of the jobs of a QOS (state/spent_minutes.py). Primary key name; "" = nothing."""

    name: str
    tres: str


def qos_usage_row(state: ClusterState, name: str) -> QosUsageRow:
    """Returns the row of a QOS's usage."""
    book = state.limits.ledger.books.get(("qos", name)) if state.limits.ledger is not None else None
    return QosUsageRow(name, book.spent.text() if book is not None and book.spent is not None else "")


def check(state: ClusterState) -> None:
    """Recounts everything and compares."""
    ledger = state.limits.ledger
    if ledger is None:
        need(not state.limits.due, "jobs wait to be counted, and there is no ledger")
        return
    settle(state)
    again = LimitLedger()
    rates: dict[BookKey, dict[str, int]] = {}
    for job in state.jobs.records():
        entry = entry_of(state, job, ledger.accruing.get(job.job_id, 0))
        need(entry == ledger.entries.get(job.job_id), f"job {job.job_id}: counts for {ledger.entries.get(job.job_id)}")
        if entry is None:
            continue
        own = rates_of(entry.tres, entry.factor_ppm) if entry.runs else {}
        for book in again.books_of(state.shares, entry):
            book.enter(entry, 1)
            total = rates.setdefault(book.key, {})
            for name, rate in own.items():
                total[name] = total.get(name, 0) + rate
        for book in again.also_in(entry):
            book.submitted += entry.tasks
    need(set(ledger.entries) <= set(state.jobs), "a purged job is counted")
    for key, book in ledger.books.items():
        other = again.books.get(key)
        need(book.is_empty() if other is None else book.counts() == other.counts(), f"counters of {key}")
        if book.spent is not None:
            need(book.spent.rates == rates.get(key, {}), f"rates of {key}: {book.spent.rates}, not {rates.get(key)}")
    need(set(again.books) <= set(ledger.books), "a book is missing")
