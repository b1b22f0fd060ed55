"""A client's way to the session that a batch job is: bytes both ways, between the client's TLS and a socket whose other end
the session's own program has (session.py).

Nothing is kept but what one read has brought: while the other side takes no more, nothing more is read, so the kernel's
buffers fill and the sender waits. After CHUNKS_AT_ONCE others have their turn: a fast sender delays no signal. A tunnel
without a byte for IDLE_S is closed: a browser that was forgotten holds no session. stepd looks into none of it.
"""

import socket
import time

from penstock.eventloop import READ, WRITE, Loop

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLSocket

#: Bytes in flight in each direction: what one read brings.
CHUNK_BYTES = 64 * 1024
CHUNKS_AT_ONCE = 16
IDLE_S = 3600.0
#: The errno of ssl's "want to read" and "want to write" (without loading the ssl module).
_TLS_BLOCKED = (2, 3)


class _End:
    """One end of a tunnel: what is still to be written to it."""

    __slots__ = ("events", "pending", "sock")

    def __init__(self, sock: "socket.socket | SSLSocket") -> None:
        self.sock = sock
        self.pending = memoryview(b"")
        self.events = READ


class ByteTunnel:
    """Carries bytes until either side closes. `first`: what the client gets before all else. `on_bytes` is called when some
    have passed, `on_end` once."""

    def __init__(
        self,
        loop: Loop,
        client: "socket.socket | SSLSocket",
        local: socket.socket,
        first: bytes,
        on_bytes: "Callable[[], None]",
        on_end: "Callable[[ByteTunnel], None]",
    ) -> None:
        self._loop = loop
        self._on_bytes = on_bytes
        self._on_end = on_end
        self._ends = _End(client), _End(local)
        self._ends[0].pending = memoryview(first)
        self._is_open = True
        self._last_s = time.monotonic()
        local.setblocking(False)
        for end in self._ends:
            loop.watch(end.sock.fileno(), self._ready)
        self._timer = loop.after(IDLE_S, self._close_if_idle)
        loop.soon(lambda: self._ready(READ))  # TLS may have decrypted what the kernel does not report again

    def close(self) -> None:
        """Closes both sides."""
        if not self._is_open:
            return
        self._is_open = False
        self._timer.cancel()
        for end in self._ends:
            self._loop.forget(end.sock.fileno())
            end.sock.close()
        self._on_end(self)

    def _close_if_idle(self) -> None:
        idle_s = time.monotonic() - self._last_s
        if idle_s >= IDLE_S:
            self.close()
        else:
            self._timer = self._loop.after(IDLE_S - idle_s, self._close_if_idle)

    def _ready(self, events: int) -> None:
        """Moves what there is, in both directions."""
        client, local = self._ends
        if not self._is_open:
            return
        try:
            has_moved = self._move(client, local) | self._move(local, client)
        except OSError:  # a side is gone
            self.close()
            return
        if has_moved:
            self._last_s = time.monotonic()
            self._on_bytes()
        if self._is_open:
            self._await(client, local)
            self._await(local, client)

    def _move(self, source: _End, target: _End) -> bool:
        """Moves bytes until the source has none or the target takes none. Raises OSError."""
        has_moved = False
        for _ in range(CHUNKS_AT_ONCE):
            if target.pending:
                sent = _sent(target)
                target.pending = target.pending[sent:]
                if target.pending:
                    return has_moved
            data = _received(source)
            if data is None:
                return has_moved
            if not data:
                self.close()
                return has_moved
            has_moved = True
            target.pending = memoryview(data)
        self._loop.soon(lambda: self._ready(READ))
        return has_moved

    def _await(self, end: _End, other: _End) -> None:
        """Waits for what may change something: room for the pending bytes, or, if the other side has taken all, for more."""
        events = (WRITE if end.pending else 0) | (0 if other.pending else READ)
        if events != end.events:
            end.events = events
            self._loop.change(end.sock.fileno(), events)


def _sent(end: _End) -> int:
    try:
        return end.sock.send(end.pending)
    except OSError as error:
        if isinstance(error, BlockingIOError) or error.errno in _TLS_BLOCKED:
            return 0
        raise


def _received(end: _End) -> bytes | None:
    """What has come; None = nothing yet, empty = its end."""
    try:
        return end.sock.recv(CHUNK_BYTES)
    except OSError as error:
        if isinstance(error, BlockingIOError) or error.errno in _TLS_BLOCKED:
            return None
        raise
