"""Batch scripts for sbatch: reads them, refuses those that cannot run, finds the #SBATCH lines. A script is bytes and
is submitted unchanged. It is checked here and again by the controller.

Directives, by Slurm's rules: a line that begins with `#SBATCH` (in column one, in capitals) holds options;
the search ends at the first line that is neither blank nor a comment. Words are split at blanks; quotes (of both kinds)
protect blanks and `#`; a backslash makes the next character literal, inside quotes too; an unescaped `#` ends the
directive. A directive that cannot be parsed, or has an unknown option, ends sbatch with status 255, and the message has
its line.

The lines of other systems (#PBS, #BSUB) are found here, by the same rules; cli/jobs/foreign.py translates them.
"""

import errno
import os
import sys
from typing import NamedTuple

from cli.base.options import STATUS_WRONG_LINE
from cli.base.run import CommandError, need_own_process
from penstock.boundedfile import read_all, read_bounded

#: The controller's default limits; it checks again with its own (config.max_script_bytes).
SCRIPT_BYTES_MAX = 4 * 1024 * 1024
MARK = b"#SBATCH"
COMPONENT_WORDS = ("hetjob", "packjob")

NOT_A_SCRIPT = (
    "This does not look like a batch script.  The first\n"
    "line must start with #! followed by the path to an interpreter.\n"
    "For instance: #!/bin/sh"
)
DOS_LINES = "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n)."
TOO_LARGE = f"Batch script too large: the limit is {SCRIPT_BYTES_MAX} bytes"
NULL_BYTE = "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'."


class Directive(NamedTuple):
    """The words of one #SBATCH line and its position."""

    line: int
    words: list[str]

    def is_separator(self) -> bool:
        """Whether it is `#SBATCH hetjob`: the lines after it belong to the next component."""
        return bool(self.words) and self.words[0] in COMPONENT_WORDS


class Script(NamedTuple):
    """A script and its source. `path` is "" for stdin and --wrap."""

    data: bytes
    path: str
    default_name: str


def from_wrap(command: str) -> Script:
    """The script that runs the command of --wrap."""
    head = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"
    data = head + os.fsencode(command) + b"\n"
    return Script(check(data), "", "wrap")


def from_stdin() -> Script:
    """Reads the script from standard input, unchecked but for its size."""
    if sys.stdin.isatty():
        need_own_process()
    try:
        data = read_all(sys.stdin.buffer, SCRIPT_BYTES_MAX)
    except OSError as error:
        raise _unread("standard input", error) from error
    return Script(data, "", "sbatch")


def from_file(name: str) -> Script:
    """Reads a script's file, unchecked but for its size: at the given path, else, for a bare name, the first readable one in
    PATH."""
    path = _find(name)
    try:
        data = read_bounded(path, SCRIPT_BYTES_MAX)
    except OSError as error:
        raise _unread(name, error) from error
    return Script(data, os.path.abspath(path), os.path.basename(path))


def _unread(name: str, error: OSError) -> CommandError:
    """The refusal of a script that cannot be read, in Slurm's words where it has some."""
    if error.errno == errno.EFBIG:
        return CommandError(TOO_LARGE, detail=f"{name} is larger")
    if error.errno == errno.EISDIR:
        return CommandError("Batch script is empty!", detail=f"{name} is a folder")
    return CommandError(f"Unable to open file {name}", detail=f"{name}: {error.strerror}")


def check(data: bytes) -> bytes:
    """Checks a batch script. Raises CommandError in Slurm's words."""
    if len(data) > SCRIPT_BYTES_MAX:
        raise CommandError(TOO_LARGE)
    if not data:
        raise CommandError("Batch script is empty!")
    if not data.strip():
        raise CommandError("Batch script contains only whitespace!")
    if not data.startswith(b"#!"):
        raise CommandError(NOT_A_SCRIPT)
    position = data.find(b"\0")
    if position >= 0:
        line = data.count(b"\n", 0, position) + 1
        raise CommandError(f"{NULL_BYTE}\nThe first one is byte {position + 1}, in line {line}.")
    if b"\r\n" in data:
        raise CommandError(DOS_LINES)
    return data


def directives(data: bytes, where: str = "the batch script", mark: bytes = MARK) -> list[Directive]:
    """The #SBATCH lines (or those of another mark) of the script that errors call `where`, split into words."""
    found = []
    for number, line in head_lines(data):
        if line.startswith(mark):
            place = f"line {number} of {where}"
            words = split_words(os.fsdecode(line[len(mark) :]), place)
            found.append(Directive(number, words))
    return found


def split_words(text: str, place: str) -> list[str]:
    """Splits a directive's text by the rules above; `place` is its position, for errors."""
    words: list[list[str]] = []
    inside = False  # a word is open; '' opens one too
    quote, escaped = "", False
    for char in text:
        if not (inside or quote or escaped):
            if char.isspace():
                continue
            if char == "#":
                break
            words.append([])
            inside = True
        if escaped:
            words[-1].append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == quote:
            quote = ""
        elif quote:
            words[-1].append(char)
        elif char in "\"'":
            quote = char
        elif char == "#":
            break
        elif char.isspace():
            inside = False
        else:
            words[-1].append(char)
    if quote:
        raise CommandError(f"{place}: Unmatched `{quote}` in [{text.strip()}]", STATUS_WRONG_LINE)
    return ["".join(word) for word in words]


def head_lines(data: bytes) -> list[tuple[int, bytes]]:
    """The lines up to the first command, numbered from 1."""
    lines = []
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end]
        number = number + 1
        start = end + 1
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
        lines.append((number, line))
    return lines


def _find(name: str) -> str:
    if "/" in name or os.path.exists(name):
        return name
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return name
