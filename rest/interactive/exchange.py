"""One request on its way to the program of a session, and the answer back: h11 on both sides, bytes after an upgrade.

Nothing is kept but one piece in each direction; a side that takes no more has the other one wait.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import h11

from rest.interactive.heads import HEAD_BYTES_MAX, Headers, ProxyRefusal, for_browser, for_program, is_upgrade
from rest.interactive.tunnel import BUFFER_BYTES, OpenTunnel

#: Answers before the answer (1xx) that are passed on.
INFORMATIONAL_MAX: Final = 8
_SWITCHING: Final = 101
_CONTINUE: Final = 100
_NO_ANSWER: Final = "the session's program has closed the connection without an answer"
_GARBAGE: Final = "the session's program has given an answer that is none of HTTP"


class Exchange:
    """A browser's request, parsed, and its connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._front = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._front.receive_data(head)
        self.has_answered = False
        try:
            request = self._front.next_event()
        except h11.RemoteProtocolError as error:
            raise ProxyRefusal(400, "the request is none of HTTP/1.1") from error
        if not isinstance(request, h11.Request):
            raise ProxyRefusal(400, "the request is none of HTTP/1.1")
        self.request = request
        self.headers: Headers = list(request.headers)

    @property
    def path(self) -> str:
        """The path of the request, with its query."""
        return self.request.target.decode("ascii")

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Answers the request here."""
        self.has_answered = True
        given = [*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        event = h11.Response(status_code=status, headers=given)
        data = self._front.send(event) or b""
        if self.request.method != b"HEAD":
            data += self._front.send(h11.Data(data=body)) or b""
        data += self._front.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        await self._writer.drain()

    async def forward(self, tunnel: OpenTunnel, target: str, base: str, more: Headers) -> None:
        """Passes the request and its answer on. `target`: the path for the program; `more`: headers of the answer. Raises
        ProxyRefusal while nothing has been answered, OSError."""
        back = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        request = h11.Request(method=self.request.method, target=target, headers=for_program(self.headers))
        tunnel.writer.write(back.send(request) or b"")
        sending = asyncio.create_task(self._send_body(back, tunnel.writer))
        try:
            is_switched = await self._pass_answer(back, tunnel.reader, base, more)
            if is_switched:
                await self._pass_bytes(back, tunnel)
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            raise ProxyRefusal(502, _GARBAGE) from error
        except OSError as error:  # a reset; if it is the browser's, nobody reads the answer
            raise ProxyRefusal(502, _NO_ANSWER) from error
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_body(self, back: h11.Connection, writer: asyncio.StreamWriter) -> None:
        """Passes the body of the request on; ends with it. What is wrong with it ends the browser's connection."""
        if self._front.they_are_waiting_for_100_continue:
            self._writer.write(self._front.send(h11.InformationalResponse(status_code=_CONTINUE, headers=[])) or b"")
        try:
            while True:
                event = self._front.next_event()
                if event is h11.NEED_DATA:
                    self._front.receive_data(await self._reader.read(BUFFER_BYTES))
                elif isinstance(event, h11.Data):
                    await _send(writer, back.send(event))
                elif isinstance(event, h11.EndOfMessage):
                    await _send(writer, back.send(h11.EndOfMessage()))
                    break
                else:
                    return
            if not self.asks_for_upgrade and not await self._reader.read(1):  # the browser is gone: nobody waits
                writer.transport.abort()
        except (h11.RemoteProtocolError, h11.LocalProtocolError, OSError):
            self._writer.transport.abort()
            writer.transport.abort()

    async def _pass_answer(self, back: h11.Connection, reader: asyncio.StreamReader, base: str, more: Headers) -> bool:
        """Passes the answer on; returns whether both sides have switched to another protocol. Raises RemoteProtocolError,
        ProxyRefusal."""
        informational = 0
        while True:
            event = back.next_event()
            if event is h11.NEED_DATA:
                back.receive_data(await reader.read(BUFFER_BYTES))
                continue
            if isinstance(event, h11.InformationalResponse):
                informational += 1
                if informational > INFORMATIONAL_MAX:
                    raise ProxyRefusal(502, _GARBAGE)
                if event.status_code == _SWITCHING:
                    await self._wait_for_request()
                    await self._pass_head(event, for_browser(list(event.headers), base, True) + more)
                    return True
            elif isinstance(event, h11.Response):
                await self._pass_head(event, for_browser(list(event.headers), base, False) + more)
            elif isinstance(event, h11.Data):
                self._writer.write(self._front.send(h11.Data(data=event.data)) or b"")
                await self._writer.drain()
            elif isinstance(event, h11.EndOfMessage):
                self._writer.write(self._front.send(h11.EndOfMessage()) or b"")
                await self._writer.drain()
                return False
            else:  # the program has closed before its answer was whole
                raise ProxyRefusal(502, _NO_ANSWER)

    async def _pass_head(self, event: h11.InformationalResponse | h11.Response, headers: Headers) -> None:
        made = type(event)(status_code=event.status_code, headers=headers, reason=event.reason)
        data = self._front.send(made) or b""
        self.has_answered = True
        self._writer.write(data)
        await self._writer.drain()

    async def _wait_for_request(self) -> None:
        """h11 switches when it has seen the whole request, which has no body."""
        if self._front.their_state is h11.SEND_BODY:
            raise ProxyRefusal(502, _GARBAGE)

    async def _pass_bytes(self, back: h11.Connection, tunnel: OpenTunnel) -> None:
        """Passes bytes both ways until either side ends."""
        tunnel.writer.write(self._front.trailing_data[0])
        self._writer.write(back.trailing_data[0])
        ways = [
            asyncio.create_task(copy(self._reader, tunnel.writer)),
            asyncio.create_task(copy(tunnel.reader, self._writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    @property
    def asks_for_upgrade(self) -> bool:
        """Whether it asks for a WebSocket."""
        return is_upgrade(self.headers)


async def _send(writer: asyncio.StreamWriter, data: bytes | None) -> None:
    """Sends to the program, which may answer and close before it has read all."""
    writer.write(data or b"")
    with contextlib.suppress(OSError):
        await writer.drain()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes bytes on until their end, or until a side is gone."""
    with contextlib.suppress(OSError):
        while data := await reader.read(BUFFER_BYTES):
            writer.write(data)
            await writer.drain()


async def with_watch(work: "asyncio.Task[None]", check: Callable[[], "asyncio.Future[bool]"], every_s: float) -> None:
    """Waits for the work; ends it when the check, made every so many seconds, says no."""
    try:
        while not (await asyncio.wait((work,), timeout=every_s))[0]:
            if not await check():
                return
        work.result()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
