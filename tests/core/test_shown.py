"""The moments of lists of nodes, partitions and reservations: in every scenario, after every event and every pass, a list whose
moment is that of another time is the list of that time. And the counts behind them do not count for nothing."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ctld.core.controller import Core
from ctld.core.records.events import Actor, Role
from ctld.core.state import known_jobs
from ctld.core.state.state import ClusterState
from ctld.rpc.cluster import clusterinfo, gpuinfo, placemoments
from ctld.rpc.cluster.placemoments import PlaceMoments
from ctld.rpc.cluster.reservations import reservation_info
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility, sees_reservation
from penstock.v1 import controller_pb2 as wire
from tests.core.test_scripts import SCRIPTS, run_script

ANN = Actor(1001, 1001, "ann", "ann", (), Role.USER)
SEEN = {"all": ALL_JOBS, "ann": JobVisibility(ANN.uid)}


class Lists(NamedTuple):
    """By the question: its moment, and what is listed, as on the wire."""

    moments: dict[str, bytes]
    listed: dict[str, bytes]


class Poller:
    """Asks after every step whether its lists are still those that the cluster has."""

    def __init__(self) -> None:
        self.moments = PlaceMoments()
        self.known: dict[tuple[str, bytes], bytes] = {}
        self.asked: Counter[str] = Counter()
        self.unchanged: Counter[str] = Counter()
        self.last: dict[str, bytes] = {}

    def look(self, state: ClusterState, now_us: int) -> None:
        lists = self.lists(state, now_us)
        for question, moment in lists.moments.items():
            data = lists.listed[question]
            assert self.known.setdefault((question, moment), data) == data, f"{question}: a change has not counted"
            self.asked[question] += 1
            self.unchanged[question] += moment == self.last.get(question)
        self.last = lists.moments

    def lists(self, state: ClusterState, now_us: int) -> Lists:
        moments: dict[str, bytes] = {}
        listed: dict[str, bytes] = {}
        for who, sees in SEEN.items():
            request = wire.ListNodesRequest(gpus=who == "ann")
            moments[f"nodes {who}"] = self.moments.of_nodes(state, request, sees, {}, now_us)
            listed[f"nodes {who}"] = nodes(state, request, sees, now_us).SerializeToString(deterministic=True)
        moments["partitions"] = self.moments.of_partitions(state, wire.ListPartitionsRequest(), ANN)
        made = [clusterinfo.partition_info(state, partition) for partition in state.partition_list]
        listed["partitions"] = wire.ListPartitionsReply(partitions=made).SerializeToString(deterministic=True)
        moments["reservations"] = self.moments.of_reservations(state, ANN, now_us)
        seen = [r for r in state.reservations.values() if sees_reservation(state.config, ANN, r)]
        shown = wire.ListReservationsReply(reservations=[reservation_info(state, r, now_us) for r in seen])
        listed["reservations"] = shown.SerializeToString(deterministic=True)
        return Lists(moments, listed)


def nodes(state: ClusterState, request: wire.ListNodesRequest, sees: JobVisibility, now_us: int) -> wire.ListNodesReply:
    partitions, reserved = (
        clusterinfo.partitions_of_nodes(state),
        clusterinfo.reservations_of_nodes(state, now_us),
    )
    planned = clusterinfo.planned_nodes(state)
    gpus = gpuinfo.GpuInfos().of_nodes(state, state.node_list, {}, sees) if request.gpus else {}
    return wire.ListNodesReply(
        nodes=[
            clusterinfo.node_info(
                state, node, partitions.get(node.name, ()), None, "", sees, reserved.get(node.name, ()),
                node.name in planned, gpus.get(node.name, ()),
            )
            for node in state.node_list
        ]
    )  # fmt: skip


@pytest.fixture
def pollers(monkeypatch: pytest.MonkeyPatch) -> list[Poller]:
    """One of each core."""
    of: dict[int, tuple[Core, Poller]] = {}
    made: list[Poller] = []
    resting: dict[int, None] = {}  # cores that were looked at after a pass, since when nothing has happened
    step, seal = Core.step, Core.seal

    def look(core: Core) -> None:
        if id(core) not in of:
            made.append(Poller())
            of[id(core)] = core, made[-1]
        if not core.in_progress:
            of[id(core)][1].look(core.state, core.state.now_us)

    def stepped(core: Core, *event: Any) -> None:
        resting.pop(id(core), None)
        step(core, *event)
        look(core)

    def sealed(core: Core) -> Any:
        batch = seal(core)
        if id(core) not in resting:
            look(core)
        resting[id(core)] = None
        return batch

    monkeypatch.setattr(placemoments, "MEASURES_US", 2**62)  # nodes of these scenarios have no links
    monkeypatch.setattr(Core, "step", stepped)
    monkeypatch.setattr(Core, "seal", sealed)
    return made


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_what_has_not_counted_has_not_changed(
    path: Path, pollers: list[Poller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also, what happens does not depend on whether a job that waits is kept as its row, as here, or as a record
    (test_scripts.py)."""
    monkeypatch.setattr(known_jobs, "AWAKE_MAX", 0)
    text = path.read_text()
    assert run_script(text) == text
    for poller in pollers:
        assert poller.asked.total()


QUIET: dict[str, Callable[[Poller], bool]] = {
    "fairshare": lambda one: one.unchanged["partitions"] == one.asked["partitions"] - 1,
    "one_job": lambda one: 0 < one.unchanged["nodes all"] < one.asked["nodes all"],
    "partition": lambda one: 0 < one.unchanged["partitions"] < one.asked["partitions"],
    "reservation_basic": lambda one: 0 < one.unchanged["reservations"] < one.asked["reservations"],
}


@pytest.mark.parametrize("name", QUIET)
def test_what_has_nothing_to_do_with_a_list_does_not_count(name: str, pollers: list[Poller]) -> None:
    run_script(next(path for path in SCRIPTS if path.stem == name).read_text())
    assert any(map(QUIET[name], pollers)), [(one.asked, one.unchanged) for one in pollers]
