"""Schedules checks and resets of GPUs by the site's programs (PenstockGpuCheckProgram, PenstockGpuResetProgram).

    failed -> its node reports recovery -> CHECK -> good: available again; bad: drained
    drained, its node recommends a reset -> idle -> RESET -> the node's report -> CHECK
    idle and HEALTHY for PenstockGpuCheckInterval -> CHECK

Rules
    - Only present, idle GPUs of reachable nodes are treated, one at a time on a node. GPUs drained by an administrator
      are excluded. MIG instances, and GPUs divided into them, are not checked: the program sees whole cards.
    - A GPU of a node is not checked for its age while a pending job wants a GPU and may run on that node:
      its idle GPUs will soon be allocated. With more than HEAD_MAX such rows no GPU is checked for its age.
    - A failed check drains the GPU with the program's message. After TROUBLES_MAX resets or failed checks for the same reason
      within a day there are no more: "hardware inspection".
    - Without these programs nothing of this is active.

Pending work is in the GPU's record (must_check, wants_reset), so it survives a restart of the controller. A timer
repeats the check while there is work: a GPU becomes idle when its job ends.
"""

from typing import Final

from ctld.core.gpus import inventory
from ctld.core.gpus import work as gpu_work
from ctld.core.records.gpu import Gpu, WorkKind
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.gpustates import CLOSED_STATES, GpuState
from penstock.values.gres import SHARED_NAMES

US: Final = 1_000_000
HOUR_US: Final = 3600 * US
DAY_US: Final = 24 * HOUR_US
#: Interval between two checks.
CHECK_US: Final = 30 * US
#: Time limit of a program.
CHECK_TIMEOUT_S: Final = 600
RESET_TIMEOUT_S: Final = 300
#: Time after a reset for the node to judge its result.
RESET_PAUSE_US: Final = 120 * US
#: Resets and failed checks for one reason, within a day.
TROUBLES_MAX: Final = 2
INSPECTION: Final = "hardware inspection"
#: Rows of the queue that are examined.
HEAD_MAX: Final = 1_000


def noted(state: ClusterState, node: Node) -> None:
    """Notes the GPUs of the node that have failed, after its health has changed. `settle` follows."""
    if not state.config.gpu_check_program:
        return
    for gpu in list(node.gpus.values()):
        if not gpu.must_check and _is_whole(gpu) and (not gpu.is_there or _has_failed(gpu)):
            inventory.put(state, node, gpu._replace(must_check=True))


def _is_whole(gpu: Gpu) -> bool:
    return not gpu.facts.parent and not gpu.facts.mig_enabled


def _has_failed(gpu: Gpu) -> bool:
    return gpu.opinion.state in CLOSED_STATES and not gpu.opinion.many_only


def begin_due_work(state: ClusterState, now_us: int, node: Node, wanted: int | None = None) -> None:
    """Starts the checks and resets that are due on the node. `wanted`: nodes where pending jobs want GPUs, as a bit
    map."""
    if not node.gpus:
        return
    _forget(state, node)
    if node.connected and not gpu_work.under_way(node):
        if wanted is None:
            wanted = _wanted(state) if _interval_us(state) else 0
        for gpu in sorted(node.gpus.values(), key=lambda gpu: (gpu.checked_at_us, gpu.facts.index, gpu.uuid)):
            if _begin(state, now_us, node, gpu, bool(wanted >> node.index & 1)):
                break
    if _interval_us(state) or any(_has_work(state, gpu) for gpu in node.gpus.values()):
        check_later(state, now_us)


def _forget(state: ClusterState, node: Node) -> None:
    """Releases GPUs that wait for a check which will not happen: the program is not configured any more, or the GPU has
    been divided since."""
    is_on = bool(state.config.gpu_check_program)
    waiting = [gpu for gpu in node.gpus.values() if gpu.must_check and not (is_on and _is_whole(gpu))]
    for gpu in waiting:
        inventory.put(state, node, gpu._replace(must_check=False))
    if waiting:
        inventory.settle(state, node)


def _has_work(state: ClusterState, gpu: Gpu) -> bool:
    """Whether the GPU is due for a check or reset. A reset without a reset program is not due."""
    return gpu.must_check or (gpu.opinion.wants_reset and bool(state.config.gpu_reset_program))


def _interval_us(state: ClusterState) -> int:
    config = state.config
    return config.gpu_check_interval_h * HOUR_US if config.gpu_check_program else 0


def _begin(state: ClusterState, now_us: int, node: Node, gpu: Gpu, is_wanted: bool) -> bool:
    """Starts the work on the GPU; returns whether any was started."""
    if not gpu.is_there or gpu.drained or not _is_whole(gpu) or not gpu_work.is_idle(node, gpu):
        return False
    if _has_failed(gpu):
        return _reset(state, now_us, node, gpu)
    interval_us = _interval_us(state)
    is_old = bool(interval_us) and gpu.state() is GpuState.HEALTHY and now_us - gpu.checked_at_us >= interval_us
    if gpu.must_check or (is_old and gpu.slot >= 0 and not is_wanted and state.node_columns.up[node.index]):
        gpu_work.begin(state, now_us, node, gpu, WorkKind.CHECK, CHECK_TIMEOUT_S)
        return True
    return False


def _reset(state: ClusterState, now_us: int, node: Node, gpu: Gpu) -> bool:
    config = state.config
    if not gpu.opinion.wants_reset or not config.gpu_reset_program or config.gpu_settings == "read-only":
        return False
    if gpu.troubles and now_us - gpu.troubles[-1][0] < RESET_PAUSE_US:
        return False
    reason = gpu.opinion.reason
    if _how_often(gpu, now_us, reason) >= TROUBLES_MAX:
        inventory.put(state, node, gpu_work.drained(gpu, now_us, f"{INSPECTION}: {reason}"))
        inventory.settle(state, node)
        return False
    gpu_work.begin(state, now_us, node, _troubled(gpu, now_us, reason), WorkKind.RESET, RESET_TIMEOUT_S)
    return True


def _how_often(gpu: Gpu, now_us: int, reason: str) -> int:
    return sum(1 for at_us, why in gpu.troubles if why == reason and now_us - at_us < DAY_US)


def _troubled(gpu: Gpu, now_us: int, reason: str) -> Gpu:
    young = tuple(one for one in gpu.troubles if now_us - one[0] < DAY_US)
    return gpu._replace(troubles=(*young, (now_us, reason)))


def done(state: ClusterState, now_us: int, gpu: Gpu, kind: WorkKind, ok: bool, text: str) -> Gpu:
    """Applies the end of a check or reset to the GPU's record; the caller stores it and calls `settle`."""
    if kind is WorkKind.RESET:
        return gpu._replace(must_check=gpu.must_check or bool(state.config.gpu_check_program))
    if ok:
        return gpu._replace(must_check=False, checked_at_us=now_us)
    reason = f"check failed: {text or 'the program gives no reason'}"
    gpu = _troubled(gpu._replace(must_check=False, checked_at_us=now_us), now_us, reason)
    often = _how_often(gpu, now_us, reason) >= TROUBLES_MAX
    return gpu_work.drained(gpu, now_us, f"{INSPECTION}: {reason}" if often else reason)


def _wanted(state: ClusterState) -> int:
    """Returns the nodes on which a pending job wants a GPU."""
    rows = state.pending.first(HEAD_MAX + 1)
    kinds = [column for (name, _), column in state.layout.gres_kinds.items() if name == GPU or name in SHARED_NAMES]
    if len(rows) > HEAD_MAX:
        return -1
    table, bits = state.pending.table, 0
    for mask in dict.fromkeys(table.mask[rows[table.gres[rows][:, kinds].any(axis=1)]].tolist()):
        bits |= state.layout.masks.bits[mask]
    return bits


def check_later(state: ClusterState, now_us: int) -> None:
    """Sets the timer unless it is set."""
    if not state.gpus.care_timer:
        state.gpus.care_timer = True
        state.timers.set(now_us + CHECK_US, Timer.GPU_CARE)


def due(state: ClusterState, now_us: int, key: object, check: int) -> None:
    """Handles the timer."""
    state.gpus.care_timer = False
    wanted = _wanted(state) if _interval_us(state) else 0
    for node in state.node_list:
        begin_due_work(state, now_us, node, wanted)


def recover(state: ClusterState, now_us: int) -> None:
    """After a start or reload: schedules an early check if there may be work."""
    if _interval_us(state) or any(_has_work(state, gpu) for node in state.node_list for gpu in node.gpus.values()):
        check_later(state, now_us)
