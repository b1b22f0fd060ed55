"""Parses the file of --multi-prog: which ranks run which program.

    # ranks      program and arguments
    0            master "in put" %t
    1,3-5        worker --offset=%o
    *            true

Words are split as a shell does it with quotes and backslashes, without any expansion; `%t` is the task's rank and `%o`
its position in the line's list: the nodes expand these. A line that ends in a backslash continues on the next. The
first line that names a rank applies, `*` matches all ranks that no line above names; every rank must have a program.
"""

from typing import NamedTuple

from cli.base.run import CommandError
from penstock.boundedfile import read_bounded
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.text import shown

FILE_BYTES_MAX = 1024 * 1024
RANK_MAX = 1_000_000
RANKS_OF_ALL = "*"


class RankProgram(NamedTuple):
    """One line: its ranks as written, and the words."""

    ranks: str
    argv: list[str]
    line: int


def read_config(path: str) -> list[RankProgram]:
    """The file's lines. CommandError names the line."""
    try:
        data = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise CommandError(f"Could not open multi_prog config file {path}: {error.strerror}") from error
    return parse_config(data.decode("utf-8", "surrogateescape"), path)


def parse_config(text: str, path: str) -> list[RankProgram]:
    """The same of a text."""
    programs: list[RankProgram] = []
    held, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        words = _words(held + line, path, first)
        if len(words) == 1:
            raise CommandError(f"{path}: line {first}: no program for ranks {shown(words[0])}")
        if words:
            _check_ranks(words[0], path, first)
            programs.append(RankProgram(words[0], words[1:], first))
        held, first = "", 0
    if held:
        raise CommandError(f"{path}: line {first}: the last line ends in a backslash")
    if not programs:
        raise CommandError(f"{path}: no programs in it")
    return programs


def tasks_of(programs: list[RankProgram], ntasks: int, path: str) -> None:
    """Checks that every rank has a program, and that no line names a rank that does not exist."""
    covered: set[int] = set()
    for program in programs:
        if program.ranks == RANKS_OF_ALL:
            return
        ranks = list(_ranks(program.ranks))
        if ranks and max(ranks) >= ntasks:
            text = f"rank {max(ranks)} is more than {ntasks - 1}, the last of {ntasks} tasks"
            raise CommandError(f"{path}: line {program.line}: {text}")
        covered.update(ranks)
    missing = [rank for rank in range(ntasks) if rank not in covered]
    if missing:
        raise CommandError(f"Configuration file {path} invalid, no record for task id {missing[0]}")


def _check_ranks(text: str, path: str, line: int) -> None:
    try:
        if text != RANKS_OF_ALL:
            _ranks(text)
    except BadValue as error:
        raise CommandError(f"{path}: line {line}: {error}") from error


def _ranks(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first = parse_int(low, 0, RANK_MAX, "rank")
        found += range(first, (parse_int(high, first, RANK_MAX, "rank") if dash else first) + 1)
    return found


def _words(line: str, path: str, number: int) -> list[str]:
    import shlex

    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError as error:
        raise CommandError(f"{path}: line {number}: {error}") from error
