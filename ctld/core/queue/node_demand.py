"""Computes a job's demand on each node, on licenses and on unreserved nodes, and when these are released: counts over the
columns.

Nothing here is a decision: the planner alone says when a job starts. A job of several nodes is counted with an even
share of its tasks on each. When a node is free next follows from the time limits of running jobs there, without pending
ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from _fastsched import contract
from ctld.core.jobs.expected_end import UNLIMITED_S
from ctld.core.state.pending import Shape

Bits = npt.NDArray[np.bool_]


class NodeDemand(NamedTuple):
    """The demand of a job in one of its partitions. `masks`: rows of its alternatives; `whole`: of the partition."""

    partition: str
    shape: Shape
    masks: tuple[int, ...]
    whole: int
    kinds: tuple[str, ...]  # names of the GRES columns


class Resource(NamedTuple):
    name: str
    amount: int  # on a node; for cpu: on the smallest node
    nodes_free: int


class NodeSupply(NamedTuple):
    """Supply for one demand: counts of nodes; times in seconds, 0 = not known."""

    partition: str
    nodes_wanted: int
    nodes_total: int
    nodes_qualify: int
    nodes_up: int
    nodes_free: int
    resources: tuple[Resource, ...]
    next_free_s: int
    next_free_node: str
    enough_free_s: int


class LicenseDemand(NamedTuple):
    name: str
    wanted: int


class License(NamedTuple):
    name: str
    wanted: int
    free: int
    enough_s: int  # 0 = not known, or enough now


class ReservedNodes(NamedTuple):
    name: str
    from_s: int
    to_s: int
    nodes: int


def node_set(given: contract.PlanInput, masks: Sequence[int]) -> Bits:
    """Returns the nodes of any of these sets."""
    found = np.zeros(len(given.nodes.up), np.bool_)
    for mask in masks:
        words = np.ascontiguousarray(given.masks[mask]).view(np.uint8)
        found |= np.unpackbits(words, bitorder="little")[: len(found)].astype(np.bool_)
    return found


class _Demand(NamedTuple):
    """The demand by node."""

    cpus: npt.NDArray[np.int64]
    mem_mb: npt.NDArray[np.int64]
    gres: tuple[int, ...]


def _demand(nodes: contract.Nodes, shape: Shape) -> _Demand:
    """Computes the demand on each node: contract rules 1 and 2."""
    share = max(1, -(-shape.ntasks // max(1, shape.nodes_max)))
    quantum = nodes.cpu_quantum.astype(np.int64)
    cpus = -(-share * shape.cpus_per_task // quantum) * quantum * shape.cpu_units
    whole = nodes.total_cpus.astype(np.int64)
    if shape.mem_node_mb >= 0:
        mem_mb = np.full(len(whole), shape.mem_node_mb) if shape.mem_node_mb else nodes.total_mem_mb.copy()
    elif shape.mem_cpu_mb >= 0:
        taken = np.maximum(cpus, whole) if shape.exclusive & 1 else cpus
        mem_mb = taken // max(1, shape.cpu_units) * shape.mem_cpu_mb
    else:
        mem_mb = nodes.total_mem_mb.copy() if shape.exclusive & 1 else np.zeros(len(whole), np.int64)
    return _Demand(np.maximum(cpus, whole) if shape.exclusive & 1 else cpus, mem_mb, shape.gres)


def supply(given: contract.PlanInput, need: NodeDemand, names: tuple[str, ...]) -> NodeSupply:
    """Counts the nodes that qualify, are up, have each resource free and all of them, and when more have."""
    nodes, shape = given.nodes, need.shape
    demand = _demand(nodes, shape)
    kinds = [kind for kind, count in enumerate(demand.gres) if count and need.kinds[kind]]
    enough = (nodes.total_cpus >= demand.cpus) & (nodes.total_mem_mb >= demand.mem_mb)
    enough &= nodes.total_cpus // given.limits.units_per_cpu >= demand.cpus // max(1, shape.cpu_units)
    for kind in kinds:
        enough &= nodes.total_gres[:, kind] >= demand.gres[kind]
    qualify = node_set(given, need.masks) & enough
    up = qualify & (nodes.up == 1)
    has = [("cpu", demand.cpus // max(1, shape.cpu_units), nodes.free_cpus >= demand.cpus)]
    if int(demand.mem_mb.max(initial=0)):
        has.append(("mem", demand.mem_mb, nodes.free_mem_mb >= demand.mem_mb))
    for kind in kinds:
        amount = np.full(len(up), demand.gres[kind])
        has.append((need.kinds[kind], amount, nodes.free_gres[:, kind] >= demand.gres[kind]))
    free = up & ~_closed(given, shape)
    for _, _, enough_free in has:
        free &= enough_free
    resources = tuple(
        Resource(
            name,
            int(amount[qualify].min(initial=1 << 62)) if qualify.any() else int(amount.min(initial=0)),
            int((up & yes).sum()),
        )
        for name, amount, yes in has
    )
    wants_leaf = shape.exclusive & contract.LEAF  # the ends of the leaf's other jobs matter, too
    ends = [] if wants_leaf else _free_again(given, up & ~free, demand, kinds)
    missing = shape.nodes_min - int(free.sum())
    return NodeSupply(
        need.partition, shape.nodes_min, int(node_set(given, [need.whole]).sum()), int(qualify.sum()), int(up.sum()),
        int(free.sum()), resources, ends[0][0] if ends else 0, names[ends[0][1]] if ends else "",
        ends[missing - 1][0] if 0 < missing <= len(ends) else 0,
    )  # fmt: skip


def _closed(given: contract.PlanInput, shape: Shape) -> Bits:
    """Returns the nodes that a job has for itself alone, and those with a job on their leaf switch if this one wants that."""
    running, under = given.running, given.nodes.switches
    closed = np.zeros(len(given.nodes.up), np.bool_)
    parts = (running.part_run >= 0).nonzero()[0]
    nodes = running.part_node[parts]
    if not shape.exclusive & contract.LEAF:
        closed[nodes[running.run_exclusive[running.part_run[parts]] == 1]] = True
        return closed
    closed[nodes] = True
    return np.isin(under[0], under[0][closed]) if len(under) else closed


def _free_again(given: contract.PlanInput, busy: Bits, demand: _Demand, kinds: Sequence[int]) -> list[tuple[int, int]]:
    """Returns (time, node) when each busy node has what is needed, as the jobs there reach their limits; in order of
    time."""
    running = given.running
    nodes = given.nodes
    now_s = given.limits.now_s
    used = (running.part_run >= 0) & busy[running.part_node]
    parts = used.nonzero()[0]
    ends = np.maximum(running.run_end_s[running.part_run[parts]], now_s + 1)
    order = np.lexsort((parts, ends))
    parts, ends = parts[order], ends[order]
    lacks = {
        node: [
            int(demand.cpus[node]) - int(nodes.free_cpus[node]), int(demand.mem_mb[node]) - int(nodes.free_mem_mb[node]),
            *(demand.gres[kind] - int(nodes.free_gres[node, kind]) for kind in kinds),
        ]
        for node in busy.nonzero()[0].tolist()
    }  # fmt: skip
    back = np.column_stack([running.part_cpus[parts], running.part_mem_mb[parts], running.part_gres[parts][:, kinds]])
    found = []
    for end_s, node, amounts in zip(ends.tolist(), running.part_node[parts].tolist(), back.tolist(), strict=True):
        lack = lacks.get(node)
        if lack is None or end_s >= now_s + UNLIMITED_S // 2:  # assumed ends of jobs without a limit
            continue
        for i, amount in enumerate(amounts):
            lack[i] -= amount
        if max(lack) <= 0:
            found.append((end_s, node))
            del lacks[node]
    return found


def licenses(
    free: npt.NDArray[np.int32], running: contract.Running, needs: Sequence[LicenseDemand], now_s: int
) -> tuple[License, ...]:
    """Returns the requested licenses that are not free."""
    found = []
    for kind, need in enumerate(needs):
        if need.wanted <= free[kind]:
            continue
        used = running.run_licenses[:, kind]
        ends = sorted((max(int(running.run_end_s[r]), now_s + 1), int(used[r])) for r in used.nonzero()[0].tolist())
        have, at_s = int(free[kind]), 0
        for end_s, count in ends:
            have += count
            if have >= need.wanted:
                at_s = end_s
                break
        found.append(License(need.name, need.wanted, int(free[kind]), at_s))
    return tuple(found)


def reserved(given: contract.PlanInput, nodes: Bits, names: Sequence[str]) -> tuple[ReservedNodes, ...]:
    """Returns the reservations that take some of these nodes, in the order of their times."""
    r = given.reservations
    found: dict[tuple[int, int, int], dict[int, None]] = {}
    for block in nodes[r.block_node].nonzero()[0].tolist():
        if r.block_to_s[block] > given.limits.now_s:
            key = (int(r.block_from_s[block]), int(r.block_to_s[block]), int(r.block_resv[block]))
            found.setdefault(key, {})[int(r.block_node[block])] = None
    return tuple(
        ReservedNodes(names[resv] if resv < len(names) else f"#{resv}", from_s, to_s, len(members))
        for (from_s, to_s, resv), members in sorted(found.items())
    )
