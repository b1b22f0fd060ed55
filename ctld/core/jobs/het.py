"""Heterogeneous jobs: several jobs (components) that start together, each with resources of its own kind.

Rules
    - A component is a job like any other, with an id of its own; the ids of one heterogeneous job follow each other. The
      first is the leader: its id is the whole job's, and it alone has the batch script. `JobRequest.het_*` relate the
      components, so that neither a job nor its row needs more fields.
    - All components that have not ended are ready, or none is (lifecycle/ready.py). Ready ones have the same rank, the lowest of
      theirs, so that they are adjacent in the queue: the planner starts such rows together (contract.py,
      rule 8). A pass that would see only some of them sees none (`whole`), and what it starts is started as a whole
      (passes/schedule.py).
    - The script, or the owner's `salloc`, begins when all components have their nodes ready (`is_up`).
    - The end of one component: lifecycle/het_life.py.

Each component has one way to run: of several partitions or alternatives of features the first that could ever satisfy
it. Deliberately absent: arrays of heterogeneous jobs (as in Slurm), and preemption for one.
"""

import numpy as np

from ctld.core.records.job import Job
from ctld.core.state.pending import PendingColumns
from ctld.core.state.state import ClusterState
from penstock.values.jobid import HET_OFFSET_MAX
from penstock.values.states import END_STATES, JobState

#: Components of one job.
COMPONENTS_MAX = HET_OFFSET_MAX + 1
_NOT_UP = (JobState.PENDING, JobState.CONFIGURING)


def members(state: ClusterState, job: Job) -> list[Job]:
    """Returns all components that are in memory, the leader first; of a plain job itself."""
    request = job.request
    if not request.het_job_id:
        return [job]
    ids = range(request.het_job_id, request.het_job_id + request.het_size)
    return [state.jobs[job_id] for job_id in ids if job_id in state.jobs]


def active(state: ClusterState, job: Job) -> list[Job]:
    """Returns the components that have not ended."""
    return [member for member in members(state, job) if member.state not in END_STATES]


def whole_id(job: Job) -> int:
    """Returns the id of the whole job: the leader's, or a plain job's own."""
    return job.request.het_job_id or job.job_id


def component(state: ClusterState, job_id: int, offset: int) -> Job | None:
    """Resolves `12+1` to the component."""
    job = state.jobs.get(job_id + offset)
    if job is None or job.request.het_job_id != job_id or job.request.het_offset != offset:
        return None
    return job


def others_are_up(state: ClusterState, job: Job) -> bool:
    """Whether all other components have their nodes and have finished their prologs."""
    return all(other is job or other.state not in _NOT_UP for other in members(state, job))


def is_up(state: ClusterState, job: Job) -> bool:
    """Whether all of its components have their nodes and have finished their prologs."""
    return job.state not in _NOT_UP and others_are_up(state, job)


def whole(state: ClusterState, rows: np.ndarray) -> np.ndarray:
    """Removes rows of components of which a pass would see only some."""
    het = state.pending.table.het[rows]
    ids, counts = np.unique(het[het > 0], return_counts=True)
    cut = [
        het_id
        for het_id, count in zip(ids.tolist(), counts.tolist(), strict=True)
        if count != sum(job.state is JobState.PENDING for job in of(state, het_id))
    ]
    return rows[~np.isin(het, cut)] if cut else rows


def of(state: ClusterState, het_id: int) -> list[Job]:
    """Returns all components in memory by the leader's id; the leader itself may have been purged already."""
    some = next((job for offset in range(COMPONENTS_MAX) if (job := component(state, het_id, offset))), None)
    return members(state, some) if some is not None else []


def level(pending: PendingColumns, ranks: np.ndarray) -> np.ndarray:
    """Gives the rows of the components of one job a common rank: their lowest."""
    table = pending.table
    rows = ((table.het > 0) & (table.job > 0)).nonzero()[0]
    ids, group = np.unique(table.het[rows], return_inverse=True)
    lowest = np.full(len(ids), np.iinfo(np.int64).max)
    np.minimum.at(lowest, group, ranks[rows])
    ranks[rows] = lowest[group]
    return ranks
