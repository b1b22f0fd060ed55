"""cli_filter/user_defaults: the user's own defaults of options, in ~/.slurm/defaults.

    partition = gpu
    srun:mpi = pmix
    sbatch:h200:time = 2:00:00

A line is [COMMAND:][CLUSTER:]OPTION=VALUE; `*` stands for any command or cluster. A later line overrides an earlier one.
"""

import os
from collections.abc import Iterator

from cli.base.options import Command
from cli.base.run import CommandError
from penstock.boundedfile import read_all

FILE = "~/.slurm/defaults"
FILE_BYTES_MAX = 64 * 1024
_COMMANDS = ("salloc", "sbatch", "srun", "*")


def user_defaults(command: Command, cluster: str) -> dict[str, str | None]:
    """Returns the defaults that the user's file has for this command and cluster; without a file, none. Raises CommandError
    for a line that is none."""
    path = os.path.expanduser(FILE)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            data = read_all(file, FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    return {name: value for name, value in _lines(path, os.fsdecode(data), command, cluster)}


def _lines(path: str, text: str, command: Command, cluster: str) -> Iterator[tuple[str, str]]:
    known = {option.name for option in command.options}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        where, equals, value = (part.strip() for part in line.partition("="))
        *scope, name = (part.strip() for part in where.split(":"))
        if not equals or not name or len(scope) > 2 or (len(scope) == 2 and scope[0] not in _COMMANDS):
            raise CommandError(f"{path}:{number}: expected [COMMAND:][CLUSTER:]OPTION=VALUE")
        of_command = scope.pop(0) if scope and scope[0] in _COMMANDS else "*"
        of_cluster = scope.pop() if scope else "*"
        if of_command not in ("*", command.name) or of_cluster.lower() not in ("*", cluster.lower()):
            continue
        if name not in known and of_command != "*":
            raise CommandError(f"{path}:{number}: {command.name} has no option --{name}")
        yield name, value
