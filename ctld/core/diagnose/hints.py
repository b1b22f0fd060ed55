"""Generates requests slightly smaller than a job's own, which its user might submit instead.

This is only a list of candidates, each with the options that a user would write. The planner decides which of them
would start sooner (why.py). Each kind is ordered from the mildest change to the hardest. A variant never exceeds the
limits of a partition, and names only partitions that the job's owner may use.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.limits import budgets
from ctld.core.limits import checks as limits
from ctld.core.queue import admit, priority
from ctld.core.queue.shapes import fresh_shapes
from ctld.core.records.compact_request import with_changes
from ctld.core.records.events import Actor
from ctld.core.records.job import Job, job_from, job_row
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.requests.submit import is_open_to
from ctld.core.reservations.view import choices
from ctld.core.state.pending import Shape
from ctld.core.state.state import ClusterState
from penstock.values.duration import format_elapsed
from penstock.values.gres import Gres, format_node_gres
from penstock.values.hostlist import compress

MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86_400
#: Time limits that users commonly write, longest first.
LIMITS_S = tuple(
    sorted(
        [m * MINUTE_S for m in (1, 5, 10, 15, 20, 30, 45, 90)]
        + [h * HOUR_S for h in (1, 2, 3, 4, 6, 8, 12, 16, 36)]
        + [d * DAY_S for d in (1, 2, 3, 4, 5, 7, 10, 14, 21, 30)],
        reverse=True,
    )
)
#: Maximum number of variants of one job.
VARIANTS_MAX = 250
#: Maximum number of limits that are combined with another change, and the smallest part of the job's own limit among
#: them.
PAIR_LIMITS, PAIR_LEAST = 4, 16
#: Maximum number of other partitions that are tried.
PARTITIONS_MAX = 16
#: Up to this number every smaller one is tried, above it some fractions of it.
EVERY_MAX = 8
SHARES = ((7, 8), (3, 4), (1, 2), (1, 4), (1, 8))


_Way = tuple[int, int, Shape]  # (rank, partition index, shape)


class Variant(NamedTuple):
    """A changed request. `ways`: each way in which the changed job could run."""

    kind: str
    options: tuple[str, ...]
    limit_s: int
    ways: tuple[_Way, ...]


def variants(state: ClusterState, job: Job, actor: Actor) -> list[Variant]:
    """Generates the changes to try: shorter limits, one change of the request, and both together."""
    found: list[tuple[int, Variant]] = []
    twin = job_from(job_row(job))
    own_s = job.time_limit_s
    shorter = [s for s in LIMITS_S if own_s < 0 or s < own_s]
    some = [s for s in shorter if own_s < 0 or s * PAIR_LEAST >= own_s][:: max(1, len(shorter) // PAIR_LIMITS)]
    for kind, options, request in (("time", (), job.request), *_changes(state, job, actor)):
        twin.request = request
        rows: tuple[int, ...] = ()  # of reservations, which may be too short for one limit and not for another
        shapes: list[tuple[int, Shape]] = []
        limits = shorter if not options else [own_s, *some[:PAIR_LIMITS]]
        for limit_s in limits:
            twin.time_limit_s = limit_s
            if rows != (open_rows := choices(state, twin)):
                rows, shapes = open_rows, fresh_shapes(state, request, open_rows) if open_rows else []
            possible = _allowed(state, twin, _open_ways(state, twin, shapes))
            if possible:
                both = bool(options) and limit_s != own_s
                text = options if limit_s == own_s else (*options, f"--time={format_elapsed(limit_s)}")
                name = f"{kind} time" if both else kind
                asked_s = UNLIMITED_S if limit_s < 0 else limit_s
                found.append((int(both), Variant(name, text, asked_s, possible)))
    found.sort(key=lambda entry: entry[0])  # single changes before combined ones
    return [variant for _, variant in found[:VARIANTS_MAX]]


def ways(state: ClusterState, job: Job) -> tuple[_Way, ...]:
    """Returns each way in which a job may run, in each partition that admits it now."""
    rows = choices(state, job)
    return _open_ways(state, job, fresh_shapes(state, job.request, rows) if rows else [])


def _open_ways(state: ClusterState, job: Job, shapes: list[tuple[int, Shape]]) -> tuple[_Way, ...]:
    return tuple(
        (priority.rank(state, job, partition), index, shape)
        for index, shape in shapes
        if admit.wait_reason(state, partition := state.partition_list[index], job) is None
    )


def _allowed(state: ClusterState, twin: Job, open_ways: tuple[_Way, ...]) -> tuple[_Way, ...]:
    """Returns the variants that limits and budgets allow to start now."""
    if state.limits.budgets.books and budgets.shortage(state, twin, state.now_us, remembered=False) is not None:
        return ()
    left_out = limits.blocking_limits(state, twin) if state.limits.ledger is not None else {}
    return tuple(way for way in open_ways if state.partition_list[way[1]].name not in left_out)


_Changed = tuple[str, tuple[str, ...], JobRequest]


def _changes(state: ClusterState, job: Job, actor: Actor) -> Iterator[_Changed]:
    request = job.request
    yield from (*_gres(request), *_nodes(request), *_cpus(request), *_memory(request), *_without(request))
    for partition in _partitions(state, job, actor)[:PARTITIONS_MAX]:
        changed = with_changes(request, partitions=(partition.name,))
        yield "partition", (f"--partition={partition.name}",), changed


def _less(count: int) -> list[int]:
    """Returns smaller numbers, the largest first."""
    if count <= EVERY_MAX:
        return list(range(count - 1, 0, -1))
    return list(dict.fromkeys((count - 1, *(count * a // b for a, b in SHARES), 1)))


def _gres(request: JobRequest) -> Iterator[_Changed]:
    for position, (name, type_, count) in enumerate(request.gres_per_node):
        for less in _less(count):
            entries = list(request.gres_per_node)
            entries[position] = (name, type_, less)
            text = format_node_gres(tuple(Gres(*entry) for entry in entries))
            yield f"gres {name}", (f"--gres={text}",), with_changes(request, gres_per_node=tuple(entries))


def _nodes(request: JobRequest) -> Iterator[_Changed]:
    """Yields variants with fewer nodes; without -n there is one task a node, so there are fewer tasks too."""
    if request.segment or request.nodes_required:
        return
    for less in _less(request.nodes_min):
        ntasks = request.ntasks
        if not request.ntasks_asked:
            ntasks = less * (request.ntasks_per_node or 1)
        elif request.ntasks_per_node and less * request.ntasks_per_node < ntasks:
            continue
        changed = with_changes(request, nodes_min=less, nodes_max=less, ntasks=ntasks)
        yield "nodes", (f"--nodes={less}",), changed


def _cpus(request: JobRequest) -> Iterator[_Changed]:
    for less in _less(request.cpus_per_task):
        changed = with_changes(request, cpus_per_task=less)
        yield "cpus", (f"--cpus-per-task={less}",), changed


def _memory(request: JobRequest) -> Iterator[_Changed]:
    for option, field in (("--mem", "mem_per_node_mb"), ("--mem-per-cpu", "mem_per_cpu_mb")):
        asked_mb = getattr(request, field) or 0
        for numerator, denominator in SHARES:
            less_mb = asked_mb * numerator // denominator
            if less_mb:
                changed = with_changes(request, **{field: less_mb})
                yield "memory", (f"{option}={less_mb}M",), changed


def _without(request: JobRequest) -> Iterator[_Changed]:
    """Yields the request without each one of its node constraints."""
    for option, changes in (
        (f"--constraint={request.features}", {"features": ""} if request.features else None),
        (f"--nodelist={compress(request.nodes_required)}", {"nodes_required": ()} if request.nodes_required else None),
        (f"--exclude={compress(request.nodes_excluded)}", {"nodes_excluded": ()} if request.nodes_excluded else None),
        ("--exclusive", {"exclusive": False} if request.exclusive else None),
        (f"the MCS label {request.apart_label}", {"apart_label": ""} if request.apart_label else None),
        ("--exclusive=topo", {"exclusive_topo": False} if request.exclusive_topo else None),
        ("--exclusive=user", {"exclusive_user": False} if request.exclusive_user else None),
        (f"--switches={request.switches_max}", {"switches_max": 0} if request.switches_max else None),
        (f"--reservation={request.reservation}", {"reservation": ""} if request.reservation else None),
        (f"--licenses={request.licenses}", {"licenses": ""} if request.licenses else None),
    ):
        if changes is not None:
            yield f"without {option}", (f"without {option}",), with_changes(request, **changes)


def _partitions(state: ClusterState, job: Job, actor: Actor) -> list[Partition]:
    groups = actor.groups if actor.uid == job.user_id else ()
    owner = Actor(job.user_id, job.group_id, job.user_name, job.group_name, groups)
    return [
        partition
        for partition in state.partition_list
        if partition.name not in job.request.partitions and partition.state == "UP" and is_open_to(partition, owner)
    ]
