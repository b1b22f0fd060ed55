"""Times of a step as its node reports them, within what can be true.

A node has a clock of its own, and says when a step has started and ended. The end may be that of the job, of which its
charge, its purge and its history follow: an end in the future would charge time that nobody has used.
"""

import msgspec

from ctld.core.records.events import StepExited

#: By how much a node's clock may be ahead: a time further in the future is taken as this. The clocks of a cluster differ
#: by less, for tokens and certificates need that, too.
CLOCK_AHEAD_US = 60 * 1_000_000


def start_of(at_us: int, now_us: int) -> int:
    """Returns a reported start that is not in the future."""
    return min(at_us, now_us + CLOCK_AHEAD_US)


def end_of(event: StepExited, earliest_us: int, now_us: int) -> StepExited:
    """Returns the report with a start and an end that are not in the future.

    A clock that is ahead shows true durations, so both times are moved by the same; but the start not before
    `earliest_us`, since a clock may also have been set ahead while the step ran. A start of 0 = it has not started.
    """
    ahead_us = max(0, event.end_at_us - (now_us + CLOCK_AHEAD_US))
    if not ahead_us and event.start_at_us == start_of(event.start_at_us, now_us):
        return event
    end_us = event.end_at_us - ahead_us
    start_us = event.start_at_us and min(max(event.start_at_us - ahead_us, earliest_us), end_us)
    return msgspec.structs.replace(event, start_at_us=start_us, end_at_us=end_us)
