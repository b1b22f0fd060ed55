"""One HTTP/1.1 connection: how its bytes become requests, and how answers become bytes. The server around it is uvicorn.

The parser of heads (requesthead.py) is given one whole head at a time and nothing else: a body is as long as its Content-Length
says, chunked ones are refused, and the next request of a connection is read once this one is answered. So no request has two
readings, and no peer queues requests here. Who sends a head slowly, or none, is disconnected (HEAD_TIMEOUT_S). Of a Unix socket
the kernel reports the peer (SO_PEERCRED) when it connects.
"""

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from rest.callers import UnixPeer, peer_key
from rest.limits import CONNECTIONS_MAX, HEAD_TIMEOUT_S, PEER_CONNECTIONS_MAX
from rest.requesthead import HEAD_END, RequestHead, refusal_of_head

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent, HTTPScope

NO_REQUEST: Final = "Invalid HTTP request received."
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
_BODILESS: Final = (204, 304)


class RestProtocol(HttpToolsProtocol):
    """One connection: the kernel's word about the peer, a time-out of the head, and one request at a time."""

    peer = ""
    cycle: "RestCycle | None"  # type: ignore[assignment]  # None before the first request
    _head_timer: asyncio.TimerHandle | None = None
    _have = b""  # what has come: of a head, or behind the request in progress
    _body_left = 0  # bytes of the body that have not come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Notes the peer; closes the connection if there are too many, in all or of this peer."""
        super().connection_made(transport)
        wire = transport.get_extra_info("socket")
        if wire is not None and wire.family == socket.AF_UNIX:
            _, uid, _ = _CREDENTIALS.unpack(wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            self.client = UnixPeer("unix", uid)
        self.peer = peer_key(self.client)
        if len(self.connections) > CONNECTIONS_MAX or self._has_peer_too_many():
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Takes what has come, and starts or ends the time-out of a head. An idle connection has uvicorn's own."""
        self._unset_keepalive_if_required()
        self._have += data
        self._take()
        if self._is_busy():
            self._end_timer()
        elif self._head_timer is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        """Takes the next request, if it is here."""
        super().on_response_complete()
        self._take()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the timer."""
        self._end_timer()
        super().connection_lost(exc)

    def _take(self) -> None:
        """Takes all of a request that is here."""
        while self._have and not self.transport.is_closing():
            if self._body_left:
                part, self._have = self._have[: self._body_left], self._have[self._body_left :]
                self._body_left -= len(part)
                self.on_body(part)
                if not self._body_left:
                    self.on_message_complete()
            elif self._is_busy():
                self.flow.pause_reading()
                return
            elif not self._take_head():
                return

    def _take_head(self) -> bool:
        """Begins a request, or refuses it. False: its head is not whole."""
        data = self._have
        end = HEAD_END.search(data)
        if (refusal := refusal_of_head(data, end)) is not None:
            self._refuse(*refusal)
            return False
        head = RequestHead(data[: end.end()]) if end is not None else None
        if not data[:1].isalpha() or (head is not None and not head.is_request):  # e.g. TLS where none is spoken
            self.logger.warning(NO_REQUEST)
            self._refuse(400, NO_REQUEST)
            return False
        if head is None or end is None:
            return False
        self._have = data[end.end() :]
        self._begin(head)
        return True

    def _begin(self, head: RequestHead) -> None:
        raw_path, _, query = head.url.partition(b"?")
        self._body_left = head.body_bytes
        self._unset_keepalive_if_required()
        scope: HTTPScope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": head.version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": head.method,
            "root_path": "",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": head.headers,
            "state": self.app_state.copy(),
        }
        self.cycle = RestCycle(
            scope, self.transport, self.flow, self.logger, self.access_logger, False, self.server_state.default_headers,
            asyncio.Event(), head.expects_continue, head.keeps_alive, self.on_response_complete,
        )  # fmt: skip
        if not self._body_left:
            self.on_message_complete()
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, text: str) -> None:
        """Answers with a status and a line, and closes the connection."""
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + (head + text).encode())
        self.transport.close()

    def _has_peer_too_many(self) -> bool:
        if len(self.connections) <= PEER_CONNECTIONS_MAX:
            return False
        count: int = sum(getattr(one, "peer", "") == self.peer for one in self.connections)
        return count > PEER_CONNECTIONS_MAX

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._late)

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        self._head_timer = None
        if not self._is_busy() and not self.transport.is_closing():
            self.transport.close()


class RestCycle(RequestResponseCycle):
    """One request and its answer. The head of a whole answer leaves with its body, in one packet, for which the client wakes up
    once; that of one that is made while it is sent leaves at once."""

    _head = b""

    async def send(self, message: "ASGISendEvent") -> None:
        """Sends a part of the answer. Raises RuntimeError for one that is not in its place, or not as long as its head says."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.response_started:
            self._send_head(message)
        elif message["type"] == "http.response.body" and self.response_started and not self.response_complete:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} is not in its place")

    def _send_head(self, message: "HTTPResponseStartEvent") -> None:
        self.response_started = True
        if self.waiting_for_100_continue:  # whether its body comes now is the client's choice
            self.keep_alive = False
            self.waiting_for_100_continue = False
        status = message["status"]
        lines = [STATUS_LINE[status]]
        for name, value in (*self.default_headers, *message.get("headers", ())):
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                raise RuntimeError(f"a header of the answer is none of HTTP: {name!r}")
            if name == b"content-length":
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"connection":
                self.keep_alive = self.keep_alive and value.lower() != b"close"
                continue
            lines += name, b": ", value, b"\r\n"
        if self.chunked_encoding is None and (self.scope["method"] == "HEAD" or status in _BODILESS):
            self.chunked_encoding = False
        elif self.chunked_encoding is None and self.scope["http_version"] == "1.1":  # else it ends with the connection
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        self._head = b"".join(lines)
        if self.chunked_encoding is not False:
            self._write(b"")

    def _send_body(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        elif self.chunked_encoding is False:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0 or (self.expected_content_length and not more):
                raise RuntimeError("the body of the answer is not as long as its head says")
        self._write(body)
        if more:
            return
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _write(self, data: bytes) -> None:
        """Writes, after the head if that was held back."""
        if data := self._head + data if self._head else data:
            self._head = b""
            self.transport.write(data)
