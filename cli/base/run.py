"""The outermost frame of every command: turns errors into a line for the user and an exit status.

`run(name, body)` calls `body(argv)`, which does the work and returns the exit status. Every failure is an exception; no
code called from here catches one only to print it. No traceback reaches a user: an internal error is one line too (with
PENSTOCK_DEBUG=1 in the environment the traceback follows, for developers).

Statuses: what `body` returned; `CommandError.status` (1 unless said otherwise) for a refused or impossible request;
130 after Ctrl-C, as a shell reports a process that SIGINT ended; 141 without a message when the reader of our output
has closed it, since `squeue | head -1` is not an error.

Output is UTF-8 with surrogateescape: bytes that are not UTF-8 (paths, environment values) are written unchanged.
Control sequences are escaped (cli.base.output).
"""

import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from cli.base.output import Cleaned, cleaned, separators
from penstock.errors import PenstockError
from penstock.values.errors import BadValue
from penstock.values.text import clean_line

STATUS_INTERRUPTED = 130
STATUS_BROKEN_PIPE = 141
#: The most characters of a text that a message quotes.
TEXT_SHOWN_MAX = 60

Body = Callable[[list[str]], int]


#: The function that ends the process. All output is written by then, and finalising the interpreter would cost a fifth
#: of the run. A worker of the command server ends otherwise (cli/commandserver/served.py), and can decline a call.
leave: Callable[[int], NoReturn] = os._exit
decline: Callable[[], None] | None = None
#: The user's shell sees the command server's launcher instead of this process.
is_served = False


def need_own_process() -> None:
    """Reports a long-running command (`squeue -i`) or one that asks the user to the command server, before it has read,
    sent or written anything. On a terminal it leaves the server: the launcher then runs it in its own process. Else it
    returns.
    """
    if decline is not None:
        decline()


class CommandError(Exception):
    """The command cannot continue. Each line of `text` is shown after `name: error: `, or unchanged if `plain`.
    `level`: Slurm writes `fatal` instead of `error` for some. `detail` explains it, on its own line after `name: `: the
    line above is Slurm's, and tools compare it.
    """

    def __init__(
        self, text: str, status: int = 1, *, plain: bool = False, detail: str = "", level: str = "error"
    ) -> None:
        super().__init__(f"{text}\n{detail}" if detail else text)
        self.level = level
        self.text = text
        self.status = status
        self.plain = plain
        self.detail = detail


class RemoteAnswer(Exception):
    """The command line requested a text (--help, --version): it goes to stdout, status 0."""


def run(name: str, body: Body) -> NoReturn:
    """Runs a command as the whole of this process."""
    # A stream that the caller closed (>&-) is None: its output is discarded.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for name_of_stream in ("stdout", "stderr"):
        stream = getattr(sys, name_of_stream)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, Cleaned):
            setattr(sys, name_of_stream, cleaned(stream))
    if isinstance(sys.stdout, Cleaned):
        sys.stdout.kept = separators(sys.argv[1:], os.environ)
    status = status_of(name, body, sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        status = status or 1  # reported already
    leave(status)


def status_of(name: str, body: Body, argv: list[str]) -> int:
    """Runs `body` and returns the exit status; every error has been shown when this returns."""
    try:
        status = _answer(body, argv)
        sys.stdout.flush()
        return status
    except CommandError as error:
        complain(name, error.text, plain=error.plain, level=error.level)
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


def complain(name: str, text: str, *, plain: bool = False, level: str = "error") -> None:
    """Writes an error to stderr in Slurm's form. Earlier output is flushed first, to keep the order."""
    prefix = "" if plain else f"{name}: {level}: "
    try:
        sys.stdout.flush()
    except OSError:  # closed, or its disk is full: that was reported, or is being reported now
        _abandon_stdout()
    try:
        sys.stderr.write("".join(f"{prefix}{clean_line(line)}\n" for line in text.split("\n")))
        sys.stderr.flush()
    except OSError:
        return  # stderr is closed, too


def warn(name: str, text: str) -> None:
    """Writes a warning to stderr."""
    complain(name, f"{name}: {warning_text(text)}", plain=True)


def warning_text(text: str) -> str:
    """Returns a warning with its word; some have Slurm's `error:` already."""
    return text if text.startswith("error: ") else f"warning: {text}"


def _answer(body: Body, argv: list[str]) -> int:
    try:
        return body(argv)
    except RemoteAnswer as answer:
        print(answer, flush=True)  # noqa: T201
        return 0


def _abandon_stdout() -> None:
    """Redirects stdout to /dev/null, so that the interpreter's last flush cannot fail."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return  # stdout is not a file, as in tests
