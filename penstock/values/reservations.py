"""Parses flags of reservations, and lists with signs (`Users=+ann,-bob`).

A flag is accepted in any case, whole or abbreviated while unambiguous; `NO_` in front clears it. Slurm shows some flags
under another name. The controller's `reserve` policy defines the effect of flags.
"""

from enum import IntFlag
from typing import Final, NamedTuple

from penstock.values.duration import format_duration, parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.names import ENTITY_BYTES_MAX
from penstock.values.text import check_name, shown

#: Names in one list: more than sites use for one reservation.
LIST_ITEMS_MAX = 4096
#: PURGE_COMP without a time (scontrol(1)).
PURGE_COMP_DEFAULT_S = 300


class ResvFlag(IntFlag):
    """Flags of a reservation. The numbers are stored; they are never reused."""

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
    SPEC_NODES = 1 << 9  # nodes were requested by name
    ALL_NODES = 1 << 10  # Nodes=ALL
    ANY_NODES = 1 << 11  # licenses only: jobs run on any node
    STATIC_ALLOC = 1 << 12
    PART_NODES = 1 << 13
    TIME_FLOAT = 1 << 14
    REPLACE = 1 << 15
    REPLACE_DOWN = 1 << 16
    PURGE_COMP = 1 << 17
    NO_HOLD_JOBS_AFTER = 1 << 18
    MAGNETIC = 1 << 19
    USER_DELETE = 1 << 20
    FORCE_START = 1 << 21  # the first start may be in the past; here this is allowed without the flag, too


#: Flags that repeat a reservation; at most one is set.
RECURRING = ResvFlag.HOURLY | ResvFlag.DAILY | ResvFlag.WEEKDAY | ResvFlag.WEEKEND | ResvFlag.WEEKLY

#: In the order in which Slurm shows them.
_SHOWN: Final = (
    ResvFlag.MAINT, ResvFlag.FLEX, ResvFlag.OVERLAP, ResvFlag.IGNORE_JOBS, ResvFlag.HOURLY, ResvFlag.DAILY,
    ResvFlag.WEEKDAY, ResvFlag.WEEKEND, ResvFlag.WEEKLY, ResvFlag.SPEC_NODES, ResvFlag.ALL_NODES, ResvFlag.ANY_NODES,
    ResvFlag.STATIC_ALLOC, ResvFlag.PART_NODES, ResvFlag.TIME_FLOAT, ResvFlag.REPLACE, ResvFlag.REPLACE_DOWN,
    ResvFlag.PURGE_COMP, ResvFlag.NO_HOLD_JOBS_AFTER, ResvFlag.MAGNETIC, ResvFlag.USER_DELETE,
    ResvFlag.FORCE_START,
)  # fmt: skip
_OTHER_WORDS: Final = {ResvFlag.STATIC_ALLOC: "STATIC", ResvFlag.NO_HOLD_JOBS_AFTER: "NO_HOLD_JOBS_AFTER_END"}
#: Flags that only the controller sets.
_DERIVED: Final = ResvFlag.SPEC_NODES | ResvFlag.ALL_NODES
_READ: Final = {flag.name or "": flag for flag in _SHOWN} | {
    "NO_HOLD_JOBS_AFTER_END": ResvFlag.NO_HOLD_JOBS_AFTER,
    "LICENSE_ONLY": ResvFlag.ANY_NODES,
}
_NOT_YET: Final = ("FIRST_CORES", "SKIP")


class FlagChange(NamedTuple):
    """Flags to set and to clear; `purge_comp_s` is -1 if not given."""

    on: ResvFlag
    off: ResvFlag
    purge_comp_s: int


def parse_flags(text: str) -> FlagChange:
    """Parses `DAILY,NO_MAINT`, `+FLEX`, `-FLEX`, `PURGE_COMP=10`. Raises BadValue for a flag that Slurm does not have."""
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
    """Formats flags as `MAINT,DAILY,SPEC_NODES`; "" = none."""
    words = []
    for flag in _SHOWN:
        if flags & flag:
            word = _OTHER_WORDS.get(flag, flag.name or "")
            words.append(f"{word}={format_duration(purge_comp_s)}" if flag is ResvFlag.PURGE_COMP else word)
    return ",".join(words)


def check_settable(change: FlagChange) -> None:
    """Checks that no flag is cleared that follows from the requested nodes. Raises BadValue."""
    # Setting ALL_NODES and SPEC_NODES is accepted, since Slurm shows them; it changes nothing.
    if change.off & _DERIVED:
        raise BadValue("Invalid flags: SPEC_NODES and ALL_NODES follow from Nodes=")


class Signed(NamedTuple):
    """One entry of a list: sign "", "+" or "-", and the name."""

    sign: str
    name: str


def parse_signed(text: str, what: str) -> tuple[Signed, ...]:
    """Parses `ann,bob`, `-ann,-bob`, `+ann`; an entry without a sign has that of the previous one. Raises BadValue."""
    found: list[Signed] = []
    sign = ""
    for item in split_list(text, what):
        sign = item[0] if item[0] in "+-" else sign
        name = check_name(item.lstrip("+-"), what, ENTITY_BYTES_MAX)
        if not name:
            raise BadValue(f"Invalid {what} {shown(item)}: a name is missing")
        found.append(Signed(sign, name))
    return tuple(dict.fromkeys(found))


def split_list(text: str, what: str) -> list[str]:
    """Splits a comma-separated list; omits empty entries. Raises BadValue."""
    items = [item.strip() for item in text.split(",", LIST_ITEMS_MAX)]
    if len(items) > LIST_ITEMS_MAX:
        raise BadValue(f"Invalid {what}: more than {LIST_ITEMS_MAX} entries")
    return [item for item in items if item]
