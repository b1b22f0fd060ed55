r"""The grammar of `slurm.conf` and `gres.conf`: parses files into statements of `Key=Value` tokens.

The comment of a physical line (`#` to the end; `\#` is a literal `#`) is removed, then a line that ends in `\` is
joined with the next one. The result is a statement: one or more `Key=Value`, spaces allowed around `=`, the value bare
or in double quotes. A `#` begins a comment inside quotes, too, as in Slurm. `Include FILE` stands alone on its line; a
relative name is searched beside the including file, then in the folder of the main file, and `%c` in it is the
cluster's name if ClusterName precedes it.

Each token has the number of its physical line. The meaning of keys is not known here. Files that a crash has truncated
(NUL bytes, an open quote, a key without value, an end within a continued line) are problems; a last line without
newline is only a warning, because some editors write that.
"""

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.boundedfile import read_bounded
from penstock.config.problem import Findings, Where

#: Large enough for any site's node list; limits the memory that a wrong file, such as a log, takes.
FILE_BYTES_MAX = 8 * 1024 * 1024

#: Files of one configuration, including included ones. Sites include one file per rack or per partition.
FILES_MAX = 256

#: Maximum nesting of `Include`. Configurations use one or two levels.
INCLUDE_DEPTH_MAX = 10

_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.]*)\s*([-+*/]?)=", re.ASCII)
_VALUE = re.compile(r'([ \t]*)(?:"([^"]*)"|([^\s"]\S*))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(.*\S)\s*$", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_BEFORE_COMMENT = re.compile(r"(?:[^#\\]+|\\.?)*")
_BLANK = re.compile(r"\s*\Z")
_ESCAPE = re.compile(r"\\(.?)")
_TRAILING_ESCAPES = re.compile(r"(\\*)[ \t\r]*$")


@dataclass(frozen=True, slots=True)
class Token:
    """One `Key=Value` and its position."""

    key: str
    value: str
    where: Where


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of one logical line, at least one."""

    tokens: tuple[Token, ...]

    @property
    def where(self) -> Where:
        """The position of the line."""
        return self.tokens[0].where


def read_statements(path: str, findings: Findings) -> tuple[list[Statement], tuple[str, ...]]:
    """Returns the statements of a file and of those that it includes, and the names of the files read."""
    reader = _Reader(os.path.dirname(path), findings)
    statements = list(reader.read(path, Where(path, 0), ()))
    return statements, tuple(reader.files)


class _Reader:
    """One load of a tree of files."""

    def __init__(self, folder: str, findings: Findings) -> None:
        self.folder = folder
        self.findings = findings
        self.files: list[str] = []
        self.cluster_name = ""

    def read(self, path: str, named_at: Where, open_files: tuple[str, ...]) -> Iterator[Statement]:
        """Reads the statements of one file. A failure is reported at `named_at`, the line that names the file."""
        real = os.path.realpath(path)
        if real in open_files:
            self.findings.error(named_at, f"Include of {path}: the file includes itself")
        elif len(open_files) >= INCLUDE_DEPTH_MAX:
            self.findings.error(named_at, f"Include of {path}: more than {INCLUDE_DEPTH_MAX} levels deep")
        elif len(self.files) >= FILES_MAX:
            self.findings.error(named_at, f"Include of {path}: more than {FILES_MAX} files")
        elif (data := self._bytes(path, named_at)) is not None:
            self.files.append(path)
            for text, lines in _logical_lines(path, data, self.findings):
                yield from self._statement(path, text, lines, (*open_files, real))

    def _bytes(self, path: str, named_at: Where) -> bytes | None:
        """Returns the content of the file, or None after reporting a problem."""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                self.findings.error(named_at, f"cannot read {path}: not a plain file")
                return None
            data = read_bounded(path, FILE_BYTES_MAX)
        except OSError as problem:
            self.findings.error(named_at, f"cannot read {path}: {problem.strerror or problem}")
            return None
        return data.removeprefix(b"\xef\xbb\xbf")

    def _statement(self, path: str, text: str, lines: "_Lines", open_files: tuple[str, ...]) -> Iterator[Statement]:
        """Yields the statement of one logical line, or those of the file that it includes."""
        if include := _INCLUDE.match(text):
            where = lines.where(path, 0)
            name = self._included_name(include[1].strip('"'), where)
            if name:
                yield from self.read(self._found(name, path), where, open_files)
            return
        tokens = tuple(_tokens(path, text, lines, self.findings))
        for token in tokens:
            if token.key.lower() == "clustername":
                self.cluster_name = token.value
        if tokens:
            yield Statement(tokens)

    def _found(self, name: str, including: str) -> str:
        """Returns the path beside the including file if it exists, else beside the main file."""
        beside = os.path.join(os.path.dirname(including), name)
        main = os.path.join(self.folder, name)
        return beside if beside != main and os.path.lexists(beside) else main

    def _included_name(self, name: str, where: Where) -> str:
        """Returns the file's name with `%c` replaced; "" after reporting a problem."""
        if "%c" not in name:
            return name
        if not self.cluster_name:
            self.findings.error(where, f"Include of {name}: %c is used before ClusterName")
            return ""
        return name.replace("%c", self.cluster_name)


class _Lines:
    """Maps a position in a logical line to its physical line."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.numbers: list[int] = []

    def add(self, start: int, number: int) -> None:
        self.starts.append(start)
        self.numbers.append(number)

    def where(self, path: str, position: int) -> Where:
        return Where(path, self.numbers[max(0, bisect_right(self.starts, position) - 1)])


def _logical_lines(path: str, data: bytes, findings: Findings) -> Iterator[tuple[str, _Lines]]:
    """Yields logical lines: without comments, joined, unescaped; empty lines are skipped."""
    if data and not data.endswith(b"\n"):
        findings.warn(
            Where(path, data.count(b"\n") + 1), "the last line does not end in a newline; was the file written fully?"
        )
    text = ""
    lines = _Lines()
    continued = False
    for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
        piece = _decode(raw.removesuffix(b"\r"), Where(path, number), findings)
        piece, continued = _strip_continuation(_strip_comment(piece))
        lines.add(len(text), number)
        text += _ESCAPE.sub(r"\1", piece)
        if continued:
            continue
        if text.strip():
            yield text, lines
        text, lines = "", _Lines()
    if continued:
        number = data.removesuffix(b"\n").count(b"\n") + 1
        findings.error(Where(path, number), "the file ends in the middle of a continued line; was it written fully?")


def _decode(raw: bytes, where: Where, findings: Findings) -> str:
    """Decodes the line; returns "" after reporting a problem. Older files are in Latin-1, which can decode any bytes."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        text = raw.decode("latin-1")
        if problem.start < len(_strip_comment(text)):
            findings.warn(where, f"byte {problem.start + 1} is not UTF-8 text; the line is read as Latin-1")
        elif _CONTROL.search(text):
            return _strip_comment(text)
    if control := _CONTROL.search(text):
        findings.error(where, f"control character U+{ord(control[0]):04X} at column {control.start() + 1}")
        return ""
    return text


def _strip_comment(text: str) -> str:
    r"""Returns the text before the first `#` that is not preceded by an odd number of `\`."""
    match = _BEFORE_COMMENT.match(text)
    return match[0] if match else ""


def _strip_continuation(text: str) -> tuple[str, bool]:
    r"""Returns the line without its final `\`, and whether there was one."""
    match = _TRAILING_ESCAPES.search(text)
    if match is None or len(match[1]) % 2 == 0:
        return text, False
    return text[: match.end(1) - 1], True


def _tokens(path: str, text: str, lines: _Lines, findings: Findings) -> Iterator[Token]:
    """Yields the line's tokens up to the first mistake."""
    position = 0
    while not _BLANK.match(text, position):
        key = _KEY.match(text, position)
        if key is None:
            word = text[position:].split(maxsplit=1)[0]
            where = lines.where(path, text.index(word, position))
            findings.error(where, f"expected Key=Value, found {_short(word)}")
            return
        where = lines.where(path, key.start(1))
        value = _VALUE.match(text, key.end())
        problem = _value_problem(key, value, text)
        if problem or value is None:
            findings.error(where, f"{key[1]}: {problem}")
            return
        yield Token(key[1], value[2] if value[2] is not None else value[3], where)
        position = value.end()


def _value_problem(key: re.Match[str], value: re.Match[str] | None, text: str) -> str:
    """Returns why a token is invalid; "" if it is valid."""
    if key[2]:
        return f"the operator {key[2]}= is not supported here; use ="
    if value is None:
        if text[key.end() :].lstrip().startswith('"'):
            return r"a quoted value must end in a quote followed by a space (a # inside it is written \#)"
        return "has no value"
    if value[1] and value[3] is not None and _KEY.match(value[3]):
        return f"has no value (or remove the space before {_short(value[3])})"
    return ""


def _short(word: str) -> str:
    """Truncates a word for a message."""
    return repr(word if len(word) <= 40 else word[:37] + "...")
