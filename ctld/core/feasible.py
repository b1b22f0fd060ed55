"""Could this request ever run, and could it run now? Asked of the planner with one row.

So that there is one opinion only.
"""

import numpy as np

import _fastsched
from _fastsched import contract
from ctld.core.model import JobRequest, Partition
from ctld.core.pending import PendingColumns, Shape, Terms
from ctld.core.shapes import mask_bits, shapes
from ctld.core.state import ClusterState
from penstock.values.gres import Gres, format_node_gres

#: Answers of `can_ever_run` that are kept, by shape; beyond it they are computed anew.
FEASIBLE_MAX = 10_000


#: A job that asks only whether it fits.
ALONE = Terms(user=-1, limit_s=1, limit_min_s=1)


def _plan_alone(state: ClusterState, shape: Shape, empty: bool) -> tuple[str, ...]:
    """Names of the nodes where the shape starts when nothing else waits.

    `empty`: when nothing runs and all nodes are up.
    """
    state.settle_shares()
    rows = PendingColumns(len(state.gres_kinds), len(state.license_kinds))
    rows.add(1, [(0, shape._replace(resv=-1))], ALONE)
    lengths = {"G": len(state.gres_kinds), "L": len(state.license_kinds)}
    given = contract.PlanInput(
        state.node_columns.emptied() if empty else state.node_columns.table,
        contract.empty("running", **lengths) if empty else state.running.table,
        contract.empty("reservations", **lengths),
        rows.table,
        np.zeros(1, np.int64),
        state.masks.array(),
        state.masks.group_first,
        state.masks.group_mask,
        state.masks.group_count,
        np.array(list(state.license_totals.values()), np.int32) if empty else state.free_licenses,
        contract.Limits(state.now_us // 1_000_000, reserve_max=0, estimate=False),
        np.zeros(1, np.uint8),
    )
    result = _fastsched.plan(given)
    return tuple(state.node_list[i].name for i in result.node)


def can_ever_run(state: ClusterState, partition: Partition, request: JobRequest) -> bool:
    """True when the configured nodes of the partition could run it in some way, if they were all up and empty."""
    if request.ntasks_per_node > 1 and _cpus_wanted(request) > _most(state, mask_bits(state, partition, request))[0]:
        return False  # fewer tasks a node would do for the planner; but so many on each is what was asked for
    return any(is_possible(state, shape) for shape in shapes_in(state, partition, request))


def is_possible(state: ClusterState, shape: Shape) -> bool:
    """The same of one of its ways to run."""
    known = state.feasible.get(shape)
    if known is None:
        known = bool(_plan_alone(state, shape, True))
        if len(state.feasible) < FEASIBLE_MAX:
            state.feasible[shape] = known
    return known


def _cpus_wanted(request: JobRequest) -> int:
    """CPUs that one node has to have at least."""
    return max(request.mincpus, (min(request.ntasks_per_node, request.ntasks) or 1) * request.cpus_per_task)


def _most(state: ClusterState, bits: int) -> tuple[int, int, int]:
    """The most CPUs, megabytes of memory and of disk that a node of these has."""
    columns = state.node_columns
    chosen = [i for i in range(len(state.node_list)) if bits >> i & 1]
    if not chosen:
        return 0, 0, 0
    disk_mb = max(state.node_list[i].config.tmp_disk_mb for i in chosen)
    return int(columns.total_cpus[chosen].max()), int(columns.total_mem_mb[chosen].max()), disk_mb


def on_offer(state: ClusterState, partition: Partition, request: JobRequest) -> str:
    """In words, the most that a node has of each resource, for who asked for what no set of nodes can give.

    Slurm's words for what one node would need too much of stand before them; commands make a line of their own of these.
    """
    cpus, memory_mb, disk_mb = _most(state, partition.node_bits)
    wanted_mb = max(request.mem_per_node_mb or 0, (request.mem_per_cpu_mb or 0) * _cpus_wanted(request))
    short = (
        ("CPU count per node", _cpus_wanted(request) > cpus),
        ("Memory specification", wanted_mb > memory_mb),
        ("Temporary disk specification", request.tmp_disk_mb > disk_mb),
    )
    first = next((f"{what} can not be satisfied: " for what, is_short in short if is_short), "") if cpus else ""
    return first + _offer(state, partition, request)


def _offer(state: ClusterState, partition: Partition, request: JobRequest) -> str:
    bits, columns = mask_bits(state, partition, request), state.node_columns
    chosen = [i for i in range(len(state.node_list)) if bits >> i & 1]
    if not chosen:
        return f"partition {partition.name} has no matching node"
    plain = [kind for kind in state.gres_kinds if kind[0] and kind not in state.gpu_extras]
    typed = {name for name, type_ in plain if type_}
    kinds = [kind for kind in plain if kind[1] or kind[0] not in typed]
    counts = ((kind, int(columns.total_gres[chosen, state.gres_kinds[kind]].max())) for kind in kinds)
    gres = format_node_gres(tuple(Gres(name, type_, count) for (name, type_), count in counts if count))
    nodes = "node, with" if len(chosen) == 1 else "nodes, each with"
    if request.gpu_mem_mb:
        largest = max((size for i in chosen for size in state.node_list[i].inside.memory_mb), default=0)
        gres += f", GPUs with at most {largest} MB" if largest else ", GPUs of unknown memory"
    most = f"{columns.total_cpus[chosen].max()} CPUs, {columns.total_mem_mb[chosen].max()} MB"
    return f"partition {partition.name} has {len(chosen)} matching {nodes} at most {most}{f', {gres}' if gres else ''}"


def where_now(state: ClusterState, partition: Partition, request: JobRequest) -> tuple[str, ...]:
    """The nodes where it could start at once; empty = nowhere."""
    found = (_plan_alone(state, shape, False) for shape in shapes_in(state, partition, request))
    return next((nodes for nodes in found if nodes), ())


def shapes_in(state: ClusterState, partition: Partition, request: JobRequest) -> list[Shape]:
    """The request's shapes in one of its partitions."""
    return [shape for index, shape in shapes(state, request) if state.partition_list[index] is partition]
