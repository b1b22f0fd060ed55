"""When usage was last set to zero (PriorityUsageResetPeriod), by the calendar alone.

Boundaries are midnights of UTC, so that the core needs no time zone: of each day, of each Sunday, of the first day of a
month, of a quarter or of a year. Slurm uses the controller's local midnight; with a controller on UTC both are equal.
NOW and NONE have no boundary.
"""

DAY_US = 86_400 * 1_000_000

#: First months of the spans that a boundary of each kind begins.
_MONTHS = {"MONTHLY": 1, "QUARTERLY": 3, "YEARLY": 12}


def last_reset_us(period: str, now_us: int) -> int:
    """Returns the latest boundary at or before `now_us`; 0 = there is none."""
    day = now_us // DAY_US
    if period == "DAILY":
        return day * DAY_US
    if period == "WEEKLY":
        return (day - (day + 4) % 7) * DAY_US  # day 0 was a Thursday, day 3 a Sunday
    if period in _MONTHS:
        year, month = _year_and_month(day)
        return _first_day(year, month - (month - 1) % _MONTHS[period]) * DAY_US
    return 0


def _year_and_month(day: int) -> tuple[int, int]:
    """Returns the calendar's year and month of a day since 1970-01-01 (the Gregorian rule, counted in eras of 400
    years)."""
    era, in_era = divmod(day + 719_468, 146_097)
    year_of_era = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * in_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return era * 400 + year_of_era + (month <= 2), month


def _first_day(year: int, month: int) -> int:
    """Returns the day since 1970-01-01 on which a month begins."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    in_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + in_year - 719_468
