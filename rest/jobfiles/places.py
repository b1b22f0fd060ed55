"""Where members stand in a text. Pure.

places = toml_places('[job]\nname = "a"\n')
place_of("#/job/name", places)      # FilePlace(2, 1)

A place is that of the member's name, or of an item of a list; lines and columns begin with 1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

#: Names from the root to a member; items of lists by their number.
MemberPath: TypeAlias = tuple[str, ...]


class FilePlace(NamedTuple):
    """A line and a column."""

    line: int
    column: int


FilePlaces: TypeAlias = Mapping[MemberPath, FilePlace]

_KEY: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.|=|\])""")
#: A text over several lines: from its three quotes to the next three.
_LONG: Final = re.compile(r'"""(?:[^\\]|\\.)*?"""|' + r"'''.*?'''", re.DOTALL)


def path_of(source: str) -> MemberPath:
    """The path of a source as in answers of REST: #/jobs/0/name."""
    return tuple(source.split("/")[1:])


def place_of(source: str, places: FilePlaces) -> FilePlace | None:
    """The place of a member, or of the nearest one above it; None = of none."""
    path = path_of(source)
    return next((places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in places), None)


def toml_places(text: str) -> dict[MemberPath, FilePlace]:
    """The places of tables and of the keys at the begin of a line. The text is known to be TOML, so that what looks like a
    key there is one; keys of inline tables have the place of the table.
    """
    found: dict[MemberPath, FilePlace] = {}
    tables: dict[MemberPath, int] = {}  # arrays of tables: how many there are
    table: MemberPath = ()
    depth = 0  # of brackets that are open over lines
    for number, line in enumerate(_LONG.sub(_blank, text).split("\n"), 1):
        plain = line.lstrip()
        column = len(line) - len(plain) + 1
        if not depth and plain.startswith("[["):
            name = _numbered(tuple(_names(plain[2:])), tables)
            tables[name] = tables.get(name, -1) + 1
            table = (*name, str(tables[name]))
            found[table] = FilePlace(number, column)
            found.setdefault(name, FilePlace(number, column))
        elif not depth and plain.startswith("["):
            table = _numbered(tuple(_names(plain[1:])), tables)
            found[table] = FilePlace(number, column)
        else:
            names = tuple(_names(plain)) if not depth else ()
            for end in range(1, len(names) + 1):
                found.setdefault((*table, *names[:end]), FilePlace(number, column))
            depth += _opened(plain)
    return found


def _blank(match: re.Match[str]) -> str:
    return '""' + "\n" * match[0].count("\n")


def _names(text: str) -> Iterator[str]:
    """The names of a dotted key at the begin of a text."""
    at = 0
    while (match := _KEY.match(text, at)) is not None:
        yield match[1].strip("\"'")
        at = match.end()
        if match[2] != ".":
            return


def _numbered(name: MemberPath, tables: Mapping[MemberPath, int]) -> MemberPath:
    """[jobs.rlimits] after [[jobs]] is in the last of them."""
    full: MemberPath = ()
    for at, part in enumerate(name):
        full = (*full, part)
        if at < len(name) - 1 and full in tables:
            full = (*full, str(tables[full]))
    return full


def _opened(line: str) -> int:
    """How many brackets a line leaves open."""
    bare = re.sub(r""""(?:[^"\\]|\\.)*"|'[^']*'|\#.*""", "", line)
    return sum(bare.count(one) for one in "[{") - sum(bare.count(one) for one in "]}")
