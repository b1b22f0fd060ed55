"""Why a job waits: reasons from the planner, and each reason in words.

Whoever adds a reason to wait adds it to TEXT; a test compares TEXT with `Reason`. The planner's reasons are derived
data: they are written only when they change, and jobs that are merely behind others keep `Priority`, so that a pass
over 100,000 jobs touches a few.
"""

from collections.abc import Iterable

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

TEXT: dict[Reason, str] = {
    Reason.NONE: "It has not been looked at yet, or it does not wait.",
    Reason.PRIORITY: "Jobs with a higher priority wait for the same nodes.",
    Reason.RESOURCES: "It is first in line; the resources it asks for are in use.",
    Reason.DEPENDENCY: "It waits for other jobs (see Dependency).",
    Reason.DEPENDENCY_NEVER_SATISFIED: (
        "A job it depends on ended in another way than asked for; it will never start. "
        "Cancel it or change its dependency."
    ),
    Reason.BEGIN_TIME: "Its begin time has not come yet.",
    Reason.JOB_HELD_USER: "Its owner holds it back; scontrol release lets it go.",
    Reason.JOB_HELD_ADMIN: "An administrator holds it back.",
    Reason.JOB_ARRAY_TASK_LIMIT: "As many tasks of its array run as its %limit allows.",
    Reason.PARTITION_DOWN: "Its partition is DOWN: jobs are accepted, none is started.",
    Reason.PARTITION_INACTIVE: "Its partition is INACTIVE.",
    Reason.PARTITION_NODE_LIMIT: "It asks for more or fewer nodes than its partition allows.",
    Reason.PARTITION_TIME_LIMIT: "Its time limit is above its partition's MaxTime.",
    Reason.REQ_NODE_NOT_AVAIL: "Nodes that it needs are down or drained.",
    Reason.BAD_CONSTRAINTS: "No set of nodes of the present configuration can run it.",
    Reason.NODE_DOWN: "A node of it is down; it goes on when it is known that nothing of it runs there any more.",
    Reason.CLEANING: "Its last run is still being cleaned up.",
    Reason.JOB_LAUNCH_FAILURE: "It could not be started.",
    Reason.LAUNCH_FAILED_REQUEUED_HELD: "A node refused to start it; it was queued again and is held. See its story.",
    Reason.JOB_HOLD_MAX_REQUEUE: "It was queued again more than MaxBatchRequeue times.",
    Reason.NON_ZERO_EXIT_CODE: "Its script ended with an exit code other than 0.",
    Reason.RAISED_SIGNAL: "A signal ended it.",
    Reason.TIME_LIMIT: "It reached its time limit.",
    Reason.OUT_OF_MEMORY: "It used more memory than it had been given.",
    Reason.SYSTEM_FAILURE: "The system failed it.",
}


def apply_reasons(
    state: ClusterState, now_us: int, reasons: Iterable[tuple[int, int]], seen: Iterable[int] | None
) -> None:
    """Give ready jobs the planner's reasons. `seen`: the jobs that the pass looked at, None = all.

    `reasons` leaves out `Priority`: a job that the pass saw and that is not among them is merely behind others. What this
    costs goes with what the pass saw, not with how many jobs have some other reason.
    """
    told: dict[int, None] = {}
    closed: dict[int, str] = {}
    for job_id, reason in reasons:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            continue
        told[job_id] = None
        planned = PLANNED[reason]
        _tell(state, job, planned, _closed_nodes(state, job, closed) if planned is Reason.REQ_NODE_NOT_AVAIL else "")
    flagged = state.flagged
    for job_id in list(flagged) if seen is None else [job_id for job_id in seen if job_id in flagged]:
        job = state.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not state.pending.is_ready(job_id):
            flagged.pop(job_id, None)
        elif job_id not in told:
            _tell(state, job, Reason.PRIORITY)


def _tell(state: ClusterState, job: Job, reason: Reason, detail: str = "") -> None:
    if reason is Reason.PRIORITY:
        state.flagged.pop(job.job_id, None)
    else:
        state.flagged[job.job_id] = None
    set_reason(state, job, reason, detail)


def _closed_nodes(state: ClusterState, job: Job, known: dict[int, str]) -> str:
    """Names the nodes that the job could use if they were open.

    Few sets of nodes stand for many jobs: `known` holds the texts of this pass by set, so that 100,000 jobs that wait
    for 1,000 nodes cost a look-up each.
    """
    bits = 0
    for name in job.request.partitions:
        bits |= state.masks.bits[mask_row(state, state.partitions[name], job.request)]
    text = known.get(bits)
    if text is None:
        names = [node.name for node in state.node_list if bits >> node.index & 1 and node.flags & CLOSED_FLAGS]
        text = known[bits] = f"UnavailableNodes:{compress(names)}"
    return text
