"""Budgets of accounts: GPU-hours, CPU-hours, billing-hours or money for each period, without decay.

A job is charged to the budgets of its account and of all accounts above it, for the time that it runs: the GPUs
(fractions of shared ones), CPUs or billing that it holds, or their cost by its partition's PenstockPrices. It starts
when each of these budgets covers what the job may use in the period, up to its time limit: the possible further use of
running jobs is reserved, so used and reserved together never exceed the budget when a job starts. Otherwise it waits
(AccountBudget). For a job without a time limit the use up to the end of the period is reserved; a budget without
periods lets no such job start.

A job that runs into the next period uses that one's budget from then on, and its further use is reserved there. Where a
budget is used up after all (a time limit was raised, a budget lowered), PenstockBudgetAtEnd=cancel ends its jobs, and
`finish` (the default) lets them finish. Counting begins when a budget is set.

records/budget_book.py counts; this module decides which jobs count in which book. `begin` and `end` update the books at
once, since the next start depends on them; other changes (suspended, another limit) are applied by `settle`, once a
batch. Rows are written with the jobs' own: one for each budget that a start or an end has changed. Without budgets
there is no overhead.

Deliberately absent: who may set a budget (accounts/requests.py), and exchange between currencies.
"""

from ctld.core.demand.factors import billing, tres_amounts
from ctld.core.jobs.expected_end import limit_at_us, time_limit_us
from ctld.core.queue import associations
from ctld.core.records.budget_book import NEVER, ONE, Bounds, BudgetBook, BudgetKey, BudgetRow, Part
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.state.fairshare import Assoc
from ctld.core.state.periods import bounds
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.budgets import Budget, parse_budgets
from penstock.values.states import ALLOCATED_STATES, JobState

MICRO = 1_000_000
#: A submission is warned when less than this part of a budget is left.
WARN_PERCENT = 10


# ---- costs -------------------------------------------------------------------------------------------------------


def _gpus_micro(alloc: tuple[NodeAlloc, ...]) -> int:
    whole = sum(mask.bit_count() for part in alloc for name, _, mask in part.gres if name == GPU)
    return whole * MICRO + sum(share.units * MICRO // share.of for part in alloc for share in part.shares)


def _rate(state: ClusterState, budget: Budget, partition: Partition | None, tres: dict[str, int], gpus: int) -> int:
    """Returns the rate of a job's use: millionths of the unit for each hour."""
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
    """Returns the cost rate of a job with that allocation in that partition."""
    tres = associations.allocated_in(alloc)
    return _rate(state, budget, state.partitions.get(partition), tres, _gpus_micro(alloc))


def _rate_asked(state: ClusterState, budget: Budget, partition: Partition, request: JobRequest) -> int:
    """Returns the least cost rate of the job, from its request."""
    tres = tres_amounts(request)
    return _rate(state, budget, partition, tres, tres.get("gres/gpu", 0) * MICRO)


# ---- charging ----------------------------------------------------------------------------------------------------


def books_of(state: ClusterState, job: Job) -> list[BudgetBook]:
    """Returns the budgets that pay for a job: its account's, and those above."""
    tree = state.shares
    at: Assoc | None = tree.by_id.get(job.assoc_id) or tree.accounts.get(associations.account_of(state, job))
    found: list[BudgetBook] = []
    while at is not None:
        found += state.limits.budgets.by_account.get(at.assoc_id, ())
        at = at.parent
    return found


def _part(state: ClusterState, book: BudgetBook, job: Job) -> Part:
    rate = rate_of(state, book.budget, job, job.partition, job.alloc)
    if job.state is JobState.COMPLETING:
        return Part(rate, True, 0, 0)
    end_us = limit_at_us(state, job) if job.time_limit_s >= 0 else NEVER
    if job.state is JobState.SUSPENDED:
        return Part(rate, False, 0, end_us - job.suspended_at_us if end_us != NEVER else 0)
    return Part(rate, True, end_us, 0)


def begin(state: ClusterState, job: Job, now_us: int) -> None:
    """Starts charging a job for the allocation that it has got."""
    books = tuple(books_of(state, job))
    state.limits.budgets.known.pop(job.job_id, None)
    if books:
        state.limits.budgets.of_job[job.job_id] = books
    for book in books:
        advance(state, book, now_us)
        book.enter(job.job_id, _part(state, book, job), now_us)
        watch(state, book, now_us)


def end(state: ClusterState, job: Job, end_at_us: int) -> None:
    """Ends the charging of a job that has released its allocation, perhaps some time ago."""
    for book in state.limits.budgets.of_job.pop(job.job_id, ()):
        advance(state, book, state.now_us)
        book.leave(job.job_id, max(end_at_us, job.start_at_us))
        state.limits.budgets.freed = True


def settle(state: ClusterState, now_us: int) -> None:
    """Applies the changes of jobs since the last batch: suspended, resumed, ending, another time limit."""
    for job_id in state.outputs.dirty_jobs:
        job = state.jobs.get(job_id)
        if job is None or job.state not in ALLOCATED_STATES:
            continue
        for book in state.limits.budgets.of_job.get(job_id, ()):
            before, after = book.parts[job_id], _part(state, book, job)
            if before == after:
                continue
            since_us = job.suspended_at_us if before.runs != after.runs else now_us
            advance(state, book, now_us)
            book.leave(job_id, since_us)
            book.enter(job_id, after, since_us)
            watch(state, book, now_us)
            state.limits.budgets.freed = True


def advance(state: ClusterState, book: BudgetBook, now_us: int) -> None:
    over = book.advance(now_us)
    state.limits.budgets.closed += over
    state.limits.budgets.freed = state.limits.budgets.freed or bool(over)
    state.limits.budgets.dirty[book.key] = None


# ---- the set of budgets ------------------------------------------------------------------------------------------


def renew(state: ClusterState, now_us: int) -> None:
    """Rebuilds the budgets after a change of accounts, with all jobs that hold something recounted from now on."""
    budgets = state.limits.budgets
    budgets.stale = False
    old = budgets.books
    for book in old.values():
        advance(state, book, now_us)
        budgets.rows[book.key] = book.row()
    budgets.books = {}
    budgets.by_account = {}
    for account in state.shares.accounts.values():
        if account.budget:
            mine = tuple(_open(state, account, one, now_us) for one in parse_budgets(account.budget))
            budgets.by_account[account.assoc_id] = mine
            budgets.books.update({book.key: book for book in mine})
    _enter_all(state)
    for book in budgets.books.values():
        watch(state, book, now_us)
    budgets.known.clear()
    budgets.freed = True


def _enter_all(state: ClusterState) -> None:
    """Enters all jobs that hold an allocation."""
    state.limits.budgets.of_job = {}
    for job in state.jobs.records() if state.limits.budgets.books else ():
        if job.state in ALLOCATED_STATES and (books := tuple(books_of(state, job))):
            state.limits.budgets.of_job[job.job_id] = books
            for book in books:
                book.add(job.job_id, _part(state, book, job))


def _open(state: ClusterState, account: Assoc, budget: Budget, now_us: int) -> BudgetBook:
    book = BudgetBook(account.assoc_id, budget, _bounds_of(state, budget), now_us)
    row = state.limits.budgets.rows.pop(book.key, None)
    if row is not None and row.at_us <= now_us:
        book.load(row)
        book.end_us = book.bounds(row.start_us)[1]  # the time zone may have changed
        advance(state, book, now_us)
    return book


def restore(state: ClusterState, rows: tuple[BudgetRow, ...], now_us: int) -> None:
    """Restores the budgets at a start: the use as of the last change, and since then by the jobs that run."""
    budgets = state.limits.budgets
    for row in rows:
        known = budgets.rows.get((row.assoc_id, row.unit, row.period))
        if known is None or known.start_us < row.start_us:
            budgets.rows[row.assoc_id, row.unit, row.period] = row
    for account in state.shares.accounts.values():
        for one in parse_budgets(account.budget):
            last = budgets.rows.pop((account.assoc_id, one.unit, one.period), None)
            at_us = min(last.at_us, now_us) if last is not None else now_us
            book = BudgetBook(account.assoc_id, one, _bounds_of(state, one), at_us)
            if last is not None:
                book.load(last)
            budgets.books[book.key] = book
            budgets.by_account[account.assoc_id] = (*budgets.by_account.get(account.assoc_id, ()), book)
    _enter_all(state)
    for book in budgets.books.values():
        advance(state, book, now_us)
        watch(state, book, now_us)


# ---- coverage ----------------------------------------------------------------------------------------------------


def can_pay(state: ClusterState, now_us: int, jobs: list[tuple[Job, Job, str, tuple[NodeAlloc, ...], int]]) -> bool:
    """Whether the budgets cover these jobs, which start together: (job, record that waits for it, partition,
    allocation, granted time). Stores what they would cost."""
    need: dict[BudgetKey, int] = {}
    for job, queued, partition, alloc, limit_s in jobs:
        costs: dict[BudgetKey, int] = {}
        for book in books_of(state, job):
            _advance_and_check(state, book, now_us)
            rate = rate_of(state, book.budget, job, partition, alloc)
            costs[book.key] = _cost(state, book, job, rate, limit_s, now_us)
            need[book.key] = need.get(book.key, 0) + costs[book.key]
        state.limits.budgets.known[queued.job_id] = {key: cost for key, cost in costs.items() if cost}
    books = state.limits.budgets.books
    return all(amount <= max(0, books[key].free_at(now_us)) for key, amount in need.items())


def _advance_and_check(state: ClusterState, book: BudgetBook, now_us: int) -> None:
    if book.end_us and now_us >= book.end_us:
        advance(state, book, now_us)


def _cost(state: ClusterState, book: BudgetBook, job: Job, rate: int, limit_s: int, now_us: int) -> int:
    over_us = time_limit_us(state, job) - job.time_limit_s * MICRO
    time_us = limit_s * MICRO + over_us if job.time_limit_s >= 0 else NEVER
    return rate * book.span_us(time_us, now_us)


def shortage(state: ClusterState, job: Job, now_us: int, remembered: bool = True) -> tuple[BudgetBook, int] | None:
    """Returns the first budget that does not cover a pending job, and what the job may use of it; None = all do.
    `remembered`: the cost of its last placement counts."""
    for book in books_of(state, job):
        _advance_and_check(state, book, now_us)
        cost = state.limits.budgets.known.get(job.job_id, {}).get(book.key, 0) if remembered else 0
        partitions = [state.partitions[name] for name in job.request.partitions if name in state.partitions]
        rates = [_rate_asked(state, book.budget, partition, job.request) for partition in partitions]
        if rates:
            least_s = job.request.time_min_s or job.time_limit_s
            cost = max(cost, _cost(state, book, job, min(rates), least_s, now_us))
        if cost and cost > book.free_at(now_us):
            return book, cost
    return None


def set_waiting(state: ClusterState, job: Job, waits: bool) -> None:
    """Records whether a pending job waits for a budget, so that it is checked again when one is freed."""
    if waits:
        state.limits.budgets.waiting[job.job_id] = None
    else:
        state.limits.budgets.waiting.pop(job.job_id, None)


# ---- time ----------------------------------------------------------------------------------------------------------


def _bounds_of(state: ClusterState, budget: Budget) -> Bounds:
    return lambda at_us: bounds(budget.period, at_us, state.config.utc_offsets)


def watch(state: ClusterState, book: BudgetBook, now_us: int, seen: bool = False) -> None:
    """Sets the timers of a budget: at the end of its period, and with PenstockBudgetAtEnd=cancel when it is used up;
    not if that was `seen`."""
    due_us = book.end_us or NEVER
    if state.config.penstock_budget_at_end == "cancel":
        up_us = book.used_up_us(now_us)
        due_us = min(due_us, max(now_us, up_us)) if up_us > now_us or not seen else due_us
    if due_us != NEVER and not now_us <= book.due_us <= due_us:
        book.due_us = due_us
        state.timers.set(due_us, Timer.BUDGET, "/".join(map(str, book.key)))


# ---- texts -------------------------------------------------------------------------------------------------------


def units(amount: int) -> str:
    """Formats an amount in its unit, with two decimals."""
    hundredths = (amount * 100 + ONE // 2) // ONE
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def words(state: ClusterState, book: BudgetBook) -> str:
    """Describes a budget: `account lab, 1000 gpu-hours a month`."""
    account = state.shares.by_id[book.assoc_id].account
    each = "" if book.budget.period == "none" else f" each {book.budget.period}"
    return f"the budget of account {account}, {book.budget.amount()} {book.budget.unit}{each},"


def describe(state: ClusterState, job: Job, book: BudgetBook, cost: int, now_us: int) -> str:
    """Describes a `shortage`, with the numbers."""
    used, reserved = units(book.used_at(now_us)), units(book.reserved_at(now_us))
    may = f"it may use {units(cost)}" if job.time_limit_s >= 0 or book.end_us else "it has no time limit"
    return f"{words(state, book)} has {used} used and {reserved} reserved by running jobs, and {may}"


def warnings(state: ClusterState, job: Job, now_us: int) -> tuple[str, ...]:
    """Warnings for a submitter about budgets of which less than WARN_PERCENT is left."""
    found = []
    for book in books_of(state, job):
        _advance_and_check(state, book, now_us)
        left = book.free_at(now_us)
        if left * 100 < book.limit * WARN_PERCENT:
            found.append(f"{words(state, book)} has {units(max(0, left))} left")
    return tuple(found)
