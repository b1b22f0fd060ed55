"""Administration of nodes and partitions: scontrol update, reboot.

A state change may concern several nodes: all are checked before the first is changed. Comment, Extra and ResumeAfter
are kept in the node's row. Changes to the configuration (features, addresses, nodes of a partition) are made there
(penstock/config/amend.py) and arrive as a LoadConfig.

    NORESP         without lasting effect on a reachable node: its next message clears it
    FUTURE         nothing runs there any more; registering reverts it, as RESUME does
    POWER_*        refused as long as no program does it
    ResumeAfter=s  DOWN or DRAIN is reverted after s seconds, unless RESUME or -1 has come before
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ctld.core.gpus import admin as gpu_admin
from ctld.core.lifecycle.recheck import recheck
from ctld.core.nodes import life as node_life
from ctld.core.nodes import node_reason, reboot
from ctld.core.nodes.life import US
from ctld.core.nodes.node_reason import REASON_MAX, ROOT_UID
from ctld.core.queue.rights import require_role
from ctld.core.records.effects import Done, Refused
from ctld.core.records.events import Role, UpdateNodes, UpdatePartition
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import JobState, NodeFlag
from penstock.values.text import check_name

#: Maximum of ResumeAfter: a year.
RESUME_AFTER_MAX_S = 366 * 86400
POWER_STATES = ("POWER_UP", "POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE")
NO_POWER_SAVING = "SuspendProgram and ResumeProgram are not used by Penstock: nothing switches nodes on and off"


class NodeOrder(NamedTuple):
    """The changes of an update beside the GPUs, parsed and checked. None = not given."""

    to: str
    next_state: str
    reason: str
    comment: str | None
    extra: str | None
    instance_ids: tuple[str, ...] | None  # one for each node
    instance_types: tuple[str, ...] | None
    weight: int | None
    resume_after_s: int | None  # -1 = removes it


def update_nodes(state: ClusterState, now_us: int, event: UpdateNodes) -> None:
    """Handles scontrol update nodename=. Raises Refused."""
    require_role(event.actor, Role.ADMINISTRATOR, "changing a node")
    nodes = named(state, event.names)
    changes = dict(event.changes)
    if "gres" in changes:
        to, reason = changes.pop("state", "").upper(), changes.pop("reason", "")
        changes.pop("nextstate", "")
        _update_gpus(state, now_us, event, nodes, changes, to, reason)
        return
    order = _read(state, changes, len(nodes))
    _check(state, nodes, order)
    state.applying()
    for at, node in enumerate(nodes):
        if order.instance_ids is not None:
            node.instance_id = order.instance_ids[at]
        if order.instance_types is not None:
            node.instance_type = order.instance_types[at]
        _apply_order(state, node, order, event.actor.uid, now_us)
    state.reply(event.reply_to, Done())


def named(state: ClusterState, names: Sequence[str]) -> list[Node]:
    """Returns the nodes of these names; ALL means all. Raises Refused."""
    everyone = [name.upper() for name in names] == ["ALL"] and names[0] not in state.nodes
    wanted = [node.name for node in state.node_list] if everyone else names
    unknown = [name for name in wanted if name not in state.nodes]
    if unknown or not wanted:
        raise Refused(Code.INVALID_NODE_NAME, unknown[0] if unknown else "")
    return [state.nodes[name] for name in wanted]


def _instances(state: ClusterState, text: str | None, count: int, what: str) -> tuple[str, ...] | None:
    """Returns the value of each node from a host list: one for all, or as many as nodes. Raises Refused."""
    if text is None:
        return None
    try:
        names = tuple(expand(check_name(text, what), state.handling.allowance)) if text else ("",)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    if len(names) == 1:
        return names * count
    if len(names) != count:
        raise Refused(Code.INVALID_NODE_NAME, f"{what} names {len(names)} instances for {count} nodes")
    return names


def _read(state: ClusterState, changes: dict[str, str], count: int) -> NodeOrder:
    """Parses the keys of a request about `count` nodes. Raises Refused."""
    order = NodeOrder(
        to=changes.pop("state", "").upper(),
        next_state=changes.pop("nextstate", "").upper(),
        reason=changes.pop("reason", ""),
        comment=changes.pop("comment", None),
        extra=changes.pop("extra", None),
        instance_ids=_instances(state, changes.pop("instanceid", None), count, "instanceid"),
        instance_types=_instances(state, changes.pop("instancetype", None), count, "instancetype"),
        weight=None,
        resume_after_s=None,
    )
    weight, after = changes.pop("weight", None), changes.pop("resumeafter", None)
    if changes:
        raise Refused(Code.NOT_SUPPORTED, f"{next(iter(changes))}= is not supported for nodes yet")
    try:
        check_name(order.reason, "reason")
        check_name(order.comment or "", "comment")
        check_name(order.extra or "", "extra")
        if weight is not None:
            order = order._replace(weight=parse_int(weight, 0, 0x7FFFFFFF, "weight"))
        if after is not None:
            seconds = -1 if after == "-1" else parse_int(after, 0, RESUME_AFTER_MAX_S, "resumeafter")
            order = order._replace(resume_after_s=seconds)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    return order


def _check(state: ClusterState, nodes: list[Node], order: NodeOrder) -> None:
    """Checks that the nodes are in a state for the change. Raises Refused."""
    to = order.to
    if to in POWER_STATES:
        raise Refused(Code.INVALID_NODE_STATE, NO_POWER_SAVING)
    if to and to not in NODE_STATES and to not in REBOOTS:
        raise Refused(Code.INVALID_NODE_STATE, f"{to}; known: {', '.join((*NODE_STATES, *REBOOTS, *POWER_STATES))}")
    if to in REBOOTS:
        _check_reboot(state, nodes, to, order.next_state)
    if to in ("DOWN", "DRAIN", "FAIL") and not order.reason and any(not node.reason for node in nodes):
        raise Refused(Code.INVALID_VALUE, f"You must specify a reason when {to} a node")
    if to == "RESUME" and any(not node.flags & RESUMABLE for node in nodes):
        raise Refused(Code.INVALID_NODE_STATE)
    if to == "FUTURE" and (busy := [node.name for node in nodes if node.jobs]):
        raise Refused(Code.NODES_BUSY, f"node {busy[0]} has jobs")
    if order.resume_after_s is not None and order.resume_after_s >= 0 and to not in ("DOWN", "DRAIN"):
        raise Refused(Code.INVALID_NODE_STATE, "ResumeAfter goes with State=DOWN or State=DRAIN")


def _apply_order(state: ClusterState, node: Node, order: NodeOrder, uid: int, now_us: int) -> None:
    if order.comment is not None:
        node.comment = order.comment
    if order.extra is not None:
        node.extra = order.extra
    if order.weight is not None:
        state.set_weight(node, order.weight)
    if order.to in REBOOTS:
        REBOOTS[order.to](state, node, order.next_state, order.reason, uid, now_us)
    elif order.to:
        _set_state(state, node, order.to, order.reason, uid, now_us)
    elif order.reason:
        node_reason.explain(node, order.reason, uid, now_us)
    if order.resume_after_s is not None:
        node.resume_after_us = now_us + order.resume_after_s * US if order.resume_after_s >= 0 else 0
        if node.resume_after_us:
            state.timers.set(node.resume_after_us, Timer.RESUME_AFTER, node.name)
    state.touch_node(node)


def resume_due(state: ClusterState, now_us: int, name: str, check: int) -> None:
    """Resumes a node after ResumeAfter, unless its state was changed since."""
    node = state.nodes.get(name)
    if node is None or not node.resume_after_us or node.resume_after_us > now_us:
        return
    if node.flags & RESUMABLE:
        _set_state(state, node, "RESUME", "", ROOT_UID, now_us)
    node.resume_after_us = 0
    state.touch_node(node)


def recover(state: ClusterState) -> None:
    """After a restart: sets the timers of nodes to be resumed."""
    for node in state.node_list:
        if node.resume_after_us:
            state.timers.set(node.resume_after_us, Timer.RESUME_AFTER, node.name)


def _update_gpus(
    state: ClusterState,
    now_us: int,
    event: UpdateNodes,
    nodes: list[Node],
    changes: dict[str, str],
    to: str,
    reason: str,
) -> None:
    """Handles gres=gpu:...: only these GPUs of the nodes are changed. Raises Refused."""
    text = changes.pop("gres")
    if changes:
        raise Refused(Code.NOT_SUPPORTED, f"{next(iter(changes))}= and gres= do not go together")
    try:
        check_name(reason, "reason", REASON_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    found = gpu_admin.chosen(nodes, text, to, reason)
    state.applying()
    gpu_admin.apply(state, now_us, found, to, reason, event.actor.uid)
    state.reply(event.reply_to, Done())


RESUMABLE = NodeFlag.DRAIN | NodeFlag.DOWN | NodeFlag.FAIL | NodeFlag.FUTURE
#: States an administrator may set, with the flags they set and clear.
NODE_STATES: dict[str, tuple[NodeFlag, NodeFlag]] = {
    "DRAIN": (NodeFlag.DRAIN, NodeFlag.NONE),
    "DOWN": (NodeFlag.DOWN, NodeFlag.NONE),
    "FAIL": (NodeFlag.FAIL, NodeFlag.NONE),
    "RESUME": (NodeFlag.NONE, RESUMABLE),
    "IDLE": (NodeFlag.NONE, RESUMABLE),
    "UNDRAIN": (NodeFlag.NONE, NodeFlag.DRAIN),
    "FUTURE": (NodeFlag.FUTURE, RESUMABLE),
    "NORESP": (NodeFlag.NONE, NodeFlag.NONE),
}


def _check_reboot(state: ClusterState, nodes: list[Node], to: str, next_state: str) -> None:
    if to == CANCEL_REBOOT:
        idle = [n.name for n in nodes if (n.flags & NOT_TO_CANCEL) != NodeFlag.REBOOT_REQUESTED]
        if idle:
            raise Refused(Code.INVALID_NODE_STATE, f"node {idle[0]} does not wait for a reboot")
        return
    if not state.config.reboot_program:
        raise Refused(Code.DISABLED_STATE, "RebootProgram is not set")
    if next_state not in reboot.NEXT_STATES:
        raise Refused(Code.INVALID_VALUE, f"nextstate {next_state}; known: RESUME, DOWN")
    if issued := [n.name for n in nodes if n.flags & NodeFlag.REBOOT_ISSUED]:
        raise Refused(Code.INVALID_NODE_STATE, f"node {issued[0]} is rebooting already")


CANCEL_REBOOT = "CANCEL_REBOOT"
NOT_TO_CANCEL = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED | NodeFlag.REBOOT_FOR_JOB
#: Actions of `state=` beside states: name -> function (node, next state, reason, uid, now).
REBOOTS: dict[str, Callable[[ClusterState, Node, str, str, int, int], None]] = {
    "REBOOT": lambda state, node, then, *rest: reboot.request(state, node, False, then, *rest),
    "REBOOT_ASAP": lambda state, node, then, *rest: reboot.request(state, node, True, then, *rest),
    CANCEL_REBOOT: lambda state, node, *rest: reboot.cancel(state, node),
}


def _set_state(state: ClusterState, node: Node, to: str, reason: str, uid: int, now_us: int) -> None:
    on, off = NODE_STATES[to]
    node.flags = (node.flags & ~off) | on
    if to == "NORESP":
        return
    if to == "FUTURE":
        node_reason.reword(node, "")
    elif on:
        node_reason.explain(node, reason or node.reason, uid, now_us)
    else:
        node_reason.reword(node, "")
        node.resume_after_us = 0
    if to == "DOWN":  # the administrator confirms that nothing runs there any more
        for job_id in list(node.jobs):
            job = state.jobs[job_id]
            node_life.end_for_node(state, node, job, now_us)
            if not node.connected:
                node_life.mark_steps_dead(state, node, job, now_us)


PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def update_partition(state: ClusterState, now_us: int, event: UpdatePartition) -> None:
    """Handles scontrol update partitionname= state=. Raises Refused."""
    require_role(event.actor, Role.ADMINISTRATOR, "changing a partition")
    partition = state.partitions.get(event.name)
    if partition is None:
        raise Refused(Code.INVALID_PARTITION, event.name)
    to = event.changes.get("state", "").upper()
    others = [key for key in event.changes if key != "state"]
    if others:
        raise Refused(
            Code.NOT_SUPPORTED, f"{others[0]}= is not supported for partitions yet: edit slurm.conf and reconfigure"
        )
    if to not in PARTITION_STATES:
        raise Refused(Code.INVALID_VALUE, f"state {to or '(none)'}; known: {', '.join(PARTITION_STATES)}")
    state.applying()
    partition.state = to
    state.rules_changed()
    state.touch_partition(partition)
    waiting = [job for job in state.jobs.records() if job.state is JobState.PENDING]
    recheck(state, [job for job in waiting if partition.name in job.request.partitions], now_us)
    state.changed()
    state.reply(event.reply_to, Done())
