"""The planner's rules in plain Python: the oracle for the compiled planner, and its replacement where nothing was compiled.

The rules are the text of contract.py; this is the simplest program that implements them. It keeps one list of everything
that holds resources (reference_world), chooses nodes from their free resources (reference_choose), tries one time after the
other (reference_fit), and handles the rows here: rules 6, 7, 8 and 10. It shares no code with the compiled form except the
contract. Its cost is about rows x times x nodes x allocations: meant for tests and small clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from _fastsched import contract
from _fastsched.contract import (
    BAD_CONSTRAINTS,
    DEADLINE,
    FOREVER,
    LICENSES,
    NODES_DOWN,
    NOT_TESTED,
    PREEMPTING,
    PRIORITY,
    RESERVED,
    RESOURCES,
    STARTED,
    PlanInput,
    PlanResult,
)
from _fastsched.reference_choose import Chosen, cpus_named, takes
from _fastsched.reference_fit import allocate, first_later, fit, fit_all, fits_empty, lengthen, preempt
from _fastsched.reference_world import ReferenceJob, World

#: Reasons of rows whose nodes count for PRIORITY.
_WAITING = (PREEMPTING, LICENSES, RESERVED, PRIORITY, RESOURCES)

_Unit = list[
    tuple[int, ReferenceJob]
]  # (position in rows, row): alternatives, or the components of a heterogeneous job


class _PassEnds(Exception):
    """A limit of the pass was reached inside a row."""


@dataclass(slots=True)
class _Out:
    reason: list[int]
    start_s: list[int]
    plan_node: list[list[int]]
    victims: list[list[int]]
    job: list[int] = field(default_factory=list)
    limit_s: list[int] = field(default_factory=list)
    node_first: list[int] = field(default_factory=lambda: [0])
    node: list[int] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    mem_mb: list[int] = field(default_factory=list)

    def result(self) -> PlanResult:
        i32 = np.int32
        return PlanResult(
            job=np.array(self.job, i32),
            node_first=np.array(self.node_first, i32),
            node=np.array(self.node, i32),
            cpus=np.array(self.cpus, i32),
            tasks=np.array(self.tasks, i32),
            mem_mb=np.array(self.mem_mb, np.int64),
            limit_s=np.array(self.limit_s, np.int64),
            reason=np.array(self.reason, np.uint8),
            start_s=np.array(self.start_s, np.int64),
            plan_first=np.cumsum([0, *map(len, self.plan_node)], dtype=i32),
            plan_node=np.array([n for nodes in self.plan_node for n in nodes], i32),
            victim_row=np.array([at for at, runs in enumerate(self.victims) for _ in runs], i32),
            victim_run=np.array([run for runs in self.victims for run in runs], i32),
        )


def _load(given: PlanInput, world: World, row: int) -> ReferenceJob:
    values = {name: getattr(given.jobs, name)[row].tolist() for name in given.jobs._fields}
    mask, resv = values.pop("mask"), values["resv"]
    nodes, inside = world.sets[mask], None
    if resv >= 0 and not given.reservations.resv_flex[resv]:
        of_resv = world.sets[given.reservations.resv_mask[resv]]
        nodes = [n for n in nodes if n in of_resv]
        inside = (int(given.reservations.resv_from_s[resv]), int(given.reservations.resv_to_s[resv]))
    values["gres"], values["licenses"] = tuple(values["gres"]), tuple(values["licenses"])
    return ReferenceJob(row=row, nodes=tuple(nodes), inside=inside, **values)


def _units(jobs: Sequence[ReferenceJob]) -> Iterator[_Unit]:
    """Returns the groups of adjacent rows that belong together (rule 8)."""
    unit: _Unit = []
    for position, job in enumerate(jobs):
        if unit:
            last = unit[-1][1]
            together = job.het == last.het if last.het > 0 else job.het <= 0 and job.job == last.job
            if not together:
                yield unit
                unit = []
        unit.append((position, job))
    if unit:
        yield unit


def plan(given: PlanInput) -> PlanResult:
    """Plans a pass: starts, expected starts, reasons. Raises ValueError for columns that do not fit together."""
    contract.check(given)
    return _Pass(given).run()


class _Pass:
    def __init__(self, given: PlanInput) -> None:
        self.given = given
        self.limits = given.limits
        self.now_s = given.limits.now_s
        self.world = World(given)
        rows = given.rows.tolist()
        self.jobs = [_load(given, self.world, row) for row in rows]
        self.out = _Out([NOT_TESTED] * len(rows), [-1] * len(rows), [[] for _ in rows], [[] for _ in rows])
        self.reserved = 0
        self.started: dict[int, int] = {}  # job: copies; 0 = it was considered
        self.preempting: dict[int, bool] = {}
        self.waited_for: dict[int, bool] = {}  # nodes in the masks of waiting rows

    def run(self) -> PlanResult:
        for unit in _units(self.jobs):
            past = unit[-1][0] >= self.limits.rows_max
            if past or self.given.stop[0] or len(self.out.job) >= self.limits.starts_max:
                break
            try:
                self._unit(unit)
            except _PassEnds:
                break
        return self.out.result()

    def _unit(self, unit: _Unit) -> None:
        again = any(job.job in self.started for _, job in unit)
        if unit[0][1].het > 0:
            self._heterogeneous(unit, again)
        else:
            self._alternatives(unit, again)
        for _, job in unit:
            self.started.setdefault(job.job, 0)
        for position, job in unit:
            if self.out.reason[position] in _WAITING:
                self.waited_for.update(dict.fromkeys(job.nodes, True))

    # --- rules 6 and 8: alternatives, each with copies

    def _alternatives(self, unit: _Unit, again: bool) -> None:
        name = unit[0][1].job
        left = unit[0][1].count - self.started.get(name, 0)
        if left <= 0 or name in self.preempting:
            return
        here = self._start_copies(unit, left)
        if self.started.get(name, 0) == unit[0][1].count:
            for position in here:
                self._decide(position, STARTED, self.now_s)
            return
        reasons = {position: self._reason(job) for position, job in unit}
        able = [(p, job) for p, job in unit if reasons[p] not in (BAD_CONSTRAINTS, NODES_DOWN)]
        start_s = {}
        planned: dict[int, bool] = {}
        if not again:
            who = self._preempt(able)
            if who is not None:
                start_s[who] = self.now_s
                reasons[who] = PREEMPTING
            else:
                start_s, planned = self._plan_copies(able, left - sum(here.values()))
        for position, job in unit:
            reason = reasons[position]
            if reason not in (BAD_CONSTRAINTS, NODES_DOWN) and planned.get(position) is False and self._too_late(job):
                reason = DEADLINE
            self._decide(position, reason, start_s.get(position, -1))

    def _start_copies(self, unit: _Unit, left: int) -> dict[int, int]:
        """Returns how many copies each position started: rule 6, first half."""
        here: dict[int, int] = {}
        for _ in range(left):
            if len(self.out.job) >= self.limits.starts_max:
                raise _PassEnds
            found = [
                (p, job, chosen)
                for p, job in unit
                if job.makes_sense() and (chosen := fit(self.world, job, self.now_s))
            ]
            if not found:
                break
            position, job, chosen = found[0]
            self._start([(position, job)], [chosen])
            here[position] = here.get(position, 0) + 1
        return here

    def _plan_copies(self, able: _Unit, left: int) -> tuple[dict[int, int], dict[int, bool]]:
        """Returns the winner's start, and for each planned position whether it has a start: rules 6 and 7."""
        may_reserve = self._may_reserve()
        start_s: dict[int, int] = {}
        planned: dict[int, bool] = {}
        not_before_s = self.now_s
        for copy in range(min(left, self.limits.copies_max)):
            best: tuple[int, int, ReferenceJob, Chosen] | None = None
            for position, job in able:
                if not (job.reserve and may_reserve) and not self.limits.estimate:
                    continue
                found = first_later(self.world, [job], self.limits, not_before_s)
                if copy == 0:
                    planned[position] = found is not None
                if found is not None and (best is None or found[0] < best[0]):
                    best = found[0], position, job, found[1][0]
            if best is None:
                break
            not_before_s, position, job, chosen = best
            if copy == 0:
                start_s[position] = not_before_s
                self._name_plan([position], [chosen])
            if not (job.reserve and may_reserve):
                break
            allocate(self.world, job, not_before_s, chosen)
            if copy == 0:
                self.reserved += 1
        return start_s, planned

    def _preempt(self, able: _Unit) -> int | None:
        """Returns the position that preempts (rule 9)."""
        for position, job in able:
            found = preempt(self.world, job)
            if found is not None:
                self._name_plan([position], [found.chosen])
                self.out.victims[position] = found.victims
                for index in found.victims:
                    victim = self.world.runs[index]
                    victim.to_s = self.now_s + 1
                    self.world.victims.append(victim)
                allocate(self.world, job, self.now_s, found.chosen)
                self.reserved += 1
                self.preempting[job.job] = True
                return position
        return None

    # --- rule 8: heterogeneous jobs

    def _heterogeneous(self, unit: _Unit, again: bool) -> None:
        jobs = [job for _, job in unit]
        if any(job.count < 1 or self.started.get(job.job, 0) or job.job in self.preempting for job in jobs):
            return
        chosen = fit_all(self.world, jobs, self.now_s) if all(job.makes_sense() for job in jobs) else []
        if chosen:
            if len(self.out.job) + len(unit) > self.limits.starts_max:
                raise _PassEnds
            self._start(unit, chosen)
            for position, _ in unit:
                self._decide(position, STARTED, self.now_s)
            return
        reasons = [self._reason(job) for job in jobs]
        may_reserve = self._may_reserve() and all(job.reserve for job in jobs)
        able = not any(reason in (BAD_CONSTRAINTS, NODES_DOWN) for reason in reasons)
        planned = able and not again and (may_reserve or self.limits.estimate)
        found = first_later(self.world, jobs, self.limits, self.now_s) if planned else None
        for (position, job), reason in zip(unit, reasons, strict=True):
            late = planned and found is None and self._too_late(job)
            self._decide(position, DEADLINE if late else reason, found[0] if found else -1)
        if found:
            self._name_plan([position for position, _ in unit], found[1])
            if may_reserve:
                self.reserved += 1
                for job, on in zip(jobs, found[1], strict=True):
                    allocate(self.world, job, found[0], on)

    # --- what is decided

    def _may_reserve(self) -> bool:
        return self.limits.reserve_max < 0 or self.reserved < self.limits.reserve_max

    def _start(self, unit: _Unit, chosen: Sequence[Chosen]) -> None:
        """Starts the whole unit at once; limits are extended when all rows have their nodes."""
        out = self.out
        if len(out.node) + sum(map(len, chosen)) > contract.PLACEMENTS_MAX:
            raise _PassEnds
        allocations = [allocate(self.world, job, self.now_s, on) for (_, job), on in zip(unit, chosen, strict=True)]
        for (position, job), on, allocation in zip(unit, chosen, allocations, strict=True):
            for node, tasks in on:
                out.node.append(node)
                out.cpus.append(cpus_named(job, self.world, node, tasks))
                out.tasks.append(tasks)
                out.mem_mb.append(takes(job, self.world, node, tasks).mem_mb)
            out.job.append(position)
            out.node_first.append(len(out.node))
            out.limit_s.append(lengthen(self.world, job, allocation))
            self.started[job.job] = self.started.get(job.job, 0) + 1

    def _name_plan(self, positions: Sequence[int], chosen: Sequence[Chosen]) -> None:
        if sum(map(len, self.out.plan_node)) + sum(map(len, chosen)) > contract.PLACEMENTS_MAX:
            raise _PassEnds
        for position, on in zip(positions, chosen, strict=True):
            self.out.plan_node[position] = [node for node, _ in on]

    def _decide(self, position: int, reason: int, start_s: int) -> None:
        self.out.reason[position] = reason
        self.out.start_s[position] = start_s

    # --- rule 10

    def _too_late(self, job: ReferenceJob) -> bool:
        """Whether DEADLINE applies to a row that was planned without a start."""
        return job.latest_s < min(self.now_s + self.limits.window_s, FOREVER)

    def _reason(self, job: ReferenceJob) -> int:
        """Returns the reason, except PREEMPTING and DEADLINE of a planned row."""
        world, now_s = self.world, self.now_s
        if not job.makes_sense() or not fits_empty(world, job, up_only=False):
            return BAD_CONSTRAINTS
        if not fits_empty(world, job, up_only=True):
            return NODES_DOWN
        if job.latest_s < max(now_s, job.earliest_s):
            return DEADLINE
        if not fit(world, job, now_s):
            if fit(world, job, now_s, licenses=False):
                return LICENSES
            if fit(world, job, now_s, blocks=False):
                return RESERVED
        if job.inside is not None and job.inside[0] > now_s:
            return RESERVED
        if all(n in self.waited_for for n in job.nodes if world.up[n]):
            return PRIORITY
        return RESOURCES
