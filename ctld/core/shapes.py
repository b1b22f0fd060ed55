"""From a request to what the planner must know of it: sets of nodes, and a shape for each way in which it may run.

Features (sbatch(1), --constraint). A constraint becomes alternatives of a set of nodes and of groups in it: `a&b` and
`a|b` look at one node each and make the set; `[a|b]` is one alternative for each word, since all nodes of the job must
agree; `a*2` is a group: two of the job's nodes have `a`, the others may be any. A --nodelist is a group too: all of it,
and as many others as are asked for. Where --prefer has features, its alternatives stand before those of --constraint.

Numbers of nodes. `-N 2-4` without a number of tasks has one task a node, so that each number of nodes is an alternative,
the largest first. So it is with --spread-job, whose tasks are divided among the nodes.

--contiguous: each run of so many nodes that follow each other in the configuration is an alternative, with no node more
than the job takes. Of more than fit into ALTERNATIVES_MAX some are tried, at equal distances. --batch asks for a node with
these features among those of the job: a group of one.

Of alternatives the one that starts first wins, of equals the one that stands first.
"""

from collections.abc import Iterable
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from ctld.core import gpu_kinds
from ctld.core.admit import nodes_max
from ctld.core.model import JobRequest, Node, Partition
from ctld.core.pending import Shape, Ways
from ctld.core.plain import PlainRequest
from ctld.core.shares import MILLI, milli_wanted
from ctld.core.sharing import tasks_per_node_max, units_taken
from ctld.core.state import ClusterState
from ctld.core.within import node_kinds
from penstock.values.features import Expr, parse_features
from penstock.values.licenses import parse_licenses

#: Alternatives of one request: beyond it, what is left is not looked at. Nobody writes so many by hand.
ALTERNATIVES_MAX = 64
#: Numbers of nodes that are tried of a range such as `-N 1-1000`: both ends, and others at equal distances.
NODE_COUNTS_MAX = 16
#: The same of a range of nodes that must stand side by side.
CONTIGUOUS_COUNTS = 4
#: What requests that differ in memory alone have in common is kept for so many of them, and so many shapes: a submission
#: asks twice, and most jobs ask for what others ask for. 20,000 shapes are 8 MB.
KINDS_KNOWN_MAX = 1_000
SHAPES_KNOWN_MAX = 20_000
#: Placements that are kept: users differ in few of the things that these come from.
PLACEMENTS_KNOWN_MAX = 10_000


class Way(NamedTuple):
    """One alternative of a constraint: features of every node, and (features, nodes wanted) of some."""

    all: tuple[Expr, ...] = ()
    some: tuple[tuple[Expr, int], ...] = ()


def ways(expr: Expr) -> tuple[Way, ...]:
    """The alternatives of a constraint."""
    if not _is_about_sets(expr):
        return (Way((expr,)),)
    if expr.kind == "count":
        return tuple(Way((), ((inner, expr.count),)) for way in ways(expr.args[0]) for inner in way.all)
    if expr.kind == "and":
        found = []
        for combination in product(*(ways(arg) for arg in expr.args)):
            found.append(Way(sum((w.all for w in combination), ()), sum((w.some for w in combination), ())))
            if len(found) >= ALTERNATIVES_MAX:
                break
        return tuple(found)
    return tuple(way for arg in expr.args for way in ways(arg))[:ALTERNATIVES_MAX]


def _is_about_sets(expr: Expr) -> bool:
    return expr.kind in ("count", "xor") or any(_is_about_sets(arg) for arg in expr.args)


#: Fields of a request that say nothing of where and with what it may run. All others count, also those that are new.
_ASIDE = frozenset(
    (
        "name", "account", "comment", "work_dir", "std_out", "std_err", "std_in", "open_append", "time_limit_s",
        "begin_at_us", "dependency", "array", "requeue", "nice", "rlimits", "umask", "submit_line", "command", "wckey",
        "kill_on_invalid_dep", "export_env", "submit_host", "submit_dir", "signal", "time_min_s", "deadline_at_us",
        "priority", "site_factor", "reservation", "reservation_run", "switches_wait_s", "kind", "ntasks_over",
        "overcommit", "immediate_s", "gres_per_job", "gres_per_task", "ntasks_per_gpu", "cpus_per_gpu",
        "mem_per_gpu_mb", "resv_ports", "no_kill", "wait_all_nodes", "node_fail_policy", "mpi", "cpu_bind", "mem_bind",
        "gpu_bind", "network", "het_job_id", "het_offset", "het_size", "mail_types", "mail_user", "extra", "get_user_env",
        "acctg_freq", "oom_kill_step", "delay_boot_s", "expedite", "container", "cpu_freq", "system_comment", "reboot",
        "cron", "mem_per_node_mb", "mem_per_cpu_mb",
    )
)  # fmt: skip
#: Memory is added afterwards: it is what requests differ in most, and decides nothing else.
_what_counts = attrgetter(*(name for name in JobRequest.__struct_fields__ if name not in _ASIDE))
_what_counts_of_plain = attrgetter(*(name for name in PlainRequest.__struct_fields__ if name not in _ASIDE))


def shapes(
    state: ClusterState, request: JobRequest, resvs: tuple[int, ...] = (-1,), any_switches: bool = False
) -> Ways:
    """One (partition index, shape) for each of its partitions, reservations and alternatives.

    A reload may have removed what a pending job asks for: such a job keeps its place, with no node to run on.
    """
    if any_switches or resvs != (-1,):
        return fresh_shapes(state, request, resvs, any_switches)
    counts = (_what_counts_of_plain if type(request) is PlainRequest else _what_counts)(request)
    known = state.shapes_known
    kind = known.kinds.get(counts)
    if kind is None:
        if len(known.kinds) >= KINDS_KNOWN_MAX:
            known.clear()
        kind = known.kinds[counts] = len(known.kinds), _without_memory(state, request, resvs, any_switches)
    number, plain = kind
    key = number, request.mem_per_node_mb, request.mem_per_cpu_mb
    found = known.sized.get(key)
    if found is None:
        if len(known.sized) >= SHAPES_KNOWN_MAX:
            known.sized.clear()
        found = known.sized[key] = _with_memory(state, request, plain)
    return found


def fresh_shapes(state: ClusterState, request: JobRequest, resvs: tuple[int, ...], any_switches: bool = False) -> Ways:
    """The same, not remembered."""
    return _with_memory(state, request, _without_memory(state, request, resvs, any_switches))


def _with_memory(state: ClusterState, request: JobRequest, plain: Ways) -> Ways:
    node_mb, cpu_mb = request.mem_per_node_mb, request.mem_per_cpu_mb
    if (node_mb is None and cpu_mb is None) or not state.config.memory_is_consumable():
        return plain
    mem_node_mb, mem_cpu_mb = -1 if node_mb is None else node_mb, -1 if cpu_mb is None else cpu_mb
    return [(at, shape._replace(mem_node_mb=mem_node_mb, mem_cpu_mb=mem_cpu_mb)) for at, shape in plain]


def _without_memory(state: ClusterState, request: JobRequest, resvs: tuple[int, ...], any_switches: bool) -> Ways:
    """The shapes, but for their memory."""
    gres = [0] * len(state.gres_kinds)
    known = not request.licenses or all(name in state.license_kinds for name, _ in parse_licenses(request.licenses))
    for name, type_, count in request.gres_per_node:
        for key in dict.fromkeys(((name, ""), (name, type_))):
            if key in state.gres_kinds:
                gres[state.gres_kinds[key]] += count
            else:
                known = False
    apart = gpu_kinds.wanted(state, request) if request.gres_per_node else {}
    for key, count in (apart or {}).items():
        gres[state.gres_kinds[key]] += count
    known = known and apart is not None
    if MILLI in state.gres_kinds:
        gres[state.gres_kinds[MILLI]] = milli_wanted(request.gres_per_node, state.share_units)
    exclusive = 1 if request.exclusive else 2 if request.exclusive_user else 0
    gres_counts, licenses = tuple(gres), state.licenses_of(request)
    found = []
    for name in request.partitions:
        partition = state.partitions[name]
        index, units = state.partition_list.index(partition), units_taken(state, request, name)
        order_kind = _order_kind(state, partition, request)
        for place, least, most, ntasks in _alternatives(state, partition, request, known):
            even = -(-ntasks // least) if request.spread_job or _goes_round(request) else 0
            limits = (place.ntasks_per_node, tasks_per_node_max(state, request, partition), even)
            for resv in resvs:
                shape = Shape(
                    mask=place.mask,
                    nodes_min=least,
                    nodes_max=most,
                    ntasks=ntasks,
                    cpus_per_task=place.cpus_per_task,
                    ntasks_per_node=min(filter(None, limits), default=0),
                    mem_node_mb=-1,
                    mem_cpu_mb=-1,
                    gres=gres_counts,
                    exclusive=exclusive,
                    switches_max=0 if any_switches else request.switches_max,
                    segment=request.segment,
                    licenses=licenses,
                    cpu_units=units,
                    order_kind=order_kind,
                    group=place.group,
                    resv=resv,
                )
                found.append((index, shape))
    return found


def _goes_round(request: JobRequest) -> bool:
    """--distribution=cyclic: each node gets as many tasks as the others."""
    return request.distribution.lower().startswith("cyclic")


def _alternatives(
    state: ClusterState, partition: Partition, request: JobRequest, known: bool
) -> list[tuple["Placement", int, int, int]]:
    """(place, least nodes, most nodes, tasks), those that are preferred first."""
    each = [
        (place, least, most, ntasks)
        for least, most, ntasks in node_counts(request, nodes_max(state, partition, request))
        for place in (placements(state, partition, request, least) if known else [_nowhere(state, request)])
    ]
    if request.contiguous and request.nodes_max > 1:
        each = _contiguous(state, request, each)
    if len(each) > 1:
        each.sort(key=lambda one: not one[0].preferred)
    return each[:ALTERNATIVES_MAX]


def _contiguous(
    state: ClusterState, request: JobRequest, each: list[tuple["Placement", int, int, int]]
) -> list[tuple["Placement", int, int, int]]:
    """The same with neighbours only: for each number of nodes the places where so many stand side by side."""
    counts = [(place, count, ntasks) for place, least, most, ntasks in each for count in _some_counts(least, most)]
    required = bits_of(state.nodes[name] for name in request.nodes_required if name in state.nodes)
    found = []
    for place, count, ntasks in counts[:ALTERNATIVES_MAX]:
        runs = [run for run in _runs(state.masks.bits[place.mask], count) if not required & ~run]
        step = max(1, -(-len(runs) * len(counts) // ALTERNATIVES_MAX))
        for run in runs[::step]:
            found.append((place._replace(mask=state.masks.row_of_bits(run)), count, count, ntasks))
    return found or [(_nowhere(state, request), least, most, ntasks) for _, least, most, ntasks in each[:1]]


def _some_counts(least: int, most: int) -> list[int]:
    """Some numbers of nodes of a range, both ends among them."""
    steps = (least + (most - least) * i // CONTIGUOUS_COUNTS for i in range(CONTIGUOUS_COUNTS + 1))
    return list(dict.fromkeys(steps))


def _runs(bits: int, count: int) -> list[int]:
    """All sets of so many bits side by side, the lowest first."""
    starts = bits
    for distance in range(1, count):
        starts &= bits >> distance
    window, found = (1 << count) - 1, []
    while starts:
        lowest = (starts & -starts).bit_length() - 1
        found.append(window << lowest)
        starts &= starts - 1
    return found


def _nowhere(state: ClusterState, request: JobRequest) -> "Placement":
    return Placement(state.masks.nowhere(), -1, request.cpus_per_task, request.ntasks_per_node, False)


def node_counts(request: JobRequest, most: int) -> list[tuple[int, int, int]]:
    """(least nodes, most nodes, tasks) of each alternative, in order of preference. `most`: MaxNodes, -1 = no limit."""
    least, high = request.nodes_min, request.nodes_max
    if most >= 0:
        high = max(least, min(high, most))
    if high == least or (request.ntasks_asked and not request.spread_job):
        return [(least, high, request.ntasks)]
    if request.spread_job:
        high = min(high, request.ntasks)
    step = max(1, request.segment)
    steps = (high - least) // step
    tried = min(steps, NODE_COUNTS_MAX - 1)
    counts = [least + step * (steps * i // max(1, tried)) for i in range(tried + 1)]
    if not request.use_min_nodes:
        counts.reverse()
    return [(count, count, request.ntasks if request.ntasks_asked else count) for count in counts]


def _order_kind(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """0 by weight, 1 the least loaded first (LLN), 2 where it fits best: contract.Jobs."""
    words = state.config.select_type_parameters
    if partition.config.lln or request.spread_job or "CR_LLN" in words:
        return 1
    return 2 if "PENSTOCK_BEST_FIT" in words else 0


class Placement(NamedTuple):
    """Where one alternative may run, and what a task takes there."""

    mask: int  # a row of the masks
    group: int  # a group set
    cpus_per_task: int
    ntasks_per_node: int
    preferred: bool


#: What `placements` looks at, besides the number of nodes.
_asked = attrgetter(
    "features", "prefer", "nodes_required", "nodes_excluded", "sockets_per_node", "cores_per_socket", "threads_per_core",
    "mincpus", "tmp_disk_mb", "ntasks_per_core", "ntasks_per_socket", "ntasks_per_node", "cpus_per_task",
    "batch_features",
)  # fmt: skip


def placements(state: ClusterState, partition: Partition, request: JobRequest, nodes: int) -> list[Placement]:
    """Each alternative of a job of so many nodes in that partition, remembered by what they come from."""
    key = (partition.name, nodes, *_asked(request))
    known: list[Placement] | None = state.placements.get(key)
    if known is None:
        if len(state.placements) >= PLACEMENTS_KNOWN_MAX:
            state.placements.clear()
        known = state.placements[key] = _placements(state, partition, request, nodes)
    return known


def _placements(state: ClusterState, partition: Partition, request: JobRequest, nodes: int) -> list[Placement]:
    bits = partition.node_bits
    if request.nodes_excluded:
        bits &= ~bits_of(state.nodes[name] for name in request.nodes_excluded if name in state.nodes)
    groups: list[tuple[int, int]] = []
    if request.nodes_required:
        if any(name not in state.nodes for name in request.nodes_required):
            return [_nowhere(state, request)]
        required = bits_of(state.nodes[name] for name in request.nodes_required) & bits
        if len(request.nodes_required) >= nodes:
            bits = required  # it is all that is asked for, so no group is needed
        else:
            groups = [(state.masks.row_of_bits(required), len(request.nodes_required))]
    found = []
    for way, preferred in _ways_of(request):
        allowed = bits
        for expr in way.all:
            allowed &= _with_features(state, expr)
        for kind in node_kinds(state.node_list, request):
            here = allowed & kind.bits
            some = [(state.masks.row_of_bits(here & _with_features(state, expr)), count) for expr, count in way.some]
            if request.batch_features:
                batch = here & _with_features(state, parse_features(request.batch_features))
                some.append((state.masks.row_of_bits(batch), 1))
            group = state.masks.group((*groups, *some))
            mask = state.masks.row_of_bits(here)
            found.append(Placement(mask, group, kind.cpus_per_task, kind.ntasks_per_node, preferred))
    return found or [_nowhere(state, request)]


def _ways_of(request: JobRequest) -> list[tuple[Way, bool]]:
    """The alternatives of its features, and whether they are --prefer's."""
    first = [(way, True) for way in ways(parse_features(request.prefer))] if request.prefer else []
    rest = ways(parse_features(request.features)) if request.features else (Way(),)
    return [*first, *((way, False) for way in rest)]


def _with_features(state: ClusterState, expr: Expr) -> int:
    return bits_of(node for node in state.node_list if expr.matches(frozenset(node.features)))


def mask_bits(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """All nodes that any of its alternatives may run on, as a bit map."""
    bits = 0
    for place in placements(state, partition, request, request.nodes_min):
        bits |= state.masks.bits[place.mask]
    return bits


def bits_of(nodes: Iterable[Node]) -> int:
    """A bit map of node indices."""
    found = 0
    for node in nodes:
        found |= 1 << node.index
    return found
