"""One connection with very many calls: gRPC receives calls in the order in which they come, before their users take turns, so
what one connection may have at a time is bounded. A client of ours that needs more opens further connections."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from patience import ANSWER_S, END_S

from ctld.rpc.server import STREAMS_MAX
from ctld.rpc.watch.service import WATCHES_OF_USER_MAX
from penstock.aclient import CHANNEL_CALLS_MAX
from penstock.calls import TOKEN_KEY
from penstock.v1 import controller_pb2, watch_pb2
from tests.rpc.clusterkit import Site
from tests.security.test_09_turns import BYSTANDER, PATIENCE_S, TURN_MAX_US, USER, attacked

AWAIT, LIST, WATCH = (
    "/penstock.v1.Controller/AwaitJob",
    "/penstock.v1.Controller/ListJobs",
    "/penstock.v1.Watch/Watch",
)
CONNECTIONS = 32
OF_JOB_1 = controller_pb2.AwaitJobRequest(job_id=1)


def proof(site: Site, uid: int = USER) -> tuple[tuple[str, bytes]]:
    return ((TOKEN_KEY, site.token(uid)),)


async def listing(site: Site, channel: Any, limit_s: float) -> int:
    """The number of pages of a listing over this connection."""
    call = channel.unary_stream(LIST, None, None)(b"", metadata=proof(site), timeout=limit_s)
    return len([page async for page in call])


def test_what_a_connection_has_beyond_its_bound_waits_in_its_client(tmp_path: Path) -> None:
    async def story() -> None:
        async with attacked(tmp_path, nodes=5) as (site, channel, _):
            assert await listing(site, channel, ANSWER_S)  # the connection is there, and the bound known
            start = channel.unary_stream(AWAIT, None, None)
            waits = [start(OF_JOB_1.SerializeToString(), metadata=proof(site, 0)) for _ in range(STREAMS_MAX - 1)]
            assert await listing(site, channel, ANSWER_S)  # the last one for which there is room
            waits.append(start(OF_JOB_1.SerializeToString(), metadata=proof(site, 0)))
            tasks = [asyncio.create_task(_end_of(wait)) for wait in waits]
            await asyncio.sleep(0)
            with pytest.raises(grpc.aio.AioRpcError, match="DEADLINE_EXCEEDED"):
                await listing(site, channel, PATIENCE_S)
            assert await site.call_as(BYSTANDER, "ListJobs", controller_pb2.ListJobsRequest())
            assert not any(task.done() for task in tasks)
            waits[0].cancel()
            assert await listing(site, channel, ANSWER_S)  # there is room for one again
            for wait in waits:
                wait.cancel()
            await asyncio.wait(tasks, timeout=END_S)

    asyncio.run(story())


async def _end_of(call: Any) -> str:
    try:
        async for _ in call:
            pass
        return "OK"
    except asyncio.CancelledError:
        return "cancelled"
    except grpc.aio.AioRpcError as error:
        return error.code().name


def test_streams_beyond_a_users_bound_are_refused_and_others_are_answered(tmp_path: Path) -> None:
    number = CONNECTIONS * STREAMS_MAX

    async def story() -> None:
        async with attacked(tmp_path, nodes=5) as (site, _, watch), AsyncExitStack() as stack:
            own = [("grpc.use_local_subchannel_pool", 1)]
            channels = [
                await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{site.state}/ctld.sock", own))
                for _ in range(CONNECTIONS)
            ]
            for channel in channels:
                assert await listing(site, channel, ANSWER_S)
            await watch.turn_us()
            data = watch_pb2.WatchRequest().SerializeToString()
            calls = [
                channel.unary_stream(WATCH, None, None)(data, metadata=proof(site))
                for channel in channels
                for _ in range(STREAMS_MAX)
            ]
            ends = [asyncio.create_task(_end_of(call)) for call in calls]
            for refused, end in enumerate(asyncio.as_completed(ends), 1):
                assert await end in ("RESOURCE_EXHAUSTED", "UNAVAILABLE")  # or HTTP/2's REFUSED_STREAM
                if refused % STREAMS_MAX == 1:
                    assert await site.call_as(BYSTANDER, "ListJobs", controller_pb2.ListJobsRequest())
                if refused == number - WATCHES_OF_USER_MAX:
                    break
            assert sum(not end.done() for end in ends) == WATCHES_OF_USER_MAX
            turn_us, errors = await watch.turn_us()
            assert turn_us < TURN_MAX_US and not errors
            for call in calls:
                call.cancel()
            await asyncio.wait(ends, timeout=END_S)

    asyncio.run(story())


def test_several_connections_of_one_user_are_few_calls() -> None:
    """gRPC receives a call in some 0.7 ms, and sixteen connections delayed others by 2.7 s when each had 256."""
    assert CHANNEL_CALLS_MAX < STREAMS_MAX and 16 * STREAMS_MAX <= 512


def test_a_client_with_more_calls_than_that_has_several_connections(tmp_path: Path) -> None:
    async def story() -> None:
        async with attacked(tmp_path, nodes=5) as (site, _, _watch), site.client() as client:
            waits = [
                asyncio.create_task(client.call("AwaitJob", OF_JOB_1, END_S, proof=proof(site, 0)))
                for _ in range(STREAMS_MAX + CHANNEL_CALLS_MAX)
            ]
            await asyncio.sleep(0)
            pages = [
                page async for page in client.stream("ListJobs", controller_pb2.ListJobsRequest(), proof=proof(site))
            ]
            assert pages and not any(wait.done() for wait in waits)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    asyncio.run(story())
