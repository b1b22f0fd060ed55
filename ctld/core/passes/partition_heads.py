"""Finds the first waiting job of each partition to which the first jobs of partitions before it leave too few nodes.

Slurm starts no job on nodes for which a partition's first job waits, and says so of the first job of each partition
after that, in place of Resources or Priority. Here such a job may start where it delays none of those before it; only
the words are Slurm's.

Rules
- Only jobs that the planner lets wait for nodes count: not those that wait for a license, a reservation or a deadline.
- A job that names nodes keeps the planner's reason: Slurm would call nodes unavailable that are up.
- A pass with rows of one partition costs one comparison, others a sort of the partitions' numbers.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from _fastsched import contract
from ctld.core.state.pending import PendingColumns
from ctld.core.state.state import ClusterState

#: Reasons of rows for which no node is kept.
_OTHER_CAUSES = frozenset((contract.BAD_CONSTRAINTS, contract.LICENSES, contract.RESERVED, contract.DEADLINE))
NONE: frozenset[int] = frozenset()


def find_left_out(
    state: ClusterState, rows: npt.NDArray[np.int64], reasons: Sequence[tuple[int, int]]
) -> frozenset[int]:
    """Returns such jobs. `rows`: those that the pass saw, in order of rank; `reasons`: what the planner said of them."""
    pending = state.pending
    partitions = pending.partition[rows]
    if not len(rows) or (partitions == partitions[0]).all():
        return NONE
    others = [job_id for job_id, reason in reasons if reason in _OTHER_CAUSES]
    counts = (pending.table.resv[rows] < 0) & ~np.isin(pending.table.job[rows], others)
    rows, partitions = rows[counts], partitions[counts]
    up = int.from_bytes(np.packbits(state.node_columns.up != 0, bitorder="little").tobytes(), "little")
    taken = 0
    is_out: dict[int, bool] = {}
    for row in _heads(pending, rows, partitions):
        job_id = int(pending.table.job[row])
        wanted = state.layout.masks.bits[pending.table.mask[row]]
        left = (wanted & up & ~taken).bit_count()
        is_out.setdefault(job_id, taken != 0 and left < max(int(pending.table.nodes_min[row]), 1))
        taken |= wanted
    return frozenset(job_id for job_id, out in is_out.items() if out and not _names_nodes(state, job_id))


def _heads(pending: PendingColumns, rows: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]) -> list[int]:
    """Returns the first row of each partition that is still ready, in order of rank: only those that the pass has started
    are examined one by one.
    """
    places = []
    for partition in np.unique(partitions):
        there = np.flatnonzero(partitions == partition)
        places.append(next((place for place in there if pending.rank_of_row(int(rows[place])) is not None), -1))
    return [int(rows[place]) for place in sorted(places) if place >= 0]


def _names_nodes(state: ClusterState, job_id: int) -> bool:
    job = state.jobs.look(job_id)
    return job is None or bool(job.request.nodes_required)
