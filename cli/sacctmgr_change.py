"""sacctmgr add, modify, delete of accounts, users, coordinators, wckeys and the cluster.

A change is first asked of the controller without being made (check_only), told in Slurm's words, and made when the
person at the terminal says yes or -i was given. What the line says is the request; which associations that concerns is
the controller's answer.
"""

from collections.abc import Callable, Iterable
from typing import Any

from cli.confirm import COMMIT, confirmed
from cli.refusal import parted
from cli.run import CommandError
from cli.sacctmgr_tree import Tree
from cli.sacctmgr_values import ASSOC_LABELS, checked, told
from cli.sacctmgr_words import Said
from cli.users import named
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest
from penstock.v1.governance_pb2 import Change, ChangeManyReply, ChangeManyRequest
from penstock.v1.shares_pb2 import Association, ChangeAccountsReply, ChangeAccountsRequest
from penstock.values.limits import OF_ASSOC
from penstock.values.refusals import Code

Action = ChangeAccountsRequest.Action
ACTIONS = {"add": Action.ADD, "modify": Action.MODIFY, "remove": Action.REMOVE}
NO_WHERE = "You didn't set any conditions with 'WHERE'.\nAre you sure you want to continue?"
#: Settings that are the account's or the user's own, not its associations'.
OWN = {"account": frozenset(("description", "organization")),
       "user": frozenset(("adminlevel", "defaultaccount", "defaultwckey", "newname"))}  # fmt: skip
#: Conditions that the request has no field of its own for.
_WHERE = ("adminlevel", "defaultaccount", "defaultwckey", "defaultqos", "description", "organization", "qos", "id")


class Asker:
    """Where changes are asked of, and how: what all changes of one line have in common."""

    def __init__(self, client: Client, options: dict[str, Any]) -> None:
        self.client = client
        self.options = options
        self.cluster = client.cluster.cluster_name

    def put(self, *lines: str) -> None:
        """Tell what is about to be done; -Q leaves it out."""
        if not self.options.get("quiet"):
            for line in lines:
                print(line)  # noqa: T201

    def agreed(self, question: str = COMMIT) -> bool:
        """Whether the person wants it; -i says so beforehand."""
        return bool(self.options.get("immediate")) or confirmed(question)

    def commit(self, requests: list[ChangeAccountsRequest], before: str, question: str = COMMIT) -> int:
        """Ask, and do it: all requests or none."""
        if not self.agreed(question):
            print(" Changes Discarded")  # noqa: T201
            return 0
        self.send(requests, before, False)
        return 0

    def send(self, requests: list[ChangeAccountsRequest], before: str, check_only: bool) -> list[ChangeAccountsReply]:
        """One request as it is, several as one transaction. `before` stands before the words of a refusal."""
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
        words, detail = parted(error)
        lines = [f"{before}{words}"]
        if error.code == Code.JOBS_ON_ASSOCIATION:
            lines += self._active_jobs(request)
        elif error.code == Code.NO_REMOVE_DEFAULT_ACCOUNT:
            lines.append(" You must change the default account of these users or remove the users completely from the")
            lines[-1] += " affected clusters to allow these changes.\n Changes Discarded"
        return CommandError("\n".join(lines), plain=True, detail=detail.replace("\n", " "))

    def _active_jobs(self, request: ChangeAccountsRequest) -> list[str]:
        """The jobs that are in the way, as far as the request names whose they are."""
        names = list(request.names)
        if not names:
            return []
        is_user = request.entity == "user"
        which = JobFilter(users=names, accounts=request.accounts) if is_user else JobFilter(accounts=names)
        found = self.client.stream("ListJobs", ListJobsRequest(filter=which))
        jobs = [job for page in found for job in page.jobs][:1000]
        return [
            f"  JobID = {job.job_id:<10} C = {self.cluster:<10} A = {job.request.account:<10} U = {job.user_name:<9}"
            for job in jobs
        ]


def check_cluster(said: Said, own: str) -> None:
    """There is one cluster; another one is a mistake."""
    for name in said.conditions.get("cluster", ()):
        if name != own:
            raise CommandError(
                f" This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )


def run_change(asker: Asker, verb: str, entity: str, said: Said) -> int:
    """One line that changes something."""
    check_cluster(said, asker.cluster)
    changes = checked(said.changes, OF_ASSOC)
    return RUN[verb, entity](asker, said, changes)


def _nothing(text: str) -> int:
    print(text)  # noqa: T201
    return 1


def _lower(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.lower() for name in names))


def _request(verb: str, entity: str, said: Said, changes: dict[str, str], **more: Any) -> ChangeAccountsRequest:
    where = {key: ",".join(said.conditions[key]) for key in _WHERE if key in said.conditions and verb != "add"}
    values: dict[str, Any] = {
        "names": said.names(),
        "accounts": _lower(said.conditions.get("account", ())),
        "parents": _lower(said.conditions.get("parent", ())) if verb != "add" else [],
        "partitions": said.conditions.get("partition", []),
        "users": said.conditions.get("user", []),
    }
    return ChangeAccountsRequest(action=ACTIONS[verb], entity=entity, changes=changes, where=where, **(values | more))


# ---- add ---------------------------------------------------------------------------------------------------------


def _add_accounts(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    names = _lower(said.names())
    if not names:
        raise CommandError(" Need name of account to add.", plain=True)
    tree = Tree.load(asker.client)
    parent = changes.get("parent", "").lower()
    if parent and parent not in tree.nodes:
        raise CommandError(
            f" Parent account '{parent}' doesn't exist on cluster {asker.cluster}\n        Contact your admin to add "
            f"this account.",
            plain=True,
        )
    request = _request("add", "account", said, changes, names=names)
    before = " Problem adding accounts: "
    plan = asker.send([request], before, True)[0]
    if not plan.associations and not plan.names:
        return _nothing(" Nothing new added.")
    if plan.names:
        asker.put(
            " Adding Account(s)",
            *(f"  {name}" for name in plan.names),
            " Settings",
            f"  Description     = {changes.get('description', 'Account Name')}",
            f"  Organization    = {changes.get('organization', 'Parent/Account Name')}",
        )
    if plan.associations:
        asker.put(" Associations", *(_added_line(asker.cluster, one) for one in plan.associations))
    if settings := told(changes, ASSOC_LABELS, 14):
        asker.put(" Settings", *settings)
    return asker.commit([request], before)


def _add_users(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    names, accounts, wckeys = said.names(), _lower(said.conditions.get("account", ())), said.conditions.get("wckey", [])
    if not names:
        raise CommandError(" Need name of user to add.", plain=True)
    tree = Tree.load(asker.client)
    default = changes.get("defaultaccount", "").lower()
    if default and not accounts:
        accounts = [default]
    new = [name for name in names if name not in tree.users]
    if not accounts and not wckeys:
        raise CommandError(" Need name of account to add user to.", plain=True)
    for account in accounts:
        if account not in tree.nodes:
            raise CommandError(
                f" This account '{account}' doesn't exist.\n        Contact your admin to add this account.", plain=True
            )
    for name in new:
        if named(name) is None and not asker.agreed(
            f"There is no uid for user '{name}'\nAre you sure you want to continue?"
        ):
            print(" Changes Discarded")  # noqa: T201
            return 0
    requests = []
    if accounts:
        requests.append(_request("add", "user", said, changes, accounts=accounts))
    if wckeys:
        requests.append(ChangeAccountsRequest(action=Action.ADD, entity="wckey", names=wckeys, users=names))
    old = [name for name in names if name not in new]
    if "defaultwckey" in changes and old:
        key = {"defaultwckey": changes["defaultwckey"]}
        requests.append(ChangeAccountsRequest(action=Action.MODIFY, entity="user", names=old, changes=key))
    before = " Problem adding users: "
    plans = asker.send(requests, before, True)
    found = [one for plan in plans for one in plan.associations]
    if not any(plan.names or plan.associations for plan in plans):
        return _nothing(" Nothing new added.")
    if new:
        asker.put(" Adding User(s)", *(f"  {name}" for name in new), " Settings =", *_user_settings(changes, accounts))
    if found:
        asker.put(" Associations =", *(_added_line(asker.cluster, one) for one in found))
    if wckeys:
        lines = (f"  U = {name:<9.9} W = {key:<10.10} C = {asker.cluster:<10.10}" for name in names for key in wckeys)
        asker.put(" WCKeys =", *lines)
    if settings := told(changes, ASSOC_LABELS, 14):
        asker.put(" Non Default Settings", *settings)
    return asker.commit(requests, before)


def _user_settings(changes: dict[str, str], accounts: list[str]) -> list[str]:
    default = changes.get("defaultaccount") or (accounts[0] if accounts else "")
    rows = (
        ("Default Account", default),
        ("Default WCKey  ", changes.get("defaultwckey", "")),
        ("Admin Level    ", changes.get("adminlevel", "")),
    )
    return [f"  {label} = {value}" for label, value in rows if value]


def _added_line(cluster: str, one: Association) -> str:
    where = f"A = {one.account:<10.10} C = {cluster:<10.10}"
    if not one.user:
        return f"  {where}"
    return f"  U = {one.user:<9.9} {where}" + (f" P = {one.partition:<10.10}" if one.partition else "")


def _add_coordinators(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    users, accounts = said.names(), _lower(said.conditions.get("account", ()))
    if not users:
        raise CommandError(" You need to specify a user list here.", plain=True)
    if not accounts:
        raise CommandError(" You need to specify an account list here.", plain=True)
    _check_there(Tree.load(asker.client), users, accounts)
    request = _coordinators("add", users, accounts)
    before = " Problem adding coordinator: "
    plan = asker.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return _nothing(" Nothing new added.")
    asker.put(" Adding Coordinator User(s)", *(f"  {name}" for name in users))
    asker.put(" To Account(s) and all sub-accounts", *(f"  {name}" for name in accounts))
    return asker.commit([request], before)


def _coordinators(verb: str, users: list[str], accounts: list[str]) -> ChangeAccountsRequest:
    return ChangeAccountsRequest(action=ACTIONS[verb], entity="coordinator", names=accounts, users=users)


def _check_there(tree: Tree, users: list[str], accounts: list[str]) -> None:
    for name in accounts:
        if name not in tree.nodes:
            raise CommandError(f" You specified a non-existent account '{name}'.", plain=True)
    for name in users:
        if name not in tree.users:
            raise CommandError(f" You specified a non-existent user '{name}'.", plain=True)


def _add_wckeys(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    keys, users = said.names(), said.conditions.get("user", [])
    if not keys or not users:
        raise CommandError(" Need name of wckey and user to add (add wckey NAME user=USER).", plain=True)
    request = ChangeAccountsRequest(action=Action.ADD, entity="wckey", names=keys, users=users, changes=changes)
    before = " Problem adding wckeys: "
    plan = asker.send([request], before, True)[0]
    if not plan.names:
        return _nothing(" Nothing new added.")
    lines = (f"  U = {name:<9.9} W = {key:<10.10} C = {asker.cluster:<10.10}" for name in users for key in keys)
    asker.put(" WCKeys =", *lines)
    return asker.commit([request], before)


def _add_cluster(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    names = said.names()
    if not names:
        raise CommandError(" Need name of cluster to add.", plain=True)
    for name in names:
        if name == asker.cluster:
            raise CommandError(f" This cluster {name} already exists.  Not adding.", plain=True)
    raise CommandError(
        " Problem adding clusters: Requested operation not supported on this system", plain=True,
        detail=f"a Penstock controller keeps the accounts of its own cluster, which is {asker.cluster}",
    )  # fmt: skip


# ---- modify ------------------------------------------------------------------------------------------------------


def _modify(entity: str) -> Callable[[Asker, Said, dict[str, str]], int]:
    def run(asker: Asker, said: Said, changes: dict[str, str]) -> int:
        if not changes:
            raise CommandError(" You didn't give me anything to set", plain=True)
        names = _lower(said.names()) if entity == "account" else said.names()
        if "newname" in changes and len(names) != 1:
            raise CommandError(" If you are changing a users name you can only specify 1 user at a time.", plain=True)
        if not said.has_conditions() and not asker.agreed(NO_WHERE):
            print("Aborted")  # noqa: T201
            return 0
        if not said.has_conditions():
            tree = Tree.load(asker.client)
            names = sorted(tree.users) if entity == "user" else sorted(set(tree.nodes) - {"root"})
            if not names:
                return _nothing(" Nothing modified")
        request = _request("modify", entity, said, changes, names=names)
        before = " Error with request: "
        plan = asker.send([request], before, True)[0]
        if not plan.associations and not plan.names:
            return _nothing(" Nothing modified")
        if set(changes) == {"rawusage"}:
            return asker.commit([request], before, "Would you like to reset usage?")
        if set(changes) & OWN[entity]:
            asker.put(f" Modified {entity}s...", *(f"  {name}" for name in plan.names))
        if set(changes) - OWN[entity]:
            asker.put(f" Modified {entity} associations...", *(_line(asker.cluster, one) for one in plan.associations))
        return asker.commit([request], before)

    return run


def _line(cluster: str, one: Association) -> str:
    if one.user:
        text = f"  C = {cluster:<10} A = {one.account:<20} U = {one.user:<9}"
        return f"{text} P = {one.partition}" if one.partition else text
    return (
        f"  C = {cluster:<10} A = {one.account} of {one.parent}"
        if one.parent
        else f"  C = {cluster:<10} A = {one.account}"
    )


def _modify_cluster(asker: Asker, said: Said, changes: dict[str, str]) -> int:
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
    check_cluster(said._replace(conditions={"cluster": said.names()}), asker.cluster)
    if not said.names() and not asker.agreed(NO_WHERE):
        print("Aborted")  # noqa: T201
        return 0
    request = ChangeAccountsRequest(action=Action.MODIFY, entity="cluster", names=[asker.cluster], changes=changes)
    before = " Error with request: "
    plan = asker.send([request], before, True)[0]
    if not plan.associations:
        return _nothing(" Nothing modified")
    asker.put(
        " Modified cluster defaults for associations...", *(_line(asker.cluster, one) for one in plan.associations)
    )
    return asker.commit([request], before)


# ---- remove ------------------------------------------------------------------------------------------------------


def _remove(entity: str) -> Callable[[Asker, Said, dict[str, str]], int]:
    def run(asker: Asker, said: Said, changes: dict[str, str]) -> int:
        if not said.has_conditions():
            raise CommandError(" No conditions given to remove, not executing.", plain=True)
        if entity == "user" and "wckey" in said.conditions:
            if "account" in said.conditions:
                raise CommandError(" Mixing Account and WCKeys is not allowed", plain=True)
            return _remove_keys(asker, said.conditions["wckey"], said.names())
        names = _lower(said.names()) if entity == "account" else said.names()
        if entity == "account" and "root" in names:
            raise CommandError(
                " You are not allowed to remove the root account.\n Use remove cluster instead.", plain=True
            )
        request = _request("remove", entity, said, changes, names=names)
        before = " Error with request: "
        plan = asker.send([request], before, True)[0]
        if not plan.names and not plan.associations:
            return _nothing(" Nothing deleted")
        if set(said.conditions) - {"cluster", "name"}:
            asker.put(f" Deleting {entity} associations...", *(_line(asker.cluster, one) for one in plan.associations))
        else:
            asker.put(f" Deleting {entity}s...", *(f"  {name}" for name in plan.names))
        return asker.commit([request], before)

    return run


def _remove_keys(asker: Asker, keys: list[str], users: list[str]) -> int:
    request = ChangeAccountsRequest(action=Action.REMOVE, entity="wckey", names=keys, users=users)
    before = " Error with request: "
    plan = asker.send([request], before, True)[0]
    if not plan.names:
        return _nothing(" Nothing deleted")
    asker.put(" Deleting user WCKeys...", *(f"  {name}" for name in plan.names))
    return asker.commit([request], before)


def _remove_wckeys(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    if not said.has_conditions():
        raise CommandError(" No conditions given to remove, not executing.", plain=True)
    return _remove_keys(asker, said.names(), said.conditions.get("user", []))


def _remove_coordinators(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    users, accounts = said.names(), _lower(said.conditions.get("account", ()))
    if not users and not accounts:
        raise CommandError(" You need to specify a user list or an account list here.", plain=True)
    _check_there(Tree.load(asker.client), users, accounts)
    request = _coordinators("remove", users, accounts)
    before = " Error with request: "
    plan = asker.send([request], before, True)[0]
    if not plan.names and not plan.associations:
        return _nothing(" Nothing removed")
    if users:
        asker.put(" Removing Coordinators with user name", *(f"  {name}" for name in users))
        asker.put(*([" From Account(s)", *(f"  {name}" for name in accounts)] if accounts else [" From all accounts"]))
    else:
        asker.put(" Removing all users from Accounts", *(f"  {name}" for name in accounts))
    return asker.commit([request], before)


def _remove_cluster(asker: Asker, said: Said, changes: dict[str, str]) -> int:
    if not said.names():
        raise CommandError("problem with delete request.  Nothing given to delete.", plain=True)
    check_cluster(said._replace(conditions={"cluster": said.names()}), asker.cluster)
    raise CommandError(
        " Error with request: Requested operation not supported on this system", plain=True,
        detail="the cluster is the controller's own; its accounts are removed with: sacctmgr load FILE clean",
    )  # fmt: skip


RUN: dict[tuple[str, str], Callable[[Asker, Said, dict[str, str]], int]] = {
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
