"""Long lists of an answer: items while they are few, made and sent page by page when they are many.

    return {"jobs": await listing(call, "ListJobs", request, items)}        # items: of one page

The controller's pages are read until they end or HELD_BYTES_MAX are held. A list that ended so has an entity tag, and a
poller's request may end here (NotModified) before any item is made. Items are made when their page is sent, so memory does
not grow with the list.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cli.base.document import Json
from penstock.errors import Unreachable
from rest.calling import RestCall
from rest.limits import CALL_TIMEOUT_S, HELD_BYTES_MAX, WHOLE_BYTES_MAX

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.client import ReplyMessage

NotedPage: TypeAlias = tuple["ReplyMessage", bytes]
#: The items of one page, each made when it is taken.
Items = Callable[["ReplyMessage"], Iterable[Json]]


class StreamedList(NamedTuple):
    """A list whose items are made while it is sent. `has_tag`: all that it is made of is held and counted."""

    pages: AsyncIterator[Iterable[Json]]
    has_tag: bool


async def listing(
    call: RestCall, method: str, request: "Message", items: Items, varies: "Callable[[ReplyMessage], str] | None" = None
) -> list[Json] | StreamedList:
    """The list of one answer. `varies`: of what beside a page its items depend. Raises NotModified, PenstockError."""
    replies = call.noted_pages(method, request)
    held = HeldPages()
    has_ended = True
    async for reply, data in _in_time(replies):
        held.add(reply, data)
        if varies is not None:
            call.tag.vary(varies(reply))
        if held.size > HELD_BYTES_MAX:
            has_ended = False
            break
    if has_ended:
        call.check_modified()
        if held.size <= WHOLE_BYTES_MAX:
            return [item for reply in held.taken() for item in items(reply)]
    return StreamedList(_made(held, replies, items), has_ended)


class HeldPages:
    """Pages as on the wire: read, a message takes many times as much."""

    def __init__(self) -> None:
        self.size = 0
        self._pages: deque[tuple[type[Message], bytes]] = deque()

    def add(self, reply: "Message", data: bytes) -> None:
        """Adds one."""
        self._pages.append((type(reply), data))
        self.size += len(data)

    def taken(self) -> "Iterator[ReplyMessage]":
        """All of them; each is given up when it is taken."""
        while self._pages:
            kind, data = self._pages.popleft()
            yield kind.FromString(data)


async def _made(held: HeldPages, rest: AsyncIterator[NotedPage], items: Items) -> AsyncIterator[Iterable[Json]]:
    for reply in held.taken():
        yield items(reply)
    async for reply, _ in _in_time(rest):
        yield items(reply)


async def _in_time(replies: AsyncIterator[NotedPage]) -> AsyncIterator[NotedPage]:
    """The replies, each within CALL_TIMEOUT_S. Raises Unreachable."""
    while True:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                reply = await anext(replies)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Unreachable from None
        yield reply
