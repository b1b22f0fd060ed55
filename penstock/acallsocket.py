"""Calls over the controller's call socket (penstock/frames.py), for asyncio programs: many at a time on one connection."""

import asyncio
import time
from collections import deque
from typing import Final, NamedTuple, cast

from penstock.calls import CallFailed
from penstock.frames import (
    HELLO,
    LENGTH_BYTES,
    MORE,
    NUMBER_MAX,
    REPLY,
    REPLY_HEAD_BYTES,
    REQUEST_BYTES_MAX,
    REUSE_S,
    cancel_frame,
    refusal_of,
    request_frame,
)

_LOST: Final = "the controller closed the connection"


class _Waiting(NamedTuple):
    """A call in progress: its last reply, and the pages that have come before it."""

    future: asyncio.Future[tuple[int, bytes]]
    pages: deque[bytes]


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

    async def call(self, path: str, request: bytes, deadline: float) -> bytes:
        """Makes one call. Times by time.monotonic(); inf = no deadline. Raises CallFailed."""
        return (await self._exchange(path, request, deadline))[1]

    async def pages(self, path: str, request: bytes, deadline: float) -> deque[bytes]:
        """As call(), of a method that answers in pages."""
        return (await self._exchange(path, request, deadline))[0]

    async def _exchange(self, path: str, request: bytes, deadline: float) -> tuple[deque[bytes], bytes]:
        """Sends a request; returns the pages and the last reply."""
        if len(request) > REQUEST_BYTES_MAX:
            raise CallFailed(
                "RESOURCE_EXHAUSTED", f"a request of {len(request)} bytes; the limit is {REQUEST_BYTES_MAX}"
            )
        if self._transport is None or self._transport.is_closing():
            raise CallFailed("UNAVAILABLE", _LOST)
        self._used_at = now = time.monotonic()
        left_s = deadline - now
        number = self._number = self._number % NUMBER_MAX + 1
        waiting = self._waiting[number] = _Waiting(self._loop.create_future(), deque())
        self._transport.write(request_frame(number, path.encode(), request, left_s))
        timer = None if left_s == float("inf") else self._loop.call_later(max(left_s, 0), self._expire, number)
        try:
            status, body = await waiting.future
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiting.pop(number, None) is not None:  # no caller waits for it any longer
                self._transport.write(cancel_frame(number))
            self._used_at = time.monotonic()
        if status:
            name, text, code = refusal_of(status, body)
            raise CallFailed(name, text, code, is_sent=True)
        return waiting.pages, body

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
