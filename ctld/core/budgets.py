"""Budgets of accounts: GPU-hours, CPU-hours, billing-hours or money for each period, which do not decay.

A job is charged to the budgets of its account and of all accounts above it, for the time that it runs: the GPUs (parts of
shared ones as such), CPUs or billing that it holds, or what its partition's PenstockPrices say they cost. It starts when
each of them has what the job may use of the period, up to its time limit: what running jobs may still use is reserved, so
used and reserved together are never more than the budget when a job starts. Else it waits (AccountBudget). A job without
a time limit is reserved for up to the end of the period; a budget without periods lets no such job start.

A job that goes on into the next period uses that one's budget from then on, and its rest is reserved there. Where a
budget is used up after all (a time limit was raised, a budget lowered), PenstockBudgetAtEnd=cancel ends its jobs, and
`finish` (the default) lets them finish. Counting begins when a budget is set.

Where things are: budget_book.py counts; here is who is counted where, and what follows. The books follow the jobs: `begin`
and `end` at once, since the next start asks; other changes (suspended, another limit) by `settle`, once a batch. Rows are
written with the jobs' own: one for each budget that a start or an end has changed. Without budgets nothing costs anything.

Deliberately absent: who may set a budget (accounts.py), and exchange between currencies.
"""

from ctld.core import assocs
from ctld.core.budget_book import NEVER, ONE, Book, Bounds, BudgetRow, Key, Part
from ctld.core.expect import limit_at_us, time_limit_us
from ctld.core.factors import billing, tres_amounts
from ctld.core.fairshare import Assoc
from ctld.core.model import Job, JobRequest, NodeAlloc, Partition
from ctld.core.periods import bounds
from ctld.core.shares import GPU
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.budgets import Budget, parse_budgets
from penstock.values.states import HOLDING_STATES, JobState, Reason

MICRO = 1_000_000
#: A submission is warned when less than this part of a budget is left.
WARN_PERCENT = 10


# ---- what things cost --------------------------------------------------------------------------------------------


def _gpus_micro(alloc: tuple[NodeAlloc, ...]) -> int:
    whole = sum(mask.bit_count() for part in alloc for name, _, mask in part.gres if name == GPU)
    return whole * MICRO + sum(share.units * MICRO // share.of for part in alloc for share in part.shares)


def _rate(state: ClusterState, budget: Budget, partition: Partition | None, tres: dict[str, int], gpus: int) -> int:
    """Millionths of the unit for each hour."""
    if budget.unit == "gpu-hours":
        return gpus
    if budget.unit == "cpu-hours":
        return tres["cpu"] * MICRO
    if budget.unit == "billing-hours":
        weights = partition.config.tres_billing_weights if partition is not None else ()
        return billing(weights, tres, state.config.priority_flags) * 1_000
    prices = partition.config.prices if partition is not None else ()
    return sum(price.scaled(tres.get(price.tres, 0)) for price in prices)


def rate_of(state: ClusterState, budget: Budget, job: Job, partition: str, alloc: tuple[NodeAlloc, ...]) -> int:
    """What a job with that allocation costs in that partition."""
    tres = assocs.allocated_in(alloc)
    return _rate(state, budget, state.partitions.get(partition), tres, _gpus_micro(alloc))


def _rate_asked(state: ClusterState, budget: Budget, partition: Partition, request: JobRequest) -> int:
    """What it costs at least, as far as its request says."""
    tres = tres_amounts(request)
    return _rate(state, budget, partition, tres, tres.get("gres/gpu", 0) * MICRO)


# ---- who is counted where ----------------------------------------------------------------------------------------


def books_of(state: ClusterState, job: Job) -> list[Book]:
    """The budgets that pay for a job: its account's, and those above."""
    tree = state.shares
    at: Assoc | None = tree.by_id.get(job.assoc_id) or tree.accounts.get(assocs.account_of(state, job))
    found: list[Book] = []
    while at is not None:
        found += state.budgets.by_account.get(at.assoc_id, ())
        at = at.parent
    return found


def _part(state: ClusterState, book: Book, job: Job) -> Part:
    rate = rate_of(state, book.budget, job, job.partition, job.alloc)
    if job.state is JobState.COMPLETING:
        return Part(rate, True, 0, 0)
    end_us = limit_at_us(state, job) if job.time_limit_s >= 0 else NEVER
    if job.state is JobState.SUSPENDED:
        return Part(rate, False, 0, end_us - job.suspended_at_us if end_us != NEVER else 0)
    return Part(rate, True, end_us, 0)


def begin(state: ClusterState, job: Job, now_us: int) -> None:
    """The job holds its allocation from now on."""
    books = tuple(books_of(state, job))
    state.budgets.known.pop(job.job_id, None)
    if books:
        state.budgets.of_job[job.job_id] = books
    for book in books:
        _advance(state, book, now_us)
        book.enter(job.job_id, _part(state, book, job), now_us)
        _watch(state, book, now_us)


def end(state: ClusterState, job: Job, end_at_us: int) -> None:
    """The job has given its allocation back, perhaps some time ago."""
    for book in state.budgets.of_job.pop(job.job_id, ()):
        _advance(state, book, state.now_us)
        book.leave(job.job_id, max(end_at_us, job.start_at_us))
        state.budgets.freed = True


def settle(state: ClusterState, now_us: int) -> None:
    """Jobs have changed since the last batch: suspended, resumed, ending, another time limit."""
    for job_id in state.dirty_jobs:
        job = state.jobs.get(job_id)
        if job is None or job.state not in HOLDING_STATES:
            continue
        for book in state.budgets.of_job.get(job_id, ()):
            before, after = book.parts[job_id], _part(state, book, job)
            if before == after:
                continue
            since_us = job.suspended_at_us if before.runs != after.runs else now_us
            _advance(state, book, now_us)
            book.leave(job_id, since_us)
            book.enter(job_id, after, since_us)
            _watch(state, book, now_us)
            state.budgets.freed = True


def _advance(state: ClusterState, book: Book, now_us: int) -> None:
    over = book.advance(now_us)
    state.budgets.closed += over
    state.budgets.freed = state.budgets.freed or bool(over)
    state.budgets.dirty[book.key] = None


# ---- which budgets there are -------------------------------------------------------------------------------------


def renew(state: ClusterState, now_us: int) -> None:
    """Accounts have changed: the budgets as they are now, with all jobs that hold something counted anew from now on."""
    budgets = state.budgets
    budgets.stale, old = False, budgets.books
    for book in old.values():
        _advance(state, book, now_us)
        budgets.rows[book.key] = book.row()
    budgets.books, budgets.by_account = {}, {}
    for account in state.shares.accounts.values():
        if account.budget:
            mine = tuple(_open(state, account, one, now_us) for one in parse_budgets(account.budget))
            budgets.by_account[account.assoc_id] = mine
            budgets.books.update({book.key: book for book in mine})
    _hold_all(state)
    for book in budgets.books.values():
        _watch(state, book, now_us)
    budgets.known.clear()
    budgets.freed = True


def _hold_all(state: ClusterState) -> None:
    """Enter all jobs that hold something."""
    state.budgets.of_job = {}
    for job in state.jobs.values() if state.budgets.books else ():
        if job.state in HOLDING_STATES and (books := tuple(books_of(state, job))):
            state.budgets.of_job[job.job_id] = books
            for book in books:
                book.hold(job.job_id, _part(state, book, job))


def _open(state: ClusterState, account: Assoc, budget: Budget, now_us: int) -> Book:
    book = Book(account.assoc_id, budget, _bounds_of(state, budget), now_us)
    row = state.budgets.rows.pop(book.key, None)
    if row is not None and row.at_us <= now_us:
        book.load(row)
        book.end_us = book.bounds(row.start_us)[1]  # the zone may be another one now
        _advance(state, book, now_us)
    return book


def restore(state: ClusterState, rows: tuple[BudgetRow, ...], now_us: int) -> None:
    """At a start: what was used as of the last change, and since then by the jobs that run."""
    budgets = state.budgets
    for row in rows:
        known = budgets.rows.get((row.assoc_id, row.unit, row.period))
        if known is None or known.start_us < row.start_us:
            budgets.rows[row.assoc_id, row.unit, row.period] = row
    for account in state.shares.accounts.values():
        for one in parse_budgets(account.budget):
            last = budgets.rows.pop((account.assoc_id, one.unit, one.period), None)
            at_us = min(last.at_us, now_us) if last is not None else now_us
            book = Book(account.assoc_id, one, _bounds_of(state, one), at_us)
            if last is not None:
                book.load(last)
            budgets.books[book.key] = book
            budgets.by_account[account.assoc_id] = (*budgets.by_account.get(account.assoc_id, ()), book)
    _hold_all(state)
    for book in budgets.books.values():
        _advance(state, book, now_us)
        _watch(state, book, now_us)


# ---- may it start ------------------------------------------------------------------------------------------------


def can_pay(state: ClusterState, now_us: int, jobs: list[tuple[Job, Job, str, tuple[NodeAlloc, ...], int]]) -> bool:
    """Whether the budgets have what these jobs may use that start together: (job, record that waits for it, partition,
    allocation, time that it is granted). What they would cost is remembered."""
    need: dict[Key, int] = {}
    for job, holder, partition, alloc, limit_s in jobs:
        costs: dict[Key, int] = {}
        for book in books_of(state, job):
            _advance_to_look(state, book, now_us)
            rate = rate_of(state, book.budget, job, partition, alloc)
            costs[book.key] = _cost(state, book, job, rate, limit_s, now_us)
            need[book.key] = need.get(book.key, 0) + costs[book.key]
        state.budgets.known[holder.job_id] = {key: cost for key, cost in costs.items() if cost}
    books = state.budgets.books
    return all(amount <= max(0, books[key].free_at(now_us)) for key, amount in need.items())


def _advance_to_look(state: ClusterState, book: Book, now_us: int) -> None:
    if book.end_us and now_us >= book.end_us:
        _advance(state, book, now_us)


def _cost(state: ClusterState, book: Book, job: Job, rate: int, limit_s: int, now_us: int) -> int:
    over_us = time_limit_us(state, job) - job.time_limit_s * MICRO
    time_us = limit_s * MICRO + over_us if job.time_limit_s >= 0 else NEVER
    return rate * book.span_us(time_us, now_us)


def shortage(state: ClusterState, job: Job, now_us: int, remembered: bool = True) -> tuple[Book, int] | None:
    """The first budget that cannot pay for a pending job, and what the job may use of it; None = all can. `remembered`:
    what its last placement would have cost counts."""
    for book in books_of(state, job):
        _advance_to_look(state, book, now_us)
        cost = state.budgets.known.get(job.job_id, {}).get(book.key, 0) if remembered else 0
        partitions = [state.partitions[name] for name in job.request.partitions if name in state.partitions]
        rates = [_rate_asked(state, book.budget, partition, job.request) for partition in partitions]
        if rates:
            least_s = job.request.time_min_s or job.time_limit_s
            cost = max(cost, _cost(state, book, job, min(rates), least_s, now_us))
        if cost and cost > book.free_at(now_us):
            return book, cost
    return None


def obstacle(state: ClusterState, job: Job, now_us: int) -> Reason | None:
    """AccountBudget, or None."""
    if not state.budgets.books or shortage(state, job, now_us) is None:
        state.budgets.waiting.pop(job.job_id, None)
        return None
    state.budgets.waiting[job.job_id] = None
    return Reason.PENSTOCK_BUDGET


def before_pass(state: ClusterState, now_us: int) -> None:
    """Bring the books up to date, and let jobs that wait look again, in the order of their priority."""
    budgets = state.budgets
    if budgets.stale:
        renew(state, now_us)
    if budgets.books:
        settle(state, now_us)
    if not budgets.freed:
        return
    budgets.freed = False
    if not budgets.waiting:
        return
    from ctld.core.ready import refresh  # ready.py asks us

    waiting = [state.jobs[job_id] for job_id in budgets.waiting if job_id in state.jobs]
    budgets.waiting = {}
    for job in sorted(waiting, key=lambda one: (-one.priority, one.job_id)):
        if job.state is JobState.PENDING:
            refresh(state, job, now_us)


# ---- time ----------------------------------------------------------------------------------------------------------


def _bounds_of(state: ClusterState, budget: Budget) -> Bounds:
    return lambda at_us: bounds(budget.period, at_us, state.config.utc_offsets)


def _watch(state: ClusterState, book: Book, now_us: int, seen: bool = False) -> None:
    """Look again when its period ends, and with PenstockBudgetAtEnd=cancel when it is used up; not if that was `seen`."""
    due_us = book.end_us or NEVER
    if state.config.penstock_budget_at_end == "cancel":
        up_us = book.used_up_us(now_us)
        due_us = min(due_us, max(now_us, up_us)) if up_us > now_us or not seen else due_us
    if due_us != NEVER and not now_us <= book.due_us <= due_us:
        book.due_us = due_us
        state.timers.set(due_us, Timer.BUDGET, "/".join(map(str, book.key)))


def due(state: ClusterState, now_us: int, key: str) -> None:
    """A period has ended, or a budget may be used up."""
    account, unit, period = key.split("/")
    book = state.budgets.books.get((int(account), unit, period))
    if book is None:
        return
    _advance(state, book, now_us)
    book.due_us = 0
    if state.config.penstock_budget_at_end == "cancel" and book.parts and book.used_at(now_us) >= book.limit:
        _cancel(state, book, now_us)
    _watch(state, book, now_us, seen=True)
    state.changed()


def _cancel(state: ClusterState, book: Book, now_us: int) -> None:
    from ctld.core import job_life  # it asks us at each start

    for job_id in list(book.parts):
        job = state.jobs[job_id]
        if job.state is not JobState.COMPLETING:
            state.record(now_us, job, "budget", f"{words(state, book)} is used up")
            job_life.terminate(state, job, JobState.TIMEOUT, Reason.PENSTOCK_BUDGET, now_us, "BUDGET")


# ---- words -------------------------------------------------------------------------------------------------------


def units(amount: int) -> str:
    """An amount in its unit, two digits behind the point, rounded to the nearest."""
    hundredths = (amount * 100 + ONE // 2) // ONE
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def words(state: ClusterState, book: Book) -> str:
    """A budget's name: `account lab, 1000 gpu-hours a month`."""
    account = state.shares.by_id[book.assoc_id].account
    each = "" if book.budget.period == "none" else f" each {book.budget.period}"
    return f"the budget of account {account}, {book.budget.amount()} {book.budget.unit}{each},"


def told(state: ClusterState, job: Job, now_us: int) -> str:
    """Why no budget pays for a pending job, with the numbers; "" = all can."""
    found = shortage(state, job, now_us)
    if found is None:
        return ""
    book, cost = found
    used, reserved = units(book.used_at(now_us)), units(book.reserved_at(now_us))
    may = f"it may use {units(cost)}" if job.time_limit_s >= 0 or book.end_us else "it has no time limit"
    return f"{words(state, book)} has {used} used and {reserved} reserved by running jobs, and {may}"


def warnings(state: ClusterState, job: Job, now_us: int) -> tuple[str, ...]:
    """What a submitter is told of budgets of which less than WARN_PERCENT is left."""
    found = []
    for book in books_of(state, job):
        _advance_to_look(state, book, now_us)
        left = book.free_at(now_us)
        if left * 100 < book.limit * WARN_PERCENT:
            found.append(f"{words(state, book)} has {units(max(0, left))} left")
    return tuple(found)
