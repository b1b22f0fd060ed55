"""A controller on PostgreSQL: its server is restarted under load, and is away for a while. Nothing is lost or doubled."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import ANSWER_S
from postgres import Server, change, rows

from penstock.errors import PenstockError
from penstock.v1 import accounting_pb2, controller_pb2
from penstock.values.refusals import Code
from tests.rpc.clusterkit import AutoNode, Process, Site, jobs_of, submission, submit, wait_for

SUBMISSIONS = 300
AT_A_TIME = 20


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


async def ended(client, count: int) -> list[controller_pb2.JobInfo]:
    async with asyncio.timeout(ANSWER_S * 2):
        while True:
            jobs = await jobs_of(client)
            if len(jobs) >= count and all(job.state == "COMPLETED" for job in jobs):
                return jobs
            await asyncio.sleep(0.05)


def test_the_server_is_restarted_in_the_middle_of_submissions(tmp_path: Path, server: Server) -> None:
    place = server.new_database()
    site = Site(tmp_path, extra=f"PenstockDatabaseUrl={place}\n")
    ids: list[int] = []

    async def submit_some(client) -> None:
        while len(ids) < SUBMISSIONS:
            ids.append(await submit(client, name="load"))

    async def restart_twice() -> None:
        for share in (3, 2):
            while len(ids) < SUBMISSIONS // share:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(server.stop, "immediate")
            server.start()

    async def story() -> None:
        process = Process(site)
        await process.up()
        node = AutoNode(site)
        daemon = asyncio.create_task(node.run())
        try:
            async with site.client() as client:
                await asyncio.gather(restart_twice(), *(submit_some(client) for _ in range(AT_A_TIME)))
                jobs = await ended(client, len(ids))
                assert Counter(job.job_id for job in jobs) == Counter(ids)
                assert Counter(job for job, _ in node.starts) == Counter(ids)
                records = [r async for page in client.stream("ListRecords", accounting_pb2.ListRecordsRequest())
                           for r in page.records]  # fmt: skip
                assert Counter(r.job_id for r in records) == Counter(ids)
        finally:
            daemon.cancel()
            process.stop()
        log = process.log.read_text()
        assert "Traceback" not in log, log

    asyncio.run(story())
    assert not (site.state / "penstock.db").exists()
    for event in ("submit", "start", "end"):
        found = rows(place, f"SELECT job_id FROM job_history WHERE event = '{event}'")
        assert Counter(job_id for (job_id,) in found) == Counter(ids), event


def test_while_the_server_is_away_reading_goes_on_and_changes_are_refused(tmp_path: Path, server: Server) -> None:
    site = Site(tmp_path, extra=f"PenstockDatabaseUrl={server.new_database()}\n")

    async def story() -> None:
        process = Process(site)
        await process.up()
        try:
            async with site.client() as client:
                first = await submit(client, hold=True)
                server.stop("immediate")
                lost = asyncio.create_task(submit(client, hold=True))  # finds out
                async with asyncio.timeout(ANSWER_S):
                    while "the database does not answer" not in process.log.read_text():
                        await asyncio.sleep(0.01)
                assert [job.job_id for job in await jobs_of(client)] == [first]
                with pytest.raises(PenstockError, match="database does not answer; try again later") as refused:
                    await client.call("SubmitJob", submission(hold=True), timeout_s=ANSWER_S)
                assert refused.value.code == Code.STORAGE_AWAY
                with pytest.raises(PenstockError, match="database does not answer"):
                    await client.call("Story", controller_pb2.StoryRequest(job_id=first))
                server.start()
                second = await lost
                assert (await wait_for(client, second, "PENDING")).job_id == second
                assert await submit(client, hold=True) == second + 1
        finally:
            assert process.stop() == 0
        assert "the database takes writes again" in process.log.read_text()

    asyncio.run(story())


def test_a_controller_that_was_replaced_meanwhile_ends_at_once(tmp_path: Path, server: Server) -> None:
    place = server.new_database()
    site = Site(tmp_path, extra=f"PenstockDatabaseUrl={place}\n")

    async def story() -> None:
        process = Process(site)
        await process.up()
        server.restart("immediate")
        change(place, "UPDATE meta SET epoch = epoch + 1")
        assert await process.ended() == 70
        assert "another controller has taken over" in process.log.read_text()

    asyncio.run(story())


def test_a_server_that_is_not_there_at_the_start(tmp_path: Path, server: Server) -> None:
    site = Site(tmp_path, extra=f"PenstockDatabaseUrl={server.url('nothing')}\n")

    async def story() -> None:
        process = Process(site)
        assert await process.ended() == 75
        log = process.log.read_text()
        assert 'database "nothing" does not exist' in log and "Traceback" not in log

    asyncio.run(story())
