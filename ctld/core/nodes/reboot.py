"""scontrol reboot, and --reboot of a job (jobs/node_boots.py): nodes that run RebootProgram once no job runs on them.

    REBOOT_REQUESTED -> (no allocation left) REBOOT_ISSUED -> registered with a new boot id -> its next state

Rules (scontrol(1))
    - Without ASAP the node continues to take jobs, and reboots as soon as it has none. With ASAP it is drained.
    - Once the order is sent, nothing starts there.
    - nextstate=RESUME: it takes jobs afterwards, whatever its state was. DOWN: it stays down. Neither: its former state,
      that is, only ASAP's own drain is reverted.
    - A node that does not register within ResumeTimeout is DOWN with the reason "reboot timed out".
    - The order is sent again when the node registers with the boot id it had: it has not rebooted then.

The next state is kept in flags of the node, so that it survives a restart of the controller.
"""

from ctld.core.jobs import node_boots
from ctld.core.nodes import node_reason
from ctld.core.records.effects import RebootNode
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import NodeFlag

US = 1_000_000
DEFAULT_REASON = "reboot requested"
ASAP_REASON = "Reboot ASAP"
TIMED_OUT = "reboot timed out"
_ALL = (
    NodeFlag.REBOOT_REQUESTED
    | NodeFlag.REBOOT_ISSUED
    | NodeFlag.REBOOT_THEN_RESUME
    | NodeFlag.REBOOT_THEN_DOWN
    | NodeFlag.REBOOT_DRAINED
)
NEXT_STATES = {"": NodeFlag.NONE, "RESUME": NodeFlag.REBOOT_THEN_RESUME, "DOWN": NodeFlag.REBOOT_THEN_DOWN}


def request(state: ClusterState, node: Node, asap: bool, next_state: str, reason: str, uid: int, now_us: int) -> None:
    """Marks the node for a reboot."""
    node.flags = (node.flags & ~_ALL) | NodeFlag.REBOOT_REQUESTED | NEXT_STATES[next_state]
    if asap and not node.flags & NodeFlag.DRAIN:
        node.flags |= NodeFlag.DRAIN | NodeFlag.REBOOT_DRAINED
    if reason or not node.reason:
        node_reason.explain(node, reason or (ASAP_REASON if asap else DEFAULT_REASON), uid, now_us)
    state.rebooting[node.name] = None
    state.touch_node(node)


def cancel(state: ClusterState, node: Node) -> None:
    """Cancels a reboot; one in progress cannot be cancelled."""
    _clear(state, node)
    state.touch_node(node)


def _clear(state: ClusterState, node: Node) -> None:
    if node.flags & NodeFlag.REBOOT_DRAINED:
        node.flags &= ~NodeFlag.DRAIN
    if not node.flags & (NodeFlag.DRAIN | NodeFlag.DOWN | NodeFlag.FAIL):
        node_reason.reword(node, "")
    node.flags &= ~_ALL
    state.rebooting.pop(node.name, None)


def issue(state: ClusterState, now_us: int) -> None:
    """Marks the nodes of jobs that have just started and want it, and sends the order to marked nodes on which no job
    runs."""
    for name in state.boots_for_jobs:
        node = state.nodes[name]
        node.flags |= NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_FOR_JOB
        state.rebooting[name] = None
        state.touch_node(node)
    state.boots_for_jobs = {}
    for name in list(state.rebooting):
        node = state.nodes.get(name)
        if node is None or not node.flags & NodeFlag.REBOOT_REQUESTED:
            del state.rebooting[name]
        elif node.connected and _is_unused(node) and not node.flags & NodeFlag.REBOOT_ISSUED:
            node.flags |= NodeFlag.REBOOT_ISSUED
            _order(state, node, now_us)
            state.touch_node(node)


def _is_unused(node: Node) -> bool:
    """Whether nothing runs there; a job that waits for the reboot does not."""
    return not node.leftovers and (not node.jobs or bool(node.flags & NodeFlag.REBOOT_FOR_JOB))


def _order(state: ClusterState, node: Node, now_us: int) -> None:
    state.emit(RebootNode(node.name, node.reason))
    due_us = now_us + state.config.resume_timeout_s * US
    state.timers.set(due_us, Timer.REBOOT, node.name)


def registered(state: ClusterState, node: Node, rebooted: bool, now_us: int) -> None:
    """Handles the registration of a node after its reboot, or otherwise."""
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
        node_reason.reword(node, reason)
    else:
        node.flags &= ~NodeFlag.DOWN
        if then & NodeFlag.REBOOT_THEN_RESUME:
            node.flags &= ~NodeFlag.DRAIN
            node_reason.reword(node, "")


def jobs_of_node_back(state: ClusterState, node: Node) -> list[Job]:
    """Takes the mark from a node that has rebooted, and returns its jobs that wait for no other."""
    if not node.flags & NodeFlag.REBOOT_FOR_JOB or node.flags & (NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED):
        return []
    node.flags &= ~NodeFlag.REBOOT_FOR_JOB
    state.touch_node(node)
    waiting = (job for job in (state.jobs[job_id] for job_id in node.jobs) if job.request.reboot)
    return [job for job in waiting if not node_boots.are_awaited(state, job)]


def give_up(state: ClusterState, node: Node, now_us: int) -> None:
    """Sets a node DOWN that has not come back."""
    node.flags = (node.flags & ~(_ALL | NodeFlag.REBOOT_FOR_JOB)) | NodeFlag.DOWN
    state.rebooting.pop(node.name, None)
    node_reason.explain(node, TIMED_OUT, 0, now_us)
    state.touch_node(node)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart: sets the timers of reboots in progress."""
    for node in state.node_list:
        if node.flags & NodeFlag.REBOOT_REQUESTED:
            state.rebooting[node.name] = None
        if node.flags & NodeFlag.REBOOT_ISSUED:
            due_us = now_us + state.config.resume_timeout_s * US
            state.timers.set(due_us, Timer.REBOOT, node.name)
