"""What GPUs do now: from a node's heartbeat to the answer; what it may hold, who may see it, and what pollers cost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

# Any: stand-ins for the runtime, and clients
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ctld.agents.link import READINGS_BYTES_MAX, NodeLink
from ctld.core.records.gpu import GpuFacts
from ctld.rpc.cluster import gpureadings
from ctld.rpc.cluster.gpureadings import RANGES, GpuReadingLists, add_readings
from penstock.v1 import controller_pb2 as c
from penstock.v1 import node_pb2
from tests.core.world import World, make_config
from tests.rpc.clusterkit import FakeNode, Site

NOW = 1_700_000_000_000_000
US = 1_000_000
IDLE_PROCESSOR = {"utilization_percent": 0, "memory_used_mb": 0, "power_w": 75, "temperature_c": 31, "ecc_corrected": 0}


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-0000-4000-8000-000000000000"


def world(gpus: int = 2) -> World:
    made = World(make_config(nodes=1, cpus=8, gpus=gpus))
    made.register("n1", gpus=tuple(GpuFacts(uuid(index), index, index, "h200", 143_771) for index in range(gpus)))
    return made


def said(*readings: tuple[int, dict[str, int]]) -> node_pb2.GpuReadings:
    return node_pb2.GpuReadings(at_us=NOW, gpus=[node_pb2.GpuReading(index=index, **more) for index, more in readings])


def shown(made: World, readings: node_pb2.GpuReadings) -> list[tuple[str, dict[str, int]]]:
    reply = c.ListGpuReadingsReply()
    add_readings(reply, made.core.state.node_list[0], readings, NOW)
    found = reply.readings
    assert all(one.node == "n1" and one.at_us == NOW for one in found)
    return [(one.uuid, {name: getattr(one, name) for name in RANGES if one.HasField(name)}) for one in found]


def test_a_reading_has_what_its_node_said_and_no_more() -> None:
    made = world()
    full = IDLE_PROCESSOR | {"ecc_uncorrected": 1}
    assert shown(made, said((1, full), (0, {"power_w": 0}))) == [(uuid(1), full), (uuid(0), {"power_w": 0})]
    assert shown(made, said((0, {}))) == []


def test_gpus_that_the_node_does_not_have_are_left_out() -> None:
    made = world()
    many = said(*((index, {"power_w": 10 + index}) for index in (7, 0, 0, 2, 1, 4_000_000_000, 1)))
    assert shown(made, many) == [(uuid(0), {"power_w": 10}), (uuid(1), {"power_w": 11})]


def test_a_missing_gpu_and_an_instance_have_none() -> None:
    made = world()
    instance = GpuFacts("MIG-1", 0, 0, "1g.18gb", 18_432, parent=uuid(0), profile="1g.18gb", slices=1)
    divided = GpuFacts(uuid(0), 0, 0, "h200", 143_771, mig_enabled=True)
    made.report_gpus("n1", gpus=(divided, instance))  # the second card is gone
    assert [gpu.is_there for gpu in made.core.state.node_list[0].gpus.values()].count(True) == 2
    assert shown(made, said((0, {"power_w": 90}), (1, {"power_w": 91}))) == [(uuid(0), {"power_w": 90})]


_NUMBERS = {
    name: st.integers(-(2**31), 2**31 - 1) if name == "temperature_c" else st.integers(0, 2**63 - 1 if "ecc" in name else 2**32 - 1)
    for name in RANGES
}  # fmt: skip


@given(st.lists(st.fixed_dictionaries({"index": st.integers(0, 5)}, optional=_NUMBERS), max_size=20))
def test_whatever_a_node_says_each_gpu_has_one_reading_of_possible_figures(claims: list[dict[str, int]]) -> None:
    made = world(3)
    found = shown(made, node_pb2.GpuReadings(gpus=[node_pb2.GpuReading(**one) for one in claims]))
    assert len({name for name, _ in found}) == len(found) <= 3
    for name, figures in found:
        first = next(one for one in claims if uuid(one["index"]) == name)
        assert figures and figures.items() <= first.items()
        assert all(low <= figures[key] <= high for key, (low, high) in RANGES.items() if key in figures)


# ---- the link


class FakeRuntime:
    """What a link needs of the runtime."""

    def __init__(self) -> None:
        self.metrics = SimpleNamespace(reports=0, links_dropped=0)
        self.posted: list[Any] = []

    def clock_us(self) -> int:
        return NOW

    def post(self, event: Any) -> None:
        self.posted.append(event)

    async def room(self) -> None:
        """There is always room."""


def a_link() -> tuple[NodeLink, FakeRuntime]:
    runtime, specs = FakeRuntime(), None
    return NodeLink("n1", 1, cast(Any, runtime), cast(Any, specs)), runtime


def beat(readings: node_pb2.GpuReadings | None, node_us: int = NOW) -> node_pb2.NodeMessage:
    return node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat(at_us=node_us, wall_at_us=node_us, gpus=readings))


def take(link: NodeLink, *messages: node_pb2.NodeMessage) -> None:
    """What the link does with these, until the node closes its side."""

    async def sent() -> AsyncIterator[node_pb2.NodeMessage]:
        for message in messages:
            yield message

    asyncio.run(link.incoming(sent()))


def test_a_heartbeat_replaces_what_the_last_one_held() -> None:
    some = beat(said((0, {"power_w": 75})))
    too_many = beat(said(*((index, IDLE_PROCESSOR) for index in range(READINGS_BYTES_MAX // 10))))
    link, _ = a_link()
    take(link, beat(said((0, {"power_w": 9}))), some)
    assert link.gpu_readings is not None and link.gpu_readings.gpus[0].power_w == 75 and link.gpus_at_us <= NOW
    for last in (beat(None), too_many):  # no node has so many
        link, _ = a_link()
        take(link, some, last)
        assert link.gpu_readings is None


def test_times_of_a_node_whose_clock_is_wrong_are_by_the_controllers() -> None:
    for ahead_us in (-3600 * US, 3600 * US):
        link, runtime = a_link()
        readings = said((0, {"power_w": 75}))
        readings.at_us = NOW + ahead_us - 4 * US
        idle = node_pb2.GpuIdle(key=node_pb2.StepKey(job_id=1), since_us=NOW + ahead_us - 600 * US)
        report = node_pb2.Report(spool_id="s", sequence=1, gpu_idle=idle)
        take(link, beat(readings, NOW + ahead_us), node_pb2.NodeMessage(report=report))
        assert abs(link.gpus_at_us - (NOW - 4 * US)) < US
        (event,) = runtime.posted
        assert abs(event.since_us - (NOW - 600 * US)) < US


# ---- the answer


def asked(made: World, lists: GpuReadingLists, links: Any, now_us: int, known: bytes | None = b"") -> Any:
    request = c.ListGpuReadingsRequest(known=known)
    answer = asyncio.run(lists.answer(made.core.state, links, request, (), now_us))
    return c.ListGpuReadingsReply.FromString(answer) if isinstance(answer, bytes) else answer


def test_many_who_ask_in_one_interval_are_one_work(monkeypatch: Any) -> None:
    made, (link, _), lists = world(), a_link(), GpuReadingLists()
    take(link, beat(said((0, {"power_w": 75}))))
    made_lists = []
    make = gpureadings.add_readings
    monkeypatch.setattr(gpureadings, "add_readings", lambda *of: made_lists.append(1) or make(*of))
    first = asked(made, lists, {"n1": link}, NOW)
    assert [one.power_w for one in first.readings] == [75] and first.moment
    assert asked(made, lists, {"n1": link}, NOW + 1) == first and len(made_lists) == 1
    again = asked(made, lists, {"n1": link}, NOW + 1, first.moment)
    assert again.unchanged and not again.readings
    take(link, beat(said((0, {"power_w": 80}))))
    later = asked(made, lists, {"n1": link}, NOW + gpureadings.READINGS_US, first.moment)
    assert [one.power_w for one in later.readings] == [80] and len(made_lists) == 2
    assert [one.power_w for one in asked(made, lists, {"n1": link}, NOW, None).readings] == [80]
    assert not asked(made, lists, {}, NOW, None).readings  # they end with the stream


def test_they_are_told_to_those_who_may_see_nodes_and_change_no_list_of_gpus(tmp_path: Path) -> None:
    site = Site(tmp_path, nodes=1, extra="PrivateData=nodes\nGresTypes=gpu\n")
    site.conf.write_text(site.conf.read_text().replace("NodeName=n[1-1]", "NodeName=n[1-1] Gres=gpu:1"))

    async def story() -> None:
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            device = node_pb2.GpuDevice(uuid=uuid(0), type="h200", memory_mb=143_771)
            await node.register(gpus=[device])
            listed = await client.call("ListNodes", c.ListNodesRequest(gpus=True, known=b""))
            for watts in (75, 80):
                gpus = node_pb2.GpuReadings(at_us=1, gpus=[node_pb2.GpuReading(index=0, power_w=watts)])
                await node.call.write(node_pb2.NodeMessage(heartbeat=node_pb2.Heartbeat(gpus=gpus)))
                while not (await node.read()).HasField("heartbeat_ack"):
                    pass
                found = (await client.call("ListGpuReadings", c.ListGpuReadingsRequest(names=["n1"]))).readings
                assert [(one.node, one.uuid, one.power_w) for one in found] == [("n1", uuid(0), watts)]
                assert not (await client.call("ListGpuReadings", c.ListGpuReadingsRequest(names=["n2"]))).readings
            request = c.ListNodesRequest(gpus=True, known=listed.moment)
            assert (await client.call("ListNodes", request)).unchanged
            assert not (await site.call_as(4242, "ListGpuReadings", c.ListGpuReadingsRequest())).readings

    asyncio.run(story())
