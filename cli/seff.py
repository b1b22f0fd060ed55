"""seff: prints how efficiently a job used its CPUs, memory, GPUs and time; and what to request next time.
listings/jobefficiency.py writes the output.
"""

import os

from cli.base.document import DOCUMENT_OPTIONS
from cli.base.options import Command, parse
from cli.base.run import CommandError, run
from cli.listings.jobefficiency import NAME, show

COMMAND = Command(
    NAME,
    "[--json] JOB",
    (*DOCUMENT_OPTIONS,),
)


def main() -> None:
    """The command seff."""
    run(NAME, body)


def body(argv: list[str]) -> int:
    """Runs seff once. Slurm's -h, -v and -d are accepted; -d has no effect."""
    said = ("--version" if word == "-v" else word for word in argv if word != "-d")
    line = parse(COMMAND, list(said), os.environ)
    if len(line.positional) != 1:
        raise CommandError("Usage: seff [--json] JOB (a job id, like 12 or 12_3)", plain=True)
    return show(line.positional[0], line.values)


if __name__ == "__main__":
    main()
