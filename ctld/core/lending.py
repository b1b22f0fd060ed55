"""What is known of borrowing between accounts (borrow.py). No rules here."""


class Lending:
    """Who runs on what others lend, and who wants it back."""

    __slots__ = ("borrowed", "claims", "is_on", "reclaimers", "stale", "was_on")

    def __init__(self) -> None:
        self.is_on = False  # some account may borrow
        self.was_on = False  # ... or could, since the controller has started
        self.stale = True  # accounts have changed since that was looked at
        #: jobs that run on it -> ids of the accounts below which they may be reclaimed
        self.borrowed: dict[int, tuple[int, ...]] = {}
        #: pending job -> the accounts below which it may make borrowed jobs go
        self.reclaimers: dict[int, tuple[int, ...]] = {}
        self.claims: dict[tuple[int, str], int] = {}  # (account, TRES) -> what its waiting jobs want of its guarantee
