"""Long lists of an answer: items while they are few, made and sent page by page when they are many.

    return {"jobs": await listing(call, "ListJobs", request, items)}        # items: of one page

The controller's pages are read until they end or HELD_BYTES_MAX are held. A list that ended so has an entity tag, and a
poller's request may end here (NotModified) before any item is made. Items are made when their page is sent, so memory does
not grow with the list.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cli.base.document import Json
from penstock.errors import Unreachable
from rest.calling import RestCall
from rest.limits import CALL_TIMEOUT_S, HELD_BYTES_MAX, WHOLE_BYTES_MAX

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.client import ReplyMessage

Replies: TypeAlias = list["ReplyMessage"]
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
    replies = call.pages(method, request)
    held: Replies = []
    size = 0
    has_ended = True
    async for reply in _in_time(replies):
        held.append(reply)
        size += reply.ByteSize()
        if varies is not None:
            call.tag.vary(varies(reply))
        if size > HELD_BYTES_MAX:
            has_ended = False
            break
    if has_ended:
        call.check_modified()
        if size <= WHOLE_BYTES_MAX:
            return [item for reply in held for item in items(reply)]
    return StreamedList(_made(held, replies, items), has_ended)


async def _made(held: Replies, rest: AsyncIterator["ReplyMessage"], items: Items) -> AsyncIterator[Iterable[Json]]:
    held.reverse()
    while held:
        yield items(held.pop())
    async for reply in _in_time(rest):
        yield items(reply)


async def _in_time(replies: AsyncIterator["ReplyMessage"]) -> AsyncIterator["ReplyMessage"]:
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
