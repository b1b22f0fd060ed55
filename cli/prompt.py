"""scontrol without a keyword: a line at a time, with the same keywords as on the command line.

`exit`, `quit` and the end of the input end it; `!!` does the last line once more. A line that fails is told and the next one
is read; the status in the end is 1 when one of them failed. Words may stand in quotes.
"""

import shlex
import sys
from typing import Any

from cli.keywords import NAME
from cli.run import CommandError, complain, need_own_process, status_of

PROMPT = f"{NAME}: "
#: Characters of a line. No keyword needs more, and a file that is no list of keywords is noticed.
LINE_MAX = 1 << 20


def read_lines(options: dict[str, Any]) -> int:
    """Until the end; the status."""
    need_own_process()
    last, status = "", 0
    if sys.stdin.isatty():
        import readline  # noqa: F401 (lines can be edited and come back)
    while True:
        line = _next_line()
        if line is None:
            print()  # noqa: T201
            return status
        line = last if line == "!!" else line
        if not line:
            continue
        if line.lower() in ("exit", "quit"):
            return status
        last = line
        status = _do(line, options) or status


def _next_line() -> str | None:
    try:
        line = input(PROMPT)
    except EOFError:
        return None
    if len(line) > LINE_MAX:
        complain(NAME, f"a line has {len(line)} characters, the limit is {LINE_MAX}")
        return ""
    return line.strip()


def _do(line: str, options: dict[str, Any]) -> int:
    from cli.scontrol import do

    def run_line(words: list[str]) -> int:
        if words[0].lower() in ("exit", "quit"):
            raise CommandError(f"too many arguments for keyword:{words[0].lower()}", plain=True)
        return do(words, options)

    try:
        words = shlex.split(line)
    except ValueError as error:
        complain(NAME, f"{line[:80]}: {error}")
        return 1
    return status_of(NAME, run_line, words) if words else 0
