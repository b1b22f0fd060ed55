"""The default devices of a step that does not request devices.

All of the job's; but an exclusive job has devices that it did not request, and its steps get these only on request
(srun(1), --gres).
"""

from collections.abc import Sequence

from ctld.core.demand.gpu_parts import parts_of
from ctld.core.jobs.sharing import gives_whole_nodes
from ctld.core.records.job import Job
from ctld.core.records.step import Kinds
from ctld.core.state.devices import choose_devices
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState


def implied_gres(state: ClusterState, job: Job) -> Sequence[Kinds]:
    """Returns the step's devices by node, as masks; () = all that the job has."""
    partition = state.partitions.get(job.partition)
    if not (job.request.exclusive or (partition is not None and gives_whole_nodes(partition))):
        return ()
    have = [sum(mask.bit_count() for name, _, mask in part.gres if name == GPU) for part in job.alloc]
    asked = parts_of(job.request, [part.tasks for part in job.alloc], have)
    asked = asked or [job.request.gres_per_node] * len(job.alloc)
    return [
        choose_devices(state.nodes[part.node].inside, {(n, t): mask for n, t, mask in part.gres}, wanted) or ()
        for part, wanted in zip(job.alloc, asked, strict=True)
    ]
