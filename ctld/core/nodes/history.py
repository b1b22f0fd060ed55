"""History for accounting: when nodes were not up, when no controller ran, and the cluster's size over time; for events
and the roll-up.

A node's event begins when a node is DOWN, DRAIN or FAIL for whatever cause, and ends when it is none of these. A change
of the state or of the reason ends it and begins the next, so that each has one state and one reason. Not responding is
no event until the node is DOWN for it; a node that never registered has none either.

The cluster has one open event with its total TRES, and a closed one for each time that no controller ran for longer
than a restart takes.

Events are updated once a step, for the nodes that were touched in it; a step that touches none pays one test.
Deliberately absent: the use of these times (accounting/rolling.py).
"""

from typing import Final

from ctld.core.records.node import Node, NodeEvent
from ctld.core.state.state import ClusterState
from penstock.values.config import NodeConfig
from penstock.values.states import NodeFlag
from penstock.values.tres import format_tres, there_is

#: The node name of events that concern no node.
CLUSTER: Final = ""
REGISTERED: Final = "Cluster Registered TRES"
AWAY: Final = "slurmctld disconnect"
#: A shorter absence of the controller is a restart.
AWAY_MIN_US: Final = 10 * 1_000_000
#: Flags that are an event, in the order of precedence.
WORDS: Final = ((NodeFlag.DOWN, "DOWN"), (NodeFlag.DRAIN, "DRAIN"), (NodeFlag.FAIL, "FAIL"))
_CLOSED: Final = NodeFlag.DOWN | NodeFlag.DRAIN | NodeFlag.FAIL


def settle(state: ClusterState, now_us: int) -> None:
    """Opens and closes events of the nodes that were touched."""
    touched = state.open_intervals.nodes_touched
    state.open_intervals.nodes_touched = {}
    for name in touched:
        node = state.nodes.get(name)
        if node is not None:
            _update_event(state, node, now_us)


def _update_event(state: ClusterState, node: Node, now_us: int) -> None:
    known = state.open_intervals.node_events.get(node.name)
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
    state.open_intervals.node_events[event.node] = event
    state.outputs.dirty_events[event.node, event.start_at_us] = event


def _close(state: ClusterState, event: NodeEvent, now_us: int) -> None:
    del state.open_intervals.node_events[event.node]
    state.outputs.dirty_events[event.node, event.start_at_us] = event._replace(end_at_us=max(now_us, event.start_at_us))


def tres_of(*configs: NodeConfig) -> str:
    """Returns the TRES of these nodes, as text."""
    return format_tres(there_is((config.cpus_for_jobs(), config.real_memory_mb, config.gres) for config in configs))


def laid_out(state: ClusterState, now_us: int) -> None:
    """Handles a new layout, whose nodes or sizes may differ."""
    for name in [name for name in state.open_intervals.node_events if name != CLUSTER and name not in state.nodes]:
        _close(state, state.open_intervals.node_events[name], now_us)
    tres = tres_of(*(node.config for node in state.node_list if not node.flags & NodeFlag.FUTURE))
    known = state.open_intervals.node_events.get(CLUSTER)
    if known is None or known.tres != tres:
        if known is not None:
            _close(state, known, now_us)
        _open(state, NodeEvent(CLUSTER, now_us, 0, "", REGISTERED, 0, tres))


def recover(state: ClusterState, seen_at_us: int, now_us: int) -> None:
    """Opens events at a start: `seen_at_us` is when a controller last ran; 0 = never."""
    if seen_at_us and now_us - seen_at_us >= AWAY_MIN_US:
        tres = tres_of(*(node.config for node in state.node_list if not node.flags & NodeFlag.FUTURE))
        state.outputs.dirty_events[CLUSTER, seen_at_us] = NodeEvent(CLUSTER, seen_at_us, now_us, "DOWN", AWAY, 0, tres)
    for node in state.node_list:
        _update_event(state, node, now_us)
