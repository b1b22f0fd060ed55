"""Cron expressions: compute when a line of a crontab is due, from bit masks and a table of UTC offsets. Pure.

    spec, rest = parse_spec("*/5 8-18 * * mon-fri /usr/bin/true")
    next_us(spec, offsets, now_us)

The syntax is that of crontab(5): five fields (minute, hour, day of the month, month, day of the week; 7 is Sunday,
too), each `*` or a list of numbers, names and ranges with steps; or one of WORDS. If both day fields are restricted, a
day that matches either is taken.

When the clock changes, the rules of cron(8) apply. A line that restricts hours is due once for each matching minute of
the wall clock: minutes that the clock skips are due at the end of the gap, minutes that occur twice count the first
time. A line for every hour follows real time: it is due whenever the clock shows a matching minute.

Not supported: seconds, years, and `L`, `W` and `#` of other crons.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.localtime import (
    DAY_S,
    US,
    Offsets,
    civil,
    days_of_month,
    from_local_us,
    next_change_us,
    to_local_s,
    weekday,
)

#: Days to search for the next start: covers the eight years between leap days around 2100, and some more.
DAYS_MAX: Final = 9 * 366
#: Longest text of five fields; a list of all minutes has 169 characters.
SPEC_CHARS_MAX: Final = 1024
#: Cached expressions, and items of their lists: the entries of a crontab often have the same.
SPECS_KNOWN_MAX: Final = 1_000
ITEMS_KNOWN_MAX: Final = 4_096

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ALL_HOURS: Final = (1 << 24) - 1
_ALL_MINUTES: Final = (1 << 60) - 1
_BLANK: Final = re.compile("[ \t]")

#: Words that replace all five fields. The last four are Slurm's, as in --begin.
WORDS: Final[dict[str, str]] = {
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
    "monthly": "0 0 1 * *",
    "weekly": "0 0 * * 0",
    "daily": "0 0 * * *",
    "midnight": "0 0 * * *",
    "hourly": "0 * * * *",
    "elevenses": "0 11 * * *",
    "noon": "0 12 * * *",
    "fika": "0 15 * * *",
    "teatime": "0 16 * * *",
}


#: A mask of weekdays times this is the mask of the days of six weeks. _MONTH: days 1 to 31.
_EACH_WEEK: Final = sum(1 << 7 * week for week in range(6))
_MONTH: Final = (1 << 32) - 2


class CronField(NamedTuple):
    """The allowed values of one field."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # names of the values from `low` on


FIELDS: Final = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of month", 1, 31),
    CronField("month", 1, 12, _MONTHS),
    CronField("day of week", 0, 7, _DAYS),
)


class BadSpec(BadValue):
    """The error for text that is not a cron expression. `column` is the position, from 0."""

    def __init__(self, text: str, column: int) -> None:
        super().__init__(text)
        self.column = column


class CronSpec(NamedTuple):
    """Bit masks of the allowed values; bit n = value n. `any_*`: the field was `*`."""

    minutes: int
    hours: int
    month_days: int
    months: int
    week_days: int  # 0 = Sunday
    any_month_day: bool
    any_week_day: bool

    def format(self) -> str:
        """Formats the expression as five fields, with lists and ranges instead of steps, and numbers instead of names."""
        month_days = "*" if self.any_month_day else _listed(self.month_days, 1, 31)
        week_days = "*" if self.any_week_day else _listed(self.week_days, 0, 6, star=False)
        minutes, hours = _listed(self.minutes, 0, 59), _listed(self.hours, 0, 23)
        return f"{minutes} {hours} {month_days} {_listed(self.months, 1, 12)} {week_days}"

    def takes_day(self, day: int) -> bool:
        """Whether the expression matches a day, counted from 1970-01-01."""
        _, month, month_day = civil(day)
        return bool(self.days_of(month, day - month_day) >> month_day & 1)

    def days_of(self, month: int, day_before: int) -> int:
        """Returns the matching days of a month as a bit mask; bit n = the n-th. `day_before`: the last day before it."""
        if not self.months >> month & 1:
            return 0
        first = (weekday((day_before + 1) * DAY_S) + 1) % 7  # 0 = Sunday
        by_week = (self.week_days * _EACH_WEEK >> first) << 1
        if self.any_month_day or self.any_week_day:
            return self.month_days & by_week
        return self.month_days | by_week & _MONTH


def _listed(mask: int, low: int, high: int, star: bool = True) -> str:
    values = [n for n in range(low, high + 1) if mask >> n & 1]
    if star and len(values) == high - low + 1:
        return "*"
    ranges: list[list[int]] = []
    for n in values:
        if ranges and ranges[-1][1] == n - 1:
            ranges[-1][1] = n
        else:
            ranges.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def parse_spec(line: str) -> tuple[CronSpec, str]:
    """Parses the expression at the beginning of a line; returns it and the rest of the line. Raises BadSpec."""
    at = len(line) - len(line.lstrip(" \t"))
    if line[at : at + 1] == "@":
        end = _word_end(line, at)
        word = line[at + 1 : end]
        fields = WORDS.get(word.lower())
        if fields is None:
            raise BadSpec(f"@{word[:32]} is not one of @{' @'.join(WORDS)}", at)
        return parse_spec(fields)[0], line[end:].lstrip(" \t")
    masks, stars = [], []
    for field in FIELDS:
        end = _word_end(line, at)
        if at == end:
            raise BadSpec(f"the {field.name} is missing: five fields come before the command", at)
        if end - at > SPEC_CHARS_MAX:
            raise BadSpec(f"the {field.name} has more than {SPEC_CHARS_MAX} characters", at)
        masks.append(_mask(line[at:end], field, at))
        stars.append(line[at:end] == "*")
        at = end + len(line[end:]) - len(line[end:].lstrip(" \t"))
    week_days = (masks[4] | masks[4] >> 7) & 0x7F
    spec = CronSpec(masks[0], masks[1], masks[2], masks[3], week_days, stars[2], stars[4])
    if not _is_ever_due(spec):
        raise BadSpec("there is no such day in any year", 0)
    return spec, line[at:]


@lru_cache(SPECS_KNOWN_MAX)
def _is_ever_due(spec: CronSpec) -> bool:
    return next(_days(spec, 0), None) is not None


def _word_end(line: str, at: int) -> int:
    found = _BLANK.search(line, at)
    return found.start() if found is not None else len(line)


def _mask(text: str, field: CronField, column: int) -> int:
    mask = 0
    for item in text.split(","):
        try:
            mask |= _item_mask(item, field)
        except BadSpec as error:
            raise BadSpec(str(error), column + error.column) from None
        column += len(item) + 1
    return mask


@lru_cache(ITEMS_KNOWN_MAX)
def _item_mask(item: str, field: CronField) -> int:
    """Parses one item of a list. The column of an error is counted from its beginning."""
    span, slash, step_text = item.partition("/")
    step = _number(step_text, len(span) + 1, f"step of the {field.name}") if slash else 1
    if not 1 <= step <= field.high:
        raise BadSpec(f"step {step} of the {field.name} is not between 1 and {field.high}", len(span) + 1)
    first_text, dash, last_text = span.partition("-")
    if span == "*":
        first, last = field.low, field.high - (field.high == 7)
    else:
        first = _value(first_text, field, 0)
        last = _value(last_text, field, len(first_text) + 1) if dash else field.high if slash else first
    if first > last:
        if last or not dash or field.high != 7:
            raise BadSpec(f"{field.name} {span[:32]}: a range goes upwards", 0)
        last = 7  # fri-sun
    return sum(1 << n for n in range(first, last + 1, step))


def _value(text: str, field: CronField, column: int) -> int:
    name = text[:3].lower()
    if name in field.names and len(text) == 3:
        return field.low + field.names.index(name)
    value = _number(text, column, field.name)
    if not field.low <= value <= field.high:
        raise BadSpec(f"{field.name} {value} is not between {field.low} and {field.high}", column)
    return value


def _number(text: str, column: int, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise BadSpec(f"{text[:32]!r} is no {what}", column)
    return int(text)


def next_us(spec: CronSpec, offsets: Offsets, after_us: int) -> int | None:
    """Returns the first instant after `after_us` at which the line is due, in microseconds; None = not within DAYS_MAX
    days.
    """
    if spec.hours == _ALL_HOURS:
        return _next_instant(spec, offsets, after_us)
    for mark_s in _marks(spec, to_local_s(offsets, after_us)):
        at_us = from_local_us(offsets, mark_s)
        if at_us > after_us:
            return at_us
    return None


def _days(spec: CronSpec, first_day: int) -> Iterator[int]:
    """Yields the matching days from `first_day` on, by month: a month that does not match is one step."""
    end = first_day + DAYS_MAX
    year, month, month_day = civil(first_day)
    before = first_day - month_day
    while before + 1 < end:
        length = days_of_month(year, month)
        if taken := spec.days_of(month, before):
            for day in range(before + 1, before + 1 + length):
                if taken >> day - before & 1 and first_day <= day < end:
                    yield day
        before += length
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


def _marks(spec: CronSpec, after_s: int) -> Iterator[int]:
    """Yields the matching minutes of the wall clock after a local time, in seconds, in ascending order."""
    hours = [h for h in range(24) if spec.hours >> h & 1]
    minutes = [m for m in range(60) if spec.minutes >> m & 1]
    for day in _days(spec, after_s // DAY_S):
        for hour in hours:
            hour_s = day * DAY_S + hour * 3600
            if hour_s + 3600 > after_s:
                yield from (mark_s for m in minutes if (mark_s := hour_s + m * 60) > after_s)


def _next_instant(spec: CronSpec, offsets: Offsets, after_us: int) -> int | None:
    """Like `next_us`, for a line for every hour: goes from one matching minute to the next, and skips days that do not
    match. Between two changes of the clock, local time and real time advance together.
    """
    at_us = (after_us // (60 * US) + 1) * 60 * US
    last_day = to_local_s(offsets, after_us) // DAY_S + DAYS_MAX
    while True:
        day, of_day_s = divmod(to_local_s(offsets, at_us), DAY_S)
        if spec.takes_day(day):
            minutes = _minutes_until(spec.minutes, of_day_s // 60 % 60)
            if not minutes:
                return at_us
            at_us = _forward(offsets, at_us, minutes)
            continue
        found = next(_days(spec, day + 1), last_day)
        if found >= last_day:
            return None
        at_us = max(at_us + 60 * US, from_local_us(offsets, found * DAY_S))


def _minutes_until(mask: int, minute: int) -> int:
    """Returns the minutes from one of an hour to the next in the mask; 0 = it is in the mask."""
    turned = (mask >> minute | mask << 60 - minute) & _ALL_MINUTES
    return (turned & -turned).bit_length() - 1


def _forward(offsets: Offsets, at_us: int, minutes: int) -> int:
    """Returns a time so many minutes later, or the first one after the next change of the clock."""
    change_us = next_change_us(offsets, at_us)
    if change_us is not None:
        minutes = min(minutes, -(-(change_us - at_us) // (60 * US)))
    return at_us + minutes * 60 * US
