"""Common parts of squeue, sinfo and sacct beside their tables: users, repetition, lists of words."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from cli.base.format import PIECE_CHARS, TableRow, TableView
from cli.base.options import OptionValues
from cli.base.output import rows_text
from cli.base.run import CommandError, complain, need_own_process
from cli.base.users import find_uid
from penstock.values.dates import DATE_MAX_S, UNKNOWN
from penstock.values.states import COMPACT_STATE, OTHER_STATE_WORDS, JobState

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    from penstock.client import Client
    from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest

#: The shortest interval: less would only load the controller.
ITERATE_MIN_S = 1
ITERATE_MAX_S = 86400

#: sprio and sshare of a cluster that plans without priorities.
NOT_MULTIFACTOR = (
    "You are not running a supported priority plugin\n(priority/basic).\nOnly 'priority/multifactor' is supported."
)

#: The lines of the first chunk that is written.
FIRST_LINES = 64

#: Slurm's names of job states, upper case -> our state's name; "" = a state that no job enters here.
STATE_OF_WORD = (
    {s.name: s.name for s in JobState}
    | {word: s.name for s, word in COMPACT_STATE.items()}
    | dict.fromkeys(OTHER_STATE_WORDS, "")
    | dict.fromkeys(OTHER_STATE_WORDS.values(), "")
)


def words(text: str | None) -> list[str]:
    """The items of a comma list, without empty ones."""
    return [word for word in (part.strip() for part in (text or "").split(",")) if word]


def now_us() -> int:
    """The time of the report."""
    return time.time_ns() // 1000


def emit(lines: Iterable[str]) -> None:
    """Writes lines to stdout in large chunks; a line break inside a line is escaped. The size of each chunk follows
    from the width of the one before.
    """
    rest, count = iter(lines), FIRST_LINES
    while piece := list(islice(rest, count)):
        text = rows_text(piece)
        sys.stdout.write(text + "\n")
        count = max(1, min(count * 8, PIECE_CHARS * len(piece) // (len(text) + 1)))


def date_line(at_us: int) -> str:
    """The line above a long or repeated report."""
    if not 0 <= at_us <= DATE_MAX_S * 1_000_000:
        return UNKNOWN
    return time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at_us // 1_000_000))


def repeat(command: str, text: str | None, once: Callable[[], int]) -> int:
    """Prints a report, repeatedly if `--iterate` was given."""
    if text is None:
        return once()
    if not re.fullmatch(r"[0-9]{1,9}", text) or not ITERATE_MIN_S <= int(text) <= ITERATE_MAX_S:
        prefix = "Error: invalid entry for " if command == "sinfo" else ""
        raise CommandError(f"{prefix}--iterate={text}")
    need_own_process()
    while True:
        status = once()
        sys.stdout.write("\n")
        sys.stdout.flush()
        if status:
            return status
        time.sleep(int(text))


def report_rate_limits(command: str, client: "Client", options: OptionValues) -> None:
    """With -v: reports waits caused by the controller's rate limit."""
    if options.flag("verbose"):
        client.on_notice = lambda text: complain(command, f"{command}: {text}", plain=True)


def find_user(name: str) -> str | None:
    """Resolves a user to their uid for the controller, None if there is none of that name."""
    uid = find_uid(name)
    return None if uid is None else str(uid)


def environment() -> Mapping[str, str]:
    """The variables that are read as defaults of options."""
    return os.environ


def numbers_in(text: str, what: str) -> tuple[int, int | None]:
    """Parses `5`, `2-7` or `2-` to a range."""
    match = re.fullmatch(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?", text)
    if match is None:
        raise CommandError(f'Invalid numeric value "{text}" for {what}.')
    low, dash, high = match.groups()
    if not dash:
        return int(low), int(low)
    return int(low), int(high) if high else None


def sort_letters(text: str) -> Iterator[tuple[str, bool]]:
    """The letters of a sort list, each with whether it sorts descending. Commas may be left out: `P,t,-p` is `Pt-p`."""
    backwards, mark = False, ""
    for char in text:
        if char in "+-":
            backwards = char == "-"
        elif char == "#" and not mark:
            mark = char
        elif char != ",":
            yield mark + char, backwards
            backwards, mark = False, ""
    if mark:
        yield mark, backwards


#: Slurm's line about two options of listings.
FORMAT_OR_LONG = "Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."

_Key = TypeVar("_Key")


def sort_keys(text: str, find: Callable[[str], _Key | None]) -> list[tuple[_Key, bool]]:
    """The keys of a sort list, each with whether it sorts descending. `cluster` is ignored: there is one. Of several bad
    letters the last one is named, since Slurm reads the list from its end."""
    listed = ",".join(word for word in text.split(",") if word.lstrip("+-") != "cluster")
    keys: list[tuple[_Key, bool]] = []
    for letter, backwards in reversed(list(sort_letters(listed))):
        key = find(letter)
        if key is None:
            bad = letter[-1] if find(letter[-1]) is None else letter[0]
            raise CommandError(f"Invalid sort specification: {bad}")
        keys.append((key, backwards))
    return keys[::-1]


#: A sort key of lines: any type that compares with itself.
ListingKey = Callable[[TableRow, TableView], "SupportsRichComparison"]


def unsorted(row: TableRow, view: TableView) -> int:
    """The key of a letter that sorts nothing. sinfo and `squeue --steps` take any letter, as in Slurm, where only
    squeue's list of jobs and sprio refuse one."""
    return 0


def sort_rows(
    rows: list[TableRow], text: str, find: Callable[[str], ListingKey[TableRow, TableView] | None], view: TableView
) -> None:
    """Sorts lines by several keys: the last first, since the sort is stable."""
    for key, backwards in reversed(sort_keys(text, find)):
        values = [(key(row, view), row) for row in rows]
        values.sort(key=lambda pair: pair[0], reverse=backwards)
        rows[:] = [row for _, row in values]


def list_records(client: "Client", request: "ListRecordsRequest", timeout_s: float | None = None) -> "list[JobRecord]":
    """All records of an answer. timeout_s: for the whole call; None = the client's."""
    return [record for page in client.stream("ListRecords", request, timeout_s) for record in page.records]
