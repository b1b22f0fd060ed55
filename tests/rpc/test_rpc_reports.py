"""Events and reports over the wire, from a controller with a database that has a past."""

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from sqlalchemy import create_engine, insert

from accounting.rollup import HOUR_US
from accounting.schema import JOB
from penstock.v1 import controller_pb2, governance_pb2
from tests.accounting.pastmaker import World
from tests.rpc.clusterkit import OWN, FakeNode, Site, now_us

KINDS = governance_pb2.ReportRequest.Kind
S = 1_000_000
DAY = 24 * 3600 * S
#: 10:00 UTC three days ago: over for long, whatever the time of day. From a fixed date on, a controller that has the
#: clock of this machine would have more hours to count each day.
HOUR = (now_us() // DAY - 3) * DAY + 10 * 3600 * S


def past_job(job_id: int, user: str, uid: int, account: str, start_s: int, end_s: int, tres: str) -> dict[str, Any]:
    world = World(None, None, HOUR)  # only for a row
    row = world.row(job_id, 0, (account, "ann", "debug", "", ""), tres)
    return row | {
        "user_name": user, "user_id": uid, "start_at_us": HOUR + start_s * S, "end_at_us": HOUR + end_s * S,
        "state": 10, "tres_alloc": tres, "request_id": 0,
    }  # fmt: skip


async def report(site: Site, uid: int = 0, **fields: Any) -> tuple[list[tuple[list[str], str, list[int]]], int]:
    pages = await site.call_as(uid, "Report", governance_pb2.ReportRequest(**fields))
    rows = [(list(row.keys), row.tres, list(row.values)) for page in pages for row in page.rows]
    return rows, pages[0].rolled_up_to_us


def with_past(site: Site) -> None:
    """Before the controller starts: once it runs, it counts up to its own hour by itself, and what comes then is too late."""
    engine = create_engine(f"sqlite:///{site.state}/penstock.db")
    jobs = [
        past_job(1, "ann", 4001, "physics", 0, 600, "cpu=2,mem=100M,node=1,billing=2"),
        past_job(2, "bob", 4002, "chem", 1800, 5400, "cpu=1,mem=50M,node=1,billing=1,gres/gpu=1"),
    ]
    with engine.begin() as connection:
        connection.execute(insert(JOB), jobs)
    engine.dispose()


def test_usage_of_the_past(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path, extra="PrivateData=usage,events\n")
        with_past(site)
        async with site.controller() as controller:
            assert await controller.rollups.catch_up() and not await controller.rollups.catch_up()
            passes = controller.runtime.diagnostics
            assert passes.rollup.cycles == 1 and passes.rollup.last_us > 0 and 0 < passes.last_rollup_at_us <= now_us()
            window = {"start_at_us": HOUR, "end_at_us": HOUR + 4 * HOUR_US}
            rows, to_us = await report(site, kind=KINDS.USAGE, group_by=["account", "user"], **window)
            assert rows == [(["chem", "bob"], "cpu", [3600]), (["physics", "ann"], "cpu", [1200])]
            assert window["end_at_us"] < to_us <= now_us()
            rows, _ = await report(site, kind=KINDS.USAGE, group_by=["hour"], tres=["gres/gpu", "mem"], **window)
            first, second = str(HOUR // S), str(HOUR // S + 3600)
            assert rows == [
                ([first], "gres/gpu", [1800]),
                ([first], "mem", [150_000]),
                ([second], "gres/gpu", [1800]),
                ([second], "mem", [90_000]),
            ]
            rows, _ = await report(site, 4001, kind=KINDS.USAGE, group_by=["user"], **window)
            assert rows == [(["ann"], "cpu", [1200])]
            with pytest.raises(grpc.aio.AioRpcError, match="group by shoe"):
                await report(site, kind=KINDS.USAGE, group_by=["shoe"], **window)

    asyncio.run(run())


def test_nodes_that_are_none_are_refused(tmp_path: Path) -> None:
    """In the words of the mistake: it is no fault of the controller's."""

    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller():
            for nodes in ("n[1-99999999]", "n[", "n[1-"):
                with pytest.raises(grpc.aio.AioRpcError, match="Invalid node name specified: Invalid hostlist"):
                    await site.call_as(0, "ListEvents", governance_pb2.ListEventsRequest(nodes=[nodes]))
                with pytest.raises(grpc.aio.AioRpcError, match="Invalid node name specified: Invalid hostlist"):
                    await report(site, kind=KINDS.JOB_SIZES, nodes=[nodes])

    asyncio.run(run())


def test_events_of_nodes(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path, extra="PrivateData=usage,events\n")
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            changes = {"state": "DRAIN", "reason": "fan"}
            await client.call("UpdateNodes", controller_pb2.UpdateNodesRequest(names="n1", changes=changes))
            request = governance_pb2.ListEventsRequest(nodes=["n1"])
            (page,) = await site.call_as(0, "ListEvents", request)
            (event,) = page.events
            assert (event.node, event.state, event.reason, event.user) == ("n1", "DRAIN", "fan", OWN.pw_name)
            assert (event.end_at_us, event.event_type, event.tres) == (0, "Node", "cpu=4,mem=4000M,node=1")
            assert await site.call_as(4001, "ListEvents", request) == []
            changes = {"state": "RESUME"}
            await client.call("UpdateNodes", controller_pb2.UpdateNodesRequest(names="n1", changes=changes))
            assert await site.call_as(0, "ListEvents", request) == []
            request = governance_pb2.ListEventsRequest(all_clusters_events=True)
            (page,) = await site.call_as(0, "ListEvents", request)
            assert [(e.node, e.state, e.reason, bool(e.end_at_us)) for e in page.events] == [
                ("", "", "Cluster Registered TRES", False),
                ("n1", "DRAIN", "fan", True),
            ]

    asyncio.run(run())
