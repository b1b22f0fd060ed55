"""What -v adds to squeue, sinfo and sprio: the table of the options in force, and when the data was read.

Programs that test Slurm look for these lines. A module of its own, since few calls use -v.
"""

import re
from collections.abc import Iterable, Mapping

from cli.base.format import Column
from cli.base.listing import date_line, find_user, words
from cli.base.options import OptionValues
from cli.listings.sinfo_fields import LETTERS, NAMES
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.states import COMPACT_STATE

RULE = "-" * 29
_STATE_OF = {word: state.name for state, word in COMPACT_STATE.items()}
_PERCENT = re.compile(r"%[#]?(\.?[#]?)([0-9]*)([A-Za-z])")


def update_line(at_us: int, records: int) -> str:
    """The line above squeue's header: when the data was read, 0 for one job, and how many records came."""
    return f"last_update_time={at_us // 1_000_000} records={records}"


def head(lines: Iterable[str], at_us: int, options: OptionValues, blank: int) -> list[str]:
    """The table between two rules, and the date, unless a header is unwanted."""
    date = [] if options.flag("noheader") else [date_line(at_us)]
    return [RULE, *lines, RULE, *[""] * blank, *date]


def squeue_options(options: OptionValues, format_text: str) -> list[str]:
    """The table of squeue."""
    start = options.flag("start")
    rows = {
        "all": _flag(options, "all"),
        "array": _flag(options, "array"),
        "federation": _flag(options, "federation"),
        "format": format_text or "(null)",
        "iterate": options.text("iterate", "0"),
        "job_flag": str(int("job" in options)),
        "jobs": _text(options, "job"),
        "licenses": _text(options, "licenses"),
        "local": _flag(options, "local"),
        "names": _text(options, "name"),
        "nodes": _nodes(options.text("nodelist")),
        "partitions": _text(options, "partition"),
        "priority": _flag(options, "priority"),
        "reservation": _text(options, "reservation"),
        "sibling     ": _flag(options, "sibling"),
        "sort": _text(options, "sort"),
        "start_flag": str(int(start)),
        "states": _text(options, "states"),
        "step_flag": str(int("steps" in options)),
        "steps": _text(options, "steps"),
        "users": _text(options, "user"),
        "verbose": str(options.number("verbose")),
    }
    lines = [f"{label:<11} = {value}" for label, value in rows.items()]
    if options.number("verbose") > 1:
        for name, key in (("job", "job"), ("name", "name"), ("licenses", "licenses"), ("part", "partition")):
            lines += _list(name, words(options.text(key)))
        lines += _list("state", [_STATE_OF.get(word.upper(), word.upper()) for word in words(options.text("states"))])
        lines += _list("step", words(options.text("steps")))
        lines += _list("user", [find_user(word) or word for word in words(options.text("user"))])
    return lines


def sprio_options(options: OptionValues) -> list[str]:
    """The table of sprio."""
    rows = {
        "format": _text(options, "format"),
        "job_flag": str(int("jobs" in options)),
        "jobs": _text(options, "jobs"),
        "partition": _text(options, "partition"),
        "users": _text(options, "user"),
        "verbose": str(options.number("verbose")),
    }
    lines = [f"{label:<10} = {value}" for label, value in rows.items()]
    if options.number("verbose") > 1:
        lines += _list("job", words(options.text("jobs")))
        lines += _list("user", [find_user(word) or word for word in words(options.text("user"))])
    return lines


#: The flags of sinfo's table, with the fields that set each; the label is written as Slurm writes it.
_FLAGS: tuple[tuple[str, str], ...] = (
    ("all_flag        = ", ""), ("alloc_mem_flag  = ", "allocmem"), ("avail_flag      = ", "available"),
    ("comment_flag    = ", "comment"), ("cpus_flag       = ", "cpus cpusstate"), ("default_time_flag =", "defaulttime"),
    ("disk_flag       = ", "disk"), ("extra_flag      = ", "extra"), ("features_flag   = ", "features"),
    ("features_flag_act = ", "features_act"), ("groups_flag     = ", "groups"), ("gres_flag       = ", "gres"),
    ("gres_used_flag  = ", "gresused"), ("job_size_flag   = ", "size"), ("max_time_flag   = ", "time"),
    ("memory_flag     = ", "memory"), ("partition_flag  = ", "partition partitionname"), ("port_flag       = ", "port"),
    ("priority_job_factor_flag   = ", "priorityjobfactor"), ("priority_tier_flag   = ", "prioritytier"),
    ("reason_flag     = ", "reason"), ("reason_timestamp_flag = ", "timestamp"), ("reason_user_flag = ", "user userlong"),
    ("reservation_flag = ", ""), ("resv_name_flag   = ", "reservation"), ("root_flag       = ", "root"),
    ("oversubscribe_flag      = ", "oversubscribe"), ("state_flag      = ", "statecompact statelong"),
    ("statecomplete_flag = ", "statecomplete"), ("weight_flag     = ", "weight"),
)  # fmt: skip
_SHOWN_NAMES: Mapping[str, str] = {
    "a": "available", "l": "time", "s": "size", "r": "root", "h": "oversubscribe", "g": "groups", "D": "nodes",
    "t": "statecompact", "T": "statelong", "N": "nodelist", "F": "nodeaiot", "P": "partition", "i": "reservation",
    "c": "cpus", "z": "socketcorethread", "m": "memory", "d": "disk", "w": "weight", "f": "features", "E": "reason",
    "u": "user", "U": "userlong", "H": "timestamp",
}  # fmt: skip

#: Options of sinfo that leave out nodes.
_FILTERS = ("dead", "nodes", "partition", "responding", "states", "list_reasons")


def sinfo_options(options: OptionValues, text: str, is_default: bool, columns: Iterable[Column]) -> list[str]:
    """The table of sinfo. `text`: the format; a default one is written by names."""
    fields = {id(column.field) for column in columns}
    by_node = options.flag("Node")
    shows_partition = any(id(LETTERS[letter]) in fields for letter in "PR")
    everything = options.flag("all") or options.flag("partition")
    rows = {
        "dead": _flag(options, "dead"),
        "exact": str(int(options.flag("exact"))),
        "filtering": _bool(any(options.flag(key) for key in _FILTERS)),
        "format": named_format(text) if is_default else text,
        "iterate": options.text("iterate", "0"),
        "long": _flag(options, "long"),
        "no_header": _flag(options, "noheader"),
        "node_field": _bool(id(LETTERS["N"]) in fields and by_node),
        "node_format": _bool(by_node),
        "nodes": options.text("nodes") or "n/a",
        "part_field": _bool(shows_partition),
        "partition": options.text("partition") or "n/a",
        "responding": _flag(options, "responding"),
        "states": _text(options, "states"),
        "sort": _text(options, "sort"),
        "summarize": _flag(options, "summarize"),
        "verbose": str(options.number("verbose")),
    }
    flags = [
        label
        + _bool(everything if label.startswith("all_") else any(id(NAMES[name]) in fields for name in names.split()))
        for label, names in _FLAGS
    ]
    return [*(f"{label:<11} = {value}" for label, value in rows.items()), RULE, *flags]


def named_format(text: str) -> str:
    """A format of letters, `%9P %.5a`, by names: `partition:9 ,available:.5 `. The width `#` is the shortest one's."""
    parts = [
        f"{_SHOWN_NAMES.get(letter, letter)}:{dot.rstrip('#')}{width or ('9' if '#' in whole else '0')}"
        for whole, dot, width, letter in ((m.group(), *m.groups()) for m in _PERCENT.finditer(text))
    ]
    return " ,".join(parts)


def _flag(options: OptionValues, key: str) -> str:
    return _bool(options.flag(key))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _text(options: OptionValues, key: str) -> str:
    return options.text(key) or "(null)"


def _nodes(text: str) -> str:
    try:
        return compress(expand(text)) if text else ""
    except BadValue:
        return text


def _list(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name}_list[{number}] = {value}" for number, value in enumerate(values)]
