"""sacctmgr add, modify, delete user: people, and their places in accounts.

A person has one record (default account, level, default wckey) and one association for each account that he was added
to, or one for each partition named. The first account is his default account. He cannot lose the association that his
default account needs while he has others (ESLURM_NO_REMOVE_DEFAULT_ACCOUNT); with the last one he is removed himself, and
with him his level, his coordinatorships and his wckeys: who is added again begins as anybody.
"""

from ctld.core.account_changes import find_account
from ctld.core.assoc_changes import answer, check_room, forget, grant, remove
from ctld.core.draft import Draft
from ctld.core.effects import Changed, Refused
from ctld.core.entity_keys import Wish, account_name, name_of, read_wish
from ctld.core.entity_where import matches
from ctld.core.events import ChangeAccounts, Role
from ctld.core.fairshare import Assoc, UserRow
from ctld.core.rights import Deed, authorize, level_of
from ctld.core.state import ClusterState
from ctld.core.wckeys import ensure, rename_all
from penstock.values.refusals import Code


def add_users(draft: Draft, event: ChangeAccounts) -> Changed:
    """Users into accounts."""
    state, wish = draft.state, read_wish(draft.state, event)
    users = [name_of(name, "user name") for name in dict.fromkeys(event.names)]
    default = wish.values.get("defaultaccount", "")
    names = dict.fromkeys((*(account_name(name) for name in event.accounts), *((default,) if default else ())))
    if not names:
        raise Refused(Code.INVALID_ACCOUNT, "Need name of account to add the user to")
    if "newname" in wish.values:
        raise Refused(Code.NOT_SUPPORTED, "newname= is for users that there are")
    level = wish.values.get("adminlevel", Role.USER)
    authorize(state, draft.actor, Deed("adding a user", wish.keys, True, tuple(names), gives=level))
    accounts = [find_account(state, name) for name in names]
    partitions = dict.fromkeys(event.partitions) or {"": None}
    for partition in partitions:
        if partition and partition not in state.partitions:
            raise Refused(Code.INVALID_PARTITION, partition)
    check_room(state, _new_count(state, accounts, users, partitions))
    found: list[Assoc] = []
    for user in users:
        first = default or next(iter(names))
        own = [_place(draft, account, user, partition, wish) for account in accounts for partition in partitions]
        found += [assoc for assoc in own if assoc is not None]
        _record(draft, user, first, wish)
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


def _place(draft: Draft, account: Assoc, user: str, partition: str, wish: Wish) -> Assoc | None:
    """The new association; None = it is there already."""
    tree, name = draft.state.shares, account.account
    assoc = tree.in_partition.get((name, user, partition)) if partition else tree.users.get((name, user))
    if assoc is not None and not assoc.made_by_itself:
        return None
    assoc = assoc or draft.add_assoc(name, user, account, partition)
    grant(draft, assoc, wish)
    return assoc


def _record(draft: Draft, user: str, account: str, wish: Wish) -> None:
    """A new person's record, or what one lacks who is there."""
    person = draft.state.shares.people.get(user)
    if person is None:
        wckey = wish.values.get("defaultwckey", "")
        person = UserRow(user, account, int(wish.values.get("adminlevel", Role.USER)), wckey)
        if wckey:
            ensure(draft, user, wckey)
        draft.put_user(person)
    elif not person.default_account:
        draft.put_user(person._replace(default_account=account))


def _found(state: ClusterState, event: ChangeAccounts) -> list[Assoc]:
    """The associations that a modify or delete is about."""
    tree = state.shares
    accounts = dict.fromkeys(name.lower() for name in event.accounts)
    if event.names:
        found = [assoc for name in dict.fromkeys(event.names) for assoc in tree.places.get(name, ())]
        found = [assoc for assoc in found if not accounts or assoc.account in accounts]
    elif accounts:
        there = [tree.accounts[name] for name in accounts if name in tree.accounts]
        found = [child for account in there for child in account.children.values() if child.user_name]
    elif event.partitions or event.where:
        found = [assoc for _, assoc in sorted(tree.by_id.items()) if assoc.user_name]
    else:
        raise Refused(Code.INVALID_VALUE, "no condition given: name the users")
    if event.partitions:
        found = [assoc for assoc in found if assoc.partition in event.partitions]
    return matches(state, found, event)


def _people(event: ChangeAccounts, found: list[Assoc], state: ClusterState) -> list[str]:
    """Whom it is about: with names alone also those who have no association."""
    users = dict.fromkeys(assoc.user_name for assoc in found)
    if event.names and not (event.accounts or event.partitions or event.where):
        users.update(dict.fromkeys(name for name in event.names if name in state.shares.people))
    return list(users)


def _authorize(draft: Draft, what: str, found: list[Assoc], users: list[str], wish: Wish) -> None:
    above = tuple(assoc.account for assoc in found)
    level = wish.values.get("adminlevel", Role.USER)
    authorize(draft.state, draft.actor, Deed(what, wish.keys, False, above, tuple(users), level))


def modify_users(draft: Draft, event: ChangeAccounts) -> Changed:
    """Records of people, and their associations."""
    state, wish = draft.state, read_wish(draft.state, event)
    if not wish.keys:
        raise Refused(Code.INVALID_VALUE, "nothing to change is given (set ...)")
    found = _found(state, event)
    users = _people(event, found, state)
    _authorize(draft, "changing a user", found, users, wish)
    if wish.of_assoc():
        for assoc in found:
            grant(draft, assoc, wish)
    for user in users:
        _modify_record(draft, user, wish)
    done = answer(users, found)
    if "newname" in wish.values:
        _rename(draft, users, wish.values["newname"])
    return done


def _modify_record(draft: Draft, user: str, wish: Wish) -> None:
    tree, values = draft.state.shares, wish.values
    if not {"defaultaccount", "defaultwckey", "adminlevel"} & values.keys():
        return
    person = tree.people.get(user) or UserRow(user, "")
    if "defaultaccount" in values:
        account = values["defaultaccount"]
        if all(assoc.account != account for assoc in tree.places.get(user, ())):
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
    """One user has another name from now on, with all that he has. Raises Refused."""
    state, tree = draft.state, draft.state.shares
    if not users or users == [name]:
        return
    if len(users) > 1:
        raise Refused(Code.INVALID_VALUE, "only one user can have a new name")
    (user,) = users
    if name in tree.people or name in tree.places:
        raise Refused(Code.INVALID_USER, f"there is a user {name} already")
    if level_of(state, name) > draft.actor.role:
        raise Refused(Code.ACCESS_DENIED, f"{name} has the level {level_of(state, name).name.lower()}")
    job_id = draft.active.of_name.get(user, 0)
    if job_id:
        raise Refused(Code.JOBS_ON_ASSOCIATION, f"job {job_id} of {user}")
    for assoc in tree.places.get(user, ()):
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
    """Associations of users, and those who are left with none."""
    state = draft.state
    found = _found(state, event)
    users = _people(event, found, state)
    _authorize(draft, "removing a user", found, users, Wish({}))
    done = answer(users, found)
    remove(draft, found)
    for user in users:
        if user not in state.shares.places:  # also one who had none
            forget(draft, user)
    return done
