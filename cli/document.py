"""Answers for programs (--json, --yaml): the frame around them, the small objects that all of them share, and the writers.

The structure is that of Slurm's data_parser (v0.0.43). A number that may be absent is an object {"set", "infinite",
"number"}; times are seconds since 1970 in such objects, limits are minutes. Both languages say the same document.
What the documents hold is with those who know it: cli.jsonout (jobs), cli.jsonnode, cli.jsonacct, ...
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from cli.format import seconds_us
from cli.options import MAYBE, SLURM_VERSION, Option
from penstock.v1.common_pb2 import ExitStatus

PARSER = "v0.0.43"
Json = dict[str, Any]

#: For the option tables of all commands that have a document. The value names a parser or `list`.
DOCUMENT_OPTIONS = (
    Option("json", value=MAYBE, help="produce JSON output", metavar="data_parser", const=""),
    Option("yaml", value=MAYBE, help="produce YAML output", metavar="data_parser", const=""),
)


def is_wanted(options: Mapping[str, Any]) -> bool:
    """Whether the command line asks for a document."""
    return "json" in options or "yaml" in options


def write_document(document: Json, options: Mapping[str, Any] | None = None) -> None:
    """Write it in the language that was asked for, as Slurm lays it out."""
    if options is not None and "yaml" in options and "json" not in options:
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        yaml.dump(
            document, sys.stdout, dumper, sort_keys=False, allow_unicode=True, explicit_start=True, explicit_end=True
        )
        return
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


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
    major, minor, micro = SLURM_VERSION.split(".")
    meta = {
        "plugin": {"type": "", "name": "", "data_parser": f"data_parser/{PARSER}", "accounting_storage": ""},
        "client": {"source": "", "user": str(os.getuid()), "group": str(os.getgid())},
        "command": sys.argv[1:],
        "slurm": {
            "version": {"major": major, "minor": minor, "micro": micro},
            "release": SLURM_VERSION,
            "cluster": cluster,
        },
    }
    return {key: items, **more, "meta": meta, "errors": [], "warnings": []}


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
