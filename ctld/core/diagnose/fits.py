"""Computes the largest shapes that would start now in each partition, behind every pending job (`penstock fits`).

The planner decides: a shape fits if a job of it, last in the queue, would start at once. The rows of the waiting jobs
precede it, so no resources are reported that are reserved for them. A round tries many sizes of every partition in one
pass (queue/whatif.py); the next round continues from the largest that fit.

    node          the largest job on one node: as many GPUs as possible, then cpus, then memory
    cpu_node      the same without GPUs: as many cpus as possible, then memory; only if it has more cpus
    whole_nodes   the most nodes that a job could have for itself
    gpu_nodes     the most nodes on which it could have so many GPUs each

Unless stated otherwise, a shape has one cpu a GPU node and MINUTE_S; `limit_s` is the longest of the usual
limits (hints.py) with which the shape would still start now.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import _fastsched
from ctld.core.diagnose.hints import LIMITS_S, MINUTE_S
from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.jobs.sharing import units_per_cpu
from ctld.core.passes.schedule import FULL_STARTS_MAX
from ctld.core.queue.node_demand import node_set
from ctld.core.queue.planning import PlanQuestion, snapshot
from ctld.core.queue.whatif import Probe, Settled, WhatIfResult, probe_now, settle
from ctld.core.state.pending import Shape
from ctld.core.state.state import ClusterState

GPUS_A_NODE = (1, 2, 4, 8)
#: Sizes of one resource that a round tries: mostly all that exist.
SIZES_MAX = 128
#: Memory is tried in these shares, and in the amounts free on the nodes with the most: one round, not to the last MB.
MEM_SHARES, MEM_FREE_MAX = 32, 64
#: Maximum number of partitions in one call.
PARTITIONS_MAX = 64


class PartitionCapacity(NamedTuple):
    """A partition as the search sees it. `base`: the smallest shape there."""

    name: str
    state: str
    base: Shape
    max_time_s: int  # -1 = unlimited
    max_nodes: int


class FitsInquiry(NamedTuple):
    question: PlanQuestion
    partitions: tuple[PartitionCapacity, ...]
    gpu_kind: int  # column, -1 = the cluster has none
    cpu_units: int


class Fit(NamedTuple):
    """A shape that would start now; numbers by node. `limit_s`: -1 = as long as the partition allows."""

    kind: str
    nodes: int
    cpus: int
    mem_mb: int
    gpus: int
    limit_s: int
    names: tuple[str, ...]


class PartitionFits(NamedTuple):
    name: str
    state: str
    nodes_up: int
    fits: tuple[Fit, ...]


def inquire_fits(state: ClusterState, now_us: int, names: Sequence[str]) -> FitsInquiry:
    """Collects the input of `find_fits`; `names` are partitions that exist, none = all."""
    units = units_per_cpu(state.config)
    partitions = []
    for partition in state.partition_list[: PARTITIONS_MAX if not names else None]:
        if names and partition.name not in names:
            continue
        base = Shape(
            mask=state.layout.masks.row_of_bits(partition.node_bits), nodes_min=1, nodes_max=1, ntasks=1, cpus_per_task=1,
            ntasks_per_node=0, mem_node_mb=-1, mem_cpu_mb=-1, gres=(0,) * len(state.layout.gres_kinds), exclusive=0,
            cpu_units=units, licenses=(0,) * len(state.layout.license_kinds),
        )  # fmt: skip
        config = partition.config
        partitions.append(PartitionCapacity(partition.name, partition.state, base, config.max_time_s, config.max_nodes))
    question = snapshot(state, now_us, state.pending.first(len(state.pending.ready)), FULL_STARTS_MAX)
    return FitsInquiry(question, tuple(partitions), state.layout.gres_kinds.get(("gpu", ""), -1), units)


class _Search:
    """The search for one kind of shape in one partition: finds the largest of `sizes` that fits, field by field."""

    def __init__(self, partition: int, kind: str, shape: Shape, field: str, most: int, then: Sequence[str]) -> None:
        self.partition = partition
        self.kind = kind
        self.shape = shape
        self.field = field
        self.then = list(then)
        self.low = 0
        self.high = most
        self.of_nodes: list[int] = []  # sizes that some node has free
        self.found: WhatIfResult | None = None

    def sizes(self) -> list[int]:
        """Returns the sizes to try in this round, ascending; empty = the search is over."""
        span = self.high - self.low
        if self.field == "mem" and span:
            shares = {self.high * i // MEM_SHARES for i in range(1, MEM_SHARES + 1)} - {0}
            return sorted(shares.union(self.of_nodes[-MEM_FREE_MAX:]))
        if span <= SIZES_MAX:
            return list(range(self.low + 1, self.high + 1))
        return sorted({self.low + span * i // SIZES_MAX for i in range(1, SIZES_MAX + 1)})


def find_fits(inquiry: FitsInquiry) -> tuple[int, tuple[PartitionFits, ...]]:
    """Returns (the current time in seconds, the shapes of each partition)."""
    given = inquiry.question.given
    settled = settle(given, _fastsched.plan(given), np.arange(len(given.rows)))
    rounds = _SearchRounds(inquiry, settled)
    while rounds.open:
        rounds.round()
    return given.limits.now_s, rounds.answer()


class _SearchRounds:
    """The searches of all partitions, in rounds of one pass each."""

    def __init__(self, inquiry: FitsInquiry, settled: Settled) -> None:
        self._inquiry = inquiry
        self._settled = settled
        self._last = len(inquiry.question.given.rows)
        nodes = settled.given.nodes
        self._up = [
            node_set(settled.given, [partition.base.mask]) & (nodes.up == 1) for partition in inquiry.partitions
        ]
        self.searches: list[_Search] = []
        for number, partition in enumerate(inquiry.partitions):
            if partition.state == "UP" and self._up[number].any():
                self.searches += self._searches(number, partition)
        self.open = list(self.searches)

    def _searches(self, number: int, partition: PartitionCapacity) -> list[_Search]:
        up = self._up[number]
        base = partition.base
        kind = self._inquiry.gpu_kind
        count = int(up.sum()) if partition.max_nodes < 0 else min(int(up.sum()), partition.max_nodes)
        found = [
            _Search(number, "cpu_node", base, "cpus", self._most(number, "cpus"), ["mem"]),
            _Search(number, "whole_nodes", base._replace(exclusive=1), "nodes", count, []),
        ]
        gpus = self._most(number, "gpus")
        if kind >= 0 and gpus:
            found.append(_Search(number, "node", base, "gpus", gpus, ["cpus", "mem"]))
            for each in sorted({each for each in GPUS_A_NODE if each <= gpus}):
                found.append(_Search(number, "gpu_nodes", self._sized(base, "gpus", each), "nodes", count, []))
        return found

    def _most(self, number: int, field: str) -> int:
        """Returns the most that a node of the partition has free now, the bound of the search."""
        nodes, up = self._settled.given.nodes, self._up[number]
        if field == "gpus":
            kind = self._inquiry.gpu_kind
            return int(nodes.free_gres[up, kind].max(initial=0)) if kind >= 0 else 0
        column = nodes.free_cpus if field == "cpus" else nodes.free_mem_mb
        return max(0, int(column[up].max(initial=0))) // (self._inquiry.cpu_units if field == "cpus" else 1)

    def _sized(self, shape: Shape, field: str, size: int) -> Shape:
        if field == "gpus":
            kind = self._inquiry.gpu_kind
            return shape._replace(gres=tuple(size if i == kind else n for i, n in enumerate(shape.gres)))
        if field == "cpus":
            return shape._replace(cpus_per_task=size)
        if field == "mem":
            return shape._replace(mem_node_mb=size)
        return shape._replace(nodes_min=size, nodes_max=size, ntasks=size)

    def _row(self, shape: Shape, limit_s: int = MINUTE_S) -> Probe:
        return Probe(self._last, shape, limit_s)

    def round(self) -> None:
        """Asks the planner for the next sizes of all open searches."""
        asked = [(search, size) for search in self.open for size in search.sizes()]
        answers = probe_now(self._settled, [self._row(self._sized(s.shape, s.field, size)) for s, size in asked])
        best: dict[int, tuple[int, WhatIfResult]] = {}
        for (search, size), answer in zip(asked, answers, strict=True):
            if answer is not None and size > best.get(id(search), (0, answer))[0]:
                best[id(search)] = (size, answer)
        for search in self.open:
            self._advance(search, best.get(id(search)))
        self.open = [search for search in self.open if search.sizes()]

    def _advance(self, search: _Search, best: tuple[int, WhatIfResult] | None) -> None:
        """Narrows the search to the largest size; once that is found, continues with the next field."""
        larger = [size for size in search.sizes() if best is None or size > best[0]]
        if best is not None:
            search.low, search.found = best
        search.high = min(larger) - 1 if larger and search.field != "mem" else search.low
        if search.high <= search.low and search.low and search.then:
            search.shape = self._sized(search.shape, search.field, search.low)
            search.field = search.then.pop(0)
            search.low = 0
            search.high = self._most(search.partition, search.field)
            if search.field == "mem":
                free = np.unique(self._settled.given.nodes.free_mem_mb[self._up[search.partition]])
                search.of_nodes = free[free > 0].tolist()
        elif search.high <= search.low and search.low:
            search.shape = self._sized(search.shape, search.field, search.low)

    def answer(self) -> tuple[PartitionFits, ...]:
        """The result, with the limits."""
        found = [search for search in self.searches if search.found is not None]
        longest = self._longest(found)
        fits: list[list[Fit]] = [[] for _ in self._inquiry.partitions]
        for search, (limit_s, where) in zip(found, longest, strict=True):
            fits[search.partition].append(self._fit(search, limit_s, where))
        return tuple(
            PartitionFits(partition.name, partition.state, int(self._up[i].sum()), _worth_listing(fits[i]))
            for i, partition in enumerate(self._inquiry.partitions)
        )

    def _longest(self, searches: list[_Search]) -> list[tuple[int, tuple[int, ...]]]:
        """Finds the longest limit of each shape, and where it would run then, in one more pass."""
        asked: list[tuple[int, int]] = []
        for number, search in enumerate(searches):
            most_s = self._inquiry.partitions[search.partition].max_time_s
            limits = [s for s in LIMITS_S if most_s < 0 or s < most_s]
            asked += [(number, s) for s in (UNLIMITED_S if most_s < 0 else most_s, *limits)]
        answers = probe_now(self._settled, [self._row(searches[number].shape, limit_s) for number, limit_s in asked])
        longest = [(MINUTE_S, search.found.nodes if search.found else ()) for search in searches]
        whole: dict[int, None] = {}
        for (number, limit_s), answer in zip(asked, answers, strict=True):
            if answer is not None and (limit_s > longest[number][0] or number not in whole):
                if limit_s >= longest[number][0]:
                    longest[number] = (limit_s, answer.nodes)
                whole[number] = None
        return longest

    def _fit(self, search: _Search, limit_s: int, where: tuple[int, ...]) -> Fit:
        shape, nodes = search.shape, self._settled.given.nodes
        most_s = self._inquiry.partitions[search.partition].max_time_s
        kind, chosen = self._inquiry.gpu_kind, list(where)
        cpus = shape.cpus_per_task
        mem_mb = max(0, shape.mem_node_mb)
        gpus = shape.gres[kind] if kind >= 0 else 0
        if shape.exclusive:  # the smallest free amount of these nodes
            cpus = int(nodes.total_cpus[chosen].min(initial=1 << 30)) // shape.cpu_units
            mem_mb = int(nodes.total_mem_mb[chosen].min(initial=1 << 60))
            gpus = int(nodes.total_gres[chosen, kind].min(initial=1 << 30)) if kind >= 0 else 0
        names = tuple(self._inquiry.question.node_names[i] for i in chosen)
        whole = limit_s >= (UNLIMITED_S if most_s < 0 else most_s)
        return Fit(search.kind, shape.nodes_min, cpus, mem_mb, gpus, -1 if whole else limit_s, names)


def _worth_listing(fits: list[Fit]) -> tuple[Fit, ...]:
    """Omits the shape without GPUs when the one with GPUs has as many CPUs."""
    gpu_cpus = max((fit.cpus for fit in fits if fit.kind == "node"), default=0)
    order = ("node", "cpu_node", "whole_nodes", "gpu_nodes")
    kept = [fit for fit in fits if fit.kind != "cpu_node" or fit.cpus > gpu_cpus]
    return tuple(sorted(kept, key=lambda fit: (order.index(fit.kind), fit.gpus)))
