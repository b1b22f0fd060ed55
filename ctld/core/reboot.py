"""scontrol reboot: nodes that are to run RebootProgram when nothing runs on them any more.

    REBOOT_REQUESTED -> (nobody has anything there) REBOOT_ISSUED -> registered with a new boot id -> as it is to be

Rules (scontrol(1))
    - Without ASAP the node goes on to take jobs, and reboots at the first moment without one. With ASAP it is drained.
    - From the moment the order leaves nothing starts there.
    - nextstate=RESUME: it takes jobs afterwards, whatever it was before. DOWN: it stays down. Neither: as it was before,
      which is to say that only ASAP's own drain is taken back.
    - A node that is not back within ResumeTimeout is DOWN with the reason "reboot timed out".
    - The order is sent again when the node registers with the boot id it had: it has not rebooted then.

What comes after is kept in flags of the node, so that it survives a restart of the controller.
"""

from ctld.core.effects import RebootNode
from ctld.core.model import Node
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import NodeFlag

US = 1_000_000
DEFAULT_REASON, ASAP_REASON, TIMED_OUT = "reboot requested", "Reboot ASAP", "reboot timed out"
_ALL = (
    NodeFlag.REBOOT_REQUESTED
    | NodeFlag.REBOOT_ISSUED
    | NodeFlag.REBOOT_THEN_RESUME
    | NodeFlag.REBOOT_THEN_DOWN
    | NodeFlag.REBOOT_DRAINED
)
NEXT_STATES = {"": NodeFlag.NONE, "RESUME": NodeFlag.REBOOT_THEN_RESUME, "DOWN": NodeFlag.REBOOT_THEN_DOWN}


def request(state: ClusterState, node: Node, asap: bool, next_state: str, reason: str, uid: int, now_us: int) -> None:
    """Note that the node is to reboot."""
    node.flags = (node.flags & ~_ALL) | NodeFlag.REBOOT_REQUESTED | NEXT_STATES[next_state]
    if asap and not node.flags & NodeFlag.DRAIN:
        node.flags |= NodeFlag.DRAIN | NodeFlag.REBOOT_DRAINED
    if reason or not node.reason:
        node.reason = reason or (ASAP_REASON if asap else DEFAULT_REASON)
        node.reason_uid, node.reason_at_us = uid, now_us
    state.rebooting[node.name] = None
    state.touch_node(node)


def cancel(state: ClusterState, node: Node) -> None:
    """Not any more; what is under way already cannot be taken back."""
    _clear(state, node)
    state.touch_node(node)


def _clear(state: ClusterState, node: Node) -> None:
    if node.flags & NodeFlag.REBOOT_DRAINED:
        node.flags &= ~NodeFlag.DRAIN
    if not node.flags & (NodeFlag.DRAIN | NodeFlag.DOWN | NodeFlag.FAIL):
        node.reason = ""
    node.flags &= ~_ALL
    state.rebooting.pop(node.name, None)


def issue(state: ClusterState, now_us: int) -> None:
    """Send the order to those on which nothing runs."""
    for name in list(state.rebooting):
        node = state.nodes.get(name)
        if node is None or not node.flags & NodeFlag.REBOOT_REQUESTED:
            del state.rebooting[name]
        elif node.connected and not node.jobs and not node.leftovers and not node.flags & NodeFlag.REBOOT_ISSUED:
            node.flags |= NodeFlag.REBOOT_ISSUED
            _order(state, node, now_us)
            state.touch_node(node)


def _order(state: ClusterState, node: Node, now_us: int) -> None:
    state.emit(RebootNode(node.name, node.reason))
    due_us = now_us + state.config.resume_timeout_s * US
    state.timers.set(due_us, Timer.REBOOT, node.name)


def registered(state: ClusterState, node: Node, rebooted: bool, now_us: int) -> None:
    """The node is there (again)."""
    if not node.flags & NodeFlag.REBOOT_ISSUED:
        return
    if not rebooted:
        _order(state, node, now_us)
        return
    then, reason = node.flags, node.reason
    _clear(state, node)
    if then & NodeFlag.REBOOT_THEN_DOWN:
        node.flags |= NodeFlag.DOWN
        node.flags &= ~NodeFlag.DRAIN
        node.reason = reason
    else:
        node.flags &= ~NodeFlag.DOWN
        if then & NodeFlag.REBOOT_THEN_RESUME:
            node.flags &= ~NodeFlag.DRAIN
            node.reason = ""


def timed_out(state: ClusterState, now_us: int, name: str, check: int) -> None:
    """ResumeTimeout after the order."""
    node = state.nodes.get(name)
    if node is None or not node.flags & NodeFlag.REBOOT_ISSUED:
        return
    node.flags = (node.flags & ~_ALL) | NodeFlag.DOWN
    state.rebooting.pop(name, None)
    node.reason, node.reason_uid, node.reason_at_us = TIMED_OUT, 0, now_us
    state.touch_node(node)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart: who is waited for."""
    for node in state.node_list:
        if node.flags & NodeFlag.REBOOT_REQUESTED:
            state.rebooting[node.name] = None
        if node.flags & NodeFlag.REBOOT_ISSUED:
            due_us = now_us + state.config.resume_timeout_s * US
            state.timers.set(due_us, Timer.REBOOT, node.name)
