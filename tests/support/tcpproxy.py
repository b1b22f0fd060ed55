"""A TCP proxy between two daemons that can hold back or delay data in each direction.

    with TcpProxy(port) as proxy:
        ... connect to proxy.port ...
        proxy.up.clear()      # blocks data from the connecting side, silently

Blocked bytes are not lost: they arrive when the direction is unblocked, as after a network partition.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self


class TcpProxy:
    """Listens on a port of its own; `target`: a port of this machine, or a Unix socket's path. `up`, `down`: set = open.
    `delay_s`: of everything, both ways."""

    def __init__(self, target: int | str) -> None:
        self.up, self.down = threading.Event(), threading.Event()
        self.delay_s = 0.0
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._closed = False

    def __enter__(self) -> Self:
        self.heal()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self.heal()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> None:
        """Blocks both directions."""
        self.up.clear()
        self.down.clear()

    def heal(self) -> None:
        """Unblocks both directions; blocked data are delivered."""
        self.up.set()
        self.down.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._sockets.append(near)
        self.up.wait()
        try:
            far = self._connect()
        except OSError:
            near.close()
            return
        self._sockets.append(far)
        threading.Thread(target=self._carry, args=(near, far, self.up), daemon=True).start()
        self._carry(far, near, self.down)

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target))
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._target)
        return far

    def _carry(self, source: socket.socket, sink: socket.socket, way: threading.Event) -> None:
        data = b"."
        while data:
            try:
                data = source.recv(65536)
                way.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(data)
            except OSError:
                break
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
