"""GET /penstock/v1/events: committed changes as server-sent events (the HTML standard, 9.2).

    id: SEQUENCE, event: hello     {"last": N}: the stream begins after this change
    event: job|node|gpu|reservation|limit      a change; its data are the members of CHANGE_MEMBERS
    event: missed                  {"last": N}: what came before is not known any more, ask for everything again
    event: error                   {"reason": ...}: the token has ended, and with it the stream

The controller decides what a caller sees: each source is one Watch with the caller's own proof. Streams with the same proof and
the same demands share one, so that any number of browsers of one user costs the controller one watcher. A stream continues
after the change that `Last-Event-ID` or `after` names: from what a source keeps, or from a source that begins there. Each
stream has its first events before its source takes more, so a client that was away for long gets on with each request.
"""

import asyncio
import contextlib
import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cli.base.document import Json
from penstock.changemembers import CHANGE_MEMBERS as CHANGE_MEMBERS
from penstock.changemembers import change_data
from penstock.errors import PenstockError, Unreachable
from penstock.v1.watch_pb2 import ChangedObject, WatchReply, WatchRequest
from rest.answers import NEVER_KEPT
from rest.calling import DIGITS_MAX, ControllerClient, bad_query
from rest.contract.parse import CONVERSION, UNKNOWN_WORD
from rest.limits import (
    CALL_TIMEOUT_S,
    CALLER_STREAMS_MAX,
    EVENTS_KEPT_MAX,
    KEEP_ALIVE_S,
    PEER_STREAMS_MAX,
    STALL_TIMEOUT_S,
    STREAMS_MAX,
    counted,
    too_many,
)
from rest.sending import json_bytes, until_gone

if TYPE_CHECKING:
    from penstock.calls import Proof

log = logging.getLogger("restd")
KINDS: Final = ("job", "node", "gpu", "reservation", "limit")
PARAMETERS: Final = ("kinds", "users", "after")
#: Before a source asks a controller again that went away.
RECONNECT_S: Final = 1.0
#: Events that one part of an answer has at most.
PART_EVENTS: Final = 256
_US: Final = 1_000_000


class EventDemands(NamedTuple):
    """Which changes a stream has, and by whose rights."""

    proof: "Proof | None"
    kinds: tuple[str, ...]
    users: tuple[str, ...]


def read_demands(request: Request, proof: "Proof | None") -> tuple[EventDemands, int]:
    """The demands of a request, and after which change it continues; 0 = from now on. Raises RestError."""
    found: dict[str, list[str]] = {name: [] for name in PARAMETERS}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).extend(word for word in value.split(",") if word)
    for kind in found["kinds"]:
        if kind.lower() not in KINDS:
            raise bad_query("kinds", kind, UNKNOWN_WORD)
    texts = [one for one in (request.headers.get("last-event-id", ""), *found["after"][-1:]) if one]
    after = texts[0] if texts else "0"
    if not (after.isascii() and after.isdigit() and len(after) <= DIGITS_MAX):
        raise bad_query("after", after, CONVERSION)
    kinds, users = (tuple(sorted(set(words))) for words in ([one.lower() for one in found["kinds"]], found["users"]))
    return EventDemands(proof, kinds, users), int(after)


class KeptEvent(NamedTuple):
    """One event as it is sent."""

    sequence: int
    text: bytes


class ChangeSource:
    """One Watch, and the events of it that are kept. `after`: 0 = from now on."""

    def __init__(self, client: ControllerClient, demands: EventDemands, after: int) -> None:
        self.streams = 0
        self.last = after
        self.error: PenstockError | None = None  # why it has ended
        self.is_over = False
        self._is_admitted = False
        self._client = client
        self._demands = demands
        self._from = after  # all changes after this one were kept
        self._lacked = 0  # the controller did not have those after this one any more
        self._kept: list[KeptEvent] = []
        self._dropped = 0  # before the first kept one
        loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()  # a stream has its first events: from now on some are dropped
        self._ready: asyncio.Future[None] = loop.create_future()
        self._change: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._run())

    # ---- its readers

    async def ready(self) -> None:
        """Returns when the controller has answered. Raises PenstockError when it refuses, or does not."""
        ready = self._ready
        await asyncio.wait((ready,), timeout=CALL_TIMEOUT_S)
        if self.error is not None:
            raise self.error
        if not ready.done():
            raise Unreachable

    def place_after(self, sequence: int) -> int | None:
        """Where a stream begins to read that has this change; 0 = from now on, None = not here."""
        if not sequence:
            return self._dropped + len(self._kept)
        if self._lacked and sequence <= self._lacked and not self._dropped:
            return 0
        first = bisect_right(self._kept, sequence, key=lambda event: event.sequence)
        is_kept = self._from <= sequence <= self.last and (first > 0 or not self._dropped)
        return self._dropped + first if is_kept else None

    def begin(self, after: int) -> tuple[int, Sequence[KeptEvent]]:
        """Where a stream goes on that has the change `after`, and what it has before that."""
        place = self.place_after(after) or 0
        first = self.read(place) or ()
        self._begun.set()
        return place + len(first), first

    def read(self, place: int) -> Sequence[KeptEvent] | None:
        """The next events from that place on; None: they are not kept any more."""
        at = place - self._dropped
        return self._kept[at : at + PART_EVENTS] if at >= 0 else None

    async def changed(self) -> bool:
        """Returns True at the next change, False after KEEP_ALIVE_S."""
        done, _ = await asyncio.wait((self._change,), timeout=KEEP_ALIVE_S)
        return bool(done)

    def end(self) -> None:
        """Ends it, and its streams."""
        self._task.cancel()
        self.is_over = True
        self._wake_readers()

    # ---- the controller

    async def _run(self) -> None:
        kinds = [kind.upper() for kind in self._demands.kinds]
        try:
            while True:
                request = WatchRequest(after=self.last, kinds=kinds, users=self._demands.users)
                with contextlib.suppress(Unreachable):
                    async for reply in self._client.follow("Watch", request, proof=self._demands.proof):
                        self._take(reply)
                        await self._begun.wait()
                if not self._is_admitted:  # its first streams wait for the answer
                    raise Unreachable
                if self._ready.done():
                    self._ready = asyncio.get_running_loop().create_future()
                await asyncio.sleep(RECONNECT_S)
        except PenstockError as error:
            self.error = error
            self.is_over = True
            self._wake_readers()

    def _take(self, reply: WatchReply) -> None:
        self._is_admitted = True
        if reply.missed:
            if not self._kept and self.last < reply.last:
                self._lacked = self.last
            self._kept.append(KeptEvent(reply.last, event_text("missed", {"last": reply.last}, reply.last)))
        if not self._from or (reply.missed and self._lacked):
            self._from = reply.last
        self._kept += [KeptEvent(one.sequence, change_text(one)) for one in reply.changes]
        if self._begun.is_set() and (surplus := len(self._kept) - EVENTS_KEPT_MAX) > 0:
            del self._kept[:surplus]
            self._dropped += surplus
        self.last = reply.last
        self._wake_readers()

    def _wake_readers(self) -> None:
        for waited in (self._ready, self._change):
            if not waited.done():
                waited.set_result(None)
        self._change = asyncio.get_running_loop().create_future()


class EventStreams:
    """The sources and streams of one daemon."""

    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._sources: dict[EventDemands, list[ChangeSource]] = {}
        self._by_caller: Counter[str] = Counter()
        self._by_peer: Counter[str] = Counter()

    @property
    def watches(self) -> int:
        """The number of the controller's watchers."""
        return sum(map(len, self._sources.values()))

    @property
    def open_streams(self) -> int:
        """The number of streams."""
        return self._by_caller.total()

    def stop(self) -> None:
        """Ends all streams: the daemon stops, and clients come again elsewhere."""
        for sources in self._sources.values():
            for source in sources:
                source.end()

    @contextlib.contextmanager
    def counted(self, caller: str, peer: str) -> Iterator[None]:
        """Counts one stream. Raises RestError with 429."""
        if self.open_streams >= STREAMS_MAX:
            raise too_many(f"{STREAMS_MAX} streams of events are open here")
        if self._by_peer[peer] >= PEER_STREAMS_MAX:
            raise too_many(f"{PEER_STREAMS_MAX} streams of events from this machine are open")
        if self._by_caller[caller] >= CALLER_STREAMS_MAX:
            raise too_many(f"{CALLER_STREAMS_MAX} streams of events of this caller are open")
        with counted(self._by_caller, caller), counted(self._by_peer, peer):
            yield

    @contextlib.asynccontextmanager
    async def opened(self, demands: EventDemands, after: int) -> AsyncIterator["EventResponse"]:
        """A stream, which the controller has admitted. Raises PenstockError."""
        sources = self._sources.setdefault(demands, [])
        source = await _fitting(sources, after)
        if source is None:
            source = ChangeSource(self._client, demands, after)
            sources.append(source)
        source.streams += 1
        try:
            await source.ready()
            place, first = source.begin(after)
            yield EventResponse(source, place, first, after or source.last)
        finally:
            source.streams -= 1
            if not source.streams:
                source.end()
                sources.remove(source)
                if not sources:
                    self._sources.pop(demands, None)


async def _fitting(sources: list[ChangeSource], after: int) -> ChangeSource | None:
    """The source that has what comes after this change. Those that were just made are waited for, also if they come meanwhile:
    many browsers may come back at once.
    """
    for one in sources:
        with contextlib.suppress(PenstockError):
            await one.ready()
        if not one.is_over and one.place_after(after) is not None:
            return one
    return None


class EventResponse(Response):
    """One stream. A client that does not take a part in STALL_TIMEOUT_S is dropped."""

    media_type = "text/event-stream"

    def __init__(self, source: ChangeSource, place: int, first: Sequence[KeptEvent], after: int) -> None:
        super().__init__(None, 200, {**NEVER_KEPT, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._source = source
        self._place = place
        self._first = first
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends events until the client leaves, or the source ends."""
        left = asyncio.create_task(until_gone(receive))
        sending = asyncio.create_task(self._send(scope, send))
        try:
            await asyncio.wait((left, sending), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (left, sending):
                task.cancel()

    async def _send(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for data in self._parts():
                async with asyncio.timeout(STALL_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            log.warning("%s: a stream ends: the caller does not read", scope["path"])
            return  # without an end: the server closes the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _parts(self) -> AsyncIterator[bytes]:
        source = self._source
        yield event_text("hello", {"last": self._after}, self._after)
        if self._first:
            yield b"".join(event.text for event in self._first)
        while (events := source.read(self._place)) is not None:
            if events:
                self._place += len(events)
                yield b"".join(event.text for event in events)
            elif source.is_over:
                if source.error is not None:
                    yield event_text("error", {"reason": source.error.text})
                return
            elif not await source.changed():
                # An id alone is no event, but what a browser continues after.
                yield b": still here\nid: %d\n\n" % source.last


def change_text(change: ChangedObject) -> bytes:
    """A change as an event."""
    return event_text(change.kind.lower(), change_data(change), change.sequence)


def event_text(name: str, data: Json, sequence: int = 0) -> bytes:
    """One event."""
    number = f"id: {sequence}\n" if sequence else ""
    return f"{number}event: {name}\ndata: ".encode() + json_bytes(data) + b"\n\n"
