"""Recalculates priorities before the period is over, soon after the tree of accounts has changed."""

from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer

#: Delay before a new association is ranked, together with others that follow.
SOON_US = 1_000_000
#: The timer's key for an early calculation, beside the generations of the periodic one (above 0).
SOON, SECOND_STEP = -1, -2


def calculate_soon(state: ClusterState, now_us: int) -> None:
    """Schedules a calculation before the period is over, after a change of the tree."""
    table = state.priorities
    if table is not None and not table.is_soon:
        table.is_soon = True
        state.timers.set(now_us + SOON_US, Timer.PRIORITY, 0, SOON)
