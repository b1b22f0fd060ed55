"""Could this request ever run, and could it run now? Asked of the planner with one row.

So that there is one opinion only.
"""

from typing import Any

import numpy as np

from _fastsched import plan
from ctld.core.columns import Shape
from ctld.core.model import JobRequest, Partition
from ctld.core.ready import mask_bits, shapes
from ctld.core.state import ClusterState
from penstock.values.gres import Gres, format_node_gres

#: Answers of `can_ever_run` that are kept, by shape; beyond it they are computed anew.
FEASIBLE_MAX = 10_000


def _plan_alone(state: ClusterState, shape: Shape, empty: bool) -> tuple[str, ...]:
    """Names of the nodes where the shape starts when nothing else waits; `empty`.

    When nothing runs and all nodes are up.
    """
    c = state.node_columns
    nodes: tuple[Any, ...] = c.views()
    if empty:
        nodes = (
            c.total_cpus, c.total_mem_mb, c.total_gres, c.total_cpus, c.total_mem_mb, c.total_gres,
            np.zeros_like(c.running_jobs), np.zeros_like(c.held_exclusive), c.order, np.ones_like(c.up),
        )  # fmt: skip
    mask = state.masks.array()[shape.mask : shape.mask + 1]
    rows: list[Any] = [np.zeros(1, np.int32), *(np.array([v], np.int32) for v in shape[1:6])]
    rows += [np.array([shape.mem_node_mb], np.int64), np.array([shape.mem_cpu_mb], np.int64)]
    rows += [np.array([shape.gres], np.int32).reshape(1, -1), np.array([shape.exclusive], np.uint8)]
    inputs: list[Any] = [*nodes, mask, *rows, np.ones(1, np.int32), 1]
    result = plan(*inputs)
    return tuple(state.node_list[i].name for i in result.node)


def can_ever_run(state: ClusterState, partition: Partition, request: JobRequest) -> bool:
    """True when the configured nodes of the partition could run it, if they were all up and empty."""
    shape = shape_in(state, partition, request)
    known = state.feasible.get(shape)
    if known is None:
        known = bool(_plan_alone(state, shape, True))
        if len(state.feasible) < FEASIBLE_MAX:
            state.feasible[shape] = known
    return known


def on_offer(state: ClusterState, partition: Partition, request: JobRequest) -> str:
    """In words, the most that a node has of each resource, for who asked for what no set of nodes can give."""
    bits, columns = mask_bits(state, partition, request), state.node_columns
    chosen = [i for i in range(len(state.node_list)) if bits >> i & 1]
    if not chosen:
        return f"partition {partition.name} has no matching node"
    kinds = [kind for kind in state.gres_kinds if kind[1]] or list(state.gres_kinds)
    counts = ((kind, int(columns.total_gres[chosen, state.gres_kinds[kind]].max())) for kind in kinds)
    gres = format_node_gres(tuple(Gres(name, type_, count) for (name, type_), count in counts if count))
    nodes = "node, with" if len(chosen) == 1 else "nodes, each with"
    most = f"{columns.total_cpus[chosen].max()} CPUs, {columns.total_mem_mb[chosen].max()} MB"
    return f"partition {partition.name} has {len(chosen)} matching {nodes} at most {most}{f', {gres}' if gres else ''}"


def where_now(state: ClusterState, partition: Partition, request: JobRequest) -> tuple[str, ...]:
    """The nodes where it could start at once; empty = nowhere."""
    return _plan_alone(state, shape_in(state, partition, request), False)


def shape_in(state: ClusterState, partition: Partition, request: JobRequest) -> Shape:
    """The request's shape in one of its partitions."""
    return next(s for i, s in shapes(state, request) if state.partition_list[i] is partition)
