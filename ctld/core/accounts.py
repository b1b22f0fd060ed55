"""Changes of accounting's entities: one at a time, or many of which all or none are made.

Each pair of action and entity is one function on a Draft (draft.py): it may look, write and refuse in any order, since what
it has written is taken back when it refuses. It asks rights.py first whether the caller may do this at all. With
`check_only` the changes are made, and taken back: the answer is what would be done (sacctmgr shows it and asks).

Very many changes take seconds. They are made a little at a time, in one step of the core all the same: nothing else is
stepped, sealed or answered before they are all made or taken back (Core.begin), while nodes and leases are heard.
"""

from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from ctld.core import account_changes, coordinators, qos_changes, resources, user_changes, watch, wckeys
from ctld.core.draft import Draft, Told
from ctld.core.effects import Changed, ChangedMany, Done, Refused
from ctld.core.events import AccountAction, ChangeAccounts, ChangeMany, ChangeQos
from ctld.core.state import ClusterState
from penstock.values.errors import BadValue
from penstock.values.refusals import Code

#: Names in one request.
NAMES_MAX = 10_000
#: Changes in one request: a whole site's accounting is some thousands.
CHANGES_MAX = 50_000
#: New users that are made in one go: some milliseconds.
PART_NAMES = 100

_ADD, _MODIFY, _REMOVE = AccountAction.ADD, AccountAction.MODIFY, AccountAction.REMOVE
CHANGES: dict[tuple[AccountAction, str], Callable[[Draft, ChangeAccounts], Changed]] = {
    (_ADD, "account"): account_changes.add_accounts,
    (_MODIFY, "account"): account_changes.modify_accounts,
    (_REMOVE, "account"): account_changes.remove_accounts,
    (_ADD, "cluster"): account_changes.add_cluster,
    (_MODIFY, "cluster"): account_changes.modify_cluster,
    (_ADD, "coordinator"): coordinators.add_coordinators,
    (_REMOVE, "coordinator"): coordinators.remove_coordinators,
    (_ADD, "resource"): resources.add_resources,
    (_MODIFY, "resource"): resources.modify_resources,
    (_REMOVE, "resource"): resources.remove_resources,
    (_ADD, "user"): user_changes.add_users,
    (_MODIFY, "user"): user_changes.modify_users,
    (_REMOVE, "user"): user_changes.remove_users,
    (_ADD, "wckey"): wckeys.add_wckeys,
    (_REMOVE, "wckey"): wckeys.remove_wckeys,
}

Change = ChangeAccounts | ChangeQos


def change_accounts(state: ClusterState, now_us: int, event: ChangeAccounts) -> None:
    """sacctmgr add, modify, delete. May refuse."""
    state.unfinished = _change_one(state, now_us, event)


def _change_one(state: ClusterState, now_us: int, event: ChangeAccounts) -> Iterator[None]:
    (body,) = yield from _run(Draft(state, now_us, event.actor), (event,), event.check_only)
    state.reply(event.reply_to, body)


def change_qos(state: ClusterState, now_us: int, event: ChangeQos) -> None:
    """sacctmgr add, modify, delete qos. Raises Refused."""
    for _ in _run(Draft(state, now_us, event.actor), (event,), event.check_only):
        pass
    state.reply(event.reply_to, Done())


def change_many(state: ClusterState, now_us: int, event: ChangeMany) -> None:
    """sacctmgr load, penstock policy apply: all of it or nothing. A refusal says which change it was."""
    if len(event.changes) > CHANGES_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(event.changes)} changes, the limit is {CHANGES_MAX}")
    state.unfinished = _change_many(state, now_us, event)


def _change_many(state: ClusterState, now_us: int, event: ChangeMany) -> Iterator[None]:
    draft = Draft(state, now_us, event.actor)
    bodies = yield from _run(draft, event.changes, event.check_only, numbered=True)
    state.reply(event.reply_to, ChangedMany(tuple(bodies)))


def _run(
    draft: Draft, changes: Iterable[Change], check_only: bool, numbered: bool = False
) -> Generator[None, None, list[Changed]]:
    """All changes, or none and Refused. Goes on a little at a time."""
    bodies: list[Changed] = []
    acts: list[tuple[Change, list[Told]]] = []
    for number, change in enumerate(changes, 1):
        begun = len(draft.told)
        parts: list[Changed] = []
        try:
            for part in _parts(change):
                parts.append(_one(draft, part))
                yield
        except Refused as refused:
            draft.undo()
            if not numbered:
                raise
            detail = f"{refused.detail}; " if refused.detail else ""
            raise Refused(refused.code, f"{detail}change {number}: {_shown(change)}") from None
        bodies.append(parts[0] if len(parts) == 1 else _joined(parts))
        acts.append((change, draft.told[begun:]))
    if check_only:
        draft.undo()
        return bodies
    draft.finish()
    for change, told in acts:
        yield from watch.tell(draft.state, draft.now_us, draft.actor, change, told)
    return bodies


def _parts(change: Change) -> Iterator[Change]:
    """A change of many new users as changes of some of them."""
    names = change.names
    _check_names(change)
    if isinstance(change, ChangeQos) or len(names) <= PART_NAMES or (change.action, change.entity) != (_ADD, "user"):
        yield change
        return
    for at in range(0, len(names), PART_NAMES):
        yield msgspec.structs.replace(change, names=names[at : at + PART_NAMES])


def _check_names(change: Change) -> None:
    if isinstance(change, ChangeAccounts):
        for what in (change.names, change.accounts, change.parents, change.partitions, change.users):
            if len(what) > NAMES_MAX:
                raise Refused(Code.INVALID_VALUE, f"{len(what)} names, the limit is {NAMES_MAX}")


def _joined(parts: list[Changed]) -> Changed:
    names = dict.fromkeys(name for part in parts for name in part.names)
    return Changed(tuple(names), tuple(assoc for part in parts for assoc in part.assocs))


def _one(draft: Draft, change: Change) -> Changed:
    try:
        if isinstance(change, ChangeQos):
            return qos_changes.change(draft, change)
        function = CHANGES.get((change.action, change.entity))
        if function is None:
            raise Refused(Code.NOT_SUPPORTED, f"{change.action.name.lower()} {change.entity[:64]}")
        return function(draft, change)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None


def _shown(change: Change) -> str:
    """A change in a few words."""
    entity = "qos" if isinstance(change, ChangeQos) else change.entity
    names = ",".join(change.names[:3]) + (",..." if len(change.names) > 3 else "")
    return f"{change.action.name.lower()} {entity} {names}"[:200]
