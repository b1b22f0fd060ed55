"""`penstock ctld` as a process: how it refuses to start, how it is told things, how it ends."""

import asyncio
import os
import signal
import socket

from ctld.store.committer import Store
from penstock.v1 import controller_pb2
from tests.rpc.clusterkit import LIMIT_S, Process, Site, jobs_of, submit


async def ends_with(site: Site, status: int, *words: str) -> None:
    site.state.mkdir(exist_ok=True)
    process = Process(site)
    assert await process.ended() == status
    log = process.log.read_text()
    assert all(word in log for word in words), log
    assert "Traceback" not in log


def test_a_bad_configuration_is_named_with_file_and_line(tmp_path):
    site = Site(tmp_path)
    site.conf.write_text(site.conf.read_text() + "NoSuchKey=1\n")
    line = len(site.conf.read_text().splitlines())
    asyncio.run(ends_with(site, 78, f"{site.conf}:{line}: unknown parameter NoSuchKey"))


def test_a_configuration_that_is_not_there(tmp_path):
    site = Site(tmp_path)
    site.conf.unlink()
    asyncio.run(ends_with(site, 78, str(site.conf)))


def test_a_port_that_is_taken(tmp_path):
    site = Site(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", site.ports[0]))
        other.listen()
        asyncio.run(ends_with(site, 78, f"127.0.0.1:{site.ports[0]}: cannot listen"))


def test_a_key_that_others_can_read(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller():
            pass
        (site.state / "ca" / "controller.key").chmod(0o644)
        await ends_with(site, 78, str(site.state / "ca" / "controller.key"))

    asyncio.run(story())


def test_another_controller_of_the_same_database_leads(tmp_path):
    site = Site(tmp_path)

    async def story():
        site.state.mkdir()
        other = Store.open(site.state / "penstock.db", "elsewhere:/state")
        other.acquire_lease(2**52)  # a lease that lasts
        await ends_with(site, 75, "elsewhere:/state")
        other.close()

    asyncio.run(story())


def test_a_deposed_controller_ends_at_once(tmp_path):
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            other = await asyncio.to_thread(Store.open, site.state / "penstock.db", "elsewhere")
            other.acquire_lease(2**52)  # so late that the first one's lease is over
            assert await process.ended() == 70
            assert "another controller has taken over" in process.log.read_text()
            other.close()
        finally:
            if process.child.poll() is None:
                process.kill()

    asyncio.run(story())


def test_hang_up_reads_again_and_term_stops(tmp_path):
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            async with site.client() as client:
                await submit(client, hold=True)
                site.write(nodes=3)
                os.kill(process.child.pid, signal.SIGHUP)
                async with asyncio.timeout(LIMIT_S):
                    while len((await client.call("ListNodes", controller_pb2.ListNodesRequest())).nodes) != 3:
                        await asyncio.sleep(0.01)
                assert len(await jobs_of(client)) == 1
            state = {path.name: path.stat().st_mode & 0o777 for path in site.state.iterdir()}
            assert state["penstock.db"] == 0o600 and state["ca"] == 0o700 and state["flight"] == 0o700
            assert state["ctld.sock"] == state["auth.sock"] == 0o666
            assert site.state.stat().st_mode & 0o777 == 0o711
        finally:
            assert await asyncio.to_thread(process.stop) == 0
        log = process.log.read_text()
        assert "the configuration was read again" in log and "stopping: SIGTERM" in log
        assert f"job 1 attempt 0: submit uid {os.getuid()}" in log

    asyncio.run(story())
