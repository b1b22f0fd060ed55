"""sacctmgr add|modify|delete resource: licences that accounting knows, and the part of them that this cluster may use.

A refusal of the controller is printed before any change is reported as made.
"""

from cli.accounts.context import NO_WHERE, ChangeContext, check_cluster
from cli.accounts.requests import ACTIONS
from cli.accounts.words import ParsedLine
from cli.base.run import CommandError
from penstock.client import Client
from penstock.v1.governance_pb2 import ListResourcesRequest, ResourceInfo
from penstock.v1.shares_pb2 import ChangeAccountsRequest
from penstock.values.errors import BadValue
from penstock.values.licenses import LICENSES_MAX
from penstock.values.numbers import parse_int

#: The server of a resource when none is given.
SERVER = "slurmdb"
_NUMBERS = {
    "count": ("Count", LICENSES_MAX),
    "allowed": ("PercentAllowed", 100),
    "lastconsumed": ("LastConsumed", 2**31 - 1),
}


def change_resources(context: ChangeContext, verb: str, said: ParsedLine) -> int:
    """Runs one line."""
    check_cluster(said, context.cluster)
    names = [name.lower() for name in said.names()]
    _check(said.changes)
    if verb == "add" and not names:
        raise CommandError(" Need name of resource to add.", plain=True)
    if verb == "modify" and not said.changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    if verb == "remove" and not said.has_conditions():
        raise CommandError(" No conditions given to remove, not executing.", plain=True)
    if verb == "modify" and not said.has_conditions() and not context.agreed(NO_WHERE):
        print("Aborted")  # noqa: T201
        return 0
    servers = said.conditions.get("server", [])
    if verb == "add" and len(servers) > 1:
        raise CommandError(f" A resource has one server: {','.join(servers)}", plain=True)
    there = _there(context.client, names, servers)
    changes = dict(said.changes)
    if verb == "add":
        server = servers[-1] if servers else SERVER
        known = {(one.name, one.server) for one in there}
        names = [name for name in names if (name, server) not in known]
        if not names:
            print(" Nothing new added.")  # noqa: T201
            return 1
        for key, word in (("type", "type"), ("count", "count")):
            if key not in changes:
                raise CommandError(f" Need to designate a resource {word} to initially add '{names[0]}'.", plain=True)
        changes["server"] = server
        lines = [" Adding Resource(s)", *(f"  {name}@{server}" for name in names)]
        if "cluster" in said.conditions:
            lines.append(f"   Cluster - {context.cluster}\t{changes.get('allowed', '0')}%")
        lines += [" Settings", *_settings(names[-1], changes)]
    elif not there:
        print(" Nothing modified" if verb == "modify" else " Nothing deleted")  # noqa: T201
        return 1
    else:
        head = " Modified server resource ..." if verb == "modify" else " Deleting resource(s)..."
        lines = [head, *(f"  {one.name}@{one.server}" for one in there)]
        names = [one.name for one in there]
    where = {"server": ",".join(servers)} if servers and verb != "add" else {}
    if "cluster" in said.conditions:
        where["cluster"] = context.cluster
    request = ChangeAccountsRequest(action=ACTIONS[verb], entity="resource", names=names, changes=changes, where=where)
    before = " Problem adding system resource: " if verb == "add" else " Error with request: "
    context.send([request], before, True)
    context.put(*lines)
    return context.commit([request], before)


def _check(changes: dict[str, str]) -> None:
    for key, (name, most) in _NUMBERS.items():
        if key in changes:
            try:
                parse_int(changes[key], 0, most, name)
            except BadValue as error:
                raise CommandError(f"Invalid value for {name} ({changes[key]})", detail=str(error)) from None
    kind = changes.get("type", "license").lower()
    if not kind or not "license".startswith(kind):
        raise CommandError(f" Unknown resource type: '{changes['type']}'  Valid resources is License.", plain=True)


def _there(client: Client, names: list[str], servers: list[str]) -> list[ResourceInfo]:
    found = client.call("ListResources", ListResourcesRequest()).resources
    return [one for one in found if (not names or one.name in names) and (not servers or one.server in servers)]


def _settings(name: str, changes: dict[str, str]) -> list[str]:
    rows = (("Name", name), ("Server", changes["server"]), ("Description", changes.get("description", name)),
            ("ServerType", changes.get("servertype", "")),
            ("Count", changes.get("count", "")), ("Type", "License" if "type" in changes else ""))  # fmt: skip
    return [f"  {label:<14} = {value}" for label, value in rows if value]
