"""What GPUs do now, as the last heartbeats of their nodes said.

The readings are no part of the state: they are of no use to the core, change with each heartbeat, and end with the node's stream.
So they are an answer of their own. In that of ListNodes they would change its moment all the time, and a poller of the list of
GPUs would be sent all of it again; and there is no event for them, of which a cluster would have some hundred a second.

A moment of theirs is a time of READINGS_US, in which all who ask for the same nodes are sent the same: a poller sees a reading so
much later, and many pollers are one's work.

What a node says is judged here: readings of GPUs that it does not have, and figures that no GPU can have, are left out.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ctld.agents.link import HEARTBEAT_MS, NodeLink
from ctld.core.records.gpu import Gpu
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.moments import AnswerMoments, KeptReplies
from penstock.exporter.pace import WorkPace
from penstock.v1 import node_pb2
from penstock.v1.controller_pb2 import ListGpuReadingsReply, ListGpuReadingsRequest

#: Nodes say something new at each heartbeat.
READINGS_US: Final = HEARTBEAT_MS * 1000
#: The range of each figure; what is outside of it is no figure of a GPU.
RANGES: Final = {
    "utilization_percent": (0, 100),
    "memory_used_mb": (0, 1 << 24),
    "power_w": (0, 10_000),
    "temperature_c": (-50, 250),
    "ecc_corrected": (0, (1 << 53) - 1),  # what every reader of JSON has as a whole number
    "ecc_uncorrected": (0, (1 << 53) - 1),
}
_RANGES: Final = tuple((name, low, high) for name, (low, high) in RANGES.items())


class GpuReadingLists:
    """The answers of one controller. They are the same for all who may see nodes."""

    def __init__(self) -> None:
        self._moments = AnswerMoments()
        self._kept = KeptReplies()

    async def answer(
        self,
        state: ClusterState,
        links: Mapping[str, NodeLink],
        request: ListGpuReadingsRequest,
        names: Collection[str],
        now_us: int,
    ) -> ListGpuReadingsReply | bytes:
        """Returns the readings of the nodes of these names (none = all); encoded, if the caller asked for a moment."""
        if not request.HasField("known"):
            return await _listed(state, links, names)
        moment = self._moments.of("gpu readings", request.names, state.shown.gpus, now_us // READINGS_US)
        if moment == request.known:
            return ListGpuReadingsReply(moment=moment, unchanged=True)
        if (kept := self._kept.find(moment)) is not None:
            return kept
        reply = await _listed(state, links, names)
        reply.moment = moment
        return self._kept.keep(moment, reply.SerializeToString())


async def _listed(state: ClusterState, links: Mapping[str, NodeLink], names: Collection[str]) -> ListGpuReadingsReply:
    """Nodes in the order of the configuration, and the GPUs of each in its own; in turns of the loop."""
    reply = ListGpuReadingsReply()
    nodes = [node for node in state.node_list if node.gpus and (not names or node.name in names)]
    async for node in WorkPace().over(nodes):
        link = links.get(node.name)
        if link is not None and link.gpu_readings is not None:
            add_readings(reply, node, link.gpu_readings, link.gpus_at_us)
    return reply


def add_readings(reply: ListGpuReadingsReply, node: Node, said: node_pb2.GpuReadings, at_us: int) -> None:
    """Adds the readings of the GPUs that the node has, one for each at most."""
    left: dict[int, Gpu] = {gpu.facts.index: gpu for gpu in node.gpus.values() if gpu.is_there and not gpu.facts.parent}
    for reading in said.gpus:
        gpu = left.pop(reading.index, None)
        figures = _figures(reading) if gpu is not None else {}
        if gpu is not None and figures:
            reply.readings.add(node=node.name, uuid=gpu.uuid, index=reading.index, at_us=at_us, **figures)
        if not left:
            return


def _figures(reading: node_pb2.GpuReading) -> dict[str, int]:
    """Returns the figures that are there and can be true."""
    found: dict[str, int] = {}
    is_there = reading.HasField
    for name, low, high in _RANGES:
        if is_there(name) and low <= (value := getattr(reading, name)) <= high:
            found[name] = value
    return found
