"""The period in which an instant lies, by the calendar of the controller's time zone.

A day begins at local midnight, a week on Monday, a month, quarter and year on their first day. The zone comes with the
configuration, as a table of offsets (penstock/values/localtime.py). `none` has no bounds: (0, 0).
"""

from penstock.values.localtime import DAY_S, Offsets, civil, from_local_us, to_local_s, weekday

#: Months of a period that consists of months.
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def bounds(period: str, at_us: int, offsets: Offsets) -> tuple[int, int]:
    """Returns the first instant of the period and of the next one, microseconds; end 0 = there is none."""
    local_s = to_local_s(offsets, at_us)
    day = local_s // DAY_S
    if period == "day":
        first, after = day, day + 1
    elif period == "week":
        first = day - weekday(local_s)
        after = first + 7
    elif period in _MONTHS:
        first, after = _months(day, _MONTHS[period])
    else:
        return 0, 0
    return from_local_us(offsets, first * DAY_S), from_local_us(offsets, after * DAY_S)


def _months(day: int, months: int) -> tuple[int, int]:
    """Returns the first days of the span of so many months that contains the day, and of the next one."""
    _, month, month_day = civil(day)
    first = day - month_day + 1
    for _ in range((month - 1) % months):
        first -= civil(first - 1)[2]
    after = first
    for _ in range(months):
        after += 31
        after -= civil(after)[2] - 1  # no month is longer than that, so this is in the next one
    return first, after
