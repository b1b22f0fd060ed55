"""Planner input from a few words: tests say what matters to them, everything else has a plain default."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from _fastsched import contract
from _fastsched.contract import FOREVER, PlanInput, PlanResult

Planner = Callable[[PlanInput], PlanResult]
NOW_S = 1000
HOUR_S = 3600

#: What a row asks for when a test does not say: one task of one cpu on one node for an hour.
ROW: dict[str, int] = {
    "nodes_min": 1, "nodes_max": 1, "ntasks": 1, "cpus_per_task": 1, "ntasks_per_node": 0, "mem_node_mb": -1,
    "mem_cpu_mb": -1, "exclusive": 0, "user": 0, "count": 1, "cpu_units": 1, "spread": 0, "limit_s": HOUR_S,
    "earliest_s": 0, "latest_s": FOREVER, "reserve": 1, "resv": -1, "preempts": 0, "switches_max": 0, "segment": 0,
    "order_kind": 0, "het": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    cpus: int = 4  # units
    mem_mb: int = 1000
    gres: tuple[int, ...] = (0, 0)
    lost_cpus: int = 0  # not there, though no job has them
    lost_mem_mb: int = 0
    lost_gres: tuple[int, ...] = (0, 0)
    quantum: int = 1
    weight: int = 0
    up: bool = True
    under: tuple[int, ...] = ()  # its switch at each level, leaf first


@dataclass(frozen=True)
class Run:
    """A running job. `on`: {node: cpu units, or (cpu units, memory, *gres)}."""

    on: dict[int, Any]
    end_s: int = NOW_S + HOUR_S
    user: int = 0
    exclusive: int = 0
    kind: int = -1  # run_class
    cost: int = 0
    licenses: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resv:
    """A reservation. Its blocks: (node, cpu units[, memory, *gres]); licenses: {kind: count}."""

    from_s: int = 0
    to_s: int = FOREVER
    nodes: Sequence[int] | None = None
    flex: bool = False
    blocks: Sequence[tuple[int, ...]] = ()
    licenses: dict[int, int] = field(default_factory=dict)


def bits(nodes: Sequence[int], words: int) -> tuple[int, ...]:
    row = [0] * words
    for node in nodes:
        row[node // 64] |= 1 << (node % 64)
    return tuple(row)


def _share(value: Any, kinds: int) -> tuple[int, int, list[int]]:
    cpus, mem_mb, *gres = value if isinstance(value, tuple) else (value, 0)
    return cpus, mem_mb, [*gres, *[0] * kinds][:kinds]


def planner_input(
    nodes: Sequence[Node],
    *rows: dict[str, Any],
    running: Sequence[Run] = (),
    resvs: Sequence[Resv] = (),
    licenses: Sequence[int] = (),
    kinds: int = 2,
    order: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    stop: int = 0,
    **limits: Any,
) -> PlanInput:
    """`licenses` = how many there are of each kind. A row may also name its `nodes`, `groups` [(nodes, count)], `gres`,
    `licenses`, `job` and `limit_min_s` (else limit_s)."""
    n, words = len(nodes), (len(nodes) + 63) // 64
    masks: dict[tuple[int, ...], int] = {}

    def mask(some: Sequence[int] | None) -> int:
        return masks.setdefault(bits(range(n) if some is None else some, words), len(masks))

    values: dict[str, Any] = {name: [row.get(name, default) for row in rows] for name, default in ROW.items()}
    values["job"] = [row.get("job", at + 1) for at, row in enumerate(rows)]
    values["limit_min_s"] = [row.get("limit_min_s", row.get("limit_s", HOUR_S)) for row in rows]
    values["gres"] = [[*row.get("gres", ()), *[0] * kinds][:kinds] for row in rows]
    values["licenses"] = [[*row.get("licenses", ()), *[0] * len(licenses)][: len(licenses)] for row in rows]
    values["mask"] = [mask(row.get("nodes")) for row in rows]
    sets = list(dict.fromkeys(tuple((tuple(m), c) for m, c in row["groups"]) for row in rows if row.get("groups")))
    values["group"] = [
        sets.index(tuple((tuple(m), c) for m, c in row["groups"])) if row.get("groups") else -1 for row in rows
    ]
    entries = [(mask(some), count) for entry in sets for some, count in entry]

    parts = [(at, node, *_share(what, kinds)) for at, run in enumerate(running) for node, what in run.on.items()]
    values.update(
        total_cpus=[node.cpus for node in nodes],
        total_mem_mb=[node.mem_mb for node in nodes],
        total_gres=[node.gres[:kinds] for node in nodes],
        free_cpus=[x.cpus - x.lost_cpus - sum(p[2] for p in parts if p[1] == i) for i, x in enumerate(nodes)],
        free_mem_mb=[x.mem_mb - x.lost_mem_mb - sum(p[3] for p in parts if p[1] == i) for i, x in enumerate(nodes)],
        free_gres=[
            [x.gres[g] - x.lost_gres[g] - sum(p[4][g] for p in parts if p[1] == i) for g in range(kinds)]
            for i, x in enumerate(nodes)
        ],
        cpu_quantum=[node.quantum for node in nodes],
        order=range(n) if order is None else order,
        weight_class=[node.weight for node in nodes],
        up=[node.up for node in nodes],
        switches=[
            [node.under[level] for node in nodes] for level in range(min((len(x.under) for x in nodes), default=0))
        ],
        run_end_s=[run.end_s for run in running],
        run_user=[run.user for run in running],
        run_exclusive=[run.exclusive for run in running],
        run_class=[run.kind for run in running],
        run_cost=[run.cost for run in running],
        run_licenses=[[*run.licenses, *[0] * len(licenses)][: len(licenses)] for run in running],
    )
    for at, name in enumerate(("part_run", "part_node", "part_cpus", "part_mem_mb", "part_gres")):
        values[name] = [part[at] for part in parts]
    values.update(
        resv_from_s=[resv.from_s for resv in resvs],
        resv_to_s=[resv.to_s for resv in resvs],
        resv_mask=[mask(resv.nodes) for resv in resvs],
        resv_flex=[resv.flex for resv in resvs],
    )
    blocks = [
        (at, block[0], resv.from_s, resv.to_s, *_share((*block[1:], 0) if len(block) == 2 else block[1:], kinds))
        for at, resv in enumerate(resvs)
        for block in resv.blocks
    ]
    for at, name in enumerate(("resv", "node", "from_s", "to_s", "cpus", "mem_mb", "gres")):
        values[f"block_{name}"] = [block[at] for block in blocks]
    kept = [(at, k, c, resv.from_s, resv.to_s) for at, resv in enumerate(resvs) for k, c in resv.licenses.items()]
    for at, name in enumerate(("resv", "kind", "count", "from_s", "to_s")):
        values[f"licblock_{name}"] = [block[at] for block in kept]
    values.update(
        rows=range(len(rows)) if ranks is None else ranks,
        masks=list(masks),
        group_first=[0, *np.cumsum([len(entry) for entry in sets])],
        group_mask=[m for m, _ in entries],
        group_count=[c for _, c in entries],
        free_licenses=[
            have - sum([*run.licenses, *[0] * len(licenses)][k] for run in running) for k, have in enumerate(licenses)
        ],
        stop=[stop],
    )
    return from_columns(
        values,
        contract.PlanLimits(**{"now_s": NOW_S, **limits}),
        {
            "N": n, "G": kinds, "S": len(values["switches"]), "R": len(running), "L": len(licenses), "P": len(parts),
            "V": len(resvs), "B": len(blocks), "F": len(kept), "J": len(rows), "Q": len(values["rows"]),
            "M": len(masks), "W": words, "E": len(sets) + 1, "D": len(entries), "1": 1,
        },
    )  # fmt: skip


def from_columns(values: dict[str, Any], limits: contract.PlanLimits, lengths: dict[str, int]) -> PlanInput:
    """Columns as the contract wants them, and read-only: the planner must not need to write."""
    tables: dict[str, Any] = {}
    for group, columns in contract.GROUPS.items():
        made: dict[str, np.ndarray] = {}
        for name, (dtype, axes) in columns.items():
            made[name] = np.array(list(values[name]), dtype).reshape([lengths[axis] for axis in axes])
            made[name].setflags(write=False)
        tables[group] = made
    kinds = {
        "nodes": contract.Nodes, "running": contract.Running, "reservations": contract.Reservations,
        "jobs": contract.Jobs,
    }  # fmt: skip
    return PlanInput(**{group: kind(**tables[group]) for group, kind in kinds.items()}, **tables[""], limits=limits)


def column_names(group: str) -> list[str]:
    return list(contract.GROUPS[group])


def replaced(given: PlanInput, **columns: Any) -> PlanInput:
    """The input with some columns of whichever table changed."""
    for name, value in columns.items():
        group = next((g for g, names in contract.GROUPS.items() if name in names), "")
        table = getattr(given, group)._replace(**{name: value}) if group else value
        given = given._replace(**{group or name: table})
    return given


@dataclass(frozen=True)
class Start:
    row: int  # position
    on: dict[int, int]  # tasks by node, in the order of the result
    cpus: tuple[int, ...]
    mem_mb: tuple[int, ...]
    limit_s: int


def starts(result: PlanResult) -> list[Start]:
    answer = []
    for s, row in enumerate(result.job.tolist()):
        a, b = int(result.node_first[s]), int(result.node_first[s + 1])
        on = dict(zip(result.node[a:b].tolist(), result.tasks[a:b].tolist(), strict=True))
        cpus, mem_mb = tuple(result.cpus[a:b].tolist()), tuple(result.mem_mb[a:b].tolist())
        answer.append(Start(row, on, cpus, mem_mb, int(result.limit_s[s])))
    return answer


def plans(result: PlanResult) -> list[list[int]]:
    """The nodes of each position's first waiting copy."""
    first = result.plan_first.tolist()
    return [result.plan_node[a:b].tolist() for a, b in pairwise(first)]


def victims(result: PlanResult) -> list[tuple[int, int]]:
    return list(zip(result.victim_row.tolist(), result.victim_run.tolist(), strict=True))


def planner(module: str) -> Planner:
    """The planner of this module; skips the test where it was not compiled."""
    if module == "_fastsched.plan":
        pytest.importorskip(module, reason="the planner was not compiled")
    found: Planner = importlib.import_module(module).plan
    return found
