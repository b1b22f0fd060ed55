"""Flags of reservations in Slurm's words, and lists with signs (`Users=+ann,-bob`).

A flag is read in any case, whole or cut short while it stays unique, with `NO_` before it to take it away. Slurm shows
some by another word than it reads. Nothing here knows what a flag does: that is the controller's `reserve` policy.
"""

from enum import IntFlag
from typing import Final, NamedTuple

from penstock.values.duration import format_duration, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.text import check_name, shown

#: Names in one list: more than any site gives one reservation.
LIST_ITEMS_MAX = 4096
#: PURGE_COMP without a time (man scontrol).
PURGE_COMP_DEFAULT_S = 300


class ResvFlag(IntFlag):
    """What is special about a reservation. The numbers are stored; they are never reused."""

    NONE = 0
    MAINT = 1 << 0
    FLEX = 1 << 1
    OVERLAP = 1 << 2
    IGNORE_JOBS = 1 << 3
    HOURLY = 1 << 4
    DAILY = 1 << 5
    WEEKDAY = 1 << 6
    WEEKEND = 1 << 7
    WEEKLY = 1 << 8
    SPEC_NODES = 1 << 9  # the nodes were named, not chosen
    ALL_NODES = 1 << 10  # Nodes=ALL
    ANY_NODES = 1 << 11  # licenses only: its jobs run anywhere
    STATIC_ALLOC = 1 << 12
    PART_NODES = 1 << 13
    TIME_FLOAT = 1 << 14
    REPLACE = 1 << 15
    REPLACE_DOWN = 1 << 16
    PURGE_COMP = 1 << 17
    NO_HOLD_JOBS_AFTER = 1 << 18
    MAGNETIC = 1 << 19
    USER_DELETE = 1 << 20
    FORCE_START = 1 << 21  # the first start may lie in the past, as it may here without


#: Flags that repeat a reservation; one at most.
RECURRING = ResvFlag.HOURLY | ResvFlag.DAILY | ResvFlag.WEEKDAY | ResvFlag.WEEKEND | ResvFlag.WEEKLY

#: In Slurm's order of showing, with its word where it is another.
_SHOWN: Final = (
    ResvFlag.MAINT, ResvFlag.FLEX, ResvFlag.OVERLAP, ResvFlag.IGNORE_JOBS, ResvFlag.HOURLY, ResvFlag.DAILY,
    ResvFlag.WEEKDAY, ResvFlag.WEEKEND, ResvFlag.WEEKLY, ResvFlag.SPEC_NODES, ResvFlag.ALL_NODES, ResvFlag.ANY_NODES,
    ResvFlag.STATIC_ALLOC, ResvFlag.PART_NODES, ResvFlag.TIME_FLOAT, ResvFlag.REPLACE, ResvFlag.REPLACE_DOWN,
    ResvFlag.PURGE_COMP, ResvFlag.NO_HOLD_JOBS_AFTER, ResvFlag.MAGNETIC, ResvFlag.USER_DELETE,
    ResvFlag.FORCE_START,
)  # fmt: skip
_OTHER_WORDS: Final = {ResvFlag.STATIC_ALLOC: "STATIC", ResvFlag.NO_HOLD_JOBS_AFTER: "NO_HOLD_JOBS_AFTER_END"}
#: What the controller sets by itself.
_DERIVED: Final = ResvFlag.SPEC_NODES | ResvFlag.ALL_NODES
_READ: Final = {flag.name or "": flag for flag in _SHOWN} | {"NO_HOLD_JOBS_AFTER_END": ResvFlag.NO_HOLD_JOBS_AFTER}
_NOT_YET: Final = ("FIRST_CORES", "SKIP")


class FlagChange(NamedTuple):
    """Flags to set and to clear; `purge_comp_s` -1 = not said."""

    on: ResvFlag
    off: ResvFlag
    purge_comp_s: int


def parse_flags(text: str) -> FlagChange:
    """Read `DAILY,NO_MAINT`, `+FLEX`, `-FLEX`, `PURGE_COMP=10`. Raises BadValue for a word that Slurm does not know."""
    on = off = ResvFlag.NONE
    purge_comp_s = -1
    sign = ""
    for item in split_list(text, "flags"):
        sign = item[0] if item[0] in "+-" else sign
        word, equals, value = item.lstrip("+-").upper().partition("=")
        flag, is_off = _find(word, item)
        if equals and flag is not ResvFlag.PURGE_COMP:
            raise BadValue(f"Invalid flag {shown(item)}: only PURGE_COMP takes a value")
        if flag is ResvFlag.PURGE_COMP:
            purge_comp_s = parse_duration_s(value) if equals else PURGE_COMP_DEFAULT_S
        if is_off != (sign == "-"):
            off |= flag
        else:
            on |= flag
    if on & off:
        raise BadValue(f"Invalid flags {shown(text)}: a flag cannot be set and cleared at once")
    return FlagChange(on, off, purge_comp_s)


def _find(word: str, item: str) -> tuple[ResvFlag, bool]:
    if word in _READ:
        return _READ[word], False
    bare = word.removeprefix("NO_")
    is_off = bare != word
    near = dict.fromkeys(flag for name, flag in _READ.items() if bare and name.startswith(bare))
    if bare in _READ:
        return _READ[bare], is_off
    if bare in _NOT_YET:
        raise BadValue(f"Invalid flag {shown(item)}: it is not supported yet")
    if len(near) != 1:
        raise BadValue(f"Invalid flag {shown(item)}: known are {', '.join(f.name or '' for f in _SHOWN)}")
    return next(iter(near)), is_off


def format_flags(flags: ResvFlag, purge_comp_s: int = 0) -> str:
    """`MAINT,DAILY,SPEC_NODES`; "" = none."""
    words = []
    for flag in _SHOWN:
        if flags & flag:
            word = _OTHER_WORDS.get(flag, flag.name or "")
            words.append(f"{word}={format_duration(purge_comp_s)}" if flag is ResvFlag.PURGE_COMP else word)
    return ",".join(words)


def check_settable(change: FlagChange) -> None:
    """Raise BadValue for a flag that follows from the nodes that are asked for."""
    # ALL_NODES and SPEC_NODES may be written, as Slurm shows them; they change nothing.
    if change.off & _DERIVED:
        raise BadValue("Invalid flags: SPEC_NODES and ALL_NODES follow from Nodes=")


class Signed(NamedTuple):
    """One entry of a list: sign "", "+" or "-"."""

    sign: str
    name: str


def parse_signed(text: str, what: str) -> tuple[Signed, ...]:
    """Read `ann,bob`, `-ann,-bob`, `+ann`; an entry without a sign has that of the entry before it."""
    found: list[Signed] = []
    sign = ""
    for item in split_list(text, what):
        sign = item[0] if item[0] in "+-" else sign
        name = check_name(item.lstrip("+-"), what)
        if not name:
            raise BadValue(f"Invalid {what} {shown(item)}: a name is missing")
        found.append(Signed(sign, name))
    return tuple(dict.fromkeys(found))


def split_list(text: str, what: str) -> list[str]:
    """The entries of a comma list, empty ones left out."""
    items = [item.strip() for item in text.split(",", LIST_ITEMS_MAX)]
    if len(items) > LIST_ITEMS_MAX:
        raise BadValue(f"Invalid {what}: more than {LIST_ITEMS_MAX} entries")
    return [item for item in items if item]
