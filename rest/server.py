"""Listens and serves: sockets, TLS, orderly stop. The HTTP server is uvicorn, its connections are protocol.py's. Forwarding
headers are never read.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import uvicorn

from rest.limits import IDLE_TIMEOUT_S
from rest.protocol import RestProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn._types import ASGIApplication

log = logging.getLogger("restd")
BACKLOG: Final = 1024
#: Requests in progress may end for so long when the daemon stops.
STOP_LIMIT_S: Final = 10


class Tls(NamedTuple):
    """Certificate and key of the TCP addresses; "" = plain."""

    certificate: str = ""
    key: str = ""


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
