"""Handles changes of accounting's entities: one at a time, or many of which all or none are made.

Each pair of action and entity is one function on a Draft (draft.py). It may read, write and refuse in any order, since
its writes are rolled back when it refuses. It first checks with queue/rights.py whether the caller may make the change
at all. With `check_only` the changes are made and rolled back: the answer is what would be done (sacctmgr shows it and
asks for confirmation).

A very large request takes seconds. It is handled in slices, all within one step of the core: no other event is handled,
sealed or answered until all of its changes are made or rolled back (Core.begin). Messages of nodes and leases are still
received meanwhile.
"""

from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from ctld.core.accounts import accounts, audit_diff, coordinators, resources, users, wckeys
from ctld.core.accounts import qos as qos_changes
from ctld.core.accounts.draft import Draft, RecordChange
from ctld.core.records.effects import Changed, ChangedMany, Done, Refused
from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, ChangeMany, ChangeQos, Role
from ctld.core.state.state import ClusterState
from penstock.values.errors import BadValue
from penstock.values.refusals import Code

#: Maximum number of names in one request.
NAMES_MAX = 10_000
#: Maximum number of changes in one request.
CHANGES_MAX = 50_000
#: The same for coordinators: all others wait while a request is carried out, as its changes are seen together or not at all.
COORDINATOR_CHANGES_MAX = 2_000
#: New users that are added in one slice, which takes some milliseconds.
PART_NAMES = 100

#: Settings that only an account has, and not a user's association.
_OWN_OF_ACCOUNT = frozenset(("budget", "description", "organization", "parent"))

_ADD = AccountAction.ADD
_MODIFY = AccountAction.MODIFY
_REMOVE = AccountAction.REMOVE
CHANGES: dict[tuple[AccountAction, str], Callable[[Draft, ChangeAccounts], Changed]] = {
    (_ADD, "account"): accounts.add_accounts,
    (_MODIFY, "account"): accounts.modify_accounts,
    (_REMOVE, "account"): accounts.remove_accounts,
    (_ADD, "cluster"): accounts.add_cluster,
    (_MODIFY, "cluster"): accounts.modify_cluster,
    (_ADD, "coordinator"): coordinators.add_coordinators,
    (_REMOVE, "coordinator"): coordinators.remove_coordinators,
    (_ADD, "resource"): resources.add_resources,
    (_MODIFY, "resource"): resources.modify_resources,
    (_REMOVE, "resource"): resources.remove_resources,
    (_ADD, "user"): users.add_users,
    (_MODIFY, "user"): users.modify_users,
    (_REMOVE, "user"): users.remove_users,
    (_ADD, "wckey"): wckeys.add_wckeys,
    (_REMOVE, "wckey"): wckeys.remove_wckeys,
}

Change = ChangeAccounts | ChangeQos


def change_accounts(state: ClusterState, now_us: int, event: ChangeAccounts) -> None:
    """Handles sacctmgr add, modify, delete. Raises Refused."""
    state.handling.unfinished = _change_one(state, now_us, event)


def _change_one(state: ClusterState, now_us: int, event: ChangeAccounts) -> Iterator[None]:
    (body,) = yield from _run(Draft(state, now_us, event.actor), (event,), event.check_only)
    state.reply(event.reply_to, body)


def change_qos(state: ClusterState, now_us: int, event: ChangeQos) -> None:
    """Handles sacctmgr add, modify, delete qos. Raises Refused."""
    for _ in _run(Draft(state, now_us, event.actor), (event,), event.check_only):
        pass
    state.reply(event.reply_to, Done())


def too_many(actor: Actor, number: int) -> str:
    """Says that a request has too many changes for this caller; "" = it has not."""
    if number > CHANGES_MAX:
        return f"{number} changes, the limit is {CHANGES_MAX}"
    if number > COORDINATOR_CHANGES_MAX and actor.role < Role.OPERATOR:
        return f"{number} changes, the limit of coordinators is {COORDINATOR_CHANGES_MAX}"
    return ""


def change_many(state: ClusterState, now_us: int, event: ChangeMany) -> None:
    """Handles sacctmgr load and penstock policy apply: all of it or nothing. A refusal names the change."""
    if why := too_many(event.actor, len(event.changes)):
        raise Refused(Code.INVALID_VALUE, why)
    state.handling.unfinished = _change_many(state, now_us, event)


def _change_many(state: ClusterState, now_us: int, event: ChangeMany) -> Iterator[None]:
    draft = Draft(state, now_us, event.actor)
    bodies = yield from _run(draft, event.changes, event.check_only, numbered=True)
    state.reply(event.reply_to, ChangedMany(tuple(bodies)))


def _run(
    draft: Draft, changes: Iterable[Change], check_only: bool, numbered: bool = False
) -> Generator[None, None, list[Changed]]:
    """Makes all changes, or none and raises Refused. Works in slices."""
    try:
        bodies, acts = yield from _drafted(draft, changes, numbered)
        qos_changes.refuse_loops(draft)
        if not check_only:
            draft.state.applying()
    except Exception:
        draft.undo()  # nothing is applied then
        raise
    if check_only:
        draft.undo()
        return bodies
    draft.finish()
    for change, recorded in acts:
        yield from audit_diff.record_changes(draft.state, draft.now_us, draft.actor, change, recorded)
    return bodies


def _drafted(
    draft: Draft, changes: Iterable[Change], numbered: bool
) -> Generator[None, None, tuple[list[Changed], list[tuple[Change, list[RecordChange]]]]]:
    bodies: list[Changed] = []
    acts: list[tuple[Change, list[RecordChange]]] = []
    for number, change in enumerate(changes, 1):
        begun = len(draft.recorded)
        parts: list[Changed] = []
        try:
            for part in _parts(_of_users(change)):
                parts.append(_one(draft, part))
                yield
        except Refused as refused:
            if not numbered:
                raise
            detail = f"{refused.detail}; " if refused.detail else ""
            raise Refused(refused.code, f"{detail}change {number}: {_shown(change)}") from None
        bodies.append(parts[0] if len(parts) == 1 else _joined(parts))
        acts.append((change, draft.recorded[begun:]))
    return bodies, acts


def _of_users(change: Change) -> Change:
    """Returns a change of accounts `where user=` as one of those users' associations in them, which Slurm changes then."""
    if (
        not isinstance(change, ChangeAccounts)
        or change.entity != "account"
        or change.action is _ADD
        or not change.users
    ):
        return change
    own = ", ".join(sorted(_OWN_OF_ACCOUNT & change.changes.keys()))
    if own:
        raise Refused(Code.INVALID_VALUE, f"{own} of an account cannot be set where users are named")
    names = tuple(name.lower() for name in change.names)
    return msgspec.structs.replace(change, entity="user", names=change.users, accounts=names, users=())


def _parts(change: Change) -> Iterator[Change]:
    """Splits a change of many new users into changes of some of them."""
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
    """Describes a change briefly."""
    entity = "qos" if isinstance(change, ChangeQos) else change.entity
    names = ",".join(change.names[:3]) + (",..." if len(change.names) > 3 else "")
    return f"{change.action.name.lower()} {entity} {names}"[:200]
