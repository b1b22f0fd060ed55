"""Moments of the lists of nodes, partitions and reservations: a poller that names the moment of the list that it has learns
that nothing has changed, and nothing is listed or encoded (gate/moments.py).

A list depends on much that is large (records of nodes, what jobs hold of them) and on a little that is small. The first counts
in the core where it changes (core/state/shown.py); the second is in the moment as it is: active reservations, nodes that are
planned for a job, names of users, the caller. What a list shows of the time, as a reservation that floats, has the time in its
moment.

What a node's stream says of its machine (load, free memory, its clock, the end of its certificate) changes with each heartbeat:
it counts once in MEASURES_US. A poller may therefore see it so much later.
"""

from collections.abc import Mapping
from typing import Final

from ctld.core.records.events import Actor
from ctld.core.reservations.access import is_active
from ctld.core.state.shown import ShownCounts
from ctld.core.state.state import ClusterState
from ctld.rpc.cluster.clusterinfo import planned_nodes
from ctld.rpc.cluster.gpuinfo import drain_uids
from ctld.rpc.gate.moments import AnswerMoments
from ctld.rpc.gate.visibility import JobVisibility, hidden_partitions, is_private
from penstock.v1 import controller_pb2

#: Half of what a metrics system usually waits between two looks.
MEASURES_US: Final = 15_000_000


class PlaceMoments:
    """The moments of one controller."""

    def __init__(self) -> None:
        self._moments = AnswerMoments()
        self._uids: dict[bool, tuple[ShownCounts, list[int]]] = {}  # by whether GPUs are shown

    def reason_uids(self, state: ClusterState, with_gpus: bool) -> list[int]:
        """Returns the users whose reasons nodes have, and GPUs; kept while they are the same."""
        counts, uids = self._uids.get(with_gpus, (None, []))
        if counts != state.shown.counts():
            uids = [node.reason_uid for node in state.node_list if node.reason]
            uids = list(dict.fromkeys([*uids, *(drain_uids(state.node_list) if with_gpus else ())]))
            self._uids[with_gpus] = state.shown.counts(), uids
        return uids

    def of_nodes(
        self,
        state: ClusterState,
        request: controller_pb2.ListNodesRequest,
        visibility: JobVisibility,
        users: Mapping[int, str],
        now_us: int,
    ) -> bytes:
        """Returns the moment of the answer that is made now. `users`: names of `reason_uids`."""
        shown = state.shown
        seen_by = visibility.uid, sorted(visibility.accounts), sorted(users.items())
        if request.gpus_only:
            return self._moments.of("gpus", request.names, request.gpus, *seen_by, shown.nodes, shown.gpus)
        return self._moments.of(
            "nodes", request.names, request.gpus, *seen_by, shown.nodes, shown.gpus, shown.reservations,
            _active(state, now_us), sorted(planned_nodes(state)), sorted(state.gap.claims), now_us // MEASURES_US,
        )  # fmt: skip

    def of_partitions(self, state: ClusterState, request: controller_pb2.ListPartitionsRequest, actor: Actor) -> bytes:
        """Returns the moment of the answer that is made now."""
        hidden = sorted(hidden_partitions(state, actor)) if request.hide_hidden else []
        return self._moments.of("partitions", hidden, state.shown.partitions, state.shown.gpus)

    def of_reservations(self, state: ClusterState, actor: Actor, now_us: int) -> bytes:
        """Returns the moment of the answer that is made now."""
        own = (actor.uid, actor.group_name, actor.groups) if is_private(state.config, actor, "reservations") else ()
        floats = any(reservation.float_us >= 0 for reservation in state.reservations.values())
        return self._moments.of(
            "reservations", own, state.shown.reservations, _active(state, now_us), now_us if floats else 0
        )


def _active(state: ClusterState, now_us: int) -> list[str]:
    return [name for name, reservation in state.reservations.items() if is_active(reservation, now_us)]
