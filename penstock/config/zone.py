"""The machine's time zone as data: the times at which its UTC offset changes.

The controller's core repeats reservations by local days and must not access the machine, so the table is part of the
configuration. It covers YEARS; after them the last offset applies.
"""

import time
from functools import cache

#: 1 January of these years (UTC, seconds): before the first controller, and beyond the end of any reservation.
YEARS = (1_577_836_800, 3_155_760_000)  # 2020 to 2070
_STEP_S = 7 * 86_400  # no zone changes its offset twice in a week


@cache
def utc_offsets() -> tuple[tuple[int, int], ...]:
    """Returns the table of (from, in microseconds; seconds east of Greenwich), oldest first. () for a zone that is
    always UTC.
    """
    low, high = YEARS
    found = [(low, _offset(low))]
    at_s = low
    while at_s < high:
        next_s = at_s + _STEP_S
        if _offset(next_s) != found[-1][1]:
            found.append((_change_between(at_s, next_s), _offset(next_s)))
        at_s = next_s
    return tuple((at_s * 1_000_000, offset) for at_s, offset in found) if any(o for _, o in found) else ()


def _offset(at_s: int) -> int:
    return time.localtime(at_s).tm_gmtoff


def _change_between(low_s: int, high_s: int) -> int:
    """Returns the first second with the offset of `high_s`."""
    target = _offset(high_s)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        low_s, high_s = (low_s, middle_s) if _offset(middle_s) == target else (middle_s, high_s)
    return high_s
