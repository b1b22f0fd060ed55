"""Changes of accounting's entities: one at a time, or many of which all or none are made.

Each pair of action and entity is one function on a Draft (draft.py): it may look, write and refuse in any order, since what
it has written is taken back when it refuses. It asks rights.py first whether the caller may do this at all. With
`check_only` the changes are made, and taken back: the answer is what would be done (sacctmgr shows it and asks).
"""

from collections.abc import Callable, Iterable

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
    """sacctmgr add, modify, delete. Raises Refused."""
    (body,) = _run(Draft(state, now_us, event.actor), (event,), event.check_only)
    state.reply(event.reply_to, body)


def change_qos(state: ClusterState, now_us: int, event: ChangeQos) -> None:
    """sacctmgr add, modify, delete qos. Raises Refused."""
    _run(Draft(state, now_us, event.actor), (event,), event.check_only)
    state.reply(event.reply_to, Done())


def change_many(state: ClusterState, now_us: int, event: ChangeMany) -> None:
    """sacctmgr load, penstock policy apply: all of it or nothing. Raises Refused, which says which change it was."""
    if len(event.changes) > CHANGES_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(event.changes)} changes, the limit is {CHANGES_MAX}")
    bodies = _run(Draft(state, now_us, event.actor), event.changes, event.check_only, numbered=True)
    state.reply(event.reply_to, ChangedMany(tuple(bodies)))


def _run(draft: Draft, changes: Iterable[Change], check_only: bool, numbered: bool = False) -> list[Changed]:
    bodies: list[Changed] = []
    acts: list[tuple[Change, list[Told]]] = []
    for number, change in enumerate(changes, 1):
        try:
            begun = len(draft.told)
            bodies.append(_one(draft, change))
            acts.append((change, draft.told[begun:]))
        except Refused as refused:
            draft.undo()
            if not numbered:
                raise
            detail = f"{refused.detail}; " if refused.detail else ""
            raise Refused(refused.code, f"{detail}change {number}: {_shown(change)}") from None
    if check_only:
        draft.undo()
    else:
        draft.finish()
        for change, told in acts:
            watch.tell(draft.state, draft.now_us, draft.actor, change, told)
    return bodies


def _one(draft: Draft, change: Change) -> Changed:
    try:
        if isinstance(change, ChangeQos):
            return qos_changes.change(draft, change)
        function = CHANGES.get((change.action, change.entity))
        if function is None:
            raise Refused(Code.NOT_SUPPORTED, f"{change.action.name.lower()} {change.entity[:64]}")
        for what in (change.names, change.accounts, change.parents, change.partitions, change.users):
            if len(what) > NAMES_MAX:
                raise Refused(Code.INVALID_VALUE, f"{len(what)} names, the limit is {NAMES_MAX}")
        return function(draft, change)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None


def _shown(change: Change) -> str:
    """A change in a few words."""
    entity = "qos" if isinstance(change, ChangeQos) else change.entity
    names = ",".join(change.names[:3]) + (",..." if len(change.names) > 3 else "")
    return f"{change.action.name.lower()} {entity} {names}"[:200]
