"""Could this request ever run, and could it run now? Asked of the planner with one row, so that there is one opinion only."""

import numpy as np

from ctld.core.columns import MaskTable, PendingColumns
from ctld.core.model import JobRequest, Partition
from ctld.core.ready import mask_bits, shapes
from ctld.core.state import ClusterState


def _plan_alone(state: ClusterState, partition: Partition, request: JobRequest, empty: bool) -> tuple[str, ...]:
    """Names of the nodes where the request starts when nothing else waits; `empty`: when nothing runs and all nodes are up."""
    from _fastsched import plan

    masks = MaskTable(len(state.node_list))
    masks.add(0, mask_bits(state, partition, request))
    index = state.partition_list.index(partition)
    shape = next(s for i, s in shapes(state, request) if i == index)._replace(mask=0)
    alone = PendingColumns(len(state.gres_kinds))
    alone.add(1, [(index, shape)])
    c = state.node_columns
    nodes = c.views()
    if empty:
        up = np.ones_like(c.up)
        nodes = (
            c.total_cpus, c.total_mem_mb, c.total_gres, c.total_cpus, c.total_mem_mb, c.total_gres,
            np.zeros_like(c.running_jobs), np.zeros_like(c.held_exclusive), c.order, up,
        )  # fmt: skip
    result = plan(*nodes, masks.array(), *alone.take(np.zeros(1, np.int64)), 1)
    return tuple(state.node_list[i].name for i in result.node)


def can_ever_run(state: ClusterState, partition: Partition, request: JobRequest) -> bool:
    """True when the configured nodes of the partition could run it, if they were all up and empty."""
    return bool(_plan_alone(state, partition, request, True))


def where_now(state: ClusterState, partition: Partition, request: JobRequest) -> tuple[str, ...]:
    """The nodes where it could start at once; empty = nowhere."""
    return _plan_alone(state, partition, request, False)
