"""When nodes were not up, when the controller was away, what the cluster had: for accounting's events and roll-up.

A node's event begins when a node is DOWN, DRAIN or FAIL for whatever cause, and ends when it is none of these. A change
of the state or of the reason ends it and begins the next, so that each says one thing. Not responding is no event until
the node is DOWN for it; a node that never registered is none either.

Of the cluster there is one open event that says what it has in sum, and a closed one for each time that no controller
was there for longer than a restart takes.

Events are looked at once a step, for the nodes that were touched in it; a step that touches none pays one test.
Deliberately absent: what becomes of the times (accounting/rolling.py).
"""

from typing import Final

from ctld.core.model import Node, NodeEvent
from ctld.core.state import ClusterState
from penstock.values.config import NodeConfig
from penstock.values.states import NodeFlag
from penstock.values.tres import format_tres, there_is

#: The name of what is no node.
CLUSTER: Final = ""
REGISTERED: Final = "Cluster Registered TRES"
AWAY: Final = "slurmctld disconnect"
#: A controller that comes back sooner has been restarted.
AWAY_MIN_US: Final = 10 * 1_000_000
#: Flags that are an event, in the order in which they are said.
WORDS: Final = ((NodeFlag.DOWN, "DOWN"), (NodeFlag.DRAIN, "DRAIN"), (NodeFlag.FAIL, "FAIL"))
_CLOSED: Final = NodeFlag.DOWN | NodeFlag.DRAIN | NodeFlag.FAIL


def settle(state: ClusterState, now_us: int) -> None:
    """Open and close events of the nodes that were touched."""
    touched, state.nodes_touched = state.nodes_touched, {}
    for name in touched:
        node = state.nodes.get(name)
        if node is not None:
            _look(state, node, now_us)


def _look(state: ClusterState, node: Node, now_us: int) -> None:
    known = state.node_events.get(node.name)
    if not node.flags & _CLOSED or node.flags & NodeFlag.FUTURE:
        if known is not None:
            _close(state, known, now_us)
        return
    word = "+".join(word for flag, word in WORDS if node.flags & flag)
    if known is not None and (known.state, known.reason) == (word, node.reason):
        return
    if known is not None:
        _close(state, known, now_us)
    _open(state, NodeEvent(node.name, now_us, 0, word, node.reason, node.reason_uid, tres_of(node.config)))


def _open(state: ClusterState, event: NodeEvent) -> None:
    state.node_events[event.node] = event
    state.dirty_events[event.node, event.start_at_us] = event


def _close(state: ClusterState, event: NodeEvent, now_us: int) -> None:
    del state.node_events[event.node]
    state.dirty_events[event.node, event.start_at_us] = event._replace(end_at_us=max(now_us, event.start_at_us))


def tres_of(*configs: NodeConfig) -> str:
    """What these nodes have, as text."""
    return format_tres(there_is((config.cpus, config.real_memory_mb, config.gres) for config in configs))


def laid_out(state: ClusterState, now_us: int) -> None:
    """The cluster has other nodes, or nodes of other sizes, perhaps."""
    for name in [name for name in state.node_events if name != CLUSTER and name not in state.nodes]:
        _close(state, state.node_events[name], now_us)
    tres = tres_of(*(node.config for node in state.node_list if not node.flags & NodeFlag.FUTURE))
    known = state.node_events.get(CLUSTER)
    if known is None or known.tres != tres:
        if known is not None:
            _close(state, known, now_us)
        _open(state, NodeEvent(CLUSTER, now_us, 0, "", REGISTERED, 0, tres))


def recover(state: ClusterState, seen_at_us: int, now_us: int) -> None:
    """At a start: `seen_at_us` is when a controller was there last; 0 = never."""
    if seen_at_us and now_us - seen_at_us >= AWAY_MIN_US:
        tres = tres_of(*(node.config for node in state.node_list if not node.flags & NodeFlag.FUTURE))
        state.dirty_events[CLUSTER, seen_at_us] = NodeEvent(CLUSTER, seen_at_us, now_us, "DOWN", AWAY, 0, tres)
    for node in state.node_list:
        _look(state, node, now_us)
