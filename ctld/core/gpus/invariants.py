"""Invariants of devices, GPUs above all: which job has which, which are free, which are released.

Everything is recounted from the records, place by place, and compared with the masks and columns that are kept
incrementally. Part of `Core.check` (invariants.py).
"""

from ctld.core.gpus import inventory
from ctld.core.records.mig import gres_of
from ctld.core.records.node import Node
from ctld.core.records.violation import need
from ctld.core.state import shares
from ctld.core.state.state import ClusterState
from penstock.values.gpustates import GpuState
from penstock.values.gres import SHARED_NAMES
from penstock.values.mig import most_at_once

_Device = tuple[str, str, int]  # (name, type, place among those of the name)


def check_gpus(state: ClusterState, node: Node) -> None:
    """Raises Violation at the first inconsistency of a node's devices."""
    _check_places(node)
    devices = _devices(node)
    closed = {slot for name, _, slot in devices if name == shares.GPU and _is_closed(node, slot)}
    mask = sum(1 << slot for slot in sorted(closed))
    need(node.gpu_closed == mask, f"{node.name}: closed GPUs are {node.gpu_closed:b}, not {mask:b}")
    free = [one for one in devices if not _is_used(node, one) and not (one[0] == shares.GPU and one[2] in closed)]
    tracked = node.index in state.running.tracked
    columns = state.node_columns
    for kind, column in state.layout.gres_kinds.items():
        if kind[0] in SHARED_NAMES or not kind[0] or (tracked and kind[0] in shares.GPU_KINDS):
            continue  # counted by invariants._check_shares_of_gpus
        total = sum(_counts_for(node, one, kind, empty=True) for one in devices)
        if kind == (shares.GPU, "") and node.config.mig:  # of its possible parts only some exist
            total = min(
                total, sum(g.count for g in node.config.gres if g.name == shares.GPU) + most_at_once(node.config.mig)
            )
        need(int(columns.total_gres[node.index, column]) == total, f"{node.name}: {kind} has {total} devices")
        here = sum(_counts_for(node, one, kind) for one in free)
        found = int(columns.free_gres[node.index, column])
        need(found == here, f"{node.name}: {found} of {kind} free, counted {here}")
        for job_id in node.jobs:
            back = _given_back(state, node, job_id, kind, closed)
            planned = _planner_count(state, node, job_id, column)
            need(back == planned, f"job {job_id} gives back {planned} of {kind} on {node.name}, counted {back}")


def _check_places(node: Node) -> None:
    """Checks that places and GPUs correspond one to one."""
    places: dict[int, str] = {}
    for uuid, gpu in node.gpus.items():
        need(gpu.uuid == uuid and gpu.node == node.name, f"{node.name}: {uuid} is kept as {gpu.uuid} of {gpu.node}")
        if gpu.slot >= 0:
            need(gpu.slot not in places, f"{node.name}: place {gpu.slot} has {uuid} and {places.get(gpu.slot)}")
            need(gpu.slot < len(node.inside.gpu_types), f"{node.name}: {uuid} has place {gpu.slot}, which is not there")
            need(gpu.given_as == node.inside.gpu_types[gpu.slot], f"{node.name}: {uuid} is given as {gpu.given_as}")
            places[gpu.slot] = uuid
    reported = {slot: uuid for slot, uuid in enumerate(node.gpu_slots) if uuid}
    need(places == reported, f"{node.name}: places of GPUs are {places}, reported are {reported}")


def _devices(node: Node) -> list[_Device]:
    found: list[_Device] = []
    first: dict[str, int] = {}
    for one in gres_of(node.config):
        if one.name not in SHARED_NAMES:
            low = first.get(one.name, 0)
            first[one.name] = low + one.count
            found += [(one.name, one.type, low + i) for i in range(one.count)]
    return found


def _is_closed(node: Node, slot: int) -> bool:
    here = [gpu for gpu in node.gpus.values() if gpu.slot == slot]
    if not here:
        return inventory.are_named(node)
    gpu = here[0]
    if gpu.facts.parent in node.gpus and node.gpus[gpu.facts.parent].is_closed():
        return True
    if gpu.work_id or gpu.must_check or gpu.kept_for:
        return True
    if gpu.state() in (GpuState.HEALTHY, GpuState.SUSPECT):
        return gpu.facts.mig_enabled
    return inventory.are_named(node) and not (
        gpu.is_there and gpu.opinion.many_only and not gpu.drained and not gpu.facts.mig_enabled
    )


def _is_used(node: Node, device: _Device) -> bool:
    return any(name == device[0] and mask >> device[2] & 1 for (name, _), mask in node.gres_used.items())


def _counts_for(node: Node, device: _Device, kind: tuple[str, str], empty: bool = False) -> bool:
    """Whether the GPU counts among that kind. `empty`: when all GPUs are healthy."""
    if (shares.GPU if kind[0] == shares.MANY else kind[0]) != device[0]:
        return False
    type_, _, least_mb = kind[1].partition(">=")
    here = [gpu for gpu in node.gpus.values() if gpu.slot == device[2]] if device[0] == shares.GPU else []
    if kind[0] == shares.MANY and not empty and any(gpu.is_for_one() for gpu in here) and inventory.are_named(node):
        return False
    return type_ in ("", device[1]) and (not least_mb or any(gpu.facts.memory_mb >= int(least_mb) for gpu in here))


def _given_back(state: ClusterState, node: Node, job_id: int, kind: tuple[str, str], closed: set[int]) -> int:
    """Counts the devices of that kind that become available when the job ends."""
    found = 0
    for part in state.jobs[job_id].alloc:
        for name, type_, mask in part.gres if part.node == node.name else ():
            held = [(name, type_, i) for i in range(mask.bit_length()) if mask >> i & 1]
            held = [one for one in held if not (name == shares.GPU and one[2] in closed)]
            found += sum(_counts_for(node, one, kind) for one in held)
    return found


def _planner_count(state: ClusterState, node: Node, job_id: int, column: int) -> int:
    """Returns the planner's count of it."""
    running = state.running
    return sum(
        int(running.table.part_gres[part, column])
        for key in (job_id, -job_id)
        for part in running.parts_of(key)
        if running.table.part_node[part] == node.index
    )
