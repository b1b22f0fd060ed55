"""Parses the arguments of a report of sreport: conditions, the window of time, units of time. Pure but for the time
zone.

Words are Slurm's and may be abbreviated; the first of the table that begins with the word is used, as in Slurm. A word
without `=` is a flag. `where` and `set` are ignored.

The window is whole hours in the local time zone, since usage is stored by the hour: both ends are rounded to the
nearest one (23:59:59 is midnight), the end is at most the current hour, and a window that would be empty is one hour
long.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cli.base.listing import words
from cli.base.run import CommandError
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

HOUR_US = 3_600_000_000
TOP_DEFAULT = 10
#: The default boundaries of groups of sizes, after an implicit 0.
GROUPING = (50, 250, 500, 1000)
#: The most columns.
SIZES_MAX = 1000
NUMBER_MAX = 2**31 - 1


class TimeFormat(NamedTuple):
    """The format of usage: in units of `seconds` (0 = not shown), and whether as a share of the total."""

    words: str
    seconds: int
    percent: bool = False


#: By the word of -t, in the order in which abbreviations are tried, with the length of the shortest.
TIME_FORMATS = (
    ("secper", 4, TimeFormat("Seconds/Percentage of Total", 1, True)),
    ("minper", 4, TimeFormat("Minutes/Percentage of Total", 60, True)),
    ("hourper", 5, TimeFormat("Hours/Percentage of Total", 3600, True)),
    ("seconds", 1, TimeFormat("Seconds", 1)),
    ("minutes", 1, TimeFormat("Minutes", 60)),
    ("hours", 1, TimeFormat("Hours", 3600)),
    ("percent", 1, TimeFormat("Percentage of Total", 0, True)),
)
MINUTES = TIME_FORMATS[4][2]


def time_format(text: str) -> TimeFormat:
    """Parses -t."""
    low = text.lower()
    for word, least, found in TIME_FORMATS:
        if len(low) >= least and word.startswith(low):
            return found
    raise CommandError(f"unknown time format {text}", plain=True)


class ReportQuestion(NamedTuple):
    """The parsed arguments of a report."""

    start_us: int
    end_us: int
    fields: str = ""  # of format=; "" = the report's own
    lists: Mapping[str, list[str]] = {}
    flags: frozenset[str] = frozenset()
    top: int = TOP_DEFAULT
    bounds: tuple[int, ...] = GROUPING
    each_size: bool = False

    def of(self, name: str) -> list[str]:
        """The values of a list; empty = all."""
        return self.lists.get(name, [])

    @property
    def seconds(self) -> int:
        """The length of the window."""
        return (self.end_us - self.start_us) // 1_000_000


#: Conditions by report type: the word and its key. `*` = a flag.
COMMON = {"all_clusters": "*all", "clusters": "clusters", "end": "end", "format": "format", "start": "start"}
CONDITIONS: dict[str, dict[str, str]] = {
    "cluster": {
        "accounts": "accounts", "acct": "accounts", "names": "clusters", "qos": "qos", "qoslist": "qos", "tree": "*tree",
        "users": "users", "wckeys": "wckeys",
    },
    "job": {
        "acctasparent": "*acctasparent", "accounts": "accounts", "flatview": "*flatview", "gid": "gids", "grouping": "grouping",
        "jobs": "jobs", "nodes": "nodes", "partitions": "partitions", "printjobcount": "*printjobcount", "qos": "qos",
        "users": "users", "wckeys": "wckeys",
    },
    "reservation": {"ids": "ids", "names": "names", "nodes": "nodes"},
    "user": {"accounts": "accounts", "group": "*group", "topcount": "topcount", "users": "users"},
}  # fmt: skip
#: Conditions of further types, where they filter usage.
_SINGLE = frozenset(("start", "end", "format", "topcount", "grouping"))


def read(kind: str, texts: Iterable[str], now_us: int) -> ReportQuestion:
    """Parses all words after a report of this type."""
    known = COMMON | CONDITIONS[kind]
    lists: dict[str, list[str]] = {}
    single: dict[str, str] = {}
    flags: set[str] = set()
    for text in texts:
        word, equals, value = text.partition("=")
        if word.lower() in ("where", "set") and not equals:
            continue
        target = _condition(known, word.rstrip("+-"))
        if target is None or (not equals and not target.startswith("*")):
            raise CommandError(f" Unknown condition: {text}\nUse keyword set to modify value", plain=True)
        value = value.strip("\"'")
        if target.startswith("*"):
            flags.add(target[1:])
        elif target in _SINGLE:
            joined = f"{single[target]},{value}" if target == "format" and target in single else value
            single[target] = joined
        elif not words(value):
            raise CommandError(f" {word}= says nothing", plain=True)
        else:
            lists.setdefault(target, []).extend(words(value))
    start_us, end_us = window(single.get("start", ""), single.get("end", ""), now_us)
    asked = ReportQuestion(start_us, end_us, single.get("format", ""), lists, frozenset(flags))
    if "topcount" in single:
        asked = asked._replace(top=_number(single["topcount"], "TopCount", 1))
    return _grouped(asked, single.get("grouping", ""))


def _condition(known: dict[str, str], word: str) -> str | None:
    """By its whole name, else by its beginning."""
    low = word.lower()
    found = known.get(low)
    if found is None and low:
        found = next((target for name, target in known.items() if name.startswith(low)), None)
    return found


def _grouped(asked: ReportQuestion, text: str) -> ReportQuestion:
    if not text:
        return asked
    if "individual".startswith(text.lower()):
        return asked._replace(each_size=True, bounds=())
    bounds = tuple(dict.fromkeys(_number(word, "grouping", 0) for word in words(text)))
    if list(bounds) != sorted(bounds) or len(bounds) > SIZES_MAX:
        raise CommandError(
            f"Invalid value for grouping ({text}): write at most {SIZES_MAX} sizes that rise, as in 50,100,150"
        )
    return asked._replace(bounds=tuple(bound for bound in bounds if bound))


def _number(text: str, what: str, least: int) -> int:
    if not (
        text.isascii() and text.isdigit() and len(text) <= len(str(NUMBER_MAX)) and least <= int(text) <= NUMBER_MAX
    ):
        raise CommandError(f"Invalid value for {what} ({text})")
    return int(text)


# -- the window


def window(start: str, end: str, now_us: int) -> tuple[int, int]:
    """The start and end, in microseconds; yesterday by default."""
    until_us = _nearest_hour(_date(end, now_us)) if end else _midnight(now_us, 0)
    from_us = _nearest_hour(_date(start, now_us)) if start else _midnight(now_us, -1)
    until_us = min(until_us, _hour_of(now_us))
    if until_us - from_us < HOUR_US:
        until_us = from_us + HOUR_US
    return from_us, until_us


def _date(text: str, now_us: int) -> int:
    try:
        return parse_date_us(text, now_us, past=True)
    except BadValue as error:
        raise CommandError(f"Invalid time specification (pos=0): {text}\nsreport: {error}", plain=True) from error


def _midnight(now_us: int, days: int) -> int:
    at = time.localtime(now_us // 1_000_000)
    return int(time.mktime((at.tm_year, at.tm_mon, at.tm_mday + days, 0, 0, 0, 0, 0, -1))) * 1_000_000


def _hour_of(at_us: int) -> int:
    """The beginning of the hour, in local time."""
    at = time.localtime(at_us // 1_000_000)
    return (at_us // 1_000_000 - at.tm_min * 60 - at.tm_sec) * 1_000_000


def _nearest_hour(at_us: int) -> int:
    return _hour_of(at_us + HOUR_US // 2)
