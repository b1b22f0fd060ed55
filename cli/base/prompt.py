"""The interactive mode of scontrol and sacctmgr: reads lines with keywords, one after another.

A command supplies its name, a function that runs a line and the lines that end it; the end of the input always ends it.
`!!` repeats the last line, a line that begins with # is ignored. The error of a failed line is printed and the next
line is read; the exit status is 1 when one of them failed. Words may be quoted.

A terminal has line editing. From a file or a pipe bytes are read one by one: the answer to a question
(cli/base/confirm.py) is the line after the one that asks it.
"""

import os
import shlex
import sys
from collections.abc import Callable

from cli.base.run import complain, need_own_process, status_of

#: The longest line, in characters. No keyword needs more, and a file of another kind fails early.
LINE_MAX = 1 << 20


def read_lines(name: str, run_line: Callable[[list[str]], int], is_end: Callable[[str], bool]) -> int:
    """Reads lines until the end; returns the status."""
    need_own_process()
    last, status = "", 0
    if sys.stdin is not None and sys.stdin.isatty():
        import readline  # noqa: F401 (lines can be edited and come back)
    while True:
        line = _next_line(name)
        if line is None:
            print()  # noqa: T201
            return status
        if line == "!!":
            if not last:
                complain(name, "no input", plain=True)
            line = last
        if not line or line.startswith("#"):
            continue
        if is_end(line):
            return status
        last = line
        status = _do(name, line, run_line) or status


def _do(name: str, line: str, run_line: Callable[[list[str]], int]) -> int:
    try:
        words = shlex.split(line)
    except ValueError as error:
        complain(name, f"{line[:80]}: {error}")
        return 1
    return status_of(name, run_line, words) if words else 0


def _next_line(name: str) -> str | None:
    if sys.stdin is None:
        return None
    try:
        if sys.stdin.isatty():
            return input(f"{name}: ").strip()
        print(f"{name}: ", end="", flush=True)  # noqa: T201
        text = _line_of_file()
    except EOFError:
        return None
    if len(text) > LINE_MAX:
        complain(name, f"a line has more than {LINE_MAX} characters")
        return ""
    return text.strip()


def _line_of_file() -> str:
    """A line of a file or pipe, without reading beyond it. Raises EOFError."""
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
