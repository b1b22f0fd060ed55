"""`penstock completion SHELL`: prints the shell completion of `penstock`; click's, for click's commands.

Slurm's commands have theirs in share/, with values from the cluster.
"""

import click
from click.shell_completion import get_completion_class

from cli.subcommands.documents import documents, put, write
from penstock.commandline import CommandLine, invoke

SHELLS = ("bash", "zsh", "fish")
COMPLETE = "_PENSTOCK_COMPLETE"


@click.command(
    cls=CommandLine,
    help="Print the completion script of penstock for SHELL (bash, zsh or fish).",
    examples=(
        ('eval "$(penstock completion bash)"', "in ~/.bashrc"),
        ('eval "$(penstock completion zsh)"', "in ~/.zshrc"),
        ("penstock completion fish | source", "in config.fish"),
    ),
)
@documents
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
def command(shell: str, language: str) -> int:
    """Print it."""
    if language:
        return write({"shell": shell, "source": source(shell)}, language)
    put(source(shell))
    return 0


def source(shell: str) -> str:
    """The text for a shell."""
    found = get_completion_class(shell)
    assert found is not None
    complete = found(command, {}, "penstock", COMPLETE)
    return str(complete.source_template % complete.source_vars())


def main(argv: list[str]) -> int:
    """Run `penstock completion ...`; its status."""
    return invoke(command, "penstock completion", argv)
