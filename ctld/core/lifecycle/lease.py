"""Proof that a job is dead on a node that has gone silent (reliability rules R3 and R4).

    node lost -> SlurmdTimeout -> DOWN; each of its jobs by its policy:
        stop   COMPLETING; requeued when its end there is proved
        keep   continues, "unreachable"; its real outcome is reported when the node returns

Silent does not mean dead. A job is started again only when one of these has proved that its last run is over:
    - the node reports it, or returns with another boot id (nodes/life.py);
    - its lease: launched with one, it has stopped itself lease + grace after the last contact, and a margin has passed;
    - the fencing program has cut the node's power (exit 0), or an administrator sets DOWN, which asserts the same.
Until then it waits, COMPLETING with NodeDown, and its reason names the missing proof.

Rules
    - A lease counts only on a node that has registered with this controller: which contacts a previous controller had,
      and whether its nodes suspend leases (nodedaemon/base/lease.py), is unknown. So `Step.dead_after_s` is not stored.
    - A job that may not be requeued has no lease: it would not be started elsewhere, so stopping it gains nothing.
    - The terms at the launch of a step apply, even if the configuration has changed since.
"""

from ctld.core.jobs import outcome
from ctld.core.lifecycle import gpu_jobs
from ctld.core.records.effects import FenceNode
from ctld.core.records.events import NodeFenced
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.step import is_live_on
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import JobState, NodeFlag, Reason

US = 1_000_000
#: Margin as a part of the lease's time (60 s of 240): for SIGKILL to take effect, for the polling interval of
#: supervisors (nodedaemon/base/lease.py: a quarter of this), and for clock drift.
MARGIN_PART = 4
STOP, KEEP = "stop", "keep"
#: `requeue` is the value of slurm.conf for jobs that are stopped.
POLICIES = (STOP, KEEP, "requeue")
#: Delay before a failed fencing program is run again.
FENCE_PAUSE_US = 300 * US


def stops(state: ClusterState, job: Job) -> bool:
    """Whether the job stops itself on an unreachable node, to be started elsewhere."""
    policy = job.request.node_fail_policy or state.config.node_fail_policy
    return job.request.requeue and policy != KEEP


def terms(state: ClusterState, job: Job) -> tuple[int, int]:
    """Returns the lease terms in a launch of the job: the seconds without contact after which it stops itself, and the
    grace then."""
    lease_s = state.config.lease_time_s
    if not lease_s or not stops(state, job):
        return 0, 0
    return lease_s, state.config.kill_wait_s


def dead_after_s(lease_s: int, grace_s: int) -> int:
    """Returns the seconds after the loss of its node when a step with these terms is certainly dead: by default 240 +
    30 + 60 s."""
    return lease_s + grace_s + -(-lease_s // MARGIN_PART)


def dead_at_us(node: Node, job: Job) -> int:
    """Returns when all steps of the job on that lost node have certainly stopped themselves; 0 = unknown."""
    if node.connected or not node.lost_at_us:
        return 0
    live = [step for step in job.steps.values() if is_live_on(step, node.name)]
    if not all(step.dead_after_s for step in live):
        return 0
    longest_s = max((step.dead_after_s for step in live), default=0)
    return node.lost_at_us + longest_s * US


def watch(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Makes the job wait for proof of its end on that node: sets its reason, and a timer if time alone brings the
    proof."""
    due_us = dead_at_us(node, job)
    if due_us:
        state.timers.set(max(due_us, now_us), Timer.LEASE, node.name, job.job_id)
        why = f"until its lease on {node.name} has run out"
    else:
        why = f"until {node.name} answers, is fenced, or is set down by an administrator"
    if not gpu_jobs.is_hit(job):
        outcome.explain(job, f"It waits {why}: it might still run there.")
    state.touch(job)


def unreachable(state: ClusterState, node: Node, job: Job) -> None:
    """Sets the reason of a job whose node is unreachable."""
    job.reason = Reason.NODE_DOWN
    if not gpu_jobs.is_hit(job):
        outcome.explain(job, f"Node {node.name} is unreachable; the job may still run there.")
    state.touch(job)


def reachable(state: ClusterState, node: Node) -> None:
    """Clears the reasons of the jobs of a node that has returned."""
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.reason is Reason.NODE_DOWN and job.state is not JobState.COMPLETING:
            job.reason = Reason.NONE
            if not gpu_jobs.is_hit(job):
                outcome.explain(job, "")
            state.touch(job)


def request_fencing(state: ClusterState, node: Node) -> None:
    """Requests the fencing of a silent node, if there is a program for it and a job that it would free."""
    if state.config.fence_program and node.jobs and not node.connected and node.flags & NodeFlag.DOWN:
        state.emit(FenceNode(node.name, node.lost_link_id))


def fence_due(state: ClusterState, now_us: int, name: str, link_id: int) -> None:
    """Retries fencing that failed a while ago, or after a restart of the controller."""
    node = state.nodes.get(name)
    if node is not None and node.lost_link_id == link_id:
        request_fencing(state, node)


def is_proof(state: ClusterState, now_us: int, event: NodeFenced) -> bool:
    """Whether the fencing program has proved that nothing runs on the node any more; otherwise it is run again."""
    node = state.nodes.get(event.node)
    if node is None or node.connected or node.lost_link_id != event.lost_link_id:
        return False  # it returned meanwhile: its own report counts
    if not event.off:
        state.timers.set(now_us + FENCE_PAUSE_US, Timer.FENCE, node.name, node.lost_link_id)
    return event.off
