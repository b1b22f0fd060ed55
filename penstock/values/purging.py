"""How long records are kept: `12months`, `30days`, `48hours`, as slurmdbd.conf writes it.

A number alone is months, as in Slurm. What is older than so many whole periods, counted back from the beginning of the
present one in local time, is purged.
"""

import re
from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.localtime import DAY_S, US, Offsets, civil, from_local_us, to_local_s
from penstock.values.text import shown

#: Kinds of records, by the word of the key in slurmdbd.conf (PurgeEventAfter, ArchiveEvents).
KINDS: Final = ("events", "jobs", "reservations", "steps", "suspend", "transactions", "usage")
_UNITS: Final = {
    "hour": "hours",
    "hours": "hours",
    "day": "days",
    "days": "days",
    "month": "months",
    "months": "months",
}
#: A thousand years.
NUMBER_MAX: Final = 100_000
_HOUR_S: Final = 3600


class Age(NamedTuple):
    """So many hours, days or months."""

    number: int
    unit: str

    def text(self) -> str:
        """As it is written."""
        return f"{self.number}{self.unit}"


def parse_age(text: str, what: str = "time") -> Age:
    """Raises BadValue."""
    found = re.fullmatch(r"\s*(\d{1,6})\s*([a-z]*)\s*", text.lower())
    unit = _UNITS.get(found[2] or "months") if found else None
    if found is None or unit is None or not 0 < int(found[1]) <= NUMBER_MAX:
        raise BadValue(f"{what} {shown(text)}: write a number with hours, days or months, as in 12months")
    return Age(int(found[1]), unit)


def before_us(age: Age, now_us: int, offsets: Offsets) -> int:
    """What ended before this instant is old enough."""
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
    """The first of a month as a day counted from 1970-01-01: the reverse of `civil`."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
