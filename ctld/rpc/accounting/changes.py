"""Decodes messages that change accounting's entities to events of the core, and encodes its answers."""

from collections.abc import Iterator
from typing import Final

from ctld.core.accounts.requests import too_many
from ctld.core.records.effects import Changed
from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, ChangeQos, QosAction
from ctld.runtime.errors import BadRequest
from penstock.v1 import controller_pb2, governance_pb2, shares_pb2
from penstock.values.refusals import TEXT, Code

#: The message of a change, and the other names that it may contain.
_QOS: Final = "qos"


def accounts_event(actor: Actor, request: shares_pb2.ChangeAccountsRequest, reply_to: int = 0) -> ChangeAccounts:
    """Returns the event of a ChangeAccountsRequest. Raises BadRequest."""
    try:
        action = AccountAction(request.action)
    except ValueError:
        raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: action {request.action}") from None
    return ChangeAccounts(
        actor, action, request.entity, tuple(request.names), dict(request.changes),
        tuple(request.accounts), tuple(request.parents), request.check_only, reply_to, tuple(request.partitions),
        tuple(request.users), dict(request.where),
    )  # fmt: skip


def qos_event(actor: Actor, request: controller_pb2.ChangeQosRequest, reply_to: int = 0) -> ChangeQos:
    """Returns the event of a ChangeQosRequest. Raises BadRequest."""
    try:
        action = QosAction(request.action)
    except ValueError:
        raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: action {request.action}") from None
    changes = dict(request.changes)
    return ChangeQos(actor, action, tuple(request.names), changes, reply_to, request.check_only)


def many_changes(actor: Actor, request: governance_pb2.ChangeManyRequest) -> Iterator[ChangeAccounts | ChangeQos]:
    """Yields the changes of a ChangeManyRequest. Raises BadRequest."""
    if why := too_many(actor, len(request.changes)):
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {why}")
    for number, change in enumerate(request.changes, 1):
        kind = change.WhichOneof("what")
        if kind is None:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: change {number} is empty")
        try:
            yield qos_event(actor, change.qos) if kind == _QOS else accounts_event(actor, change.accounts)
        except BadRequest as error:
            raise BadRequest(error.code, f"{error.text}; change {number}") from None


def changed_reply(body: Changed) -> shares_pb2.ChangeAccountsReply:
    """Encodes the result of a change."""
    found = (shares_pb2.Association(account=a, user=u, parent=p, partition=n) for a, u, p, n in body.assocs)
    return shares_pb2.ChangeAccountsReply(names=body.names, associations=found)
