"""From a line to the request for the controller."""

from collections.abc import Iterable

from cli.accounts.words import ParsedLine
from penstock.v1.shares_pb2 import ChangeAccountsRequest

_Action = ChangeAccountsRequest.Action
ACTIONS = {"add": _Action.ADD, "modify": _Action.MODIFY, "remove": _Action.REMOVE}
#: Conditions that the request has no field of its own for.
_WHERE = ("adminlevel", "defaultaccount", "defaultwckey", "defaultqos", "description", "organization", "qos", "id")


def lowered(names: Iterable[str]) -> list[str]:
    """Names of accounts, each once."""
    return list(dict.fromkeys(name.lower() for name in names))


def request_of(
    verb: str,
    entity: str,
    said: ParsedLine,
    changes: dict[str, str],
    names: list[str] | None = None,
    accounts: list[str] | None = None,
) -> ChangeAccountsRequest:
    """The request of a line; `names` and `accounts` replace those of the line."""
    conditions = said.conditions
    # `partition=""` is a condition: associations for no partition.
    without_partition = [""] if "partition" in conditions and verb != "add" else []
    return ChangeAccountsRequest(
        action=ACTIONS[verb],
        entity=entity,
        names=said.names() if names is None else names,
        accounts=lowered(conditions.get("account", ())) if accounts is None else accounts,
        parents=lowered(conditions.get("parent", ())) if verb != "add" else (),
        partitions=conditions.get("partition", ()) or without_partition,
        users=conditions.get("user", ()),
        changes=changes,
        where={key: ",".join(conditions[key]) for key in _WHERE if key in conditions and verb != "add"},
    )


def coordinators_request(verb: str, users: list[str], accounts: list[str]) -> ChangeAccountsRequest:
    """The request about coordinators of accounts."""
    return ChangeAccountsRequest(action=ACTIONS[verb], entity="coordinator", names=accounts, users=users)


def wckeys_request(verb: str, keys: list[str], users: list[str], changes: dict[str, str]) -> ChangeAccountsRequest:
    """The request about wckeys of users."""
    return ChangeAccountsRequest(action=ACTIONS[verb], entity="wckey", names=keys, users=users, changes=changes)
