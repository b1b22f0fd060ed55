"""What squeue, sinfo and sacct have in common beside their tables: clusters, users, repetition, lists of words.

Penstock has one cluster per controller, so `-M` only checks that the user means this one; the heading `CLUSTER: name`
is printed as Slurm prints it, because tools drop that line by counting.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from cli.format import PIECE_CHARS
from cli.run import CommandError, complain, need_own_process
from cli.users import find_uid
from penstock.values.states import COMPACT_STATE, OTHER_STATE_WORDS, JobState

#: A shorter pause would only load the controller.
ITERATE_MIN_S = 1
ITERATE_MAX_S = 86400

#: Lines of the first piece that is written.
FIRST_LINES = 64

#: Every word for a job state that Slurm knows, upper case -> our state's name; "" = a state that is never entered here.
STATE_OF_WORD = (
    {s.name: s.name for s in JobState}
    | {word: s.name for s, word in COMPACT_STATE.items()}
    | dict.fromkeys(OTHER_STATE_WORDS, "")
    | dict.fromkeys(OTHER_STATE_WORDS.values(), "")
)


def words(text: str | None) -> list[str]:
    """The items of a comma list; empty ones do not count."""
    return [word for word in (part.strip() for part in (text or "").split(",")) if word]


def now_us() -> int:
    """The time of the report."""
    return time.time_ns() // 1000


def emit(lines: Iterable[str]) -> None:
    """Write lines to stdout in large pieces. How many lines are one is what the piece before was wide."""
    rest, count = iter(lines), FIRST_LINES
    while piece := list(islice(rest, count)):
        text = "\n".join(piece)
        sys.stdout.write(text + "\n")
        count = max(1, min(count * 8, PIECE_CHARS * len(piece) // (len(text) + 1)))


def date_line(at_us: int) -> str:
    """The line above a long or repeated report."""
    return time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at_us // 1_000_000))


def repeat(command: str, text: str | None, once: Callable[[], int]) -> int:
    """Print a report, again and again if `--iterate` was given."""
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


def tell_of_limits(command: str, client: Any, options: Mapping[str, Any]) -> None:
    """With -v: say that the controller's limit of requests makes the command wait."""
    if options.get("verbose"):
        client.tell = lambda text: complain(command, f"{command}: {text}", plain=True)


def check_clusters(text: str | None, own: str) -> bool:
    """Whether the heading with the cluster's name is wanted. A cluster that is not ours is an error."""
    for name in words(text):
        if name != own and name.lower() != "all":
            raise CommandError(
                f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
                "Use 'sacctmgr list clusters' to see available clusters."
            )
    return bool(words(text))


def find_user(name: str) -> str | None:
    """A user as the controller is asked for him (his uid), None if nobody is called so."""
    uid = find_uid(name)
    return None if uid is None else str(uid)


def environment() -> Mapping[str, str]:
    """The environment that stands below the command line."""
    return os.environ


def numbers_in(text: str, what: str) -> tuple[int, int | None]:
    """`5`, `2-7` or `2-` as a range."""
    match = re.fullmatch(r"([0-9]{1,9})(?:(-)([0-9]{1,9})?)?", text)
    if match is None:
        raise CommandError(f"invalid {what} '{text}'")
    low, dash, high = match.groups()
    if not dash:
        return int(low), int(low)
    return int(low), int(high) if high else None


def sort_letters(text: str) -> Iterator[tuple[str, bool]]:
    """The letters of a sort list with whether they sort backwards. Commas may be left out: `P,t,-p` is `Pt-p`."""
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


Key = TypeVar("Key")


def sort_keys(text: str, find: Callable[[str], Key | None]) -> list[tuple[Key, bool]]:
    """The keys of a sort list, and whether each sorts backwards. `cluster` sorts nothing: there is one."""
    keys = []
    for letter, backwards in sort_letters(",".join(word for word in text.split(",") if word.lstrip("+-") != "cluster")):
        key = find(letter)
        if key is None:
            raise CommandError(f"Invalid sort specification: {letter}")
        keys.append((key, backwards))
    return keys


def sort_rows(rows: list[Any], text: str, find: Callable[[str], Callable[[Any, Any], Any] | None], view: Any) -> None:
    """Sort lines by several keys: the last first, as each sort keeps the order of equal ones."""
    for key, backwards in reversed(sort_keys(text, find)):
        values = [(key(row, view), row) for row in rows]
        values.sort(key=lambda pair: pair[0], reverse=backwards)
        rows[:] = [row for _, row in values]


def pages(client: Any, method: str, request: Any, field: str, timeout_s: float | None = None) -> list[Any]:
    """Everything that a streaming call answers. timeout_s: for all of it; None = the client's."""
    return [item for page in client.stream(method, request, timeout_s) for item in getattr(page, field)]
