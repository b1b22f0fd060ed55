"""The HTTP endpoint of a daemon's metrics: GET and HEAD of a few paths, in the daemon's own loop.

It is a small part of HTTP/1.1, since a daemon needs no web server for it: a request has a head and no body, and an
answer has its length. A scrape costs the loop no long turn: families come from coroutines of the daemon, the text is
made in pieces with a turn for others between them, and is kept for KEPT_S, so that any number of scrapers costs no more
than one.

Limits, against clients that are slow, silent or many: HEAD_BYTES_MAX, HEAD_TIMEOUT_S, IDLE_TIMEOUT_S, SEND_TIMEOUT_S,
CONNECTIONS_MAX. When all connections are taken, the one that has been idle for the longest is closed for a new one.
"""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from penstock.exporter.access import AccessVerdict, ScrapeAccess
from penstock.exporter.exposition import OPEN_TYPE, TEXT_TYPE, MetricFamily, is_open_wanted, pieces
from penstock.exporter.pace import WorkPace
from penstock.exporter.request import HEAD_BYTES_MAX, BadHead, ScrapeRequest, head, read_request

log = logging.getLogger("penstock.exporter")

#: Age of an answer that is sent again.
KEPT_S: Final = 1.0
#: Time for the head of a connection's first request, and for the TLS handshake before it.
HEAD_TIMEOUT_S: Final = 5.0
#: Time between two requests of one connection. Prometheus scrapes every 15 to 60 s.
IDLE_TIMEOUT_S: Final = 130.0
#: Time for a client to take SEND_BYTES.
SEND_TIMEOUT_S: Final = 10.0
SEND_BYTES: Final = 64 * 1024
CONNECTIONS_MAX: Final = 32
PLAIN: Final = "text/plain; charset=utf-8"


class MetricsPage(NamedTuple):
    """One path. `hidden` returns why callers without the token may not read it now; "" = they may."""

    help: str
    families: Callable[[], Awaitable[Iterable[MetricFamily]]]
    hidden: Callable[[], str] = lambda: ""


class HttpAnswer(NamedTuple):
    """Status, type and content of an answer."""

    status: int
    content_type: str
    body: bytes


class MetricsEndpoint:
    """Serves the pages. Belongs to one event loop; starts no thread."""

    def __init__(
        self,
        pages: Mapping[str, MetricsPage],
        access: Callable[[], ScrapeAccess],
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """`access`, `tls`: called for each connection or request, since reloads and renewals change them."""
        self._pages = pages
        self._access = access
        self._tls = tls
        self._server: asyncio.Server | None = None
        #: Since when each is idle; 0 = it has a request in progress.
        self.connections: dict[asyncio.Task[None], float] = {}
        self._kept: dict[tuple[str, bool], tuple[float, bytes]] = {}
        self._made: dict[tuple[str, bool], asyncio.Task[bytes]] = {}

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, which the kernel chooses for 0. Raises OSError."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES_MAX)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def stop(self) -> None:
        """Stops listening, and ends all connections."""
        if self._server is not None:
            self._server.close()
        for task in (*self.connections, *self._made.values()):
            task.cancel()

    # ---- connections -----------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self.connections) >= CONNECTIONS_MAX and not self._close_idlest():
            writer.transport.abort()
            return
        self.connections[task] = time.monotonic()
        try:
            await self._serve(task, reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("a connection for metrics ends: its client is gone, too slow or no client of this protocol")
        except asyncio.CancelledError:
            log.debug("a connection for metrics was closed for another")
        finally:
            self.connections.pop(task, None)
            writer.transport.abort()

    def _close_idlest(self) -> bool:
        """Closes the connection that has been idle for the longest; False: none is idle."""
        idle = [(since, task) for task, since in self.connections.items() if since]
        if not idle:
            return False
        task = min(idle, key=lambda one: one[0])[1]
        self.connections.pop(task)
        task.cancel()
        return True

    async def _serve(
        self, task: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = writer.get_extra_info("peername")
        if self._tls is not None:
            await writer.start_tls(self._tls(), ssl_handshake_timeout=HEAD_TIMEOUT_S)
        limit_s = HEAD_TIMEOUT_S
        while True:
            try:
                async with asyncio.timeout(limit_s):
                    request = await read_request(reader)
            except BadHead as error:
                await _send(writer, HttpAnswer(error.status, PLAIN, f"{error}\n".encode()), is_last=True)
                return
            if request is None:
                return
            self.connections[task] = 0.0
            answer = await self._answer(request, str(peer[0]) if peer else "")
            is_last = not request.keeps_alive or answer.status != 200
            await _send(writer, answer, is_last, has_body=request.method != "HEAD")
            if is_last:
                return
            self.connections[task] = time.monotonic()
            limit_s = IDLE_TIMEOUT_S

    # ---- answers ---------------------------------------------------------------------------------------------------

    async def _answer(self, request: ScrapeRequest, peer: str) -> HttpAnswer:
        verdict = self._access().judge(peer, request.headers.get("authorization", ""))
        if verdict is AccessVerdict.FORBIDDEN:
            return HttpAnswer(403, PLAIN, b"this address may not read metrics: PenstockMetricsAllow\n")
        if verdict is AccessVerdict.NO_TOKEN:
            return HttpAnswer(401, PLAIN, b"send the token of PenstockMetricsTokenFile: Authorization: Bearer TOKEN\n")
        if request.path in ("/", "/metrics") and "/metrics" not in self._pages:
            return HttpAnswer(
                200, PLAIN, "".join(f"{path}: {page.help}\n" for path, page in self._pages.items()).encode()
            )
        page = self._pages.get(request.path)
        if page is None:
            return HttpAnswer(404, PLAIN, f"there are {', '.join(self._pages)}\n".encode())
        if verdict is not AccessVerdict.TRUSTED and (why := page.hidden()):
            return HttpAnswer(403, PLAIN, f"{why}\n".encode())
        is_open = is_open_wanted(request.headers.get("accept", ""))
        try:
            body = await self._body(request.path, is_open)
        except Exception as error:  # whatever it is, it must not end the daemon, nor go unseen
            log.error("%s cannot be answered: %r", request.path, error, exc_info=error)
            return HttpAnswer(500, PLAIN, b"these metrics cannot be read: see the daemon's log\n")
        return HttpAnswer(200, OPEN_TYPE if is_open else TEXT_TYPE, body)

    async def _body(self, path: str, is_open: bool) -> bytes:
        """Returns the text, at most KEPT_S old. Requests for the same share one task, which outlives its callers."""
        key = path, is_open
        made_at, body = self._kept.get(key, (0.0, b""))
        if body and time.monotonic() - made_at < KEPT_S:
            return body
        task = self._made.get(key)
        if task is None:
            task = self._made[key] = asyncio.ensure_future(self._make(key))
            task.add_done_callback(lambda _: self._made.pop(key, None))
        return await asyncio.shield(task)

    async def _make(self, key: tuple[str, bool]) -> bytes:
        begun = time.monotonic()
        families = await self._pages[key[0]].families()
        pace = WorkPace()
        texts: list[str] = []
        for text in pieces(families, key[1]):
            texts.append(text)
            await pace.pause()
        body = "".join(texts).encode()
        self._kept[key] = begun, body
        return body


def reason(error: OSError) -> str:
    """Returns why `start` has failed: asyncio wraps the system's text."""
    is_system = error.errno is not None and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0) if is_system else error.strerror or str(error)


async def _send(writer: asyncio.StreamWriter, answer: HttpAnswer, is_last: bool, has_body: bool = True) -> None:
    """Sends an answer; each part has its time limit, so that nobody holds more than SEND_BYTES of a buffer."""
    more = ("WWW-Authenticate: Bearer",) if answer.status == 401 else ()
    writer.write(head(answer.status, answer.content_type, len(answer.body), is_last, more))
    body = memoryview(answer.body)
    for at in range(0, len(body) if has_body else 0, SEND_BYTES):
        writer.write(body[at : at + SEND_BYTES])
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await writer.drain()
    if is_last:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            writer.close()
            await writer.wait_closed()
