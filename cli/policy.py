"""penstock policy export|plan|apply: accounts, users, QOS, limits and shares from one file under version control.

    penstock policy export >site.yaml
    penstock policy plan site.yaml
    penstock policy apply site.yaml

plan shows the difference, and by replaying the last days' jobs and the live queue through the simulator what it would do
to waiting times (policysim.py). apply is one transaction: all of it, or nothing.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from cli.confirm import confirmed
from cli.options import YES, Command, Option, parse
from cli.policydiff import Difference, difference, lines_of, name_of
from cli.policyfile import read_policy
from cli.policystate import cluster_policy, to_yaml
from cli.run import CommandError
from penstock.client import TIMEOUT_S, Client
from penstock.errors import PenstockError, Unreachable
from penstock.v1.governance_pb2 import ChangeManyRequest

#: Entities that are told one by one of those that the file does not name.
UNNAMED_SHOWN = 10
DAYS = 7
#: How long apply waits for an answer: a large change takes seconds, and with --yes it outlasts a restart of the controller.
APPLY_S: Final = 60.0

_PRUNE = Option("prune", help="remove what the file does not name")
COMMAND = Command(
    "penstock policy",
    "export | plan FILE | apply FILE",
    (
        _PRUNE,
        Option(
            "days",
            value=YES,
            metavar="days",
            help=f"plan: replay the jobs of so many days, {DAYS} if not given; 0 = none",
        ),
        Option("yes", "y", help="apply: do not ask"),
        Option("json", help="plan: print the difference and the waiting times as JSON"),
    ),
)


def main(argv: list[str]) -> int:
    """Entry point."""
    line = parse(COMMAND, argv)
    words = line.positional
    if words == ["export"]:
        with Client.open() as client:
            print(to_yaml(cluster_policy(client)), end="")  # noqa: T201
        return 0
    if len(words) != 2 or words[0] not in ("plan", "apply"):
        raise CommandError("expected export, plan FILE or apply FILE")
    patient = words[0] == "apply" and bool(line.values.get("yes"))
    with Client.open(APPLY_S if words[0] == "apply" else TIMEOUT_S, retry=patient) as client:
        wanted = read_policy(words[1])
        if wanted.cluster and wanted.cluster != client.cluster.cluster_name:
            raise CommandError(f"{words[1]} is for cluster {wanted.cluster}, this is {client.cluster.cluster_name}")
        prune = bool(line.values.get("prune"))
        return _WAYS[words[0]](client, lambda: difference(cluster_policy(client), wanted, prune), line.values)


#: What is still to be done, asked of the controller.
Look = Callable[[], Difference]


def _plan(client: Client, look: Look, options: dict[str, Any]) -> int:
    from cli.policysim import compare, days_of, document, table

    days = days_of(options.get("days"), DAYS)
    found = look()
    if found.steps:
        _check(client, found)
    effect = compare(client, found.changes(), days) if days and found.steps else None
    if options.get("json"):
        print(document(found, effect))  # noqa: T201
        return 0
    _tell(found)
    if effect is not None:
        print("\n".join(table(effect, days)))  # noqa: T201
    return 0


def _apply(client: Client, look: Look, options: dict[str, Any]) -> int:
    found = look()
    _tell(found)
    if not found.steps:
        return 0
    _check(client, found)
    if not options.get("yes") and not confirmed():
        print(" Changes Discarded")  # noqa: T201 (as sacctmgr says it, with its status)
        return 0
    try:
        client.call("ChangeMany", ChangeManyRequest(changes=found.changes()))
    except PenstockError as error:
        # A request that got no answer may have been made, and one that was sent again is refused then.
        if not _is_done(look):
            _refuse(error)
    print(f"Done: {len(found.steps)} changes in one transaction.")  # noqa: T201
    return 0


def _is_done(look: Look) -> bool:
    try:
        return not look().steps
    except PenstockError:
        return False


_WAYS = {"plan": _plan, "apply": _apply}


def _tell(found: Difference) -> None:
    print("\n".join(lines_of(found)) if found.steps else "The cluster is as the file says: nothing to change.")  # noqa: T201
    if found.unnamed:
        told = ", ".join(name_of(key) for key in found.unnamed[:UNNAMED_SHOWN])
        more = f" and {len(found.unnamed) - UNNAMED_SHOWN} more" if len(found.unnamed) > UNNAMED_SHOWN else ""
        print(f"Not in the file, left as they are (--prune removes them): {told}{more}")  # noqa: T201


def _check(client: Client, found: Difference) -> None:
    """Raise CommandError when it would be refused."""
    try:
        client.call("ChangeMany", ChangeManyRequest(changes=found.changes(), check_only=True))
    except PenstockError as error:
        _refuse(error)


def _refuse(error: PenstockError) -> NoReturn:
    if isinstance(error, Unreachable):
        raise CommandError(
            error.text, detail="nobody answers; `penstock policy plan` says what is not done yet"
        ) from error
    raise CommandError(f"nothing was changed: {error.text}", detail=error.detail) from error
