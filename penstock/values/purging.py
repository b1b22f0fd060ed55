"""Parses retention times of records: `12months`, `30days`, `48hours`, as in slurmdbd.conf.

A bare number is months, as in Slurm. A record is purged if it is older than that many whole periods, counted back from
the start of the current one in local time.
"""

import re
from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.localtime import DAY_S, US, Offsets, civil, from_local_us, to_local_s
from penstock.values.text import shown

#: Kinds of records, named as in the keys of slurmdbd.conf (PurgeEventAfter, ArchiveEvents).
KINDS: Final = ("events", "jobs", "reservations", "steps", "suspend", "transactions", "usage")
_UNITS: Final = {
    "hour": "hours",
    "hours": "hours",
    "day": "days",
    "days": "days",
    "month": "months",
    "months": "months",
}
#: More than 8,000 years in months, 11 years in hours.
NUMBER_MAX: Final = 100_000
_HOUR_S: Final = 3600


class Age(NamedTuple):
    """A retention time: a number of hours, days or months."""

    number: int
    unit: str

    def text(self) -> str:
        """Formats the retention time."""
        return f"{self.number}{self.unit}"


def parse_age(text: str, what: str = "time") -> Age:
    """Parses a retention time. Raises BadValue."""
    found = re.fullmatch(r"\s*(\d{1,6})\s*([a-z]*)\s*", text.lower())
    unit = _UNITS.get(found[2] or "months") if found else None
    if found is None or unit is None or not 0 < int(found[1]) <= NUMBER_MAX:
        raise BadValue(f"{what} {shown(text)}: write a number with hours, days or months, as in 12months")
    return Age(int(found[1]), unit)


def before_us(age: Age, now_us: int, offsets: Offsets) -> int:
    """Returns the instant before which records are purged."""
    local_s = to_local_s(offsets, now_us)
    if age.unit == "hours":
        return (now_us // US // _HOUR_S - age.number) * _HOUR_S * US
    day = local_s // DAY_S
    if age.unit == "days":
        return from_local_us(offsets, (day - age.number) * DAY_S)
    year, month, _ = civil(day)
    months = year * 12 + month - 1 - age.number
    return from_local_us(offsets, _first_day(months // 12, months % 12 + 1) * DAY_S)


def _first_day(year: int, month: int) -> int:
    """Returns the first of a month as a day counted from 1970-01-01, the inverse of `civil`."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
