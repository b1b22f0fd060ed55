"""The command line of a daemon as a table.

A daemon parses it with argparse and never imports click. The application `penstock` declares the same options to click,
for the completion of shells (`penstock.commandline.daemon`).
"""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple


class DaemonOption(NamedTuple):
    """One option. Without a metavar and choices it is a switch."""

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    convert: Callable[[str], object] = str
    is_repeated: bool = False  # the values of all are a list

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return not self.metavar and not self.choices


#: Where a daemon that is no controller logs: it has no slurm.conf, or not yet.
LOG_OPTIONS = (
    DaemonOption(("--log-file",), "append the log to this file (default: standard error, or the journal)", "FILE", ""),
    DaemonOption(
        ("--log-format",), "form of the log's lines (default: text; docs/logs.md)", choices=("text", "json"), default=""
    ),
)


class DaemonLine(NamedTuple):
    """All that a daemon's command line may say."""

    name: str
    help: str
    options: tuple[DaemonOption, ...]
    examples: str
    words: str = ""  # metavar of further words, which `words` of the options has; "" = there are none

    def parser(self) -> argparse.ArgumentParser:
        """What reads the arguments; wrong use ends the process with status 2."""
        parser = argparse.ArgumentParser(
            prog=self.name, description=self.help, epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        for option in self.options:
            if option.is_switch:
                parser.add_argument(*option.flags, action="store_true", help=option.help)
            else:
                parser.add_argument(
                    *option.flags, metavar=option.metavar or None, default=option.default, help=option.help,
                    choices=option.choices or None, type=option.convert,
                    action="append" if option.is_repeated else "store",
                )  # fmt: skip
        if self.words:
            parser.add_argument("words", metavar=self.words, nargs="*")
        return parser


def say(name: str, text: str) -> None:
    """Writes lines of the daemon to standard error: what it says before it has a log."""
    for line in text.splitlines():
        print(f"{name}: {line}", file=sys.stderr, flush=True)  # noqa: T201 (the daemon's answer)


def refuse(name: str, text: str, status: int) -> int:
    """Says why the daemon does not start, a line each. Returns the exit status."""
    say(name, "\n".join(f"error: {line}" for line in text.splitlines()))
    return status
