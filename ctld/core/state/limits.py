"""State of limits: limits/, lifecycle/limit_*.py; the association tree is `ClusterState.shares`."""

from ctld.core.records.budget_book import Budgets
from ctld.core.records.lending import Lending
from ctld.core.state.books import LimitLedger


class LimitState:
    """Books of associations, QOS and budgets, and the jobs that have changed since they were settled."""

    __slots__ = ("budgets", "charged", "due", "ledger", "lending", "mailed_limits")

    def __init__(self) -> None:
        self.ledger: LimitLedger | None = None  # the limit ledger; None = limits are not enforced
        self.due: dict[int, None] = {}  # jobs that have changed since the ledger was settled
        self.charged: dict[int, tuple[int, int]] = {}  # job id -> (association id, rate) of allocated jobs
        self.budgets = Budgets()
        self.lending = Lending()
        self.mailed_limits: dict[int, int] = {}  # job id -> percentages of its time limit for which mail was sent
