"""The one edge of every command: here errors become a line for the user and an exit status.

`run(name, body)` calls `body(argv)`, which does the work and returns the exit status. Whatever goes wrong below is an
exception; nothing below this module catches it only to print it. No traceback ever reaches a user: a fault of ours is
one line too (with PENSTOCK_DEBUG=1 in the environment the traceback follows, for whoever mends it).

Statuses: what `body` returned; `CommandError.status` (1 unless said otherwise) for a refused or impossible request;
130 after Ctrl-C, as a shell reports a process that SIGINT ended; 141 when the reader of our output went away, which is
silent, as `squeue | head -1` is no mistake.

Output is UTF-8 with surrogateescape: bytes that are not UTF-8 (paths, environment values) leave as they came in.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from penstock.errors import PenstockError
from penstock.values.errors import BadValue
from penstock.values.text import clean_line

STATUS_INTERRUPTED = 130
STATUS_BROKEN_PIPE = 141
#: Characters of a text that a message shows.
TEXT_SHOWN_MAX = 60

Body = Callable[[list[str]], int]


#: How the process ends. All is written by then, and taking the interpreter apart would cost a fifth of the run.
#: A child of the command server ends otherwise (cli/served.py), and has a way to decline a call.
leave: Callable[[int], NoReturn] = os._exit
decline: Callable[[], NoReturn] | None = None


def need_own_process() -> None:
    """For a command that will last (`squeue -i`) or asks a person, before it has read, sent or written anything.

    It is then begun again in a process of its own, on the terminal that it was typed on.
    """
    if decline is not None:
        decline()


class CommandError(Exception):
    """The command cannot go on. Each line of `text` is shown behind `name: error: `, or as it stands if `plain`.

    `detail` explains it, on a line of its own behind `name: `: the line above is Slurm's, and tools compare it.
    """

    def __init__(self, text: str, status: int = 1, *, plain: bool = False, detail: str = "") -> None:
        super().__init__(f"{text}\n{detail}" if detail else text)
        self.text = text
        self.status = status
        self.plain = plain
        self.detail = detail


class Answered(Exception):
    """The command line itself asked for a text (--help, --version): it goes to stdout, status 0."""


def run(name: str, body: Body) -> NoReturn:
    """Run a command as the whole of this process."""
    # A stream that the caller closed (>&-) is None: what goes there is for nobody.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    status = status_of(name, body, sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        status = status or 1  # told already
    leave(status)


def status_of(name: str, body: Body, argv: list[str]) -> int:
    """Run `body` and return the exit status; every error has been shown when this returns."""
    try:
        status = _answer(body, argv)
        sys.stdout.flush()
        return status
    except CommandError as error:
        complain(name, error.text, plain=error.plain)
        if error.detail:
            complain(name, f"{name}: {error.detail}", plain=True)
        return error.status
    except PenstockError as error:
        complain(name, error.text)
        if error.detail:
            complain(name, f"{name}: {error.detail}", plain=True)
    except BadValue as error:
        complain(name, str(error))
    except UnicodeEncodeError as error:  # a word of the command line that a request cannot carry
        complain(name, f"{error.object[:TEXT_SHOWN_MAX]!a} is not valid UTF-8")
    except KeyboardInterrupt:
        return STATUS_INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return STATUS_BROKEN_PIPE
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        complain(name, f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (the edge: a user gets one line, never a traceback)
        complain(name, f"internal error, please report it: {type(error).__name__}: {error}")
        if os.environ.get("PENSTOCK_DEBUG") == "1":
            import traceback

            traceback.print_exc()
    return 1


def complain(name: str, text: str, *, plain: bool = False) -> None:
    """Write an error to stderr in Slurm's form. What was already printed goes out first, so that the order is true."""
    prefix = "" if plain else f"{name}: error: "
    try:
        sys.stdout.flush()
    except OSError:  # closed, or its disk is full: that was told, or is being told now
        _abandon_stdout()
    try:
        sys.stderr.write("".join(f"{prefix}{clean_line(line)}\n" for line in text.split("\n")))
        sys.stderr.flush()
    except OSError:
        return  # nobody is left to be told


def warn(name: str, text: str) -> None:
    """A line on stderr about something that does not stop the command."""
    complain(name, f"{name}: warning: {text}", plain=True)


def _answer(body: Body, argv: list[str]) -> int:
    try:
        return body(argv)
    except Answered as answer:
        print(answer, flush=True)  # noqa: T201
        return 0


def _abandon_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot complain about what cannot be written."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return  # stdout is not a file, as in tests
