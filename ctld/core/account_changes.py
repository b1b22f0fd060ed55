"""sacctmgr add, modify, delete account, and modify cluster: the tree of accounts.

What is there already is not added again; what made itself (assocs.py) counts as not there, and is taken over with the
usage it has; what was deleted comes back with its number. Removing refuses while jobs of the accounts are active, as
Slurm does, and takes all that is below along; users who are left with no account are deleted, as with their own last
association (in Slurm such a one keeps his level).

The root account is the cluster's: its limits and shares are changed as those of the cluster.
"""

from collections.abc import Iterable

from ctld.core.assoc_changes import answer, check_room, grant, left_without, remove, with_all_below
from ctld.core.draft import Draft
from ctld.core.effects import Changed, Refused
from ctld.core.entity_keys import account_name, read_wish
from ctld.core.entity_where import matches
from ctld.core.events import ChangeAccounts
from ctld.core.fairshare import DEPTH_MAX, ROOT, AccountRow, Assoc
from ctld.core.rights import Deed, authorize
from ctld.core.state import ClusterState
from penstock.values.refusals import Code


def find_account(state: ClusterState, name: str) -> Assoc:
    """Raise Refused unless it is there."""
    found = state.shares.accounts.get(name)
    if found is None:
        raise Refused(Code.INVALID_ACCOUNT, f"This account '{name}' doesn't exist")
    return found


def add_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Accounts below one parent."""
    state, wish = draft.state, read_wish(draft.state, event)
    tree = state.shares
    parent = find_account(state, wish.values.get("parent", ROOT))
    authorize(state, draft.actor, Deed("adding an account", wish.keys, True, (parent.account,)))
    names = dict.fromkeys(account_name(name) for name in event.names)
    new = [name for name in names if name not in tree.accounts or tree.accounts[name].made_by_itself]
    _check_parent(new, parent, tree.accounts)
    check_room(state, len(new))
    found = []
    for name in new:
        about = AccountRow(name, wish.values.get("description", name), wish.values.get("organization", parent.account))
        draft.put_account(about)
        assoc = tree.accounts.get(name)
        if assoc is None:
            assoc = draft.add_assoc(name, "", parent)
        else:
            draft.move(assoc, parent)
        grant(draft, assoc, wish)
        found.append(assoc)
    return answer(new, found)


def modify_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Accounts that the request names or describes."""
    state, wish = draft.state, read_wish(draft.state, event)
    found = _found(state, event)
    if not wish.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    _authorize(draft, "changing an account", found, wish.keys)
    if any(account.parent is None for account in found):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be changed; it is the cluster's: modify cluster")
    if "parent" in wish.values:
        parent = find_account(state, wish.values["parent"])
        _check_parent([account.account for account in found], parent, state.shares.accounts)
        for account in found:
            draft.move(account, parent)
    for account in found:
        about = state.shares.about.get(account.account, AccountRow(account.account, account.account, ""))
        told = {name: wish.values[name] for name in ("description", "organization") if name in wish.values}
        draft.put_account(about._replace(**told))
        grant(draft, account, wish)
    return answer((account.account for account in found), found)


def remove_accounts(draft: Draft, event: ChangeAccounts) -> Changed:
    """Accounts with all that is below them, and the users who are left with none."""
    named = _found(draft.state, event)
    gone = {assoc.assoc_id: assoc for account in named for assoc in with_all_below(account)}
    _authorize(draft, "removing an account", named, (), tuple(left_without(draft.state, gone.values())))
    if any(account.parent is None for account in named):
        raise Refused(Code.ACCESS_DENIED, "the root account cannot be removed")
    done = answer((account.account for account in named), named)
    remove(draft, list(gone.values()))
    return done


def _authorize(draft: Draft, what: str, found: list[Assoc], keys: Iterable[str], holders: tuple[str, ...] = ()) -> None:
    """Nobody learns which accounts there are from what he may not do: without a match it is the root's matter."""
    above = tuple(account.parent.account if account.parent is not None else "" for account in found)
    authorize(draft.state, draft.actor, Deed(what, keys, False, above, holders))


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


def _found(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    """The accounts that a modify or delete is about. Without names: all below the parents that are named."""
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
    """The one cluster is there already."""
    authorize(draft.state, draft.actor, Deed("adding a cluster"))
    _check_cluster(draft.state, event)
    return Changed((), ())


def modify_cluster(draft: Draft, event: ChangeAccounts) -> Changed:
    """Limits, shares and QOS of the root association, which everything is below."""
    state, wish = draft.state, read_wish(draft.state, event)
    authorize(state, draft.actor, Deed("changing the cluster", wish.keys))
    _check_cluster(state, event)
    if not wish.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    grant(draft, state.shares.root, wish)
    return answer((state.config.cluster_name,), (state.shares.root,))


def _check_cluster(state: ClusterState, event: ChangeAccounts) -> None:
    others = [name for name in event.names if name.lower() != state.config.cluster_name.lower()]
    if others:
        raise Refused(Code.NOT_SUPPORTED, f"this is the accounting of cluster {state.config.cluster_name} alone")
