"""The text of a crontab as scrontab takes it: lines to entries, each with the request of its job.

    #SCRON --time=5 --partition=debug     options of sbatch for the next entry, on as many lines as one likes
    NAME=value                            takes the place of $NAME and ${NAME} in the commands that follow
    0 5 * * * /my/script/to/run           an entry: when (penstock/values/cron.py), and a command for /bin/sh
    # anything else                       a comment

All mistakes are found, each with its line and column. A line is UTF-8 text, since a crontab is shown again.

The job of an entry is a batch job: a script for /bin/sh with the command, the login environment of its owner on the node
(--get-user-env), his home folder, the first word of the command for a name. Deliberately absent: cron's own MAILTO,
SHELL and %; variables are words to be replaced, not the job's environment, as in Slurm.
"""

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.environment import current_umask
from cli.jobopts import JOB_OPTIONS
from cli.jobrequest import job_request, merge, shown
from cli.options import ACCEPTED, Command, Option, parse
from cli.run import Answered, CommandError
from cli.script import split_words
from penstock.v1.common_pb2 import JobSpec
from penstock.v1.periodic_pb2 import CrontabEntry, LineRange
from penstock.values.cron import BadSpec, parse_spec
from penstock.values.errors import BadValue
from penstock.values.text import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The controller's limits; it checks again.
CRONTAB_BYTES_MAX = 256 * 1024
COMMAND_CHARS_MAX = 4096
SCRON = "#SCRON"
PATH = "/usr/local/bin:/usr/bin:/bin"
#: Options that mean nothing for a job that comes again by itself.
LEFT_OUT = frozenset(("array", "begin", "clusters", "uid", "gid"))
#: Options about what a job takes with it from where it is submitted.
INHERITED = frozenset(("export", "export-file", "propagate", "get-user-env"))
INHERITED_NOTE = "the job of a crontab has the login environment of its owner"


def _option(option: Option) -> Option:
    return option._replace(standing=ACCEPTED, note=INHERITED_NOTE) if option.name in INHERITED else option


OPTIONS = Command("scrontab", "", tuple(_option(o) for o in JOB_OPTIONS if o.name not in LEFT_OUT))
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_USE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class Mistake(NamedTuple):
    """What is wrong with a line, numbered from 1, and where in it, from 0; -1 = all of it."""

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
    """Whose jobs they are."""

    name: str
    home: str
    shell: str


def read(text: str, owner: Owner) -> tuple[list[CrontabEntry], list[Mistake]]:
    """The entries of a crontab, and what is wrong with it."""
    entries: list[CrontabEntry] = []
    mistakes: list[Mistake] = []
    reader = _Reader(owner)
    for number, line in _lines(text):
        try:
            entry = reader.line(number, line)
            if entry is not None:
                entries.append(entry)
        except BadSpec as error:
            mistakes.append(Mistake(number, error.column, str(error), line))
        except (BadValue, CommandError) as error:
            mistakes.append(Mistake(number, -1, _first(str(error)), line))
    if reader.options:
        mistakes.append(Mistake(reader.first_line, -1, "no entry follows these options", ""))
    return entries, mistakes


def _lines(text: str) -> "Iterator[tuple[int, str]]":
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r")


def _first(text: str) -> str:
    """An error without the hint to --help, which is about another command's line."""
    return text.split("\nTry ")[0].removeprefix("scrontab: ").replace("\n", "; ")


class _Reader:
    """Keeps what lines say of those that follow."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.variables: dict[str, str] = {}
        self.options: list[str] = []  # #SCRON lines since the last entry
        self.values: dict[str, Any] = {}
        self.first_line = 0

    def line(self, number: int, line: str) -> CrontabEntry | None:
        """One line. Raises BadValue, CommandError."""
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
        values, options, first_line = self.values, self.options, self.first_line or number
        self.values, self.options, self.first_line = {}, [], 0
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
        except Answered:
            raise CommandError("--help, --usage and --version mean nothing here") from None
        if found.positional:
            raise CommandError(f"Invalid option found in #SCRON line: {found.positional[0]}")
        self.values = merge(self.values, found.values)

    def _job(self, values: dict[str, Any], command: str) -> Any:
        job = job_request(values)
        job.name = values.get("job_name") or check_name(command.split()[0], "job name")
        home = os.fsencode(self.owner.home)
        job.submit_dir = home
        job.work_dir = os.path.join(home, os.fsencode(values.get("chdir", ""))).rstrip(b"/") or b"/"
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
    if len(data) > CRONTAB_BYTES_MAX:
        raise CommandError(f"the crontab has more than {CRONTAB_BYTES_MAX} bytes, which is the limit")
    for number, line in enumerate(data.split(b"\n"), 1):
        if b"\0" in line:
            raise CommandError(f"line {number} has a NUL character")
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise CommandError(f"line {number} is not UTF-8 from byte {error.start + 1} on") from None
    return data.decode()


def mark(text: str, lines: "list[tuple[int, int]]", prefix: str) -> str:
    """The text with something before each line of these ranges."""
    marked = {n for first, last in lines for n in range(first, last + 1)}
    parts = text.split("\n")
    return "\n".join(prefix + line if n in marked else line for n, line in enumerate(parts, 1))
