"""Item 2, for JSON web tokens: a call that has waited neither acts for nor answers anybody whose token was revoked, or has
ended, in the meantime."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
import pytest
from patience import ANSWER_S

from ctld.rpc.gate import entry, paging
from ctld.rpc.gate.rights import RIGHTS, WAITING
from ctld.rpc.gate.usertokens import UserTokens
from ctld.rpc.jobs.filtering import Filtering
from penstock.calls import USER_TOKEN_KEY, find_rpc, find_stream
from penstock.security.tls import client_channel
from penstock.transport import read_ca
from penstock.v1 import common_pb2, node_pb2, steps_pb2
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import EOF, FakeNode, Site, jobs_of, submission, submit
from tests.rpc.test_rpc_steps import register, wish
from tests.security.test_02_user_tokens import NOBODY, site_of, token_of

ENDED = grpc.StatusCode.UNAUTHENTICATED
WAIT_S = 300


def channel(site: Site) -> grpc.aio.Channel:
    cluster = site.cluster()
    fixed = (("grpc.http2.bdp_probe", 0),)  # else gRPC's window grows with the delay of a busy machine
    return grpc.aio.secure_channel(cluster.address, client_channel(read_ca(cluster)), options=fixed)


def called(opened: grpc.aio.Channel, token: str, method: str, request: Any) -> Any:
    rpc = find_rpc(method, request)
    call = opened.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
    return call(request, metadata=((USER_TOKEN_KEY, token),), timeout=ANSWER_S)


async def told(node: FakeNode, kind: str) -> node_pb2.Command:
    """The next command of that kind."""
    while True:
        message = await node.read()
        if message.WhichOneof("kind") == "command":
            await node.acknowledge(message.command)
            if message.command.WhichOneof("kind") == kind:
                return message.command


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_02_calls_that_wait_answer_no_token_that_has_ended(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """For the end of a job, for nodes, for a step's resources, for its end. The kernel's word for the same user stands."""
    site = site_of(tmp_path)
    ahead_us = 0

    def made(revoked: Mapping[str, int], clock_us: Callable[[], int], *more: Any) -> UserTokens:
        return UserTokens(revoked, lambda: clock_us() + ahead_us, *more)

    monkeypatch.setattr("ctld.daemon.UserTokens", made)

    async def story() -> None:
        nonlocal ahead_us
        async with (
            site.controller() as controller,
            site.client() as client,
            FakeNode(site) as node,
            channel(site) as far,
        ):

            async def local(method: str, request: Any) -> Any:
                return await site.call_as(NOBODY.pw_uid, method, request)

            async def allocated() -> int:
                job = submission(script=b"", kind=common_pb2.SALLOC, ntasks=4)
                return int((await local("SubmitJob", job)).job_id)

            await register(node)
            held, pending = await allocated(), await allocated()
            await local("AwaitAllocation", steps_pb2.AwaitAllocationRequest(job_id=held, wait_s=WAIT_S))
            await local("CreateStep", wish(held, ntasks=4, exact=True))
            launch = (await node.command("launch")).launch
            await node.started(launch.key)
            requests: dict[str, Callable[[], Any]] = {
                "AwaitStep": lambda: steps_pb2.AwaitStepRequest(job_id=held, wait_s=WAIT_S),
                "CreateStep": lambda: wish(held, WAIT_S, ntasks=1, exact=True),
                "AwaitJob": lambda: c.AwaitJobRequest(job_id=held),
                "AwaitAllocation": lambda: steps_pb2.AwaitAllocationRequest(job_id=pending, wait_s=WAIT_S),
            }
            assert {name.rpartition("/")[2] for name in WAITING} >= set(requests) and set(RIGHTS) >= WAITING
            token = token_of(NOBODY.pw_name)
            theirs = {name: called(far, token, name, request()) for name, request in requests.items()}
            ours = {name: asyncio.create_task(local(name, request())) for name, request in requests.items()}
            underway = controller.gate.underway
            async with asyncio.timeout(ANSWER_S):
                while underway.calls[NOBODY.pw_uid] < 2 * len(requests):
                    await asyncio.sleep(0.01)
            if end == "revoked":
                await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            ahead_us = 601 * 1_000_000 if end == "expired" else 0
            await node.exited(launch.key)
            assert (await ours["AwaitStep"]).state == "COMPLETED" and (await ours["CreateStep"]).io_key
            await local("EndAllocation", steps_pb2.EndAllocationRequest(job_id=held))
            for _ in range(1 if end == "revoked" else 2):  # of the steps that have waited, and could start
                await node.exited((await told(node, "terminate")).terminate.key)
            assert (await ours["AwaitJob"]).state and (await ours["AwaitAllocation"]).nodes
            for name, call in theirs.items():
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call
                assert refused.value.code() is ENDED, name
                assert f"has {'been revoked' if end == 'revoked' else 'expired'}" in str(refused.value.details()), name

    asyncio.run(story())


@pytest.mark.parametrize("end", ["revoked", "expired", "withdrawn"])
def test_02_a_step_that_waits_does_not_start_when_its_token_has_ended(tmp_path: Any, end: str) -> None:
    """It started as soon as its resources were free, for a caller who was then refused the answer."""
    site = site_of(tmp_path)

    async def story() -> None:
        async with (
            site.controller() as controller,
            site.client() as client,
            FakeNode(site) as node,
            channel(site) as far,
        ):

            async def local(method: str, request: Any) -> Any:
                return await site.call_as(NOBODY.pw_uid, method, request)

            await register(node)
            job = submission(script=b"", kind=common_pb2.SALLOC, ntasks=4)
            held = int((await local("SubmitJob", job)).job_id)
            await local("AwaitAllocation", steps_pb2.AwaitAllocationRequest(job_id=held, wait_s=WAIT_S))
            await local("CreateStep", wish(held, ntasks=4, exact=True))
            launch = (await node.command("launch")).launch
            await node.started(launch.key)
            token = token_of(NOBODY.pw_name, exp=time.time() + (2 if end == "expired" else 600))
            if end == "withdrawn":  # a personal token
                own = c.CreatePersonalTokenRequest(name="t", scope="TOKEN_SCOPE_ADMIN")
                token = (await local("CreatePersonalToken", own)).token
            theirs = called(far, token, "CreateStep", wish(held, WAIT_S, ntasks=1, exact=True))
            ours = asyncio.create_task(local("CreateStep", wish(held, WAIT_S, ntasks=4, exact=True)))
            underway = controller.gate.underway
            async with asyncio.timeout(ANSWER_S):
                while underway.calls[NOBODY.pw_uid] < 2:
                    await asyncio.sleep(0.01)
            if end == "revoked":
                await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            if end == "withdrawn":
                await local("RevokePersonalToken", c.RevokePersonalTokenRequest(name="t"))
            with pytest.raises(grpc.aio.AioRpcError, match="has expired" if end == "expired" else "has been revoked"):
                await theirs  # while the resources are still in use
            await node.exited(launch.key)
            assert (await ours).plan.ntasks == 4  # all of them: no other step has begun
            assert controller.gate.underway.calls[NOBODY.pw_uid] == 0

    asyncio.run(story())


def test_02_a_listing_that_is_read_slowly_ends_with_its_token(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages are made as they are read."""
    monkeypatch.setattr(paging, "PAGE_BYTES", 1)
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client, channel(site) as far:
            for _ in range(300):
                await client.call("SubmitJob", submission(hold=True, comment="x" * 1000))
            request = c.ListJobsRequest()
            rpc = find_stream("ListJobs", request)
            call: Any = far.unary_stream(rpc.path, rpc.serialize, rpc.deserialize)(
                request, metadata=((USER_TOKEN_KEY, token_of(NOBODY.pw_name, exp=time.time() + 600)),), timeout=ANSWER_S
            )
            assert (await call.read()).jobs
            await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            pages = 1
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                while (await call.read()) is not EOF:
                    pages += 1
            assert refused.value.code() is ENDED and pages < 300

    asyncio.run(story())


class KeptBack:
    """A call that was begun with a valid token, and whose request comes when its caller likes."""

    def __init__(self, opened: grpc.aio.Channel, method: str, request: Any) -> None:
        self._request = request
        self._is_due = asyncio.Event()
        rpc = find_rpc(method, request)
        begin = opened.stream_unary(rpc.path, rpc.serialize, rpc.deserialize)
        self.call: Any = begin(self._late(), metadata=((USER_TOKEN_KEY, token_of(NOBODY.pw_name)),), timeout=ANSWER_S)

    async def _late(self) -> AsyncIterator[Any]:
        await self._is_due.wait()
        yield self._request

    async def sent(self) -> str:
        """Sends the request; "ok", or why it is refused."""
        self._is_due.set()
        try:
            await self.call
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return "ok"


def test_02_a_request_that_was_kept_back_does_nothing_after_a_revocation(tmp_path: Any) -> None:
    """Hundreds of such calls could be begun with a stolen token, and submit for hours after it was revoked."""
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client, channel(site) as far:
            calls = [KeptBack(far, "SubmitJob", submission(hold=True)) for _ in range(4)]
            receiving = controller.gate.receiving
            async with asyncio.timeout(ANSWER_S):
                while receiving.number_of(NOBODY.pw_uid) < len(calls):
                    await asyncio.sleep(0.01)
            assert await calls[0].sent() == "ok"
            await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            for call in calls[1:]:
                assert "the token has been revoked" in await call.sent()
            assert len(await jobs_of(client)) == 1

    asyncio.run(story())


def test_02_a_submission_whose_token_ends_while_a_filter_runs_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site's filters may take seconds for each of a user's calls, one after the other."""
    site = site_of(tmp_path)
    (tmp_path / "filter.py").write_text("def job_submit(job, submitter):\n    pass\n")
    site.conf.write_text(f"PenstockSubmitFilter={tmp_path / 'filter.py'}\n{site.conf.read_text()}")
    plain = Filtering.submission

    async def story() -> None:
        async with site.controller(), site.client() as client, channel(site) as far:

            async def submission_of(self: Filtering, *asked: Any) -> Any:
                answer = await plain(self, *asked)
                await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
                return answer

            token = token_of(NOBODY.pw_name)
            await called(far, token, "SubmitJob", submission(hold=True))
            monkeypatch.setattr(Filtering, "submission", submission_of)
            with pytest.raises(grpc.aio.AioRpcError, match="the token has been revoked"):
                await called(far, token, "SubmitJob", submission(hold=True))
            assert len(await jobs_of(client)) == 1

    asyncio.run(story())


def test_13_calls_that_keep_their_requests_back_are_bounded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds memory, and was counted only when its request was there. Other users are not concerned."""
    monkeypatch.setattr(entry, "CALLS_MAX", 3)
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client, channel(site) as far:
            calls = [KeptBack(far, "SubmitJob", submission(hold=True)) for _ in range(5)]
            async with asyncio.timeout(ANSWER_S):
                while sum(call.call.done() for call in calls) < 2:
                    await asyncio.sleep(0.01)
            assert controller.gate.receiving.number_of(NOBODY.pw_uid) == 3
            assert await submit(client) == 1
            said = sorted([await call.sent() for call in calls])
            assert said.count("ok") == 3 and all("have not sent their requests" in text for text in said[:2])
            assert await KeptBack(far, "SubmitJob", submission(hold=True)).sent() == "ok"

    asyncio.run(story())
