"""Nodes that reboot for a job before it begins: --reboot (sbatch(1)), with the machinery of scontrol reboot.

    start -> its nodes REBOOT_REQUESTED and REBOOT_FOR_JOB -> the order (nodes/reboot.py) -> registered with a new boot id
    -> the last of its nodes is back: its start is now, prologs and the job follow

The job has whole nodes, and is CONFIGURING meanwhile. Nodes without a RebootProgram are not rebooted, and it begins at once.
A node that does not come back in ResumeTimeout is DOWN, and the job ends as one that has lost it (nodes/life.py).
"""

from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from penstock.values.states import NodeFlag

FOR_JOB = NodeFlag.REBOOT_FOR_JOB


def order(state: ClusterState, job: Job) -> None:
    """Marks the nodes of a job that has just got them, if it asks for it."""
    if not job.request.reboot or not state.config.reboot_program:
        return
    for part in job.alloc:
        node = state.nodes[part.node]
        node.flags |= NodeFlag.REBOOT_REQUESTED | FOR_JOB
        state.rebooting[node.name] = None
        state.touch_node(node)


def are_awaited(state: ClusterState, job: Job) -> bool:
    """Whether a node of the job has yet to come back."""
    if not job.request.reboot:
        return False
    return any(part.node in state.nodes and state.nodes[part.node].flags & FOR_JOB for part in job.alloc)


def is_for_job(state: ClusterState, node: Node) -> bool:
    """Whether a job waits for the node, and has nothing there that a reboot could end."""
    return bool(node.flags & FOR_JOB) and any(are_awaited(state, state.jobs[job_id]) for job_id in node.jobs)


def is_back(state: ClusterState, node: Node) -> list[Job]:
    """Takes the mark from a node, and returns its jobs that wait for no other node."""
    if not node.flags & FOR_JOB:
        return []
    node.flags &= ~FOR_JOB
    state.touch_node(node)
    waiting = (job for job in (state.jobs[job_id] for job_id in node.jobs) if job.request.reboot)
    return [job for job in waiting if not are_awaited(state, job)]
