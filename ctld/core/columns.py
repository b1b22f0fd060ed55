"""Numpy mirrors of what the planner scans: free resources per node, shapes of the jobs that may start.

Kept incrementally: a node's row changes when something is allocated or freed there, a pending job has one row for each
partition that it may run in. `ready` holds the rows that may start now, as sorted integers whose low bits are the row,
so that a pass takes the first so many without sorting. Rows of jobs that are held, wait for a dependency, a begin time
or their array's limit keep their shape but are not in `ready`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ROW_BITS = 24  # 16 M pending rows: more than MaxJobCount allows
ROW_MASK = (1 << ROW_BITS) - 1
#: Ranks are 48 bits: partition tier above priority, both 16 + 32 bits as in Slurm.
RANK_MAX = (1 << 48) - 1

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]


class Shape(NamedTuple):
    """What the planner must know of a job. -1 in mem = not asked in that way; gres counts by kind."""

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


_SHAPE_COLUMNS = (
    ("mask", np.int32), ("nodes_min", np.int32), ("nodes_max", np.int32), ("ntasks", np.int32),
    ("cpus_per_task", np.int32), ("ntasks_per_node", np.int32), ("mem_node_mb", np.int64), ("mem_cpu_mb", np.int64),
)  # fmt: skip


class NodeColumns:
    """One row a node, in the order of the configuration."""

    def __init__(self, count: int, gres_kinds: int) -> None:
        self.free_cpus: I32 = np.zeros(count, np.int32)
        self.free_mem_mb: I64 = np.zeros(count, np.int64)
        self.free_gres: I32 = np.zeros((count, gres_kinds), np.int32)
        self.total_cpus: I32 = np.zeros(count, np.int32)
        self.total_mem_mb: I64 = np.zeros(count, np.int64)
        self.total_gres: I32 = np.zeros((count, gres_kinds), np.int32)
        self.running_jobs: I32 = np.zeros(count, np.int32)
        self.held_exclusive: U8 = np.zeros(count, np.uint8)
        self.order: I32 = np.arange(count, dtype=np.int32)
        self.up: U8 = np.zeros(count, np.uint8)

    def copies(self) -> tuple[Any, ...]:
        """Private copies in the order of the planner's parameters."""
        return tuple(
            column.copy()
            for column in (
                self.free_cpus, self.free_mem_mb, self.free_gres, self.total_cpus, self.total_mem_mb, self.total_gres,
                self.running_jobs, self.held_exclusive, self.order, self.up,
            )
        )  # fmt: skip

    def views(self) -> tuple[Any, ...]:
        """The columns themselves, for a pass that runs before anything changes."""
        return (
            self.free_cpus, self.free_mem_mb, self.free_gres, self.total_cpus, self.total_mem_mb, self.total_gres,
            self.running_jobs, self.held_exclusive, self.order, self.up,
        )  # fmt: skip


class PendingColumns:
    """Rows of pending jobs. `job_of[row]` is the job id, 0 = free row."""

    def __init__(self, gres_kinds: int) -> None:
        self._kinds = gres_kinds
        self._free: list[int] = []
        self._size = 0
        self.ready: list[int] = []
        self._keys: list[int] = []  # by row: its key in `ready`, 0 = not there
        self._rows_of: dict[int, int | tuple[int, ...]] = {}  # one row is kept as a plain number
        self._allocate(256)

    def _allocate(self, capacity: int) -> None:
        old = getattr(self, "columns", None)
        self.columns: dict[str, npt.NDArray[Any]] = {n: np.zeros(capacity, t) for n, t in _SHAPE_COLUMNS}
        self.columns["gres"] = np.zeros((capacity, self._kinds), np.int32)
        self.columns["exclusive"] = np.zeros(capacity, np.uint8)
        self.columns["count"] = np.ones(capacity, np.int32)
        self.columns["job_id"] = np.zeros(capacity, np.int64)
        self.columns["partition"] = np.zeros(capacity, np.int32)
        if old is not None:
            for name, column in self.columns.items():
                column[: len(old[name])] = old[name]
        self._capacity = capacity

    def add(self, job_id: int, shapes: Iterable[tuple[int, Shape]]) -> None:
        """Give a pending job its rows: one (partition index, shape) each. Not ready until `set_ready`."""
        rows = []
        for partition, shape in shapes:
            if self._free:
                row = self._free.pop()
            else:
                row = self._size
                self._size += 1
                self._keys.append(0)
                if row >= self._capacity:
                    self._allocate(self._capacity * 2)
            columns = self.columns
            for name, _ in _SHAPE_COLUMNS:
                columns[name][row] = getattr(shape, name)
            columns["gres"][row] = shape.gres
            columns["exclusive"][row] = shape.exclusive
            columns["count"][row] = 1
            columns["job_id"][row] = job_id
            columns["partition"][row] = partition
            rows.append(row)
        self._rows_of[job_id] = rows[0] if len(rows) == 1 else tuple(rows)

    def rows_of(self, job_id: int) -> tuple[int, ...]:
        """The job's rows, one for each of its partitions; empty = it has none."""
        rows = self._rows_of.get(job_id, ())
        return (rows,) if isinstance(rows, int) else rows

    def remove(self, job_id: int) -> None:
        """The job is no longer pending."""
        rows = self.rows_of(job_id)
        self._rows_of.pop(job_id, None)
        for row in rows:
            self._unready(row)
            self.columns["job_id"][row] = 0
            self._free.append(row)

    def set_ready(self, job_id: int, ranks: Iterable[int | None], count: int) -> None:
        """May start now: `count` copies, with one rank for each of its rows (higher first.

        None = not in that partition).
        """
        for row, rank in zip(self.rows_of(job_id), ranks, strict=True):
            if rank is None:
                self._unready(row)
                continue
            self.columns["count"][row] = count
            key = ((RANK_MAX - rank) << 64) | (job_id << ROW_BITS) | row
            if self._keys[row] == key:
                continue
            self._unready(row)
            self._keys[row] = key
            if not self.ready or key > self.ready[-1]:
                self.ready.append(key)
            else:
                insort(self.ready, key)

    def set_waiting(self, job_id: int) -> None:
        """May not start now, for a reason other than resources."""
        for row in self.rows_of(job_id):
            self._unready(row)

    def _unready(self, row: int) -> None:
        key = self._keys[row]
        if key:
            self._keys[row] = 0
            at = bisect_left(self.ready, key)
            assert self.ready[at] == key
            del self.ready[at]

    def is_ready(self, job_id: int) -> bool:
        """True when one of the job's rows may start now."""
        return any(self._keys[row] for row in self.rows_of(job_id))

    def first(self, limit: int) -> npt.NDArray[np.int64]:
        """Rows of the first `limit` ready jobs, highest rank first; ties by job id."""
        keys = self.ready if limit >= len(self.ready) else self.ready[:limit]
        return np.fromiter((key & ROW_MASK for key in keys), np.int64, len(keys))

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[Any, ...]:
        """Copies of those rows in the order of the planner's parameters, from job_mask to count."""
        c = self.columns
        names = (
            "mask", "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "mem_node_mb", "mem_cpu_mb",
            "gres", "exclusive", "count",
        )  # fmt: skip
        return tuple(c[name][rows] for name in names)


class MaskTable:
    """Node sets that jobs may run on, each stored once: (partition, features, required, excluded) -> row."""

    def __init__(self, node_count: int) -> None:
        self.words = max(1, (node_count + 63) // 64)
        self.bits: list[int] = []
        self._row_of: dict[object, int] = {}
        self._array: U64 = np.zeros((0, self.words), np.uint64)

    def row(self, key: object) -> int | None:
        """The row of a set seen before."""
        return self._row_of.get(key)

    def add(self, key: object, bits: int) -> int:
        """Store a set given as a Python bit map of node indices."""
        row = self._row_of[key] = len(self.bits)
        self.bits.append(bits)
        return row

    def nowhere(self) -> int:
        """The row of the empty set."""
        row = self._row_of.get(None)
        return self.add(None, 0) if row is None else row

    def array(self) -> U64:
        """All sets as words, bit i % 64 of word i // 64."""
        have = len(self._array)
        if have < len(self.bits):
            size = self.words * 8
            new = b"".join(b.to_bytes(size, "little") for b in self.bits[have:])
            grown = np.frombuffer(new, np.uint64).reshape(-1, self.words)
            self._array = np.concatenate([self._array, grown])
        return self._array
