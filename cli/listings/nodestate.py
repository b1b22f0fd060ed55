"""A node's state in Slurm's words: `drng*`, `mixed`, `down+not_responding`; and the words of `sinfo -t`.

The controller gives a base state and flags (NodeInfo). The words derive from both: a flag that overrides the base
(INVAL, DRAIN, FAIL, COMPLETING) is the word, and the base only distinguishes draining from drained. `*` = does not
answer.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.v1.controller_pb2 import NodeInfo
from penstock.values.errors import BadValue

BUSY = frozenset(("ALLOCATED", "MIXED"))
#: Base states and flags as numbers: sinfo sorts by them.
_BASE_NUMBER = {"UNKNOWN": 0, "DOWN": 1, "IDLE": 2, "ALLOCATED": 3, "MIXED": 5, "FUTURE": 6}
_FLAG_NUMBER = {
    "RESERVED": 0x40, "CLOUD": 0x80, "MAINTENANCE": 0x100, "DRAIN": 0x200, "COMPLETING": 0x400, "NO_RESPOND": 0x800,
    "POWERED_DOWN": 0x1000, "FAIL": 0x2000, "POWERING_UP": 0x4000, "REBOOT_REQUESTED": 0x10000, "POWER_DOWN": 0x40000,
    "POWERING_DOWN": 0x100000, "INVAL": 0x400000, "PLANNED": 0x2000000, "REBOOT_ISSUED": 0x4000000,
}  # fmt: skip
#: Long word -> compact word.
_COMPACT = {
    "inval": "inval", "draining": "drng", "drained": "drain", "failing": "failg", "fail": "fail", "down": "down",
    "completing": "comp", "allocated": "alloc", "allocated+": "alloc+", "idle": "idle", "mixed": "mix",
    "unknown": "unk", "maint": "maint", "reserved": "resv", "allocated$": "alloc$", "mixed$": "mix$", "down$": "down$",
    "drained$": "drain$", "draining$": "drng$", "planned": "plnd", "future": "futr", "blocked": "block",
}  # fmt: skip
_COMPLETE_FLAGS = {
    "DRAIN": "drain",
    "NO_RESPOND": "not_responding",
    "INVAL": "invalid_reg",
    "FAIL": "fail",
    "COMPLETING": "completing",
    "MAINTENANCE": "maintenance",
    "RESERVED": "reserved",
    "REBOOT_REQUESTED": "reboot_requested",
    "REBOOT_ISSUED": "reboot_issued",
    "CLOUD": "cloud",
    "PLANNED": "planned",
    "BLOCKED": "blocked",
    "POWER_DOWN": "power_down",
    "POWERED_DOWN": "powered_down",
    "POWERING_DOWN": "powering_down",
    "POWERING_UP": "powering_up",
    "DYNAMIC_NORM": "dynamic_norm",
}
_JSON_FLAGS = {"NO_RESPOND": "NOT_RESPONDING", "INVAL": "INVALID_REG"}


def _word(node: NodeInfo) -> str:
    flags = node.flags
    busy = node.base_state in BUSY or "COMPLETING" in flags
    if "MAINTENANCE" in flags and not {"INVAL", "FAIL", "COMPLETING"} & set(flags):
        return _maintained_word(node, busy)
    if "INVAL" in flags:
        return "inval"
    if "DRAIN" in flags:
        return "draining" if busy else "drained"
    if "FAIL" in flags:
        return "failing" if busy else "fail"
    if node.base_state == "DOWN":
        return "down"
    if node.base_state == "ALLOCATED":
        return "allocated+" if "COMPLETING" in flags else "allocated"
    if node.base_state == "IDLE" and "COMPLETING" not in flags:
        for flag, word in (("RESERVED", "reserved"), ("BLOCKED", "blocked"), ("PLANNED", "planned")):
            if flag in flags:
                return word
    return "completing" if "COMPLETING" in flags else node.base_state.lower()


def _maintained_word(node: NodeInfo, busy: bool) -> str:
    """In a MAINT reservation: `maint` if the state has no other word, else the word with `$` after it, unless it has
    `*`."""
    mark = "" if "NO_RESPOND" in node.flags else "$"
    if "DRAIN" in node.flags:
        return f"draining{mark}" if busy else f"drained{mark}"
    return f"{node.base_state.lower()}{mark}" if busy or node.base_state == "DOWN" else "maint"


#: The suffix of the word, by flag; the first flag that is set counts.
_MARKS = (
    ("POWERED_DOWN", "~"), ("POWERING_UP", "#"), ("POWERING_DOWN", "%"), ("POWER_DOWN", "!"), ("REBOOT_ISSUED", "^"),
    ("REBOOT_REQUESTED", "@"), ("NO_RESPOND", "*"),
)  # fmt: skip


def _mark(node: NodeInfo) -> str:
    """`*` does not answer, `^` is rebooting, `@` will reboot, `~#%!` power, `-` planned for a job of higher
    priority."""
    if "PLANNED" in node.flags and node.base_state == "MIXED" and "NO_RESPOND" not in node.flags:
        return "-"
    for flag, mark in _MARKS:
        if flag in node.flags:
            return mark
    return ""


def long_word(node: NodeInfo) -> str:
    """`draining*`."""
    return _word(node) + _mark(node)


def compact_word(node: NodeInfo) -> str:
    """`drng*`."""
    word = _word(node)
    return _COMPACT.get(word, word) + _mark(node)


def complete_word(node: NodeInfo) -> str:
    """`allocated+drain`: the base and every flag."""
    return "+".join([node.base_state.lower()] + [word for flag, word in _COMPLETE_FLAGS.items() if flag in node.flags])


def json_words(node: NodeInfo) -> list[str]:
    """The same as a list, in capitals."""
    return [node.base_state] + [_JSON_FLAGS.get(flag, flag) for flag in node.flags]


def number(node: NodeInfo) -> int:
    """Slurm's number of the state: sorts nodes that need attention before working ones."""
    return _BASE_NUMBER.get(node.base_state, 0) | sum(_FLAG_NUMBER.get(flag, 0) for flag in node.flags)


Test = Callable[[NodeInfo], bool]


def _flag(name: str) -> Test:
    return lambda node: name in node.flags


def _base(name: str) -> Test:
    return lambda node: node.base_state == name


def _is_busy(node: NodeInfo) -> bool:
    return node.base_state in BUSY or "COMPLETING" in node.flags


def _never(node: NodeInfo) -> bool:
    return False


_TESTS: dict[str, Test] = {
    "idle": _base("IDLE"),
    "mixed": _base("MIXED"),
    "mix": _base("MIXED"),
    "allocated": lambda node: node.base_state in BUSY,
    "alloc": lambda node: node.base_state in BUSY,
    "down": _base("DOWN"),
    "unknown": _base("UNKNOWN"),
    "unk": _base("UNKNOWN"),
    "drain": _flag("DRAIN"),
    "draining": lambda node: "DRAIN" in node.flags and _is_busy(node),
    "drng": lambda node: "DRAIN" in node.flags and _is_busy(node),
    "drained": lambda node: "DRAIN" in node.flags and not _is_busy(node),
    "fail": _flag("FAIL"),
    "failing": lambda node: "FAIL" in node.flags and _is_busy(node),
    "failg": lambda node: "FAIL" in node.flags and _is_busy(node),
    "completing": _flag("COMPLETING"),
    "comp": _flag("COMPLETING"),
    "no_respond": _flag("NO_RESPOND"),
    "not_responding": _flag("NO_RESPOND"),
    "maint": _flag("MAINTENANCE"),
    "reserved": _flag("RESERVED"),
    "resv": _flag("RESERVED"),
    "inval": _flag("INVAL"),
    "invalid_reg": _flag("INVAL"),
    "reboot": lambda node: "REBOOT_REQUESTED" in node.flags or "REBOOT_ISSUED" in node.flags,
    "reboot^": _flag("REBOOT_ISSUED"),
    "reboot_issued": _flag("REBOOT_ISSUED"),
    "reboot_requested": _flag("REBOOT_REQUESTED"),
    "all": lambda node: True,
    "planned": _flag("PLANNED"),
    "plnd": _flag("PLANNED"),
    "blocked": _flag("BLOCKED"),
    "block": _flag("BLOCKED"),
    "cloud": _flag("CLOUD"),
    "dynamic_norm": _flag("DYNAMIC_NORM"),
    "future": _base("FUTURE"),
    "futr": _base("FUTURE"),
    "power_down": _flag("POWER_DOWN"),
    "powered_down": _flag("POWERED_DOWN"),
    "pow_dn": _flag("POWERED_DOWN"),
    "powering_down": _flag("POWERING_DOWN"),
    "power_up": _flag("POWERING_UP"),
    "powering_up": _flag("POWERING_UP"),
    "pow_up": _flag("POWERING_UP"),
} | dict.fromkeys(("dynamic_future", "perfctrs", "npc", "ext", "external"), _never)  # no such node here


#: The words of which a beginning is accepted, in the order in which Slurm tries them.
_BY_PREFIX = ("unknown", "down", "idle", "allocated", "mixed", "future", *_TESTS)


class StateFilter(NamedTuple):
    """`-t`: matches any of the items; an item matches all of its words."""

    any_of: tuple[tuple[tuple[Test, bool], ...], ...]

    def takes(self, node: NodeInfo) -> bool:
        """Whether the node matches."""
        return any(all(test(node) is wanted for test, wanted in item) for item in self.any_of)


def parse_states(text: str) -> StateFilter:
    """`idle,mix`, `drain+idle` (both), `!down` (not); the beginning of a word counts. Raises BadValue with the word that
    is not a state."""
    items = []
    for item in filter(None, text.split(",")):
        tests = []
        for word in item.replace("&", "+").split("+"):
            bare = word.strip().removeprefix("!").removeprefix("~")
            name = bare.lower()
            if name not in _TESTS:
                name = next((known for known in _BY_PREFIX if name and known.startswith(name)), "")
            if not name:
                raise BadValue(word)
            tests.append((_TESTS[name], bare == word.strip()))
        items.append(tuple(tests))
    return StateFilter(tuple(items))


def cpus_for_jobs(node: NodeInfo) -> int:
    """CPUs of the node without the specialized ones. A controller that knows none does not send their number."""
    return node.effective_cpus or node.cpus
