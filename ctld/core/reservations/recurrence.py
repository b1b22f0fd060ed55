"""Computes the next occurrence of a recurring reservation: local days and clocks with a table of offsets instead of a
time zone.

The n-th occurrence is counted from the first start (`anchor_us`), in local time, so that at a change to daylight saving
time the local hour is kept, and one irregular night does not shift the following ones. HOURLY counts real hours. Local
times are those of penstock/values/localtime.py. The length of an occurrence is constant in seconds.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from penstock.values.localtime import DAY_S, US, Offsets, from_local_us, to_local_s, weekday
from penstock.values.reservations import RECURRING, ResvFlag

HOUR_US: Final = 3600 * US

#: The weekdays of a flag, and the distance of its candidates in days.
_DAYS: Final[dict[ResvFlag, tuple[frozenset[int], int]]] = {
    ResvFlag.DAILY: (frozenset(range(7)), 1),
    ResvFlag.WEEKDAY: (frozenset(range(5)), 1),
    ResvFlag.WEEKEND: (frozenset((5, 6)), 1),
    ResvFlag.WEEKLY: (frozenset(range(7)), 7),
}
#: Shortest time from one start to the next: an occurrence may not be longer. A day in spring has 23 hours.
SHORTEST_S: Final = {
    ResvFlag.HOURLY: 3600,
    ResvFlag.DAILY: DAY_S,
    ResvFlag.WEEKDAY: DAY_S,
    ResvFlag.WEEKEND: DAY_S,
    ResvFlag.WEEKLY: 7 * DAY_S,
}


def starts(anchor_us: int, flags: ResvFlag, offsets: Offsets, from_us: int) -> Iterator[int]:
    """Yields starts at or after `from_us`, without end for a recurring reservation; else the anchor, if it is one."""
    how = flags & RECURRING
    if not how:
        if anchor_us >= from_us:
            yield anchor_us
        return
    if how & ResvFlag.HOURLY:
        at_us = anchor_us + max(0, -(-(from_us - anchor_us) // HOUR_US)) * HOUR_US
        while True:
            yield at_us
            at_us += HOUR_US
    days, step = _DAYS[how]
    first_local_s = to_local_s(offsets, anchor_us)
    # Two days early, so that no offset can hide a candidate.
    n = max(0, (from_us - anchor_us) // (DAY_S * US) - 2) // step * step
    while True:
        local_s = first_local_s + n * DAY_S
        if weekday(local_s) in days:
            at_us = anchor_us if n == 0 else from_local_us(offsets, local_s)
            if at_us >= from_us:
                yield at_us
        n += step


def windows(
    anchor_us: int, length_us: int, flags: ResvFlag, offsets: Offsets, from_us: int, most: int
) -> list[tuple[int, int]]:
    """Returns (start, end) of up to `most` occurrences that start at or after `from_us`."""
    return [(at_us, at_us + length_us) for at_us in islice(starts(anchor_us, flags, offsets, from_us), most)]


def overlap(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Whether an interval of one list overlaps one of the other; both are sorted."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][0] < other[j][1] and other[j][0] < one[i][1]:
            return True
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return False
