"""Keeps jobs from a node whose machine has a wrong clock: it is drained until the clock is right.

Times and charges do not depend on it (steps/reported.py); its programs, certificates and files do. How wrong is too wrong is
decided where clocks are compared (ctld/agents/clockwatch.py).
"""

from ctld.core.nodes import node_reason
from ctld.core.records.events import NodeClockSeen
from ctld.core.state.state import ClusterState
from penstock.values.states import NodeFlag

#: The node's reason; the log and `scontrol show node` have the difference.
CLOCK_WRONG = "Clock is wrong: set it"


def clock_seen(state: ClusterState, now_us: int, event: NodeClockSeen) -> None:
    """Drains the node, or withdraws that. A drain by an administrator is kept."""
    node = state.nodes.get(event.node)
    if node is None or node.link_id != event.link_id:
        return
    if event.is_usable:
        has_changed = node_reason.withdraw(node, NodeFlag.DRAIN, CLOCK_WRONG)
    else:
        has_changed = node_reason.add(node, NodeFlag.DRAIN, CLOCK_WRONG, now_us)
    if has_changed:
        state.touch_node(node)
