"""A node whose clock is a day off: it takes no jobs, and what it reports of one has the controller's times. One that is some
seconds off has a reason, and an alarm.

A real node daemon and its supervisors. The clock of their machine is off by what a file says, while it is there.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from livecluster import free_ports
from patience import ANSWER_S

from ctld.core.nodes.clocks import CLOCK_WRONG
from ctld.core.records.effects import Batch, LaunchStep
from ctld.store.committer import Store
from penstock.v1 import accounting_pb2, controller_pb2
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState
from tests.observe.scraping import scrape
from tests.rpc.clusterkit import Site, now_us, submit, wait_for

DAY_S = 86_400
NODED = """
import os, sys, time
flag, true = sys.argv.pop(1), time.time_ns
def off():
    try:
        with open(flag) as file:
            return int(file.read()) * 10**9
    except FileNotFoundError:
        return 0
time.time_ns = lambda: true() + off()
from nodedaemon.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks are compared with each heartbeat: every second, not every fifth."""
    monkeypatch.setattr("ctld.agents.registry.HEARTBEAT_MS", 1000)


@contextlib.contextmanager
def noded(site: Site, flag: Path) -> Iterator[None]:
    """The node daemon, whose clock is off by the seconds in `flag`, while that exists."""
    site.node_credentials("n1")
    words = [
        "--node-name",
        "n1",
        "--controller",
        f"127.0.0.1:{site.ports[1]}",
        "--cert-dir",
        str(site.folder / "certs/n1"),
    ]
    words += ["--spool", str(site.folder / "spool"), "--cpus", "4", "--real-memory", "4000", "--cgroup", "off"]
    words += ["--stream-port", "0", "--stream-bind", "127.0.0.1"]
    with open(site.folder / "noded.log", "wb") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-c", NODED, str(flag), *words], stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        yield
    finally:
        daemon.terminate()
        daemon.wait(ANSWER_S)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks again until it does."""
    async with asyncio.timeout(ANSWER_S):
        while not await holds():
            await asyncio.sleep(0.05)


def test_16_what_begins_in_a_database_outage_keeps_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits stand still from the launch until the job has written a line, and its node has reported its start."""
    site = Site(tmp_path)
    line = tmp_path / "line"
    script = f"#!/bin/sh\ntouch {line}\nwhile [ ! -e {line}.end ]; do sleep 0.1; done\n"
    away = threading.Event()
    real = Store.commit

    def commit(self: Store, batch: Batch) -> None:
        real(self, batch)
        if any(isinstance(effect, LaunchStep) for effect in batch.effects):
            monkeypatch.setattr(Store, "commit", waits)  # from the next one on

    def waits(self: Store, batch: Batch) -> None:
        assert away.wait(ANSWER_S)
        real(self, batch)

    monkeypatch.setattr(Store, "commit", commit)

    async def story() -> None:
        async with site.controller() as daemon, site.client() as client:
            with noded(site, tmp_path / "never"):
                job_id = await submit(client, script=script.encode(), std_out=b"/dev/null")
                jobs = daemon.services.runtime.core.state.jobs

                async def has_begun() -> bool:
                    return line.exists() and jobs[job_id].steps[BATCH_STEP].state is JobState.RUNNING

                await until(has_begun)
                back_us = now_us()
                away.set()
                line.with_suffix(".end").touch()
                ended = await wait_for(client, job_id, "COMPLETED")
                request = accounting_pb2.ListRecordsRequest(ids=[str(job_id)])
                pages = [page async for page in client.stream("ListRecords", request)]
                [step] = pages[0].records[0].steps
                assert ended.start_at_us <= step.start_at_us <= back_us <= step.end_at_us <= ended.end_at_us

    try:
        asyncio.run(story())
    finally:
        away.set()


@pytest.mark.parametrize("off_s", [10, -10])
def test_a_node_with_a_clock_that_is_10_s_off(tmp_path: Path, off_s: int) -> None:
    """Its reason, an alarm, and jobs with the controller's times."""
    (port,) = free_ports(1)
    site, flag = (
        Site(tmp_path, extra=f"MetricsType=metrics/openmetrics\nPenstockMetricsPort={port}\n"),
        tmp_path / "off",
    )
    flag.write_text(str(off_s))

    async def story() -> None:
        async with site.controller(), site.client() as client:

            async def node() -> controller_pb2.NodeInfo:
                return (await client.call("ListNodes", controller_pb2.ListNodesRequest())).nodes[0]

            async def alarms() -> float:
                return (await scrape(port, "/metrics/penstock")).value("penstock_node_clocks_off")

            async def is_alarmed() -> bool:
                return await alarms() == 1

            assert await alarms() == 0
            with noded(site, flag):

                async def is_told() -> bool:
                    return bool((await node()).reason)

                await until(is_told)
                found = await node()
                way = "ahead of" if off_s > 0 else "behind"
                assert re.fullmatch(rf"Clock (9\.\d|10\.\d) s {way} the controller's", found.reason)
                assert "DRAIN" not in found.flags
                await until(is_alarmed)  # a page may be a second old
                ended = await wait_for(
                    client, await submit(client, script=b"#!/bin/sh\ntrue\n", std_out=b"/dev/null"), "COMPLETED"
                )
                assert ended.submit_at_us <= ended.start_at_us <= ended.end_at_us <= now_us()

    asyncio.run(story())


@pytest.mark.parametrize("off_s", [DAY_S, -DAY_S])
def test_a_node_with_a_clock_that_is_a_day_off(tmp_path: Path, off_s: int) -> None:
    """One that is behind is set while the node has its stream: a day before, its certificate was not valid yet."""
    site, flag = Site(tmp_path), tmp_path / "off"
    if off_s > 0:
        flag.write_text(str(off_s))

    async def story() -> None:
        async with site.controller() as daemon, site.client() as client:
            with noded(site, flag):

                async def is_there() -> bool:
                    return any(link.clock_off_us for link in daemon.services.registry.by_node.values())

                async def reason() -> str:
                    reply = await client.call("ListNodes", controller_pb2.ListNodesRequest())
                    return reply.nodes[0].reason

                async def is_kept_from_jobs() -> bool:
                    return await reason() == CLOCK_WRONG

                await until(is_there)
                flag.write_text(str(off_s))
                await until(is_kept_from_jobs)
                job_id = await submit(client, script=b"#!/bin/sh\nsleep 0.1\n", std_out=b"/dev/null")
                assert not daemon.services.runtime.core.state.jobs[job_id].alloc
                flag.unlink()
                ended = await wait_for(client, job_id, "COMPLETED")
                assert ended.submit_at_us <= ended.start_at_us < ended.end_at_us <= now_us()
                request = accounting_pb2.ListRecordsRequest(ids=[str(job_id)])
                [record] = [
                    one for page in [p async for p in client.stream("ListRecords", request)] for one in page.records
                ]
                [step] = record.steps
                assert ended.start_at_us <= step.start_at_us < step.end_at_us <= ended.end_at_us
                assert await reason() == ""

    asyncio.run(story())
    assert "Traceback" not in (tmp_path / "noded.log").read_text()
