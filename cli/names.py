"""slurmctld, slurmd, slurmdbd, slurmrestd: daemon names that tools look for.

Some tools ask them for a version (-V) before they trust a cluster. Any other use prints the command to use instead,
status 1: a daemon must not start with options of another program. slurmrestd is `penstock restd`, which takes its options.
"""

import importlib
import sys
from typing import NoReturn

from cli.base.options import VERSION_TEXT
from cli.base.run import CommandError, run

_HINTS = {
    "slurmctld": "the controller is started with: penstock ctld --config FILE",
    "slurmd": "the node daemon is started with: penstock noded --node-name NAME --controller HOST:PORT",
    "slurmdbd": "the controller keeps the accounting itself: penstock ctld --config FILE",
}


def body_of(name: str, argv: list[str]) -> int:
    """Answers -V, else names the command to use."""
    if argv and argv[0] in ("-V", "--version"):
        sys.stdout.write(VERSION_TEXT + "\n")
        return 0
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(f"Usage: {name} -V\n\nIn Penstock {_HINTS[name]}\n")
        return 0
    raise CommandError(f"in Penstock {_HINTS[name]}")


def slurmctld() -> NoReturn:
    """The command slurmctld."""
    run("slurmctld", lambda argv: body_of("slurmctld", argv))


def slurmd() -> NoReturn:
    """The command slurmd."""
    run("slurmd", lambda argv: body_of("slurmd", argv))


def slurmdbd() -> NoReturn:
    """The command slurmdbd."""
    run("slurmdbd", lambda argv: body_of("slurmdbd", argv))


def slurmrestd() -> NoReturn:
    """The daemon slurmrestd."""
    sys.exit(importlib.import_module("rest.main").main(sys.argv[1:]))
