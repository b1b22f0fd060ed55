"""What must always be true of devices, GPUs before all: who is where, what is free, what comes back.

Everything is counted from the records, place by place; what is compared are the masks and columns that are kept
incrementally. Part of `Core.check` (invariants.py).
"""

from ctld.core import gpus, shares
from ctld.core.mig_model import gres_of
from ctld.core.model import Node
from ctld.core.state import ClusterState
from ctld.core.violation import need
from penstock.values.gpustates import GpuState
from penstock.values.gres import SHARED_NAMES
from penstock.values.mig import most_at_once

Device = tuple[str, str, int]  # (name, type, place among those of the name)


def check_gpus(state: ClusterState, node: Node) -> None:
    """Raise Violation at the first thing that is wrong with a node's devices."""
    _check_places(node)
    devices = _devices(node)
    closed = {slot for name, _, slot in devices if name == shares.GPU and _is_closed(node, slot)}
    mask = sum(1 << slot for slot in sorted(closed))
    need(node.gpu_closed == mask, f"{node.name}: closed GPUs are {node.gpu_closed:b}, not {mask:b}")
    free = [one for one in devices if not _is_used(node, one) and not (one[0] == shares.GPU and one[2] in closed)]
    watched = node.index in state.running.watched
    columns = state.node_columns
    for kind, column in state.gres_kinds.items():
        if kind[0] in SHARED_NAMES or kind == shares.MILLI or (watched and kind[0] in shares.GPU_KINDS):
            continue  # counted by invariants._check_shares_of_gpus
        total = sum(_counts_for(node, one, kind, empty=True) for one in devices)
        if kind == (shares.GPU, "") and node.config.mig:  # not all that it may be divided into is there at one time
            total = min(
                total, sum(g.count for g in node.config.gres if g.name == shares.GPU) + most_at_once(node.config.mig)
            )
        need(int(columns.total_gres[node.index, column]) == total, f"{node.name}: {kind} has {total} devices")
        here = sum(_counts_for(node, one, kind) for one in free)
        found = int(columns.free_gres[node.index, column])
        need(found == here, f"{node.name}: {found} of {kind} free, counted {here}")
        for job_id in node.jobs:
            back = _given_back(state, node, job_id, kind, closed)
            told = _told(state, node, job_id, column)
            need(back == told, f"job {job_id} gives back {told} of {kind} on {node.name}, counted {back}")


def _check_places(node: Node) -> None:
    """A place has one GPU, and a GPU one place."""
    places: dict[int, str] = {}
    for uuid, gpu in node.gpus.items():
        need(gpu.uuid == uuid and gpu.node == node.name, f"{node.name}: {uuid} is kept as {gpu.uuid} of {gpu.node}")
        if gpu.slot >= 0:
            need(gpu.slot not in places, f"{node.name}: place {gpu.slot} has {uuid} and {places.get(gpu.slot)}")
            need(gpu.slot < len(node.inside.gpu_types), f"{node.name}: {uuid} has place {gpu.slot}, which is not there")
            need(gpu.given_as == node.inside.gpu_types[gpu.slot], f"{node.name}: {uuid} is given as {gpu.given_as}")
            places[gpu.slot] = uuid
    told = {slot: uuid for slot, uuid in enumerate(node.gpu_slots) if uuid}
    need(places == told, f"{node.name}: places of GPUs are {places}, told are {told}")


def _devices(node: Node) -> list[Device]:
    found: list[Device] = []
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
        return gpus.are_named(node)
    gpu = here[0]
    if gpu.facts.parent in node.gpus and node.gpus[gpu.facts.parent].is_closed():
        return True
    if gpu.work_id or gpu.must_check or gpu.kept_for:
        return True
    if gpu.state() in (GpuState.HEALTHY, GpuState.SUSPECT):
        return gpu.facts.mig_enabled
    return gpus.are_named(node) and not (
        gpu.is_there and gpu.opinion.many_only and not gpu.drained and not gpu.facts.mig_enabled
    )


def _is_used(node: Node, device: Device) -> bool:
    return any(name == device[0] and mask >> device[2] & 1 for (name, _), mask in node.gres_used.items())


def _counts_for(node: Node, device: Device, kind: tuple[str, str], empty: bool = False) -> bool:
    """Does it count among that kind? `empty`: when all is well."""
    if (shares.GPU if kind[0] == shares.MANY else kind[0]) != device[0]:
        return False
    type_, _, least_mb = kind[1].partition(">=")
    here = [gpu for gpu in node.gpus.values() if gpu.slot == device[2]] if device[0] == shares.GPU else []
    if kind[0] == shares.MANY and not empty and any(gpu.is_for_one() for gpu in here) and gpus.are_named(node):
        return False
    return type_ in ("", device[1]) and (not least_mb or any(gpu.facts.memory_mb >= int(least_mb) for gpu in here))


def _given_back(state: ClusterState, node: Node, job_id: int, kind: tuple[str, str], closed: set[int]) -> int:
    """Devices of that kind that others can have when the job ends."""
    found = 0
    for part in state.jobs[job_id].alloc:
        for name, type_, mask in part.gres if part.node == node.name else ():
            held = [(name, type_, i) for i in range(mask.bit_length()) if mask >> i & 1]
            held = [one for one in held if not (name == shares.GPU and one[2] in closed)]
            found += sum(_counts_for(node, one, kind) for one in held)
    return found


def _told(state: ClusterState, node: Node, job_id: int, column: int) -> int:
    """What the planner believes of that."""
    running = state.running
    return sum(
        int(running.table.part_gres[part, column])
        for key in (job_id, -job_id)
        for part in running.parts_of(key)
        if running.table.part_node[part] == node.index
    )
