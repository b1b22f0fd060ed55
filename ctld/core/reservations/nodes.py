"""Selects the nodes, and the part of each, that a reservation takes.

The available part of a node is the whole node less the parts of other reservations at overlapping times, less the
allocations of jobs that end after the start. Flags relax this as in Slurm: OVERLAP and MAINT (of either reservation)
ignore other reservations, IGNORE_JOBS ignores jobs. Named nodes are taken or the request is refused; chosen ones are up
(a MAINT reservation takes any), those with the least available last, then by weight and order.

A reservation of a number of CPUs or of devices takes part of a node: with the CPUs their share of the memory, with the
devices their share of both, since a GPU is useless on a node without a free core.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ctld.core.records.effects import Refused
from ctld.core.records.job import Job
from ctld.core.records.node import Node, Partition
from ctld.core.records.reservation import Reservation, ReservationDemand, ReservedPart
from ctld.core.reservations import recurrence
from ctld.core.reservations.access import running_in
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from penstock.values.features import Expr, parse_features
from penstock.values.refusals import Code
from penstock.values.reservations import RECURRING, ResvFlag

Spans = Sequence[tuple[int, int]]

#: Occurrences of a recurring reservation that are compared with others: two months of nights, more than a year of weeks.
COMPARED: Final = 64
#: The end of a job without a time limit.
NEVER_US: Final = 1 << 60
WHOLE: Final = -1


class Rest(NamedTuple):
    """The available part of a node for a reservation. `free`: no other reservation or job has any of it."""

    node: Node
    cpus: int
    mem_mb: int
    gres: dict[tuple[str, str], int]
    free: bool


def spans_of(state: ClusterState, reservation: Reservation, now_us: int, most: int = COMPARED) -> list[tuple[int, int]]:
    """Returns (start, end) of the present or next occurrence and of those after it."""
    if reservation.float_us >= 0:
        start_us = now_us + reservation.float_us
        return [(start_us, start_us + reservation.end_at_us - reservation.start_at_us)]
    first = (reservation.start_at_us, reservation.end_at_us)
    if not reservation.flags & RECURRING:
        return [first]
    length_us = reservation.end_at_us - reservation.start_at_us
    later = recurrence.windows(
        reservation.anchor_at_us, length_us, reservation.flags, state.config.utc_offsets, first[0] + 1, most - 1
    )
    return [first, *later]


def choose(
    state: ClusterState, now_us: int, ask: ReservationDemand, flags: ResvFlag, spans: Spans, own: str
) -> tuple[ReservedPart, ...]:
    """Chooses the parts to reserve; () for a reservation without nodes. `own`: the reservation's name. Raises Refused."""
    rest = _Resources(state, now_us, flags, spans, own)
    if ask.nodes or ask.all_nodes:
        return _named(state, ask, flags, rest)
    if flags & ResvFlag.ANY_NODES and not (ask.node_count or ask.cpus or ask.gres or ask.gres_per_node):
        return ()
    pool = _pool(state, ask)
    if not (ask.node_count or ask.cpus or ask.gres or ask.gres_per_node):
        if not ask.partition:
            raise Refused(Code.INVALID_NODE_NAME, "name nodes, a number of them, cores, TRES or a partition")
        return _whole(pool, rest)
    return _counted(ask, flags, pool, rest)


def replacements(
    state: ClusterState, now_us: int, ask: ReservationDemand, flags: ResvFlag, spans: Spans, own: str
) -> list[str]:
    """Returns whole nodes that could replace others, the preferred first: up, idle and not reserved. Raises Refused."""
    rest = _Resources(state, now_us, flags, spans, own)
    nodes = [node for node in _pool(state, ask) if not node.flags & CLOSED_FLAGS and not node.jobs]
    return [node.name for node in nodes if rest.of(node).free]


def _named(
    state: ClusterState, ask: ReservationDemand, flags: ResvFlag, rest: "_Resources"
) -> tuple[ReservedPart, ...]:
    if ask.all_nodes:
        nodes = _partition_nodes(state, ask.partition) if ask.partition else state.node_list
    else:
        missing = [name for name in ask.nodes if name not in state.nodes]
        if missing:
            raise Refused(Code.INVALID_NODE_NAME, missing[0])
        nodes = [state.nodes[name] for name in ask.nodes]
    if not ask.cpus_by_node:
        return _whole(nodes, rest)
    counts = ask.cpus_by_node if len(ask.cpus_by_node) > 1 else ask.cpus_by_node * len(nodes)
    if len(counts) != len(nodes):
        raise Refused(Code.INVALID_VALUE, f"CoreCnt has {len(counts)} numbers for {len(nodes)} nodes")
    return tuple(_part(rest.of(node), cpus, ()) for node, cpus in zip(nodes, counts, strict=True))


def _whole(nodes: Iterable[Node], rest: "_Resources") -> tuple[ReservedPart, ...]:
    found = []
    for node in nodes:
        if not rest.of(node).free:
            raise rest.refusal(node)
        found.append(ReservedPart(node.name, WHOLE, 0, ()))
    return tuple(found)


def _part(rest: Rest, cpus: int, gres: tuple[tuple[str, str, int], ...]) -> ReservedPart:
    """Returns that many CPUs with their share of the memory. Raises Refused when they are not available."""
    node = rest.node
    if cpus > node.cpus:
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{node.name} has {node.cpus} CPUs")
    mem_mb = node.real_memory_mb * cpus // max(1, node.cpus)
    if cpus > rest.cpus or mem_mb > rest.mem_mb:
        raise Refused(Code.NODES_BUSY, node.name)
    return ReservedPart(node.name, cpus, mem_mb, gres)


def _pool(state: ClusterState, ask: ReservationDemand) -> list[Node]:
    """Returns the nodes that the request may use, the preferred first."""
    if ask.partition:
        nodes = _partition_nodes(state, ask.partition)
    else:
        default: list[Partition] = [p for p in state.partition_list if p.config.is_default]
        nodes = _partition_nodes(state, default[0].name) if default else list(state.node_list)
    if ask.features:
        every, some = _features_of(ask.features)
        nodes = [node for node in nodes if all(_has(node, expr) for expr in every)]
        nodes = [node for node in nodes if not some or any(_has(node, expr) for expr, _ in some)]
    return sorted(nodes, key=lambda node: (node.weight, node.index))


def _has(node: Node, expr: Expr) -> bool:
    return expr.matches(frozenset(node.features))


def _features_of(text: str) -> tuple[list[Expr], list[tuple[Expr, int]]]:
    """Returns the constraints of every node, and (constraint, number of nodes): `x&[a*1&b*2]` is x, and a*1, b*2."""
    every: list[Expr] = []
    some: list[tuple[Expr, int]] = []
    left = [parse_features(text)]
    while left:
        expr = left.pop(0)
        if expr.kind == "count":
            some.append((expr.args[0], expr.count))
        elif expr.kind == "and" or (expr.kind == "xor" and len(expr.args) == 1):
            left += expr.args
        else:
            every.append(expr)
    return every, some


def _of_features(ask: ReservationDemand, free: list[Node]) -> list[Node]:
    """Returns the nodes to reserve, in the order of `free`: as many of each feature as are requested, then others; too
    few when there are not enough."""
    taken: dict[str, None] = {}
    for expr, count in _features_of(ask.features)[1]:
        found = [node.name for node in free if node.name not in taken and _has(node, expr)]
        if len(found) < count:
            return []
        taken |= dict.fromkeys(found[:count])
    if len(taken) > ask.node_count:
        return []
    others = [node.name for node in free if node.name not in taken]
    taken |= dict.fromkeys(others[: ask.node_count - len(taken)])
    return [node for node in free if node.name in taken]


def _partition_nodes(state: ClusterState, name: str) -> list[Node]:
    if name not in state.partitions:  # it has left the configuration since the reservation was made
        raise Refused(Code.INVALID_PARTITION, name)
    bits = state.partitions[name].node_bits
    return [node for node in state.node_list if bits >> node.index & 1]


def _counted(ask: ReservationDemand, flags: ResvFlag, pool: list[Node], rest: "_Resources") -> tuple[ReservedPart, ...]:
    """Chooses so many nodes, CPUs or devices from the pool."""
    if ask.node_count > len(pool):
        text = f"{ask.node_count} nodes are asked for, {len(pool)} would do"
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, text)
    open_nodes = [node for node in pool if flags & ResvFlag.MAINT or not node.flags & CLOSED_FLAGS]
    # Nodes without running jobs come first: they are available at once.
    candidates = sorted((rest.of(node) for node in open_nodes), key=lambda r: bool(r.node.jobs))
    if ask.gres or ask.gres_per_node:
        parts = _devices(ask, candidates)
    elif ask.cpus:
        parts = _cores(ask, candidates)
    else:
        chosen = _of_features(ask, [one.node for one in candidates if one.free])
        parts = [ReservedPart(node.name, WHOLE, 0, ()) for node in chosen]
    if parts is None or (ask.node_count and len(parts) < ask.node_count):
        _check_size(ask, pool)
        raise Refused(Code.NODES_BUSY)
    return tuple(parts)


def _check_size(ask: ReservationDemand, pool: list[Node]) -> None:
    """Raises Refused when the nodes would not suffice even if none were reserved or in use."""
    if ask.cpus > sum(node.cpus for node in pool):
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{ask.cpus} CPUs are asked for")
    for name, type_, count in ask.gres:
        if count > sum(_devices_of(node).get((name, type_), 0) for node in pool):
            raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, f"{count} {name} are asked for")


def _cores(ask: ReservationDemand, candidates: list[Rest]) -> list[ReservedPart] | None:
    """Chooses CPUs over `node_count` nodes evenly, else on the fewest nodes in their order."""
    parts: list[ReservedPart] = []
    left = ask.cpus
    for rest in candidates:
        nodes_left = ask.node_count - len(parts)
        cpus = -(-left // nodes_left) if ask.node_count and nodes_left else min(left, rest.cpus)
        mem_mb = rest.node.real_memory_mb * cpus // max(1, rest.node.cpus)
        if left <= 0 or (ask.node_count and not nodes_left):
            break
        if 0 < cpus <= rest.cpus and mem_mb <= rest.mem_mb:
            parts.append(ReservedPart(rest.node.name, cpus, mem_mb, ()))
            left -= cpus
    return parts if left <= 0 else None


def _devices(ask: ReservationDemand, candidates: list[Rest]) -> list[ReservedPart] | None:
    """Chooses devices with their share of CPUs and memory, so many on each node or so many in all."""
    wanted = {(name, type_): count for name, type_, count in ask.gres}
    each = {(name, type_): count for name, type_, count in ask.gres_per_node}
    parts: list[ReservedPart] = []
    for rest in candidates:
        if (ask.node_count and len(parts) == ask.node_count) or not (each or any(wanted.values())):
            break
        if each:
            take = each if all(rest.gres.get(kind, 0) >= count for kind, count in each.items()) else {}
        else:
            take = {kind: min(count, rest.gres.get(kind, 0)) for kind, count in wanted.items()}
        part = _share(rest, {kind: count for kind, count in take.items() if count}, ask)
        if part is not None:
            parts.append(part)
            wanted = {kind: count - take.get(kind, 0) for kind, count in wanted.items()}
    return None if any(wanted.values()) or not parts else parts


def _share(rest: Rest, take: dict[tuple[str, str], int], ask: ReservationDemand) -> ReservedPart | None:
    """Returns the node's part with those devices, or None when they or their share of the node are not available."""
    if not take:
        return None
    total = _devices_of(rest.node)
    shares = [(count, max(1, total.get(kind, 0))) for kind, count in take.items()]
    cpus = max(rest.node.cpus * count // of for count, of in shares)
    if ask.cpus and ask.node_count:
        cpus = ask.cpus // ask.node_count
    mem_mb = max(rest.node.real_memory_mb * count // of for count, of in shares)
    if cpus > rest.cpus or mem_mb > rest.mem_mb:
        return None
    return ReservedPart(rest.node.name, cpus, mem_mb, tuple((*kind, count) for kind, count in take.items()))


def _devices_of(node: Node) -> dict[tuple[str, str], int]:
    """Returns devices by (name, type), and by (name, "") for any type of it."""
    found: dict[tuple[str, str], int] = {}
    for gres in node.config.gres:
        for kind in dict.fromkeys(((gres.name, ""), (gres.name, gres.type))):
            found[kind] = found.get(kind, 0) + gres.count
    return found


class _Resources:
    """The available part of each node over the time of the reservation, computed on demand."""

    def __init__(self, state: ClusterState, now_us: int, flags: ResvFlag, spans: Spans, own: str) -> None:
        self._state = state
        self._flags = flags
        self._spans = spans
        self._own = own
        self._kept: dict[str, list[ReservedPart]] = {}
        if not flags & (ResvFlag.OVERLAP | ResvFlag.MAINT):
            for other in state.reservations.values():
                shared = other.flags & (ResvFlag.OVERLAP | ResvFlag.MAINT) or other.name == own
                if not shared and recurrence.overlap(spans, spans_of(state, other, now_us)):
                    for part in other.parts:
                        self._kept.setdefault(part.node, []).append(part)

    def of(self, node: Node) -> Rest:
        """Returns the available part of one node."""
        kept, jobs = self._kept.get(node.name, []), self._jobs(node)
        if any(part.cpus == WHOLE for part in kept) or any(job.request.is_alone() for job in jobs):
            return Rest(node, 0, 0, {}, False)
        cpus = node.cpus
        mem_mb = node.real_memory_mb
        gres = _devices_of(node)
        for part in kept:
            cpus -= part.cpus
            mem_mb -= part.mem_mb
            for name, type_, count in part.gres:
                _less(gres, name, type_, count)
        for job in jobs:
            held = next(p for p in job.alloc if p.node == node.name)
            cpus -= held.cpus
            mem_mb -= held.mem_mb
            for name, type_, mask in held.gres:
                _less(gres, name, type_, mask.bit_count())
        return Rest(node, cpus, mem_mb, gres, not kept and not jobs)

    def refusal(self, node: Node) -> Refused:
        """Returns why a named node cannot be reserved whole."""
        if node.name in self._kept:
            return Refused(Code.RESERVATION_OVERLAP, node.name)
        jobs = ", ".join(str(job.job_id) for job in self._jobs(node)[:5])
        return Refused(Code.NODES_BUSY, f"{node.name} has jobs until after its start: {jobs}")

    def _jobs(self, node: Node) -> list[Job]:
        """Returns the jobs outside of the reservation that hold some of the node when it begins."""
        if self._flags & ResvFlag.IGNORE_JOBS:
            return []
        owners = self._state.leaf_owners.of_node.get(node.index, {})
        jobs = (self._state.jobs[job_id] for job_id in dict.fromkeys((*node.jobs, *owners)))
        return [job for job in jobs if job_end_us(job) > self._spans[0][0] and running_in(job) != self._own]


def _less(gres: dict[tuple[str, str], int], name: str, type_: str, count: int) -> None:
    for kind in dict.fromkeys(((name, ""), (name, type_))):
        gres[kind] = gres.get(kind, 0) - count


def job_end_us(job: Job) -> int:
    """Returns the latest end of a running job."""
    return job.start_at_us + job.time_limit_s * 1_000_000 if job.time_limit_s >= 0 else NEVER_US
