"""`penstock audit`: show the audit log, and verify that it is whole. Administrators only, as far as the controller is asked.

    show      records as lines for people, or as they are (--json): one object a line
    verify    of the controller's database; or of files, oldest first, when it was rotated

`verify` of files asks the controller for its own records and compares, which also finds an end that was cut off and a chain
that was made anew as a whole. Without a controller (--offline) it finds what does not fit together. Exit status: 0 the log is
whole, 1 it is not (the first broken record is named), or it could not be read.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.governance_pb2 import ListAuditRequest
from penstock.values.auditchain import MISSING_END, Checker, Head, Link, check, id_of, link_of, missing_end
from penstock.values.dates import format_date, parse_date_us
from penstock.values.errors import BadValue
from penstock.values.text import shown

#: How far the file may be behind the log.
LAG_S = 1.0
#: Characters of a value in `show`.
VALUE_CHARS = 60


def main(argv: list[str]) -> int:
    """Run `penstock audit ...`; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise  # whoever read has read enough: cli.run ends without a word
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"penstock audit: error: {where}{error.strerror or error}", file=sys.stderr)  # noqa: T201
    except BadValue as error:
        print(f"penstock audit: error: {error}", file=sys.stderr)  # noqa: T201
    except PenstockError as error:
        print(f"penstock audit: error: {error.text}", file=sys.stderr)  # noqa: T201
        if error.detail:
            print(f"penstock audit: {error.detail}", file=sys.stderr)  # noqa: T201
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock audit", description="The audit log: who has changed what.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="show records")
    show.add_argument("--since", metavar="TIME", help="from this time on, as sacct -S has it: now-1days, 2026-11-22")
    show.add_argument("--until", metavar="TIME", help="up to this time")
    show.add_argument(
        "--user", action="append", default=[], metavar="NAME", help="of this user; several times for more"
    )
    show.add_argument("--json", action="store_true", help="the records as they are, one a line")
    show.set_defaults(run=_show)
    verify = commands.add_parser("verify", help="check that nothing was changed, taken away or added")
    verify.add_argument("files", nargs="*", metavar="FILE", help="copies of PenstockAuditFile, the oldest first")
    verify.add_argument("--offline", action="store_true", help="do not compare with the controller")
    verify.set_defaults(run=_verify)
    return parser


# ---- show --------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace) -> int:
    now_us = time.time_ns() // 1000
    request = ListAuditRequest(
        start_at_us=parse_date_us(options.since, now_us, past=True) if options.since else 0,
        end_at_us=parse_date_us(options.until, now_us, past=True) if options.until else 0,
        users=options.user,
    )
    with Client.open() as client:
        for page in client.stream("ListAudit", request):
            for info in page.records:
                print(info.record if options.json else line(json.loads(info.record)))  # noqa: T201
    return 0


def line(record: dict[str, Any]) -> str:
    """A record for a person: when, who, how and from where, what, of what, what has become of it."""
    at = format_date(parse_utc_us(record["time"]), 0)
    who = record["user"] or "nobody"
    who += f" as {record['as']}" if record.get("as") else ""
    how = ", ".join(word for word in (record["auth"], record["from"]) if word)
    words = [at, f"{who} ({how})" if how else who, record["action"], ", ".join(record["objects"])]
    words.append(" ".join(_fields(record)))
    if record["result"] != "done":
        count = record.get("count", 1)
        words.append(record["result"] + (f" ({count} calls)" if count > 1 else ""))
    return shown_line("  ".join(word for word in words if word))


def _fields(record: dict[str, Any]) -> Iterator[str]:
    before, after = record["before"] or {}, record["after"] or {}
    for name in sorted({**before, **after}):
        if record["before"] is None or record["after"] is None:
            if record["before"] is None:
                yield f"{name}={_value(after[name])}"
        else:
            yield f"{name}={_value(before.get(name))}->{_value(after.get(name))}"
    for name, count in record.get("methods", {}).items():
        yield f"{name}={count}"


def _value(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 3] + "..."


def shown_line(text: str) -> str:
    """Without what a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def parse_utc_us(text: str) -> int:
    """The time of a record."""
    import calendar

    whole = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return whole * 1_000_000 + int(text[20:26])


# ---- verify ------------------------------------------------------------------------------------------------------


def _verify(options: argparse.Namespace) -> int:
    if options.offline and not options.files:
        raise BadValue("--offline checks files: name them")
    if options.files:
        wrong, first, last = _verify_files(options.files, options.offline)
    else:
        with Client.open() as client:
            wrong, first, last = _verify_controller(client)
    if wrong is not None:
        print(f"penstock audit: BROKEN: {wrong}", file=sys.stderr)  # noqa: T201
        return 1
    if not last:
        print("the audit log is empty")  # noqa: T201
        return 0
    compared = "" if options.files and options.offline else ", as the controller has written them"
    print(f"the audit log is whole: records {first} to {last}{compared}")  # noqa: T201
    return 0


def _verify_controller(client: Client) -> tuple[str | None, int, int]:
    checker, head = Checker((), before=""), None
    for page in client.stream("ListAudit", ListAuditRequest(from_id=1)):
        for info in page.records:
            link = Link(id_of(info.record) or 0, info.record, info.hash)
            wrong = _misnumbered(link, info.id) or checker.take(link)
            if checker.first_id > 1:
                wrong = f"the first record is {checker.first_id}: those before it are missing"
            if wrong is not None:
                return wrong, 0, 0
        head = Head(page.head_id, page.head_hash) if page.head_id else head
    return (checker.end(head) if head is not None else None), checker.first_id, checker.last_id


def _misnumbered(link: Link, told: int) -> str | None:
    return None if link.record_id == told else f"record {told} was changed: it says that it is {link.record_id}"


def _verify_files(paths: list[str], offline: bool) -> tuple[str | None, int, int]:
    broken, ids = _ids_of(paths)
    if broken is not None:
        return broken, 0, 0
    if (wrong := check(_links(paths), ids)) is not None:
        return wrong, 0, 0
    if not ids:
        if offline:
            return None, 0, 0
        raise BadValue(f"{' '.join(paths)}: no record stands in it")
    first, last = min(ids), max(ids)
    if offline:
        return None, first, last
    with Client.open() as client:
        wrong = _compared(client, _links(paths), first, last)
        if wrong is not None and wrong.endswith(MISSING_END):
            time.sleep(LAG_S)  # the file follows the log; what is on its way now has arrived then
            last = max(_ids_of(paths)[1])
            wrong = _compared(client, _links(paths), first, last)
        return wrong, first, last


def _compared(client: Client, mine: Iterator[Link], first: int, last: int) -> str | None:
    """What the controller has written and the files have otherwise."""
    for page in client.stream("ListAudit", ListAuditRequest(from_id=first)):
        for info in page.records:
            link = next(mine, None)
            if link is None:
                continue  # written since the files were read, unless the head says otherwise
            if (link.record_id, link.hash) != (info.id, info.hash):
                return f"record {link.record_id} ({link.place}) is not the one that the controller has"
        if page.head_id > last:
            return missing_end(last, page.head_id)
    left = next(mine, None)
    return None if left is None else f"record {left.record_id} ({left.place}) is not in the controller's database"


def _ids_of(paths: list[str]) -> tuple[str | None, set[int]]:
    ids: set[int] = set()
    for place, text in _lines(paths):
        link = link_of(text)
        if link is None:
            return f"{place} is no record, or was changed: {shown(text)}", ids
        ids.add(link.record_id)
    return None, ids


def _links(paths: list[str]) -> Iterator[Link]:
    for place, text in _lines(paths):
        link = link_of(text, place)
        if link is not None:
            yield link


def _lines(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    several = len(list(paths)) > 1
    for path in paths:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for number, text in enumerate(file, 1):
                yield (f"{path} line {number}" if several else f"line {number}"), text.rstrip("\n")
