"""Answers to ListNodes: read from the core between two steps, and kept as on the wire for others who ask at the same moment.

After a change every poller asks at once, and most may see the same: the list is made once for them (gate/moments.py).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ctld.agents.link import NodeLink
from ctld.core.state.state import ClusterState
from ctld.rpc.cluster import clusterinfo, gpuinfo
from ctld.rpc.cluster.placemoments import PlaceMoments
from ctld.rpc.gate.moments import KeptReplies
from ctld.rpc.gate.visibility import JobVisibility
from penstock.v1.controller_pb2 import ListNodesReply, ListNodesRequest, NodeInfo


class NodeQuestion(NamedTuple):
    """A request of one caller, at one moment. `names`: those of the request, expanded; `users`: names of
    `PlaceMoments.reason_uids`; `visibility`: of the caller, who may see nodes."""

    state: ClusterState
    links: Mapping[str, NodeLink]
    request: ListNodesRequest
    names: Collection[str]
    users: Mapping[int, str]
    visibility: JobVisibility
    now_us: int


class NodeLists:
    """The answers of one controller."""

    def __init__(self, moments: PlaceMoments) -> None:
        self._moments = moments
        self._kept = KeptReplies()
        self._gpus = gpuinfo.GpuInfos()

    def answer(self, asked: NodeQuestion) -> ListNodesReply | bytes:
        """Returns the answer of now; encoded, if the caller asked for a moment."""
        if not asked.request.HasField("known"):
            return self._listed(asked)
        moment = self._moments.of_nodes(asked.state, asked.request, asked.visibility, asked.users, asked.now_us)
        if moment == asked.request.known:
            return ListNodesReply(moment=moment, unchanged=True)
        if (kept := self._kept.find(moment)) is not None:
            return kept
        reply = self._listed(asked)
        reply.moment = moment
        return self._kept.keep(moment, reply.SerializeToString())

    def _listed(self, asked: NodeQuestion) -> ListNodesReply:
        """The nodes, in the order of the configuration."""
        state = asked.state
        users = asked.users
        visibility = asked.visibility
        nodes = [node for node in state.node_list if not asked.names or node.name in asked.names]
        gpus = self._gpus.of_nodes(state, nodes, users, visibility) if asked.request.gpus else {}
        if asked.request.gpus_only:
            return ListNodesReply(nodes=[NodeInfo(name=node.name, gpus=gpus.get(node.name, ())) for node in nodes])
        partitions = clusterinfo.partitions_of_nodes(state)
        reserved = clusterinfo.reservations_of_nodes(state, asked.now_us)
        planned = clusterinfo.planned_nodes(state)
        return ListNodesReply(
            nodes=[
                clusterinfo.node_info(
                    state,
                    node,
                    partitions.get(node.name, ()),
                    asked.links.get(node.name),
                    users.get(node.reason_uid, "") if node.reason else "",
                    visibility,
                    reserved.get(node.name, ()),
                    node.name in planned,
                    gpus.get(node.name, ()),
                )
                for node in nodes
            ]
        )
