"""Manual state changes of one or more GPUs: scontrol update nodename=n gres=gpu:... state=drain|resume reason=...

    DRAIN     no new job gets it; one that has it continues. A reason is required, as for nodes
    RESUME    clears the marks that an administrator, the controller or its node has set on it.
              No check runs first: the administrator is responsible

The node's own state and reason stay as they are. A node that is unreachable gets the order when it registers.
"""

from collections.abc import Sequence

from ctld.core.gpus import inventory
from ctld.core.records.effects import ClearGpu, Refused
from ctld.core.records.gpu import Gpu
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from penstock.values.gpustates import GpuState
from penstock.values.refusals import Code

DRAIN, RESUME = "DRAIN", "RESUME"
STATES = {DRAIN: DRAIN, RESUME: RESUME, "UNDRAIN": RESUME}
#: GPUs of a node that a refusal lists.
SHOWN_MAX = 16

_Chosen = list[tuple[Node, list[Gpu]]]


def chosen(nodes: Sequence[Node], text: str, to: str, reason: str) -> _Chosen:
    """Returns the GPUs that the request means, by node, after all checks. Raises Refused."""
    if to not in STATES:
        raise Refused(Code.INVALID_NODE_STATE, f"{to or '(none)'} of a GPU; known: {', '.join(STATES)}")
    found = [(node, _of_node(node, text)) for node in nodes]
    if STATES[to] == DRAIN and not reason and any(not gpu.drain_reason for _, mine in found for gpu in mine):
        raise Refused(Code.INVALID_VALUE, f"You must specify a reason when {to} a GPU")
    if STATES[to] == RESUME:
        found = [(node, [gpu for gpu in mine if _may_resume(gpu)]) for node, mine in found]
        if not any(mine for _, mine in found):
            raise Refused(Code.INVALID_NODE_STATE, f"{text} of {','.join(node.name for node in nodes)} is not drained")
    return found


def _of_node(node: Node, text: str) -> list[Gpu]:
    """Finds the GPUs of a node by a comma-separated list of names. A GPU stands for its MIG instances."""
    if not node.gpus:
        raise Refused(Code.INVALID_GRES, f"node {node.name} has not named any GPU")
    found: dict[str, Gpu] = {}
    for word in text.lower().split(","):
        mine = inventory.find(node, word)
        if not mine:
            raise Refused(Code.INVALID_GRES, f"{word} is not on node {node.name}; it has {_listed(node)}")
        found |= {gpu.uuid: gpu for gpu in mine}
    return [gpu for gpu in found.values() if gpu.facts.parent not in found]


def _listed(node: Node) -> str:
    there = [gpu for gpu in inventory.find(node, GPU) if gpu.is_there]
    shown = ", ".join(f"gpu:{gpu.facts.index} ({gpu.uuid})" for gpu in there[:SHOWN_MAX])
    return shown + (f" and {len(there) - SHOWN_MAX} more" if len(there) > SHOWN_MAX else "") or "none now"


def _may_resume(gpu: Gpu) -> bool:
    return gpu.drained or gpu.must_check or gpu.opinion.state is not GpuState.HEALTHY


def apply(state: ClusterState, now_us: int, found: _Chosen, to: str, reason: str, uid: int) -> None:
    """Applies the change."""
    for node, mine in found:
        for gpu in mine:
            if STATES[to] == DRAIN:
                why = reason or gpu.drain_reason
                new = gpu._replace(drained=True, drain_reason=why, drain_uid=uid, drain_at_us=now_us)
            else:
                new = _resumed(gpu)._replace(must_clear=not node.connected)
                if node.connected:
                    state.emit(ClearGpu(node.name, gpu.uuid))
            inventory.put(state, node, new)
        if mine:
            inventory.settle(state, node)


def _resumed(gpu: Gpu) -> Gpu:
    return gpu._replace(
        drained=False, drain_reason="", drain_uid=0, drain_at_us=0, must_check=False, troubles=()
    )  # the health is the node's own judgement


def registered(state: ClusterState, node: Node) -> None:
    """Repeats to a registered node the orders that could not reach it. `settle` follows."""
    for gpu in list(node.gpus.values()):
        if gpu.must_clear:
            state.emit(ClearGpu(node.name, gpu.uuid))
            inventory.put(state, node, gpu._replace(must_clear=False))
