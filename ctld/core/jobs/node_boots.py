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
    """Asks for the reboot of the nodes of a job that has just got them, if it wants that; nodes/reboot.py marks them."""
    if job.request.reboot and state.config.reboot_program:
        state.boots_for_jobs |= {part.node: None for part in job.alloc}


def are_awaited(state: ClusterState, job: Job) -> bool:
    """Whether a node of the job has yet to come back."""
    return job.request.reboot and any(_is_awaited(state, part.node) for part in job.alloc)


def _is_awaited(state: ClusterState, name: str) -> bool:
    return name in state.boots_for_jobs or (name in state.nodes and bool(state.nodes[name].flags & FOR_JOB))


def is_for_job(state: ClusterState, node: Node) -> bool:
    """Whether a job waits for the node, and has nothing there that a reboot could end."""
    return bool(node.flags & FOR_JOB) and any(are_awaited(state, state.jobs[job_id]) for job_id in node.jobs)
