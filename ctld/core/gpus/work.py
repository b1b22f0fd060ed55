"""Maintenance work on an idle GPU by its node, while no job may have it: check, reset, division.

    begin -> closed, GpuWork to the node -> GpuWorkDone, or the time limit -> open again, or drained

- The GPU is closed from the order on, so that no job can start on it meanwhile.
- The current work is in the GPU's record: after a restart of the controller, and whenever the node registers, the order
  is sent again. The node does each work id once.
- Without an answer after the time-out and GRACE_US the GPU is drained: its condition is unknown. While the node is
  unreachable the time-out is suspended; no job starts there anyway.
- An answer counts once: one for a work id that is not the current one changes nothing.

Deliberately absent: when work is done (care.py, passes/mig_division.py) and its consequences (nodes/gpu_health.py).
"""

from collections.abc import Sequence
from typing import Final

from ctld.core.gpus import inventory
from ctld.core.records.effects import GpuWork
from ctld.core.records.gpu import Gpu, WorkKind
from ctld.core.records.node import Node
from ctld.core.state import shares
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer

US: Final = 1_000_000
#: Added to the node's own time limit, for the messages.
GRACE_US: Final = 30 * US
REASON_MAX: Final = 256
ROOT_UID: Final = 0
#: Names for users.
DOING: Final = {WorkKind.CHECK: "checked", WorkKind.RESET: "reset", WorkKind.DIVIDE: "divided"}


def begin(
    state: ClusterState,
    now_us: int,
    node: Node,
    gpu: Gpu,
    kind: WorkKind,
    timeout_s: int,
    layout: Sequence[str] | None = None,
) -> Gpu:
    """Closes the GPU and sends the order. The caller has checked that it is idle (`is_idle`) and not being worked on.

    `layout`: of DIVIDE, the profiles; () = whole. `gpu` may differ from the record in other fields, which are kept.
    """
    assert not gpu.work_id, f"{gpu.uuid}: {gpu.work_id} is under way"
    number = gpu.works + 1
    gpu = gpu._replace(
        work_id=f"{gpu.uuid}/{number}/{now_us}",
        work_kind=int(kind),
        work_timeout_s=timeout_s,
        work_until_us=_until_us(now_us, timeout_s),
        works=number,
        layout=gpu.layout if layout is None else tuple(layout),
    )
    inventory.put(state, node, gpu)
    inventory.settle(state, node)
    _order(state, node, gpu)
    return gpu


def is_idle(node: Node, gpu: Gpu) -> bool:
    """Whether no job has the GPU, or a part of it."""
    held = shares.whole_gpus(node)
    parts = (gpu, *(one for one in node.gpus.values() if one.facts.parent == gpu.uuid))
    return not any(one.slot >= 0 and (held >> one.slot & 1 or one.slot in node.gpu_shares) for one in parts)


def end(gpu: Gpu) -> Gpu:
    """Returns the record after the end of the work; the caller stores it and calls `settle`."""
    return gpu._replace(work_id="", work_kind=0, work_until_us=0, work_timeout_s=0)


def drained(gpu: Gpu, now_us: int, reason: str) -> Gpu:
    """Takes the GPU out of service until an administrator resumes it; an administrator's own drain is kept."""
    if gpu.drained:
        return gpu
    return gpu._replace(drained=True, drain_reason=reason[:REASON_MAX], drain_uid=ROOT_UID, drain_at_us=now_us)


def _until_us(now_us: int, timeout_s: int) -> int:
    return now_us + timeout_s * US + GRACE_US


def _order(state: ClusterState, node: Node, gpu: Gpu) -> None:
    layout = gpu.layout or () if gpu.work_kind == WorkKind.DIVIDE else ()
    state.emit(GpuWork(node.name, gpu.work_id, gpu.work_kind, gpu.uuid, gpu.work_timeout_s, layout))
    state.timers.set(gpu.work_until_us, Timer.GPU_WORK, node.name)


def under_way(node: Node) -> list[Gpu]:
    """Returns the work in progress on the node."""
    return [gpu for gpu in node.gpus.values() if gpu.work_id]


def registered(state: ClusterState, now_us: int, node: Node) -> None:
    """Repeats the orders, with their full time limits, when the node has registered. A missing GPU needs none."""
    for gpu in under_way(node):
        if gpu.is_there:
            gpu = gpu._replace(work_until_us=_until_us(now_us, gpu.work_timeout_s))
            _order(state, node, gpu)
        else:
            gpu = end(gpu)
        inventory.put(state, node, gpu)


def timed_out(state: ClusterState, now_us: int, name: str, check: int) -> None:
    """Handles the timer: no answer in time."""
    node = state.nodes.get(name)
    if node is None or not node.connected:
        return  # the order is sent again when it registers
    late = [gpu for gpu in under_way(node) if gpu.work_until_us <= now_us]
    for gpu in late:
        what = DOING[WorkKind(gpu.work_kind)]
        reason = f"it was being {what}, without an answer for {gpu.work_timeout_s + GRACE_US // US} s"
        inventory.put(state, node, drained(end(gpu), now_us, reason))
    if late:
        inventory.settle(state, node)


def recover(state: ClusterState, now_us: int) -> None:
    """After a restart: sets the timers of work in progress."""
    for node in state.node_list:
        for gpu in under_way(node):
            state.timers.set(max(gpu.work_until_us, now_us), Timer.GPU_WORK, node.name)


def words(node: Node) -> str:
    """Describes the work in progress, for waiting jobs: "GPU 0 of n1 is being checked"."""
    descriptions = (
        f"GPU {gpu.facts.index} of {node.name} is being {DOING[WorkKind(gpu.work_kind)]}" for gpu in under_way(node)
    )
    return "; ".join(descriptions)
