"""kill -9 at every crash point: what was acknowledged is there, nothing runs twice, every end is recorded once.

Real `penstock ctld` processes on a real database; clients that try again with the same key; a node that keeps its
reports. A dry run lists the points that a job's life passes, and one run dies at each of them.
"""

import asyncio
import contextlib

import pytest
from patience import ANSWER_S, END_S

from ctld.agents.link import REPORTS
from penstock.aclient import AsyncClient
from penstock.crash import COMMIT_POINTS, CONTROLLER_POINTS
from penstock.errors import PenstockError
from penstock.v1 import accounting_pb2, controller_pb2
from tests.rpc.clusterkit import AutoNode, Process, Site, jobs_of, submission, submit, wait_for

KILLED = 137
#: The witness has heard of the batch, the database has not.
BEFORE_COMMIT = ("commit:begun", "commit:before-commit")
#: One for each stage in every run; the others in the long one.
QUICK = ("commit:before-commit", "submit:before-reply", "launch:after-send", "report:before-ack")
ALL = tuple(CONTROLLER_POINTS)


async def one_life(site: Site, client: AsyncClient) -> tuple[int, int, AutoNode]:
    """A job that runs, and one that is cancelled while it runs; every call is tried again until it succeeds."""
    first = await _persist(client, "SubmitJob", submission(name="one"))
    node = AutoNode(site, code=None)
    serving = asyncio.create_task(node.run())
    try:
        await _persist_until(client, first.job_id, "RUNNING")
        await node.launched((first.job_id, 0))
        await node.end((first.job_id, 0), 3)
        await _persist_until(client, first.job_id, "FAILED")
        second = await _persist(client, "SubmitJob", submission(name="two"))
        await _persist_until(client, second.job_id, "RUNNING")
        await node.launched((second.job_id, 0))
        await node.notice("something to look at")
        await node.tell_of_gpus((second.job_id, 0))
        await node.profile((second.job_id, 0))
        cancel = controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(second.job_id)]))
        await _persist(client, "CancelJobs", cancel)
        await _persist_until(client, second.job_id, "CANCELLED")
        async with asyncio.timeout(ANSWER_S):
            while node.reports or node.states:
                await asyncio.sleep(0.01)
        return first.job_id, second.job_id, node
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def _persist(client: AsyncClient, method: str, request):
    async with asyncio.timeout(ANSWER_S):
        while True:
            try:
                return await client.call(method, request)
            except PenstockError:
                await asyncio.sleep(0.05)


async def _persist_until(client: AsyncClient, job_id: int, state: str) -> None:
    async with asyncio.timeout(ANSWER_S):
        while True:
            with contextlib.suppress(PenstockError):
                await wait_for(client, job_id, state)
                return
            await asyncio.sleep(0.05)


async def _revive(process: Process) -> int:
    """Wait for the process to die, then start another one without a crash point."""
    status = await process.ended()
    process.next = Process(process.site)
    await process.next.up()
    return status


def test_each_kind_of_report_has_its_point() -> None:
    assert {f"{kind}:before-step" for kind in REPORTS} <= set(CONTROLLER_POINTS)


@pytest.mark.parametrize("point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in ALL])
def test_a_controller_that_dies_anywhere_loses_and_doubles_nothing(tmp_path, point):
    site = Site(tmp_path)

    async def story():
        process = Process(site, crash_at=f"{point}@2" if point in COMMIT_POINTS else point)  # first come its TRES
        try:
            await process.up()
            reviving = asyncio.create_task(_revive(process))
            async with site.client(retry=True) as client:
                first, second, node = await one_life(site, client)
                assert await asyncio.wait_for(reviving, END_S) == KILLED
                # The witness hears of a batch before its commit: an id whose batch was lost with the process is not given again.
                assert first == (2 if point in BEFORE_COMMIT else 1) and second == first + 1
                assert node.starts == [(first, 0), (second, 0)]
                ends = [(first, "FAILED"), (second, "CANCELLED")]
                assert [(j.job_id, j.state) for j in await jobs_of(client)] == ends
                pages = [p async for p in client.stream("ListRecords", accounting_pb2.ListRecordsRequest())]
                records = [(r.job_id, r.attempt, r.state, r.exit.code) for page in pages for r in page.records]
                assert records == [(first, 0, "FAILED", 3), (second, 0, "CANCELLED", 0)]
                asked = accounting_pb2.ListProfilesRequest(ids=[str(first), str(second)])
                pages = [p async for p in client.stream("ListProfiles", asked)]
                assert [(r.job_id, r.attempt, r.profile) for page in pages for r in page.profiles] == [
                    (second, 0, b"lines")
                ]
                lines = (await client.call("Story", controller_pb2.StoryRequest(job_id=first))).lines
                assert [line.event for line in lines] == ["submit", "start", "end"]
        finally:
            process.kill()
            if process.next is not None:
                assert process.next.stop() == 0

    asyncio.run(story())


def test_five_submissions_then_kill(tmp_path):
    """Slurm loses most of these, and gives their ids to others."""
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            async with site.client() as client:
                ids = [await submit(client, name=f"j{i}") for i in range(5)]
                process.kill()
            process = Process(site)
            await process.up()
            async with site.client(retry=True) as client:
                assert [(j.job_id, j.request.name) for j in await jobs_of(client)] == list(
                    zip(ids, [f"j{i}" for i in range(5)], strict=True)
                )
                assert await submit(client) == max(ids) + 1
        finally:
            process.kill()

    asyncio.run(story())


def test_a_key_is_known_after_a_restart(tmp_path):
    site = Site(tmp_path)

    async def story():
        request = submission()
        async with site.controller(), site.client() as client:
            first = (await client.call("SubmitJob", request)).job_id
            assert (await client.call("SubmitJob", request)).job_id == first
        async with site.controller(), site.client(retry=True) as client:
            assert (await client.call("SubmitJob", request)).job_id == first
            assert len(await jobs_of(client)) == 1

    asyncio.run(story())


def test_the_points_of_a_life_are_the_registered_ones(tmp_path):
    """Every registered point is passed by the life that the sweep leads, so that none is a dead letter."""
    site, passed = Site(tmp_path), tmp_path / "passed"

    async def story():
        process = Process(site, crash_list=passed)
        try:
            await process.up()
            async with site.client(retry=True) as client:
                await one_life(site, client)
        finally:
            assert process.stop() == 0
        assert set(passed.read_text().split()) == set(ALL)

    asyncio.run(story())


def test_a_second_controller_of_the_same_state_does_not_start(tmp_path):
    site = Site(tmp_path)

    async def story():
        process = Process(site)
        try:
            await process.up()
            process.site = Site.__new__(Site)  # a second one must not remove the first one's cluster.json
            process.site.__dict__ = {**site.__dict__, "state": tmp_path / "nowhere"}
            (tmp_path / "nowhere").mkdir()
            second = Process(process.site)
            assert await second.ended() == 78
            assert f"another controller (pid {process.child.pid}) uses it" in second.log.read_text()
            async with site.client() as client:
                await submit(client)
        finally:
            assert process.stop() == 0

    asyncio.run(story())
