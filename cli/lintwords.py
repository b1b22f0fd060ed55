"""What `sbatch --lint` knows of a script: its lines, its directives read one by one, and what they ask for.

A script with mistakes is read as far as it can be: each directive by itself, so that one that is refused hides nothing
of the others.
"""

import difflib
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from cli.options import Command, parse
from cli.run import Answered, CommandError
from cli.script import MARK, head_lines, split_words


class Finding(NamedTuple):
    """One thing that is probably not meant. `line` 0 = the whole script. `fix` says what to write or do."""

    line: int
    rule: str
    text: str
    fix: str


class Line(NamedTuple):
    """One line of the script."""

    number: int
    text: str


class Head(NamedTuple):
    """One directive, read by itself."""

    number: int
    text: str  # behind the mark
    words: list[str]
    values: dict[str, Any]
    stray: list[str]  # words that are no options
    error: str  # why sbatch would refuse it


class Script(NamedTuple):
    """A script as the rules see it."""

    data: bytes
    command: Command
    head: list[Line]  # up to the first command
    directives: list[Head]
    late_directives: list[Line]
    first_command: int  # its line, 0 = there is none
    commands: list[tuple[int, list[str]]]  # of the body, by line, continued lines joined
    outside: dict[str, Any]  # environment and command line, which stand above the directives

    def values(self) -> dict[str, Any]:
        """What is asked for, as far as it can be read."""
        found: dict[str, Any] = {}
        for directive in self.directives:
            found |= directive.values
        return found | self.outside

    def line_of(self, *keys: str) -> int:
        """The line of the directive that decides an option; 0 = it is not in the script."""
        lines = [d.number for d in self.directives if any(key in d.values for key in keys)]
        return 0 if any(key in self.outside for key in keys) or not lines else lines[-1]


#: Letters in which a misspelt SBATCH may differ from the word.
MISSPELT_LETTERS = 3
_COMMENT_WORD = re.compile(r"\s*#\s*([A-Za-z_]+):?\s*(-.*)$")


def meant_options(line: Line, command: Command) -> str | None:
    """The options on a line that only looks like a directive; None where it is a comment or a directive."""
    match = _COMMENT_WORD.match(line.text)
    if match is None or line.text.startswith(MARK.decode()):
        return None
    word, options = match[1], match[2].rstrip()
    if word[0] not in "sSbB" or _distance(word.upper(), "SBATCH") > MISSPELT_LETTERS:
        return None
    name = options.lstrip("-").replace("=", " ").split(" ")[0]
    if options.startswith("--"):
        names = [o.name for o in command.options]
        known = bool(name) and any(o.startswith(name) for o in names)
        return options if known or difflib.get_close_matches(name, names, 1, 0.8) else None
    return options if options[1:2] in {o.short for o in command.options if o.short} else None


def _distance(left: str, right: str) -> int:
    """How many letters must be changed, added or left out (Levenshtein)."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def read(data: bytes, command: Command, outside: dict[str, Any]) -> Script:
    """Take a script apart."""
    head = [Line(number, os.fsdecode(text)) for number, text in head_lines(data)]
    lines = [os.fsdecode(text) for text in data.split(b"\n")]
    first = len(head) + 1 if len(head) < len(lines) - (lines[-1] == "") else 0
    body = list(enumerate(lines[len(head) :], start=len(head) + 1))
    mark = MARK.decode()
    late = [Line(number, text) for number, text in body if text.startswith(mark)]
    directives = [
        read_directive(line.number, line.text[len(mark) :], command) for line in head if line.text.startswith(mark)
    ]
    return Script(data, command, head, directives, late, first, list(_commands(body)), outside)


def read_directive(number: int, text: str, command: Command) -> Head:
    """One directive by itself."""
    words: list[str] = []
    try:
        words = split_words(text, f"line {number}")
        if words[:1] in (["hetjob"], ["packjob"]):
            return Head(number, text, words, {}, [], "")
        line = parse(command, words)
        return Head(number, text, words, line.values, line.positional, "")
    except Answered:
        return Head(number, text, words, {}, [], "")
    except CommandError as error:
        return Head(number, text, words, {}, [], f"{error.text}: {error.detail}" if error.detail else error.text)


def _commands(body: list[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    joined, start = "", 0
    for number, text in body:
        start = start or number
        if text.endswith("\\"):
            joined += text[:-1] + " "
            continue
        words = _words(joined + text)
        if words:
            yield start, words
        joined, start = "", 0
    if joined:
        yield start, _words(joined)


def _words(text: str) -> list[str]:
    """As a shell would split it, as far as that is to be had without one."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that is closed on another line
        return text.split()
