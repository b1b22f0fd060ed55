"""Checks whether a request could ever run, and whether it could run now, by planning one row.

The planner decides, so that there is one set of rules.
"""

import numpy as np

import _fastsched
from _fastsched import contract
from ctld.core.demand import specialized
from ctld.core.demand.node_kinds import LEAST_FIELDS, node_kinds
from ctld.core.queue.shapes import mask_bits, shapes
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused
from ctld.core.records.job_submission import JobSubmission
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.state.pending import PendingColumns, Shape, Terms
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState
from penstock.values.gres import Gres, format_node_gres
from penstock.values.refusals import Code

#: Cached answers of `can_ever_run`, by shape.
FEASIBLE_MAX = 10_000


#: A job that only checks whether it fits.
ALONE = Terms(user=-1, limit_s=1, limit_min_s=1)


def _plan_alone(state: ClusterState, shape: Shape, empty: bool, only_up: bool = False) -> tuple[str, ...]:
    """Returns the names of the nodes where the shape starts when nothing else waits.

    `empty`: when nothing runs and all nodes are up; `only_up`: or as many as are.
    """
    state.settle_shares()
    rows = PendingColumns(len(state.layout.gres_kinds), len(state.layout.license_kinds))
    rows.add(1, [(0, shape._replace(resv=-1))], ALONE)
    nodes = state.node_columns.emptied() if empty else state.node_columns.table
    if only_up:
        nodes = nodes._replace(up=state.node_columns.table.up)
    lengths = {"G": len(state.layout.gres_kinds), "L": len(state.layout.license_kinds)}
    given = contract.PlanInput(
        nodes,
        contract.empty("running", **lengths) if empty else state.running.table,
        contract.empty("reservations", **lengths),
        rows.table,
        np.zeros(1, np.int64),
        state.layout.masks.array(),
        state.layout.masks.group_first,
        state.layout.masks.group_mask,
        state.layout.masks.group_count,
        np.array(list(state.layout.license_totals.values()), np.int32) if empty else state.free_licenses,
        contract.PlanLimits(
            state.now_us // 1_000_000, reserve_max=0, estimate=False, units_per_cpu=state.layout.units_per_cpu
        ),
        np.zeros(1, np.uint8),
    )
    result = _fastsched.plan(given)
    return tuple(state.node_list[i].name for i in result.node)


def can_ever_run(state: ClusterState, partition: Partition, request: JobRequest) -> bool:
    """Whether the configured nodes of the partition could run it in some way, if they were all up and empty.

    --switches does not count: a job gives it up after a time.
    """
    if request.ntasks_per_node > 1 and _cpus_wanted(request) > _most(state, mask_bits(state, partition, request))[0]:
        return False  # the planner would accept fewer tasks on a node, but the request fixes their number
    ways = shapes_in(state, partition, request)
    if request.switches_max:
        ways = [shape._replace(switches_max=0) for shape in ways]
    return any(is_possible(state, shape) for shape in ways)


def is_possible(state: ClusterState, shape: Shape) -> bool:
    """Whether the configured nodes could run it in that one of its ways to run."""
    known = state.layout.feasible.get(shape)
    if known is None:
        known = bool(_plan_alone(state, shape, True))
        if len(state.layout.feasible) < FEASIBLE_MAX:
            state.layout.feasible[shape] = known
    return known


def _cpus_wanted(request: JobRequest) -> int:
    """Returns the CPUs that one node must have at least."""
    tasks = 1 if request.ntasks_over else max(1, request.ntasks_per_node)
    return max(request.mincpus, tasks * request.cpus_per_task)


def _most(state: ClusterState, bits: int) -> tuple[int, int, int]:
    """Returns the most CPUs, megabytes of memory and of disk of one of these nodes."""
    columns = state.node_columns
    chosen = [i for i in range(len(state.node_list)) if bits >> i & 1]
    if not chosen:
        return 0, 0, 0
    disk_mb = max(state.node_list[i].config.tmp_disk_mb for i in chosen)
    cpus = int(columns.total_cpus[chosen].max()) // state.layout.units_per_cpu
    return cpus, int(columns.total_mem_mb[chosen].max()), disk_mb


def check_size(state: ClusterState, partitions: tuple[Partition, ...], wanted: JobSubmission | JobRequest) -> None:
    """Refuses a request for more nodes or CPUs than a partition has, where EnforcePartLimits says so. Raises Refused."""
    how = state.config.enforce_part_limits
    if how == "NO":
        return
    found = [_too_much(state, partition, wanted) for partition in partitions]
    if all(found) or (how == "ALL" and any(found)):
        raise Refused(*next(one for one in found if one))


#: What of a request determines its size.
_SIZE = ("partitions", "nodes_min", "ntasks", "ntasks_per_node", "cpus_per_task", "gres_per_job", "gres_per_node")


def check_size_at_update(state: ClusterState, request: JobRequest, before: JobRequest) -> None:
    """Refuses a changed request for more nodes or CPUs than a partition has, as `check_size` does. Raises Refused."""
    if all(getattr(request, name) == getattr(before, name) for name in _SIZE):
        return
    try:
        check_size(state, tuple(state.partitions[name] for name in request.partitions), request)
    except Refused as refusal:
        raise Refused(Code.PARTITION_CONFIG_UNAVAILABLE, refusal.detail) from None


def _too_much(state: ClusterState, partition: Partition, wanted: JobSubmission | JobRequest) -> tuple[Code, str] | None:
    nodes = [state.node_list[i] for i in _indices(partition.node_bits)]
    gpus, of_node = _gpus(wanted.gres_per_job), _gpus(wanted.gres_per_node)
    least = max(wanted.nodes_min, gpus // of_node if of_node else 0)
    if least > len(nodes):
        return Code.INVALID_NODE_COUNT, f"{least} nodes, partition {partition.name} has {len(nodes)}"
    ntasks = wanted.ntasks or max(1, wanted.nodes_min) * (wanted.ntasks_per_node or 1)
    ntasks = max(1, wanted.nodes_min) if wanted.overcommit else max(ntasks, gpus * wanted.ntasks_per_gpu)
    within = partition.config.cpus_within
    cpus = sum(node.cpus if wanted.exclusive else within(node.config) for node in nodes)
    asked = ntasks * max(1, wanted.cpus_per_task)
    if asked > cpus:
        return Code.TOO_MANY_REQUESTED_CPUS, f"{asked} CPUs, partition {partition.name} has {cpus}"
    return None


def _gpus(kinds: tuple[tuple[str, str, int], ...]) -> int:
    return sum(count for name, _, count in kinds if name == GPU)


_OF_CORES = frozenset(("sockets_per_node", "cores_per_socket", "threads_per_core"))


def _inside_alone(request: JobRequest) -> JobRequest:
    """Applies only the request's constraints on sockets, cores and threads."""
    others: dict[str, int | None] = {name: 0 for name in LEAST_FIELDS if name not in _OF_CORES}
    return with_changes(request, **others, **dict.fromkeys(specialized.FIELDS))


def _indices(bits: int) -> list[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


def on_offer(state: ClusterState, partition: Partition, request: JobRequest) -> str:
    """Describes the most that a node has of each resource, for a request that no set of nodes can satisfy.

    It follows Slurm's message about the node; commands print it on a line of its own.
    """
    cpus, memory_mb, disk_mb = _most(state, partition.node_bits)
    wanted_mb = max(request.mem_per_node_mb or 0, (request.mem_per_cpu_mb or 0) * _cpus_wanted(request))
    wanted_mb = wanted_mb if request.mem_per_gpu_mb is None else 0
    inside = (node_kinds((state.node_list[i],), _inside_alone(request)) for i in _indices(partition.node_bits))
    short = (
        ("CPU count per node", _cpus_wanted(request) > cpus),
        ("Socket, core and/or thread specification", not any(inside)),
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
    counted = [kind for kind in state.layout.gres_kinds if kind[0] and kind not in state.gpus.extras]
    typed = {name for name, type_ in counted if type_}
    kinds = [kind for kind in counted if kind[1] or kind[0] not in typed]
    counts = ((kind, int(columns.total_gres[chosen, state.layout.gres_kinds[kind]].max())) for kind in kinds)
    gres = format_node_gres(tuple(Gres(name, type_, count) for (name, type_), count in counts if count))
    nodes = "node, with" if len(chosen) == 1 else "nodes, each with"
    if request.gpu_mem_mb:
        largest = max((size for i in chosen for size in state.node_list[i].inside.memory_mb), default=0)
        gres += f", GPUs with at most {largest} MB" if largest else ", GPUs of unknown memory"
    most = f"{columns.total_cpus[chosen].max() // state.layout.units_per_cpu} CPUs, {columns.total_mem_mb[chosen].max()} MB"
    return f"partition {partition.name} has {len(chosen)} matching {nodes} at most {most}{f', {gres}' if gres else ''}"


def where_now(state: ClusterState, partition: Partition, request: JobRequest) -> tuple[str, ...]:
    """Returns the nodes where it could start at once; empty = none."""
    found = (_plan_alone(state, shape, False) for shape in shapes_in(state, partition, request))
    return next((nodes for nodes in found if nodes), ())


def fits_up_nodes(state: ClusterState, partition: Partition, request: JobRequest) -> bool:
    """Whether it could start at once if nothing ran."""
    return any(_plan_alone(state, shape, True, only_up=True) for shape in shapes_in(state, partition, request))


def shapes_in(state: ClusterState, partition: Partition, request: JobRequest) -> list[Shape]:
    """Returns the request's shapes in one of its partitions."""
    return [shape for index, shape in shapes(state, request) if state.partition_list[index] is partition]
