"""sacctmgr load FILE [clean] [cluster=NAME]: compares a flat file with the cluster, shows the changes, and makes them
as one transaction.

Without `clean` nothing is removed and only what the file names is changed. With it the accounts are afterwards exactly
those of the file; unlike Slurm, which removes everything first, what remains keeps its usage and its running jobs.
Default accounts are set after all associations exist, removals come last.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cli.accounts.context import ChangeContext
from cli.accounts.dump import wckeys_of
from cli.accounts.file import FILE_BYTES_MAX, AccountsFile, DumpLine, read_file
from cli.accounts.requests import ACTIONS
from cli.accounts.tree import DEFAULT_QOS, AssociationTree
from cli.accounts.words import Grammar, keywords, read_line
from cli.base.account_tree import ROOT
from cli.base.confirm import COMMIT
from cli.base.run import CommandError
from penstock.boundedfile import read_bounded
from penstock.v1.shares_pb2 import Association, ChangeAccountsRequest
from penstock.values.limits import NO_LIMITS, OF_ASSOC, LimitKind, change, from_texts, get, texts

_GRAMMAR = Grammar(keywords("File:1>name Clusters:3>cluster"), flags=keywords("Clean:3"), use_set=False)
FLUSH = "You requested to flush the cluster before adding it again.\nAre you sure you want to continue?"


class LoadStep(NamedTuple):
    """One change, and the line that describes it."""

    request: ChangeAccountsRequest
    line: str


def load(context: ChangeContext, words: list[str]) -> int:
    """Handles `load`."""
    said = read_line(words, _GRAMMAR, "show")
    names = said.names()
    if not names:
        raise CommandError(" No filename given, specify one with file=''", plain=True)
    if len(names) > 1:
        raise CommandError(f" File name already set to {names[0]}", plain=True)
    text = _read(names[0])
    tree = context.tree
    clean = "clean" in said.flags
    there = frozenset() if clean else frozenset(tree.accounts)
    file = read_file(text, there)
    cluster = (said.conditions.get("cluster") or [file.cluster])[-1]
    if cluster != context.cluster:
        raise CommandError(
            f" This cluster '{cluster}' doesn't exist.\n        Contact your admin to add it to accounting.", plain=True,
            detail=f"the controller's cluster is {context.cluster}: "
            f"load with cluster={context.cluster} to put these accounts there",
        )  # fmt: skip
    if clean and not context.agreed(FLUSH):
        print(" Changes Discarded")  # noqa: T201
        return 0
    steps = list(plan(tree, file, wckeys_of(context.client, tree), clean))
    context.put(f"For cluster {cluster}")
    if not steps:
        print(" Nothing new added.")  # noqa: T201
        return 0
    before = " Problem with requests: "
    requests = [step.request for step in steps]
    context.put(*(step.line for step in steps if step.line))
    context.send(requests, before, True)
    return context.commit(requests, before, COMMIT)


def _read(name: str) -> str:
    try:
        data = read_bounded(name, FILE_BYTES_MAX)
    except OSError as error:
        raise CommandError(f' Unable to read "{name}": {error.strerror}', plain=True) from error
    text = data.decode("utf-8", "surrogateescape")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise CommandError(f" Problem with line({line}): a NUL byte; this is not a text file", plain=True)
    for number, line_text in enumerate(text.split("\n"), 1):
        if any("\udc80" <= char <= "\udcff" for char in line_text):
            raise CommandError(f" Problem with line({number}): it is not valid UTF-8", plain=True)
    return text


# ---- the changes -------------------------------------------------------------------------------------------------


def plan(tree: AssociationTree, file: AccountsFile, wckeys: dict[str, list[str]], clean: bool) -> Iterator[LoadStep]:
    """Plans all changes, in an order in which they can be made."""
    root = tree.nodes.get(ROOT)
    if root is not None and (changes := difference(root, file.settings, clean)):
        yield LoadStep(
            _request("modify", "cluster", [], changes), _describe("Changed", "Cluster", file.cluster, changes)
        )
    for entry in file.accounts:
        yield from _account(tree, entry, clean)
    there = {(one.user, one.account, one.partition): one for one in reversed(tree.whole.associations)}
    places: dict[str, list[str]] = {}
    firsts: dict[str, DumpLine] = {}
    for entry in file.users:
        firsts.setdefault(entry.name, entry)
        places.setdefault(entry.name, []).append(entry.parent)
        yield from _association(there.get((entry.name, entry.parent, entry.partition)), entry, clean)
    for entry in firsts.values():
        yield from _user(tree, entry, places[entry.name], wckeys, clean)
    if clean:
        yield from _removed(tree, file)


def _account(tree: AssociationTree, entry: DumpLine, clean: bool) -> Iterator[LoadStep]:
    node, info = tree.nodes.get(entry.name), tree.accounts.get(entry.name)
    if node is None or info is None or node.made_by_itself:
        changes = {"parent": entry.parent} | entry.own | entry.settings
        yield LoadStep(
            _request("add", "account", [entry.name], changes), _describe("Adding", "Account", entry.name, changes)
        )
        return
    changes = difference(node, entry.settings, clean)
    if node.parent != entry.parent:
        changes["parent"] = entry.parent
    changes |= {key: value for key, value in entry.own.items() if getattr(info, key) != value}
    if changes:
        yield LoadStep(
            _request("modify", "account", [entry.name], changes), _describe("Changed", "Account", entry.name, changes)
        )


def _association(found: Association | None, entry: DumpLine, clean: bool) -> Iterator[LoadStep]:
    name = f"{entry.name}@{entry.parent}" + (f"/{entry.partition}" if entry.partition else "")
    partitions = [entry.partition] if entry.partition else []
    if found is None or found.made_by_itself:
        request = _request("add", "user", [entry.name], entry.settings, [entry.parent], partitions)
        yield LoadStep(request, _describe("Adding", "User", name, entry.settings))
    elif changes := difference(found, entry.settings, clean):
        yield LoadStep(_only(found, "modify", changes), _describe("Changed", "User", name, changes))


def _only(one: Association, verb: str, changes: dict[str, str]) -> ChangeAccountsRequest:
    """A change of one association of a user, leaving their others in the same account alone."""
    request = _request(verb, "user", [one.user], changes, [one.account])
    request.where["id"] = str(one.id)
    return request


def _user(
    tree: AssociationTree, entry: DumpLine, places: list[str], wckeys: dict[str, list[str]], clean: bool
) -> Iterator[LoadStep]:
    """Changes of the user record itself, after its associations exist. `places`: the user's accounts in the file."""
    info = tree.users.get(entry.name)
    keys = [key for key in _words(entry.own.get("wckeys", "")) if key not in wckeys.get(entry.name, ())]
    if keys:
        request = ChangeAccountsRequest(action=ACTIONS["add"], entity="wckey", names=keys, users=[entry.name])
        yield LoadStep(request, f" Adding WCKey(s) '{','.join(keys)}' for user '{entry.name}'")
    now = {
        "defaultaccount": (info.default_account if info is not None else "") or places[0],
        "defaultwckey": info.default_wckey if info is not None else "",
        "adminlevel": (info.admin_level if info is not None else "") or "None",
    }
    wanted = dict(entry.own)
    if clean and now["defaultaccount"] not in places:
        wanted.setdefault("defaultaccount", places[0])
    changes = {key: wanted[key] for key, value in now.items() if key in wanted and wanted[key] != value}
    if changes:
        yield LoadStep(
            _request("modify", "user", [entry.name], changes), _describe("Changed", "User", entry.name, changes)
        )
    has = set(info.coordinator_of) if info is not None else set()
    if accounts := [name for name in _words(entry.own.get("coordinator", "").lower()) if name not in has]:
        request = ChangeAccountsRequest(action=ACTIONS["add"], entity="coordinator", names=accounts, users=[entry.name])
        yield LoadStep(request, f" Making User '{entry.name}' coordinator for account(s) '{','.join(accounts)}'")


def _removed(tree: AssociationTree, file: AccountsFile) -> Iterator[LoadStep]:
    """Removals of what the file lacks: users, or single associations of theirs, then accounts, children first. Root's
    own association stays: Slurm removes the cluster, and it comes back with it."""
    wanted = {(entry.name, entry.parent, entry.partition) for entry in file.users}
    own = {(ROOT, ROOT, "")} & {(one.user, one.account, one.partition) for one in tree.whole.associations}
    kept = {entry.name for entry in file.users} | {user for user, _, _ in own}
    if own and ROOT not in {entry.name for entry in file.users} and tree.users[ROOT].default_account != ROOT:
        changes = {"defaultaccount": ROOT}
        yield LoadStep(_request("modify", "user", [ROOT], changes), _describe("Changed", "User", ROOT, changes))
    wanted |= own
    accounts = {entry.name for entry in file.accounts}
    gone: set[str] = set()
    for one in tree.whole.associations:
        if not one.user or (one.user, one.account, one.partition) in wanted or one.user in gone:
            continue
        if one.user in kept:
            yield LoadStep(_only(one, "remove", {}), f" Removing User    {one.user}@{one.account}".rstrip())
        else:
            gone.add(one.user)
            yield LoadStep(_request("remove", "user", [one.user], {}), f" Removing User    {one.user}")
    for one in reversed(tree.whole.associations):
        if not one.user and one.parent and one.account not in accounts:
            yield LoadStep(_request("remove", "account", [one.account], {}), f" Removing Account {one.account}")


def difference(one: Association, wanted: dict[str, str], clean: bool) -> dict[str, str]:
    """The settings that turn `one` into the wanted state; with `clean` all others are reset."""
    now = from_texts(one.limits)
    changes: dict[str, str] = {}
    for limit in {limit.name: limit for limit in OF_ASSOC.values()}.values():
        text = wanted.get(limit.name)
        if text is None:
            if clean and limit.name in texts(now):
                changes[limit.name] = "-1"
            continue
        after = change(NO_LIMITS if clean else now, limit, text)
        if get(after, limit) != get(now, limit):
            gone = (
                set(dict(get(now, limit))) - set(dict(get(after, limit)))
                if limit.kind is LimitKind.TRES and clean
                else set()
            )
            changes[limit.name] = (
                ",".join([*([text] if text else []), *(f"{name}=-1" for name in sorted(gone))]) or "-1"
            )
    rest = {
        "fairshare": ("parent" if one.shares < 0 else str(one.shares), "1"),
        "priority": (str(one.priority), "0"),
        "defaultqos": (one.default_qos, ""),
        "budget": (one.budget, ""),
    }
    for key, (value, nothing) in rest.items():
        text = wanted.get(key, nothing if clean else value)
        if _plain(text, nothing) != _plain(value, nothing):
            changes[key] = text or "-1"
    return changes | _qos_difference(one, wanted, clean)


def _plain(text: str, nothing: str) -> str:
    return nothing if text in ("-1", "") else str(int(text)) if text.isascii() and text.isdigit() else text.lower()


def _qos_difference(one: Association, wanted: dict[str, str], clean: bool) -> dict[str, str]:
    own = set(one.own_qos or ([] if one.parent or one.user else DEFAULT_QOS))
    if "qos" in wanted or (clean and not {"qos+", "qos-"} & set(wanted)):
        names = _words(wanted.get("qos", ""))
        return {} if set(names) == own else {"qos": ",".join(names)}
    found = {}
    if more := [name for name in _words(wanted.get("qos+", "")) if name not in own]:
        found["qos+"] = ",".join(more)
    if less := [name for name in _words(wanted.get("qos-", "")) if name in (own or set(one.qos))]:
        found["qos-"] = ",".join(less)
    return found


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word for word in (part.strip() for part in text.split(",")) if word))


def _request(
    verb: str,
    entity: str,
    names: list[str],
    changes: dict[str, str],
    accounts: list[str] | None = None,
    partitions: list[str] | None = None,
) -> ChangeAccountsRequest:
    return ChangeAccountsRequest(
        action=ACTIONS[verb], entity=entity, names=names, changes=changes, accounts=accounts, partitions=partitions
    )


def _describe(doing: str, kind: str, name: str, changes: dict[str, str]) -> str:
    """` Changed Account physics     Fairshare=5 GrpJobs=9`."""
    settings = " ".join(f"{key}={value}" for key, value in sorted(changes.items()))
    return f" {doing:<8} {kind:<7} {name:<20} {settings}".rstrip()
