"""Calls over the controller's call socket (penstock/frames.py), for asyncio programs: many at a time on one connection, or one
whose pages are read as they are taken."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Final, cast

from penstock.calls import CallFailed
from penstock.frames import (
    HELLO,
    LENGTH_BYTES,
    MORE,
    NUMBER_MAX,
    PROVEN,
    REPLY,
    REPLY_HEAD_BYTES,
    REQUEST_BYTES_MAX,
    REUSE_S,
    cancel_frame,
    refusal_of,
    request_frame,
)

_LOST: Final = "the controller closed the connection"
#: Bytes of pages that are held before they are taken: as many stay in the connection as its buffers take, and the rest unmade.
HELD_BYTES_MAX: Final = 64 * 1024


class _Waiting:
    """A call in progress: its last reply, and the pages that have come before it."""

    def __init__(self, future: asyncio.Future[tuple[int, bytes]]) -> None:
        self.future = future
        self.pages: deque[bytes] = deque()
        self.held = 0  # bytes of the pages
        self.is_followed = False
        self.arrived = asyncio.Event()  # a page, or the end
        future.add_done_callback(lambda _: self.arrived.set())


class CallChannel(asyncio.Protocol):
    """One connection, shared by tasks of one event loop."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._used_at = time.monotonic()
        self._waiting: dict[int, _Waiting] = {}
        self._have = bytearray()
        self._needed = REPLY.size
        self._is_paused = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether another call may be made: soon after the last one, and the server has not closed it."""
        if self._transport is None or self._transport.is_closing():
            return False
        return bool(self._waiting) or time.monotonic() - self._used_at <= REUSE_S

    def close(self) -> None:
        """Closes the connection; calls in progress end with an error."""
        if self._transport is not None:
            self._transport.close()

    async def call(self, path: str, request: bytes, deadline: float, proof: bytes = b"") -> bytes:
        """Makes one call. Times by time.monotonic(); inf = no deadline. `proof`: as frames.py encodes it; b"" = the kernel's
        word. Raises CallFailed."""
        return (await self._exchange(path, request, deadline, proof))[1]

    async def pages(self, path: str, request: bytes, deadline: float, proof: bytes = b"") -> deque[bytes]:
        """As call(), of a method that answers in pages."""
        return (await self._exchange(path, request, deadline, proof))[0]

    async def follow(self, path: str, request: bytes, deadline: float, proof: bytes = b"") -> AsyncGenerator[bytes]:
        """As pages(), each as it arrives; nothing more is read while HELD_BYTES_MAX of them wait. No other call may be made
        meanwhile. Leave it before its end, and the connection is closed."""
        is_over = False
        try:
            with self._sent(path, request, deadline, proof) as waiting:
                waiting.is_followed = True
                while waiting.pages or not waiting.future.done():
                    if waiting.pages:
                        page = waiting.pages.popleft()
                        waiting.held -= len(page)
                        yield page
                        self._pace(waiting)
                    else:
                        waiting.arrived.clear()
                        await waiting.arrived.wait()
                is_over = True
                _body_of(await waiting.future)
        finally:
            if not is_over:
                self.close()

    async def _exchange(self, path: str, request: bytes, deadline: float, proof: bytes) -> tuple[deque[bytes], bytes]:
        """Sends a request; returns the pages and the last reply."""
        with self._sent(path, request, deadline, proof) as waiting:
            body = _body_of(await waiting.future)
            return waiting.pages, body

    @contextmanager
    def _sent(self, path: str, request: bytes, deadline: float, proof: bytes) -> Iterator[_Waiting]:
        """Sends a request, and cancels it if it is left before its end."""
        path, request = (f"{PROVEN}{path}", proof + request) if proof else (path, request)
        if len(request) > REQUEST_BYTES_MAX:
            raise CallFailed(
                "RESOURCE_EXHAUSTED", f"a request of {len(request)} bytes; the limit is {REQUEST_BYTES_MAX}"
            )
        if self._transport is None or self._transport.is_closing():
            raise CallFailed("UNAVAILABLE", _LOST)
        self._used_at = now = time.monotonic()
        left_s = deadline - now
        number = self._number = self._number % NUMBER_MAX + 1
        waiting = self._waiting[number] = _Waiting(self._loop.create_future())
        self._transport.write(request_frame(number, path.encode(), request, left_s))
        timer = None if left_s == float("inf") else self._loop.call_later(max(left_s, 0), self._expire, number)
        try:
            yield waiting
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting.pop(number, None) is not None:  # no caller waits for it any longer
                self._transport.write(cancel_frame(number))
            self._used_at = time.monotonic()

    def _pace(self, waiting: _Waiting) -> None:
        """Reads no more while enough pages of the only call wait to be taken."""
        is_paused = waiting.held > HELD_BYTES_MAX
        if is_paused == self._is_paused or self._transport is None:
            return
        self._is_paused = is_paused
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _expire(self, number: int) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.future.done():
            waiting.future.set_exception(CallFailed("DEADLINE_EXCEEDED", "Deadline Exceeded", is_sent=True))

    # ---- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Names the version of the framing."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(HELLO)

    def data_received(self, data: bytes) -> None:
        """Takes replies."""
        have = self._have
        have += data
        if len(have) < self._needed:
            return
        at = 0
        while len(have) - at >= REPLY.size:
            length, number, status = REPLY.unpack_from(have, at)
            end = at + LENGTH_BYTES + length
            if not REPLY_HEAD_BYTES <= length <= REPLY_HEAD_BYTES + self._bytes_max:
                self._fail("RESOURCE_EXHAUSTED", f"an answer of {length} bytes; the limit is {self._bytes_max}")
                return
            if len(have) < end:
                self._needed = end - at
                break
            waiting = self._waiting.get(number) if status == MORE else self._waiting.pop(number, None)
            if waiting is not None and not waiting.future.done():
                body = bytes(have[at + REPLY.size : end])
                if status == MORE:
                    waiting.pages.append(body)
                    waiting.held += len(body)
                    waiting.arrived.set()
                    if waiting.is_followed:
                        self._pace(waiting)
                else:
                    waiting.future.set_result((status, body))
            at = end
        else:
            self._needed = REPLY.size
        del have[:at]

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the calls in progress."""
        self._transport = None
        self._fail("UNAVAILABLE", _LOST)

    def _fail(self, status: str, text: str) -> None:
        waiting = self._waiting
        self._waiting = {}
        for call in waiting.values():
            if not call.future.done():
                call.future.set_exception(CallFailed(status, text, is_sent=True))
        self.close()


def _body_of(reply: tuple[int, bytes]) -> bytes:
    """The message of the last reply. Raises CallFailed for a refusal."""
    status, body = reply
    if status:
        name, text, code = refusal_of(status, body)
        raise CallFailed(name, text, code, is_sent=True)
    return body
