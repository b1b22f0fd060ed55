"""Wckeys: labels that users give to their jobs, by which usage is counted beside accounts (TrackWCKey).

A wckey belongs to a user. With AccountingStorageEnforce=wckeys a job's wckey must be among its user's; otherwise
unknown ones are added automatically (`note`). A job that names none has its user's default wckey, written `*name` as in
Slurm, or `*` when the user has no default.
"""

from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import name_of, wckey_name
from ctld.core.queue.rights import AccountingChange, authorize
from ctld.core.queue.wckeys import WCKEYS_MAX as WCKEYS_MAX
from ctld.core.queue.wckeys import next_id
from ctld.core.records.accounting_rows import UserRow, WckeyRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeAccounts
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code

# ---- changes -----------------------------------------------------------------------------------------------------


def ensure(draft: Draft, user: str, name: str) -> bool:
    """Gives the user this wckey. Returns False if they had it."""
    state = draft.state
    before = state.shares.wckeys.get((name, user))
    if before is not None and not before.deleted:
        return False
    if before is None and len(state.shares.wckeys) >= WCKEYS_MAX:
        raise Refused(Code.INVALID_WCKEY, f"there are {WCKEYS_MAX} wckeys, which is the limit")
    draft.put_wckey(WckeyRow(before.wckey_id if before is not None else next_id(state), name, user))
    return True


def forget_all(draft: Draft, user: str) -> None:
    """Removes all wckeys of a user who is removed."""
    for row in _of_user(draft.state, user):
        draft.put_wckey(row._replace(deleted=True))


def rename_all(draft: Draft, user: str, new: str) -> None:
    """Renames the user of all their wckeys."""
    for row in _of_user(draft.state, user):
        draft.put_wckey(row._replace(deleted=True))
        ensure(draft, new, row.name)


def _of_user(state: ClusterState, user: str) -> list[WckeyRow]:
    return [row for row in state.shares.wckeys.values() if row.user_name == user and not row.deleted]


def add_wckeys(draft: Draft, event: ChangeAccounts) -> Changed:
    """Handles sacctmgr add user NAME wckey=..., and add wckey. A user who is unknown is made, without an account."""
    authorize(draft.state, draft.actor, AccountingChange("adding a wckey", event.changes, True, users=event.users))
    _check(event)
    names = [name_of(wckey_name(name), "wckey") for name in dict.fromkeys(event.names)]
    new = [name for name in names for user in event.users if ensure(draft, name_of(user, "user name"), name)]
    for user in event.users if names else ():
        person = draft.state.shares.people.get(user) or UserRow(user, "")
        if not person.default_wckey:  # the first one is the default, as in Slurm
            draft.put_user(person._replace(default_wckey=names[0]))
    return Changed(tuple(dict.fromkeys(new)), ())


def remove_wckeys(draft: Draft, event: ChangeAccounts) -> Changed:
    """Removes wckeys of the users named, or of all."""
    authorize(draft.state, draft.actor, AccountingChange("removing a wckey", event.changes))
    names = [wckey_name(name) for name in dict.fromkeys(event.names)]
    if not names and not event.users:
        raise Refused(Code.INVALID_VALUE, "no condition given: name wckeys or users")
    table, people = draft.state.shares.wckeys, draft.state.shares.people
    rows = [
        r for r in table.values() if (not names or r.name in names) and (not event.users or r.user_name in event.users)
    ]
    gone = [row for row in rows if not row.deleted]
    people_of = tuple(dict.fromkeys(row.user_name for row in gone))
    authorize(draft.state, draft.actor, AccountingChange("removing a wckey", event.changes, users=people_of))
    for row in gone:
        person = people.get(row.user_name)
        if person is not None and person.default_wckey == row.name:
            draft.put_user(person._replace(default_wckey=""))
        draft.put_wckey(row._replace(deleted=True))
    return Changed(tuple(dict.fromkeys(row.name for row in gone)), ())


def _check(event: ChangeAccounts) -> None:
    if event.changes:
        raise Refused(Code.NOT_SUPPORTED, f"{next(iter(event.changes))}= is not supported for a wckey")
    if not event.names or not event.users:
        raise Refused(Code.INVALID_WCKEY, "name wckeys and users")
