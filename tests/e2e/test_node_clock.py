"""A node whose clock is a day ahead: it takes no jobs, and what it reports of one has the controller's times.

A real node daemon and its supervisors. The clock of their machine is ahead while a file is there.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from patience import ANSWER_S

from ctld.core.nodes.clocks import CLOCK_WRONG
from penstock.v1 import accounting_pb2, controller_pb2
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
