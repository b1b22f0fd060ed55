"""`penstock seff JOB`: the command seff under another name."""

import click

from cli.base.options import OptionValues
from cli.listings.jobefficiency import show
from cli.subcommands.documents import documents
from penstock.commandline import CommandLine, invoke


@click.command(
    cls=CommandLine,
    help="Show how well JOB used its CPUs, memory, GPUs and time.",
    examples=(("penstock seff 12", "of a job"), ("penstock seff --json 12_3", "for a task of an array, as JSON")),
)
@documents
@click.argument("job")
def command(job: str, language: str) -> int:
    """One run of `penstock seff`."""
    return show(job, OptionValues({language: ""} if language else {}))


def main(argv: list[str]) -> int:
    """Run `penstock seff ...`; its status."""
    return invoke(command, "penstock seff", argv)
