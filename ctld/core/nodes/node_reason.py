"""Why a node is not in use: the text, who has set it, and when. The flags that it explains are their setters'."""

from ctld.core.records.node import Node


def explain(node: Node, reason: str, uid: int, at_us: int) -> None:
    """Sets the reason, with its author."""
    node.reason = reason
    node.reason_uid = uid
    node.reason_at_us = at_us


def reword(node: Node, reason: str) -> None:
    """Changes the text; author and time remain. "" = there is no reason any more."""
    node.reason = reason
