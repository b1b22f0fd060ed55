"""Why a node is not in use: the text, who has set it, and when. The flags that it explains are their setters'.

A node may be drained for several reasons of the controller's: each is withdrawn separately, and the last one undrains it.
An administrator's change overrides them.
"""

from ctld.core.records.node import Node
from penstock.values.states import NodeFlag

ROOT_UID = 0
REASON_MAX = 256
#: Separates several reasons of a node.
AND = "; "


def explain(node: Node, reason: str, uid: int, at_us: int) -> None:
    """Sets the reason, with its author."""
    node.reason = reason
    node.reason_uid = uid
    node.reason_at_us = at_us


def reword(node: Node, reason: str) -> None:
    """Changes the text; author and time remain. "" = there is no reason any more."""
    node.reason = reason


def add(node: Node, flag: NodeFlag, reason: str, now_us: int) -> bool:
    """Sets the flag for that reason, beside others; returns whether that changed anything."""
    reasons = _own_reasons(node, flag)
    if reason in reasons:
        return False
    if node.flags & flag:
        if not reasons or len(node.reason) > REASON_MAX:  # an administrator's change overrides it
            return False
        reword(node, AND.join([*reasons, reason]))
    else:
        node.flags |= flag
        explain(node, reason, ROOT_UID, now_us)
    return True


def withdraw(node: Node, flag: NodeFlag, reason: str) -> bool:
    """Withdraws that reason, and the flag with the last one; returns whether that changed anything."""
    reasons = _own_reasons(node, flag)
    if reason not in reasons:
        return False
    reasons.remove(reason)
    reword(node, AND.join(reasons))
    if not reasons:
        node.flags &= ~flag
    return True


def _own_reasons(node: Node, flag: NodeFlag) -> list[str]:
    return node.reason.split(AND) if node.flags & flag and node.reason_uid == ROOT_UID else []
