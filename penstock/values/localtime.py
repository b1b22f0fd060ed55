"""Computes local wall-clock time from a table of UTC offsets instead of a time zone. Pure: the controller's core uses
it.

The table is part of the configuration (`Config.utc_offsets`): (from, seconds east of Greenwich), oldest first; an empty
one is UTC. A local time that does not exist is the first instant after the gap; one that occurs twice is the first of
the two.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

US: Final = 1_000_000
DAY_S: Final = 86_400
#: 1970-01-01 was a Thursday; Monday is 0.
_FIRST_WEEKDAY: Final = 3

Offsets = Sequence[tuple[int, int]]


def offset_at(offsets: Offsets, at_us: int) -> int:
    """Returns the seconds east of Greenwich at an instant; before the first entry, those of the first entry."""
    if not offsets:
        return 0
    return offsets[max(0, bisect_right(offsets, at_us, key=lambda entry: entry[0]) - 1)][1]


def next_change_us(offsets: Offsets, at_us: int) -> int | None:
    """Returns the first change of the clock after an instant; None = there is none in the table."""
    following = bisect_right(offsets, at_us, key=lambda entry: entry[0])
    return offsets[following][0] if following < len(offsets) else None


def to_local_s(offsets: Offsets, at_us: int) -> int:
    """Returns the time of the wall clock in seconds, counted as if it were UTC."""
    return at_us // US + offset_at(offsets, at_us)


def from_local_us(offsets: Offsets, local_s: int) -> int:
    """Returns the first instant with that local time, or the end of the gap that contains it."""
    candidates = dict.fromkeys((local_s - offset) * US for _, offset in offsets) or {local_s * US: None}
    valid = [at_us for at_us in candidates if to_local_s(offsets, at_us) == local_s]
    if valid:
        return min(valid)
    for (_, before), (at_us, after) in pairwise(offsets):
        if at_us // US + before <= local_s < at_us // US + after:
            return at_us
    return (local_s - offset_at(offsets, local_s * US)) * US


def weekday(local_s: int) -> int:
    """Returns the day of the week; Monday is 0."""
    return (local_s // DAY_S + _FIRST_WEEKDAY) % 7


def days_of_month(year: int, month: int) -> int:
    """Returns the length of a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def civil(day: int) -> tuple[int, int, int]:
    """Returns (year, month, day of the month) of a day counted from 1970-01-01.

    Years are counted from March, so that a leap day is the last day of a year, in eras of 400 years.
    """
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    month_day = of_year - (153 * month + 2) // 5 + 1
    return year + era * 400 + (month >= 10), (month + 2) % 12 + 1, month_day
