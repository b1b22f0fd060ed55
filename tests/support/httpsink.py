"""An HTTP server that tests tell what to answer, on a port that stays the same when it ends and starts again.

`answers` are used up one a request, the last one stays: a status, HANG (the connection is held and nothing said) or DRIP (a
header that never ends). A body that holds `refused` is answered by 400. `received` has the requests that were answered by 2xx.
"""

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from patience import END_S

HANG, DRIP = -1, -2


class Received(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes


class HttpSink:
    """The server. A context manager."""

    def __init__(self, *answers: int, location: str = "", context: Any = None) -> None:
        self.answers = list(answers) or [200]
        self.location = location
        self.refused = b""
        self.said = b"said\n"
        self.received: list[Received] = []
        self.requests = 0
        self.connections: list[socket.socket] = []
        self._changed = threading.Condition()
        self._release = threading.Event()
        self._context = context
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens, on the port of before if there was one."""
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                sink.connections.append(self.connection)

            def do_POST(self) -> None:
                sink.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        if self._context is not None:
            self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Refuses connections from now on."""
        self._release.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None
        for connection in self.connections:  # kept ones, too
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers a request, in a thread of its own."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._changed:
            status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if self.refused and self.refused in body:
                status = 400
            self.requests += 1
            if 200 <= status < 300:
                self.received.append(Received(handler.path, dict(handler.headers.items()), body))
            self._changed.notify_all()
        if status in (HANG, DRIP):
            while not self._release.wait(0.05 if status == DRIP else END_S):
                handler.wfile.write(b"x")
            handler.close_connection = True
            return
        handler.send_response(status)
        if self.location:
            handler.send_header("Location", self.location)
        handler.send_header("Content-Length", str(len(self.said)))
        handler.end_headers()
        handler.wfile.write(self.said)

    def wait_received(self, count: int) -> list[Received]:
        """Waits for so many requests that were answered by 2xx."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.received) >= count, END_S), self.received
            return list(self.received)

    def wait_requests(self, count: int) -> None:
        """Waits for so many requests, whatever was answered."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= count, END_S), self.requests
