"""The chain of the audit log: how records are hashed, how they stand in a file, and what is wrong with a copy of them. Pure.

The hash of a record is SHA-256 over the hash before it and its own text, both as text. A line of the file is the record, a
JSON object, with two more members at its end: `prev` and `hash`. So a line can be checked by itself, and `jq` reads it.

What a check finds: a record that was changed, one that is missing or stands twice or in the wrong place, one that somebody
has put in, and an end that is cut off or was written anew, if it is known where the controller's chain ends.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

#: What stands before the first record.
GENESIS: Final = "0" * 64
MISSING_END: Final = "missing at the end"
_TAIL: Final = re.compile(r',"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}\Z')


class Link(NamedTuple):
    """One record of a copy. `previous` "" = the copy does not say."""

    record_id: int
    text: str
    hash: str
    previous: str = ""
    place: str = ""  # for people: line 7


class Head(NamedTuple):
    """A record of which the controller says that it has written it, and its last one when it was asked."""

    record_id: int
    hash: str


def chained(previous: str, text: str) -> str:
    """The hash of a record, from the hash before it."""
    return hashlib.sha256((previous + text).encode()).hexdigest()


def line_of(text: str, previous: str, hash_: str) -> str:
    """A record as a line of the file, without its end."""
    return f'{text[:-1]},"prev":"{previous}","hash":"{hash_}"}}'


def link_of(line: str, place: str = "") -> Link | None:
    """The reverse of `line_of`; None for what is no such line."""
    tail = _TAIL.search(line)
    if tail is None:
        return None
    text = line[: tail.start()] + "}"
    record_id = id_of(text)
    return None if record_id is None else Link(record_id, text, tail[2], tail[1], place)


def id_of(text: str) -> int | None:
    """The number of a record, None for what is none."""
    try:
        record_id = json.loads(text)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record_id if isinstance(record_id, int) else None


class Checker:
    """Takes links in the order of the copy. `ids`: those that the copy has, to tell what is missing from what is misplaced."""

    def __init__(self, ids: Collection[int], before: str = "") -> None:
        """`before`: the hash of the record before the first one, if that is known."""
        self._ids = ids
        self._hash = before
        self.first_id = self.last_id = 0

    def take(self, link: Link) -> str | None:
        """What is wrong with this one, None if nothing is."""
        here = f"record {link.record_id}" + (f" ({link.place})" if link.place else "")
        if not self.last_id:
            self.first_id = link.record_id
            if link.record_id == 1 and not self._hash:
                self._hash = GENESIS
            self._hash = self._hash or link.previous
        elif (wrong := self._misplaced(link, here)) is not None:
            return wrong
        if link.hash != chained(link.previous or self._hash, link.text):
            return f"{here} was changed: its hash does not fit what it says"
        if link.previous and link.previous != self._hash:
            return f"{here} does not follow the one before it: one of the two was replaced"
        self._hash, self.last_id = link.hash, link.record_id
        return None

    def _misplaced(self, link: Link, here: str) -> str | None:
        expected = self.last_id + 1
        if link.record_id == expected:
            return None
        if link.record_id < expected:
            return f"{here} stands twice, or in the wrong order: it comes after record {self.last_id}"
        if expected in self._ids:
            return f"{here} stands in the wrong order: after record {self.last_id} comes {expected}"
        last = link.record_id - 1
        missing = f"record {expected} is" if last == expected else f"records {expected} to {last} are"
        return f"{missing} missing: after record {self.last_id} comes {here}"

    def end(self, head: Head) -> str | None:
        """What is wrong with the end of the copy. `head` was asked for before the copy was read."""
        if head.record_id > self.last_id:
            return missing_end(self.last_id, head.record_id)
        if head.record_id == self.last_id and head.hash != self._hash:
            return f"record {self.last_id} is not the one that the controller has written: the chain was made anew"
        return None


def missing_end(last_id: int, head_id: int) -> str:
    """A copy ends with one record, the log with another one."""
    if head_id == last_id + 1:
        return f"record {head_id} is {MISSING_END}"
    return f"records {last_id + 1} to {head_id} are {MISSING_END}"


def check(links: Iterable[Link], ids: Collection[int], head: Head | None = None, before: str = "") -> str | None:
    """The first thing that is wrong with a copy, None if nothing is."""
    checker = Checker(ids, before)
    for link in links:
        if (wrong := checker.take(link)) is not None:
            return wrong
    return checker.end(head) if head is not None else None
