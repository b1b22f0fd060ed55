"""Turns --gpus, --gpus-per-task and per-GPU requests into counts per node, as the planner takes them.

Rules (man sbatch)
    - --gpus=G: the requested nodes, else the fewest nodes that have G together.
    - --gpus-per-task=g: with n tasks as --gpus=n*g; each node has g GPUs for each of its tasks.
    - --ntasks-per-gpu=t: n = t*G where tasks are not given, G = n/t where GPUs are not; with GPUs of a node, a node has
      room for t tasks for each of them.
    - --cpus-per-gpu, --mem-per-gpu: CPUs and memory of a node in proportion to its GPUs.
    - --gpus with --gpus-per-node determines the number of nodes.

Where nodes may differ, the planner uses one number for all nodes of a job (`gres_per_node`), the largest of the parts,
so that a node must have that many free; `parts_of` (demand/gpu_parts.py) computes each node's own number when the job
starts, and the rest is not allocated. The original request is kept and shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ctld.core.demand.gpu_parts import GpuCounts, depends_on_tasks, parts_of
from ctld.core.gpus.kinds import can_be_asked
from ctld.core.records.effects import Refused
from ctld.core.records.events import JobSubmission
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code

#: planning.Placement: (node index, cpus, tasks, MB) for each node
_Placement = tuple[tuple[int, int, int, int], ...]
#: Larger counts are no number of devices; the product of two smaller ones fits into 64 bits.
DEVICES_MAX = 1_000_000


class _Room(NamedTuple):
    """The nodes of the partition: the most CPUs of one node, and the device count of each, ascending."""

    nodes: int
    cpus: int
    gres: dict[tuple[str, str], list[int]]


def spread(state: ClusterState, partition: Partition, wanted: JobSubmission, required: int) -> JobSubmission:
    """Returns the submission with counts for each node instead. `required`: nodes that --nodelist names. Raises
    Refused.
    """
    per_gpu = wanted.ntasks_per_gpu or wanted.cpus_per_gpu or wanted.mem_per_gpu_mb is not None
    if not (wanted.gres_per_job or wanted.gres_per_task or per_gpu):
        return wanted
    _check(state, wanted)
    wanted = _with_tasks(wanted, required)
    total = _total(wanted)
    if total:
        for name, type_, _ in total:  # --ntasks-per-gpu names no kind that has been checked
            _check_kind(state, name, type_)
        nodes = _node_count(state, partition, wanted, total, required)
        each = tuple((name, type_, _largest_part(wanted, count, nodes)) for name, type_, count in total)
        rest = tuple(entry for entry in wanted.gres_per_node if entry[0] not in {name for name, _, _ in total})
        wanted = _replace(wanted, gres_per_node=rest + each, nodes_min=nodes, nodes_max=nodes)
    elif wanted.gres_per_task:
        tasks = wanted.ntasks_per_node or 1
        each = tuple((name, type_, count * tasks) for name, type_, count in wanted.gres_per_task)
        wanted = _replace(wanted, gres_per_node=wanted.gres_per_node + each)
    return _with_shares(wanted)


def _replace(wanted: JobSubmission, **changes: object) -> JobSubmission:
    return msgspec.structs.replace(wanted, **changes)


def _check(state: ClusterState, wanted: JobSubmission) -> None:
    for name, type_, count in wanted.gres_per_job + wanted.gres_per_task:
        what = _check_kind(state, name, type_)
        if not 0 <= count <= DEVICES_MAX:
            raise Refused(Code.INVALID_GRES, f"{what}:{count}")
    if wanted.gres_per_task and wanted.ntasks_per_gpu:
        raise Refused(Code.INVALID_GRES, "--ntasks-per-gpu is mutually exclusive with --gpus-per-task")
    if wanted.cpus_per_gpu and wanted.cpus_per_task:
        raise Refused(Code.INVALID_GRES, "--cpus-per-gpu is mutually exclusive with --cpus-per-task")
    if wanted.gres_per_job and wanted.gres_per_task and wanted.ntasks:
        total, of_tasks = _sum(wanted.gres_per_job), _sum(wanted.gres_per_task) * wanted.ntasks
        if total != of_tasks:
            text = f"--gpus={total} is not --gpus-per-task times {wanted.ntasks} tasks, {of_tasks}"
            raise Refused(Code.INVALID_GRES, text)


def _check_kind(state: ClusterState, name: str, type_: str) -> str:
    """Returns the kind's name, if the cluster has such GRES. Raises Refused."""
    what = f"{name}:{type_}" if type_ else name
    if not can_be_asked(state, name, type_):
        raise Refused(Code.INVALID_GRES, what)
    return what


def _sum(counts: GpuCounts) -> int:
    """Returns the sum of GPUs among these."""
    return sum(count for name, _, count in counts if name == "gpu")


def _with_tasks(wanted: JobSubmission, required: int) -> JobSubmission:
    """Computes the number of tasks, where the GPUs determine it."""
    nodes = max(wanted.nodes_min, required) if wanted.nodes_max in (0, wanted.nodes_min) else 0
    gpus = _sum(wanted.gres_per_job)
    of_task = _sum(wanted.gres_per_task)
    of_node = _sum(wanted.gres_per_node)
    if wanted.ntasks_per_gpu and of_node and not wanted.ntasks_per_node:
        wanted = _replace(wanted, ntasks_per_node=of_node * wanted.ntasks_per_gpu)
    if wanted.ntasks_per_gpu and wanted.ntasks > gpus * wanted.ntasks_per_gpu > 0:
        text = f"{wanted.ntasks} tasks at --ntasks-per-gpu={wanted.ntasks_per_gpu} are more than {gpus} GPUs have"
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, text)
    if wanted.ntasks:
        return wanted
    if wanted.ntasks_per_gpu and gpus:
        return _replace(wanted, ntasks=gpus * wanted.ntasks_per_gpu)
    if of_task and gpus:
        return _replace(wanted, ntasks=_divide(gpus, of_task, "--gpus", "--gpus-per-task"))
    if wanted.gres_per_task and nodes:
        return _replace(wanted, ntasks=nodes * (wanted.ntasks_per_node or 1))
    return wanted


def _divide(number: int, by: int, what: str, by_what: str) -> int:
    if by <= 0 or number % by:
        raise Refused(Code.INVALID_GRES, f"{what}={number} is not a multiple of {by_what}={by}")
    return number // by


def _total(wanted: JobSubmission) -> GpuCounts:
    """Returns the total of all nodes; () = a number for each node is given."""
    if wanted.gres_per_job:
        return wanted.gres_per_job
    if wanted.gres_per_task and wanted.ntasks:
        return tuple((name, type_, count * wanted.ntasks) for name, type_, count in wanted.gres_per_task)
    if wanted.ntasks_per_gpu and wanted.ntasks and not _sum(wanted.gres_per_node):
        return (("gpu", "", _divide(wanted.ntasks, wanted.ntasks_per_gpu, "--ntasks", "--ntasks-per-gpu")),)
    return ()


def _node_count(
    state: ClusterState, partition: Partition, wanted: JobSubmission, total: GpuCounts, required: int
) -> int:
    """Returns the number of nodes: the requested one, else the fewest on which equal parts have room."""
    of_node = _sum(wanted.gres_per_node)
    least, most = max(wanted.nodes_min, required, 1), max(wanted.nodes_max, wanted.nodes_min, required)
    if of_node:
        nodes = _divide(_sum(total), of_node, "--gpus", "--gpus-per-node")
        if not least <= nodes <= (most or nodes):
            text = f"{_sum(total)} GPUs at {of_node} a node are {nodes} nodes, not {least}"
            raise Refused(Code.INVALID_NODE_COUNT, text)
        return nodes
    if wanted.ntasks and wanted.ntasks_per_node and not most:
        least = max(least, -(-wanted.ntasks // wanted.ntasks_per_node))
    room = _room(state, partition, total)
    tasks = wanted.ntasks or (least * wanted.ntasks_per_node)
    most = most or tasks or max(count for _, _, count in total)
    for nodes in range(least, min(most, len(state.node_list)) + 1):
        if _has_room(wanted, total, tasks, nodes, room):
            return nodes
    if max(count for _, _, count in total) < least:
        text = f"--gpus={_sum(total) or max(count for _, _, count in total)} is less than the number of nodes, {least}"
        raise Refused(Code.INVALID_GRES, text)
    return least  # too large for every node: a later check refuses it


def _largest_part(wanted: JobSubmission, count: int, nodes: int) -> int:
    """Returns the most that one of so many nodes has of `count`; GPUs of one task are not divided."""
    if wanted.gres_per_task and wanted.ntasks:
        return count // wanted.ntasks * -(-wanted.ntasks // nodes)
    return -(-count // nodes)


def _has_room(wanted: JobSubmission, total: GpuCounts, tasks: int, nodes: int, room: _Room) -> bool:
    if any(count < nodes for _, _, count in total):
        return False
    parts = [(name, type_, _largest_part(wanted, count, nodes)) for name, type_, count in total]
    fits = all(room.gres[name, type_][-nodes] >= part for name, type_, part in parts if nodes <= room.nodes)
    on_a_node = 1 if wanted.overcommit else -(-tasks // nodes)
    cpus = max(on_a_node * max(1, wanted.cpus_per_task), wanted.cpus_per_gpu * _sum(tuple(parts)))
    return nodes <= room.nodes and fits and cpus <= room.cpus


def _room(state: ClusterState, partition: Partition, total: GpuCounts) -> _Room:
    columns = state.node_columns
    chosen = [i for i in range(len(state.node_list)) if partition.node_bits >> i & 1]
    if not chosen:
        return _Room(0, 0, {})
    gres = {
        (name, type_): sorted(columns.total_gres[chosen, state.layout.gres_kinds[name, type_]].tolist())
        for name, type_, _ in total
    }
    return _Room(len(chosen), int(columns.total_cpus[chosen].max()) // state.layout.units_per_cpu, gres)


def _with_shares(wanted: JobSubmission) -> JobSubmission:
    """Converts --cpus-per-gpu and --mem-per-gpu to CPUs of a task and memory of a node."""
    gpus = _sum(wanted.gres_per_node)
    if wanted.mem_per_gpu_mb is not None and not gpus:
        raise Refused(Code.INVALID_GRES, "--mem-per-gpu needs GPUs: --gpus, --gpus-per-node, --gres")
    if wanted.cpus_per_gpu and gpus:
        tasks = wanted.ntasks_per_node or -(-max(1, wanted.ntasks) // max(1, wanted.nodes_min))
        wanted = _replace(wanted, cpus_per_task=-(-wanted.cpus_per_gpu * gpus // tasks))
    if wanted.mem_per_gpu_mb is not None:
        wanted = _replace(wanted, mem_per_node_mb=wanted.mem_per_gpu_mb * gpus)
    return wanted


def by_node(
    state: ClusterState, request: JobRequest, placement: _Placement, most: int = 0
) -> tuple[_Placement, Sequence[GpuCounts]]:
    """Turns a placement of `most` GPUs on each node, or equal parts, into each node's real count and its devices.

    Memory and CPUs that depend on GPUs follow them. An exclusive job has all GPUs, and the memory for these.
    """
    if not (request.exclusive or depends_on_tasks(request)):
        return placement, (request.gres_per_node,) * len(placement)
    parts = parts_of(request, [tasks for _, _, tasks, _ in placement], [most] * len(placement))
    if request.exclusive:
        if request.mem_per_gpu_mb is not None:
            placement = tuple((i, c, t, _of_all_gpus(state, i, request.mem_per_gpu_mb)) for i, c, t, _ in placement)
        return placement, parts or (request.gres_per_node,) * len(placement)
    if parts is None:
        return placement, (request.gres_per_node,) * len(placement)
    if request.cpus_per_gpu or request.mem_per_gpu_mb is not None:
        shares = zip(placement, map(_sum, parts), strict=True)
        placement = tuple(_with_gpus(state, request, one, gpus) for one, gpus in shares)
    return placement, parts


def _of_all_gpus(state: ClusterState, index: int, mb_each: int) -> int:
    columns = state.node_columns
    gpus = int(columns.total_gres[index, state.layout.gres_kinds[GPU, ""]])
    return min(mb_each * gpus, int(columns.total_mem_mb[index]))


def _with_gpus(
    state: ClusterState, request: JobRequest, one: tuple[int, int, int, int], gpus: int
) -> tuple[int, int, int, int]:
    index, cpus, tasks, mem_mb = one
    if request.mem_per_gpu_mb is not None:
        mem_mb = min(mem_mb, request.mem_per_gpu_mb * gpus)
    if request.cpus_per_gpu:
        quantum = int(state.node_columns.cpu_quantum[index])
        cpus = min(cpus, -(-max(tasks, request.cpus_per_gpu * gpus) // quantum) * quantum)
        if request.mem_per_cpu_mb is not None:
            mem_mb = min(mem_mb, request.mem_per_cpu_mb * cpus)
    return index, cpus, tasks, mem_mb
