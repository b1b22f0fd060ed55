"""sacctmgr add, modify, delete account, and modify cluster: the tree of accounts.

An existing account is not added again. An association that was created implicitly (queue/associations.py) counts as
missing, and is adopted with its usage; a deleted one is restored with its number. Removing refuses while jobs of the
accounts are active, as Slurm does, and removes everything below. Users without any remaining account are deleted, as
with their own last association (in Slurm such a user keeps their level).

The root account is the cluster's: its limits and shares are changed as those of the cluster.
"""

from collections.abc import Iterable

from ctld.core.accounts.associations import answer, check_room, grant, remove, with_all_below
from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import account_name, read_changes
from ctld.core.accounts.where import matches
from ctld.core.queue.rights import AccountingChange, authorize, check_new_account
from ctld.core.records.accounting_rows import AccountRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeAccounts, Role
from ctld.core.state.fairshare import DEPTH_MAX, ROOT, Assoc
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code


def find_account(state: ClusterState, name: str) -> Assoc:
    """Returns an account. Raises Refused unless it exists."""
    found = state.shares.accounts.get(name)
    if found is None:
        raise Refused(Code.INVALID_ACCOUNT, f"This account '{name}' doesn't exist")
    return found


def add_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Adds accounts below one parent."""
    state, wanted = draft.state, read_changes(draft.state, event)
    tree = state.shares
    parent = find_account(state, wanted.values.get("parent", ROOT))
    authorize(state, draft.actor, AccountingChange("adding an account", wanted.keys, True, (parent.account,)))
    names = dict.fromkeys(account_name(name) for name in event.names)
    new = [name for name in names if name not in tree.accounts or tree.accounts[name].made_by_itself]
    if draft.actor.role < Role.OPERATOR:
        for name in new:
            check_new_account(state, draft.actor, name, draft.active.of_account.get(name, 0))
    _check_parent(new, parent, tree.accounts)
    check_room(state, len(new))
    found = []
    for name in new:
        organization = wanted.values.get("organization", parent.account if parent.parent is not None else name)
        about = AccountRow(name, wanted.values.get("description", name), organization)
        draft.put_account(about)
        assoc = tree.accounts.get(name)
        if assoc is None:
            assoc = draft.add_assoc(name, "", parent)
        else:
            draft.move(assoc, parent)
        grant(draft, assoc, wanted)
        found.append(assoc)
    return answer(new, found)


def modify_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Changes the accounts that the request names or describes."""
    state, wanted = draft.state, read_changes(draft.state, event)
    found = _found(state, event)
    if not wanted.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    _authorize(draft, "changing an account", found, wanted.keys)
    if any(account.parent is None for account in found):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be changed; it is the cluster's: modify cluster")
    done = answer((account.account for account in found), found)  # with the parents before, as in Slurm
    if "parent" in wanted.values:
        _move(draft, found, find_account(state, wanted.values["parent"]))
    for account in found:
        about = state.shares.about.get(account.account, AccountRow(account.account, account.account, ""))
        description = wanted.values.get("description", about.description)
        organization = wanted.values.get("organization", about.organization)
        draft.put_account(about._replace(description=description, organization=organization))
        grant(draft, account, wanted)
    return done


def _move(draft: Draft, found: list[Assoc], parent: Assoc) -> None:
    """Moves accounts below another. A parent that is below one of them first takes its place, as in Slurm."""
    accounts = draft.state.shares.accounts
    for account in found:
        if account is not parent and account.parent is not None and _is_below(parent, account):
            _check_parent((parent.account,), account.parent, accounts)
            draft.move(parent, account.parent)
        _check_parent((account.account,), parent, accounts)
        draft.move(account, parent)


def remove_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Removes accounts with everything below them, and the users who are left with none."""
    named = _found(draft.state, event)
    gone = {assoc.assoc_id: assoc for account in named for assoc in with_all_below(account)}
    people = tuple(dict.fromkeys(one.user_name for one in gone.values() if one.user_name))
    _authorize(draft, "removing an account", named, (), people)
    if any(account.parent is None for account in named):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be removed")
    done = answer((account.account for account in named), named)
    remove(draft, list(gone.values()))
    return done


def _authorize(draft: Draft, what: str, found: list[Assoc], keys: Iterable[str], users: tuple[str, ...] = ()) -> None:
    """Checks the caller's rights. Without a match the root's rights are needed, so that a refusal does not reveal which
    accounts exist."""
    above = tuple(account.parent.account if account.parent is not None else "" for account in found)
    authorize(draft.state, draft.actor, AccountingChange(what, keys, False, above, users))


def _check_parent(names: Iterable[str], parent: Assoc, accounts: dict[str, Assoc]) -> None:
    """Checks that an account is not put below itself, and that the tree does not become too deep."""
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
    """Whether one association is another or below it."""
    at: Assoc | None = assoc
    while at is not None and at is not above:
        at = at.parent
    return at is not None


def _height(account: Assoc) -> int:
    return 1 + max((_height(child) for child in account.children.values() if not child.user_name), default=0)


def _found(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    """Finds the accounts that a modify or delete concerns. Without names: all below the named parents."""
    tree = state.shares
    parents = {name.lower() for name in event.parents}
    if event.names:
        named = dict.fromkeys(name.lower() for name in event.names)
        found = [tree.accounts[name] for name in named if name in tree.accounts]
    elif parents or event.where:
        found = [tree.accounts[name] for name in sorted(tree.accounts)]
    else:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the accounts")
    if parents:
        found = [account for account in found if account.parent is not None and account.parent.account in parents]
    return matches(state, found, event)


# ---- the cluster -------------------------------------------------------------------------------------------------


def add_cluster(draft: Draft, event: ChangeAccounts) -> Changed:
    """Handles `add cluster`: the one cluster exists already."""
    authorize(draft.state, draft.actor, AccountingChange("adding a cluster"))
    _check_cluster(draft.state, event)
    return Changed((), ())


def modify_cluster(draft: Draft, event: ChangeAccounts) -> Changed:
    """Changes the limits, shares and QOS of the root association, which is above all others."""
    state, wanted = draft.state, read_changes(draft.state, event)
    authorize(state, draft.actor, AccountingChange("changing the cluster", wanted.keys))
    _check_cluster(state, event)
    if not wanted.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    grant(draft, state.shares.root, wanted)
    return answer((state.config.cluster_name,), (state.shares.root,))


def _check_cluster(state: ClusterState, event: ChangeAccounts) -> None:
    others = [name for name in event.names if name.lower() != state.config.cluster_name.lower()]
    if others:
        raise Refused(Code.NOT_SUPPORTED, f"this is the accounting of cluster {state.config.cluster_name} alone")
