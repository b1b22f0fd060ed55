"""`penstock audit`: shows the audit log, and verifies its integrity. Queries of the controller are for administrators
only.

    show      records as text, or unchanged (--json): one object a line
    verify    of the controller's database; or of files, oldest first, when it was rotated

`verify` of files compares with the controller's own records, which also detects a truncated end and a chain that was
recomputed as a whole. Without a controller (--offline) it detects inconsistencies within the files. Exit status: 0 the
log is intact, 1 it is not (the first broken record is named), or it could not be read.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NotRequired, TypedDict

import click

from cli.base.listing import emit
from cli.base.output import raw
from cli.base.run import CommandError
from cli.subcommands.documents import documents, errors_as, errors_in, write
from penstock.client import Client
from penstock.commandline import CommandGroup, CommandLine, invoke
from penstock.v1.governance_pb2 import ListAuditRequest
from penstock.values.auditchain import MISSING_END, ChainLink, Checker, Head, check, id_of, link_of, missing_end
from penstock.values.dates import format_date, parse_date_us
from penstock.values.errors import BadValue
from penstock.values.text import shown

#: The most records by which the file may lag behind the log.
LAG_S = 1.0
#: The longest line of a file: a record has a change's words, of which a request has a few MiB at most.
LINE_CHARS_MAX = 16 * 1024 * 1024
#: The most characters of a value in `show`.
VALUE_CHARS = 60


NAME = "penstock audit"
command = CommandGroup(
    "audit",
    help="The audit log: changes, and the users who made them.",
    wrong_use=2,
    edge=errors_as(NAME),
    examples=(("penstock audit show", "the last changes"), ("penstock audit verify", "that no record was changed")),
)


def main(argv: list[str]) -> int:
    """Run `penstock audit ...`; its status."""
    return invoke(command, NAME, argv)


# ---- show --------------------------------------------------------------------------------------------------------


#: One record, as the controller writes it.
AuditRecord = TypedDict(
    "AuditRecord",
    {
        "time": str,
        "user": str,
        "as": NotRequired[str],
        "auth": str,
        "from": str,
        "action": str,
        "objects": list[str],
        "before": dict[str, object] | None,
        "after": dict[str, object] | None,
        "result": str,
        "count": NotRequired[int],
        "methods": NotRequired[dict[str, int]],
    },
)


@command.command(
    "show",
    cls=CommandLine,
    help="Show records, the oldest first.",
    examples=(
        ("penstock audit show --since now-1hour", "the changes of the last hour"),
        ("penstock audit show --user ann --json", "what ann has changed, one JSON object a line"),
    ),
)
@click.option("--since", metavar="TIME", help="From this time on, in the syntax of sacct -S: now-1days, 2026-11-22.")
@click.option("--until", metavar="TIME", help="Up to this time.")
@click.option("--user", "users", multiple=True, metavar="NAME", help="Of this user; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="The unchanged records, one a line.")
def show(since: str | None, until: str | None, users: tuple[str, ...], as_json: bool) -> int:
    """Queries the records and prints them."""
    now_us = time.time_ns() // 1000
    request = ListAuditRequest(
        start_at_us=parse_date_us(since, now_us, past=True) if since else 0,
        end_at_us=parse_date_us(until, now_us, past=True) if until else 0,
        users=users,
    )
    with errors_in("json" if as_json else ""), Client.open() as client:
        for page in client.stream("ListAudit", request):
            for info in page.records:
                if as_json:
                    raw(f"{info.record}\n")  # what is hashed
                else:
                    emit([line(json.loads(info.record))])
    return 0


def line(record: AuditRecord) -> str:
    """A record as text: time, user, authentication and origin, action, object, result."""
    at = format_date(parse_utc_us(record["time"]), 0)
    who = record["user"] or "unauthenticated"
    who += f" as {record['as']}" if record.get("as") else ""
    how = ", ".join(word for word in (record["auth"], record["from"]) if word)
    words = [at, f"{who} ({how})" if how else who, record["action"], ", ".join(record["objects"])]
    words.append(" ".join(_fields(record)))
    if record["result"] != "done":
        count = record.get("count", 1)
        words.append(record["result"] + (f" ({count} calls)" if count > 1 else ""))
    return shown_line("  ".join(word for word in words if word))


def _fields(record: AuditRecord) -> Iterator[str]:
    before, after = record["before"] or {}, record["after"] or {}
    for name in sorted({**before, **after}):
        if record["before"] is None or record["after"] is None:
            if record["before"] is None:
                yield f"{name}={_value(after[name])}"
        else:
            yield f"{name}={_value(before.get(name))}->{_value(after.get(name))}"
    for name, count in record.get("methods", {}).items():
        yield f"{name}={count}"


def _value(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 3] + "..."


def shown_line(text: str) -> str:
    """The text with control sequences escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def parse_utc_us(text: str) -> int:
    """The time of a record."""
    import calendar

    whole = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return whole * 1_000_000 + int(text[20:26])


# ---- verify ------------------------------------------------------------------------------------------------------


@command.command(
    "verify",
    cls=CommandLine,
    help="Check that no record was changed, removed or added: in the controller's database, or in FILES, copies of "
    "PenstockAuditFile, the oldest first.",
    examples=(
        ("penstock audit verify", "the controller's own log"),
        ("penstock audit verify /backup/audit.json", "a copy, beside the controller's log"),
    ),
)
@documents
@click.option("--offline", is_flag=True, help="Do not compare with the controller.")
@click.argument("files", nargs=-1)
def verify(files: tuple[str, ...], offline: bool, language: str) -> int:
    """Verifies all records."""
    if offline and not files:
        raise BadValue("--offline checks files: name them")
    if files:
        wrong, first, last = _verify_files(list(files), offline)
    else:
        with Client.open() as client:
            wrong, first, last = _verify_controller(client)
    if language:
        write({"whole": wrong is None, "broken": wrong or "", "first": first, "last": last}, language)
        return int(wrong is not None)
    if wrong is not None:
        print(f"{NAME}: BROKEN: {wrong}", file=sys.stderr)  # noqa: T201
        return 1
    if not last:
        print("the audit log is empty")  # noqa: T201
        return 0
    compared = "" if files and offline else ", as the controller has written them"
    print(f"the audit log is whole: records {first} to {last}{compared}")  # noqa: T201
    return 0


def _verify_controller(client: Client) -> tuple[str | None, int, int]:
    checker, head = Checker((), before=""), None
    for page in client.stream("ListAudit", ListAuditRequest(from_id=1)):
        for info in page.records:
            link = ChainLink(id_of(info.record) or 0, info.record, info.hash)
            wrong = _misnumbered(link, info.id) or checker.take(link)
            if checker.first_id > 1:
                wrong = f"the first record is {checker.first_id}: those before it are missing"
            if wrong is not None:
                return wrong, 0, 0
        head = Head(page.head_id, page.head_hash) if page.head_id else head
    return (checker.end(head) if head is not None else None), checker.first_id, checker.last_id


def _misnumbered(link: ChainLink, expected: int) -> str | None:
    return None if link.record_id == expected else f"record {expected} was changed: it says that it is {link.record_id}"


def _verify_files(paths: list[str], offline: bool) -> tuple[str | None, int, int]:
    broken, ids = _ids_of(paths)
    if broken is not None:
        return broken, 0, 0
    if (wrong := check(_links(paths), ids)) is not None:
        return wrong, 0, 0
    if not ids:
        if offline:
            return None, 0, 0
        raise BadValue(f"{' '.join(paths)}: it has no record")
    first, last = min(ids), max(ids)
    if offline:
        return None, first, last
    with Client.open() as client:
        wrong = _compared(client, _links(paths), first, last)
        if wrong is not None and wrong.endswith(MISSING_END):
            time.sleep(LAG_S)  # the file lags behind the log: pending records have been written by then
            last = max(_ids_of(paths)[1])
            wrong = _compared(client, _links(paths), first, last)
        return wrong, first, last


def _compared(client: Client, mine: Iterator[ChainLink], first: int, last: int) -> str | None:
    """The first difference between the controller's records and the files."""
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


def _links(paths: list[str]) -> Iterator[ChainLink]:
    for place, text in _lines(paths):
        link = link_of(text, place)
        if link is not None:
            yield link


def _lines(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    several = len(list(paths)) > 1
    for path in paths:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            number = 0
            while text := file.readline(LINE_CHARS_MAX + 1):
                number += 1
                if len(text) > LINE_CHARS_MAX:
                    raise CommandError(f"{path} line {number} has more than {LINE_CHARS_MAX} characters: no audit file")
                yield (f"{path} line {number}" if several else f"line {number}"), text.rstrip("\n")
