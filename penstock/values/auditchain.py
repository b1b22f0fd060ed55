"""The hash chain of the audit log: hashes records, formats and parses lines of the file, and verifies copies. Pure.

The hash of a record is SHA-256 over the previous hash and the record's text, both as text. A line of the file is the
record, a JSON object, with two more members at its end, `prev` and `hash`. A line can therefore be verified by itself,
and read with `jq`.

Verification detects a record that was changed, inserted, removed, duplicated or reordered. It detects an end that was
truncated or rewritten if the end of the controller's chain is known.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

#: The hash before the first record.
GENESIS: Final = "0" * 64
MISSING_END: Final = "missing at the end"
_TAIL: Final = re.compile(r',"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}\Z')


class ChainLink(NamedTuple):
    """One record of a copy. `previous` is "" if the copy does not contain it."""

    record_id: int
    text: str
    hash: str
    previous: str = ""
    place: str = ""  # for messages, as in "line 7"


class Head(NamedTuple):
    """The last record that the controller has written, as it reported it."""

    record_id: int
    hash: str


def chained(previous: str, text: str) -> str:
    """Returns the hash of a record, chained to the previous hash."""
    return hashlib.sha256((previous + text).encode()).hexdigest()


def line_of(text: str, previous: str, hash_: str) -> str:
    """Formats a record as a line of the file, without the line break."""
    return f'{text[:-1]},"prev":"{previous}","hash":"{hash_}"}}'


def link_of(line: str, place: str = "") -> ChainLink | None:
    """Parses a line that `line_of` formatted; returns None if it is not one."""
    tail = _TAIL.search(line)
    if tail is None:
        return None
    text = line[: tail.start()] + "}"
    record_id = id_of(text)
    return None if record_id is None else ChainLink(record_id, text, tail[2], tail[1], place)


def id_of(text: str) -> int | None:
    """Returns the number of a record, or None if `text` is not a record."""
    try:
        record_id = json.loads(text)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record_id if isinstance(record_id, int) else None


class Checker:
    """Verifies links in the order of the copy. `ids` holds all record numbers of the copy: it distinguishes missing
    records from misplaced ones.
    """

    def __init__(self, ids: Collection[int], before: str = "") -> None:
        """`before`: the hash of the record before the first one, if known."""
        self._ids = ids
        self._hash = before
        self.first_id = 0
        self.last_id = 0

    def take(self, link: ChainLink) -> str | None:
        """Verifies the next link; returns a description of the error, or None."""
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
        self._hash = link.hash
        self.last_id = link.record_id
        return None

    def _misplaced(self, link: ChainLink, here: str) -> str | None:
        expected = self.last_id + 1
        if link.record_id == expected:
            return None
        if link.record_id < expected:
            return f"{here} is repeated, or out of order: it comes after record {self.last_id}"
        if expected in self._ids:
            return f"{here} is out of order: after record {self.last_id} comes {expected}"
        last = link.record_id - 1
        missing = f"record {expected} is" if last == expected else f"records {expected} to {last} are"
        return f"{missing} missing: after record {self.last_id} comes {here}"

    def end(self, head: Head) -> str | None:
        """Verifies the end of the copy; returns a description of the error, or None. `head` must have been read before
        the copy.
        """
        if head.record_id > self.last_id:
            return missing_end(self.last_id, head.record_id)
        if head.record_id == self.last_id and head.hash != self._hash:
            return f"record {self.last_id} is not the one that the controller has written: the chain was rebuilt"
        return None


def missing_end(last_id: int, head_id: int) -> str:
    """Describes a copy that ends with record `last_id` while the log ends with record `head_id`."""
    if head_id == last_id + 1:
        return f"record {head_id} is {MISSING_END}"
    return f"records {last_id + 1} to {head_id} are {MISSING_END}"


def check(links: Iterable[ChainLink], ids: Collection[int], head: Head | None = None, before: str = "") -> str | None:
    """Verifies a copy; returns a description of the first error, or None."""
    checker = Checker(ids, before)
    for link in links:
        if (wrong := checker.take(link)) is not None:
            return wrong
    return checker.end(head) if head is not None else None
