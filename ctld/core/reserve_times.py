"""When a recurring reservation comes again: local days and clocks with a table of offsets instead of a time zone.

The n-th occurrence is counted from the first start (`anchor_us`), in local time, so that a change of the clocks moves
the instant and not the hour on the wall, and one odd night does not shift all nights after it. HOURLY counts real
hours. A local time that does not exist is the first instant after the gap; one that exists twice is the first of the
two. The length of an occurrence stays what it is in seconds.

The table comes with the configuration (`Config.utc_offsets`): (from, seconds east of Greenwich), oldest first; an
empty one is UTC. Nothing here asks the machine.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from penstock.values.reservations import RECURRING, ResvFlag

US: Final = 1_000_000
HOUR_US: Final = 3600 * US
DAY_S: Final = 86_400
#: 1970-01-01 was a Thursday; Monday is 0.
_FIRST_WEEKDAY: Final = 3

Offsets = Sequence[tuple[int, int]]

#: Which weekdays a flag takes, and how many days apart its candidates are.
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


def offset_at(offsets: Offsets, at_us: int) -> int:
    """Seconds east of Greenwich at an instant; before the table begins, those of its first entry."""
    if not offsets:
        return 0
    return offsets[max(0, bisect_right(offsets, at_us, key=lambda entry: entry[0]) - 1)][1]


def to_local_s(offsets: Offsets, at_us: int) -> int:
    """Seconds on the wall clock, counted as if they were UTC."""
    return at_us // US + offset_at(offsets, at_us)


def from_local_us(offsets: Offsets, local_s: int) -> int:
    """The first instant with that local time, or the end of the gap that swallowed it."""
    candidates = dict.fromkeys((local_s - offset) * US for _, offset in offsets) or {local_s * US: None}
    valid = [at_us for at_us in candidates if to_local_s(offsets, at_us) == local_s]
    if valid:
        return min(valid)
    for (_, before), (at_us, after) in pairwise(offsets):
        if at_us // US + before <= local_s < at_us // US + after:
            return at_us
    return (local_s - offset_at(offsets, local_s * US)) * US


def weekday(local_s: int) -> int:
    """0 = Monday."""
    return (local_s // DAY_S + _FIRST_WEEKDAY) % 7


def starts(anchor_us: int, flags: ResvFlag, offsets: Offsets, from_us: int) -> Iterator[int]:
    """Starts at or after `from_us`, without end for a recurring reservation; else the anchor, if it is one."""
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
    """(start, end) of up to `most` occurrences that start at or after `from_us`."""
    return [(at_us, at_us + length_us) for at_us in islice(starts(anchor_us, flags, offsets, from_us), most)]


def overlap(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """True when an interval of one list meets one of the other; both are sorted."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][0] < other[j][1] and other[j][0] < one[i][1]:
            return True
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return False
