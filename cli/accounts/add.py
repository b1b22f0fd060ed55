"""sacctmgr add account, user, coordinator, wckey, cluster."""

from cli.accounts.concerned import added_line, check_there
from cli.accounts.context import ChangeContext, nothing
from cli.accounts.requests import ACTIONS, coordinators_request, lowered, request_of, wckeys_request
from cli.accounts.values import ASSOC_LABELS, describe_settings
from cli.accounts.words import ParsedLine
from cli.base.run import CommandError
from cli.base.users import named
from penstock.clusters import MACHINE_FOLDER, known_clusters
from penstock.v1.shares_pb2 import ChangeAccountsRequest


def add_accounts(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = lowered(said.names())
    if not names:
        raise CommandError(" Need name of account to add.", plain=True)
    tree = context.tree
    parent = changes.get("parent", "").lower()
    if parent and parent not in tree.nodes:
        raise CommandError(
            f" Parent account '{parent}' doesn't exist on cluster {context.cluster}\n        Contact your admin to add "
            f"this account.\n No associations created.",
            plain=True,
        )
    request = request_of("add", "account", said, changes, names=names)
    before = " Problem adding accounts: "
    plan = context.send([request], before, True)[0]
    if not plan.associations and not plan.names:
        return nothing(" Nothing new added.")
    if plan.names:
        context.put(
            " Adding Account(s)",
            *(f"  {name}" for name in plan.names),
            " Settings",
            f"  Description     = {changes.get('description', 'Account Name')}",
            f"  Organization    = {changes.get('organization', 'Parent/Account Name')}",
        )
    if plan.associations:
        context.put(" Associations", *(added_line(context.cluster, one) for one in plan.associations))
    if settings := describe_settings(changes, ASSOC_LABELS, 14):
        context.put(" Settings", *settings)
    return context.commit([request], before)


def add_users(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = said.names()
    accounts = lowered(said.conditions.get("account", ()))
    wckeys = said.conditions.get("wckey", [])
    if not names:
        raise CommandError(" Need name of user to add.", plain=True)
    tree = context.tree
    default = changes.get("defaultaccount", "").lower()
    if default and not accounts:
        accounts = [default]
    new = [name for name in names if name not in tree.users]
    if not accounts and not wckeys:
        raise CommandError(" Need name of account to add user to.", plain=True)
    for account in accounts:
        if account not in tree.nodes:
            print(" Nothing new added.")  # noqa: T201
            raise CommandError(
                f" This account '{account}' doesn't exist.\n        Contact your admin to add this account.", plain=True
            )
    for name in new:
        if named(name) is None and not context.agreed(
            f"There is no uid for user '{name}'\nAre you sure you want to continue?"
        ):
            print(" Changes Discarded")  # noqa: T201
            return 0
    requests = []
    if accounts:
        requests.append(request_of("add", "user", said, changes, accounts=accounts))
    default_key = changes.get("defaultwckey", "")
    if wckeys and default_key:
        wckeys = list(dict.fromkeys((*wckeys, default_key)))
    if wckeys:  # the first one becomes the default of a user without any
        keys = list(dict.fromkeys((default_key, *wckeys))) if default_key else wckeys
        requests.append(wckeys_request("add", keys, names, {}))
    old = [name for name in names if name not in new]
    if default_key and old:
        key = {"defaultwckey": default_key}
        requests.append(ChangeAccountsRequest(action=ACTIONS["modify"], entity="user", names=old, changes=key))
    before = " Problem adding users: "
    plans = context.send(requests, before, True)
    found = plans[0].associations if accounts else ()  # and not those of a user whose default wckey is set
    if not any(plan.names or plan.associations for plan in plans):
        return nothing(" Nothing new added.")
    if new:
        settings = _user_settings(changes)
        context.put(
            " Adding User(s)", *(f"  {name}" for name in new), *((" Settings =", *settings) if settings else ())
        )
    if found:
        context.put(" Associations =", *(added_line(context.cluster, one) for one in found))
    if wckeys:
        lines = (f"  U = {name:<9.9} W = {key:<10.10} C = {context.cluster:<10.10}" for name in names for key in wckeys)
        context.put(" WCKeys =", *lines)
    if accounts:
        context.put(" Non Default Settings", *describe_settings(changes, ASSOC_LABELS, 14))
    return context.commit(requests, before)


def _user_settings(changes: dict[str, str]) -> list[str]:
    rows = (
        ("Default Account", changes.get("defaultaccount", "")),
        ("Default WCKey  ", changes.get("defaultwckey", "")),
        ("Admin Level    ", changes.get("adminlevel", "")),
    )
    return [f"  {label} = {value}" for label, value in rows if value]


def add_coordinators(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    users, accounts = said.names(), lowered(said.conditions.get("account", ()))
    if not users:
        raise CommandError(" You need to specify a user list here.", plain=True)
    if not accounts:
        raise CommandError(" You need to specify an account list here.", plain=True)
    check_there(context.tree, users, accounts)
    request = coordinators_request("add", users, accounts)
    before = " Problem adding coordinator: "
    plan = context.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return nothing(" Nothing new added.")
    context.put(" Adding Coordinator User(s)", *(f"  {name}" for name in users))
    context.put(" To Account(s) and all sub-accounts", *(f"  {name}" for name in accounts))
    return context.commit([request], before)


def add_wckeys(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    keys, users = said.names(), said.conditions.get("user", [])
    if not keys or not users:
        raise CommandError(" Need name of wckey and user to add (add wckey NAME user=USER).", plain=True)
    request = wckeys_request("add", keys, users, changes)
    before = " Problem adding wckeys: "
    plan = context.send([request], before, True)[0]
    if not plan.names:
        return nothing(" Nothing new added.")
    lines = (f"  U = {name:<9.9} W = {key:<10.10} C = {context.cluster:<10.10}" for name in users for key in keys)
    context.put(" WCKeys =", *lines)
    return context.commit([request], before)


def add_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = said.names()
    if not names:
        raise CommandError(" Need name of cluster to add.", plain=True)
    known = known_clusters(context.client.cluster)
    for name in names:
        if name in known:
            return nothing(f" This cluster {name} already exists.  Not adding.")
    raise CommandError(
        " Problem adding clusters: Requested operation not supported on this system", plain=True,
        detail=f"{context.cluster} keeps the accounts of its own cluster; a machine knows another cluster by its cluster file "
        f"in {MACHINE_FOLDER} (docs/clusters.md)",
    )  # fmt: skip
