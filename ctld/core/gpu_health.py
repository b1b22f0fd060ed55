"""What becomes of a GPU that its node, or an administrator, says something of, and of the jobs that have it.

Two opinions are kept apart: the node's, which comes and goes with what it sees, and the administrator's, which only an
administrator takes back. What counts is the worse one (gpu_model.Gpu.state).
"""

from ctld.core import gpus
from ctld.core.events import GpuIdle, GpuReported, GpuWorkDone
from ctld.core.gpu_model import GpuFacts, GpuOpinion
from ctld.core.model import Node
from ctld.core.state import ClusterState


def registered(state: ClusterState, node: Node, found: tuple[GpuFacts, ...], opinions: tuple[GpuOpinion, ...]) -> None:
    """The node has said which GPUs it has."""
    if not found and not node.gpus:
        return
    gpus.take_over(state, node, gpus.bind(node, found, opinions))
    gpus.settle(state, node)


def reported(state: ClusterState, now_us: int, event: GpuReported) -> None:
    """The node thinks otherwise of some of its GPUs."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    if event.gpus is not None:
        gpus.take_over(state, node, gpus.bind(node, event.gpus, event.opinions))
    for opinion in event.opinions:
        gpu = node.gpus.get(opinion.uuid)
        if gpu is not None:
            gpus.put(state, node, gpu._replace(opinion=opinion))
    gpus.settle(state, node)


def work_done(state: ClusterState, now_us: int, event: GpuWorkDone) -> None:
    """Something was done to a GPU."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)


def idle(state: ClusterState, now_us: int, event: GpuIdle) -> None:
    """GPUs of a job do nothing."""
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
