"""The edge of the simulator's commands: errors become one line and an exit status, as for all of Penstock's commands.
Statuses: the command's; 1 for bad input, 130 after Ctrl-C, 141 when the reader of the output has closed it. An internal
error is one line too; with PENSTOCK_DEBUG=1 in the environment the traceback follows. (cli/base/run.py does the same
for the other commands; it may not be imported here: only `penstock` is shared.)
"""

import os
import sys
import traceback
from collections.abc import Callable

import click

from penstock.config import ConfigError
from penstock.values.errors import BadValue

STATUS_INTERRUPTED = 130
STATUS_BROKEN_PIPE = 141


def run_with_errors(act: Callable[[], int | None]) -> int:
    """Run a subcommand of `penstock sim`; every error but wrong use has been shown when this returns."""
    try:
        status = int(act() or 0)
        sys.stdout.flush()
        return status
    except (click.exceptions.Exit, click.UsageError):
        raise  # --help has printed its text, or penstock.commandline reports the error
    except click.ClickException as error:
        return complain(_name(), error.format_message())
    except (BadValue, ConfigError) as error:
        return complain(_name(), str(error))
    except (click.Abort, KeyboardInterrupt):
        return STATUS_INTERRUPTED
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)  # so that the last flush of the interpreter cannot fail
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return STATUS_BROKEN_PIPE
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return complain(_name(), f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (the edge: a user gets one line, never a traceback)
        complain(_name(), f"internal error, please report it: {type(error).__name__}: {error}")
        if os.environ.get("PENSTOCK_DEBUG") == "1":
            traceback.print_exc()
        return 1


def _name() -> str:
    """The name of the running subcommand, as called."""
    context = click.get_current_context(silent=True)
    word = context.invoked_subcommand if context is not None else None
    return f"penstock sim {word}" if word else "penstock sim"


def complain(name: str, text: str) -> int:
    """Prints each line of an error after the command's name to stderr; returns status 1."""
    sys.stdout.flush()
    sys.stderr.write("".join(f"{name}: error: {line}\n" for line in text.split("\n")))
    return 1
