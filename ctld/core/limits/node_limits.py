"""Limits on nodes: a group of jobs may use a number of different nodes, and its jobs are placed together on them.

GrpTRES=node of an association or QOS, and MaxTRESPerUser=node and MaxTRESPerAccount=node of a QOS, count a node once
however many jobs of the group run there (as Slurm does since 20.11); `Book.nodes` is the set. So whether a job exceeds
such a limit depends on where it runs. While its group may have further nodes, the planner chooses freely. When the
group has as many as it may, the job is fenced: it is restricted to the nodes of the group, and starts there as soon as
there is room; they are not reserved for it. Its reason is then the limit's.

A fenced set is a row of the planner's masks that is changed in place when the group gets or leaves a node, so that the
cost does not depend on the number of waiting jobs. A job of several nodes may use some new ones: `elsewhere` searches a
placement with no more new ones than allowed. If there is none, the job waits in the limit's queue.

Deliberately absent: GrpTRESMins=node and GrpTRESRunMins=node, which count node minutes of each job.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ctld.core.limits.ledger import settle
from ctld.core.limits.rules import Check, Measure, rules_of
from ctld.core.queue.planning import PlannedStart, ask, present
from ctld.core.records.compact_request import with_changes
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.state.books import BookKey, LimitBook
from ctld.core.state.columns import Fence
from ctld.core.state.pending import Shape
from ctld.core.state.state import ClusterState
from penstock.values.states import Reason

if TYPE_CHECKING:
    from ctld.core.queue.gpu_sharing import ExpectedUse

US = 1_000_000
#: Name of the one node set in the planner's query of `elsewhere`.
_SCRATCH = "limit_nodes"
#: A set of nodes, and the limits that fence it: (key of the book, nodes that it may have).


def checks_of(state: ClusterState, job: Job, partition: str) -> tuple[Check, ...]:
    """Returns the node limits of a job in one of its partitions."""
    return rules_of(state, job, partition).nodes


def within(state: ClusterState, job: Job) -> JobRequest:
    """Returns the job's request with a range of nodes such as `-N 1-8` reduced to the number that its limits allow."""
    request = job.request
    if request.nodes_max <= request.nodes_min:
        return request
    bounds = [
        check.bound
        for name in request.partitions
        for check in rules_of(state, job, name).start
        if check.tres == "node" and check.measure in (Measure.TRES, Measure.PER_JOB)
    ]
    most = max(request.nodes_min, min(bounds, default=request.nodes_max))
    return with_changes(request, nodes_max=most) if most < request.nodes_max else request


def fenced(state: ClusterState, job: Job, found: list[tuple[int, Shape]]) -> list[tuple[int, Shape]]:
    """Restricts the ways of a job to run: their node sets become its group's when that has as many as it may."""
    shapes = []
    for index, shape in found:
        checks = checks_of(state, job, state.partition_list[index].name)
        if checks:
            most = max(shape.nodes_min, min(shape.nodes_max, *(check.bound for check in checks)))
            shape = shape._replace(mask=_row(state, shape.mask, checks), nodes_max=most)
        shapes.append((index, shape))
    return shapes


def _row(state: ClusterState, mask: int, checks: tuple[Check, ...]) -> int:
    settle(state)
    limits = tuple((check.book.key, check.bound) for check in checks if check.book is not None)
    fence: Fence = ("fence", mask, limits)
    row = state.layout.masks.row(fence)
    if row is None:
        row = state.layout.masks.add(fence, _bits(state, fence))
        for key, _ in limits:
            state.layout.masks.fences.setdefault(key, {})[fence] = row
    return row


def _bits(state: ClusterState, fence: Fence) -> int:
    _, mask, limits = fence
    bits = state.layout.masks.bits[mask]
    for key, bound in limits:
        book = _book(state, key)
        if len(book.nodes) >= bound:
            bits &= _nodes(state, book)
    return bits


def _book(state: ClusterState, key: BookKey) -> LimitBook:
    assert state.limits.ledger is not None
    return state.limits.ledger.book(key)


def _nodes(state: ClusterState, book: LimitBook) -> int:
    """Returns the nodes of a group as a bit map."""
    bits = 0
    for name in book.nodes:
        if name in state.nodes:
            bits |= 1 << state.nodes[name].index
    return bits


def before_pass(state: ClusterState) -> None:
    """Updates the node sets of groups that got or left nodes, for their waiting jobs."""
    ledger = state.limits.ledger
    if ledger is None or not (state.layout.masks.fences or ledger.moved):
        return
    settle(state)
    moved = ledger.moved
    ledger.moved = {}
    for key in moved:
        for fence, row in state.layout.masks.fences.get(key, {}).items():
            state.layout.masks.change(row, _bits(state, fence))


def is_fenced(state: ClusterState, job: Job) -> Check | None:
    """Returns the limit that restricts a job to nodes of its group; None if one of its partitions has no such limit."""
    found = None
    for name in job.request.partitions:
        checks = checks_of(state, job, name)
        full = next((c for c in checks if c.book is not None and len(c.book.nodes) >= c.bound), None)
        if full is None:
            return None
        found = found or full
    return found


def reason_of(state: ClusterState, job: Job) -> Reason | None:
    """Returns the reason of a restricted job that finds no room."""
    check = is_fenced(state, job) if state.limits.ledger is not None and state.layout.masks.fences else None
    return check.reason if check is not None else None


def _may(state: ClusterState, job: Job, start: PlannedStart) -> Iterator[int]:
    """Returns for each limit the nodes that it allows for this start: the group's, and as many new ones as allowed,
    preferring those that were to give the most CPUs."""
    for check in checks_of(state, job, state.partition_list[start.partition].name):
        if check.book is not None:
            bits = _nodes(state, check.book)
            largest = sorted(start.placement, key=lambda part: (-part[1], part[0]))
            new = [index for index, _, _, _ in largest if not bits >> index & 1]
            for index in new[: max(0, check.bound - len(check.book.nodes))]:
                bits |= 1 << index
            yield bits


def elsewhere(
    state: ClusterState, now_us: int, job: Job, start: PlannedStart, holds: "ExpectedUse"
) -> PlannedStart | None:
    """Searches another placement, with no more new nodes than the limits allow, and without nodes on which jobs of a
    higher rank are expected."""
    rows = [row for row in state.pending.rows_of(job.job_id) if _is_of(state, row, start)]
    if not rows or start.reservation:
        return None
    bits = state.layout.masks.bits[start.mask]
    for allowed in _may(state, job, start):
        bits &= allowed
    free = holds.unclaimed(start.position, now_us // US + start.limit_s)
    planned = {index: None for index, _, _, _ in start.placement}
    if free is not None:
        for index in (~free).nonzero()[0].tolist():
            if index not in planned:
                bits &= ~(1 << index)
    table = state.pending.table
    scratch = state.layout.masks.row(_SCRATCH)
    scratch = state.layout.masks.add(_SCRATCH, bits) if scratch is None else state.layout.masks.change(scratch, bits)
    table.mask[rows[0]] = scratch
    answer = ask(present(state, now_us, np.array(rows[:1], np.int64), 1))
    table.mask[rows[0]] = start.mask
    return answer.starts[0]._replace(position=start.position, mask=start.mask) if answer.starts else None


def _is_of(state: ClusterState, row: int, start: PlannedStart) -> bool:
    pending = state.pending
    return bool(pending.table.mask[row] == start.mask and pending.partition[row] == start.partition)
