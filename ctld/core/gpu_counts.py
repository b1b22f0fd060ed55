"""--gpus, --gpus-per-task and what hangs on a GPU, as numbers of each node: what the planner knows.

Rules (man sbatch), as far as equal parts go
    - --gpus=G: the nodes that were asked for, else the fewest nodes that can have G between them, G/nodes each.
    - --gpus-per-task=g: with n tasks as --gpus=n*g; each node gets n/nodes tasks.
    - --ntasks-per-gpu=t: n = t*G where tasks were not said, G = n/t where GPUs were not.
    - --cpus-per-gpu, --mem-per-gpu: as many CPUs and as much memory of a node as its GPUs ask for.
    - --gpus with --gpus-per-node says the number of nodes.

Slurm would also give unequal parts (5 GPUs as 3 and 2). Here that is refused, in words that say which numbers would do:
a job's nodes are alike. What was asked for stays in the request and is shown; `gres_per_node` has what comes of it.
"""

from typing import NamedTuple

import msgspec

from ctld.core.effects import Refused
from ctld.core.events import WantedJob
from ctld.core.gpu_kinds import can_be_asked
from ctld.core.model import Partition
from ctld.core.state import ClusterState
from penstock.values.refusals import Code

Counts = tuple[tuple[str, str, int], ...]
#: Counts beyond this are no number of devices; products of two of them stay inside 64 bits.
DEVICES_MAX = 1_000_000


class _Room(NamedTuple):
    """The most that a node of the partition has."""

    cpus: int
    gres: dict[tuple[str, str], int]


def spread(state: ClusterState, partition: Partition, wanted: WantedJob, required: int) -> WantedJob:
    """The submission with numbers for each node instead. `required`: nodes that --nodelist names. Raises Refused."""
    per_gpu = wanted.ntasks_per_gpu or wanted.cpus_per_gpu or wanted.mem_per_gpu_mb is not None
    if not (wanted.gres_per_job or wanted.gres_per_task or per_gpu):
        return wanted
    _check(state, wanted)
    wanted = _with_tasks(wanted, required)
    total = _total(wanted)
    if total:
        nodes = _node_count(state, partition, wanted, total, required)
        each = tuple((name, type_, count // nodes) for name, type_, count in total)
        rest = tuple(entry for entry in wanted.gres_per_node if entry[0] not in {name for name, _, _ in total})
        tasks = wanted.ntasks // nodes if wanted.gres_per_task and wanted.ntasks else wanted.ntasks_per_node
        wanted = _replace(wanted, gres_per_node=rest + each, nodes_min=nodes, nodes_max=nodes, ntasks_per_node=tasks)
    elif wanted.gres_per_task:
        tasks = wanted.ntasks_per_node or 1
        each = tuple((name, type_, count * tasks) for name, type_, count in wanted.gres_per_task)
        wanted = _replace(wanted, gres_per_node=wanted.gres_per_node + each)
    return _with_shares(wanted)


def _replace(wanted: WantedJob, **changes: object) -> WantedJob:
    return msgspec.structs.replace(wanted, **changes)


def _check(state: ClusterState, wanted: WantedJob) -> None:
    for name, type_, count in wanted.gres_per_job + wanted.gres_per_task:
        what = f"{name}:{type_}" if type_ else name
        if not can_be_asked(state, name, type_):
            raise Refused(Code.INVALID_GRES, what)
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


def _sum(counts: Counts) -> int:
    """GPUs among these."""
    return sum(count for name, _, count in counts if name == "gpu")


def _with_tasks(wanted: WantedJob, required: int) -> WantedJob:
    """The number of tasks, where the GPUs say it."""
    nodes = max(wanted.nodes_min, required) if wanted.nodes_max in (0, wanted.nodes_min) else 0
    gpus, of_task, of_node = _sum(wanted.gres_per_job), _sum(wanted.gres_per_task), _sum(wanted.gres_per_node)
    if wanted.ntasks:
        return wanted
    if wanted.ntasks_per_gpu and gpus:
        return _replace(wanted, ntasks=gpus * wanted.ntasks_per_gpu)
    if wanted.ntasks_per_gpu and of_node and not wanted.ntasks_per_node:
        return _replace(wanted, ntasks_per_node=of_node * wanted.ntasks_per_gpu)
    if of_task and gpus:
        return _replace(wanted, ntasks=_divide(gpus, of_task, "--gpus", "--gpus-per-task"))
    if wanted.gres_per_task and nodes:
        return _replace(wanted, ntasks=nodes * (wanted.ntasks_per_node or 1))
    return wanted


def _divide(number: int, by: int, what: str, by_what: str) -> int:
    if by <= 0 or number % by:
        raise Refused(Code.INVALID_GRES, f"{what}={number} is not a multiple of {by_what}={by}")
    return number // by


def _total(wanted: WantedJob) -> Counts:
    """What all nodes have together; () = each node's number is said."""
    if wanted.gres_per_job:
        return wanted.gres_per_job
    if wanted.gres_per_task and wanted.ntasks:
        return tuple((name, type_, count * wanted.ntasks) for name, type_, count in wanted.gres_per_task)
    if wanted.ntasks_per_gpu and wanted.ntasks and not _sum(wanted.gres_per_node):
        return (("gpu", "", _divide(wanted.ntasks, wanted.ntasks_per_gpu, "--ntasks", "--ntasks-per-gpu")),)
    return ()


def _node_count(state: ClusterState, partition: Partition, wanted: WantedJob, total: Counts, required: int) -> int:
    """On how many nodes: as many as were asked for, else the fewest on which equal parts have room."""
    of_node = _sum(wanted.gres_per_node)
    least, most = max(wanted.nodes_min, required, 1), max(wanted.nodes_max, wanted.nodes_min, required)
    if of_node:
        nodes = _divide(_sum(total), of_node, "--gpus", "--gpus-per-node")
        if not least <= nodes <= (most or nodes):
            text = f"{_sum(total)} GPUs at {of_node} a node are {nodes} nodes, not {least}"
            raise Refused(Code.INVALID_NODE_COUNT, text)
        return nodes
    room = _room(state, partition, total)
    tasks = wanted.ntasks or (least * wanted.ntasks_per_node)
    most = most or tasks or max(count for _, _, count in total)
    for nodes in range(least, min(most, len(state.node_list)) + 1):
        if _suits(wanted, total, tasks, nodes) and _has_room(wanted, total, tasks, nodes, room):
            return nodes
    for nodes in range(least, most + 1):
        if _suits(wanted, total, tasks, nodes):
            return nodes  # too large for every node: the check that says so comes later
    what = ",".join(f"{count} {name}" for name, _, count in total)
    where = f"{least} nodes" if most == least else f"{least} to {most} nodes"
    text = f"{what} and {tasks or 'the'} tasks do not divide into equal parts for {where}: give numbers that do"
    raise Refused(Code.INVALID_GRES, text)


def _suits(wanted: WantedJob, total: Counts, tasks: int, nodes: int) -> bool:
    """Whether GPUs, and the tasks that each have some, divide into equal parts."""
    divides = all(count % nodes == 0 for _, _, count in total)
    return divides and not (wanted.gres_per_task and tasks % nodes)


def _has_room(wanted: WantedJob, total: Counts, tasks: int, nodes: int, room: _Room) -> bool:
    fits = all(count // nodes <= room.gres[name, type_] for name, type_, count in total)
    cpus = max(-(-tasks // nodes) * max(1, wanted.cpus_per_task), wanted.cpus_per_gpu * (_sum(total) // nodes))
    return fits and cpus <= room.cpus


def _room(state: ClusterState, partition: Partition, total: Counts) -> _Room:
    columns = state.node_columns
    chosen = [i for i in range(len(state.node_list)) if partition.node_bits >> i & 1]
    if not chosen:
        return _Room(0, {(name, type_): 0 for name, type_, _ in total})
    gres = {
        (name, type_): int(columns.total_gres[chosen, state.gres_kinds[name, type_]].max()) for name, type_, _ in total
    }
    return _Room(int(columns.total_cpus[chosen].max()), gres)


def _with_shares(wanted: WantedJob) -> WantedJob:
    """--cpus-per-gpu and --mem-per-gpu as CPUs of a task and memory of a node."""
    gpus = _sum(wanted.gres_per_node)
    if (wanted.cpus_per_gpu or wanted.mem_per_gpu_mb is not None) and not gpus:
        raise Refused(Code.INVALID_GRES, "--cpus-per-gpu and --mem-per-gpu need GPUs: --gpus, --gpus-per-node, --gres")
    if wanted.cpus_per_gpu:
        nodes = wanted.nodes_min if wanted.nodes_max in (0, wanted.nodes_min) else 0
        if wanted.ntasks and not nodes and not wanted.ntasks_per_node:
            raise Refused(Code.INVALID_GRES, "--cpus-per-gpu with --ntasks needs the number of nodes: --nodes")
        tasks = wanted.ntasks_per_node or (-(-wanted.ntasks // nodes) if wanted.ntasks else 1)
        wanted = _replace(wanted, cpus_per_task=-(-wanted.cpus_per_gpu * gpus // tasks))
    if wanted.mem_per_gpu_mb is not None:
        wanted = _replace(wanted, mem_per_node_mb=wanted.mem_per_gpu_mb * gpus)
    return wanted
