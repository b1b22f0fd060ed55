"""Parses a crontab for scrontab: lines to entries, each with the request of its job.

    #SCRON --time=5 --partition=debug     options of sbatch for the next entry, on any number of lines
    NAME=value                            replaces $NAME and ${NAME} in the commands that follow
    0 5 * * * /my/script/to/run           an entry: times (penstock/values/cron.py), and a command for /bin/sh
    # anything else                       a comment

All errors are reported, each with its line and column. A line is UTF-8 text, since `scrontab -l` shows it.

The job of an entry is a batch job: a script for /bin/sh with the command, the login environment of its owner on the node
(--get-user-env), their home folder as working directory, the first word of the command as name. Deliberately absent:
cron's own MAILTO, SHELL and %; variables are substituted in commands and not set in the job's environment, as in Slurm.
"""

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from cli.base.environment import current_umask
from cli.base.options import ACCEPTED, Command, Option, OptionValues, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.jobs.jobopts import JOB_OPTIONS
from cli.jobs.jobrequest import job_request, merge, shown
from cli.jobs.script import split_words
from penstock.v1.common_pb2 import JobSpec
from penstock.v1.periodic_pb2 import CrontabEntry, LineRange
from penstock.values.cron import BadSpec, parse_spec
from penstock.values.errors import BadValue
from penstock.values.text import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.v1.common_pb2 import JobRequest

#: The controller's limits; it checks again.
CRONTAB_BYTES_MAX = 256 * 1024
TOO_LARGE = f"the crontab has more than {CRONTAB_BYTES_MAX} bytes, which is the limit"
COMMAND_CHARS_MAX = 4096
SCRON = "#SCRON"
PATH = "/usr/local/bin:/usr/bin:/bin"
#: Options that mean nothing for a recurring job.
LEFT_OUT = frozenset(("array", "begin", "clusters", "uid", "gid"))
#: Options about what a job inherits from the submitting process.
INHERITED = frozenset(("export", "export-file", "propagate", "get-user-env"))
INHERITED_NOTE = "the job of a crontab has the login environment of its owner"


def _option(option: Option) -> Option:
    return option._replace(status=ACCEPTED, note=INHERITED_NOTE) if option.name in INHERITED else option


OPTIONS = Command("scrontab", "", tuple(_option(o) for o in JOB_OPTIONS if o.name not in LEFT_OUT))
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_USE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class CrontabError(NamedTuple):
    """An error in a line, numbered from 1, and its position in it, from 0; -1 = all of it."""

    line: int
    column: int
    text: str
    source: str

    def shown(self) -> str:
        """As an error message."""
        head = f"line {self.line}: {self.text}"
        if self.column < 0:
            return head
        return f"{head}\n{shown(self.source)}\n{' ' * self.column}^"


class Owner(NamedTuple):
    """The owner of the jobs."""

    name: str
    home: str
    shell: str


def read(text: str, owner: Owner) -> tuple[list[CrontabEntry], list[CrontabError]]:
    """Parses the entries of a crontab; returns also its errors."""
    entries: list[CrontabEntry] = []
    mistakes: list[CrontabError] = []
    reader = _Reader(owner)
    for number, line in _lines(text):
        try:
            entry = reader.line(number, line)
            if entry is not None:
                entries.append(entry)
        except BadSpec as error:
            mistakes.append(CrontabError(number, error.column, str(error), line))
        except (BadValue, CommandError) as error:
            mistakes.append(CrontabError(number, -1, _first(str(error)), line))
    if reader.options:
        mistakes.append(CrontabError(reader.first_line, -1, "no entry follows these options", ""))
    return entries, mistakes


def _lines(text: str) -> "Iterator[tuple[int, str]]":
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r")


def _first(text: str) -> str:
    """An error without the hint to --help, which belongs to another command."""
    return text.split("\nTry ")[0].removeprefix("scrontab: ").replace("\n", "; ")


class _Reader:
    """Parses lines; keeps the options and variables that apply to later lines."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.variables: dict[str, str] = {}
        self.options: list[str] = []  # #SCRON lines since the last entry
        self.values = OptionValues()
        self.first_line = 0

    def line(self, number: int, line: str) -> CrontabEntry | None:
        """Parses one line. Raises BadValue, CommandError."""
        bare = line.lstrip(" \t")
        if bare.startswith(SCRON):
            self._scron(number, bare)
            return None
        if not bare or bare.startswith("#"):
            return None
        setting = _VARIABLE.fullmatch(bare)
        if setting is not None:
            self.variables[setting[1]] = _unquoted(setting[2].rstrip())
            return None
        values = self.values
        options = self.options
        first_line = self.first_line or number
        self.values = OptionValues()
        self.options = []
        self.first_line = 0
        spec, command = parse_spec(line)
        if not command.strip():
            raise BadSpec("there is no command", len(line.rstrip()))
        if len(command) > COMMAND_CHARS_MAX:
            raise BadSpec(f"the command has {len(command)} characters, the limit is {COMMAND_CHARS_MAX}", len(line))
        written = line[: len(line) - len(command)].strip()
        command = _USE.sub(self._value, command)
        return CrontabEntry(
            job=self._job(values, command),
            spec=self._spec(options, written, command),
            cron=spec.format(),
            lines=LineRange(first=first_line, last=number),
        )

    def _value(self, found: "re.Match[str]") -> str:
        return self.variables.get(found[1] or found[2], found[0])

    def _scron(self, number: int, line: str) -> None:
        self.first_line = self.first_line or number
        self.options.append(line)
        try:
            found = parse(OPTIONS, split_words(line[len(SCRON) :], f"line {number}"))
        except RemoteAnswer:
            raise CommandError("--help, --usage and --version mean nothing here") from None
        if found.positional:
            raise CommandError(f"Invalid option found in #SCRON line: {found.positional[0]}")
        self.values = merge(self.values, found.values)

    def _job(self, values: OptionValues, command: str) -> "JobRequest":
        job = job_request(values)
        job.name = values.text("job_name") or check_name(command.split()[0], "job name")
        home = os.fsencode(self.owner.home)
        job.submit_dir = home
        job.work_dir = os.path.join(home, os.fsencode(values.text("chdir"))).rstrip(b"/") or b"/"
        job.submit_host = os.uname().nodename
        job.command = shown(command)[:COMMAND_CHARS_MAX]
        job.submit_line = shown(f"scrontab: {command}")
        job.umask = current_umask()
        job.get_user_env = True
        return job

    def _spec(self, options: list[str], written: str, command: str) -> JobSpec:
        head = ["#!/bin/sh", "# This job was submitted through scrontab", *options]
        script = "\n".join([*head, f"# crontab time request was: '{written}'", command, ""])
        environment = {
            "HOME": self.owner.home,
            "LOGNAME": self.owner.name,
            "PATH": PATH,
            "SHELL": self.owner.shell,
            "SLURM_GET_USER_ENV": "1",
            "USER": self.owner.name,
        }
        lines = [os.fsencode(f"{name}={value}") for name, value in environment.items()]
        return JobSpec(script=script.encode(), environment=lines)


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def decode(data: bytes) -> str:
    """A crontab's text. Raises CommandError."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if b"\0" in line:
            raise CommandError(f"line {number} has a NUL character")
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise CommandError(f"line {number} is not UTF-8 from byte {error.start + 1} on") from None
    return data.decode()


def mark(text: str, lines: "list[tuple[int, int]]", prefix: str) -> str:
    """Prefixes each line of these ranges in the text."""
    marked = {n for first, last in lines for n in range(first, last + 1)}
    parts = text.split("\n")
    return "\n".join(prefix + line if n in marked else line for n, line in enumerate(parts, 1))
