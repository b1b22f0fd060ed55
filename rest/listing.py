"""Long lists of an answer: items while they are few, made and sent page by page when they are many.

    return {"jobs": await listing(call, "ListJobs", request, items)}        # items: of one page

    return {"jobs": await listing(call, "ListJobs", request, JobItem(make))}

The second form is for lists of jobs: an item depends on its message alone, so its text is made from that of a job like it
(rest/templates.py), or kept (rest/texts.py).

A list of jobs begins with its moment (rest/tags.py): a poller's request ends there if nothing has changed.

The controller's pages are read until they end or HELD_BYTES_MAX are held; of a list with a moment, TAG_BYTES_MAX. A list that
ended so has an entity tag of what is in it, a longer one of its moment, if it has one: its first items leave while others
are on their way. A poller's request may end here (NotModified) before any item is made. Items are made when their page is
sent, so memory does not grow with the list.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cli.base.document import Json
from penstock.v1.controller_pb2 import JobInfo, ListJobsRequest, PageItems
from rest.answers import NotModified
from rest.calling import RestCall
from rest.limits import HELD_BYTES_MAX, TAG_BYTES_MAX, WHOLE_BYTES_MAX
from rest.tags import EntityTag, tags_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.client import ReplyMessage

NotedPage: TypeAlias = tuple["ReplyMessage", bytes]
#: The items of one page, each made when it is taken.
Items: TypeAlias = Callable[["ReplyMessage"], Iterable[Json]]


class JobItem(NamedTuple):
    """How an item is made of the message of a job, on which alone it depends."""

    make: Callable[[JobInfo], Json]

    def made(self, data: bytes) -> Json:
        """An item, of its message on the wire."""
        return self.make(JobInfo.FromString(data))


class StreamedList(NamedTuple):
    """A list whose items are made while it is sent. `has_tag`: it has an entity tag."""

    pages: AsyncIterator[Iterable[object]]
    has_tag: bool


class StreamedJobs(NamedTuple):
    """A list of jobs whose texts are made while it is sent. `pages`: as on the wire; `make`: an item of a job's message."""

    pages: AsyncIterator[bytes]
    has_tag: bool
    make: Callable[[bytes], Json]


class KeptItems(NamedTuple):
    """A list whose messages are all here. An item depends on its message alone, so its text is kept for who asks again."""

    messages: "Sequence[Message]"
    make: Callable[[Any], Json]  # Any: of the messages' own type
    has_tag: bool = True

    def made(self) -> list[Json]:
        """The items."""
        return [self.make(one) for one in self.messages]


#: A list as an answer has it.
AnswerList: TypeAlias = list[Json] | StreamedList | StreamedJobs


async def listing(
    call: RestCall, method: str, request: "Message", items: Items | JobItem,
    varies: "Callable[[ReplyMessage], str] | None" = None,
) -> AnswerList:  # fmt: skip
    """The list of one answer. `varies`: of what beside a page its items depend. Raises NotModified, PenstockError."""
    if isinstance(request, ListJobsRequest):
        replies = pages_of_moment(call, method, request, PageItems if isinstance(items, JobItem) else None)
    else:
        replies = call.noted_pages(method, request)
    held = HeldPages()
    has_ended = True
    async for reply, data in replies:
        held.add(reply, data)
        if varies is not None:
            call.tag.vary(varies(reply))
        if held.size > (TAG_BYTES_MAX if call.moment else HELD_BYTES_MAX):
            has_ended = False
            break
    is_short = has_ended and held.size <= WHOLE_BYTES_MAX
    if not has_ended and call.moment:
        call.tag = _tag_of_moment(call)
    has_tag = has_ended or bool(call.moment)
    if has_tag:
        call.check_modified()
    if isinstance(items, JobItem):
        if is_short:
            return [items.made(one) for _, data in held.taken() for one in PageItems.FromString(data).items]
        return StreamedJobs(_on_the_wire(held, replies), has_tag, items.made)
    if is_short:
        return [item for kind, data in held.taken() for item in items(kind.FromString(data))]
    return StreamedList(_made(held, replies, items), has_tag)


async def pages_of_moment(
    call: RestCall, method: str, request: ListJobsRequest, read_as: "type[Message] | None" = None
) -> AsyncIterator[NotedPage]:
    """The pages of jobs, of a window of them or of counts, after their moment; read as PageItems, jobs stay as on the wire.
    Raises NotModified, PenstockError."""
    call.asked = call.tag.text()
    known = call.moments.known(call.asked, call.if_none_match)
    request.known = known.moment
    is_unchanged = False
    async for page in call.follow(method, request, read_as):
        if not page.moment:
            yield page, call.tag.note(page)
            continue
        if page.unchanged:
            is_unchanged = True
            continue  # to the end of the answer: its connection is kept then
        call.moment = page.moment
        long = _tag_of_moment(call)
        if call.if_none_match and long.text().removeprefix("W/") in tags_of(call.if_none_match):
            raise NotModified(long.text())
    if is_unchanged:
        raise NotModified(known.tag)


def _tag_of_moment(call: RestCall) -> EntityTag:
    """The tag of a list that is too long for one of what is in it."""
    return EntityTag(call.asked, call.moment.hex(), is_whole=True)


class HeldPages:
    """Pages as on the wire: read, a message takes many times as much."""

    def __init__(self) -> None:
        self.size = 0
        self._pages: deque[tuple[type[Message], bytes]] = deque()

    def add(self, reply: "Message", data: bytes) -> None:
        """Adds one."""
        self._pages.append((type(reply), data))
        self.size += len(data)

    def taken(self) -> "Iterator[tuple[type[Message], bytes]]":
        """All of them; each is given up when it is taken."""
        while self._pages:
            yield self._pages.popleft()


async def _on_the_wire(held: HeldPages, rest: AsyncIterator[NotedPage]) -> AsyncIterator[bytes]:
    for _, data in held.taken():
        yield data
    async for _, data in rest:
        yield data


async def _made(held: HeldPages, rest: AsyncIterator[NotedPage], items: Items) -> AsyncIterator[Iterable[object]]:
    for kind, data in held.taken():
        yield items(kind.FromString(data))
    async for reply, _ in rest:
        yield items(reply)
