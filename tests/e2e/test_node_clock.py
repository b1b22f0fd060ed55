"""A node whose clock is a day ahead: it takes no jobs, and what it reports of one has the controller's times.

A real node daemon and its supervisors. The clock of their machine is ahead while a file is there.
"""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from patience import ANSWER_S

from ctld.core.nodes.clocks import CLOCK_WRONG
from ctld.core.records.effects import Batch, LaunchStep
from ctld.store.committer import Store
from penstock.v1 import accounting_pb2, controller_pb2
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import JobState
from tests.rpc.clusterkit import Site, now_us, submit, wait_for

DAY_S = 86_400
NODED = f"""
import os, sys, time
flag, true = sys.argv.pop(1), time.time_ns
time.time_ns = lambda: true() + ({DAY_S} * 10**9 if os.path.exists(flag) else 0)
from nodedaemon.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def noded(site: Site, flag: Path) -> Iterator[None]:
    """The node daemon, whose clock is ahead while `flag` exists."""
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


def test_a_node_with_a_clock_that_is_a_day_ahead(tmp_path: Path) -> None:
    site, flag = Site(tmp_path), tmp_path / "ahead"
    flag.touch()

    async def story() -> None:
        async with site.controller() as daemon, site.client() as client:
            with noded(site, flag):

                async def reason() -> str:
                    reply = await client.call("ListNodes", controller_pb2.ListNodesRequest())
                    return reply.nodes[0].reason

                async def is_kept_from_jobs() -> bool:
                    return await reason() == CLOCK_WRONG

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
