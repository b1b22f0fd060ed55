"""sacctmgr without a keyword: a line at a time, with the same keywords as on the command line.

`exit`, `quit`, `\\q` and the end of the input end it; `!!` does the last line once more; `quiet`, `verbose`,
`readonly`, `oneliner`, `parsable`, `parsable2`, `noheader`, `immediate` and `associations` switch what the options of
these names switch on. A line that fails is told and the next one is read; the status in the end is 1 when one of them
failed. Words may stand in quotes.

A terminal has line editing. From a file or a pipe bytes are read one by one: the answer to a question is the line
behind it.
"""

import os
import shlex
import sys
from typing import Any

from cli.run import CommandError, complain, need_own_process, status_of
from cli.sacctmgr import NAME, do, find_keyword

PROMPT = f"{NAME}: "
#: Characters of a line. No keyword needs more, and a file that is no list of keywords is noticed.
LINE_MAX = 1 << 20
_SWITCHES = (
    "associations",
    "immediate",
    "noheader",
    "oneliner",
    "parsable",
    "parsable2",
    "quiet",
    "readonly",
    "verbose",
)
_LEAST_SWITCH = 2


def read_lines(options: dict[str, Any]) -> int:
    """Until the end; the status."""
    need_own_process()
    last, status = "", 0
    if sys.stdin is not None and sys.stdin.isatty():
        import readline  # noqa: F401 (lines can be edited and come back)
    while True:
        line = _next_line()
        if line is None:
            print()  # noqa: T201
            return status
        if line == "!!":
            if not last:
                complain(NAME, "no input", plain=True)
            line = last
        if not line or line.startswith("#"):
            continue
        if _ends(line):
            return status
        last = line
        status = _do(line, options) or status


def _next_line() -> str | None:
    if sys.stdin is None:
        return None
    try:
        if sys.stdin.isatty():
            return input(PROMPT).strip()
        print(PROMPT, end="", flush=True)  # noqa: T201
        text = _bytes_of_line()
    except EOFError:
        return None
    if len(text) > LINE_MAX:
        complain(NAME, f"a line has more than {LINE_MAX} characters")
        return ""
    return text.strip()


def _bytes_of_line() -> str:
    """A line of a file or pipe, nothing behind it. Raises EOFError."""
    try:
        fd = sys.stdin.fileno()
    except (ValueError, OSError):  # no real file, as in tests
        text = sys.stdin.readline()
        if not text:
            raise EOFError from None
        return text
    line = bytearray()
    while True:
        byte = os.read(fd, 1)
        if not byte and not line:
            raise EOFError
        if not byte or byte == b"\n":
            return line.decode("utf-8", "surrogateescape")
        if len(line) <= LINE_MAX:
            line += byte


def _ends(line: str) -> bool:
    low = line.lower()
    return low == "\\q" or low in ("exit", "quit") or (len(low) >= 1 and "exit".startswith(low)) or low == "qui"


def _do(line: str, options: dict[str, Any]) -> int:
    def run_line(words: list[str]) -> int:
        low = words[0].lower()
        for name in _SWITCHES:
            if low == name or (len(low) > _LEAST_SWITCH and name.startswith(low) and not _is_keyword(low)):
                if len(words) > 1:
                    raise CommandError(f"too many arguments for keyword:{words[0]}", plain=True)
                options[name] = 1 if name == "verbose" else True
                return 0
        if low in ("exit", "quit"):
            raise CommandError(f"too many arguments for keyword:{low}", plain=True)
        return do(words, options)

    try:
        words = shlex.split(line)
    except ValueError as error:
        complain(NAME, f"{line[:80]}: {error}")
        return 1
    return status_of(NAME, run_line, words) if words else 0


def _is_keyword(word: str) -> bool:
    try:
        find_keyword(word)
    except CommandError:
        return False
    return word not in ("associations",)
