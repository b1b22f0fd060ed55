"""penstock policy export|plan|apply: accounts, users, QOS, limits and shares from one file under version control.

    penstock policy export >site.yaml
    penstock policy plan site.yaml
    penstock policy apply site.yaml

plan shows the difference, and its effect on waiting times by replaying the last days' jobs and the live queue in the
simulator (policysim.py). apply is one transaction: all or nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import click

from cli.accounts.policydiff import Difference, difference, lines_of, name_of
from cli.accounts.policyfile import read_policy
from cli.accounts.policystate import cluster_policy, to_object, to_yaml
from cli.base.confirm import confirmed
from cli.base.listing import emit
from cli.base.run import CommandError
from cli.subcommands.documents import documents, write
from penstock.calls import TIMEOUT_S
from penstock.client import Client
from penstock.commandline import CommandGroup, CommandLine, invoke
from penstock.errors import PenstockError, Unreachable
from penstock.v1.governance_pb2 import ChangeManyRequest

#: The most entities missing in the file that are listed by name.
UNNAMED_SHOWN = 10
DAYS = 7
#: The longest wait of apply for an answer: a large change takes seconds, and with --yes it outlasts a restart of the
#: controller.
APPLY_S: Final = 60.0

command = CommandGroup(
    "policy",
    help="Accounts, users, QOS, limits and shares from one file under version control.",
    examples=(
        ("penstock policy export >site.yaml", "the cluster's policy, as a file to begin with"),
        ("penstock policy plan site.yaml", "the changes and their effect"),
        ("penstock policy apply site.yaml", "all or nothing"),
    ),
)
_prune = click.option("--prune", is_flag=True, help="Remove what FILE does not name.")


def main(argv: list[str]) -> int:
    """Run `penstock policy ...`; its status."""
    return invoke(command, "penstock policy", argv)


@command.command(
    "export",
    cls=CommandLine,
    help="Print the cluster's policy as such a file.",
    examples=(("penstock policy export >site.yaml", "a file to begin with"),),
)
@documents
def export(language: str) -> int:
    """Print it."""
    with Client.open() as client:
        found = cluster_policy(client)
    if language == "json":
        return write(to_object(found), language)
    print(to_yaml(found), end="")  # noqa: T201
    return 0


#: Computes the remaining changes from the controller's state.
Compare = Callable[[], Difference]


@contextmanager
def _comparing(file: str, prune: bool, timeout_s: float, patient: bool = False) -> Iterator[tuple[Client, Compare]]:
    """The cluster beside the file."""
    with Client.open(timeout_s, retry=patient) as client:
        wanted = read_policy(file)
        if wanted.cluster and wanted.cluster != client.cluster.cluster_name:
            raise CommandError(f"{file} is for cluster {wanted.cluster}, this is {client.cluster.cluster_name}")
        yield client, lambda: difference(cluster_policy(client), wanted, prune)


@command.command(
    "plan",
    cls=CommandLine,
    help="Show what FILE would change, and the effect on waiting times. Nothing is changed.",
    examples=(
        ("penstock policy plan site.yaml", f"with a replay of the jobs of the last {DAYS} days"),
        ("penstock policy plan --days=0 --json site.yaml", "the difference alone, for a program"),
    ),
)
@documents
@_prune
@click.option("--days", metavar="DAYS", help=f"Replay the jobs of this many days, {DAYS} if not given; 0 = none.")
@click.argument("file")
def plan(file: str, prune: bool, days: str | None, language: str) -> int:
    """Prints the difference and the replay."""
    from cli.subcommands.policysim import compare, days_of, document, table

    with _comparing(file, prune, TIMEOUT_S) as (client, compare_now):
        replayed = days_of(days, DAYS)
        found = compare_now()
        if found.steps:
            _check(client, found)
        effect = compare(client, found.changes(), replayed) if replayed and found.steps else None
    if language:
        return write(document(found, effect), language)
    _print_difference(found)
    if effect is not None:
        emit(table(effect, replayed))
    return 0


@command.command(
    "apply",
    cls=CommandLine,
    help="Change the cluster to match FILE, in one transaction.",
    examples=(
        ("penstock policy apply site.yaml", "after a question"),
        ("penstock policy apply --yes --prune site.yaml", "without one, and remove what the file does not name"),
    ),
)
@documents
@_prune
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation. Required with --json and --yaml.")
@click.argument("file")
def apply(file: str, prune: bool, yes: bool, language: str) -> int:
    """Prints the difference, asks for confirmation, changes."""
    if language and not yes:
        raise CommandError(f"--{language} asks no question: give --yes too")
    with _comparing(file, prune, APPLY_S, yes) as (client, compare_now):
        found = compare_now()
        if not language:
            _print_difference(found)
        if found.steps:
            _check(client, found)
            if not yes and not confirmed():
                print(" Changes Discarded")  # noqa: T201 (as sacctmgr says it, with its status)
                return 0
            _change(client, found, compare_now)
    if language:
        from cli.subcommands.policysim import document

        return write(document(found, None), language)
    if found.steps:
        print(f"Done: {len(found.steps)} changes in one transaction.")  # noqa: T201
    return 0


def _change(client: Client, found: Difference, compare_now: Compare) -> None:
    try:
        client.call("ChangeMany", ChangeManyRequest(changes=found.changes()))
    except PenstockError as error:
        # A request without an answer may have been made, and its repetition is refused then.
        if not _is_done(compare_now):
            _refuse(error)


def _is_done(compare_now: Compare) -> bool:
    try:
        return not compare_now().steps
    except PenstockError:
        return False


def _print_difference(found: Difference) -> None:
    print("\n".join(lines_of(found)) if found.steps else "The cluster is as the file says: nothing to change.")  # noqa: T201
    if found.unnamed:
        names = ", ".join(name_of(key) for key in found.unnamed[:UNNAMED_SHOWN])
        more = f" and {len(found.unnamed) - UNNAMED_SHOWN} more" if len(found.unnamed) > UNNAMED_SHOWN else ""
        print(f"Not in the file, unchanged (--prune removes them): {names}{more}")  # noqa: T201


def _check(client: Client, found: Difference) -> None:
    """Raises CommandError when the controller would refuse the change."""
    try:
        client.call("ChangeMany", ChangeManyRequest(changes=found.changes(), check_only=True))
    except PenstockError as error:
        _refuse(error)


def _refuse(error: PenstockError) -> NoReturn:
    if isinstance(error, Unreachable):
        raise CommandError(error.text, detail="no answer; `penstock policy plan` shows what is not done yet") from error
    raise CommandError(f"nothing was changed: {error.text}", detail=error.detail) from error
