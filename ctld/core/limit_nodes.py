"""Limits of nodes: a group of jobs may use so many different nodes, and its jobs go together on them.

GrpTRES=node of an association or QOS, and MaxTRESPerUser=node and MaxTRESPerAccount=node of a QOS, count a node once however
many jobs of the group are there (as Slurm does since 20.11); `Book.nodes` says which they are. So whether a job keeps
such a limit depends on where it runs. While its group may have further nodes, the planner chooses freely. When it has
all it may have, the job is fenced: it gets a set of nodes of its own, which are those of the group, and it starts there
as soon as there is room; nobody else is kept from them for its sake. Its reason is then the limit's.

A fenced set is a row of the planner's masks that is changed in place when the group gets or leaves a node, so that this
costs the same however many jobs wait. A job of several nodes may take some new ones: `elsewhere` looks for a placement
with no more new ones than there may be. If there is none it waits in the limit's queue.

Deliberately absent: GrpTRESMins=node and GrpTRESRunMins=node, which count node minutes of each job.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ctld.core.ledger import Book, Key, settle
from ctld.core.limit_rules import Check, rules_of
from ctld.core.model import Job
from ctld.core.pending import Shape
from ctld.core.planning import Start, ask, present
from ctld.core.state import ClusterState
from penstock.values.states import Reason

if TYPE_CHECKING:
    from ctld.core.fractions import Holds

US = 1_000_000
#: Name of the one set that `elsewhere` asks the planner with.
_SCRATCH = "limit_nodes"
#: A set of nodes, and the limits that fence it: (key of the book, nodes that it may have).
Fence = tuple[str, int, tuple[tuple[Key, int], ...]]


def checks_of(state: ClusterState, job: Job, partition: str) -> tuple[Check, ...]:
    """Such limits of a job in one of its partitions."""
    return rules_of(state, job, partition).nodes


def fenced(state: ClusterState, job: Job, found: list[tuple[int, Shape]]) -> list[tuple[int, Shape]]:
    """The ways of a job to run, with sets of nodes that become its group's when that has all it may have."""
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
    row = state.masks.row(fence)
    if row is None:
        row = state.masks.add(fence, _bits(state, fence))
        for key, _ in limits:
            state.masks.fences.setdefault(key, {})[fence] = row
    return row


def _bits(state: ClusterState, fence: Fence) -> int:
    _, mask, limits = fence
    bits = state.masks.bits[mask]
    for key, bound in limits:
        book = _book(state, key)
        if len(book.nodes) >= bound:
            bits &= _nodes(state, book)
    return bits


def _book(state: ClusterState, key: Key) -> Book:
    assert state.ledger is not None
    return state.ledger.book(key)


def _nodes(state: ClusterState, book: Book) -> int:
    """The nodes of a group as a bit map."""
    bits = 0
    for name in book.nodes:
        if name in state.nodes:
            bits |= 1 << state.nodes[name].index
    return bits


def before_pass(state: ClusterState) -> None:
    """Groups that got or left nodes: what their waiting jobs may have now."""
    ledger = state.ledger
    if ledger is None or not (state.masks.fences or ledger.moved):
        return
    settle(state)
    moved, ledger.moved = ledger.moved, {}
    for key in moved:
        for fence, row in state.masks.fences.get(key, {}).items():
            state.masks.change(row, _bits(state, fence))


def is_fenced(state: ClusterState, job: Job) -> Check | None:
    """The limit because of which a job gets nodes of its group only; None if one of its partitions has no such limit."""
    found = None
    for name in job.request.partitions:
        checks = checks_of(state, job, name)
        full = next((c for c in checks if c.book is not None and len(c.book.nodes) >= c.bound), None)
        if full is None:
            return None
        found = found or full
    return found


def reason_of(state: ClusterState, job: Job) -> Reason | None:
    """What a job that finds no place says if it is fenced."""
    check = is_fenced(state, job) if state.ledger is not None and state.masks.fences else None
    return check.reason if check is not None else None


def enter_again(state: ClusterState, job: Job) -> None:
    """Limits have changed: the job gets its rows anew where fences may be others now. A refresh follows."""
    if state.masks.fences or any(checks_of(state, job, name) for name in job.request.partitions):
        state.pending.remove(job.job_id)


def _may(state: ClusterState, job: Job, start: Start) -> Iterator[int]:
    """For each limit the nodes that it leaves for this start: the group's, and of the new ones as many as may be, those
    first that were to give the most CPUs."""
    for check in checks_of(state, job, state.partition_list[start.partition].name):
        if check.book is not None:
            bits = _nodes(state, check.book)
            largest = sorted(start.placement, key=lambda part: (-part[1], part[0]))
            new = [index for index, _, _, _ in largest if not bits >> index & 1]
            for index in new[: max(0, check.bound - len(check.book.nodes))]:
                bits |= 1 << index
            yield bits


def elsewhere(state: ClusterState, now_us: int, job: Job, start: Start, holds: "Holds") -> Start | None:
    """Another placement, with no more new nodes than the limits allow, and without nodes on which jobs of a higher rank
    are expected."""
    rows = [row for row in state.pending.rows_of(job.job_id) if _is_of(state, row, start)]
    if not rows or start.reservation:
        return None
    bits = state.masks.bits[start.mask]
    for allowed in _may(state, job, start):
        bits &= allowed
    free = holds.untaken(start.position, now_us // US + start.limit_s)
    planned = {index: None for index, _, _, _ in start.placement}
    if free is not None:
        for index in (~free).nonzero()[0].tolist():
            if index not in planned:
                bits &= ~(1 << index)
    table = state.pending.table
    scratch = state.masks.row(_SCRATCH)
    scratch = state.masks.add(_SCRATCH, bits) if scratch is None else state.masks.change(scratch, bits)
    table.mask[rows[0]] = scratch
    answer = ask(present(state, now_us, np.array(rows[:1], np.int64), 1))
    table.mask[rows[0]] = start.mask
    return answer.starts[0]._replace(position=start.position, mask=start.mask) if answer.starts else None


def _is_of(state: ClusterState, row: int, start: Start) -> bool:
    pending: Any = state.pending
    return bool(pending.table.mask[row] == start.mask and pending.partition[row] == start.partition)
