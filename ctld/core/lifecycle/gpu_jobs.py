"""Effects of a GPU's failure on the jobs that have it.

    END     the job is ended at once. It is requeued if it may be (requeue, MaxBatchRequeue as for every other end), else it
            is FAILED
    MARK    it continues, but its result is not to be trusted: when it ends by itself, it is treated as with END
    NOTE    its owner is notified

An affected job has "GPU_ERROR: <cause>" as its detail (`Job.reason_detail`, which is in its row: a mark survives a
restart of the controller) and in AdminComment, where it is kept for later attempts. The next attempt avoids the node
that failed it, unless no other one could run it.

A job that was cancelled, preempted, reached its time limit or lost its node keeps that end state, marked or not.

A GPU's failure may end a job before the node has diagnosed it. The job keeps its end state then; the cause is added.
"""

from ctld.core.jobs import outcome
from ctld.core.queue.feasibility import can_ever_run
from ctld.core.records.compact_request import with_changes
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.state.shares import GPU, GPU_KINDS, slots_of
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES, JobState, Reason

#: Prefix of a cause, in the job's detail and AdminComment, and in a node's refusal to launch.
GPU_ERROR = "GPU_ERROR: "
#: Maximum length of AdminComment; the oldest notes are dropped first.
COMMENT_MAX = 1024
#: End states that a marked job may reach by itself.
OWN_ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY)


def is_hit(job: Job) -> bool:
    """Whether a GPU has failed the present attempt."""
    return job.reason_detail.startswith(GPU_ERROR)


def comment(state: ClusterState, job: Job, text: str) -> bool:
    """Adds a line to AdminComment. Returns False if it has that line already."""
    if text in job.admin_comment:
        return False
    job.admin_comment = f"{job.admin_comment}; {text}"[-COMMENT_MAX:] if job.admin_comment else text[:COMMENT_MAX]
    state.touch(job)
    return True


def hit(state: ClusterState, job: Job, node: str, text: str) -> None:
    """Marks the attempt as failed by a GPU. If two nodes have failed an attempt, the next one avoids both."""
    if is_hit(job) and job.failed_node != node:
        exclude(state, job, job.failed_node)
    comment(state, job, text)
    outcome.explain(job, text)
    outcome.failed_on(job, node)
    state.touch(job)


def blame(state: ClusterState, job: Job, node: str, why: str) -> bool:
    """Handles a failed launch. Returns True when the job's GPUs caused it, and not the job."""
    if not why.startswith(GPU_ERROR):
        return False
    hit(state, job, node, why)
    return True


def end_of(job: Job) -> tuple[JobState, Reason]:
    """Returns the end state of a job that a GPU has failed."""
    if job.request.requeue:
        return JobState.REQUEUED, Reason.NONE
    return JobState.FAILED, Reason.SYSTEM_FAILURE


def own_end(job: Job, end_state: JobState, reason: Reason) -> tuple[JobState, Reason]:
    """Returns the end state of such a job that has ended by itself."""
    if end_state in OWN_ENDS and job.state in ALLOCATED_STATES and is_hit(job):
        return end_of(job)
    return end_state, reason


def exclude(state: ClusterState, job: Job, node: str) -> None:
    """Excludes the node for the job, unless it can run nowhere else."""
    request = job.request
    if not node or node in request.nodes_excluded:
        return
    without = with_changes(request, nodes_excluded=(*request.nodes_excluded, node))
    if any(can_ever_run(state, state.partitions[name], without) for name in request.partitions):
        state.replace_request(job, without)
        state.touch(job)


def jobs_with_gpu(state: ClusterState, node: Node, slot: int) -> list[Job]:
    """Returns the jobs that have the GPU with that place, or a part of it."""
    jobs = (state.jobs[job_id] for job_id in node.jobs)
    return [job for job in jobs if any(p.node == node.name and slots_of(p) >> slot & 1 for p in job.alloc)]


def take(state: ClusterState, job: Job, node: Node, mask: int) -> None:
    """Removes these GPUs from a job that continues. The caller recomputes its charge and calls `settle` for the node's
    GPUs."""
    parts = []
    for part in job.alloc:
        left = part.gres
        if part.node == node.name:
            left = tuple((name, type_, held & ~mask if name == GPU else held) for name, type_, held in part.gres)
            for name, type_, held in part.gres:
                node.gres_used[name, type_] &= ~(held & mask if name == GPU else 0)
        parts.append(part._replace(gres=tuple(one for one in left if one[2])))
    job.alloc = tuple(parts)
    none = [(column, 0) for kind, column in state.layout.gres_kinds.items() if kind[0] in GPU_KINDS]
    state.running.set_part(job.job_id, node.index, none)
    state.touch(job)
