"""The used and reserved amounts of one budget in each period. Exact: whole numbers only.

Rates are in millionths of the unit for each hour; amounts are rates times microseconds, so that one unit is `ONE`.

    used       what jobs have used since the period began: a sum as of a moment, and the rates of running jobs
    reserved   what running jobs may still use of the period: until their time limits, or its end

Nothing decays. A suspended job uses nothing, and its remaining time stays reserved. A late report (the end of a job on
a node that was unreachable) corrects the present period only. A period that is over becomes a row and is never changed
again.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.values.budgets import Budget

#: One unit, as an amount.
ONE = 1_000_000 * 3_600_000_000
#: The end of a job without an end.
NEVER = 1 << 62

BudgetKey = tuple[int, str, str]  # (association id of the account, unit, period)
Bounds = Callable[[int], tuple[int, int]]


class BudgetRow(NamedTuple):
    """The committed image of a budget's use in a period. Primary key (assoc_id, unit, period, start_us)."""

    # made by tools/records: row of budget_use
    assoc_id: int
    unit: str
    period: str
    start_us: int
    end_us: int  # 0 = never
    used: int  # as of
    at_us: int
    # end of what is made


class Part(NamedTuple):
    """One job's use of a budget."""

    rate: int
    runs: bool
    end_us: int  # its latest end if it runs; 0 = it is ending; NEVER
    left_us: int  # the remaining time if it is suspended


class BudgetBook:
    """One budget of one account. `parts` are the jobs that hold something."""

    __slots__ = (
        "at_us", "assoc_id", "bounds", "budget", "due_us", "end_us", "ends", "fixed", "parts", "rate", "reserving",
        "start_us", "used",
    )  # fmt: skip

    def __init__(self, assoc_id: int, budget: Budget, bounds: Bounds, now_us: int) -> None:
        self.assoc_id = assoc_id
        self.budget = budget
        self.bounds = bounds
        self.start_us, self.end_us = bounds(now_us)
        self.used = 0
        self.at_us = now_us
        self.due_us = 0  # the time of its timer
        self.parts: dict[int, Part] = {}
        self._forget()

    def sums(self) -> tuple[int, int, int, int]:
        """Returns the running sums, for the comparison."""
        return self.rate, self.reserving, self.ends, self.fixed

    def counted(self) -> tuple[int, int, int, int]:
        """Recounts the same sums from the parts."""
        twin = BudgetBook(self.assoc_id, self.budget, self.bounds, self.at_us)
        twin.start_us = self.start_us
        twin.end_us = self.end_us
        for job_id, part in self.parts.items():
            twin.add(job_id, part)
        return twin.sums()

    def _forget(self) -> None:
        self.rate = 0  # of running ones
        self.reserving = 0  # of those of them whose end is reserved for
        self.ends = 0  # the same, times their ends
        self.fixed = 0  # reserved for suspended ones

    @property
    def key(self) -> BudgetKey:
        """The key of the book."""
        return self.assoc_id, self.budget.unit, self.budget.period

    @property
    def limit(self) -> int:
        """Returns the whole amount."""
        return self.budget.hundredths * (ONE // 100)

    def row(self) -> BudgetRow:
        """Returns the row of the present period."""
        return BudgetRow(*self.key, self.start_us, self.end_us, self.used, self.at_us)

    def load(self, row: BudgetRow) -> None:
        """Loads the row of the database; `roll` advances it."""
        self.start_us = row.start_us
        self.end_us = row.end_us
        self.used = row.used
        self.at_us = row.at_us

    # ---- time ----------------------------------------------------------------------------------------------------

    def used_at(self, now_us: int) -> int:
        """Returns the amount used by then, in this period."""
        return self.used + self.rate * max(0, now_us - self.at_us)

    def reserved_at(self, now_us: int) -> int:
        """Returns the amount that running jobs may still use of this period."""
        return max(0, self.ends - self.reserving * now_us) + self.fixed

    def free_at(self, now_us: int) -> int:
        """Returns the amount that a job may still use; below 0 = the budget is exceeded."""
        return self.limit - self.used_at(now_us) - self.reserved_at(now_us)

    def advance(self, now_us: int) -> list[BudgetRow]:
        """Advances the book to now. Returns the periods that are over."""
        over: list[BudgetRow] = []
        while self.end_us and now_us >= self.end_us:
            self.used = self.used_at(self.end_us)
            self.at_us = self.end_us
            over.append(self.row())
            self.start_us, self.end_us = self.bounds(self.end_us)
            self.used = 0
        if over:
            parts = self.parts
            self._forget()
            self.parts = {}
            for job_id, part in parts.items():
                self.add(job_id, part)
        if now_us > self.at_us:
            self.used = self.used_at(now_us)
            self.at_us = now_us
        return over

    def span_us(self, time_us: int, now_us: int) -> int:
        """Returns the part of a running time from now on that lies in this period; NEVER for one without end."""
        return min(time_us, self.end_us - now_us) if self.end_us else time_us

    def used_up_us(self, now_us: int) -> int:
        """Returns when all of it will have been used if nothing changes; NEVER."""
        left = self.limit - self.used_at(now_us)
        return now_us + -(-max(0, left) // self.rate) if self.rate else NEVER

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def enter(self, job_id: int, part: Part, from_us: int) -> None:
        """Adds a job that uses the budget since then. The book is at the present time, so the use since then is added."""
        self.add(job_id, part)
        if part.runs:
            self.used += part.rate * max(0, self.at_us - max(from_us, self.start_us))

    def leave(self, job_id: int, end_us: int) -> None:
        """Removes a job that has not used it since then: what was counted since is subtracted."""
        part = self.parts[job_id]
        self._take(job_id)
        if part.runs:
            self.used = max(0, self.used - part.rate * max(0, self.at_us - max(end_us, self.start_us)))

    def add(self, job_id: int, part: Part) -> None:
        """Does the same as `enter` for a job that was counted up to the book's time."""
        self.parts[job_id] = part
        self._count(part, 1)

    def _take(self, job_id: int) -> None:
        self._count(self.parts.pop(job_id), -1)

    def _count(self, part: Part, sign: int) -> None:
        if not part.runs:
            self.fixed += sign * part.rate * self.span_us(part.left_us, self.start_us)
            return
        self.rate += sign * part.rate
        if part.end_us and (self.end_us or part.end_us != NEVER):  # a use without end cannot be reserved
            self.reserving += sign * part.rate
            self.ends += sign * part.rate * (min(part.end_us, self.end_us) if self.end_us else part.end_us)


class Budgets:
    """All books, their members, and the jobs that wait for them."""

    __slots__ = ("books", "by_account", "closed", "dirty", "freed", "known", "of_job", "rows", "stale", "waiting")

    def __init__(self) -> None:
        self.books: dict[BudgetKey, BudgetBook] = {}
        self.by_account: dict[int, tuple[BudgetBook, ...]] = {}  # by association id of the account
        self.of_job: dict[int, tuple[BudgetBook, ...]] = {}  # the books of each job with an allocation
        self.rows: dict[BudgetKey, BudgetRow] = {}  # of removed budgets, in case they are set again
        self.waiting: dict[int, None] = {}
        self.known: dict[int, dict[BudgetKey, int]] = {}  # pending job -> the cost of its last placement
        self.stale = False  # accounts have changed
        self.freed = False  # a waiting job may fit now
        self.dirty: dict[BudgetKey, None] = {}
        self.closed: list[BudgetRow] = []

    def take_rows(self) -> list[BudgetRow]:
        """Returns the rows to write."""
        rows = self.closed + [self.books[key].row() for key in self.dirty if key in self.books]
        self.closed = []
        self.dirty = {}
        return rows
