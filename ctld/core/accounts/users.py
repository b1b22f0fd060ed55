"""sacctmgr add, modify, delete user: users, and their associations with accounts.

A user has one record (default account, level, default wckey) and one association for each account that they were added
to, or one for each partition named. The first account by name becomes the default account, if the caller may set one
(rights.may_give_default). The association of the default account cannot be removed while there are others
(ESLURM_NO_REMOVE_DEFAULT_ACCOUNT). Removing the last one removes the user, with level, coordinatorships and wckeys: a
user who is added again starts without them.
"""

from ctld.core.accounts.accounts import find_account
from ctld.core.accounts.associations import answer, check_room, forget, grant, remove
from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import EntityChanges, account_name, name_of, read_changes
from ctld.core.accounts.wckeys import ensure, rename_all
from ctld.core.accounts.where import matches
from ctld.core.queue.rights import AccountingChange, authorize, level_of, may_give_default
from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeAccounts, Role
from ctld.core.state.fairshare import Assoc
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code


def add_users(draft: Draft, event: ChangeAccounts) -> Changed:
    """Adds users to accounts."""
    state, wanted = draft.state, read_changes(draft.state, event)
    users = [name_of(name, "user name") for name in dict.fromkeys(event.names)]
    default = wanted.values.get("defaultaccount", "")
    names = dict.fromkeys((*(account_name(name) for name in event.accounts), *((default,) if default else ())))
    if not names:
        raise Refused(Code.INVALID_ACCOUNT, "Need name of account to add the user to")
    if "newname" in wanted.values:
        raise Refused(Code.NOT_SUPPORTED, "newname= is for users that there are")
    level = wanted.values.get("adminlevel", Role.USER)
    authorize(
        state, draft.actor, AccountingChange("adding a user", wanted.keys, True, tuple(names), tuple(users), level)
    )
    accounts = [find_account(state, name) for name in names]
    partitions = dict.fromkeys(event.partitions) or {"": None}
    for partition in partitions:
        if partition and partition not in state.partitions:
            raise Refused(Code.INVALID_PARTITION, partition)
    check_room(state, _new_count(state, accounts, users, partitions))
    seen = draft.active.of_name if draft.actor.role < Role.OPERATOR else {}
    free = {user for user in users if may_give_default(state, draft.actor, user, seen.get(user, 0))}
    found: list[Assoc] = []
    for user in users:
        first = default or min(names)  # as in Slurm, however the accounts are ordered in the request
        own = [
            _add_association(draft, account, user, partition, wanted)
            for account in accounts
            for partition in partitions
        ]
        found += [assoc for assoc in own if assoc is not None]
        _record(draft, user, first if user in free else "", wanted)
    return answer((assoc.user_name for assoc in found), found)


def _new_count(state: ClusterState, accounts: list[Assoc], users: list[str], partitions: dict[str, None]) -> int:
    if len(accounts) * len(users) * len(partitions) > 1_000_000:
        raise Refused(Code.INVALID_VALUE, "too many users, accounts and partitions in one request")
    tree = state.shares
    return sum(
        ((account.account, user, partition) not in tree.in_partition)
        if partition
        else (account.account, user) not in tree.users
        for account in accounts
        for user in users
        for partition in partitions
    )


def _add_association(draft: Draft, account: Assoc, user: str, partition: str, wanted: EntityChanges) -> Assoc | None:
    """Builds the new association; None = it exists already."""
    tree, name = draft.state.shares, account.account
    assoc = tree.in_partition.get((name, user, partition)) if partition else tree.users.get((name, user))
    if assoc is not None and not assoc.made_by_itself:
        return None
    assoc = assoc or draft.add_assoc(name, user, account, partition)
    grant(draft, assoc, wanted)
    return assoc


def _record(draft: Draft, user: str, account: str, wanted: EntityChanges) -> None:
    """Builds the record of a new user, or completes an existing one."""
    person = draft.state.shares.people.get(user)
    if person is None:
        wckey = wanted.values.get("defaultwckey", "")
        person = UserRow(user, account, int(wanted.values.get("adminlevel", Role.USER)), wckey)
        if wckey:
            ensure(draft, user, wckey)
        draft.put_user(person)
    elif not person.default_account and account:
        draft.put_user(person._replace(default_account=account))


def _found(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    """Finds the associations that a modify or delete concerns."""
    tree = state.shares
    accounts = dict.fromkeys(name.lower() for name in event.accounts)
    if event.names:
        found = [assoc for name in dict.fromkeys(event.names) for assoc in tree.by_user.get(name, ())]
        found = [assoc for assoc in found if not accounts or assoc.account in accounts]
    elif accounts:
        there = [tree.accounts[name] for name in accounts if name in tree.accounts]
        found = [child for account in there for child in account.children.values() if child.user_name]
    elif event.partitions or event.parents or event.where:
        found = [assoc for _, assoc in sorted(tree.by_id.items()) if assoc.user_name]
    else:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the users")
    if event.parents:
        parents = {name.lower() for name in event.parents}
        found = [assoc for assoc in found if assoc.parent is not None and assoc.parent.account in parents]
    if event.partitions:
        found = [assoc for assoc in found if assoc.partition in event.partitions]
    return matches(state, found, event)


def _people(event: ChangeAccounts, found: list[Assoc], state: ClusterState) -> list[str]:
    """Finds the users that the request concerns; if only names are given, also users without any association."""
    users = dict.fromkeys(assoc.user_name for assoc in found)
    if event.names and not (event.accounts or event.partitions or event.parents or event.where):
        users.update(dict.fromkeys(name for name in event.names if name in state.shares.people))
    return list(users)


def _authorize(draft: Draft, what: str, found: list[Assoc], users: list[str], wanted: EntityChanges) -> None:
    placed = {assoc.user_name for assoc in found}
    above = tuple(assoc.account for assoc in found) if placed.issuperset(users) else ()  # a record without an account
    level = wanted.values.get("adminlevel", Role.USER)
    authorize(draft.state, draft.actor, AccountingChange(what, wanted.keys, False, above, tuple(users), level))


def modify_users(draft: Draft, event: ChangeAccounts) -> Changed:
    """Changes records of users, and their associations."""
    state, wanted = draft.state, read_changes(draft.state, event)
    if not wanted.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    found = _found(state, event)
    users = _people(event, found, state)
    _authorize(draft, "changing a user", found, users, wanted)
    if wanted.of_assoc():
        for assoc in found:
            grant(draft, assoc, wanted)
    for user in users:
        _modify_record(draft, user, wanted)
    done = answer(users, found)
    if "newname" in wanted.values:
        _rename(draft, users, wanted.values["newname"])
    return done


def _modify_record(draft: Draft, user: str, wanted: EntityChanges) -> None:
    tree, values = draft.state.shares, wanted.values
    if not {"defaultaccount", "defaultwckey", "adminlevel"} & values.keys():
        return
    person = tree.people.get(user) or UserRow(user, "")
    if "defaultaccount" in values:
        account = values["defaultaccount"]
        if all(assoc.account != account for assoc in tree.by_user.get(user, ())):
            raise Refused(Code.INVALID_ACCOUNT, f"User {user} is not associated with account '{account}'")
        person = person._replace(default_account=account)
    if "defaultwckey" in values:
        wckey = values["defaultwckey"]
        known = tree.wckeys.get((wckey, user))
        if wckey and (known is None or known.deleted):
            if draft.actor.role < Role.OPERATOR:
                raise Refused(Code.INVALID_WCKEY, f"{wckey} is not a wckey of {user}")
            ensure(draft, user, wckey)
        person = person._replace(default_wckey=wckey)
    if "adminlevel" in values:
        person = person._replace(admin_level=int(values["adminlevel"]))
    draft.put_user(person)


def _rename(draft: Draft, users: list[str], name: str) -> None:
    """Renames a user with everything that belongs to them. Raises Refused."""
    state, tree = draft.state, draft.state.shares
    if not users or users == [name]:
        return
    if len(users) > 1:
        raise Refused(Code.INVALID_VALUE, "only one user can have a new name")
    (user,) = users
    if name in tree.people or name in tree.by_user:
        raise Refused(Code.INVALID_USER, f"there is a user {name} already")
    if level_of(state, name) > draft.actor.role:
        raise Refused(Code.ACCESS_DENIED, f"{name} has the level {level_of(state, name).name.lower()}")
    job_id = draft.active.of_name.get(user, 0)
    if job_id:
        raise Refused(Code.JOBS_ON_ASSOCIATION, f"job {job_id} of {user}")
    for assoc in tree.by_user.get(user, ()):
        draft.rename_user(assoc, name)
    person = tree.people.get(user)
    for account in tree.coordinator_of.get(user, ()):
        about = tree.about[account]
        names = tuple(name if other == user else other for other in about.coordinators)
        draft.put_account(about._replace(coordinators=tuple(dict.fromkeys(names))))
    rename_all(draft, user, name)
    if person is not None:
        draft.put_user(person._replace(admin_level=0, deleted=True))
        draft.put_user(person._replace(name=name))


def remove_users(draft: Draft, event: ChangeAccounts) -> Changed:
    """Removes associations of users, and the users without any remaining one."""
    state = draft.state
    found = _found(state, event)
    users = _people(event, found, state)
    _authorize(draft, "removing a user", found, users, EntityChanges({}))
    done = answer(users, found)
    remove(draft, found)
    for user in users:
        if user not in state.shares.by_user:  # also a user who had none
            forget(draft, user)
    return done
