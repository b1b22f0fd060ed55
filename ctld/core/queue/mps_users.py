"""Keeps a GPU that is shared by MPS to the jobs of one user.

The driver serves one user's clients at a time: another user's would wait silently until the first has ended (gpu.md
3d). So a GPU on which a user has shares of `mps` is not allocated to other users, whatever is left of it.

The planner counts what one job could get on a node and knows no users. A start that this rule forbids on the planner's
node is therefore looked for on others that the job may use: where it fits at this moment, and where no job of a higher
rank is expected before this one's limit is over. If there is none, the job waits until a job ends. Rows behind it are
not planned again in this pass, but in the next one.

Deliberately absent: fairness between users of one GPU. Its current user may keep it busy with more jobs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.request import NodeAlloc
from ctld.core.state.shares import share_wanted
from ctld.core.state.state import ClusterState

if TYPE_CHECKING:
    from ctld.core.queue.gpu_sharing import ExpectedUse
    from ctld.core.queue.planning import PlannedStart

MPS: Final = "mps"
#: Nodes that are tried for one start.
NODES_MAX: Final = 256
US: Final = 1_000_000
Verify = Callable[["PlannedStart"], tuple[NodeAlloc, ...] | None]


def foreign_gpus(state: ClusterState, node: Node, user_id: int) -> int:
    """Returns the GPUs of the node that jobs of other users share by MPS, as a mask."""
    if not any(name == MPS for name, _ in node.gpu_shares.values()):
        return 0
    found = 0
    for job_id in node.jobs:
        job = state.jobs[job_id]
        if job.user_id != user_id:
            for part in job.alloc:
                if part.node == node.name:
                    found |= sum(1 << share.gpu for share in part.shares if share.name == MPS)
    return found


def wants_mps(job: Job) -> bool:
    """Whether the job requests shares by MPS."""
    share = share_wanted(job.request.gres_per_node)
    return share is not None and share[0] == MPS


def elsewhere(
    state: ClusterState, now_us: int, job: Job, start: "PlannedStart", holds: "ExpectedUse", verify: Verify
) -> tuple[NodeAlloc, ...] | None:
    """Returns the allocation on another node than the planner's; None = there is none now."""
    request, share = job.request, share_wanted(job.request.gres_per_node)
    if share is None or len(start.placement) != 1 or start.reservation or request.nodes_required:
        return None
    if not 0 <= start.mask < len(state.layout.masks.bits):
        return None
    at, cpus, tasks, mem_mb = start.placement[0]
    free = holds.unclaimed(start.position, now_us // US + start.limit_s)
    columns = state.node_columns
    kind = state.layout.gres_kinds[share[:2]]
    tried = 0
    for index in columns.order.tolist():
        if (
            index == at
            or not state.layout.masks.bits[start.mask] >> index & 1
            or (free is not None and not free[index])
        ):
            continue
        if columns.free_gres[index, kind] < share[2]:
            continue
        found = verify(start._replace(placement=((index, cpus, tasks, mem_mb),)))
        tried += 1
        if found is not None or tried >= NODES_MAX:
            return found
    return None
