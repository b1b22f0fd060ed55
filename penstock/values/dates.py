"""Parses points in time as users write them, in the local time zone, to microseconds since 1970, and formats them.

A text is `now` with an optional offset (`now+1hour`, `now-7days`; a bare number is seconds), or a time of day, a date,
or both in either order: `16:00`, `4:00 PM`, `midnight`, `noon`, `fika` (15:00), `teatime` (16:00), `today`, `tomorrow`,
`11/30`, `11/30/26-16:00`, `113026`, `2026-11-30T16:00:05`. Missing parts are completed as in Slurm: the date is today,
the time is 00:00, the year is this year. If the result is in the past, the next day or year is taken, unless the caller
allows the past (`past=True`: the time windows of sacct and squeue).

The present time is an argument. The machine's time zone rules are used, which is why the cores never import this
module. Dates that do not exist (02/30) are refused, where Slurm rolls them over.
"""

import re
import time

from penstock.values.errors import BadValue
from penstock.values.text import shown

DATE_TEXT_MAX = 64  # longer than any accepted form
DATE_YEAR_MIN = 1970  # first year of the epoch
DATE_YEAR_MAX = 2199  # leaves room for a time limit of a century
DATE_MAX_S = 253_370_764_800  # 9999-01-01T00:00:00 UTC
#: Latest time that a request may contain: the end of DATE_YEAR_MAX.
DATE_AT_US_MAX = 7_258_118_400_000_000
UNKNOWN = "Unknown"

_FORMS = (
    "now[+N[seconds|minutes|hours|days|weeks]], HH:MM[:SS] [AM|PM], MM/DD[/YY], MMDD[YY] or YYYY-MM-DD[THH:MM[:SS]]"
)
_UNIT_S = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_TIME_WORDS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_NOW = re.compile(r"now(?:\s*(?P<sign>[+-])\s*(?P<number>[0-9]{1,12})\s*(?:(?P<unit>[a-z]+?)s?)?)?")
# Tried in this order at each position of the text. A group's name says which part it matches.
_PIECES = (
    re.compile(r"(?P<word>midnight|noon|fika|teatime|today|tomorrow)"),
    re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?![0-9])"),
    re.compile(r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?(?:\s*(?P<half>[ap])m)?(?![0-9:])"),
    re.compile(
        r"(?P<month>[0-9]{1,2})(?P<sep>[/.])(?P<day>[0-9]{1,2})(?:(?P=sep)(?P<year>[0-9]{4}|[0-9]{2}))?(?![0-9])"
    ),
    re.compile(r"(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<year>[0-9]{2})?(?![0-9:])"),
)
_BETWEEN = re.compile(r"\s*(?:[t-](?=[0-9]))?")


def parse_date_us(text: str, now_us: int, past: bool = False) -> int:
    """Parses a date to microseconds since 1970. `past=True`: an incomplete date or time stays in today or this year,
    even if that is past.
    """
    if len(text) > DATE_TEXT_MAX or not text.isascii():
        raise _bad(text)
    lowered = text.strip().lower()
    match = _NOW.fullmatch(lowered)
    if match:
        return _checked(_from_now(match, text, now_us), text)
    now = time.localtime(now_us // 1_000_000)
    clock, date, has_year = _read_pieces(lowered, text, now)
    hour, minute, second = clock or (0, 0, 0)
    year, month, day = date or now[:3]
    if not past and date is None and (hour, minute, second) < now[3:6]:
        day += 1
    if date is not None:
        if not past and not has_year and (month, day, hour, minute, second) < now[1:6]:
            year += 1
        _check_day(year, month, day, text)
    try:
        # -1: the time zone decides on daylight saving time; a day past the end of the month rolls over.
        seconds = int(time.mktime((year, month, day, hour, minute, second, 0, 0, -1)))
    except (OverflowError, ValueError):
        raise _bad(text) from None
    return _checked(max(seconds, 0) * 1_000_000, text)


def _bad(text: str) -> BadValue:
    return BadValue(f"Invalid time specification {shown(text)}: write {_FORMS}")


def _checked(at_us: int, text: str) -> int:
    if not 0 <= at_us <= DATE_AT_US_MAX:
        raise _outside(text)
    return at_us


def _outside(text: str) -> BadValue:
    years = f"{DATE_YEAR_MIN} to {DATE_YEAR_MAX}"
    return BadValue(f"Invalid time specification {shown(text)}: outside the years {years}")


def _from_now(match: re.Match[str], text: str, now_us: int) -> int:
    if match["sign"] is None:
        return now_us
    unit_s = _UNIT_S.get(match["unit"] or "")
    if unit_s is None:
        raise _bad(text)
    offset_us = int(match["number"]) * unit_s * 1_000_000
    return now_us + offset_us if match["sign"] == "+" else max(now_us - offset_us, 0)


_Three = tuple[int, int, int]


def _read_pieces(lowered: str, text: str, now: time.struct_time) -> tuple[_Three | None, _Three | None, bool]:
    """Parses at most one time of day and one date, in either order; the bool is whether the date is complete."""
    clock: _Three | None = None
    date: _Three | None = None
    has_year = False
    at = 0
    while at < len(lowered):
        match = next(filter(None, (piece.match(lowered, at) for piece in _PIECES)), None)
        if match is None:
            raise _bad(text)
        found = match.groupdict()
        if "hour" in found or found.get("word") in _TIME_WORDS:
            if clock is not None:
                raise _bad(text)
            clock = _clock(found, text)
        else:
            if date is not None:
                raise _bad(text)
            date = _date(found, text, now)
            has_year = "word" in found or found["year"] is not None
        after = _BETWEEN.match(lowered, match.end())
        at = after.end() if after else match.end()
    if clock is None and date is None:
        raise _bad(text)
    return clock, date, has_year


def _clock(found: dict[str, str | None], text: str) -> _Three:
    word = found.get("word")
    if word:
        return _TIME_WORDS[word], 0, 0
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if found["half"]:
        if not 1 <= hour <= 12:
            raise _bad(text)
        hour = hour % 12 + (12 if found["half"] == "p" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise _bad(text)
    return hour, minute, second


def _date(found: dict[str, str | None], text: str, now: time.struct_time) -> _Three:
    word = found.get("word")
    if word == "today":
        return now[:3]
    if word == "tomorrow":
        # mktime rolls the day over; noon avoids changes to and from daylight saving time.
        return time.localtime(time.mktime((*now[:2], now[2] + 1, 12, 0, 0, 0, 0, -1)))[:3]
    year_text = found["year"]
    year = int(year_text) + (2000 if len(year_text) == 2 else 0) if year_text else now[0]
    return year, int(found["month"] or 0), int(found["day"] or 0)


def _check_day(year: int, month: int, day: int, text: str) -> None:
    if not DATE_YEAR_MIN <= year <= DATE_YEAR_MAX:
        raise _outside(text)
    exists = 1 <= month <= 12 and 1 <= day <= _DAYS_IN_MONTH[month - 1]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not exists or ((month, day) == (2, 29) and not leap):
        raise BadValue(f"Invalid time specification {shown(text)}: there is no such day")


def format_date(us: int, relative_to_us: int | None = None, style: str = "standard") -> str:
    """Formats a date as `2026-11-21T10:00:00`; 0 is `Unknown`.

    `style`, as in SLURM_TIME_FORMAT: "standard"; "relative" (requires `relative_to_us`); or a strftime format,
    recognised by "%".
    """
    if not 0 < us <= DATE_MAX_S * 1_000_000:  # old records may hold values outside the calendar
        return UNKNOWN
    at = time.localtime(us // 1_000_000)
    if style == "relative" and relative_to_us is not None:
        return time.strftime(_relative_form(at, time.localtime(relative_to_us // 1_000_000)), at)
    return time.strftime(style if "%" in style else "%Y-%m-%dT%H:%M:%S", at)


def _relative_form(at: time.struct_time, now: time.struct_time) -> str:
    """Formats a time more precisely the closer it is to `now`."""
    days = _day_number(at) - _day_number(now)
    if days in _NEAR_FORMS:
        return _NEAR_FORMS[days]
    if 1 < days < 7:
        return "%a %H:%M"
    return "%-d %b %H:%M" if at.tm_year == now.tm_year else "%-d %b %Y"


_NEAR_FORMS = {-1: "Ystday %H:%M", 0: "%H:%M:%S", 1: "Tomorr %H:%M"}


def _day_number(at: time.struct_time) -> int:
    years = at.tm_year - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + at.tm_yday
