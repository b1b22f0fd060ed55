"""The edge of the simulator's commands: errors become one line and an exit status, as for all of Penstock's commands.

Statuses: what the command returned; 1 for bad input, 130 after Ctrl-C, 141 when the reader of the output went away.
A fault of ours is one line too; with PENSTOCK_DEBUG=1 in the environment the traceback follows.
(cli/run.py does the same for the other commands; it may not be imported here, as nothing but `penstock` is shared.)
"""

import os
import sys
import traceback

import click

from penstock.config import ConfigError
from penstock.values.errors import BadValue

STATUS_INTERRUPTED = 130
STATUS_BROKEN_PIPE = 141


def run_command(command: click.Command, name: str, argv: list[str]) -> int:
    """Run a click command; every error has been shown when this returns."""
    try:
        # Not command.main(): it has its own opinion of a reader that went away.
        with command.make_context(name, argv) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as done:  # --help has answered
        return done.exit_code
    except click.ClickException as error:
        return complain(name, error.format_message())
    except (BadValue, ConfigError) as error:
        return complain(name, str(error))
    except (click.Abort, KeyboardInterrupt):
        return STATUS_INTERRUPTED
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)  # so that the last flush of the interpreter cannot complain
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return STATUS_BROKEN_PIPE
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return complain(name, f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (the edge: a user gets one line, never a traceback)
        complain(name, f"internal error, please report it: {type(error).__name__}: {error}")
        if os.environ.get("PENSTOCK_DEBUG") == "1":
            traceback.print_exc()
        return 1


def complain(name: str, text: str) -> int:
    """Each line of an error behind the command's name, on stderr; returns status 1."""
    sys.stdout.flush()
    sys.stderr.write("".join(f"{name}: error: {line}\n" for line in text.split("\n")))
    return 1
