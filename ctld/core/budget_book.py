"""What is used and reserved of one budget, in one period after the other. Exact: whole numbers only.

Rates are in millionths of the unit for each hour; amounts are rates times microseconds, so that one unit is `ONE`.

    used       what jobs have used since the period began: a sum as of a moment, and the rates of those that run
    reserved   what running jobs may still use of the period: until their time limits, or its end

Nothing decays. A job that stands still uses nothing, as its time limit stands still; what is left of its time stays
reserved. What is heard late (the end of a job on a node that was out of reach) is put right as far as this period goes.
A period that is over is handed out as a row and never changed again.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.values.budgets import Budget

#: One unit, as an amount.
ONE = 1_000_000 * 3_600_000_000
#: The end of a job that has none.
NEVER = 1 << 62

Key = tuple[int, str, str]  # (association id of the account, unit, period)
Bounds = Callable[[int], tuple[int, int]]


class BudgetRow(NamedTuple):
    """The committed image of a budget's use in a period. Primary key (assoc_id, unit, period, start_us)."""

    assoc_id: int
    unit: str
    period: str
    start_us: int
    end_us: int  # 0 = never
    used: int  # as of
    at_us: int


class Part(NamedTuple):
    """What one job uses of it."""

    rate: int
    runs: bool
    end_us: int  # by when it must have ended if it runs; 0 = it is ending; NEVER
    left_us: int  # of its time if it stands still


class Book:
    """One budget of one account. `parts` are the jobs that hold something."""

    __slots__ = (
        "at_us", "assoc_id", "bounds", "budget", "due_us", "end_us", "ends", "fixed", "parts", "rate", "reserving",
        "start_us", "used",
    )  # fmt: skip

    def __init__(self, assoc_id: int, budget: Budget, bounds: Bounds, now_us: int) -> None:
        self.assoc_id, self.budget, self.bounds = assoc_id, budget, bounds
        self.start_us, self.end_us = bounds(now_us)
        self.used, self.at_us = 0, now_us
        self.due_us = 0  # for when a timer was set
        self.parts: dict[int, Part] = {}
        self._forget()

    def sums(self) -> tuple[int, int, int, int]:
        """What is kept as sums, for comparing."""
        return self.rate, self.reserving, self.ends, self.fixed

    def counted(self) -> tuple[int, int, int, int]:
        """The same, counted a second way: from the parts."""
        twin = Book(self.assoc_id, self.budget, self.bounds, self.at_us)
        twin.start_us, twin.end_us = self.start_us, self.end_us
        for job_id, part in self.parts.items():
            twin.hold(job_id, part)
        return twin.sums()

    def _forget(self) -> None:
        self.rate = 0  # of those that run
        self.reserving = 0  # of those of them that have an end that is reserved for,
        self.ends = 0  # and times that end
        self.fixed = 0  # reserved for those that stand still

    @property
    def key(self) -> Key:
        """How it is found."""
        return self.assoc_id, self.budget.unit, self.budget.period

    @property
    def limit(self) -> int:
        """All of it."""
        return self.budget.hundredths * (ONE // 100)

    def row(self) -> BudgetRow:
        """Freeze it."""
        return BudgetRow(*self.key, self.start_us, self.end_us, self.used, self.at_us)

    def load(self, row: BudgetRow) -> None:
        """As the database has it; `roll` brings it forward."""
        self.start_us, self.end_us, self.used, self.at_us = row.start_us, row.end_us, row.used, row.at_us

    # ---- time ----------------------------------------------------------------------------------------------------

    def used_at(self, now_us: int) -> int:
        """What has been used by then, in this period."""
        return self.used + self.rate * max(0, now_us - self.at_us)

    def reserved_at(self, now_us: int) -> int:
        """What running jobs may still use of this period."""
        return max(0, self.ends - self.reserving * now_us) + self.fixed

    def free_at(self, now_us: int) -> int:
        """What a job may still have; below 0 = more is used or reserved than there is."""
        return self.limit - self.used_at(now_us) - self.reserved_at(now_us)

    def advance(self, now_us: int) -> list[BudgetRow]:
        """Bring it forward to now. Returns the periods that are over."""
        over: list[BudgetRow] = []
        while self.end_us and now_us >= self.end_us:
            self.used, self.at_us = self.used_at(self.end_us), self.end_us
            over.append(self.row())
            self.start_us, self.end_us = self.bounds(self.end_us)
            self.used = 0
        if over:
            parts = self.parts
            self._forget()
            self.parts = {}
            for job_id, part in parts.items():
                self._add(job_id, part)
        if now_us > self.at_us:
            self.used, self.at_us = self.used_at(now_us), now_us
        return over

    def span_us(self, time_us: int, now_us: int) -> int:
        """How much of a running time that begins now lies in this period; NEVER of one without end."""
        return min(time_us, self.end_us - now_us) if self.end_us else time_us

    def used_up_us(self, now_us: int) -> int:
        """When all of it will have been used if nothing changes; NEVER."""
        left = self.limit - self.used_at(now_us)
        return now_us + -(-max(0, left) // self.rate) if self.rate else NEVER

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def enter(self, job_id: int, part: Part, from_us: int) -> None:
        """A job uses it from then on. The book is at its present, so that what was used since is added."""
        self._add(job_id, part)
        if part.runs:
            self.used += part.rate * max(0, self.at_us - max(from_us, self.start_us))

    def leave(self, job_id: int, end_us: int) -> None:
        """A job has not used it since then: what was counted since is taken back."""
        part = self.parts[job_id]
        self._take(job_id)
        if part.runs:
            self.used = max(0, self.used - part.rate * max(0, self.at_us - max(end_us, self.start_us)))

    def hold(self, job_id: int, part: Part) -> None:
        """As `enter`, for a job that was counted up to the book's moment."""
        self._add(job_id, part)

    def _add(self, job_id: int, part: Part) -> None:
        self.parts[job_id] = part
        self._count(part, 1)

    def _take(self, job_id: int) -> None:
        self._count(self.parts.pop(job_id), -1)

    def _count(self, part: Part, sign: int) -> None:
        if not part.runs:
            self.fixed += sign * part.rate * self.span_us(part.left_us, self.start_us)
            return
        self.rate += sign * part.rate
        if part.end_us and (self.end_us or part.end_us != NEVER):  # what has no end at all cannot be reserved for
            self.reserving += sign * part.rate
            self.ends += sign * part.rate * (min(part.end_us, self.end_us) if self.end_us else part.end_us)


class Budgets:
    """All books, who is in them, and who waits for them."""

    __slots__ = ("books", "by_account", "closed", "dirty", "freed", "known", "of_job", "rows", "stale", "waiting")

    def __init__(self) -> None:
        self.books: dict[Key, Book] = {}
        self.by_account: dict[int, tuple[Book, ...]] = {}  # by association id of the account
        self.of_job: dict[int, tuple[Book, ...]] = {}  # those that a job which holds something is in
        self.rows: dict[Key, BudgetRow] = {}  # of budgets that there are no more, should they come back
        self.waiting: dict[int, None] = {}
        self.known: dict[int, dict[Key, int]] = {}  # pending job -> what its last placement would have cost
        self.stale = False  # accounts have changed
        self.freed = False  # somebody who waits may fit now
        self.dirty: dict[Key, None] = {}
        self.closed: list[BudgetRow] = []

    def take_rows(self) -> list[BudgetRow]:
        """What must be written."""
        rows = self.closed + [self.books[key].row() for key in self.dirty if key in self.books]
        self.closed, self.dirty = [], {}
        return rows
