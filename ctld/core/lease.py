"""Proof that a job is dead on a node that has gone silent (reliability rules R3 and R4).

    node lost -> SlurmdTimeout -> DOWN; each of its jobs by its policy:
        stop   COMPLETING; back to the queue when its end there is proved
        keep   goes on as it is, "unreachable"; what really became of it is taken when the node comes back

Silent is not dead. A job is started again only when one of these has shown that its last run is over:
    - the node says so, or comes back with another boot id (node_life);
    - its lease: launched with one, it has stopped itself lease + grace after the last contact, and a margin has passed;
    - the fencing program has cut the node's power (exit 0), or an administrator says DOWN, which is his word for it.
Until then it waits, COMPLETING with NodeDown, and says for what.

Rules
    - A lease counts only on a node that has registered with this controller: what its predecessor's nodes have heard, and
      whether they let leases rest (nodedaemon/lease.py), is not known. So `Step.dead_after_s` is not in the database.
    - A job that may not be requeued has no lease: nobody would start it elsewhere, so nothing is won by stopping it.
    - What a step was launched with counts, whatever the configuration says by now.
"""

from ctld.core import gpu_jobs
from ctld.core.effects import FenceNode
from ctld.core.events import NodeFenced
from ctld.core.model import Job, Node
from ctld.core.state import ClusterState
from ctld.core.step_model import is_live_on
from ctld.core.timers import Timer
from penstock.values.states import JobState, NodeFlag, Reason

US = 1_000_000
#: Of the lease's time comes on top as a margin (60 s of 240): for SIGKILL to do its work, for supervisors that look only
#: now and then (nodedaemon/lease.py: a quarter of this), for clocks that do not run alike.
MARGIN_PART = 4
STOP, KEEP = "stop", "keep"
#: `requeue` is the word of slurm.conf for what a stopped job's fate is.
POLICIES = (STOP, KEEP, "requeue")
#: A fencing program that failed is tried again after this.
FENCE_PAUSE_US = 300 * US


def stops(state: ClusterState, job: Job) -> bool:
    """True when the job gives way on a node that is out of reach, to be started elsewhere."""
    policy = job.request.node_fail_policy or state.config.node_fail_policy
    return job.request.requeue and policy != KEEP


def terms(state: ClusterState, job: Job) -> tuple[int, int]:
    """What a launch of the job carries: after how many seconds without contact it stops itself, and the grace then."""
    lease_s = state.config.lease_time_s
    if not lease_s or not stops(state, job):
        return 0, 0
    return lease_s, state.config.kill_wait_s


def dead_after_s(lease_s: int, grace_s: int) -> int:
    """So long after its node was lost a step with these terms is dead for certain: by default 240 + 30 + 60 s."""
    return lease_s + grace_s + -(-lease_s // MARGIN_PART)


def dead_at_us(node: Node, job: Job) -> int:
    """When all steps of the job on that lost node have stopped themselves for certain; 0 = that is not known."""
    if node.connected or not node.lost_at_us:
        return 0
    live = [step for step in job.steps.values() if is_live_on(step, node.name)]
    if not all(step.dead_after_s for step in live):
        return 0
    longest_s = max((step.dead_after_s for step in live), default=0)
    return node.lost_at_us + longest_s * US


def watch(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """The job waits for proof of its end on that node: set a timer where time alone will bring it, and say so."""
    due_us = dead_at_us(node, job)
    if due_us:
        state.timers.set(max(due_us, now_us), Timer.LEASE, node.name, job.job_id)
        why = f"until its lease on {node.name} has run out"
    else:
        why = f"until {node.name} answers, is fenced, or is set down by an administrator"
    if not gpu_jobs.is_hit(job):
        job.reason_detail = f"It waits {why}: it might still run there."
    state.touch(job)


def unreachable(state: ClusterState, node: Node, job: Job) -> None:
    """The job goes on where nobody sees it."""
    job.reason = Reason.NODE_DOWN
    if not gpu_jobs.is_hit(job):
        job.reason_detail = f"Node {node.name} is unreachable; the job may still run there."
    state.touch(job)


def reachable(state: ClusterState, node: Node) -> None:
    """The node is back: its jobs are what they are."""
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.reason is Reason.NODE_DOWN and job.state is not JobState.COMPLETING:
            job.reason = Reason.NONE
            if not gpu_jobs.is_hit(job):
                job.reason_detail = ""
            state.touch(job)


def want_fence(state: ClusterState, node: Node) -> None:
    """Have the power of a silent node cut, if there is a program for it and a job to be freed by it."""
    if state.config.fence_program and node.jobs and not node.connected and node.flags & NodeFlag.DOWN:
        state.emit(FenceNode(node.name, node.lost_link_id))


def fence_due(state: ClusterState, now_us: int, name: str, link_id: int) -> None:
    """It failed a while ago, or the controller has been restarted meanwhile."""
    node = state.nodes.get(name)
    if node is not None and node.lost_link_id == link_id:
        want_fence(state, node)


def is_proof(state: ClusterState, now_us: int, event: NodeFenced) -> bool:
    """True when the fencing program has shown that nothing runs on the node any more; else it is tried again."""
    node = state.nodes.get(event.node)
    if node is None or node.connected or node.lost_link_id != event.lost_link_id:
        return False  # it came back meanwhile: its own word counts
    if not event.off:
        state.timers.set(now_us + FENCE_PAUSE_US, Timer.FENCE, node.name, node.lost_link_id)
    return event.off
