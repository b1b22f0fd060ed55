"""Why a job waits: the planner's reasons. Each reason in words is in `penstock.values.reasons`.

The planner's reasons are derived data: they are written only when they change, and jobs that are merely behind others
keep `Priority`, so that a pass over 100,000 jobs touches a few.
"""

import _fastsched
from ctld.core.model import Job
from ctld.core.ready import mask_row, set_reason
from ctld.core.state import CLOSED_FLAGS, ClusterState
from penstock.values.hostlist import compress
from penstock.values.states import JobState, Reason

#: What the planner says, as Slurm's reason.
PLANNED = {
    _fastsched.RESOURCES: Reason.RESOURCES,
    _fastsched.PRIORITY: Reason.PRIORITY,
    _fastsched.NODES_DOWN: Reason.REQ_NODE_NOT_AVAIL,
    _fastsched.BAD_CONSTRAINTS: Reason.BAD_CONSTRAINTS,
}


def apply_reasons(state: ClusterState, now_us: int, reasons: list[tuple[int, int]], seen: set[int] | None) -> None:
    """Give ready jobs the planner's reasons. `seen`: the jobs that the pass looked at, None = all.

    A job that the pass saw and that is not in `reasons` any more is merely behind others.
    """
    told: dict[int, None] = {}
    for job_id, reason in reasons:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            continue
        told[job_id] = None
        _tell(state, job, PLANNED[reason])
    for job_id in list(state.flagged):
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            del state.flagged[job_id]
        elif job_id not in told and (seen is None or job_id in seen):
            _tell(state, job, Reason.PRIORITY)


def _tell(state: ClusterState, job: Job, reason: Reason) -> None:
    detail = ""
    if reason is Reason.REQ_NODE_NOT_AVAIL:
        detail = f"UnavailableNodes:{compress(_closed_nodes(state, job))}"
    if reason is Reason.PRIORITY:
        state.flagged.pop(job.job_id, None)
    else:
        state.flagged[job.job_id] = None
    set_reason(state, job, reason, detail)


def _closed_nodes(state: ClusterState, job: Job) -> list[str]:
    """Nodes that the job could use if they were open."""
    bits = 0
    for name in job.request.partitions:
        bits |= state.masks.bits[mask_row(state, state.partitions[name], job.request)]
    return [node.name for node in state.node_list if bits >> node.index & 1 and node.flags & CLOSED_FLAGS]
