"""The pending jobs as columns: a row for each way in which a job may run (its partitions, its alternatives).

`ready` holds the rows that may start now, in order of rank, then of job id, so that a pass takes the first n without
sorting. Rows of jobs that are held, wait for a dependency, a begin time or their array's limit keep their shape but are
not in `ready`. Numbers by row are in arrays: as Python's integers, those of 100,000 jobs took 7 MB more.

A `Shape` is shared by many jobs; `Terms` are a job's own.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from _fastsched import IdTable, contract

ROW_BITS = 24  # 16 M pending rows: more than MaxJobCount allows
#: Ranks are 48 bits: partition tier above priority, both 16 + 32 bits as in Slurm.
RANK_MAX = (1 << 48) - 1
#: Of a row that is not in `ready`.
NOT_READY = -1
ROWS_FIRST = 64
#: Later than any window ends.
NO_DEADLINE = 2 * contract.FOREVER
_ALL_ZERO = (0, 0, 0, 0, 0, 0)
#: Terms that are not in the planner's table, but in columns beside it.
_OWN_COLUMNS = ("assoc", "expected_s")


class Shape(NamedTuple):
    """The requested resources of a row. Names and meaning: contract.Jobs."""

    mask: int
    nodes_min: int
    nodes_max: int
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_node_mb: int
    mem_cpu_mb: int
    gres: tuple[int, ...]
    exclusive: int
    cpu_units: int = 1
    spread: int = 0
    resv: int = -1
    switches_max: int = 0
    segment: int = 0
    order_kind: int = 0
    group: int = -1
    licenses: tuple[int, ...] = ()


class Terms(NamedTuple):
    """The conditions of a row: when and for whom."""

    user: int
    limit_s: int
    limit_min_s: int
    earliest_s: int = 0
    latest_s: int = NO_DEADLINE
    preempts: int = 0
    het: int = 0
    #: not for the planner: the key of the bf_max_job_assoc limit, and the predicted run time (queue/prediction.py)
    assoc: int = 0
    expected_s: int = 0
    reserve: int = 1  # 0 = no start is planned for it (QOS flag NoReserve)


#: One (partition index, shape) for each way in which a request may run.
Ways = list[tuple[int, Shape]]


class KnownShapes:
    """Cache of the shapes of requests (queue/shapes.py): most jobs repeat the request of others, or differ in memory
    alone."""

    def __init__(self) -> None:
        self.kinds: dict[object, tuple[int, Ways]] = {}  # by all inputs but memory: a number, and shapes without memory
        self.sized: dict[tuple[int, int | None, int | None], Ways] = {}  # by that number and memory

    def clear(self) -> None:
        """Empties the cache when the rules have changed, or it is full."""
        self.kinds.clear()
        self.sized.clear()


class Outside:
    """Ids of jobs, taken from the front. An array: a dict of 100,000 takes 5 MB."""

    __slots__ = ("_at", "_ids")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._ids = array("q", ids)
        self._at = 0  # so many have been taken

    def __len__(self) -> int:
        return len(self._ids) - self._at

    def __contains__(self, job_id: int) -> bool:
        """For checks: reads all of them."""
        return job_id in self._ids[self._at :]

    def append(self, ids: Iterable[int]) -> None:
        """Adds ids that are not there yet, at the end."""
        if self:
            ids = dict.fromkeys((*self._ids[self._at :], *ids))
        self._ids = array("q", ids)
        self._at = 0

    def take(self, most: int) -> Sequence[int]:
        """Removes the first ids, `most` of them, and returns them."""
        found = self._ids[self._at : self._at + most]
        self._at += len(found)
        return found


class PendingColumns:
    """Rows of pending jobs. `table.job[row]` is the job id, 0 = free row."""

    def __init__(self, gres_kinds: int, license_kinds: int = 0) -> None:
        self._lengths = {"G": gres_kinds, "L": license_kinds, "J": ROWS_FIRST}
        self._free: list[int] = []
        self._size = 0
        self.ready = array("q")  # rows: 100,000 of them are copied in a tenth of a ms
        self.has_copies = False  # a row has stood for several jobs
        self.outside = Outside()  # pending jobs that may have no rows yet (passes/queue_recovery.py)
        self._ready_below = array("q")  # of each row in `ready`: RANK_MAX - its rank
        self._below = array("q")  # by row: the same, NOT_READY = it is not in `ready`
        self._row_of = IdTable()  # the first row of each job
        self._all_of: dict[int, tuple[int, ...]] = {}  # all rows of jobs with several
        self._written: list[Shape] = []  # by row: the shape in its columns; new columns hold zeros
        zeros = {name: 0 for name in Shape._fields} | {"gres": (0,) * gres_kinds, "licenses": (0,) * license_kinds}
        self._zeros = Shape(**zeros)  # type: ignore[arg-type]
        self._shape_fields = tuple(
            (at, name) for at, name in enumerate(Shape._fields) if not (name == "licenses" and not license_kinds)
        )  # an axis of length 0 cannot be assigned
        self.table: contract.Jobs = contract.empty("jobs", **self._lengths)
        self.partition: npt.NDArray[np.int32] = np.zeros(ROWS_FIRST, np.int32)
        self.assoc: npt.NDArray[np.int32] = np.zeros(ROWS_FIRST, np.int32)
        self.expected_s: npt.NDArray[np.int64] = np.zeros(ROWS_FIRST, np.int64)
        self.eligible_s: npt.NDArray[np.int64] = np.zeros(ROWS_FIRST, np.int64)

    def reserve(self, rows: int) -> None:
        """Makes room for so many rows at once: a start knows how many there will be."""
        if rows > self._lengths["J"]:
            self._grow(rows)

    def _grow(self, rows: int = 0) -> None:
        old = self.table
        self._lengths["J"] = max(rows, self._lengths["J"] + max(ROWS_FIRST, self._lengths["J"] // 4))
        self.table = contract.empty("jobs", **self._lengths)
        for name in contract.Jobs._fields:
            before = getattr(old, name)
            getattr(self.table, name)[: len(before)] = before
        for name in ("partition", "assoc", "expected_s", "eligible_s"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(self._lengths["J"] - len(column), column.dtype)]))

    def add(self, job_id: int, given: Ways, terms: Terms) -> None:
        """Adds the rows of a pending job: one (partition index, shape) each. Not ready until `set_ready`."""
        if len(given) == 1:
            row = self._take_row()
            self._row_of.put(job_id, row)
            self._fill(row, job_id, *given[0], terms)
            return
        # In ascending order, so that of alternatives with the same start the first in the list wins.
        rows = sorted(self._take_row() for _ in given)
        for row, (partition, shape) in zip(rows, given, strict=True):
            self._fill(row, job_id, partition, shape, terms)
        if rows:
            self._row_of.put(job_id, rows[0])
            self._all_of[job_id] = tuple(rows)

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        self._size += 1
        self._below.append(NOT_READY)
        self._written.append(self._zeros)
        if self._size > self._lengths["J"]:
            self._grow()
        return self._size - 1

    def _fill(self, row: int, job_id: int, partition: int, shape: Shape, terms: Terms) -> None:
        t = self.table
        written = self._written[row]
        if shape is not written:  # rows are reused by similar jobs: only differences are written
            for at, name in self._shape_fields:
                if shape[at] != written[at]:
                    getattr(t, name)[row] = shape[at]
            self._written[row] = shape
        t.job[row] = job_id
        t.count[row] = 1
        t.reserve[row] = terms.reserve
        t.limit_s[row] = terms.limit_s
        t.limit_min_s[row] = terms.limit_min_s
        t.latest_s[row] = terms.latest_s
        self.expected_s[row] = terms.expected_s
        rare = terms.user, terms.assoc, partition, terms.earliest_s, terms.preempts, terms.het
        if written is not self._zeros or rare != _ALL_ZERO:
            t.user[row], self.assoc[row], self.partition[row], t.earliest_s[row], t.preempts[row], t.het[row] = rare

    def add_many(self, job_ids: Sequence[int], ways: Sequence[tuple[int, Shape]], terms: Sequence[Terms]) -> list[int]:
        """Adds jobs without rows that may run in one way each, as `add` does one by one. Returns their rows.

        Writes each column once: for one job alone, most of the time is that of twenty assignments to arrays.
        """
        is_new = not self._free
        rows = [self._take_row() for _ in job_ids]
        put = self._row_of.put
        for job_id, row in zip(job_ids, rows, strict=True):
            put(job_id, row)
        t, at = self.table, np.array(rows, np.int64)
        shapes = [shape for _, shape in ways]
        fields = tuple(zip(*shapes, strict=True))
        for field, name in self._shape_fields:
            _put(getattr(t, name), at, fields[field], self._zeros[field] if is_new else None)
        for row, shape in zip(rows, shapes, strict=True):
            self._written[row] = shape
        t.job[at] = job_ids
        t.count[at] = 1
        zero = 0 if is_new else None
        for name, values in zip(Terms._fields, zip(*terms, strict=True), strict=True):
            _put(getattr(self if name in _OWN_COLUMNS else t, name), at, values, zero)
        _put(self.partition, at, [partition for partition, _ in ways], zero)
        return rows

    def has_rows(self, job_id: int) -> bool:
        """Whether the job has rows."""
        return job_id in self._row_of

    def rows_of(self, job_id: int) -> tuple[int, ...]:
        """Returns the job's rows, one for each way in which it may run; empty = it has none."""
        row = self._row_of.get(job_id)
        if row < 0:
            return ()
        return (self._all_of.get(job_id) or (row,)) if self._all_of else (row,)

    def remove(self, job_id: int) -> None:
        """Removes a job that is no longer pending."""
        for row in self.rows_of(job_id):
            self._unready(row)
            self.table.job[row] = 0
            self._free.append(row)
        self._row_of.drop(job_id)
        self._all_of.pop(job_id, None)

    def defer(self, job_ids: Sequence[int]) -> None:
        """Removes the rows of pending jobs that get new ones soon, in this order (`outside`)."""
        self.remove_many(job_ids)
        self.outside.append(job_ids)

    def remove_many(self, job_ids: Sequence[int]) -> None:
        """Removes jobs, as `remove` does one by one; the list of ready rows is read once."""
        gone = [row for row in map(self._row_of.get, job_ids) if row >= 0]
        for job_id in job_ids if self._all_of else ():
            gone += self._all_of.pop(job_id, ())[1:]  # their first row is there
        drop = self._row_of.drop
        for job_id in job_ids:
            drop(job_id)
        if not gone:
            return
        gone.sort(reverse=True)  # the lowest is taken first
        self._free += gone
        self.table.job[gone] = 0
        below = np.frombuffer(self._below, np.int64)
        below[gone] = NOT_READY
        rows = self.first(len(self.ready))
        kept = rows[below[rows] != NOT_READY]
        self.ready = array("q", kept.tobytes())
        self._ready_below = array("q", below[kept].tobytes())

    def set_ready(self, job_id: int, ranks: Iterable[int | None], count: int, eligible_s: int = 0) -> None:
        """Makes a job ready: `count` copies, with one rank for each of its rows (higher first; None = not in that one)."""
        if count > 1:
            self.has_copies = True
        for row, rank in zip(self.rows_of(job_id), ranks, strict=True):
            if rank is None:
                self._unready(row)
                continue
            self.table.count[row] = count
            self.eligible_s[row] = eligible_s
            below = RANK_MAX - rank
            if self._below[row] == below:
                continue
            self._unready(row)
            self._below[row] = below
            at = self._place(below, (job_id << ROW_BITS) | row)
            self.ready.insert(at, row)
            self._ready_below.insert(at, below)

    def set_ready_many(
        self,
        job_ids: Sequence[int],
        rows: Sequence[int],
        ranks: Sequence[int],
        counts: Sequence[int],
        eligible_s: Sequence[int],
    ) -> None:
        """Makes jobs of one row each ready that have not been, as `set_ready` does one by one."""
        at = np.array(rows, np.int64)
        self.has_copies = self.has_copies or max(counts) > 1
        self.table.count[at] = counts
        self.eligible_s[at] = eligible_s
        below = RANK_MAX - np.array(ranks, np.int64)
        np.frombuffer(self._below, np.int64)[at] = below
        low = (np.array(job_ids, np.int64) << ROW_BITS) | at
        best = min(zip(below.tolist(), low.tolist(), strict=True))
        first = self._place(*best)
        self._order(first, np.concatenate((np.array(self.ready[first:], np.int64), at)))

    def _order(self, first: int, rows: npt.NDArray[np.int64]) -> None:
        """Replaces what is in `ready` from position `first` on by these rows, in their order."""
        below, low = np.frombuffer(self._below, np.int64)[rows], self._low(rows)
        order = np.argsort(below, kind="stable")  # which merges two sorted parts
        steps, ties = np.diff(below[order]), np.diff(low[order])
        if (ties[steps == 0] < 0).any():
            order = np.lexsort((low, below))
        self.ready[first:] = array("q", rows[order].tobytes())
        self._ready_below[first:] = array("q", below[order].tobytes())

    def _low(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the order of rows of one rank: job ids, above the rows."""
        return (self.table.job[rows].astype(np.int64) << ROW_BITS) | rows

    def _place(self, below: int, low: int) -> int:
        """Returns how many ready rows come before one of this rank, job id and row."""
        known, job = self._ready_below, self.table.job
        end = len(known)
        if not end or (known[-1], (job.item(self.ready[-1]) << ROW_BITS) | self.ready[-1]) < (below, low):
            return end
        first = bisect_left(known, below)
        end = bisect_right(known, below, first)
        return bisect_left(self.ready, low, first, end, key=lambda row: (job.item(row) << ROW_BITS) | row)

    def set_count(self, job_id: int, count: int) -> bool:
        """Sets the number of copies of a job that is ready. Returns whether it is."""
        rows = self.ready_rows(job_id)
        for row in rows:
            self.table.count[row] = count
        return bool(rows)

    def rerank(self, ranks: npt.NDArray[np.int64]) -> None:
        """Gives all ready rows new ranks at once: `ranks` by row, higher first. Ties by job id."""
        if not self.ready:
            return
        rows = self.first(len(self.ready))
        np.frombuffer(self._below, np.int64)[rows] = RANK_MAX - ranks[rows]
        self._order(0, rows)

    def set_waiting(self, job_id: int) -> None:
        """Makes a job not ready, for a reason other than resources."""
        for row in self.rows_of(job_id):
            self._unready(row)

    def _unready(self, row: int) -> None:
        below = self._below[row]
        if below != NOT_READY:
            at = self._place(below, (self.table.job.item(row) << ROW_BITS) | row)
            assert self.ready[at] == row
            del self.ready[at], self._ready_below[at]
            self._below[row] = NOT_READY

    def ready_rows(self, job_id: int) -> list[int]:
        """Returns the job's ready rows."""
        return [row for row in self.rows_of(job_id) if self._below[row] != NOT_READY]

    def rank_of_row(self, row: int) -> int | None:
        """Returns the rank of a row that is ready, of another one None."""
        below = self._below[row]
        return None if below == NOT_READY else RANK_MAX - below

    def ranks_of(self, rows: npt.NDArray[np.int64]) -> list[int]:
        """Returns the ranks of rows that are ready."""
        below = self._below
        return [RANK_MAX - below[row] for row in rows.tolist()]

    def place_of(self, rank: int, job_id: int, row: int = 0) -> int:
        """Returns how many ready rows come before one of this rank, job and row."""
        return self._place(RANK_MAX - rank, (job_id << ROW_BITS) | row)

    def gres_of(self, row: int) -> tuple[int, ...]:
        """Returns the GRES that the row needs on each node, by column; empty = none."""
        wanted = self._written[row].gres
        return wanted if any(wanted) else ()

    def rank_of(self, job_id: int) -> int | None:
        """Returns the highest rank of its ready rows; None if there is none."""
        ranks = (self.rank_of_row(row) for row in self.rows_of(job_id))
        return max((rank for rank in ranks if rank is not None), default=None)

    def is_ready(self, job_id: int) -> bool:
        """Whether one of the job's rows is ready."""
        return any(self._below[row] != NOT_READY for row in self.rows_of(job_id))

    def last_ready(self) -> tuple[int, int]:
        """Returns job id and row of the lowest rank among the ready ones, of which there must be one."""
        row = self.ready[-1]
        return self.table.job.item(row), row

    def first_in(self, partitions: Sequence[int], limit: int) -> list[int]:
        """Returns the jobs of up to `limit` ready rows of these partitions (indices), highest rank first."""
        rows = self.first(len(self.ready))
        found = rows[np.isin(self.partition[rows], partitions)][:limit]
        return [int(job_id) for job_id in self.table.job[found]]

    def first(self, limit: int) -> npt.NDArray[np.int64]:
        """Returns rows of the first `limit` ready jobs, highest rank first; ties by job id."""
        rows = self.ready[:limit]  # a copy: the array cannot grow while a view of it exists
        return np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)


def _put(column: npt.NDArray[np.generic], at: npt.NDArray[np.int64], values: Sequence[object], there: object) -> None:
    """Writes cells of one column: numbers, or a tuple of them for each. `there`: what all these cells hold, None = unknown."""
    different = set(values)
    if column.size and different != {there}:
        column[at] = np.array(values if len(different) > 1 else values[:1])


__all__ = ["PendingColumns", "Shape", "Terms"]
