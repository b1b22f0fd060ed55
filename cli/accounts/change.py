"""sacctmgr add, modify, delete of accounts, users, coordinators, wckeys and the cluster.

The controller first checks a change without making it (check_only); the command prints it in Slurm's words and makes it
after the user confirms (or at once with -i). The line is the request; the controller's answer says which associations
it concerns.
"""

from collections.abc import Callable, Iterable

from cli.accounts.concerned import added_line, changed_line, concerned, deleted_lines, without_default
from cli.accounts.qosnames import check_qos
from cli.accounts.tree import AssociationTree, with_below
from cli.accounts.values import ASSOC_LABELS, checked, describe_settings
from cli.accounts.words import USE_WHERE, ParsedLine
from cli.base.confirm import COMMIT, confirmed
from cli.base.options import OptionValues
from cli.base.refusal import split_message
from cli.base.run import CommandError
from cli.base.users import named
from penstock.client import Client
from penstock.clusters import MACHINE_FOLDER, known_clusters
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest
from penstock.v1.governance_pb2 import Change, ChangeManyReply, ChangeManyRequest
from penstock.v1.shares_pb2 import ChangeAccountsReply, ChangeAccountsRequest
from penstock.values.limits import OF_ASSOC
from penstock.values.refusals import Code

_Action = ChangeAccountsRequest.Action
ACTIONS = {"add": _Action.ADD, "modify": _Action.MODIFY, "remove": _Action.REMOVE}
NO_WHERE = "You didn't set any conditions with 'WHERE'.\nAre you sure you want to continue?"
#: Settings that are the account's or the user's own, not its associations'.
OWN = {"account": frozenset(("description", "organization")),
       "user": frozenset(("adminlevel", "defaultaccount", "defaultwckey", "newname"))}  # fmt: skip
#: Conditions that the request has no field of its own for.
_WHERE = ("adminlevel", "defaultaccount", "defaultwckey", "defaultqos", "description", "organization", "qos", "id")


class ChangeContext:
    """The target and the mode of changes: the common part of all changes of one line."""

    def __init__(self, client: Client, options: OptionValues) -> None:
        self.client = client
        self.options = options
        self.cluster = client.cluster.cluster_name

    def put(self, *lines: str) -> None:
        """Prints what is about to be done; -Q leaves it out."""
        if not self.options.flag("quiet"):
            for line in lines:
                print(line)  # noqa: T201

    def agreed(self, question: str = COMMIT) -> bool:
        """Whether the user confirms; always true with -i."""
        return self.options.flag("immediate") or confirmed(question)

    def commit(self, requests: list[ChangeAccountsRequest], before: str, question: str = COMMIT) -> int:
        """Asks for confirmation and sends: all requests or none."""
        if not self.agreed(question):
            print(" Changes Discarded")  # noqa: T201
            return 0
        self.send(requests, before, False)
        return 0

    def send(self, requests: list[ChangeAccountsRequest], before: str, check_only: bool) -> list[ChangeAccountsReply]:
        """Sends one request by itself, several as one transaction. `before` precedes the text of a refusal."""
        try:
            if len(requests) == 1:
                request = ChangeAccountsRequest()
                request.CopyFrom(requests[0])
                request.check_only = check_only
                return [self.client.call("ChangeAccounts", request)]
            changes = [Change(accounts=request) for request in requests]
            reply: ChangeManyReply = self.client.call(
                "ChangeMany", ChangeManyRequest(changes=changes, check_only=check_only)
            )
            return list(reply.replies)
        except PenstockError as error:
            raise self._refused(error, before, requests[0]) from error

    def _refused(self, error: PenstockError, before: str, request: ChangeAccountsRequest) -> Exception:
        if not error.code:
            return error
        words, detail = split_message(error)
        lines = [f"{before}{words}"]
        if error.code == Code.JOBS_ON_ASSOCIATION and (jobs := self._active_jobs(request)):
            lines += jobs
            detail = ""
        elif error.code == Code.NO_REMOVE_DEFAULT_ACCOUNT and request.entity == "account":
            users = sorted(AssociationTree.load(self.client).users.values(), key=lambda one: one.name)
            lines += [
                f"  C = {self.cluster:<15} A = {one.default_account:<10} U = {one.name:<9}"
                for one in users
                if one.default_account in request.names
            ]
            lines += [
                " Please either remove the accounts listed above from list and resubmit,",
                " or change these users' default accounts to remove the account(s).",
                " Changes Discarded",
            ]
            detail = ""
        elif error.code == Code.NO_REMOVE_DEFAULT_ACCOUNT:
            lines.append(" You must change the default account of these users or remove the users completely from the")
            lines[-1] += " affected clusters to allow these changes.\n Changes Discarded"
        return CommandError("\n".join(lines), plain=True, detail=detail.replace("\n", " "))

    def _active_jobs(self, request: ChangeAccountsRequest) -> list[str]:
        """The active jobs that prevent the removal, of the users and accounts that the request names."""
        names = list(request.names)
        if not names:
            return []
        if request.entity == "user":
            which = JobFilter(users=names, accounts=request.accounts)
        else:
            which = JobFilter(accounts=with_below(AssociationTree.load(self.client), names))
        found = self.client.stream("ListJobs", ListJobsRequest(filter=which))
        jobs = [job for page in found for job in page.jobs][:1000]
        return [
            f"  JobID = {job.job_id:<10} C = {self.cluster:<10} A = {job.request.account:<10} U = {job.user_name:<9}"
            for job in jobs
        ]


def check_cluster(said: ParsedLine, own: str) -> None:
    """Checks the names of clusters in a request to this one: any other name is an error."""
    for name in said.conditions.get("cluster", ()):
        if name != own:
            raise CommandError(
                f" This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )


def run_change(context: ChangeContext, verb: str, entity: str, said: ParsedLine) -> int:
    """Runs one line that changes something."""
    check_cluster(said, context.cluster)
    use_where = "" if (verb, entity) == ("add", "user") else USE_WHERE
    changes = checked(
        said.changes, OF_ASSOC, said.words, lambda key: f"\n Unknown option: {said.words[key]}{use_where}"
    )
    check_qos(context.client, said, changes, use_where)
    return RUN[verb, entity](context, said, changes)


def _nothing(text: str) -> int:
    print(text)  # noqa: T201
    return 1


def _lower(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.lower() for name in names))


def _request(
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
        accounts=_lower(conditions.get("account", ())) if accounts is None else accounts,
        parents=_lower(conditions.get("parent", ())) if verb != "add" else (),
        partitions=conditions.get("partition", ()) or without_partition,
        users=conditions.get("user", ()),
        changes=changes,
        where={key: ",".join(conditions[key]) for key in _WHERE if key in conditions and verb != "add"},
    )


# ---- add ---------------------------------------------------------------------------------------------------------


def _add_accounts(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = _lower(said.names())
    if not names:
        raise CommandError(" Need name of account to add.", plain=True)
    tree = AssociationTree.load(context.client)
    parent = changes.get("parent", "").lower()
    if parent and parent not in tree.nodes:
        raise CommandError(
            f" Parent account '{parent}' doesn't exist on cluster {context.cluster}\n        Contact your admin to add "
            f"this account.\n No associations created.",
            plain=True,
        )
    request = _request("add", "account", said, changes, names=names)
    before = " Problem adding accounts: "
    plan = context.send([request], before, True)[0]
    if not plan.associations and not plan.names:
        return _nothing(" Nothing new added.")
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


def _add_users(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = said.names()
    accounts = _lower(said.conditions.get("account", ()))
    wckeys = said.conditions.get("wckey", [])
    if not names:
        raise CommandError(" Need name of user to add.", plain=True)
    tree = AssociationTree.load(context.client)
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
        requests.append(_request("add", "user", said, changes, accounts=accounts))
    if wckeys:
        requests.append(ChangeAccountsRequest(action=_Action.ADD, entity="wckey", names=wckeys, users=names))
    old = [name for name in names if name not in new]
    if "defaultwckey" in changes and old:
        key = {"defaultwckey": changes["defaultwckey"]}
        requests.append(ChangeAccountsRequest(action=_Action.MODIFY, entity="user", names=old, changes=key))
    before = " Problem adding users: "
    plans = context.send(requests, before, True)
    found = [one for plan in plans for one in plan.associations]
    if not any(plan.names or plan.associations for plan in plans):
        return _nothing(" Nothing new added.")
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


def _add_coordinators(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    users, accounts = said.names(), _lower(said.conditions.get("account", ()))
    if not users:
        raise CommandError(" You need to specify a user list here.", plain=True)
    if not accounts:
        raise CommandError(" You need to specify an account list here.", plain=True)
    _check_there(AssociationTree.load(context.client), users, accounts)
    request = _coordinators("add", users, accounts)
    before = " Problem adding coordinator: "
    plan = context.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return _nothing(" Nothing new added.")
    context.put(" Adding Coordinator User(s)", *(f"  {name}" for name in users))
    context.put(" To Account(s) and all sub-accounts", *(f"  {name}" for name in accounts))
    return context.commit([request], before)


def _coordinators(verb: str, users: list[str], accounts: list[str]) -> ChangeAccountsRequest:
    return ChangeAccountsRequest(action=ACTIONS[verb], entity="coordinator", names=accounts, users=users)


def _check_there(tree: AssociationTree, users: list[str], accounts: list[str]) -> None:
    for name in accounts:
        if name not in tree.nodes:
            raise CommandError(f" You specified a non-existent account '{name}'.", plain=True)
    for name in users:
        if name not in tree.users:
            raise CommandError(f" You specified a non-existent user '{name}'.", plain=True)


def _add_wckeys(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    keys, users = said.names(), said.conditions.get("user", [])
    if not keys or not users:
        raise CommandError(" Need name of wckey and user to add (add wckey NAME user=USER).", plain=True)
    request = ChangeAccountsRequest(action=_Action.ADD, entity="wckey", names=keys, users=users, changes=changes)
    before = " Problem adding wckeys: "
    plan = context.send([request], before, True)[0]
    if not plan.names:
        return _nothing(" Nothing new added.")
    lines = (f"  U = {name:<9.9} W = {key:<10.10} C = {context.cluster:<10.10}" for name in users for key in keys)
    context.put(" WCKeys =", *lines)
    return context.commit([request], before)


def _add_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    names = said.names()
    if not names:
        raise CommandError(" Need name of cluster to add.", plain=True)
    known = known_clusters(context.client.cluster)
    for name in names:
        if name in known:
            raise CommandError(f" This cluster {name} already exists.  Not adding.", plain=True)
    raise CommandError(
        " Problem adding clusters: Requested operation not supported on this system", plain=True,
        detail=f"{context.cluster} keeps the accounts of its own cluster; a machine knows another cluster by its cluster file "
        f"in {MACHINE_FOLDER} (docs/clusters.md)",
    )  # fmt: skip


# ---- modify ------------------------------------------------------------------------------------------------------


def _modify(entity: str) -> Callable[[ChangeContext, ParsedLine, dict[str, str]], int]:
    def run(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
        if not changes:
            raise CommandError(" You didn't give me anything to set", plain=True)
        names = _lower(said.names()) if entity == "account" else said.names()
        if "newname" in changes and len(names) != 1:
            raise CommandError(" If you are changing a users name you can only specify 1 user at a time.", plain=True)
        if not said.has_conditions() and not context.agreed(NO_WHERE):
            print("Aborted")  # noqa: T201
            return 0
        if not said.has_conditions():
            tree = AssociationTree.load(context.client)
            names = sorted(tree.users) if entity == "user" else sorted(set(tree.nodes) - {"root"})
            if not names:
                return _nothing(" Nothing modified")
        if "parent" in changes and changes["parent"].lower() not in AssociationTree.load(context.client).nodes:
            raise CommandError(f" Parent Account {changes['parent']} doesn't exist.", plain=True)
        if lines := without_default(context.client, context.cluster, entity, said, changes, names):
            print("\n".join(lines))  # noqa: T201
            return 1
        request = _request("modify", entity, said, changes, names=names)
        before = " Error with request: "
        plan = context.send([request], before, True)[0]
        if not plan.associations and not plan.names:
            return _nothing(" Nothing modified")
        if set(changes) == {"rawusage"}:
            return context.commit([request], before, "Would you like to reset usage?")
        if set(changes) & OWN[entity]:
            context.put(f" Modified {entity}s...", *(f"  {name}" for name in plan.names))
        if set(changes) - OWN[entity]:
            shown = concerned(context.client, list(plan.associations), changes)
            context.put(f" Modified {entity} associations...", *(changed_line(context.cluster, one) for one in shown))
        return context.commit([request], before)

    return run


def _modify_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not changes:
        raise CommandError(" You didn't give me anything to set", plain=True)
    for key in ("classification", "federation", "fedstate", "flags", "features"):
        if key in changes or f"{key}+" in changes or f"{key}-" in changes:
            raise CommandError(
                " Error with request: Requested operation not supported on this system",
                plain=True,
                detail=f"{key} of a cluster",
            )
    for key, name in (("grptresrunmins", "GrpTRESRunMins"), ("grptresmins", "GrpTRESMins"), ("grpwall", "GrpWall")):
        if key in changes:
            raise CommandError(f"{name} is not a valid option for the root association of a cluster.", plain=True)
    check_cluster(said._replace(conditions={"cluster": said.names()}), context.cluster)
    if not said.names() and not context.agreed(NO_WHERE):
        print("Aborted")  # noqa: T201
        return 0
    request = ChangeAccountsRequest(action=_Action.MODIFY, entity="cluster", names=[context.cluster], changes=changes)
    before = " Error with request: "
    plan = context.send([request], before, True)[0]
    if not plan.associations:
        return _nothing(" Nothing modified")
    shown = concerned(context.client, list(plan.associations), changes)
    context.put(
        " Setting", "  Default Limits:", *describe_settings(changes, ASSOC_LABELS, 14),
        " Modified cluster defaults for associations...", *(changed_line(context.cluster, one) for one in shown),
    )  # fmt: skip
    return context.commit([request], before)


# ---- remove ------------------------------------------------------------------------------------------------------


def _remove(entity: str) -> Callable[[ChangeContext, ParsedLine, dict[str, str]], int]:
    def run(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
        if not said.has_conditions():
            raise CommandError(" No conditions given to remove, not executing.", plain=True)
        if entity == "user" and "wckey" in said.conditions:
            if "account" in said.conditions:
                raise CommandError(" Mixing Account and WCKeys is not allowed", plain=True)
            return _remove_keys(context, said.conditions["wckey"], said.names())
        names = _lower(said.names()) if entity == "account" else said.names()
        if entity == "account" and "root" in names:
            raise CommandError(
                " You are not allowed to remove the root account.\n Use remove cluster instead.", plain=True
            )
        request = _request("remove", entity, said, changes, names=names)
        before = " Error with request: "
        plan = context.send([request], before, True)[0]
        if not plan.names and not plan.associations:
            return _nothing(" Nothing deleted")
        if set(said.conditions) - {"cluster", "name"}:
            context.put(
                f" Deleting {entity} associations...",
                *deleted_lines(context.client, context.cluster, list(plan.associations)),
            )
        else:
            context.put(f" Deleting {entity}s...", *(f"  {name}" for name in plan.names))
        return context.commit([request], before)

    return run


def _remove_keys(context: ChangeContext, keys: list[str], users: list[str]) -> int:
    request = ChangeAccountsRequest(action=_Action.REMOVE, entity="wckey", names=keys, users=users)
    before = " Error with request: "
    plan = context.send([request], before, True)[0]
    if not plan.names:
        return _nothing(" Nothing deleted")
    context.put(" Deleting user WCKeys...", *(f"  {name}" for name in plan.names))
    return context.commit([request], before)


def _remove_wckeys(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not said.has_conditions():
        raise CommandError(" No conditions given to remove, not executing.", plain=True)
    return _remove_keys(context, said.names(), said.conditions.get("user", []))


def _remove_coordinators(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    users, accounts = said.names(), _lower(said.conditions.get("account", ()))
    if not users and not accounts:
        raise CommandError(" You need to specify a user list or an account list here.", plain=True)
    tree = AssociationTree.load(context.client)
    _check_there(tree, users, accounts)
    request = _coordinators("remove", users, accounts)
    before = " Error with request: "
    if users:
        context.put(" Removing Coordinators with user name", *(f"  {name}" for name in users))
        context.put(
            *([" From Account(s)", *(f"  {name}" for name in accounts)] if accounts else [" From all accounts"])
        )
    else:
        context.put(" Removing all users from Accounts", *(f"  {name}" for name in accounts))
    plan = context.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return _nothing(" Nothing removed")
    gone = [
        f"  U = {user:<9.9} A = {account:<10.10}"
        for account in plan.names
        for user in tree.accounts[account].coordinators
        if not users or user in users
    ]
    context.put(" Removed Coordinators (sub accounts not listed)...", *gone)
    return context.commit([request], before)


def _remove_cluster(context: ChangeContext, said: ParsedLine, changes: dict[str, str]) -> int:
    if not said.names():
        raise CommandError("problem with delete request.  Nothing given to delete.", plain=True)
    others = known_clusters(context.client.cluster).keys() - {context.cluster}
    check_cluster(said._replace(conditions={"cluster": sorted(set(said.names()) - others)}), context.cluster)
    raise CommandError(
        " Error with request: Requested operation not supported on this system", plain=True,
        detail=f"to forget another cluster, remove its file from {MACHINE_FOLDER}; to remove accounts: sacctmgr load FILE clean",
    )  # fmt: skip


RUN: dict[tuple[str, str], Callable[[ChangeContext, ParsedLine, dict[str, str]], int]] = {
    ("add", "account"): _add_accounts,
    ("add", "user"): _add_users,
    ("add", "coordinator"): _add_coordinators,
    ("add", "wckey"): _add_wckeys,
    ("add", "cluster"): _add_cluster,
    ("modify", "account"): _modify("account"),
    ("modify", "user"): _modify("user"),
    ("modify", "cluster"): _modify_cluster,
    ("remove", "account"): _remove("account"),
    ("remove", "user"): _remove("user"),
    ("remove", "coordinator"): _remove_coordinators,
    ("remove", "wckey"): _remove_wckeys,
    ("remove", "cluster"): _remove_cluster,
}
