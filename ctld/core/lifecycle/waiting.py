"""A pending job that waits: its reason, the removal of its rows from the planner's queue, and its entries in the queues
of limits.

Whether it waits is decided elsewhere: by the rules of readiness (obstacles.py, ready.py), or by a pass that was about
to start it (passes/schedule.py). Components of a heterogeneous job are queued together, and wait together.
"""

from ctld.core.jobs import het
from ctld.core.lifecycle.obstacles import limit_reason
from ctld.core.limits import checks
from ctld.core.queue import admit, prediction, priority
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.state.state import ClusterState
from penstock.values.states import JobState, Reason

#: The ranks of a job's rows, None = not in that partition.
Ranks = list[int | None]


def set_reason(state: ClusterState, job: Job, reason: Reason, detail: str | None = None) -> None:
    """Sets the reason to wait; nothing is written when it is unchanged."""
    if job.reason is not reason or (detail is not None and job.reason_detail != detail):
        state.jobs.give_reason(job, reason, job.reason_detail if detail is None else detail)
        state.touch_reason(job)


def leave_queue(state: ClusterState, job: Job) -> None:
    """Removes the rows of a job, and of the components that start with it, from the queue."""
    if not job.request.het_job_id:
        state.pending.set_waiting(job.job_id)
        return
    for member in het.members(state, job):
        if member.state is JobState.PENDING:
            state.pending.set_waiting(member.job_id)


def ranks_of(state: ClusterState, job: Job, reason: Reason | None, is_admitted: bool = False) -> Ranks:
    """Returns the rank of each row in the partitions that admit the job now; with a reason to wait, as if all did.

    `is_admitted`: it is known that all of its partitions do.
    """
    open_to: list[Partition | None] = []
    is_admitted = is_admitted or reason is not None
    for row in state.pending.rows_of(job.job_id):
        partition = state.partition_list[state.pending.partition[row]]
        open_to.append(partition if is_admitted or not admit.wait_reason(state, partition, job) else None)
    return prediction.aged(state, job, priority.ranks(state, job, open_to))


# ---- limits --------------------------------------------------------------------------------------------------------


def wait_in_limits(state: ClusterState, job: Job, ranks: Ranks) -> tuple[Reason | None, Ranks]:
    """Applies limits to a job that nothing else blocks. Returns the reason if they block it in all its partitions, and
    its ranks, None where one of them does. The job waits in their queues."""
    found = checks.wait_for_limits(state, job, max((rank for rank in ranks if rank is not None), default=0))
    if not found:
        return None, ranks
    names = [state.partition_list[state.pending.partition[row]].name for row in state.pending.rows_of(job.job_id)]
    reason = limit_reason(found, [name for name, rank in zip(names, ranks, strict=True) if rank is not None])
    return reason, [None if name in found else rank for name, rank in zip(names, ranks, strict=True)]


def wait_for_limit(state: ClusterState, job: Job, block: checks.LimitBlock) -> None:
    """Makes a job that was about to start wait for that limit, with all components that start with it."""
    members = [job]
    if job.request.het_job_id:
        members = [one for one in het.members(state, job) if one.state is JobState.PENDING]
    first = members[0]
    rank = state.pending.rank_of(first.job_id)
    if rank is None:
        rank = max((one for one in ranks_of(state, first, None) if one is not None), default=0)
    leave_limits(state, first)
    checks.wait(state, first, (block,), rank)
    leave_queue(state, job)
    for member in members:
        set_reason(state, member, block.reason, "")


def leave_limits(state: ClusterState, job: Job) -> None:
    """Removes a job from the queues of limits."""
    if state.limits.ledger is not None and job.job_id in state.limits.ledger.waiting:
        state.limits.ledger.leave(job.job_id)
