"""Listens and serves: sockets, TLS, the HTTP protocol's time-outs, orderly stop. The HTTP server is uvicorn.

A client that sends a head slowly, or none, is disconnected (HEAD_TIMEOUT_S); of a Unix socket the kernel reports the peer
(SO_PEERCRED) when it connects. Forwarding headers are never read. The HTTP parser takes some microseconds for each line of a
head and for each chunk of a body, and nobody has checked the request yet: so heads of many lines, and all chunked bodies,
are refused before it sees them.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import signal
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rest.body import BODY_IS_CHUNKED
from rest.callers import UnixPeer, peer_key
from rest.limits import CONNECTIONS_MAX, HEAD_TIMEOUT_S, IDLE_TIMEOUT_S, PEER_CONNECTIONS_MAX

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn._types import ASGIApplication

log = logging.getLogger("restd")
BACKLOG: Final = 1024
HEAD_BYTES_MAX: Final = 64 * 1024
#: Lines of a head; browsers and proxies send some 30.
HEAD_LINES_MAX: Final = 128
#: Requests in progress may end for so long when the daemon stops.
STOP_LIMIT_S: Final = 10
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Tls(NamedTuple):
    """Certificate and key of the TCP addresses; "" = plain."""

    certificate: str = ""
    key: str = ""


class RestProtocol(H11Protocol):
    """One connection: the kernel's word about the peer, and a time-out of the head."""

    peer = ""
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Notes the peer; closes the connection if there are too many, in all or of this peer."""
        super().connection_made(transport)
        self.conn = JoinedWrites(h11.SERVER, HEAD_BYTES_MAX)
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
        """Starts or ends the time-out of a head. An idle connection has uvicorn's own."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_timer()
        elif self._head_timer is None:
            self._expect_head()

    def handle_events(self) -> None:
        """Reads what has come, unless it is a head that is refused as it is."""
        if self.conn.their_state is h11.IDLE and (refusal := refusal_of_head(self.conn.trailing_data[0])):
            self._refuse(*refusal)
            return
        super().handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the timer."""
        self._end_timer()
        super().connection_lost(exc)

    def _refuse(self, status: int, text: str) -> None:
        """Answers with a status and a line, and closes the connection."""
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        begin = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
        for event in (begin, h11.Data(data=text.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
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
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


class JoinedWrites(h11.Connection):
    """Writes the head of a whole answer with its body: one packet, for which the client wakes up once. The head of one that is
    made while it is sent leaves at once."""

    _head = b""

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]  # its overloads say which event has no bytes
        """The bytes of an event, after those that were held back."""
        data = self._head + (super().send(event) or b"")
        is_held = isinstance(event, h11.Response) and any(name == b"content-length" for name, _ in event.headers)
        self._head = data if is_held else b""
        return b"" if is_held else data


def refusal_of_head(data: bytes) -> tuple[int, str] | None:
    """Why the head that the data begin with is not parsed, a status and a text; None = it is."""
    end = _HEAD_END.search(data)
    head = data[: end.start()] if end is not None else data
    if head.count(b"\n") > HEAD_LINES_MAX or len(head) > HEAD_BYTES_MAX:
        return 431, f"the head has more than {HEAD_LINES_MAX} lines or {HEAD_BYTES_MAX} bytes"
    return (406, BODY_IS_CHUNKED) if end is not None and b"\ntransfer-encoding" in head.lower() else None


class _Server(uvicorn.Server):
    """Signals are serve()'s."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves them alone."""
        yield


async def serve(
    app: "ASGIApp", listeners: Sequence[socket.socket], tls: Tls, stopping: Callable[[], None] = lambda: None
) -> None:
    """Serves until SIGTERM or SIGINT; then calls `stopping`, and waits for the requests in progress."""
    groups = (
        ([one for one in listeners if one.family == socket.AF_UNIX], Tls()),
        ([one for one in listeners if one.family != socket.AF_UNIX], tls),
    )
    servers = [(_Server(_config(app, kind)), group) for group, kind in groups if group]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for server, _ in servers:
            server.should_exit = True
        stopping()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await asyncio.gather(*(server.serve(sockets=group) for server, group in servers))


def _config(app: "ASGIApp", tls: Tls) -> uvicorn.Config:
    return uvicorn.Config(
        cast("ASGIApplication", app), http=RestProtocol, ws="none", lifespan="off", loop="asyncio",
        log_config=None, access_log=False, proxy_headers=False, server_header=False, backlog=BACKLOG,
        timeout_keep_alive=IDLE_TIMEOUT_S, timeout_graceful_shutdown=STOP_LIMIT_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ssl_certfile=tls.certificate or None, ssl_keyfile=tls.key or None,
    )  # fmt: skip


def listen_tcp(host: str, port: int) -> socket.socket:
    """A listening socket, whose connections send at once. Answers are written in parts; asyncio asks for that only where a socket
    names its protocol, and these do not: most answers came 40 ms late. Raises OSError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wire = socket.create_server((host, port), family=family, backlog=BACKLOG)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # those that are accepted inherit it
    return wire


def listen_unix(path: str) -> socket.socket:
    """A listening Unix socket that every user may connect to: the kernel reports who does. One that a daemon left behind is
    replaced, one that is in use is not. Raises OSError."""
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_left_over(path):
            os.unlink(path)
        wire.bind(path)
        os.chmod(path, 0o666)  # noqa: S103 (see above)
        wire.listen(BACKLOG)
    except BaseException:
        wire.close()
        raise
    return wire


def _is_left_over(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "is there, and no socket", path)
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
