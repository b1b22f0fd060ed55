"""sacctmgr add, modify, delete of accounts and users: the tree of shares changed by administrators.

Each pair of action and entity is one function that only reads: it finds out what is to be done, or refuses, and returns
that as steps. With `check_only` the answer is what would be done (sacctmgr shows it and asks), else the steps are taken.
What is there already is not added again; what made itself (assocs.py) counts as not there, and is taken over with the
usage it has.

Removing refuses while jobs of the association are active, as Slurm does. The accounting issue extends the table of keys
(limits, QOS) and the entities.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ctld.core.assocs import find
from ctld.core.decay import USAGE_ONE
from ctld.core.effects import Changed, Refused
from ctld.core.events import AccountAction, ChangeAccounts, Role
from ctld.core.fairshare import DEPTH_MAX, PARENT_SHARES, ROOT, SHARES_MAX, AccountRow, Assoc, UserRow
from ctld.core.priority import calculate_soon
from ctld.core.rights import require_role
from ctld.core.state import ClusterState
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES
from penstock.values.text import check_name, shown

#: Associations of a cluster: far more than any site has; a ranking of so many takes a second.
ASSOCS_MAX = 100_000
#: Names in one request.
NAMES_MAX = 10_000
NAME_CHARS_MAX = 128
PRIORITY_MAX = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+$-]*")

Step = Callable[[ClusterState, int], None]


class Plan(NamedTuple):
    """What is to be done: the names and associations it is about, and the steps."""

    names: tuple[str, ...] = ()
    assocs: tuple[tuple[str, str, str], ...] = ()  # (account, user, parent)
    steps: tuple[Step, ...] = ()


def change_accounts(state: ClusterState, now_us: int, event: ChangeAccounts) -> None:
    """sacctmgr add, modify, delete. Raises Refused."""
    require_role(event.actor, Role.ADMINISTRATOR, "to change accounts")
    if len(event.names) > NAMES_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(event.names)} names, the limit is {NAMES_MAX}")
    planner = PLANNERS.get((event.action, event.entity))
    if planner is None:
        raise Refused(Code.NOT_SUPPORTED, f"{event.action.name.lower()} {event.entity}")
    try:
        plan = planner(state, event, _values(event))
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    body = Changed(plan.names, plan.assocs)
    if event.check_only:
        state.reply(event.reply_to, body)
        return
    # -- apply
    for step in plan.steps:
        step(state, now_us)
    if plan.steps:
        state.rules_changed()
        calculate_soon(state, now_us)
    state.reply(event.reply_to, body)


# ---- reading -----------------------------------------------------------------------------------------------------


def _shares(text: str) -> int:
    return PARENT_SHARES if text.lower() == "parent" else parse_int(text, 0, SHARES_MAX, "fairshare")


def _raw_usage(text: str) -> int:
    return parse_int(text, 0, 0, "rawusage")


def _account_name(text: str) -> str:
    return _checked(text.lower(), "account name")


def _checked(text: str, what: str) -> str:
    if len(text) > NAME_CHARS_MAX or not _NAME.fullmatch(text):
        raise BadValue(f"Invalid {what}: {shown(text)}")
    return text


KEYS: dict[str, Callable[[str], Any]] = {
    "fairshare": _shares,
    "priority": lambda text: parse_int(text, 0, PRIORITY_MAX, "priority"),
    "parent": _account_name,
    "defaultaccount": _account_name,
    "description": lambda text: check_name(text, "description", 255),
    "organization": lambda text: check_name(text, "organization", 255),
    "rawusage": _raw_usage,
}
_OF_ENTITY = {
    "account": frozenset(("fairshare", "priority", "parent", "description", "organization", "rawusage")),
    "user": frozenset(("fairshare", "priority", "defaultaccount", "rawusage")),
}


def _values(event: ChangeAccounts) -> dict[str, Any]:
    """The changes, read. Raises Refused or BadValue."""
    found = {}
    for name, text in event.changes.items():
        if name not in KEYS or name not in _OF_ENTITY.get(event.entity, ()):
            raise Refused(Code.NOT_SUPPORTED, f"{name}= is not supported for a {event.entity} yet")
        try:
            found[name] = KEYS[name](text)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, str(error)) from None
    return found


def _account(state: ClusterState, name: str) -> Assoc:
    found = state.shares.accounts.get(name)
    if found is None:
        raise Refused(Code.INVALID_ACCOUNT, f"This account '{name}' doesn't exist")
    return found


def _room(state: ClusterState, number: int) -> None:
    if len(state.shares.by_id) + number > ASSOCS_MAX:
        raise Refused(Code.INVALID_VALUE, f"more than {ASSOCS_MAX} associations")


# ---- accounts ----------------------------------------------------------------------------------------------------


def _add_accounts(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    tree = state.shares
    names = [_account_name(name) for name in event.names]
    new = [n for n in dict.fromkeys(names) if n not in tree.accounts or tree.accounts[n].made_by_itself]
    parent = _account(state, values.get("parent", ROOT))
    _check_parent(new, parent, tree.accounts)
    _room(state, len(new))

    def one(name: str) -> Step:
        def step(state: ClusterState, now_us: int) -> None:
            about = AccountRow(name, values.get("description", name), values.get("organization", parent.account))
            state.shares.about[name] = state.dirty_accounts[name] = about
            assoc = tree.accounts.get(name)
            if assoc is None:
                assoc = tree.add(name, "", parent)
                assoc.at_us = now_us
            else:
                state.own_accounts -= 1
                tree.move(assoc, parent)
            _set(state, assoc, values, now_us)

        return step

    assocs = tuple((name, "", parent.account) for name in new)
    return Plan(tuple(new), assocs, tuple(one(name) for name in new))


def _check_parent(names: Iterable[str], parent: Assoc, accounts: dict[str, Assoc]) -> None:
    """An account may not come below itself, nor the tree become too deep."""
    depth, at = 0, parent
    while at.parent is not None:
        depth, at = depth + 1, at.parent
    for name in names:
        account = accounts.get(name)
        if account is not None and _is_below(parent, account):
            raise Refused(Code.INVALID_ACCOUNT, f"{parent.account} is below {name}")
        if depth + 1 + (_height(account) if account is not None else 0) > DEPTH_MAX:
            raise Refused(Code.INVALID_VALUE, f"more than {DEPTH_MAX} accounts below one another")


def _is_below(assoc: Assoc, above: Assoc) -> bool:
    """True also for the association itself."""
    at: Assoc | None = assoc
    while at is not None and at is not above:
        at = at.parent
    return at is not None


def _height(account: Assoc) -> int:
    return 1 + max((_height(child) for child in account.children.values() if not child.user_name), default=0)


def _found_accounts(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    """The accounts that a modify or delete is about. Without names: all below the parents that are named."""
    names = {name.lower() for name in event.names}
    parents = {name.lower() for name in event.parents}
    if not names and not parents:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the accounts")
    return [
        account
        for name, account in state.shares.accounts.items()
        if (not names or name in names)
        and (not parents or (account.parent is not None and account.parent.account in parents))
    ]


def _modify_accounts(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    found = _found_accounts(state, event)
    if not values:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    if any(account.parent is None for account in found):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be changed")
    if "parent" in values:
        parent = _account(state, values["parent"])
        _check_parent([account.account for account in found], parent, state.shares.accounts)

    def one(account: Assoc) -> Step:
        def step(state: ClusterState, now_us: int) -> None:
            if "parent" in values:
                state.shares.move(account, state.shares.accounts[values["parent"]])
            about = state.shares.about.get(account.account, AccountRow(account.account, account.account, ""))
            told = {name: values[name] for name in ("description", "organization") if name in values}
            state.shares.about[account.account] = state.dirty_accounts[account.account] = about._replace(**told)
            _set(state, account, values, now_us)

        return step

    return Plan(tuple(a.account for a in found), _triples(found), tuple(one(a) for a in found))


def _remove_accounts(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    named = _found_accounts(state, event)
    if any(account.parent is None for account in named):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be removed")
    found: dict[int, Assoc] = {}
    for account in named:
        for assoc in _with_all_below(account):
            found[assoc.assoc_id] = assoc
    _check_idle(state, found)
    gone = sorted(found.values(), key=lambda a: (-_depth(a), a.assoc_id))
    return Plan(tuple(a.account for a in named), _triples(named), tuple(_removal(a) for a in gone))


def _with_all_below(assoc: Assoc) -> list[Assoc]:
    order = [assoc]
    for one in order:
        order += one.children.values()
    return order


def _depth(assoc: Assoc) -> int:
    depth, at = 0, assoc.parent
    while at is not None:
        depth, at = depth + 1, at.parent
    return depth


# ---- users -------------------------------------------------------------------------------------------------------


def _add_users(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    tree = state.shares
    users = [_checked(name, "user name") for name in dict.fromkeys(event.names)]
    default = values.get("defaultaccount", "")
    names = [_account_name(name) for name in dict.fromkeys(event.accounts)] or [default]
    if not names[0]:
        raise Refused(Code.INVALID_ACCOUNT, "Need name of account to add the user to")
    accounts = [_account(state, name) for name in names]
    if default:
        _account(state, default)
    new = [
        (account, user)
        for account in accounts
        for user in users
        if (known := tree.users.get((account.account, user))) is None or known.made_by_itself
    ]
    _room(state, len(new))

    def one(account: Assoc, user: str) -> Step:
        def step(state: ClusterState, now_us: int) -> None:
            assoc = tree.users.get((account.account, user))
            if assoc is None:
                assoc = tree.add(account.account, user, account)
                assoc.at_us = now_us
            if user not in tree.default_accounts:
                _set_default(state, user, default or names[0])
            _set(state, assoc, values, now_us)

        return step

    triples = tuple((account.account, user, account.account) for account, user in new)
    return Plan(tuple(dict.fromkeys(user for _, user in new)), triples, tuple(one(a, u) for a, u in new))


def _found_users(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    names, accounts = set(event.names), {name.lower() for name in event.accounts}
    if not names and not accounts:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the users")
    return [
        assoc
        for (account, user), assoc in state.shares.users.items()
        if (not names or user in names) and (not accounts or account in accounts)
    ]


def _modify_users(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    found = _found_users(state, event)
    if not values:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    default = values.get("defaultaccount")
    users = tuple(dict.fromkeys(assoc.user_name for assoc in found))
    if default is not None:
        for user in users:
            if (default, user) not in state.shares.users:
                raise Refused(Code.INVALID_ACCOUNT, f"User {user} is not associated with account '{default}'")

    def one(assoc: Assoc) -> Step:
        def step(state: ClusterState, now_us: int) -> None:
            if default is not None:
                _set_default(state, assoc.user_name, default)
            _set(state, assoc, values, now_us)

        return step

    return Plan(users, _triples(found), tuple(one(assoc) for assoc in found))


def _remove_users(state: ClusterState, event: ChangeAccounts, values: dict[str, Any]) -> Plan:
    found = _found_users(state, event)
    _check_idle(state, {assoc.assoc_id: assoc for assoc in found})
    users = tuple(dict.fromkeys(assoc.user_name for assoc in found))
    return Plan(users, _triples(found), tuple(_removal(assoc) for assoc in found))


# ---- steps -------------------------------------------------------------------------------------------------------


def _triples(assocs: Iterable[Assoc]) -> tuple[tuple[str, str, str], ...]:
    return tuple((a.account, a.user_name, a.parent.account if a.parent else "") for a in assocs)


def _set(state: ClusterState, assoc: Assoc, values: dict[str, Any], now_us: int) -> None:
    """The keys of an association itself. It is now somebody's will that it is there."""
    assoc.made_by_itself = False
    assoc.shares = values.get("fairshare", assoc.shares)
    assoc.priority = values.get("priority", assoc.priority)
    if "rawusage" in values:
        for one in _with_all_below(assoc):
            state.shares.advance(one, now_us)
            one.usage = values["rawusage"] * USAGE_ONE
            state.dirty_usage[one.assoc_id] = None
    state.dirty_assocs[assoc.assoc_id] = assoc.row()


def _set_default(state: ClusterState, user: str, account: str) -> None:
    state.shares.default_accounts[user] = account
    state.rules_changed()
    state.dirty_users[user] = UserRow(user, account)


def _check_idle(state: ClusterState, assocs: dict[int, Assoc]) -> None:
    """Refuse while jobs that have not ended belong to one of them."""
    if not assocs:
        return
    for job in state.jobs.values():
        if job.state in ACTIVE_STATES:
            assoc = find(state, job)
            if assoc is not None and assoc.assoc_id in assocs:
                text = f"job {job.job_id} of {assoc.user_name} in account {assoc.account}"
                raise Refused(Code.JOBS_ON_ASSOCIATION, text)


def _removal(assoc: Assoc) -> Step:
    def step(state: ClusterState, now_us: int) -> None:
        tree, user, row, parent = state.shares, assoc.user_name, assoc.row(True), assoc.parent
        assert parent is not None
        tree.remove(assoc, now_us)
        state.dirty_assocs[assoc.assoc_id] = row
        state.dirty_usage[parent.assoc_id] = None
        if not user:
            state.own_accounts -= assoc.made_by_itself
            del tree.about[assoc.account]
        elif tree.default_accounts.get(user) == assoc.account:
            others = [account for account, name in tree.users if name == user]
            if others:
                _set_default(state, user, others[0])
            else:
                del tree.default_accounts[user]
                state.rules_changed()
                state.dirty_users[user] = UserRow(user, "")

    return step


PLANNERS: dict[tuple[AccountAction, str], Callable[[ClusterState, ChangeAccounts, dict[str, Any]], Plan]] = {
    (AccountAction.ADD, "account"): _add_accounts,
    (AccountAction.MODIFY, "account"): _modify_accounts,
    (AccountAction.REMOVE, "account"): _remove_accounts,
    (AccountAction.ADD, "user"): _add_users,
    (AccountAction.MODIFY, "user"): _modify_users,
    (AccountAction.REMOVE, "user"): _remove_users,
}
