"""The core of a command in a request: it blocks, so it runs in a thread, and asks the controller by the daemon's own client,
for the caller.

    efficiency = await in_thread(call, lambda client: measured(client, jobs, ...))
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, TypeVar

from rest.calling import RestCall

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.client import ReplyMessage
    from penstock.clusterfile import ClusterFile

T = TypeVar("T")


async def in_thread(call: RestCall, work: "Callable[[ThreadClient], T]") -> T:
    """Does `work` in a thread, within the limits. Raises what it raises."""
    assert call.share is not None
    client = ThreadClient(call, asyncio.get_running_loop())
    return await call.share.in_thread(lambda: work(client))


class ThreadClient:
    """The controller, for the caller of a request, from a thread."""

    def __init__(self, call: RestCall, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop

    @property
    def cluster(self) -> "ClusterFile":
        """The cluster, whose nodes can be asked."""
        return self._call.client.cluster

    def call(self, method: str, request: "Message") -> "ReplyMessage":
        """One request, one answer. Raises PenstockError."""
        return self._wait(self._call.call(method, request))

    def stream(self, method: str, request: "Message") -> "Iterator[ReplyMessage]":
        """One request, pages of its answer. Raises PenstockError."""
        pages = self._call.pages(method, request)
        while (page := self._wait(_next(pages))) is not None:
            yield page

    def say(self, text: str) -> None:
        """Adds a warning to the answer."""
        self._loop.call_soon_threadsafe(self._call.warn, text)

    def _wait(self, answer: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()


async def _next(pages: "AsyncIterator[ReplyMessage]") -> "ReplyMessage | None":
    return await anext(pages, None)
