"""Cron expressions: when a line of a crontab is due. Pure arithmetic on masks and a table of offsets.

    spec, rest = parse_spec("*/5 8-18 * * mon-fri /usr/bin/true")
    next_us(spec, offsets, now_us)

Syntax is that of crontab(5): five fields (minute, hour, day of the month, month, day of the week; 7 is Sunday, too), each
`*` or a list of numbers, names and ranges with steps; or one word of WORDS. When both days are restricted, either will do.

When the clock changes, the rules are those of cron(8). A line that names its hours is due once for each minute mark of
the wall clock that it names: marks that the clock jumps over are due at the end of the jump, marks that come twice count
the first time. A line for every hour follows real time: it is due whenever the clock shows such a minute.

Deliberately absent: seconds, years, `L`, `W` and `#` of other crons.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.values.errors import BadValue
from penstock.values.localtime import DAY_S, US, Offsets, civil, from_local_us, to_local_s, weekday

#: Days that are looked at for the next start: 29 February of a leap year that 2100 lies before, and some.
DAYS_MAX: Final = 9 * 366
#: Longest text of five fields; a list of all minutes has 169 characters.
SPEC_CHARS_MAX: Final = 1024

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ALL_HOURS: Final = (1 << 24) - 1

#: Words that stand for five fields. The last four are Slurm's own, as --begin knows them.
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


class Field(NamedTuple):
    """What one field may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of `low` and those that follow


FIELDS: Final = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, _MONTHS),
    Field("day of week", 0, 7, _DAYS),
)


class BadSpec(BadValue):
    """Text that is no cron expression. `column` is where, from 0."""

    def __init__(self, text: str, column: int) -> None:
        super().__init__(text)
        self.column = column


class CronSpec(NamedTuple):
    """Bit masks of what is allowed; bit n = the value n. `any_*`: the field was `*`."""

    minutes: int
    hours: int
    month_days: int
    months: int
    week_days: int  # 0 = Sunday
    any_month_day: bool
    any_week_day: bool

    def format(self) -> str:
        """Five fields again, with lists and ranges for steps and numbers for names."""
        month_days = "*" if self.any_month_day else _listed(self.month_days, 1, 31)
        week_days = "*" if self.any_week_day else _listed(self.week_days, 0, 6, star=False)
        minutes, hours = _listed(self.minutes, 0, 59), _listed(self.hours, 0, 23)
        return f"{minutes} {hours} {month_days} {_listed(self.months, 1, 12)} {week_days}"

    def takes_day(self, day: int) -> bool:
        """Whether a day counted from 1970-01-01 is one of it."""
        _, month, month_day = civil(day)
        if not self.months >> month & 1:
            return False
        by_month = bool(self.month_days >> month_day & 1)
        by_week = bool(self.week_days >> (weekday(day * DAY_S) + 1) % 7 & 1)
        if self.any_month_day or self.any_week_day:
            return by_month and by_week
        return by_month or by_week


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
    """The expression at the beginning of a line, and what follows it. Raises BadSpec."""
    at = len(line) - len(line.lstrip(" \t"))
    if line[at : at + 1] == "@":
        end = _word_end(line, at)
        word = line[at + 1 : end]
        fields = WORDS.get(word.lower())
        if fields is None:
            raise BadSpec(f"@{word[:32]} is none of @{' @'.join(WORDS)}", at)
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
    if next_us(spec, (), 0) is None:
        raise BadSpec("there is no such day in any year", 0)
    return spec, line[at:]


def _word_end(line: str, at: int) -> int:
    while at < len(line) and line[at] not in " \t":
        at += 1
    return at


def _mask(text: str, field: Field, column: int) -> int:
    mask = 0
    for item in text.split(","):
        span, slash, step_text = item.partition("/")
        step = _number(step_text, column + len(span) + 1, f"step of the {field.name}") if slash else 1
        if not 1 <= step <= field.high:
            where = column + len(span) + 1
            raise BadSpec(f"step {step} of the {field.name} is not between 1 and {field.high}", where)
        first_text, dash, last_text = span.partition("-")
        if span == "*":
            first, last = field.low, field.high - (field.high == 7)
        else:
            first = _value(first_text, field, column)
            last = _value(last_text, field, column + len(first_text) + 1) if dash else field.high if slash else first
        if first > last:
            if last or not dash or field.high != 7:
                raise BadSpec(f"{field.name} {span[:32]}: a range goes upwards", column)
            last = 7  # fri-sun
        mask |= sum(1 << n for n in range(first, last + 1, step))
        column += len(item) + 1
    return mask


def _value(text: str, field: Field, column: int) -> int:
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
    """The first instant after `after_us` at which it is due, microseconds; None = never (in DAYS_MAX days)."""
    if spec.hours == _ALL_HOURS:
        return _next_instant(spec, offsets, after_us)
    for mark_s in _marks(spec, to_local_s(offsets, after_us)):
        at_us = from_local_us(offsets, mark_s)
        if at_us > after_us:
            return at_us
    return None


def _marks(spec: CronSpec, after_s: int) -> Iterator[int]:
    """Minute marks of the wall clock after that local time, seconds, in their order."""
    times = [h * 3600 + m * 60 for h in range(24) if spec.hours >> h & 1 for m in range(60) if spec.minutes >> m & 1]
    first_day = after_s // DAY_S
    for day in range(first_day, first_day + DAYS_MAX):
        if spec.takes_day(day):
            for of_day_s in times:
                if day * DAY_S + of_day_s > after_s:
                    yield day * DAY_S + of_day_s


def _next_instant(spec: CronSpec, offsets: Offsets, after_us: int) -> int | None:
    """As `next_us` of a line for every hour: minute by minute, day by day where the day is none of its."""
    at_us = (after_us // (60 * US) + 1) * 60 * US
    last_day = to_local_s(offsets, after_us) // DAY_S + DAYS_MAX
    while True:
        day, of_day_s = divmod(to_local_s(offsets, at_us), DAY_S)
        if spec.takes_day(day):
            if spec.minutes >> of_day_s // 60 % 60 & 1:
                return at_us
            at_us += 60 * US
            continue
        found = next((d for d in range(day + 1, last_day) if spec.takes_day(d)), None)
        if found is None:
            return None
        at_us = max(at_us + 60 * US, from_local_us(offsets, found * DAY_S))
