"""The confirmation prompts of sacctmgr.

A line is read byte by byte when the input is a file or a pipe: the same input may hold the next command (interactive
mode), so nothing may be read ahead.
"""

import os
import select
import sys

DECIDE_S = 30
COMMIT = "Would you like to commit changes?"
#: The longest answer, in characters.
ANSWER_MAX = 4096


def confirmed(question: str = COMMIT) -> bool:
    """Asks Slurm's question; no answer within DECIDE_S seconds is no."""
    print(f"{question} (You have {DECIDE_S} seconds to decide)")  # noqa: T201
    while True:
        print("(N/y): ", end="", flush=True)  # noqa: T201
        answer = _answer()
        if answer is None:
            print("timeout")  # noqa: T201
            return False
        letter = answer.lstrip()[:1].lower()
        if letter in ("y", "n", ""):
            return letter == "y"
        print("Y or N please")  # noqa: T201


def _answer() -> str | None:
    """A line without its end, "" at the end of the input; None: no answer in time."""
    if sys.stdin is None:
        return None
    try:
        fd = sys.stdin.fileno()
    except (ValueError, OSError):  # no real file, as in tests
        return sys.stdin.readline()
    line = b""
    while len(line) < ANSWER_MAX:
        try:
            if not select.select([fd], [], [], DECIDE_S)[0]:
                return None
            byte = os.read(fd, 1)
        except (ValueError, OSError):  # closed, or cannot be polled
            return None
        if not byte or byte == b"\n":
            break
        line += byte
    return line.decode("utf-8", "replace")
