"""Polls of nodes, partitions and reservations: who names the moment of the answer that it has gets it alone, until something
changes that the answer shows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ctld.rpc.cluster import clusterinfo, placemoments, reservations
from ctld.rpc.gate.moments import KeptReplies
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import Site

POLLED: dict[str, tuple[str, Callable[..., Any]]] = {
    "nodes": ("ListNodes", c.ListNodesRequest), "gpus": ("ListNodes", lambda **more: c.ListNodesRequest(gpus=True, **more)),
    "GPUs alone": ("ListNodes", lambda **more: c.ListNodesRequest(gpus=True, gpus_only=True, **more)),
    "partitions": ("ListPartitions", c.ListPartitionsRequest), "reservations": ("ListReservations", c.ListReservationsRequest),
}  # fmt: skip


class Poller:
    """Keeps the moment of each answer, as the REST daemon does."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.moments: dict[str, bytes] = {}

    async def changed(self) -> set[str]:
        """The lists that are not what they were; the others have come without an item."""
        found = set()
        for name, (method, request) in POLLED.items():
            reply = await self._client.call(method, request(known=self.moments.get(name, b"")))
            assert reply.moment and reply.unchanged == (self.moments.get(name) == reply.moment)
            if reply.unchanged:
                assert reply.ByteSize() < 40
                continue
            found.add(name)
            self.moments[name] = reply.moment
        return found


def test_what_many_ask_at_a_moment_is_listed_once(tmp_path, monkeypatch) -> None:
    """For all who may see the same: who may not is not sent what another one was."""
    monkeypatch.setattr(placemoments, "MEASURES_US", 2**62)
    site = Site(tmp_path, nodes=2, extra="PrivateData=jobs\n")
    listed: list[str] = []
    make = clusterinfo.node_info

    def counted(state: Any, node: Any, *more: Any) -> c.NodeInfo:
        listed.append(node.name)
        return make(state, node, *more)

    monkeypatch.setattr(clusterinfo, "node_info", counted)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            asked = c.ListNodesRequest(gpus=True, known=b"")
            first = await client.call("ListNodes", asked)
            again = await client.call("ListNodes", asked)
            other = await site.call_as(65534, "ListNodes", asked)
            assert first == again and [one.name for one in first.nodes] == ["n1", "n2"]
            assert other.moment != first.moment and listed == ["n1", "n2"] * 2
            await site.call_as(65534, "ListNodes", asked)
            await client.call("ListNodes", c.ListNodesRequest(gpus=True, known=b"", names=["n2"]))
            assert listed == ["n1", "n2"] * 2 + ["n2"]
            await client.call(
                "UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "drain", "reason": "x"})
            )
            assert (await client.call("ListNodes", asked)).nodes[0].reason == "x"
            assert (await client.call("ListNodes", c.ListNodesRequest())).nodes[0].reason == "x"
            assert listed == ["n1", "n2"] * 2 + ["n2"] + ["n1", "n2"] * 2
            only = await client.call("ListNodes", c.ListNodesRequest(gpus=True, gpus_only=True, known=b""))
            assert list(only.nodes) == [c.NodeInfo(name="n1"), c.NodeInfo(name="n2")]
            assert only.moment not in (first.moment, other.moment) and len(listed) == 9

    asyncio.run(story())


def test_few_replies_are_kept() -> None:
    kept = KeptReplies(replies_max=2, bytes_max=100)
    for moment, size in ((b"a", 10), (b"b", 20), (b"c", 30)):
        assert kept.keep(moment, bytes(size)) == bytes(size)
    assert [kept.find(moment) for moment in (b"a", b"b", b"c")] == [None, bytes(20), bytes(30)]
    kept.find(b"b")
    kept.keep(b"d", bytes(80))  # the least lately used one goes, which is not enough for `b`
    assert [kept.find(moment) for moment in (b"b", b"c", b"d")] == [bytes(20), None, bytes(80)]
    kept.keep(b"d", bytes(90))
    kept.keep(b"e", bytes(101))
    assert [kept.find(moment) for moment in (b"b", b"d", b"e")] == [None] * 3
    kept.keep(b"f", bytes(100))
    assert kept.find(b"f") == bytes(100)


def test_an_answer_is_sent_again_when_it_is_another_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(placemoments, "MEASURES_US", 2**62)
    site = Site(tmp_path, nodes=2)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            poller = Poller(client)
            assert await poller.changed() == set(POLLED)
            with monkeypatch.context() as no_lists:
                for module, name in ((clusterinfo, "node_info"), (clusterinfo, "partition_info")):
                    no_lists.setattr(module, name, None)
                assert await poller.changed() == set()
            plain = await client.call("ListNodes", c.ListNodesRequest())
            assert plain.nodes and not (plain.moment or plain.unchanged)  # who does not ask for it gets none
            await client.call(
                "UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "drain", "reason": "x"})
            )
            assert await poller.changed() == {"nodes", "gpus", "GPUs alone"}
            await client.call("UpdatePartition", c.UpdatePartitionRequest(name="debug", changes={"state": "down"}))
            assert await poller.changed() == {"partitions"}
            later = {"starttime": "now+1hour", "duration": "10", "nodes": "n2", "users": "root"}
            await client.call("CreateReservation", c.CreateReservationRequest(name="later", changes=later))
            assert "reservations" in await poller.changed()
            with monkeypatch.context() as no_lists:
                no_lists.setattr(reservations, "reservation_info", None)
                assert await poller.changed() == set()
            now = later | {"starttime": "now", "nodes": "n1", "flags": "maint"}
            await client.call("CreateReservation", c.CreateReservationRequest(name="now", changes=now))
            assert {"reservations", "nodes"} <= await poller.changed()
            await client.call("DeleteReservation", c.DeleteReservationRequest(name="later"))
            assert "reservations" in await poller.changed()
            floats = later | {"flags": "time_float"}
            await client.call("CreateReservation", c.CreateReservationRequest(name="floats", changes=floats))
            for _ in range(2):
                assert "reservations" in await poller.changed()  # its times are those of the answer
            monkeypatch.setattr(placemoments, "MEASURES_US", 1)
            assert {"nodes", "gpus"} <= (
                changed := await poller.changed()
            ) and "GPUs alone" not in changed  # loads and free memory
            with pytest.raises(PenstockError):
                await client.call("ListNodes", c.ListNodesRequest(known=b"x" * 65))

    asyncio.run(story())
