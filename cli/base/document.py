"""Documents for programs (--json, --yaml): the frame around them, the small objects that all of them share, and the
writers.

The structure is that of Slurm's data_parser (v0.0.43). A number that may be absent is an object {"set", "infinite",
"number"}; times are seconds since 1970 in such objects, limits are minutes. JSON and YAML have the same content. The
content of the documents is defined in cli.listings.jsonout (jobs), cli.listings.jsonnode, cli.listings.jsonacct, ...
"""

import os
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.base.format import seconds_us
from cli.base.options import MAYBE, Option, OptionValues
from cli.base.run import RemoteAnswer
from cli.base.users import login_of
from cli.base.writers import compact_text, escaped, json_text, yaml_item, yaml_text
from penstock import SLURM_VERSION
from penstock.v1.common_pb2 import ExitStatus
from penstock.values.errors import BadValue

if TYPE_CHECKING:
    from penstock.client import Message

PARSER = "v0.0.43"
#: Names of parsers that --json and --yaml take. The structure is the newest one's; the requested name is shown.
PARSERS = ("v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40")
#: An object of a document under construction: members of any JSON type, by name.
Json = dict[str, object]


def _parser(text: str) -> str:
    """The given data_parser: `v0.0.43`, `data_parser/v0.0.43`, with flags after a `+`. `list` prints them."""
    if text == "list":
        raise RemoteAnswer("\n".join(["Possible data_parser plugins:", *(f"data_parser/{name}" for name in PARSERS)]))
    name = text.removeprefix("data_parser/").partition("+")[0]
    if name in ("", "latest"):
        return PARSER
    if name not in PARSERS:
        raise BadValue(f"{name} is not one of {', '.join(PARSERS)}")
    return name


#: For the option tables of all commands that have a document. The value names a parser or `list`.
DOCUMENT_OPTIONS = (
    Option("json", value=MAYBE, help="produce JSON output", metavar="data_parser", const="", convert=_parser),
    Option("yaml", value=MAYBE, help="produce YAML output", metavar="data_parser", const="", convert=_parser),
)


def is_wanted(options: OptionValues) -> bool:
    """Whether the command line asks for a document."""
    return "json" in options or "yaml" in options


def write_document(document: Json, options: OptionValues | None = None) -> None:
    """Writes a document in the requested language, in Slurm's layout."""
    write_stream("", (), document, options or OptionValues())


def write_stream(key: str, items: Iterable[Json], rest: Json, options: OptionValues) -> None:
    """Writes a document whose first key has a list that may be long: each item is written when it comes.

    Nothing is written before the first item arrives, so a refused request leaves no partial document. `rest`: the keys
    after the list. An error between two items leaves the document incomplete, which every parser rejects.
    """
    is_yaml = "yaml" in options and "json" not in options
    items = _begun(items)
    meta, named = rest.get("meta"), options.text("json") or options.text("yaml")
    if isinstance(meta, dict) and named:
        plugin = meta["plugin"] | {"data_parser": f"data_parser/{named}"}
        rest = rest | {"meta": meta | {"plugin": plugin}}

    def write(text: str) -> object:
        return sys.stdout.write(escaped(text))

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
    """The same items, after the first has arrived."""
    coming = iter(items)
    first = next(coming, None)
    return () if first is None else chain((first,), coming)


def _write_items(
    write: Callable[[str], object],
    items: Iterable[Json],
    head: str,
    between: str,
    foot: str,
    text: Callable[[Json], str],
) -> None:
    write(head)
    mark = ""
    for item in items:
        write(mark + text(item))
        mark = between
    write(foot)


def _quoted(key: str) -> str:
    return f'"{key}"'


class _Fields(NamedTuple):
    """The names of a message's fields: all, and those whose values are no values of JSON yet."""

    names: tuple[str, ...]
    optional: tuple[str, ...]
    lists: tuple[str, ...]  # of scalars; bytes too
    parts: tuple[str, ...]
    lists_of_parts: tuple[str, ...]


#: Fields by the kind of message: descriptors are read once, and not for each of some thousand messages.
_FIELDS: Final[dict[type["Message"], _Fields]] = {}


def _fields_of(kind: type["Message"]) -> _Fields:
    """The fields of a kind of message."""
    blank, fields = kind(), kind.DESCRIPTOR.fields
    scalars = [field.name for field in fields if field.message_type is None]
    values = {name: getattr(blank, name) for name in scalars}
    parts = [field for field in fields if field.message_type is not None]
    return _Fields(
        tuple(field.name for field in fields),
        tuple(field.name for field in fields if field.message_type is None and field.has_presence),
        tuple(name for name, value in values.items() if isinstance(value, Iterable) and not isinstance(value, str)),
        tuple(field.name for field in parts if field.has_presence),
        tuple(field.name for field in parts if not field.has_presence),
    )


def message_object(message: "Message") -> Json:
    """A message with the names of its fields, numbers as numbers; a part that is absent is null."""
    kind = type(message)
    fields = _FIELDS.get(kind) or _FIELDS.setdefault(kind, _fields_of(kind))
    found: Json = {name: getattr(message, name) for name in fields.names}
    for name in fields.lists:
        found[name] = list(getattr(message, name))
    for name in fields.lists_of_parts:
        found[name] = [message_object(one) for one in getattr(message, name)]
    for name in fields.parts:
        found[name] = message_object(getattr(message, name)) if message.HasField(name) else None
    for name in fields.optional:
        if not message.HasField(name):
            found[name] = None
    return found


def document(key: str, items: list[Json], cluster: str, **more: object) -> Json:
    """A whole answer: the items, and the caller and command."""
    return {key: items, **rest_of(cluster, **more)}


def rest_of(cluster: str, **more: object) -> Json:
    """The part of an answer after the items."""
    major, minor, micro = SLURM_VERSION.split(".")
    meta = {
        "plugin": {"type": "", "name": "", "data_parser": f"data_parser/{PARSER}", "accounting_storage": ""},
        "client": {"source": _source(), "user": login_of(str(os.getuid())), "group": _group(os.getgid())},
        "command": [_program(), *sys.argv[1:]],
        "slurm": {
            "version": {"major": major, "minor": minor, "micro": micro},
            "release": SLURM_VERSION,
            "cluster": cluster,
        },
    }
    return {**more, "meta": meta, "errors": [], "warnings": []}


def _source() -> str:
    """The terminal or file of the standard input, by which Slurm names the client; "" = it is closed."""
    try:
        return os.readlink("/proc/self/fd/0")
    except OSError:
        return ""


def _program() -> str:
    return sys.argv[0].rpartition("/")[2].removesuffix(".py")


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
