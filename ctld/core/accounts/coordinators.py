"""sacctmgr add and delete coordinator: users who may change what is below an account (queue/rights.py).

A coordinator may appoint coordinators of the accounts below their own, not of their own.
"""

from ctld.core.accounts.accounts import find_account
from ctld.core.accounts.draft import Draft
from ctld.core.queue.rights import AccountingChange, authorize
from ctld.core.records.accounting_rows import AccountRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeAccounts
from ctld.core.state.fairshare import Assoc
from penstock.values.refusals import Code

#: Maximum of one account: a larger group is better served by a role.
COORDINATORS_MAX = 1_000


def add_coordinators(draft: Draft, event: ChangeAccounts) -> Changed:
    """Adds coordinators: `names` are accounts, `users` the coordinators."""
    state = draft.state
    accounts = [find_account(state, name.lower()) for name in dict.fromkeys(event.names)]
    _authorize(draft, "adding a coordinator", accounts, event.users)
    if not accounts or not event.users:
        raise Refused(Code.INVALID_VALUE, "name accounts and users")
    for user in event.users:
        if user not in state.shares.people:
            raise Refused(Code.INVALID_USER, f"there is no user {user}; add them first")
    changed = []
    for account in accounts:
        about = _about(draft, account)
        names = tuple(dict.fromkeys((*about.coordinators, *event.users)))
        if len(names) > COORDINATORS_MAX:
            raise Refused(Code.INVALID_VALUE, f"more than {COORDINATORS_MAX} coordinators of account {account.account}")
        if names != about.coordinators:
            draft.put_account(about._replace(coordinators=names))
            changed.append(account.account)
    return Changed(tuple(changed), ())


def remove_coordinators(draft: Draft, event: ChangeAccounts) -> Changed:
    """Removes coordinators: without users all of the accounts; without accounts from all accounts."""
    state, tree = draft.state, draft.state.shares
    if not event.names and not event.users:
        raise Refused(Code.INVALID_VALUE, "no condition given: name accounts or users")
    names = dict.fromkeys(name.lower() for name in event.names)
    if not names:
        names = dict.fromkeys(name for user in event.users for name in tree.coordinator_of.get(user, ()))
    accounts = [find_account(state, name) for name in names]
    people = event.users or tuple(user for account in accounts for user in _about(draft, account).coordinators)
    _authorize(draft, "removing a coordinator", accounts, people)
    changed = []
    for account in accounts:
        about = _about(draft, account)
        left = tuple(name for name in about.coordinators if event.users and name not in event.users)
        if left != about.coordinators:
            draft.put_account(about._replace(coordinators=left))
            changed.append(account.account)
    return Changed(tuple(changed), ())


def _about(draft: Draft, account: Assoc) -> AccountRow:
    return draft.state.shares.about.get(account.account) or AccountRow(account.account, account.account, "")


def _authorize(draft: Draft, what: str, accounts: list[Assoc], people: tuple[str, ...]) -> None:
    above = tuple(account.parent.account if account.parent is not None else "" for account in accounts)
    authorize(draft.state, draft.actor, AccountingChange(what, below=above, users=people))
