"""The input of the rules of `sbatch --lint`: the script's lines, its directives read one by one, and the resources they
ask for.

A script with errors is parsed as far as possible: each directive by itself, so that an invalid one does not hide the
others.
"""

import difflib
import os
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from cli.base.options import ACCEPTED, DONE, Command, Option, OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.jobwords import gres, listed_gres
from cli.jobs.script import MARK, head_lines, split_words

#: Rules about what sbatch refuses, or cannot run.
ERRORS = frozenset(("no-interpreter", "dos-lines", "null-byte", "bad-option", "stray-word", "refused"))
#: Options whose values are looked up (a file, users) or written out (65,536 nodes of a few letters).
LOOKED_UP = frozenset(("nodefile", "uid", "gid", "nodelist", "exclude"))


class Finding(NamedTuple):
    """One probable mistake. `line` 0 = the whole script; `column` from 1, in characters, 0 = not known. `fix` says what to
    write or do.
    """

    line: int
    rule: str
    text: str
    fix: str
    column: int = 0

    @property
    def severity(self) -> str:
        """error: the script is refused or cannot run; warning: it does something else than was meant."""
        return "error" if self.rule in ERRORS else "warning"


class ScriptLine(NamedTuple):
    """One line of the script."""

    number: int
    text: str


class ScriptHead(NamedTuple):
    """One directive, parsed by itself."""

    number: int
    text: str  # after the mark
    words: list[str]
    values: OptionValues
    stray: list[str]  # words that are not options
    error: str  # the error with which sbatch would refuse it

    def column_of(self, word: str) -> int:
        """The column of a word as it is written; 0 = it is written otherwise, in quotes."""
        at = self.text.find(word)
        return 0 if at < 0 else self.column_at(at)

    def column_at(self, at: int) -> int:
        """The column of an index of `text`."""
        return len(MARK) + at + 1


class MeantHead(NamedTuple):
    """A line that only looks like a directive, and the options on it."""

    number: int
    text: str  # of the line
    options: str
    values: OptionValues


class LintScript(NamedTuple):
    """A script as input of the rules."""

    data: bytes
    command: Command
    head: list[ScriptLine]  # up to the first command
    directives: list[ScriptHead]
    meant: list[MeantHead]
    late_directives: list[ScriptLine]
    first_command: int  # its line, 0 = none
    commands: list[tuple[int, list[str]]]  # of the body, by line, continued lines joined
    outside: OptionValues  # environment and command line, which override the directives

    def values(self) -> OptionValues:
        """The requested values, as far as they can be parsed."""
        found = OptionValues()
        for directive in self.directives:
            found |= directive.values
        return self.outside.over(found)

    def line_of(self, *keys: str) -> int:
        """The line of the directive that decides an option; 0 = it is not in the script."""
        lines = [d.number for d in self.directives if any(key in d.values for key in keys)]
        return 0 if any(key in self.outside for key in keys) or not lines else lines[-1]


@lru_cache(maxsize=8)
def without_lookups(command: Command) -> Command:
    """The same options, for a script of another user: reading it opens no file, makes no call, writes nothing, and takes
    a time that grows with its length alone. Values that would be looked up are taken as they are.
    """
    return command._replace(options=tuple(_as_text(option) for option in command.options))


def _as_text(option: Option) -> Option:
    status = DONE if option.status == ACCEPTED else option.status  # parse() warns of the other
    convert = listed_gres if option.convert is gres else None if option.name in LOOKED_UP else option.convert
    return option._replace(status=status, convert=convert)


#: The most letters in which a misspelt SBATCH may differ.
MISSPELT_LETTERS = 3
_COMMENT_WORD = re.compile(r"\s*#\s*([A-Za-z_]+):?\s*(-.*)$")


def meant_options(line: ScriptLine, command: Command) -> str | None:
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
    """The number of letters to change, add or remove (Levenshtein)."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        before = row[0]
        row[0] = i
        for j, b in enumerate(right, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def read(data: bytes, command: Command, outside: OptionValues) -> LintScript:
    """Parses a script."""
    head = [ScriptLine(number, os.fsdecode(text)) for number, text in head_lines(data)]
    lines = [os.fsdecode(text) for text in data.split(b"\n")]
    first = len(head) + 1 if len(head) < len(lines) - (lines[-1] == "") else 0
    body = list(enumerate(lines[len(head) :], start=len(head) + 1))
    mark = MARK.decode()
    late = [ScriptLine(number, text) for number, text in body if text.startswith(mark)]
    directives = [
        read_directive(line.number, line.text[len(mark) :], command) for line in head if line.text.startswith(mark)
    ]
    meant = list(_meant(head, command))
    return LintScript(data, command, head, directives, meant, late, first, list(_commands(body)), outside)


def _meant(head: list[ScriptLine], command: Command) -> Iterator[MeantHead]:
    for line in head:
        options = meant_options(line, command)
        if options is not None:
            yield MeantHead(line.number, line.text, options, read_directive(line.number, options, command).values)


def read_directive(number: int, text: str, command: Command) -> ScriptHead:
    """Parses one directive by itself."""
    words: list[str] = []
    try:
        words = split_words(text, f"line {number}")
        if words[:1] in (["hetjob"], ["packjob"]):
            return ScriptHead(number, text, words, OptionValues(), [], "")
        line = parse(command, words)
        return ScriptHead(number, text, words, line.values, line.positional, "")
    except RemoteAnswer:
        return ScriptHead(number, text, words, OptionValues(), [], "")
    except CommandError as error:
        return ScriptHead(
            number, text, words, OptionValues(), [], f"{error.text}: {error.detail}" if error.detail else error.text
        )


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
    """Splits a line as a shell would, as far as possible without one."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that ends on another line
        return text.split()
