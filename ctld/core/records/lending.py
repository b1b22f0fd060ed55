"""Record of borrowing between accounts (limits/borrow.py). No rules here."""


class Lending:
    """State of borrowing: the borrowed jobs, and the jobs that reclaim."""

    __slots__ = ("borrowed", "claims", "is_on", "reclaimers", "stale", "was_on")

    def __init__(self) -> None:
        self.is_on = False  # some account may borrow
        self.was_on = False  # ... or was allowed to, since the controller has started
        self.stale = True  # accounts have changed since that was computed
        #: running jobs that borrow -> ids of the accounts below which they may be reclaimed
        self.borrowed: dict[int, tuple[int, ...]] = {}
        #: pending job -> the accounts below which it may preempt borrowed jobs
        self.reclaimers: dict[int, tuple[int, ...]] = {}
        self.claims: dict[tuple[int, str], int] = {}  # (account, TRES) -> what its pending jobs want of its guarantee
