"""`penstock config diff`: shows what a reload would change, and which jobs it would affect.

Without arguments the controller reads its files again, compares, and changes nothing: refusals, changes, and
consequences for jobs. With two files (or one, against the file that this machine uses) only these are compared, without
the controller. Exit status: 0 no difference, 1 differences, 78 a file cannot be used or a reload would be refused, 2
wrong use.
"""

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.subcommands.documents import documents, write
from penstock.cluster import own_conf_path
from penstock.commandline import CommandLine, invoke
from penstock.config import ConfigError, changes, differences, load
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from cli.base.document import Json

EX_CONFIG = 78


@click.command(
    cls=CommandLine,
    wrong_use=2,
    help="""Without a file: what `scontrol reconfigure` would do to the running controller. With files: how two of them
differ; OLD is the file of this machine if one is given. Nothing is changed.""",
    epilog="Exit status: 0 no difference, 1 differences, 78 it would be refused, 2 wrong use.",
    examples=(
        ("penstock config diff", "what a reload would change, and which jobs it affects"),
        ("penstock config diff slurm.conf.old slurm.conf", "how two files differ"),
    ),
)
@documents
@click.argument("files", nargs=-1, metavar="[[OLD] NEW]")
def command(files: tuple[str, ...], language: str) -> int:
    """Compares and prints the differences."""
    if len(files) > 2:
        raise click.UsageError("expected at most two files", click.get_current_context())
    found = _of_files(files) if files else _of_controller()
    if found is None:
        return EX_CONFIG
    if language:
        write(dict(found._asdict()), language)
    else:
        _print(found)
    return EX_CONFIG if found.problems else int(bool(found.changes or found.jobs))


def main(argv: list[str]) -> int:
    """Run `penstock config diff ...`; its status."""
    return invoke(command, "penstock config diff", argv)


class _Found(NamedTuple):
    """`differences`: the changes as records, with the value in force and that in the files."""

    problems: list[str]
    changes: list[str]
    jobs: list[str]
    differences: "list[Json]"


def _of_files(names: tuple[str, ...]) -> _Found | None:
    old, new = (own_conf_path(), names[0]) if len(names) == 1 else names
    try:
        before, after = load(old), load(new)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return None
    records = [one._asdict() for one in differences(before.config, after.config)]
    return _Found([], changes(before.config, after.config), [], list(records))


def _of_controller() -> _Found | None:
    from cli.base.document import message_object
    from penstock.client import Client
    from penstock.v1.controller_pb2 import ReconfigureRequest

    try:
        with Client.open() as client:
            reply = client.call("Reconfigure", ReconfigureRequest(dry_run=True))
    except PenstockError as error:
        sys.stderr.write(f"penstock config diff: error: {error.text}\n")
        return None
    records = [message_object(one) for one in reply.differences]
    return _Found(list(reply.problems), list(reply.changes), list(reply.jobs), list(records))


def _print(found: _Found) -> None:
    parts = (("it would be refused:", found.problems), ("changes:", found.changes), ("jobs:", found.jobs))
    lines = []
    for title, texts in parts:
        if texts:
            lines += [title, *(f"  {line}" for line in texts)]
    sys.stdout.write("\n".join(lines or ["nothing would change"]) + "\n")
