"""Planner input from a few words: tests say what matters to them, everything else has a plain default."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _fastsched import PlanResult, contract

ROW = {
    "nodes_min": 1,
    "nodes_max": 1,
    "ntasks": 1,
    "cpus_per_task": 1,
    "ntasks_per_node": 0,
    "mem_node_mb": -1,
    "mem_cpu_mb": -1,
    "exclusive": 0,
    "count": 1,
}


@dataclass(frozen=True)
class Node:
    cpus: int = 4
    mem_mb: int = 1000
    gres: tuple[int, ...] = (0,)
    used_cpus: int = 0
    used_mem_mb: int = 0
    used_gres: tuple[int, ...] = (0,)
    running_jobs: int = 0
    held_exclusive: bool = False
    up: bool = True


def bits(nodes: Sequence[int], words: int) -> list[int]:
    row = [0] * words
    for node in nodes:
        row[node // 64] |= 1 << (node % 64)
    return row


def columns(
    nodes: Sequence[Node],
    rows: Sequence[dict[str, Any]],
    *,
    kinds: int = 1,
    order: Sequence[int] | None = None,
    starts_max: int = 10_000,
) -> dict[str, Any]:
    """The planner's arguments. A row may name its `nodes` (default: all) and its `gres`."""
    n = len(nodes)
    words = (n + 63) // 64
    masks = [tuple(bits(row.get("nodes", range(n)), words)) for row in rows]
    sets = list(dict.fromkeys(masks))
    made: dict[str, Any] = {
        "free_cpus": [node.cpus - node.used_cpus for node in nodes],
        "free_mem_mb": [node.mem_mb - node.used_mem_mb for node in nodes],
        "free_gres": [[a - b for a, b in zip(node.gres, node.used_gres, strict=True)][:kinds] for node in nodes],
        "total_cpus": [node.cpus for node in nodes],
        "total_mem_mb": [node.mem_mb for node in nodes],
        "total_gres": [node.gres[:kinds] for node in nodes],
        "running_jobs": [node.running_jobs for node in nodes],
        "held_exclusive": [node.held_exclusive for node in nodes],
        "node_order": range(n) if order is None else order,
        "up": [node.up for node in nodes],
        "masks": sets,
        "job_mask": [sets.index(mask) for mask in masks],
        "gres": [tuple(row.get("gres", (0,) * kinds))[:kinds] for row in rows],
    }
    for name, default in ROW.items():
        made[name] = [row.get(name, default) for row in rows]
    width = {"N": n, "G": kinds, "M": len(sets), "W": words, "J": len(rows)}
    arguments: dict[str, Any] = {"starts_max": starts_max}
    for name, (dtype, axes) in contract.COLUMNS.items():
        array = np.array(list(made[name]), dtype).reshape([width[axis] for axis in axes])
        array.setflags(write=False)  # the planner must not need to write
        arguments[name] = array
    return arguments


def starts(result: PlanResult) -> list[tuple[int, dict[int, int]]]:
    """(row, {node: tasks}) of each start, nodes in the order of the result."""
    return [
        (int(row), dict(zip(_part(result, s, "node"), _part(result, s, "tasks"), strict=True)))
        for s, row in enumerate(result.job)
    ]


def _part(result: PlanResult, start: int, column: str) -> list[int]:
    first, end = result.node_first[start], result.node_first[start + 1]
    return [int(x) for x in getattr(result, column)[first:end]]


def reasons(result: PlanResult) -> list[int]:
    return [int(x) for x in result.reason]
