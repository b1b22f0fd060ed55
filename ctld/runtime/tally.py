"""Counts of jobs by everything that metrics group them by, kept with each change of a committed row.

A cell counts the jobs that agree in all of it: state, partitions, account, user, reason, hold, and the number of nodes
that pending ones request. There are at most as many cells as jobs, and in practice some thousand: so a scrape adds up
cells, not jobs, and a change costs two look-ups. Only a controller with MetricsType has a tally.

Waits are counted when a job starts: the time from when it could have started (its begin time, its dependencies) to its
start.
"""

from functools import partial
from typing import Final, NamedTuple

from ctld.core.records.job import JobRow
from ctld.core.state.shares import GPU
from ctld.metrics import Histogram
from penstock.values.states import ALLOCATED_STATES, Hold, JobState, Reason

_US: Final = 1_000_000
#: Upper bounds of a histogram of waits.
WAIT_BOUNDS_S: Final = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 259_200, 604_800)


class JobCellKey(NamedTuple):
    """What the jobs of a cell have in common."""

    state: JobState
    end_state: JobState | None  # of jobs that are COMPLETING
    partitions: tuple[str, ...]  # of a pending job: all that it may run in
    account: str  # "" = the cluster's default
    user: str
    reason: Reason  # of pending jobs; else NONE
    is_held: bool
    nodes_min: int  # that a pending job requests; else 0
    nodes_max: int


class JobCell:
    """The jobs of one key, and what they hold."""

    __slots__ = ("cpus", "gpus", "jobs", "mem_mb", "nodes")

    def __init__(self) -> None:
        self.jobs = 0  # tasks of an array count one by one
        self.cpus = 0
        self.mem_mb = 0
        self.gpus = 0  # whole ones
        self.nodes = 0


class JobTally:
    """The cells of all committed jobs, and the waits of those that have started."""

    def __init__(self) -> None:
        self.cells: dict[JobCellKey, JobCell] = {}
        self.waits: dict[tuple[str, str], Histogram] = {}  # by partition and class of jobs, microseconds
        self.gpus_allocated = 0

    def move(self, old: JobRow | None, new: JobRow | None) -> None:
        """Replaces `old` by `new`; None = nothing. A job that starts has its wait counted."""
        if old is not None and new is not None and _are_alike(old, new):
            if old.array_tasks is new.array_tasks:
                return
            if new.state is JobState.PENDING:  # a task of the array starts: it has a row of its own
                self.cells[_key(new)].jobs += weight(new) - weight(old)
                return
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)
            if new.state in ALLOCATED_STATES and (old is None or old.state is JobState.PENDING):
                self._count_wait(new)

    def add(self, row: JobRow) -> None:
        """Adds a row that was there when the controller started."""
        self._add(row, 1)

    def _add(self, row: JobRow, sign: int) -> None:
        key = _key(row)
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = JobCell()
        cell.jobs += sign * weight(row)
        if row.state in ALLOCATED_STATES:
            self._add_allocation(cell, row, sign)
        if not cell.jobs:
            del self.cells[key]

    def _add_allocation(self, cell: JobCell, row: JobRow, sign: int) -> None:
        for part in row.alloc:
            cell.cpus += sign * part.cpus
            cell.mem_mb += sign * part.mem_mb
            for name, _, mask in part.gres:
                if name == GPU:
                    cell.gpus += sign * mask.bit_count()
                    self.gpus_allocated += sign * mask.bit_count()
        cell.nodes += sign * len(row.alloc)

    def _count_wait(self, row: JobRow) -> None:
        key = row.partition, class_of(row)
        waits = self.waits.get(key)
        if waits is None:
            waits = self.waits[key] = Histogram(tuple(bound * _US for bound in WAIT_BOUNDS_S))
        waits.count(max(0, row.start_at_us - max(row.eligible_at_us, row.submit_at_us)))


def class_of(row: JobRow) -> str:
    """Returns the class of a job that has started: with GPUs or without, on one node or several."""
    has_gpus = any(name == GPU for part in row.alloc for name, _, _ in part.gres)
    return ("gpu" if has_gpus else "cpu") + ("_multinode" if len(row.alloc) > 1 else "")


def _are_alike(old: JobRow, new: JobRow) -> bool:
    """Whether a change, as of a priority, is none of what is counted, but for the number of tasks. Most are: this saves
    look-ups."""
    return (
        old.state is new.state
        and old.request is new.request
        and old.reason is new.reason
        and old.hold is new.hold
        and old.alloc is new.alloc
        and old.end_state is new.end_state
        and old.partition == new.partition
    )


def weight(row: JobRow) -> int:
    """Returns the number of jobs that a row stands for."""
    return len(row.array_tasks) if row.array_tasks is not None else 1


_new_key: Final = partial(tuple.__new__, JobCellKey)  # in half of the time of its constructor


def _key(row: JobRow) -> JobCellKey:
    request = row.request
    if row.state is JobState.PENDING:
        return _new_key((
            row.state, None, request.partitions, request.account, row.user_name, row.reason, row.hold is not Hold.NO,
            request.nodes_min, request.nodes_max,
        ))  # fmt: skip
    return _new_key(
        (row.state, row.end_state, (row.partition,), request.account, row.user_name, Reason.NONE, False, 0, 0)
    )
