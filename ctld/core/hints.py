"""Requests that are a little less than a job's own: what its owner might ask for instead.

Only a list of possibilities, each with the options that a user would write. Which of them would start sooner, the planner
says (why.py). Each kind goes from the mildest change to the hardest. A variant never leaves the limits of a partition,
and names only partitions that the job's owner may use.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ctld.core import priority
from ctld.core.events import Actor
from ctld.core.expect import UNLIMITED_S
from ctld.core.model import Job, JobRequest, Partition, job_from, job_row
from ctld.core.pending import Shape
from ctld.core.ready import partition_reason
from ctld.core.shapes import shapes
from ctld.core.state import ClusterState
from ctld.core.submit import is_open_to
from penstock.values.duration import format_elapsed
from penstock.values.gres import Gres, format_node_gres
from penstock.values.hostlist import compress

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
#: Time limits that people write, longest first.
LIMITS_S = tuple(
    sorted(
        [m * MINUTE_S for m in (1, 5, 10, 15, 20, 30, 45, 90)]
        + [h * HOUR_S for h in (1, 2, 3, 4, 6, 8, 12, 16, 36)]
        + [d * DAY_S for d in (1, 2, 3, 4, 5, 7, 10, 14, 21, 30)],
        reverse=True,
    )
)
#: Variants of one job: what is beyond is not asked.
VARIANTS_MAX = 120
#: Other partitions that are tried.
PARTITIONS_MAX = 16
#: Up to this number every smaller one is tried, above it some shares of it.
EVERY_MAX = 8
SHARES = ((7, 8), (3, 4), (1, 2), (1, 4), (1, 8))


class Variant(NamedTuple):
    """A change. `ways`: (rank, partition index, shape) for each way in which the changed job could run."""

    kind: str
    options: tuple[str, ...]
    limit_s: int
    ways: tuple[tuple[int, int, Shape], ...]


def variants(state: ClusterState, job: Job, actor: Actor) -> list[Variant]:
    """The changes worth asking about."""
    found: list[Variant] = []
    twin = job_from(job_row(job))
    for kind, options, request, limit_s in _changes(state, job, actor):
        if len(found) >= VARIANTS_MAX:
            break
        twin.request, twin.time_limit_s = request, limit_s
        asked_s = UNLIMITED_S if limit_s < 0 else limit_s
        places = ways(state, twin)
        if places:
            found.append(Variant(kind, options, asked_s, places))
    return found


def ways(state: ClusterState, job: Job) -> tuple[tuple[int, int, Shape], ...]:
    """(rank, partition index, shape) of a job in each partition that takes it now."""
    return tuple(
        (priority.rank(state, job, partition), index, shape)
        for index, shape in shapes(state, job.request)
        if partition_reason(partition := state.partition_list[index], job) is None
    )


Change = tuple[str, tuple[str, ...], JobRequest, int]


def _changes(state: ClusterState, job: Job, actor: Actor) -> Iterator[Change]:
    request, limit_s = job.request, job.time_limit_s
    for shorter_s in LIMITS_S:
        if limit_s < 0 or shorter_s < limit_s:
            yield "time", (f"--time={format_elapsed(shorter_s)}",), request, shorter_s
    for kind, options, changed in (
        *_gres(request), *_nodes(request), *_cpus(request), *_memory(request), *_without(request),
    ):  # fmt: skip
        yield kind, options, changed, limit_s
    for partition in _partitions(state, job, actor)[:PARTITIONS_MAX]:
        changed = msgspec.structs.replace(request, partitions=(partition.name,))
        yield "partition", (f"--partition={partition.name}",), changed, limit_s


def _less(count: int) -> list[int]:
    """Smaller numbers, the largest first."""
    if count <= EVERY_MAX:
        return list(range(count - 1, 0, -1))
    return list(dict.fromkeys((count - 1, *(count * a // b for a, b in SHARES), 1)))


Changed = tuple[str, tuple[str, ...], JobRequest]


def _gres(request: JobRequest) -> Iterator[Changed]:
    for place, (name, type_, count) in enumerate(request.gres_per_node):
        for less in _less(count):
            entries = list(request.gres_per_node)
            entries[place] = (name, type_, less)
            text = format_node_gres(tuple(Gres(*entry) for entry in entries))
            yield f"gres {name}", (f"--gres={text}",), msgspec.structs.replace(request, gres_per_node=tuple(entries))


def _nodes(request: JobRequest) -> Iterator[Changed]:
    """Fewer nodes; without -n there is a task a node, so there are fewer tasks too."""
    if request.segment or request.nodes_required:
        return
    for less in _less(request.nodes_min):
        ntasks = request.ntasks
        if not request.ntasks_asked:
            ntasks = less
        elif request.ntasks_per_node and less * request.ntasks_per_node < ntasks:
            continue
        changed = msgspec.structs.replace(request, nodes_min=less, nodes_max=less, ntasks=ntasks)
        yield "nodes", (f"--nodes={less}",), changed


def _cpus(request: JobRequest) -> Iterator[Changed]:
    for less in _less(request.cpus_per_task):
        changed = msgspec.structs.replace(request, cpus_per_task=less)
        yield "cpus", (f"--cpus-per-task={less}",), changed


def _memory(request: JobRequest) -> Iterator[Changed]:
    for option, field in (("--mem", "mem_per_node_mb"), ("--mem-per-cpu", "mem_per_cpu_mb")):
        asked_mb = getattr(request, field) or 0
        for numerator, denominator in SHARES:
            less_mb = asked_mb * numerator // denominator
            if less_mb:
                changed = msgspec.structs.replace(request, **{field: less_mb})
                yield "memory", (f"{option}={less_mb}M",), changed


def _without(request: JobRequest) -> Iterator[Changed]:
    """What narrows the choice of nodes, left out."""
    for option, changes in (
        (f"--constraint={request.features}", {"features": ""} if request.features else None),
        (f"--nodelist={compress(request.nodes_required)}", {"nodes_required": ()} if request.nodes_required else None),
        (f"--exclude={compress(request.nodes_excluded)}", {"nodes_excluded": ()} if request.nodes_excluded else None),
        ("--exclusive", {"exclusive": False} if request.exclusive else None),
        ("--exclusive=user", {"exclusive_user": False} if request.exclusive_user else None),
        (f"--switches={request.switches_max}", {"switches_max": 0} if request.switches_max else None),
        (f"--licenses={request.licenses}", {"licenses": ""} if request.licenses else None),
    ):
        if changes is not None:
            yield f"without {option}", (f"without {option}",), msgspec.structs.replace(request, **changes)


def _partitions(state: ClusterState, job: Job, actor: Actor) -> list[Partition]:
    groups = actor.groups if actor.uid == job.user_id else ()
    owner = Actor(job.user_id, job.group_id, job.user_name, job.group_name, groups)
    return [
        partition
        for partition in state.partition_list
        if partition.name not in job.request.partitions and partition.state == "UP" and is_open_to(partition, owner)
    ]
