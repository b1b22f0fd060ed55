"""Events that change accounting: entities of sacctmgr, QOS, many of both at once (events.py has the others)."""

from enum import IntEnum

import msgspec

from ctld.core.records.event_base import Actor, Event


class AccountAction(IntEnum):
    """Numbers of the wire's ChangeAccountsRequest.Action."""

    ADD = 1
    MODIFY = 2
    REMOVE = 3


class ChangeAccounts(Event, frozen=True):
    """sacctmgr add, modify, delete. `changes`: lower-case key, with + or - appended for `+=` and `-=` -> value."""

    actor: Actor
    action: AccountAction
    entity: str
    names: tuple[str, ...]
    changes: dict[str, str]
    accounts: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    check_only: bool = False
    reply_to: int = 0
    partitions: tuple[str, ...] = ()  # of users: only these associations; of new ones: one for each
    users: tuple[str, ...] = ()  # of coordinators and wckeys: the users
    where: dict[str, str] = msgspec.field(default_factory=dict)  # further conditions, by sacctmgr's names


class QosAction(IntEnum):
    """Numbers of the wire's ChangeQosRequest.Action."""

    ADD = 1
    MODIFY = 2
    DELETE = 3


class ChangeQos(Event, frozen=True):
    """sacctmgr add|modify|delete qos. `changes`: lower-case key, with + or - appended for `+=` and `-=` -> value."""

    actor: Actor
    action: QosAction
    names: tuple[str, ...]
    changes: dict[str, str]
    reply_to: int = 0
    check_only: bool = False


class ChangeMany(Event, frozen=True):
    """All of the changes or none, in order; the actor, check_only and reply_to of the parts are ignored."""

    actor: Actor
    changes: tuple[ChangeAccounts | ChangeQos, ...]
    check_only: bool = False
    reply_to: int = 0
