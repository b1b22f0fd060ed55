"""Translates a request for the planner: sets of nodes, and a shape for each way in which it may run.

Features (sbatch(1), --constraint). A constraint becomes alternatives of a set of nodes and of groups in it: `a&b` and
`a|b` concern one node each and restrict the set; `[a|b]` is one alternative for each feature, since all nodes of the
job must agree; `a*2` is a group: two of the job's nodes have `a`, the others are arbitrary. A --nodelist is a group
too: all of it, and as many others as requested. Of several counts each concerns other nodes only in brackets,
`[a*2&b*4]`. Alternatives of --prefer precede those of --constraint.

Numbers of nodes. Of `-N 2-4` each number is an alternative, the largest first, and no larger than the number of tasks;
so it is with --spread-job. Without a number of tasks there is one a node. With --ntasks-per-node each node has room for
so many, also when there are fewer tasks than that in all; where the number of tasks is not given, it follows from the
least number of nodes, and bounds the other numbers.

--contiguous: each run of so many adjacent nodes of the configuration is an alternative. Of more than ALTERNATIVES_MAX
some are tried, at equal distances. --batch asks for a node with these features among those of the job: a group of one.

GPUs for the whole job or for its tasks on several nodes: the first nodes as full as can be, or each as full as the
others (demand/gpu_parts.py).

The alternative that starts first wins; ties go to the first in the list.
"""

from collections.abc import Iterable
from itertools import product
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from _fastsched import contract
from ctld.core.demand import specialized
from ctld.core.demand.gpu_parts import Packed, packed, tasks_together
from ctld.core.demand.node_kinds import LEAST_FIELDS, NodeKind, cpus_least, node_kinds, threads_used
from ctld.core.gpus import kinds as gpu_kinds
from ctld.core.jobs.sharing import gives_whole_nodes, units_taken
from ctld.core.queue import hres
from ctld.core.queue.admit import nodes_max
from ctld.core.records.compact_request import COMMON, with_changes
from ctld.core.records.node import Node, Partition
from ctld.core.records.request import JobRequest
from ctld.core.reservations.view import open_to
from ctld.core.state.pending import Shape, Ways
from ctld.core.state.shares import GPU, MILLI, milli_wanted
from ctld.core.state.state import ClusterState
from penstock.values.features import Expr, parse_features
from penstock.values.licenses import parse_licenses

#: Maximum number of alternatives of one request; the rest is ignored.
ALTERNATIVES_MAX = 64
#: Numbers of nodes that are tried of a range such as `-N 1-1000`: both ends, and others at equal distances.
NODE_COUNTS_MAX = 16
#: The same for a range of contiguous nodes.
CONTIGUOUS_COUNTS = 4
#: Cached requests that differ in memory alone, and cached shapes: a submission needs them twice, and most jobs repeat
#: the request of others. 20,000 shapes are 8 MB.
KINDS_KNOWN_MAX = 1_000
SHAPES_KNOWN_MAX = 20_000
#: Cached placements: jobs of many users share their few inputs.
PLACEMENTS_KNOWN_MAX = 10_000


class Way(NamedTuple):
    """One alternative of a constraint: features of every node, and (features, nodes wanted) of some."""

    all: tuple[Expr, ...] = ()
    some: tuple[tuple[Expr, int], ...] = ()


def ways(expr: Expr, in_brackets: bool = False) -> tuple[Way, ...]:
    """Returns the alternatives of a constraint."""
    if not _is_about_sets(expr):
        return (Way((expr,)),)
    if expr.kind == "count":
        return tuple(Way((), ((inner, expr.count),)) for way in ways(expr.args[0]) for inner in way.all)
    if expr.kind == "and":
        found = []
        shared = () if in_brackets else _counted_together(expr)
        for combination in product(*(ways(arg) for arg in expr.args)):
            found.append(Way(sum((w.all for w in combination), shared), sum((w.some for w in combination), ())))
            if len(found) >= ALTERNATIVES_MAX:
                break
        return tuple(found)
    return tuple(way for arg in expr.args for way in ways(arg, expr.kind == "xor"))[:ALTERNATIVES_MAX]


def _counted_together(expr: Expr) -> tuple[Expr, ...]:
    """Returns the features of several counts outside of brackets, which each node must have then."""
    counts = [arg for arg in expr.args if arg.kind == "count"]
    return tuple(inner for count in counts for inner in count.args) if len(counts) > 1 else ()


def _is_about_sets(expr: Expr) -> bool:
    return expr.kind in ("count", "xor") or any(_is_about_sets(arg) for arg in expr.args)


#: Fields of a request that do not affect where and with what it may run. All others count, also new ones.
_ASIDE = frozenset(
    (
        "name", "account", "comment", "work_dir", "std_out", "std_err", "std_in", "open_append", "time_limit_s",
        "begin_at_us", "dependency", "array", "requeue", "nice", "rlimits", "umask", "submit_line", "command", "wckey",
        "kill_on_invalid_dep", "export_env", "submit_host", "submit_dir", "signal", "time_min_s", "deadline_at_us",
        "priority", "site_factor", "gpus_per_node_asked", "reservation", "reservation_run", "switches_wait_s", "kind",
        "ntasks_over", "overcommit", "immediate_s", "cpus_per_gpu",
        "resv_ports", "no_kill", "wait_all_nodes", "node_fail_policy", "mpi", "cpu_bind", "mem_bind",
        "gpu_bind", "network", "het_job_id", "het_offset", "het_size", "mail_types", "mail_user", "extra", "get_user_env",
        "acctg_freq", "oom_kill_step", "delay_boot_s", "expedite", "container", "cpu_freq", "system_comment", "reboot",
        "cron", "mem_per_node_mb", "mem_per_cpu_mb",
    )
)  # fmt: skip
#: Memory is added afterwards: most requests differ in it, and it affects nothing else.
_what_counts = attrgetter(*(name for name in JobRequest.__struct_fields__ if name not in _ASIDE))
_what_counts_of_compact = attrgetter(*(n for n in JobRequest.__struct_fields__ if n in COMMON and n not in _ASIDE))


def shapes(
    state: ClusterState, request: JobRequest, resvs: tuple[int, ...] = (-1,), any_switches: bool = False
) -> Ways:
    """Returns one (partition index, shape) for each of its partitions, reservations and alternatives.

    A reload may have removed what a pending job requests: such a job keeps a row, with no node to run on.
    """
    if any_switches or resvs != (-1,):
        return fresh_shapes(state, request, resvs, any_switches)
    counts = (_what_counts if type(request) is JobRequest else _what_counts_of_compact)(request)
    if least_mb := _least_mb(state, request):
        counts = (least_mb, *counts)
    known = state.layout.shapes_known
    kind = known.kinds.get(counts)
    if kind is None:
        if len(known.kinds) >= KINDS_KNOWN_MAX:
            known.clear()
        kind = known.kinds[counts] = len(known.kinds), _without_memory(state, request, resvs, any_switches)
    number, base = kind
    key = number, request.mem_per_node_mb, request.mem_per_cpu_mb
    found = known.sized.get(key)
    if found is None:
        if len(known.sized) >= SHAPES_KNOWN_MAX:
            known.sized.clear()
        found = known.sized[key] = _with_memory(state, request, base)
    return found


def _least_mb(state: ClusterState, request: JobRequest) -> int:
    """Returns the memory of a node that --mem requires where memory is not allocated; 0 = any."""
    return 0 if not request.mem_per_node_mb or state.config.memory_is_consumable() else request.mem_per_node_mb


def fresh_shapes(state: ClusterState, request: JobRequest, resvs: tuple[int, ...], any_switches: bool = False) -> Ways:
    """Computes the shapes without the cache."""
    return _with_memory(state, request, _without_memory(state, request, resvs, any_switches))


def _with_memory(state: ClusterState, request: JobRequest, base: Ways) -> Ways:
    node_mb = request.mem_per_node_mb
    cpu_mb = request.mem_per_cpu_mb
    gpu_mb = request.mem_per_gpu_mb
    if (node_mb is None and cpu_mb is None) or not state.config.memory_is_consumable():
        return base
    gpus = state.layout.gres_kinds.get((GPU, ""))
    if gpu_mb is not None and gpus is not None:
        return [(at, shape._replace(mem_node_mb=gpu_mb * shape.gres[gpus])) for at, shape in base]
    mem_node_mb, mem_cpu_mb = -1 if node_mb is None else node_mb, -1 if cpu_mb is None else cpu_mb
    if mem_cpu_mb > 0 and request.threads_per_core:
        return [(at, shape._replace(mem_cpu_mb=_each_mb(state, request, shape.mask, mem_cpu_mb))) for at, shape in base]
    return [(at, shape._replace(mem_node_mb=mem_node_mb, mem_cpu_mb=mem_cpu_mb)) for at, shape in base]


def _each_mb(state: ClusterState, request: JobRequest, mask: int, cpu_mb: int) -> int:
    """Applies --mem-per-cpu to each usable cpu of the job, where not all are: the nodes of a placement are of one kind."""
    bits = state.layout.masks.bits[mask]
    if not bits:
        return cpu_mb
    working, core = threads_used(state.node_list[(bits & -bits).bit_length() - 1].config, request)
    return -(-cpu_mb * working // core)


def _without_memory(state: ClusterState, request: JobRequest, resvs: tuple[int, ...], any_switches: bool) -> Ways:
    """Returns the shapes without their memory."""
    gres_counts, has_kinds = _gres_counts(state, request)
    layout = state.layout
    known = not request.licenses or all(
        name in layout.license_kinds or name in layout.hres for name, _ in parse_licenses(request.licenses)
    )
    known = known and has_kinds
    licenses = state.licenses_of(request)
    found = []
    for name in request.partitions:
        partition = state.partitions[name]
        index, units = state.partition_list.index(partition), units_taken(state, request, name)
        exclusive = _exclusive(partition, request)
        order_kind = 1 if units < state.layout.units_per_cpu else _order_kind(state, partition, request)
        for placement, least, most, ntasks in _alternatives(state, partition, request, known):
            parts = [(gres_counts, tasks_together(request, least))]
            fuller = _packed(state, request, placement, least, most) if known else None
            if fuller is not None:
                parts.insert(0, (_gres_counts(state, _with_gpus(request, fuller.gpus))[0], fuller.tasks))
            room = _partition_room(state, partition, request, placement, (least, most, ntasks))
            for (counts, together), within, resv in product(parts, room, open_to(state, resvs, name)):
                limits = (placement.ntasks_per_node, together, within.ntasks_per_node)
                shape = Shape(
                    mask=placement.mask,
                    nodes_min=least,
                    nodes_max=most,
                    ntasks=ntasks,
                    cpus_per_task=placement.cpus_per_task,
                    ntasks_per_node=min(filter(None, limits), default=0),
                    mem_node_mb=-1,
                    mem_cpu_mb=-1,
                    gres=_with_count(counts, within.column, within.cpus),
                    exclusive=exclusive,
                    switches_max=0 if any_switches else request.switches_max,
                    segment=request.segment,
                    licenses=licenses,
                    cpu_units=units,
                    order_kind=order_kind,
                    group=placement.group,
                    resv=resv,
                )
                found.append((index, shape))
    return hres.by_layers(state, request, found) if layout.hres and known else found


def _exclusive(partition: Partition, request: JobRequest) -> int:
    """Returns `exclusive` of contract.Jobs."""
    whole = int(request.exclusive or gives_whole_nodes(partition))
    if request.exclusive_topo:
        return contract.LEAF | whole
    return whole or (2 if request.is_apart() else 0)


class PartitionRoom(NamedTuple):
    """One way to stay within the partition's limits of CPUs of a node: the most tasks there, and what they take."""

    ntasks_per_node: int  # 0 = any number
    column: int = -1  # where the planner counts the CPUs that the partition's jobs have on a node; -1 = nowhere
    cpus: int = 0


def _partition_room(
    state: ClusterState,
    partition: Partition,
    request: JobRequest,
    placement: "Placement",
    numbers: tuple[int, int, int],
) -> list[PartitionRoom]:
    """Returns the ways to stay within MaxCPUsPerNode together with the partition's other jobs. `numbers`: least nodes,
    most nodes, tasks.

    The planner counts GRES once a node, not by task. So a job that may have different numbers of tasks on its nodes has
    one way for each power of two, the most tasks first.
    """
    column = state.layout.partition_cpus.get(partition.name, -1)
    if column < 0 or request.exclusive or placement.ntasks_per_node < 0:
        return [PartitionRoom(0)]
    least, most, ntasks = numbers
    nodes = state.layout.masks.indices(placement.mask)
    bound = int(state.node_columns.total_gres[nodes, column].max()) if len(nodes) else 1
    first = min(max(1, bound // placement.cpus_per_task), ntasks - least + 1 if most > 1 else ntasks)
    first = min(first, placement.ntasks_per_node or first)
    counts = [first]
    while counts[-1] > 1 and not request.ntasks_per_node and (counts[-1] + 1) // 2 * min(most, len(nodes)) >= ntasks:
        counts.append((counts[-1] + 1) // 2)
    quantum = int(state.node_columns.cpu_quantum[nodes].max()) if len(nodes) else 1
    rounded = ((count, -(-count * placement.cpus_per_task // quantum) * quantum) for count in counts)
    return [PartitionRoom(count, column, min(bound, cpus)) for count, cpus in rounded]


def _with_count(counts: tuple[int, ...], column: int, count: int) -> tuple[int, ...]:
    return counts if column < 0 else (*counts[:column], count, *counts[column + 1 :])


def _gres_counts(state: ClusterState, request: JobRequest) -> tuple[tuple[int, ...], bool]:
    """Returns the GRES that each node must have, by kind; and whether the cluster has all these kinds."""
    gres, known = [0] * len(state.layout.gres_kinds), True
    for name, type_, count in request.gres_per_node:
        for key in dict.fromkeys(((name, ""), (name, type_))):
            if key in state.layout.gres_kinds:
                gres[state.layout.gres_kinds[key]] += count
            else:
                known = False
    apart = gpu_kinds.wanted(state, request) if request.gres_per_node else {}
    for key, count in (apart or {}).items():
        gres[state.layout.gres_kinds[key]] += count
    if MILLI in state.layout.gres_kinds:
        gres[state.layout.gres_kinds[MILLI]] = milli_wanted(request.gres_per_node, state.gpus.share_units)
    return tuple(gres), known and apart is not None


def _packed(state: ClusterState, request: JobRequest, placement: "Placement", least: int, most: int) -> Packed | None:
    """Returns how full the first nodes can be, where enough nodes of the placement have GPUs for that."""
    if least != most or least < 2 or not (request.gres_per_job or request.gres_per_task):
        return None
    kind = next((state.layout.gres_kinds[name, type_] for name, type_, _ in request.gres_per_node if name == GPU), None)
    nodes = state.layout.masks.indices(placement.mask)
    if kind is None or len(nodes) < least:
        return None
    room = np.partition(state.node_columns.total_gres[nodes, kind], len(nodes) - least)[len(nodes) - least]
    return packed(request, least, int(room))


def _with_gpus(request: JobRequest, count: int) -> JobRequest:
    each = tuple((name, type_, count if name == GPU else other) for name, type_, other in request.gres_per_node)
    return with_changes(request, gres_per_node=each)


def _alternatives(
    state: ClusterState, partition: Partition, request: JobRequest, known: bool
) -> list[tuple["Placement", int, int, int]]:
    """Returns (placement, least nodes, most nodes, tasks), preferred ones first."""
    each = [
        (placement, least, most, ntasks)
        for least, most, ntasks in node_counts(request, nodes_max(state, partition, request))
        for placement in (placements(state, partition, request, least, most) if known else [_nowhere(state, request)])
    ]
    if request.contiguous and request.nodes_max > 1:
        each = _contiguous(state, request, each)
    if len(each) > 1:
        each.sort(key=lambda one: not one[0].preferred)
    return each[:ALTERNATIVES_MAX]


def _contiguous(
    state: ClusterState, request: JobRequest, each: list[tuple["Placement", int, int, int]]
) -> list[tuple["Placement", int, int, int]]:
    """Returns the same with contiguous nodes only: for each number of nodes the runs of so many adjacent ones."""
    bits = state.layout.masks.bits
    counts = [
        (placement, count, ntasks)
        for placement, least, most, ntasks in each
        for count in _some_counts(least, max(least, min(most, bits[placement.mask].bit_count())))
    ]
    required = bits_of(state.nodes[name] for name in request.nodes_required if name in state.nodes)
    found = []
    for placement, count, ntasks in counts[:ALTERNATIVES_MAX]:
        starts = state.layout.masks.indices_of(run_starts(bits[placement.mask], count, required))
        step = max(1, -(-len(starts) * len(counts) // ALTERNATIVES_MAX))
        for start in starts[::step].tolist():
            row = state.layout.masks.row_of_bits(((1 << count) - 1) << start)
            found.append((placement._replace(mask=row), count, count, ntasks))
    return found or [(_nowhere(state, request), least, most, ntasks) for _, least, most, ntasks in each[:1]]


def _some_counts(least: int, most: int) -> list[int]:
    """Returns some numbers of nodes of a range, including both ends."""
    steps = (least + (most - least) * i // CONTIGUOUS_COUNTS for i in range(CONTIGUOUS_COUNTS + 1))
    return list(dict.fromkeys(steps))


def run_starts(bits: int, count: int, required: int) -> int:
    """Returns where runs of so many adjacent bits begin that include the required ones, as a bit map.

    The length of the runs doubles in each round. `count` is a user's number: it is compared with the bits before it is
    the length of anything.
    """
    if count > bits.bit_count():
        return 0
    starts, length = bits, 1
    while length < count and starts:
        more = min(length, count - length)
        starts &= starts >> more
        length += more
    if required:
        lowest, highest = (required & -required).bit_length() - 1, required.bit_length() - 1
        starts &= (2 << lowest) - 1
        first = max(0, highest - count + 1)
        starts = starts >> first << first
    return starts


def _nowhere(state: ClusterState, request: JobRequest) -> "Placement":
    return Placement(state.layout.masks.nowhere(), -1, request.cpus_per_task, request.ntasks_per_node, False)


def node_counts(request: JobRequest, most: int) -> list[tuple[int, int, int]]:
    """Returns (least nodes, most nodes, tasks) of each alternative, in order of preference. `most`: MaxNodes, -1 = no
    limit."""
    least, high = request.nodes_min, request.nodes_max
    if most >= 0:
        high = max(least, min(high, most))
    each = 0 if request.ntasks_over else request.ntasks_per_node
    if request.ntasks_asked and each:
        least = max(least, -(-request.ntasks // each))
        high = max(least, high)
    if high == least or not (request.spread_job or request.nodes_asked):
        return [(least, least if each else high, least * each or request.ntasks)]
    if request.ntasks_asked or each:
        high = max(least, min(high, request.ntasks))
    step = max(1, request.segment)
    steps = (high - least) // step
    tried = min(steps, NODE_COUNTS_MAX - 1)
    counts = [least + step * (steps * i // max(1, tried)) for i in range(tried + 1)]
    if not request.use_min_nodes:
        counts.reverse()
    return [(count, count, count * each or (request.ntasks if request.ntasks_asked else count)) for count in counts]


def _order_kind(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """Returns 0 = by weight, 1 = the least loaded first (LLN; also of jobs that may share CPUs, so that idle ones are
    used first), 2 = best fit: contract.Jobs."""
    words = state.config.select_type_parameters
    if partition.config.lln or "CR_LLN" in words:
        return 1
    return 2 if "PENSTOCK_BEST_FIT" in words else 0


class Placement(NamedTuple):
    """The nodes where one alternative may run, and the resources of a task there."""

    mask: int  # a row of the masks
    group: int  # a group set
    cpus_per_task: int
    ntasks_per_node: int
    preferred: bool


#: The inputs of `placements`, besides the number of nodes.
_asked = attrgetter(
    "features", "prefer", "nodes_required", "nodes_excluded", *LEAST_FIELDS, "ntasks_per_core", "ntasks_per_socket",
    "ntasks_per_node", "cpus_per_task", "batch_features", *specialized.FIELDS,
)  # fmt: skip


def placements(
    state: ClusterState, partition: Partition, request: JobRequest, least: int, most: int
) -> list[Placement]:
    """Returns each alternative of a job of so many nodes in that partition, cached by its inputs."""
    others = most > len(request.nodes_required)
    least_mb, least_cpus = _least_mb(state, request), cpus_least(request, least)
    key = (partition.name, others, least_cpus, least_mb, request.exclusive, *_asked(request))
    known: list[Placement] | None = state.layout.placements.get(key)
    if known is None:
        if len(state.layout.placements) >= PLACEMENTS_KNOWN_MAX:
            state.layout.placements.clear()
        known = state.layout.placements[key] = _placements(state, partition, request, others, least_mb, least_cpus)
    return known


def _placements(
    state: ClusterState, partition: Partition, request: JobRequest, others: bool, least_mb: int, least_cpus: int
) -> list[Placement]:
    """Computes the placements. `others`: nodes beside those that it names."""
    bits = partition.node_bits
    if least_mb:
        bits &= bits_of(node for node in state.node_list if node.config.real_memory_mb >= least_mb)
    if request.exclusive and partition.config.limits_cpus():  # it gets all CPUs of its nodes
        within = partition.config.cpus_within
        bits &= bits_of(node for node in state.node_list if node.cpus <= within(node.config))
    if request.nodes_excluded:
        bits &= ~bits_of(state.nodes[name] for name in request.nodes_excluded if name in state.nodes)
    groups: list[tuple[int, int]] = []
    if request.nodes_required:
        if any(name not in state.nodes for name in request.nodes_required):
            return [_nowhere(state, request)]
        required = bits_of(state.nodes[name] for name in request.nodes_required) & bits
        if not others:
            bits = required  # the request names no other nodes, so no group is needed
        else:
            groups = [(state.layout.masks.row_of_bits(required), len(request.nodes_required))]
    found = []
    for way, preferred in _ways_of(request):
        allowed = bits
        for expr in way.all:
            allowed &= _with_features(state, expr)
        for kind in node_kinds(state.node_list, request, least_cpus):
            here = allowed & kind.bits
            some = [
                (state.layout.masks.row_of_bits(here & _with_features(state, expr)), count) for expr, count in way.some
            ]
            if request.batch_features:
                batch = here & _with_features(state, parse_features(request.batch_features))
                some.append((state.layout.masks.row_of_bits(batch), 1))
            group = state.layout.masks.group((*groups, *some))
            mask = state.layout.masks.row_of_bits(here)
            most = _tasks_within(state, partition, request, kind)
            found.append(Placement(mask, group, kind.cpus_per_task, most, preferred))
    return found or [_nowhere(state, request)]


def _tasks_within(state: ClusterState, partition: Partition, request: JobRequest, kind: NodeKind) -> int:
    """Returns the most tasks on a node: its own limit and the partition's MaxCPUsPerNode and MaxCPUsPerSocket; 0 = any
    number, -1 = not even those that it must have."""
    column = state.layout.partition_cpus.get(partition.name, -1)
    if column < 0 or request.exclusive:
        return kind.ntasks_per_node
    room = int(state.node_columns.total_gres[:, column].max(initial=0)) // kind.cpus_per_task
    if room < max(1, request.ntasks_per_node):
        return -1
    return min(room, kind.ntasks_per_node or room)


def _ways_of(request: JobRequest) -> list[tuple[Way, bool]]:
    """Returns the alternatives of its features, and whether they are --prefer's."""
    first = [(way, True) for way in ways(parse_features(request.prefer))] if request.prefer else []
    rest = ways(parse_features(request.features)) if request.features else (Way(),)
    return [*first, *((way, False) for way in rest)]


def _with_features(state: ClusterState, expr: Expr) -> int:
    return bits_of(node for node in state.node_list if expr.matches(frozenset(node.features)))


def mask_bits(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """Returns all nodes that any of its alternatives may run on, as a bit map."""
    bits = 0
    for placement in placements(state, partition, request, request.nodes_min, request.nodes_max):
        bits |= state.layout.masks.bits[placement.mask]
    return bits


def bits_of(nodes: Iterable[Node]) -> int:
    """Makes a bit map of node indices."""
    found = 0
    for node in nodes:
        found |= 1 << node.index
    return found
