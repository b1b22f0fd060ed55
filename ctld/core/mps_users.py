"""A GPU that is shared by MPS is shared by jobs of one user.

The driver serves one user's clients at a time: another user's would wait, without a word, until the first has gone
(gpu.md 3d). So a GPU on which somebody has shares of `mps` is not given to anybody else, whatever is left of it.

The planner counts what one job could get on a node and knows no users. A start that this rule forbids on the planner's
node is therefore looked for on others that the job may use: where it fits at this moment, and where no job of a higher
rank is expected before this one's limit is over. If there is none, the job waits until something ends. What the same pass
planned behind it is not planned anew: the next pass does that.

Deliberately absent: fairness between users of one GPU. Who has it may keep it busy with more of his jobs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ctld.core.model import Job, Node, NodeAlloc
from ctld.core.shares import wish_of
from ctld.core.state import ClusterState

if TYPE_CHECKING:
    from ctld.core.fractions import Holds
    from ctld.core.planning import Start

MPS: Final = "mps"
#: Nodes that are looked at for one start.
NODES_MAX: Final = 256
US: Final = 1_000_000
Verify = Callable[["Start"], tuple[NodeAlloc, ...] | None]


def foreign_gpus(state: ClusterState, node: Node, user_id: int) -> int:
    """GPUs of the node that jobs of other users share by MPS, as a mask."""
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
    """True when the job asks for shares by MPS."""
    wish = wish_of(job.request.gres_per_node)
    return wish is not None and wish[0] == MPS


def elsewhere(
    state: ClusterState, now_us: int, job: Job, start: "Start", holds: "Holds", verify: Verify
) -> tuple[NodeAlloc, ...] | None:
    """The allocation on another node than the planner's; None = there is none now."""
    request, wish = job.request, wish_of(job.request.gres_per_node)
    if wish is None or len(start.placement) != 1 or start.reservation or request.nodes_required:
        return None
    if not 0 <= start.mask < len(state.masks.bits):
        return None
    at, cpus, tasks, mem_mb = start.placement[0]
    free = holds.untaken(start.position, now_us // US + start.limit_s)
    columns, kind, tried = state.node_columns, state.gres_kinds[wish[:2]], 0
    for index in columns.order.tolist():
        if index == at or not state.masks.bits[start.mask] >> index & 1 or (free is not None and not free[index]):
            continue
        if columns.free_gres[index, kind] < wish[2]:
            continue
        found = verify(start._replace(placement=((index, cpus, tasks, mem_mb),)))
        tried += 1
        if found is not None or tried >= NODES_MAX:
            return found
    return None
