"""From a request to what the planner must know of it: sets of nodes, and a shape for each way in which it may run.

Features (sbatch(1), --constraint). A constraint becomes alternatives of a set of nodes and of groups in it: `a&b` and
`a|b` look at one node each and make the set; `[a|b]` is one alternative for each word, since all nodes of the job must
agree; `a*2` is a group: two of the job's nodes have `a`, the others may be any. A --nodelist is a group too: all of it,
and as many others as are asked for.
"""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from ctld.core.model import JobRequest, Node, Partition
from ctld.core.pending import Shape
from ctld.core.shares import MILLI, milli_wanted
from ctld.core.sharing import tasks_per_node_max, units_taken
from ctld.core.state import ClusterState
from penstock.values.features import Expr, parse_features

#: Alternatives of one request: beyond it, what is left is not looked at. Nobody writes so many by hand.
ALTERNATIVES_MAX = 64
#: Requests whose shapes are kept: a submission asks twice, and equal submissions share their request.
SHAPES_KNOWN_MAX = 1_000


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


def shapes(
    state: ClusterState, request: JobRequest, resvs: tuple[int, ...] = (-1,), any_switches: bool = False
) -> list[tuple[int, Shape]]:
    """One (partition index, shape) for each of its partitions, reservations and alternatives.

    A reload may have removed what a pending job asks for: such a job keeps its place, with no node to run on.
    """
    if any_switches or resvs != (-1,):
        return fresh_shapes(state, request, resvs, any_switches)
    known = state.shapes_known.get(id(request))
    if known is None:
        if len(state.shapes_known) >= SHAPES_KNOWN_MAX:
            state.shapes_known.clear()
        # the request is kept with it, so that no other can get its identity
        known = state.shapes_known[id(request)] = (request, fresh_shapes(state, request, resvs, any_switches))
    found: list[tuple[int, Shape]] = known[1]
    return found


def fresh_shapes(
    state: ClusterState, request: JobRequest, resvs: tuple[int, ...], any_switches: bool = False
) -> list[tuple[int, Shape]]:
    """The same, not remembered."""
    gres = [0] * len(state.gres_kinds)
    known = True
    for name, type_, count in request.gres_per_node:
        for key in dict.fromkeys(((name, ""), (name, type_))):
            if key in state.gres_kinds:
                gres[state.gres_kinds[key]] += count
            else:
                known = False
    if MILLI in state.gres_kinds:
        gres[state.gres_kinds[MILLI]] = milli_wanted(request.gres_per_node, state.share_units)
    consumable = state.config.memory_is_consumable()
    base = Shape(
        mask=-1,
        nodes_min=request.nodes_min,
        nodes_max=request.nodes_max,
        ntasks=request.ntasks,
        cpus_per_task=request.cpus_per_task,
        ntasks_per_node=request.ntasks_per_node,
        mem_node_mb=request.mem_per_node_mb if consumable and request.mem_per_node_mb is not None else -1,
        mem_cpu_mb=request.mem_per_cpu_mb if consumable and request.mem_per_cpu_mb is not None else -1,
        gres=tuple(gres),
        exclusive=1 if request.exclusive else 2 if request.exclusive_user else 0,
        spread=int(request.nodes_max > request.nodes_min and not request.ntasks_asked),
        switches_max=0 if any_switches else request.switches_max,
        segment=request.segment,
        licenses=state.licenses_of(request),
    )
    found = []
    for name in request.partitions:
        partition = state.partitions[name]
        most = partition.config.max_nodes
        if most >= 0:
            base = base._replace(nodes_max=max(request.nodes_min, min(request.nodes_max, most)))
        index, kind = state.partition_list.index(partition), _order_kind(state, partition)
        units = units_taken(state, request, name)
        for mask, group in placements(state, partition, request) if known else [(state.masks.nowhere(), -1)]:
            for resv in resvs:
                shape = base._replace(
                    mask=mask, group=group, cpu_units=units, order_kind=kind, resv=resv,
                    ntasks_per_node=tasks_per_node_max(state, request, partition),
                )  # fmt: skip
                found.append((index, shape))
        base = base._replace(nodes_max=request.nodes_max)
    return found


def _order_kind(state: ClusterState, partition: Partition) -> int:
    """0 by weight, 1 the least loaded first (LLN), 2 where it fits best: contract.Jobs."""
    words = state.config.select_type_parameters
    if partition.config.lln or "CR_LLN" in words:
        return 1
    return 2 if "PENSTOCK_BEST_FIT" in words else 0


def placements(state: ClusterState, partition: Partition, request: JobRequest) -> list[tuple[int, int]]:
    """(mask row, group set) of each alternative in that partition, remembered by what they come from."""
    key = (partition.name, request.features, request.nodes_required, request.nodes_excluded, request.nodes_min)
    known = state.placements.get(key)
    if known is None:
        known = state.placements[key] = _placements(state, partition, request)
    return known


def _placements(state: ClusterState, partition: Partition, request: JobRequest) -> list[tuple[int, int]]:
    bits = partition.node_bits
    if request.nodes_excluded:
        bits &= ~bits_of(state.nodes[name] for name in request.nodes_excluded if name in state.nodes)
    groups: list[tuple[int, int]] = []
    if request.nodes_required:
        if any(name not in state.nodes for name in request.nodes_required):
            return [(state.masks.nowhere(), -1)]
        required = bits_of(state.nodes[name] for name in request.nodes_required) & bits
        if len(request.nodes_required) >= request.nodes_min:
            bits = required  # it is all that is asked for, so no group is needed
        else:
            groups = [(state.masks.row_of_bits(required), len(request.nodes_required))]
    found = []
    for way in ways(parse_features(request.features)) if request.features else (Way(),):
        allowed = bits
        for expr in way.all:
            allowed &= _with_features(state, expr)
        some = [(state.masks.row_of_bits(allowed & _with_features(state, expr)), count) for expr, count in way.some]
        found.append((state.masks.row_of_bits(allowed), state.masks.group((*groups, *some))))
    return found


def _with_features(state: ClusterState, expr: Expr) -> int:
    return bits_of(node for node in state.node_list if expr.matches(frozenset(node.features)))


def mask_bits(state: ClusterState, partition: Partition, request: JobRequest) -> int:
    """All nodes that any of its alternatives may run on, as a bit map."""
    bits = 0
    for mask, _ in placements(state, partition, request):
        bits |= state.masks.bits[mask]
    return bits


def bits_of(nodes: Iterable[Node]) -> int:
    """A bit map of node indices."""
    found = 0
    for node in nodes:
        found |= 1 << node.index
    return found
