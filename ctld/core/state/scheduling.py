"""State that scheduling passes keep from one to the next (passes/schedule.py, passes/wait_reasons.py)."""

from _fastsched import IdTable
from ctld.core.state.forecast import Forecast
from ctld.core.state.policy import BackfillPolicy
from ctld.core.state.reason_backlog import ReasonBacklog


class Scheduling:
    """When a pass is due, the answer of the last one, and whether plans are outdated."""

    __slots__ = (
        "flagged", "forecast", "full_pass_in_flight", "full_pass_not_before_us", "full_pass_revision",
        "full_pass_timer_us", "layout_revision", "policy", "quick_pass_due", "revision", "rows_seen", "reason_backlog",
        "reasons_timer",
    )  # fmt: skip

    def __init__(self) -> None:
        self.policy = BackfillPolicy()
        self.revision = 0  # incremented whenever a pass could have a different result
        self.quick_pass_due = False
        self.layout_revision = 0  # plans older than this use other node numbers
        self.rows_seen = 0  # total of all quick passes: for sdiag
        self.forecast: Forecast | None = None  # of the last pass that saw the whole queue
        self.flagged = IdTable()  # ready jobs whose reason is not Priority: all of them, when no node is up
        self.reason_backlog: ReasonBacklog | None = None  # results of the last full pass that are not written yet
        self.reasons_timer = False  # the timer is set
        self.full_pass_in_flight = False
        self.full_pass_revision = -1
        self.full_pass_not_before_us = 0
        self.full_pass_timer_us = 0  # the time of the timer

    def outdate_plans(self) -> None:
        """Marks the plan of a running pass as outdated, without making another pass due."""
        self.revision += 1

    def changed(self) -> None:
        """Marks a change after which a pass could have a different result, so that one is due."""
        self.revision += 1
        self.quick_pass_due = True
