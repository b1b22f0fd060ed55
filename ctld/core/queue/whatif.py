"""Hypothetical queries of the planner, about rows that are no jobs, on private copies of the columns.

One pass over the queue costs the same for one probe or a hundred, so all probes are planned together. For that a probe
must not affect the others. A row that may not hold (contract rule 7) takes nothing when it has to wait, but takes
resources when it starts now. So nothing may start now: the queue is settled first, and then planned from a second
before, in which a blocking job holds all that is free.

    answer = plan(question)                  what the next pass would do
    settled = settle(question, answer)       starts run; rows that wait and hold remain, in order; the others are removed
    found = probe_now(settled, probes)       where each would start now, at its position in the queue; None = it would not
    found = probe_later(settled, probes)     when and where it would start later

Later starts are multiples of bf_resolution, and now usually is not: so these are two passes. `probe_later` has the
times of a real pass; `probe_now` plans the preceding rows to the second, and is certain only with `granted`: a real
pass with one more row, which also computes the limit.
"""

from collections.abc import Sequence

# Any: the columns of a table of the planner, of any types
from typing import Any, NamedTuple

import numpy as np

import _fastsched
from _fastsched import contract
from ctld.core.queue.node_demand import Bits
from ctld.core.queue.planning import Rows
from ctld.core.state.pending import NO_DEADLINE, PendingColumns, Shape, Terms

#: Probes have job ids of their own, so that they are not taken for alternatives of each other.
PROBE_JOB = 1 << 40


class Probe(NamedTuple):
    """A hypothetical row. `at`: how many rows of the queue precede it. Rows of one `job` are alternatives of each other; 0 =
    it is alone."""

    at: int
    shape: Shape
    limit_s: int
    limit_min_s: int = 0  # 0 = limit_s
    user: int = -1
    earliest_s: int = 0
    latest_s: int = NO_DEADLINE
    job: int = 0
    copies: int = 1


class WhatIfResult(NamedTuple):
    """The answer of a probe: when and on which nodes (indices)."""

    start_s: int
    nodes: tuple[int, ...]


class Settled(NamedTuple):
    """A queue in which nothing of `given.rows` can start now. `at`: how many rows of the queue precede each."""

    given: contract.PlanInput
    at: Rows


def settle(given: contract.PlanInput, result: contract.PlanResult, at: Rows) -> Settled:
    """Starts what can start, and keeps of the rest the rows that hold something; rows with `at` -1 are dropped."""
    now_s = given.limits.now_s
    jobs = given.jobs._replace(count=given.jobs.count.copy())
    np.subtract.at(jobs.count, given.rows[result.job], 1)
    running = given.running._replace(
        run_end_s=np.maximum(given.running.run_end_s, now_s + 1), run_class=np.full_like(given.running.run_class, -1)
    )  # the victims end within a second, and no other job does
    running.run_end_s[result.victim_run] = now_s + 1
    nodes = given.nodes
    if len(result.job):
        started = _started(given, result)
        nodes, running = _with_running(nodes, running, started)
    free_licenses = given.free_licenses - given.jobs.licenses[given.rows[result.job]].sum(axis=0, dtype=np.int32)
    kept = _reserving(given, result) & (at >= 0)
    return Settled(
        given._replace(nodes=nodes, running=running, jobs=jobs, rows=given.rows[kept], free_licenses=free_licenses),
        at[kept],
    )


def _with_running(
    nodes: contract.Nodes, running: contract.Running, more: contract.Running
) -> tuple[contract.Nodes, contract.Running]:
    """Returns the same with more jobs running."""
    nodes = nodes._replace(
        free_cpus=nodes.free_cpus.copy(), free_mem_mb=nodes.free_mem_mb.copy(), free_gres=nodes.free_gres.copy()
    )
    np.subtract.at(nodes.free_cpus, more.part_node, more.part_cpus)
    np.subtract.at(nodes.free_mem_mb, more.part_node, more.part_mem_mb)
    np.subtract.at(nodes.free_gres, more.part_node, more.part_gres)
    pairs = zip(_whole(running), _whole(more), strict=True)
    return nodes, contract.Running._make(np.concatenate(pair) for pair in pairs)


def _blocked(given: contract.PlanInput, resolution_s: int) -> contract.PlanInput:
    """Returns the same a second earlier, when a blocking job takes all that is free now: so nothing starts in this
    pass."""
    nodes, now_s = given.nodes, given.limits.now_s
    count = len(nodes.up)
    gres, licenses = given.jobs.gres.shape[1], given.jobs.licenses.shape[1]
    blocker: contract.Running = contract.empty("running", R=1, P=count, G=gres, L=licenses)
    blocker.run_end_s[:] = now_s
    blocker.run_user[:] = -1
    blocker.run_class[:] = -1
    blocker.part_run[:] = len(given.running.run_end_s)
    blocker.part_node[:] = np.arange(count)
    blocker.part_cpus[:] = np.maximum(nodes.free_cpus, 0)
    blocker.part_mem_mb[:] = np.maximum(nodes.free_mem_mb, 0)
    blocker.part_gres[:] = np.maximum(nodes.free_gres, 0)
    nodes, running = _with_running(nodes, given.running, blocker)
    limits = given.limits._replace(now_s=now_s - 1, resolution_s=resolution_s, reserve_max=-1, estimate=True)
    return given._replace(nodes=nodes, running=running, limits=limits)


def _whole(table: Any) -> tuple[Any, ...]:
    return tuple(table)


def _reserving(given: contract.PlanInput, result: contract.PlanResult) -> Bits:
    """Returns the rows that wait and reserve resources: contract rule 7."""
    preempting = result.reason == contract.PREEMPTING
    reserving: Bits = (
        (result.start_s >= 0) & (given.jobs.reserve[given.rows] == 1) & (result.reason != contract.STARTED)
    )
    most = given.limits.reserve_max
    if most >= 0:
        reserving &= np.cumsum(reserving) <= most
    reserving |= preempting
    return reserving


def _started(given: contract.PlanInput, result: contract.PlanResult) -> contract.Running:
    """Returns the jobs that start now, as running jobs after the running ones."""
    jobs, rows = given.jobs, given.rows[result.job]
    of_part = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(result.node_first))
    units = result.cpus * jobs.cpu_units[rows[of_part]]
    whole = (jobs.exclusive[rows[of_part]] & 1) == 1
    leaves = (jobs.exclusive[rows] & contract.LEAF) != 0
    started = contract.Running(
        run_end_s=given.limits.now_s + result.limit_s,
        run_user=jobs.user[rows],
        run_exclusive=np.where(leaves, 1, jobs.exclusive[rows]).astype(np.uint8),
        run_class=np.full(len(rows), -1, np.int32),
        run_cost=np.zeros(len(rows), np.int64),
        run_licenses=jobs.licenses[rows],
        part_run=(of_part + len(given.running.run_end_s)).astype(np.int32),
        part_node=result.node,
        part_cpus=np.where(whole, given.nodes.total_cpus[result.node], units).astype(np.int32),
        part_mem_mb=result.mem_mb,
        part_gres=jobs.gres[rows[of_part]],
    )
    return _with_leaves(given, result, started, leaves) if leaves.any() else started


def _with_leaves(
    given: contract.PlanInput, result: contract.PlanResult, started: contract.Running, leaves: Bits
) -> contract.Running:
    """Adds a part of nothing on each other node of the leaf switches that these jobs have for themselves."""
    first = len(given.running.run_end_s)
    runs, nodes = list[int](), list[int]()
    for at in leaves.nonzero()[0].tolist() if len(given.nodes.switches) else ():
        own = result.node[result.node_first[at] : result.node_first[at + 1]]
        under = given.nodes.switches[0]
        others = np.setdiff1d(np.isin(under, under[own]).nonzero()[0], own).tolist()
        runs += [first + at] * len(others)
        nodes += others
    marks: contract.Running = contract.empty("running", P=len(nodes), G=started.part_gres.shape[1])
    marks.part_run[:] = runs
    marks.part_node[:] = nodes
    parts = ("part_run", "part_node", "part_cpus", "part_mem_mb", "part_gres")
    return started._replace(**{name: np.concatenate([getattr(started, name), getattr(marks, name)]) for name in parts})


def probe_now(settled: Settled, probes: Sequence[Probe]) -> list[WhatIfResult | None]:
    """Returns where each would start now; None = it would not."""
    now_s = settled.given.limits.now_s
    return _probe(settled, [p._replace(latest_s=min(p.latest_s, now_s)) for p in probes], 1)


def probe_later(settled: Settled, probes: Sequence[Probe]) -> list[WhatIfResult | None]:
    """Returns when and where each would start if not now; None = no start is known."""
    return _probe(settled, probes, settled.given.limits.resolution_s)


def _probe(settled: Settled, probes: Sequence[Probe], resolution_s: int) -> list[WhatIfResult | None]:
    if not probes:
        return []
    given = settled.given
    order = sorted(range(len(probes)), key=lambda i: (probes[i].at, i))
    base = len(given.jobs.job)
    positions = np.searchsorted(settled.at, np.array([probes[i].at for i in order]))
    rows = np.insert(given.rows, positions, base + np.array(order, np.int64))
    result = _fastsched.plan(
        _blocked(given, resolution_s)._replace(jobs=with_probes(given, probes, reserve=0), rows=rows)
    )
    found: list[WhatIfResult | None] = [None] * len(probes)
    for position in (rows >= base).nonzero()[0].tolist():
        start_s = int(result.start_s[position])
        if start_s >= 0:
            nodes = result.plan_node[result.plan_first[position] : result.plan_first[position + 1]]
            found[int(rows[position]) - base] = WhatIfResult(start_s, tuple(nodes.tolist()))
    return found


def granted(settled: Settled, wanted: Probe) -> tuple[int, tuple[int, ...]] | None:
    """Returns the (limit in seconds, nodes) with which it would start now; None = it would not."""
    given = settled.given
    before = given.rows[: int(np.searchsorted(settled.at, wanted.at))]
    last = len(given.jobs.job)
    result = _fastsched.plan(
        given._replace(
            jobs=with_probes(given, [wanted], reserve=1),
            rows=np.append(before, np.int64(last)),
            limits=given.limits._replace(reserve_max=-1),
        )
    )
    mine = (result.job == len(before)).nonzero()[0]
    if not len(mine):
        return None
    start = int(mine[0])
    nodes = result.node[result.node_first[start] : result.node_first[start + 1]]
    return int(result.limit_s[start]), tuple(nodes.tolist())


def with_probes(given: contract.PlanInput, probes: Sequence[Probe], reserve: int) -> contract.Jobs:
    """Returns the jobs, with the probes after them."""
    columns = PendingColumns(given.jobs.gres.shape[1], given.jobs.licenses.shape[1])
    for number, p in enumerate(probes):
        terms = Terms(p.user, p.limit_s, p.limit_min_s or p.limit_s, p.earliest_s, p.latest_s)
        columns.add(p.job or PROBE_JOB + number, [(0, p.shape)], terms)
    columns.table.reserve[:] = reserve
    jobs = contract.Jobs._make(
        np.concatenate([old, new[: len(probes)]])
        for old, new in zip(_whole(given.jobs), _whole(columns.table), strict=True)
    )
    return jobs._replace(count=np.append(given.jobs.count, np.array([p.copies for p in probes], np.int32)))


def placed(now_s: int, result: contract.PlanResult, position: int) -> tuple[int, tuple[int, ...]]:
    """Returns the (start, nodes) of a row; -1 = no start is known."""
    if result.reason[position] != contract.STARTED:
        nodes = result.plan_node[result.plan_first[position] : result.plan_first[position + 1]]
        return int(result.start_s[position]), tuple(nodes.tolist())
    start = int((result.job == position).nonzero()[0][0])
    return now_s, tuple(result.node[result.node_first[start] : result.node_first[start + 1]].tolist())
