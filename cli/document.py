"""Answers for programs (--json, --yaml): the frame around them, the small objects that all of them share, and the writers.

The structure is that of Slurm's data_parser (v0.0.43). A number that may be absent is an object {"set", "infinite",
"number"}; times are seconds since 1970 in such objects, limits are minutes. Both languages say the same document.
What the documents hold is with those who know it: cli.jsonout (jobs), cli.jsonnode, cli.jsonacct, ...
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from cli.format import seconds_us
from cli.options import MAYBE, SLURM_VERSION, Option
from cli.run import Answered
from cli.users import login_of
from cli.writers import compact_text, json_text, yaml_item, yaml_text
from penstock.v1.common_pb2 import ExitStatus
from penstock.values.errors import BadValue

PARSER = "v0.0.43"
#: Names of parsers that --json and --yaml take. The structure is the newest one's; the name that was asked for is shown.
PARSERS = ("v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40")
Json = dict[str, Any]


def _parser(text: str) -> str:
    """The data_parser that is named: `v0.0.43`, `data_parser/v0.0.43`, with flags behind a `+`. `list` prints them."""
    if text == "list":
        raise Answered("\n".join(["Possible data_parser plugins:", *(f"data_parser/{name}" for name in PARSERS)]))
    name = text.removeprefix("data_parser/").partition("+")[0]
    if name in ("", "latest"):
        return PARSER
    if name not in PARSERS:
        raise BadValue(f"{name} is none of {', '.join(PARSERS)}")
    return name


#: For the option tables of all commands that have a document. The value names a parser or `list`.
DOCUMENT_OPTIONS = (
    Option("json", value=MAYBE, help="produce JSON output", metavar="data_parser", const="", convert=_parser),
    Option("yaml", value=MAYBE, help="produce YAML output", metavar="data_parser", const="", convert=_parser),
)


def is_wanted(options: Mapping[str, Any]) -> bool:
    """Whether the command line asks for a document."""
    return "json" in options or "yaml" in options


def write_document(document: Json, options: Mapping[str, Any] | None = None) -> None:
    """Write it in the language that was asked for, as Slurm lays it out."""
    write_stream("", (), document, options or {})


def write_stream(key: str, items: Iterable[Json], rest: Json, options: Mapping[str, Any]) -> None:
    """Write a document whose first key has a list that may be long: each item is written when it comes.

    Nothing is written before the first item is there: whoever cannot have the list at all leaves no half document.
    `rest`: what stands behind it. An error between two items leaves the document unfinished, which no parser takes for
    a whole one.
    """
    is_yaml = "yaml" in options and "json" not in options
    items = _begun(items)
    if "meta" in rest and (options.get("json") or options.get("yaml")):
        named = options.get("json") or options.get("yaml")
        plugin = rest["meta"]["plugin"] | {"data_parser": f"data_parser/{named}"}
        rest = rest | {"meta": rest["meta"] | {"plugin": plugin}}
    write = sys.stdout.write
    if os.environ.get("SLURM_YAML" if is_yaml else "SLURM_JSON", "").lower() == "compact":
        write("{")
        _write_items(write, items, f"{_quoted(key)}:[" if key else "", ",", "]," if key else "", compact_text)
        write(compact_text(rest)[1:] + "\n")
    elif is_yaml:
        write("---\n")
        if key:
            chosen = iter(items)
            first = next(chosen, None)
            write(f"{key}: []\n" if first is None else f"{key}:\n{yaml_item(first)}")
            for item in chosen:
                write(yaml_item(item))
        write("".join(f"{name}:{yaml_text(value)}" for name, value in rest.items()) + "...\n")
    else:
        write("{\n")
        if key:
            head, foot = f"  {_quoted(key)}: [\n", "\n  ],\n"
            _write_items(write, items, head, ",\n", foot, lambda item: "    " + json_text(item, "    "))
        write(json_text(rest)[2:] + "\n")


def _begun(items: Iterable[Json]) -> Iterable[Json]:
    """The same items, the first of which has come."""
    coming = iter(items)
    first = next(coming, None)
    return () if first is None else chain((first,), coming)


def _write_items(
    write: Callable[[str], Any], items: Iterable[Json], head: str, between: str, foot: str, text: Callable[[Json], str]
) -> None:
    write(head)
    mark = ""
    for item in items:
        write(mark + text(item))
        mark = between
    write(foot)


def _quoted(key: str) -> str:
    return f'"{key}"'


def message_object(message: Any) -> Json:
    """A message with the names of its fields, numbers as numbers; a part that is absent is null."""
    found: Json = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            found[field.name] = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value
        elif field.has_presence:
            found[field.name] = message_object(value) if message.HasField(field.name) else None
        else:
            found[field.name] = [message_object(one) for one in value]
    return found


def document(key: str, items: list[Json], cluster: str, **more: Any) -> Json:
    """A whole answer: the items, and who asked what."""
    return {key: items, **rest_of(cluster, **more)}


def rest_of(cluster: str, **more: Any) -> Json:
    """What stands in an answer behind the items."""
    major, minor, micro = SLURM_VERSION.split(".")
    meta = {
        "plugin": {"type": "", "name": "", "data_parser": f"data_parser/{PARSER}", "accounting_storage": ""},
        "client": {"source": "", "user": login_of(str(os.getuid())), "group": _group(os.getgid())},
        "command": sys.argv[1:],
        "slurm": {
            "version": {"major": major, "minor": minor, "micro": micro},
            "release": SLURM_VERSION,
            "cluster": cluster,
        },
    }
    return {**more, "meta": meta, "errors": [], "warnings": []}


def _group(gid: int) -> str:
    """Its name, or the number when it has none here."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def number(value: float | None, *, infinite: bool = False) -> Json:
    """A number that may be absent (None) or without end."""
    return {"set": value is not None and not infinite, "infinite": infinite, "number": 0 if infinite else value or 0}


def time_object(at_us: int) -> Json:
    """A time; 0 = there is none."""
    return {"set": True, "infinite": False, "number": seconds_us(at_us)}


def minutes(limit_s: int) -> Json:
    """A limit in minutes."""
    return number(-(-limit_s // 60), infinite=limit_s < 0)


def exit_object(status: ExitStatus) -> Json:
    """An exit status in words and numbers."""
    word = "SIGNALED" if status.signal else "ERROR" if status.code else "SUCCESS"
    return {
        "status": [word],
        "return_code": number(status.code),
        "signal": {"id": number(status.signal or None), "name": _signal_name(status.signal)},
    }


def _signal_name(number_: int) -> str:
    import signal

    try:
        return signal.Signals(number_).name.removeprefix("SIG") if number_ else ""
    except ValueError:
        return str(number_)
