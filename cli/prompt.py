"""Lines with keywords, one after another: what scontrol and sacctmgr are without a keyword.

A command brings its name, what a line does and which lines end it; the end of the input ends it always. `!!` does the last
line once more, a line that begins with # does nothing. A line that fails is told and the next one is read; the status in
the end is 1 when one of them failed. Words may stand in quotes.

A terminal has line editing. From a file or a pipe bytes are read one by one: the answer to a question (cli/confirm.py) is
the line behind the one that asks it.
"""

import os
import shlex
import sys
from collections.abc import Callable

from cli.run import complain, need_own_process, status_of

#: Characters of a line. No keyword needs more, and a file that is no list of keywords is noticed.
LINE_MAX = 1 << 20


def read_lines(name: str, run_line: Callable[[list[str]], int], is_end: Callable[[str], bool]) -> int:
    """Until the end; the status."""
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
