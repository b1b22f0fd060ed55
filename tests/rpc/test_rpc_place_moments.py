"""Polls of nodes, partitions and reservations: who names the moment of the answer that it has gets it alone, until something
changes that the answer shows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ctld.rpc.cluster import clusterinfo, placemoments, reservations
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import Site

POLLED: dict[str, tuple[str, Callable[..., Any]]] = {
    "nodes": ("ListNodes", c.ListNodesRequest), "gpus": ("ListNodes", lambda **more: c.ListNodesRequest(gpus=True, **more)),
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
            assert await poller.changed() == {"nodes", "gpus"}
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
            assert "nodes" in await poller.changed()  # loads and free memory
            with pytest.raises(PenstockError):
                await client.call("ListNodes", c.ListNodesRequest(known=b"x" * 65))

    asyncio.run(story())
