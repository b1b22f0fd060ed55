"""Streams of changes, for tests that read them by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from patience import ANSWER_S

from penstock.calls import TOKEN_KEY, USER_TOKEN_KEY, find_stream
from penstock.v1 import watch_pb2 as w
from tests.rpc.clusterkit import Site


class Watcher:
    """One stream of a user."""

    def __init__(self, site: Site, channel: grpc.aio.Channel, who: int | str, **fields: Any) -> None:
        """`who`: a uid, for which this machine's auth socket speaks, or a JSON web token."""
        request = w.WatchRequest(**fields)
        rpc = find_stream("Watch", request)
        metadata = ((USER_TOKEN_KEY, who),) if isinstance(who, str) else ((TOKEN_KEY, site.token(who)),)
        self.call: Any = channel.unary_stream(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)
        self.last = 0

    async def reply(self) -> w.WatchReply:
        reply = await asyncio.wait_for(self.call.read(), ANSWER_S)
        assert reply.last >= self.last
        self.last = reply.last
        return reply

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """Reads on to the end, which is an error: its status and text."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while True:
                await self.reply()
        return caught.value.code(), caught.value.details() or ""

    async def changes(self, number: int) -> list[w.ChangedObject]:
        """The next ones, so many."""
        found: list[w.ChangedObject] = []
        while len(found) < number:
            found += (await self.reply()).changes
        assert [one.sequence for one in found] == sorted({one.sequence for one in found})
        return found


@contextlib.asynccontextmanager
async def watching(site: Site) -> AsyncIterator[Callable[..., Watcher]]:
    """Opens streams over the controller's Unix socket."""
    async with grpc.aio.insecure_channel(f"unix:{site.state}/ctld.sock") as channel:
        yield lambda who, **fields: Watcher(site, channel, who, **fields)
