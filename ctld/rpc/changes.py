"""Messages that change accounting's entities as events of the core, and its answers as messages."""

from typing import Any, Final

from ctld.core.accounts import CHANGES_MAX
from ctld.core.effects import Changed
from ctld.core.events import AccountAction, Actor, ChangeAccounts, ChangeMany, ChangeQos, QosAction
from ctld.rpc import wanted
from ctld.rpc.refusals import BadRequest
from penstock.v1 import shares_pb2
from penstock.values.refusals import TEXT, Code

#: The message of a change, and what else it may name.
_QOS: Final = "qos"


def accounts_event(actor: Actor, request: Any, reply_to: int = 0) -> ChangeAccounts:
    """Of a ChangeAccountsRequest. Raises BadRequest."""
    try:
        action = AccountAction(request.action)
    except ValueError:
        raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: action {request.action}") from None
    return ChangeAccounts(
        actor, action, request.entity, tuple(request.names), wanted.changes_of(request.changes),
        tuple(request.accounts), tuple(request.parents), request.check_only, reply_to, tuple(request.partitions),
        tuple(request.users), wanted.changes_of(request.where),
    )  # fmt: skip


def qos_event(actor: Actor, request: Any, reply_to: int = 0) -> ChangeQos:
    """Of a ChangeQosRequest. Raises BadRequest."""
    try:
        action = QosAction(request.action)
    except ValueError:
        raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: action {request.action}") from None
    changes = wanted.changes_of(request.changes)
    return ChangeQos(actor, action, tuple(request.names), changes, reply_to, request.check_only)


def many_event(actor: Actor, request: Any, reply_to: int) -> ChangeMany:
    """Of a ChangeManyRequest. Raises BadRequest."""
    if len(request.changes) > CHANGES_MAX:
        text = f"{len(request.changes)} changes, the limit is {CHANGES_MAX}"
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {text}")
    changes: list[ChangeAccounts | ChangeQos] = []
    for number, change in enumerate(request.changes, 1):
        kind = change.WhichOneof("what")
        if kind is None:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: change {number} is empty")
        try:
            changes.append(qos_event(actor, change.qos) if kind == _QOS else accounts_event(actor, change.accounts))
        except BadRequest as error:
            raise BadRequest(error.code, f"{error.text}; change {number}") from None
    return ChangeMany(actor, tuple(changes), request.check_only, reply_to)


def changed_reply(body: Changed) -> shares_pb2.ChangeAccountsReply:
    """What was done."""
    found = (shares_pb2.Association(account=a, user=u, parent=p, partition=n) for a, u, p, n in body.assocs)
    return shares_pb2.ChangeAccountsReply(names=body.names, associations=found)
