"""Numpy mirrors of the cluster for the planner: free resources by node, allocations of running jobs with their expected
ends, sets of nodes.

Kept incrementally: a node's row changes when something is allocated or freed there, a running job has one row and one
part for each of its nodes. The tables that the planner gets (`table`) are views of the same arrays, rebuilt only with
the arrays; a pass in a worker gets copies. Pending jobs are in pending.py.
"""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from _fastsched import contract

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

#: A set of nodes that limits change with: a word, the row of the mask, (book, amount).
Fence = tuple[str, int, tuple[tuple[tuple[str | int, ...], int], ...]]
#: Initial rows of a table of running jobs; it doubles when it is full.
ROWS_FIRST = 64
#: Node sets of ended jobs: the memory that they may take, and the bytes of one, beside those for each node.
LEFT_BYTES_MAX = 32 * 1024 * 1024
SET_BYTES = 300


T = TypeVar("T", contract.Jobs, contract.Nodes, contract.Running)


def copied(table: T) -> T:
    """Returns a copy of the table with private arrays."""
    return type(table)._make(column.copy() for column in table)


class NodeColumns:
    """One row a node, in the order of the configuration. Cpus are counted in units (jobs/sharing.py): 1 a cpu mostly."""

    def __init__(self, count: int, gres_kinds: int, switch_levels: int = 0) -> None:
        self.table: contract.Nodes = contract.empty("nodes", N=count, G=gres_kinds, S=switch_levels)
        self.table.order[:] = np.arange(count)
        self.table.cpu_quantum[:] = 1
        for name in contract.Nodes._fields:
            setattr(self, name, getattr(self.table, name))
        #: by node: allocated exclusively
        self.used_exclusively: U8 = np.zeros(count, np.uint8)
        self._under_leaf: dict[int, list[int]] | None = None

    total_cpus: I32
    total_mem_mb: I64
    total_gres: I32
    free_cpus: I32
    free_mem_mb: I64
    free_gres: I32
    cpu_quantum: I32
    order: I32
    weight_class: I32
    up: U8
    switches: I32

    def under_leaf(self) -> dict[int, list[int]]:
        """Returns the nodes under each leaf switch (indices), made when it is first asked: switches do not change."""
        if self._under_leaf is None:
            self._under_leaf = {}
            for index, leaf in enumerate(self.switches[0].tolist()):
                self._under_leaf.setdefault(leaf, []).append(index)
        return self._under_leaf

    def emptied(self) -> contract.Nodes:
        """Returns the nodes as if nothing ran on them and all were up."""
        t = self.table
        return t._replace(
            free_cpus=t.total_cpus, free_mem_mb=t.total_mem_mb, free_gres=t.total_gres, up=np.ones_like(t.up)
        )


class RunningColumns:
    """Resources of running jobs, and their expected end. `job_of[row]` is the job id, 0 = unused."""

    def __init__(self, gres_kinds: int, license_kinds: int = 0) -> None:
        self._lengths = {"G": gres_kinds, "L": license_kinds, "R": ROWS_FIRST, "P": ROWS_FIRST}
        self._rows_free: list[int] = []
        self._parts_free: list[int] = []
        self._parts_of: dict[int, tuple[int, ...]] = {}
        self.row_of: dict[int, int] = {}
        self.table: contract.Running = contract.empty("running", **self._lengths)
        self.job_of: I64 = np.zeros(ROWS_FIRST, np.int64)
        self.table.part_run[:] = -1
        self._rows_free = list(range(ROWS_FIRST - 1, -1, -1))
        #: Nodes whose changes are tracked, and those of them that have changed (indices).
        self.tracked: dict[int, None] = {}
        self.touched: dict[int, None] = {}
        self._parts_free = list(range(ROWS_FIRST - 1, -1, -1))

    def _grow(self, axis: str) -> None:
        old, had = self.table, self._lengths[axis]
        self._lengths[axis] = had * 2
        self.table = contract.empty("running", **self._lengths)
        self.table.part_run[:] = -1
        for name in contract.Running._fields:
            before = getattr(old, name)
            getattr(self.table, name)[: len(before)] = before
        free = self._rows_free if axis == "R" else self._parts_free
        free.extend(range(had * 2 - 1, had - 1, -1))
        if axis == "R":
            self.job_of = np.concatenate([self.job_of, np.zeros(had, np.int64)])

    def add(self, job_id: int, end_s: int, user: int, exclusive: int, licenses: Iterable[int]) -> None:
        """Adds a job that begins to hold resources; its parts follow."""
        if not self._rows_free:
            self._grow("R")
        row, t = self._rows_free.pop(), self.table
        self.row_of[job_id] = row
        self.job_of[row] = job_id
        t.run_end_s[row] = end_s
        t.run_user[row] = user
        t.run_exclusive[row] = exclusive
        t.run_class[row] = -1
        t.run_cost[row] = 0
        if self._lengths["L"]:
            t.run_licenses[row] = tuple(licenses)
        self._parts_of[job_id] = ()

    def add_part(self, job_id: int, node: int, cpus: int, mem_mb: int, gres: Iterable[tuple[int, int]]) -> None:
        """Adds its allocation on one node: cpu units, MB, and (kind, count) of GRES."""
        if not self._parts_free:
            self._grow("P")
        part, t = self._parts_free.pop(), self.table
        t.part_run[part] = self.row_of[job_id]
        t.part_node[part] = node
        t.part_cpus[part] = cpus
        t.part_mem_mb[part] = mem_mb
        if self._lengths["G"]:
            row = t.part_gres[part]
            row.fill(0)
            for kind, count in gres:
                row[kind] += count
        self._parts_of[job_id] += (part,)
        self._touch(node)

    def _touch(self, node: int) -> None:
        if node in self.tracked:
            self.touched[node] = None

    def end_of(self, job_id: int) -> int:
        """Returns the expected end, seconds since 1970; FOREVER for one without a row."""
        row = self.row_of.get(-job_id, self.row_of.get(job_id))
        return contract.FOREVER if row is None else int(self.table.run_end_s[row])

    def parts_of(self, job_id: int) -> tuple[int, ...]:
        """Returns the job's parts, as rows of the table."""
        return self._parts_of.get(job_id, ())

    def set_part(self, job_id: int, node: int, gres: Iterable[tuple[int, int]]) -> None:
        """Sets what it releases on that node of these kinds, including what it keeps when suspended, if that has its
        own row."""
        left = list(gres)
        for key in (-job_id, job_id):
            for part in self._parts_of.get(key, ()):
                if self.table.part_node[part] == node:
                    for kind, count in left:
                        self.table.part_gres[part, kind] = count
                    left = [(kind, 0) for kind, _ in left]

    def keep_rest(self, job_id: int) -> None:
        """Moves what a suspended job keeps (all but cpus) to a row of its own under -job_id, which is never preempted.

        So the planner sees what suspending a job would release separately from what it would not. No row when it keeps
        nothing.
        """
        row, t = self.row_of[job_id], self.table
        held = [p for p in self._parts_of[job_id] if t.part_mem_mb[p] or t.part_gres[p].any()]
        licenses = tuple(t.run_licenses[row].tolist())
        if -job_id in self.row_of or not (held or any(licenses)):
            return
        self.add(-job_id, int(t.run_end_s[row]), int(t.run_user[row]), 0, licenses)
        t = self.table  # it may have grown
        if self._lengths["L"]:
            t.run_licenses[row] = 0
        for part in held:
            gres = [(kind, int(count)) for kind, count in enumerate(t.part_gres[part]) if count]
            self.add_part(-job_id, int(t.part_node[part]), 0, int(t.part_mem_mb[part]), gres)
            t = self.table
            t.part_mem_mb[part] = 0
            t.part_gres[part] = 0

    def remove(self, job_id: int) -> None:
        """Removes a job without an allocation."""
        row = self.row_of.pop(job_id, None)
        if row is None:
            return
        for part in self._parts_of.pop(job_id):
            if self.tracked:
                self._touch(int(self.table.part_node[part]))
            self.table.part_run[part] = -1
            self._parts_free.append(part)
        self.job_of[row] = 0
        self.table.run_end_s[row] = 0
        if self._lengths["L"]:
            self.table.run_licenses[row] = 0
        self._rows_free.append(row)

    def set_end(self, job_id: int, end_s: int) -> None:
        """Sets the expected end."""
        for key in (job_id, -job_id):
            row = self.row_of.get(key)
            if row is not None:
                self.table.run_end_s[row] = end_s
                for part in self._parts_of[key] if self.tracked else ():
                    self._touch(int(self.table.part_node[part]))

    def set_class(self, job_id: int, run_class: int, cost: int) -> None:
        """Sets the preemption class (contract.Running)."""
        row = self.row_of[job_id]
        self.table.run_class[row] = run_class
        self.table.run_cost[row] = cost


class MaskTable:
    """Node sets that jobs may run on, each stored once: (partition, features, required, excluded) -> row.

    Sets of groups (features with counts, required nodes) are stored here too, since they are sets of such rows.

    A set stays when its jobs have ended, as others often ask for the same. A user can ask for any number of different
    sets, so a table that is full is replaced (nodes/layout.py).
    """

    def __init__(self, node_count: int) -> None:
        self.words = max(1, (node_count + 63) // 64)
        self._least = LEFT_BYTES_MAX // (SET_BYTES + 16 * self.words)
        self._full_at = 0  # 0 = not known before all pending jobs have their rows
        self._planned_words = (node_count + 63) // 64
        self.bits: list[int] = []
        self._row_of: dict[object, int] = {}
        self._array: U64 = np.zeros((0, self._planned_words), np.uint64)  # with room for more sets
        self._stored = 0  # sets in it
        #: Sets that change with the nodes of a group of jobs, by group (limits/node_limits.py).
        self.fences: dict[tuple[str | int, ...], dict[Fence, int]] = {}
        self._group_of: dict[tuple[tuple[int, int], ...], int] = {}
        self.group_first: I32 = np.zeros(1, np.int32)
        self.group_mask: I32 = np.zeros(0, np.int32)
        self.group_count: I32 = np.zeros(0, np.int32)

    @property
    def is_full(self) -> bool:
        """Whether so many sets are stored that most of them are likely to be of ended jobs."""
        return 0 < self._full_at < len(self.bits) + len(self._group_of)

    def complete(self) -> None:
        """Notes that all pending jobs have their rows: as many sets again, and some, may be added."""
        if not self._full_at:
            self._full_at = 2 * (len(self.bits) + len(self._group_of)) + self._least

    def row(self, key: object) -> int | None:
        """Returns the row of a known set."""
        return self._row_of.get(key)

    def add(self, key: object, bits: int) -> int:
        """Stores a set given as a Python bit map of node indices."""
        row = self._row_of[key] = len(self.bits)
        self.bits.append(bits)
        return row

    def change(self, row: int, bits: int) -> int:
        """Replaces the nodes of a named set. Returns the row."""
        if self.bits[row] != bits:
            self.bits[row] = bits
            if row < self._stored:
                words = np.frombuffer(bits.to_bytes(self._planned_words * 8, "little"), np.uint64)
                self._array = self._array[: self._stored].copy()  # a pass may be reading it
                self._array[row] = words
        return row

    def row_of_bits(self, bits: int) -> int:
        """Returns the row of a set without a name."""
        row = self._row_of.get(("bits", bits))
        return self.add(("bits", bits), bits) if row is None else row

    def nowhere(self) -> int:
        """Returns the row of the empty set."""
        return self.row_of_bits(0)

    def indices(self, row: int) -> npt.NDArray[np.intp]:
        """Returns the nodes of a set, as indices."""
        return self.indices_of(self.bits[row])

    def indices_of(self, bits: int) -> npt.NDArray[np.intp]:
        """Returns the same for a set that is not stored."""
        words = bits.to_bytes(self.words * 8, "little")
        return np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little").nonzero()[0]

    def group(self, members: tuple[tuple[int, int], ...]) -> int:
        """Returns the number of a set of groups, (row, nodes wanted) each; -1 for no group."""
        if not members:
            return -1
        known = self._group_of.get(members)
        if known is None:
            known = self._group_of[members] = len(self._group_of)
            self.group_first = np.append(self.group_first, np.int32(self.group_first[-1] + len(members)))
            self.group_mask = np.append(self.group_mask, np.array([row for row, _ in members], np.int32))
            self.group_count = np.append(self.group_count, np.array([count for _, count in members], np.int32))
        return known

    def members(self, group: int) -> tuple[tuple[int, int], ...]:
        """Returns what `group` was made of."""
        if group < 0:
            return ()
        own = slice(int(self.group_first[group]), int(self.group_first[group + 1]))
        return tuple(zip(self.group_mask[own].tolist(), self.group_count[own].tolist(), strict=True))

    def array(self) -> U64:
        """Returns all sets as words, bit i % 64 of word i // 64."""
        have, number = self._stored, len(self.bits)
        if have < number:
            if number > len(self._array):
                larger = np.zeros((max(number, 2 * have), self._planned_words), np.uint64)
                larger[:have] = self._array[:have]
                self._array = larger
            size = self._planned_words * 8
            new = b"".join(b.to_bytes(size, "little") for b in self.bits[have:])
            self._array[have:number] = np.frombuffer(new, np.uint64).reshape(number - have, self._planned_words)
            self._stored = number
        return self._array[:number]
