"""The oracle's world: lists of everything that holds resources, from which free amounts are recounted at each query.

Rules 0, 2 and 5 of contract.py and the capacities of rule 1. What is free on a node at one second = what is free there
now, plus what the running jobs that have ended by then had, less what was planned over it, less the rest of the blocks
of others. For an interval this is computed at each second at which something begins or ends, and the least counts.
Deliberately absent: any structure that would make a question cheap.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from _fastsched.contract import FOREVER, LEAF, PlanInput


class Share(NamedTuple):
    """The resources of a job on one node, or the free ones there."""

    cpu_units: int
    mem_mb: int
    gres: tuple[int, ...]

    def plus(self, other: "Share", times: int = 1) -> "Share":
        return Share(
            self.cpu_units + times * other.cpu_units,
            self.mem_mb + times * other.mem_mb,
            tuple(a + times * b for a, b in zip(self.gres, other.gres, strict=True)),
        )

    def covers(self, want: "Share") -> bool:
        """Whether these suffice. Resources that are not requested may be negative."""
        return all(
            w <= 0 or w <= f
            for w, f in zip((*want[:2], *want.gres), (*self[:2], *self.gres), strict=True)
        )  # fmt: skip


class Room(NamedTuple):
    """A node over an interval: what is free all the time, and whether it is open to the job at all."""

    free: Share
    open: bool


@dataclass(slots=True, eq=False)
class PlacedJob:
    """A running job, or what this pass gave to a row."""

    from_s: int
    to_s: int
    user: int
    exclusive: int
    resv: int
    licenses: tuple[int, ...]
    on: dict[int, Share]
    running: bool = False
    run_class: int = -1
    run_cost: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    resv: int
    node: int
    from_s: int
    to_s: int
    share: Share  # cpu_units < 0: the whole node


@dataclass(frozen=True, slots=True)
class LicenseBlock:
    resv: int
    kind: int
    from_s: int
    to_s: int
    count: int


_Timed = PlacedJob | Block | LicenseBlock


@dataclass(frozen=True, slots=True)
class ReferenceJob:
    """A row. `nodes` is its mask, or the intersection with its reservation's, in `order`."""

    row: int
    job: int
    nodes: tuple[int, ...]
    nodes_min: int
    nodes_max: int
    ntasks: int
    cpus_per_task: int
    ntasks_per_node: int
    mem_node_mb: int
    mem_cpu_mb: int
    gres: tuple[int, ...]
    exclusive: int
    user: int
    count: int
    cpu_units: int
    spread: int
    limit_s: int
    limit_min_s: int
    earliest_s: int
    latest_s: int
    reserve: int
    resv: int
    preempts: int
    switches_max: int
    segment: int
    order_kind: int
    group: int
    licenses: tuple[int, ...]
    het: int
    inside: tuple[int, int] | None  # (from_s, to_s) of its reservation if that is not flex

    def makes_sense(self) -> bool:
        """Whether the row is valid by the last paragraph of the contract."""
        return (
            1 <= self.nodes_min <= self.nodes_max
            and self.nodes_min <= self.ntasks
            and self.cpus_per_task >= 1
            and self.cpu_units >= 1
            and self.ntasks_per_node >= 0
            and min(self.gres, default=0) >= 0
            and min(self.licenses, default=0) >= 0
            and 1 <= self.limit_min_s <= self.limit_s <= FOREVER
            and self.exclusive in (0, 1, 2, LEAF, LEAF + 1)
            and self.order_kind <= 2
            and self.switches_max >= 0
            and self.segment >= 0
            and (self.segment == 0 or (self.nodes_min % self.segment == 0 and self.group < 0))
        )

    def is_whole(self) -> bool:
        """Whether it takes all cpus of its nodes."""
        return bool(self.exclusive & 1)

    def nodes_most(self) -> int:
        """Returns nodes_max of rule 1."""
        return self.nodes_min if self.segment else min(self.nodes_max, self.ntasks)

    def may_run(self, start_s: int, for_s: int) -> bool:
        """Whether rules 0 and 5 allow these times."""
        if not self.earliest_s <= start_s <= self.latest_s:
            return False
        return self.inside is None or (self.inside[0] <= start_s and start_s + for_s <= self.inside[1])


def _shares(cpus: Iterable[int], mem_mb: Iterable[int], gres: Iterable[Sequence[int]]) -> list[Share]:
    return [Share(c, m, tuple(g)) for c, m, g in zip(cpus, mem_mb, gres, strict=True)]


class World:
    """The input without the pending jobs, and what the pass has given so far."""

    def __init__(self, given: PlanInput) -> None:
        nodes = given.nodes
        running = given.running
        resv = given.reservations
        self.now_s = given.limits.now_s
        self.units_per_cpu = given.limits.units_per_cpu
        self.total = _shares(nodes.total_cpus.tolist(), nodes.total_mem_mb.tolist(), nodes.total_gres.tolist())
        self.free_now = _shares(nodes.free_cpus.tolist(), nodes.free_mem_mb.tolist(), nodes.free_gres.tolist())
        self.cpu_quantum: list[int] = nodes.cpu_quantum.tolist()
        self.weight_class: list[int] = nodes.weight_class.tolist()
        self.up: list[bool] = [bool(up) for up in nodes.up]
        self.switches: list[list[int]] = nodes.switches.tolist()
        under: dict[int, list[int]] = {}
        for node, leaf in enumerate(self.switches[0] if self.switches else range(len(self.up))):
            under.setdefault(leaf, []).append(node)
        #: by node: the nodes of its leaf switch, itself included
        self.leaf = [under[leaf] for leaf in (self.switches[0] if self.switches else range(len(self.up)))]
        self.order: list[int] = nodes.order.tolist()
        self.place = {node: at for at, node in enumerate(self.order)}
        self.sets = [[n for n in self.order if words[n // 64] >> (n % 64) & 1] for words in given.masks.tolist()]
        entries = list(zip(given.group_mask.tolist(), given.group_count.tolist(), strict=True))
        first = given.group_first.tolist()
        self.groups = [[(self.sets[mask], count) for mask, count in entries[a:b]] for a, b in pairwise(first)]

        self.runs = [
            PlacedJob(self.now_s, max(end, self.now_s + 1), user, exclusive, -1, tuple(licenses), {}, True, kind, cost)
            for end, user, exclusive, licenses, kind, cost in zip(
                *(getattr(running, name).tolist() for name in (
                    "run_end_s", "run_user", "run_exclusive", "run_licenses", "run_class", "run_cost",
                )), strict=True,
            )
        ]  # fmt: skip
        nothing = Share(0, 0, (0,) * nodes.total_gres.shape[1])
        parts = _shares(running.part_cpus.tolist(), running.part_mem_mb.tolist(), running.part_gres.tolist())
        for run, node, share in zip(running.part_run.tolist(), running.part_node.tolist(), parts, strict=True):
            if run >= 0:
                self.runs[run].on[node] = self.runs[run].on.get(node, nothing).plus(share)
        self.victims: list[PlacedJob] = []
        self.planned: list[PlacedJob] = []
        self.on_node: list[list[PlacedJob]] = [
            [run for run in self.runs if node in run.on] for node in range(len(self.up))
        ]

        shares = _shares(resv.block_cpus.tolist(), resv.block_mem_mb.tolist(), resv.block_gres.tolist())
        self.blocks = [
            Block(*at)
            for at in zip(
                *(getattr(resv, f"block_{name}").tolist() for name in ("resv", "node", "from_s", "to_s")),
                shares,
                strict=True,
            )
        ]
        self.licblocks = [
            LicenseBlock(*at)
            for at in zip(
                *(getattr(resv, f"licblock_{name}").tolist() for name in ("resv", "kind", "from_s", "to_s", "count")),
                strict=True,
            )
        ]
        self.free_licenses: list[int] = given.free_licenses.tolist()

    # --- what is free

    def room(
        self,
        job: ReferenceJob,
        node: int,
        from_s: int,
        for_s: int,
        gone: Sequence[PlacedJob] = (),
        blocks: bool = True,
    ) -> Room:
        """Returns the node over [from_s, from_s + for_s) for this job, without the running jobs `gone`; rules 1 and 5."""
        to_s = from_s + for_s
        there = [h for h in self.on_node[node] if h not in gone]
        kept = [b for b in self.blocks if blocks and b.node == node and b.resv != job.resv]
        free = [self._free_at(node, second, gone, there, kept) for second in _turns(from_s, to_s, there, kept)]
        least = Share(
            min(f.cpu_units for f in free),
            min(f.mem_mb for f in free),
            tuple(min(amounts) for amounts in zip(*(f.gres for f in free), strict=True)),
        )
        closed = any(b.share.cpu_units < 0 and b.from_s < to_s and from_s < b.to_s for b in kept)
        met = [h for h in there if h.from_s < to_s and from_s < h.to_s]
        shared = all(_may_share_nodes(job, other) for other in met)
        return Room(least, not closed and shared and not self._leaf_is_used(job, node, from_s, to_s, gone, blocks))

    def _leaf_is_used(
        self, job: ReferenceJob, node: int, from_s: int, to_s: int, gone: Sequence[PlacedJob], blocks: bool
    ) -> bool:
        """Whether something on the other nodes of the leaf keeps this job from the node: exclusive 4 and 5 of rule 1."""
        if not job.exclusive & LEAF:
            return False
        others = [other for other in self.leaf[node] if other != node]
        things: list[_Timed] = [
            h for other in others for h in self.on_node[other]
            if not (h in self.victims and h in gone) and not (h in gone and node in h.on)
        ]  # fmt: skip
        things += [b for b in self.blocks if blocks and b.node in others and b.resv != job.resv]
        return any(thing.from_s < to_s and from_s < thing.to_s for thing in things)

    def _free_at(
        self, node: int, second: int, gone: Sequence[PlacedJob], there: Sequence[PlacedJob], kept: Sequence[Block]
    ) -> Share:
        free = self.free_now[node]
        for run in gone:
            if node in run.on:
                free = free.plus(run.on[node])
        now_planned = []
        for allocation in there:
            if allocation.running:
                if allocation.to_s <= second:
                    free = free.plus(allocation.on[node])
            elif allocation.from_s <= second < allocation.to_s:
                free = free.plus(allocation.on[node], -1)
                now_planned.append(allocation)
        active = [b for b in kept if b.from_s <= second < b.to_s]
        for resv in sorted({b.resv for b in active}):
            rest = Share(0, 0, (0,) * len(free.gres))
            for block in active:
                if block.resv == resv:
                    rest = rest.plus(block.share._replace(cpu_units=max(block.share.cpu_units, 0)))
            for allocation in now_planned:
                if allocation.resv == resv:
                    rest = rest.plus(allocation.on[node], -1)
            rest = Share(max(rest.cpu_units, 0), max(rest.mem_mb, 0), tuple(max(g, 0) for g in rest.gres))
            free = free.plus(rest, -1)
        return free

    def empty_room(self, node: int) -> Room:
        return Room(self.total[node], True)

    def has_licenses(self, job: ReferenceJob, from_s: int, for_s: int, blocks: bool = True) -> bool:
        """Whether the licenses are free (rule 4)."""
        return all(
            want <= 0 or want <= self._least_licenses(job, kind, from_s, from_s + for_s, blocks)
            for kind, want in enumerate(job.licenses)
        )

    def _least_licenses(self, job: ReferenceJob, kind: int, from_s: int, to_s: int, blocks: bool) -> int:
        kept = [b for b in self.licblocks if blocks and b.kind == kind and b.resv != job.resv]
        least = []
        for second in _turns(from_s, to_s, self.runs, self.planned, kept):
            planned = [h for h in self.planned if h.from_s <= second < h.to_s]
            free = self.free_licenses[kind]
            free += sum(run.licenses[kind] for run in self.runs if run.to_s <= second)
            free -= sum(h.licenses[kind] for h in planned)
            for resv in sorted({b.resv for b in kept}):
                blocked = sum(b.count for b in kept if b.resv == resv and b.from_s <= second < b.to_s)
                free -= max(0, blocked - sum(h.licenses[kind] for h in planned if h.resv == resv))
            least.append(free)
        return min(least)

    # --- time

    def later_times(self, job: ReferenceJob) -> list[int]:
        """Returns the times of rule 0, not rounded: all after now_s."""
        nodes = dict.fromkeys(n for n in job.nodes if self.up[n])
        if job.exclusive & LEAF:
            nodes = dict.fromkeys(other for n in nodes for other in self.leaf[n])
        kinds = [kind for kind, want in enumerate(job.licenses) if want > 0]
        times = [job.earliest_s]
        if job.inside is not None:
            times.append(job.inside[0])
        for allocation in (*self.runs, *self.planned):
            if any(n in nodes for n in allocation.on) or any(allocation.licenses[kind] > 0 for kind in kinds):
                times.append(allocation.to_s)
        times += [b.to_s for b in self.blocks if b.resv != job.resv and b.node in nodes]
        times += [b.to_s for b in self.licblocks if b.resv != job.resv and b.kind in kinds and b.count > 0]
        return [s for s in times if s > self.now_s]

    def later_begins(self, from_s: int) -> list[int]:
        """Returns the times at which something begins that can conflict with what runs since from_s."""
        things: list[_Timed] = [*self.planned, *self.blocks, *self.licblocks]
        return [thing.from_s for thing in things if thing.from_s > from_s]

    # --- allocations

    def take(self, job: ReferenceJob, from_s: int, for_s: int, on: dict[int, Share]) -> PlacedJob:
        if job.exclusive & LEAF:
            nothing = Share(0, 0, (0,) * len(job.gres))
            on = {other: nothing for n in on for other in self.leaf[n]} | on
        allocation = PlacedJob(from_s, from_s + for_s, job.user, job.exclusive, job.resv, job.licenses, on)
        self.put(allocation)
        return allocation

    def put(self, allocation: PlacedJob) -> None:
        self.planned.append(allocation)
        for node in allocation.on:
            self.on_node[node].append(allocation)

    def drop(self, allocation: PlacedJob) -> None:
        self.planned.remove(allocation)
        for node in allocation.on:
            self.on_node[node].remove(allocation)


def _turns(from_s: int, to_s: int, *things: Sequence[_Timed]) -> list[int]:
    """Returns the seconds of [from_s, to_s) at which something can change."""
    edges = [second for some in things for thing in some for second in (thing.from_s, thing.to_s)]
    return sorted(dict.fromkeys([from_s, *(second for second in edges if from_s < second < to_s)]))


def _may_share_nodes(job: ReferenceJob, other: PlacedJob) -> bool:
    """Whether two jobs may be on a node at the same time."""
    if job.exclusive not in (0, 2) or other.exclusive not in (0, 2):
        return False
    return job.user == other.user or (job.exclusive != 2 and other.exclusive != 2)
