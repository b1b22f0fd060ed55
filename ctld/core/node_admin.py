"""What an administrator does to nodes and partitions: scontrol update, reboot.

A state is an order for one or several nodes: all are checked before the first is changed. Comment, Extra and ResumeAfter
are kept with the node's row. What belongs to the configuration (features, addresses, what a partition holds) is amended
there (penstock/config/amend.py) and comes as a LoadConfig.

    NORESP         a node that is in contact says so by its next message, so nothing comes of it
    FUTURE         nothing runs there any more; registering takes it back, as RESUME does
    POWER_*        refused as long as no program does it
    ResumeAfter=s  DOWN or DRAIN is taken back after s seconds, unless RESUME or -1 has come before
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ctld.core import gpu_admin, node_life, reboot
from ctld.core.effects import Done, Refused
from ctld.core.events import Role, UpdateNodes, UpdatePartition
from ctld.core.model import Node
from ctld.core.node_life import REASON_MAX, US
from ctld.core.ready import refresh
from ctld.core.rights import require_role
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import NodeFlag
from penstock.values.text import check_name

#: A year: later than that nobody remembers why.
RESUME_AFTER_MAX_S = 366 * 86400
POWER_STATES = ("POWER_UP", "POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE")
NO_POWER_SAVING = "SuspendProgram and ResumeProgram are not used by Penstock: nothing switches nodes on and off"


class Order(NamedTuple):
    """What an update says beside the GPUs, read and checked. None = not said."""

    to: str
    next_state: str
    reason: str
    comment: str | None
    extra: str | None
    weight: int | None
    resume_after_s: int | None  # -1 = not any more


def update_nodes(state: ClusterState, now_us: int, event: UpdateNodes) -> None:
    """scontrol update nodename=. Raises Refused."""
    require_role(event.actor, Role.ADMINISTRATOR, "changing a node")
    nodes = named(state, event.names)
    changes = dict(event.changes)
    if "gres" in changes:
        to, reason = changes.pop("state", "").upper(), changes.pop("reason", "")
        changes.pop("nextstate", "")
        _update_gpus(state, now_us, event, nodes, changes, to, reason)
        return
    order = _read(changes)
    _check(state, nodes, order)
    # -- apply
    for node in nodes:
        _obey(state, node, order, event.actor.uid, now_us)
    state.reply(event.reply_to, Done())


def named(state: ClusterState, names: Sequence[str]) -> list[Node]:
    """The nodes of these names; ALL are all. Raises Refused."""
    everyone = [name.upper() for name in names] == ["ALL"] and names[0] not in state.nodes
    wanted = [node.name for node in state.node_list] if everyone else names
    unknown = [name for name in wanted if name not in state.nodes]
    if unknown or not wanted:
        raise Refused(Code.INVALID_NODE_NAME, unknown[0] if unknown else "")
    return [state.nodes[name] for name in wanted]


def _read(changes: dict[str, str]) -> Order:
    """The words of a request. Raises Refused."""
    order = Order(
        to=changes.pop("state", "").upper(),
        next_state=changes.pop("nextstate", "").upper(),
        reason=changes.pop("reason", ""),
        comment=changes.pop("comment", None),
        extra=changes.pop("extra", None),
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


def _check(state: ClusterState, nodes: list[Node], order: Order) -> None:
    """Whether the nodes are in a state for it. Raises Refused."""
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


def _obey(state: ClusterState, node: Node, order: Order, uid: int, now_us: int) -> None:
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
        node.reason, node.reason_uid, node.reason_at_us = order.reason, uid, now_us
    if order.resume_after_s is not None:
        node.resume_after_us = now_us + order.resume_after_s * US if order.resume_after_s >= 0 else 0
        if node.resume_after_us:
            state.timers.set(node.resume_after_us, Timer.RESUME_AFTER, node.name)
    state.touch_node(node)


def resume_due(state: ClusterState, now_us: int, name: str, check: int) -> None:
    """ResumeAfter has passed: what closed the node is taken back, unless somebody has said otherwise since."""
    node = state.nodes.get(name)
    if node is None or not node.resume_after_us or node.resume_after_us > now_us:
        return
    if node.flags & RESUMABLE:
        _set_state(state, node, "RESUME", "", node_life.ROOT_UID, now_us)
    node.resume_after_us = 0
    state.touch_node(node)


def recover(state: ClusterState) -> None:
    """After a restart: who is to be resumed."""
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
    """gres=gpu:...: of the nodes only these GPUs are meant. Raises Refused."""
    text = changes.pop("gres")
    if changes:
        raise Refused(Code.NOT_SUPPORTED, f"{next(iter(changes))}= and gres= do not go together")
    try:
        check_name(reason, "reason", REASON_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    found = gpu_admin.chosen(nodes, text, to, reason)
    # -- apply
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
        idle = [n.name for n in nodes if (n.flags & REBOOTING) != NodeFlag.REBOOT_REQUESTED]
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
REBOOTING = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
#: What `state=` may ask for beside states: name -> who does it (node, next state, reason, uid, now).
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
        node.reason = ""
    elif on:
        node.reason, node.reason_uid, node.reason_at_us = reason or node.reason, uid, now_us
    else:
        node.reason, node.resume_after_us = "", 0
    if to == "DOWN":  # the administrator's word that nothing runs there any more
        for job_id in list(node.jobs):
            job = state.jobs[job_id]
            node_life.end_for_node(state, node, job, now_us)
            if not node.connected:
                node_life.bury(state, node, job, now_us)


PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def update_partition(state: ClusterState, now_us: int, event: UpdatePartition) -> None:
    """scontrol update partitionname= state=. Raises Refused."""
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
    # -- apply
    partition.state = to
    state.rules_changed()
    state.dirty_partitions[partition.name] = None
    for job in list(state.jobs.values()):  # a rare command, not an event of the daily run
        if partition.name in job.request.partitions:
            refresh(state, job, now_us)
    state.changed()
    state.reply(event.reply_to, Done())
