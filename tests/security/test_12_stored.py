"""Item 12: limits of the content that a user's jobs store and of the bytes in their calls; the sums are kept, not computed each time."""

import asyncio

import grpc
import pytest
from patience import ANSWER_S, END_S, LONGEST_S

from ctld.core.records.events import Actor, Role
from ctld.core.state import stored
from ctld.rpc.gate import underway
from ctld.rpc.gate.underway import Underway
from penstock.calls import pause_asked_s
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.refusals import TEXT, Code
from tests.rpc.clusterkit import FakeNode, Site, jobs_of, submission, wait_for

LIMIT = 20_000
USER, OTHER = 54_321, 54_322


def run(story):
    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def with_environment(number: int, size: int = 9_000, **job) -> controller_pb2.SubmitJobRequest:
    request = submission(**job)
    request.spec.environment[:] = [b"N=%d" % number, b"X=" + b"x" * size]
    return request


async def refused(call) -> PenstockError:
    with pytest.raises(PenstockError) as error:
        await call
    assert error.value.code == Code.USER_STORAGE_LIMIT, error.value
    return error.value


def site_of(tmp_path) -> Site:
    return Site(tmp_path, extra=f"PenstockUserSpecBytesMax={LIMIT}\nMinJobAge=1\n")


def test_a_user_with_too_much_stored_is_refused_and_told_what_to_do(tmp_path):
    async def story():
        site = site_of(tmp_path)
        async with site.controller(), site.client() as client:
            for number in range(2):
                await client.call("SubmitJob", with_environment(number, hold=True))
            error = await refused(client.call("SubmitJob", with_environment(2, hold=True)))
            assert TEXT[Code.USER_STORAGE_LIMIT] in error.text and f"PenstockUserSpecBytesMax={LIMIT}" in error.text
            assert "--export=NONE" in error.text
            await client.call("SubmitJob", with_environment(1, hold=True))  # the same content is stored once
            await client.call("SubmitJob", with_environment(1, hold=True, array="0-99"))
            await site.call_as(OTHER, "SubmitJob", with_environment(2, hold=True))  # another user has their own limit

    run(story)


def test_the_limit_holds_at_once_after_a_restart_and_ends_with_the_jobs(tmp_path):
    async def story():
        site = site_of(tmp_path)
        async with site.controller() as controller, site.client() as client:
            ids = [(await client.call("SubmitJob", with_environment(n, hold=True))).job_id for n in range(2)]
            before = dict(controller.runtime.core.state.submissions.stored.bytes)
        async with site.controller() as controller, site.client() as client:
            state = controller.runtime.core.state
            assert dict(state.submissions.stored.bytes) == before and 18_000 < sum(before.values()) < LIMIT
            await refused(client.call("SubmitJob", with_environment(2, hold=True)))
            which = controller_pb2.JobFilter(ids=[str(ids[0])])
            await client.call("CancelJobs", controller_pb2.CancelJobsRequest(filter=which))
            await wait_for(client, ids[0], "CANCELLED")
            async with asyncio.timeout(END_S):  # until it is forgotten (MinJobAge)
                while ids[0] in state.jobs:
                    await asyncio.sleep(0.05)
            await client.call("SubmitJob", with_environment(2, hold=True))
            controller.runtime.core.check()

    run(story)


def test_tasks_of_an_array_hold_what_they_share_until_the_last_one_is_forgotten(tmp_path):
    async def story():
        site = site_of(tmp_path)
        async with site.controller() as controller, site.client() as client, FakeNode(site) as node:
            await node.register()
            await client.call("SubmitJob", with_environment(0, array="0-3"))
            core = controller.runtime.core
            keys = [(await node.command("launch")).launch.key for _ in range(4)]
            core.check()
            for number, key in enumerate(keys):
                await node.started(key)
                await node.exited(key)
                async with asyncio.timeout(ANSWER_S):
                    while sum(job.state == "COMPLETED" for job in await jobs_of(client)) < number and core.state.jobs:
                        await asyncio.sleep(0.02)
            async with asyncio.timeout(ANSWER_S):
                while core.state.jobs:
                    await asyncio.sleep(0.05)
            assert not core.state.submissions.stored.bytes and not core.state.submissions.stored.references()

    run(story)


def test_long_texts_of_requests_count_as_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "TEXT_BYTES_MAX", 100_000)
    monkeypatch.setattr(stored, "TEXT_BYTES_EACH_MAX", 50_000)

    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            kept = controller.runtime.core.state.submissions.stored
            for _ in range(5):
                await client.call("SubmitJob", submission(comment="x" * 100, hold=True))
            assert not kept.texts  # ordinary jobs cost nothing
            long = ",".join(f"n{number:040}" for number in range(1, 1000))
            ids = []
            for _ in range(2):
                reply = await client.call("SubmitJob", submission(hold=True, submit_line="sbatch -x " + long[:40_000]))
                ids.append(reply.job_id)
            error = await refused(client.call("SubmitJob", submission(hold=True, submit_line=long[:40_000])))
            assert "the limit is 100000" in error.text
        async with site.controller() as controller, site.client() as client:
            kept = controller.runtime.core.state.submissions.stored
            assert 80_000 < sum(kept.texts.values()) < 100_000
            await refused(client.call("SubmitJob", submission(hold=True, submit_line=long[:40_000])))

    run(story)


# ---- calls under way

ACTOR = Actor(USER, USER, "ann", "ann", (), Role.USER)


def test_calls_of_one_user_have_a_number_and_a_size_and_others_are_not_asked():
    calls = Underway(calls_max=3, bytes_max=1000)
    for _ in range(3):
        assert calls.refusal(ACTOR, 10) is None
        calls.begin(USER, 10)
    code, text = calls.refusal(ACTOR, 10)
    assert code == Code.RATE_LIMITED and "3 calls of yours are under way, the limit is 3" in text
    assert pause_asked_s(text) == underway.PAUSE_MS / 1000  # commands wait so long and ask again
    other = Actor(OTHER, OTHER, "bob", "bob", (), Role.USER)
    assert calls.refusal(other, 10) is None
    for _ in range(3):
        calls.end(USER, 10)
    assert calls.refusal(ACTOR, 10) is None and not calls.calls and not calls.bytes
    calls.begin(USER, 900)
    code, text = calls.refusal(ACTOR, 101)
    assert code == Code.RATE_LIMITED and "900 bytes" in text
    assert calls.refusal(ACTOR, 100) is None
    code, _ = calls.refusal(ACTOR, underway.REQUEST_BYTES_MAX + 1)
    assert code == Code.INVALID_VALUE
    assert calls.refusal(Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR), 10**9) is None


def test_calls_that_wait_are_bounded_and_are_let_go_with_their_callers(tmp_path):
    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller:
            gate = controller.gate.underway = underway.Underway(calls_max=10)
            job = await site.call_as(USER, "SubmitJob", submission(hold=True))
            wait = controller_pb2.AwaitJobRequest(job_id=job.job_id)
            waiting = [asyncio.create_task(site.call_as(USER, "AwaitJob", wait)) for _ in range(10)]
            async with asyncio.timeout(ANSWER_S):
                while gate.calls[USER] < 10:
                    await asyncio.sleep(0.01)
            with pytest.raises(grpc.aio.AioRpcError) as many:
                await site.call_as(USER, "AwaitJob", wait)
            assert many.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await site.call_as(OTHER, "SubmitJob", submission(hold=True))
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            async with asyncio.timeout(ANSWER_S):
                while gate.calls:
                    await asyncio.sleep(0.01)
            assert not gate.bytes
            with pytest.raises(grpc.aio.AioRpcError) as large:
                script = b"#!/bin/sh\n" + b"x" * underway.REQUEST_BYTES_MAX
                await site.call_as(USER, "SubmitJob", submission(script=script))
            assert "the limit is 8388608" in large.value.details()

    run(story)


def test_a_listing_that_nobody_reads_is_a_call_under_way(tmp_path):
    async def story():
        site = Site(tmp_path)
        async with site.controller() as controller:
            assert await site.call_as(USER, "ListJobs", controller_pb2.ListJobsRequest()) is not None
            async with asyncio.timeout(ANSWER_S):
                while controller.gate.underway.calls:
                    await asyncio.sleep(0.01)

    run(story)


def test_specs_have_a_size_that_the_database_agrees_with():
    from ctld.core.records.job import SpecRow
    from ctld.rpc.jobs.submission import spec_row
    from ctld.store.rows import job_spec_values
    from penstock.values.config import Config

    row = spec_row(common_pb2.JobSpec(script=b"#!/bin/sh\n", argv=[b"a", b""], environment=[b"A=1"]), Config())
    assert row.size == sum(len(part) for part in job_spec_values(row)[1:] if isinstance(part, bytes))
    assert stored.spec_bytes(SpecRow(*row[:4])) == row.size
