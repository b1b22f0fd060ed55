"""What a GPU's failure means for the jobs that have it.

    END     the job is ended at once. It runs again if it may (requeue, MaxBatchRequeue as for every other end), else it
            is FAILED
    MARK    it runs on, but its result is not to be trusted: when it ends by itself, that is what becomes of it
    NOTE    its owner is told

A job that has been hit bears "GPU_ERROR: <cause>" as its detail (`Job.reason_detail`, which is in its row: a mark
survives a restart of the controller) and in AdminComment, where it stays for the attempts that follow. The next attempt
does not go to the node that failed it, unless no other one could run it.

One that was cancelled, preempted, at its time limit or on a node that is lost ends as that, marked or not.

A job may end by what its GPU did before the node has found out what that was. Its end stands then; the cause is added.
"""

from ctld.core.feasible import can_ever_run
from ctld.core.model import Job, Node
from ctld.core.plain import with_changes
from ctld.core.shares import GPU, GPU_KINDS, slots_of
from ctld.core.state import ClusterState
from penstock.values.states import HOLDING_STATES, JobState, Reason

#: How a cause begins, in the job's detail and AdminComment, and when a node refuses to launch.
GPU_ERROR = "GPU_ERROR: "
#: Characters of AdminComment that are kept; what was noted first is lost first.
COMMENT_MAX = 1024
#: Ends that a marked job has by itself.
OWN_ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY)


def is_hit(job: Job) -> bool:
    """True when a GPU has failed the present attempt."""
    return job.reason_detail.startswith(GPU_ERROR)


def comment(state: ClusterState, job: Job, text: str) -> bool:
    """Add a line to AdminComment. False = it stands there already."""
    if text in job.admin_comment:
        return False
    job.admin_comment = f"{job.admin_comment}; {text}"[-COMMENT_MAX:] if job.admin_comment else text[:COMMENT_MAX]
    state.touch(job)
    return True


def hit(state: ClusterState, job: Job, node: str, text: str) -> None:
    """Bear the mark. Of two nodes that have failed an attempt the next one is kept from both."""
    if is_hit(job) and job.failed_node != node:
        exclude(state, job, job.failed_node)
    comment(state, job, text)
    job.reason_detail, job.failed_node = text, node
    state.touch(job)


def blame(state: ClusterState, job: Job, node: str, why: str) -> bool:
    """The node could not launch it: True when that was for its GPUs, and the job has nothing to do with it."""
    if not why.startswith(GPU_ERROR):
        return False
    hit(state, job, node, why)
    return True


def end_of(job: Job) -> tuple[JobState, Reason]:
    """What becomes of a job that a GPU has failed."""
    if job.request.requeue:
        return JobState.REQUEUED, Reason.NONE
    return JobState.FAILED, Reason.SYSTEM_FAILURE


def own_end(job: Job, end_state: JobState, reason: Reason) -> tuple[JobState, Reason]:
    """The same, where the job has come to an end by itself."""
    if end_state in OWN_ENDS and job.state in HOLDING_STATES and is_hit(job):
        return end_of(job)
    return end_state, reason


def exclude(state: ClusterState, job: Job, node: str) -> None:
    """The job does not want that node any more, unless it can run nowhere else."""
    request = job.request
    if not node or node in request.nodes_excluded:
        return
    without = with_changes(request, nodes_excluded=(*request.nodes_excluded, node))
    if any(can_ever_run(state, state.partitions[name], without) for name in request.partitions):
        job.request, job.request_id = without, state.new_request(without)
        state.touch(job)


def holders(state: ClusterState, node: Node, slot: int) -> list[Job]:
    """The jobs that have the GPU with that place, or a part of it."""
    jobs = (state.jobs[job_id] for job_id in node.jobs)
    return [job for job in jobs if any(p.node == node.name and slots_of(p) >> slot & 1 for p in job.alloc)]


def take(state: ClusterState, job: Job, node: Node, mask: int) -> None:
    """These GPUs leave a job that goes on. The caller charges anew and settles the node's GPUs."""
    parts = []
    for part in job.alloc:
        left = part.gres
        if part.node == node.name:
            left = tuple((name, type_, held & ~mask if name == GPU else held) for name, type_, held in part.gres)
            for name, type_, held in part.gres:
                node.gres_used[name, type_] &= ~(held & mask if name == GPU else 0)
        parts.append(part._replace(gres=tuple(one for one in left if one[2])))
    job.alloc = tuple(parts)
    none = [(column, 0) for kind, column in state.gres_kinds.items() if kind[0] in GPU_KINDS]
    state.running.set_part(job.job_id, node.index, none)
    state.touch(job)
