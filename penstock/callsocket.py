"""Calls over the controller's call socket (penstock/frames.py), for programs that block: one call at a time.

The connection belongs to the user and group that the kernel recorded when it was made. A process whose ids have
changed since must not use it: `usable` is False then.
"""

import math
import os
import select
import socket
import time
from collections import deque
from typing import Final

from penstock.calls import CallFailed, raise_for_socket
from penstock.clusterfile import ClusterFile
from penstock.frames import (
    HELLO,
    LENGTH_BYTES,
    MORE,
    NUMBER_MAX,
    REPLY,
    REPLY_HEAD_BYTES,
    REQUEST_BYTES_MAX,
    REUSE_S,
    refusal_of,
    request_frame,
)
from penstock.transport import connect_unix, time_left_s

READ_BYTES: Final = 64 * 1024


def dial_calls(cluster: ClusterFile, timeout_s: float) -> socket.socket | None:
    """Connects to the call socket. None: no process listens there, so gRPC is to be tried. Raises TryAgain."""
    if not cluster.call_socket:
        return None
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connect_unix(wire, cluster.call_socket, timeout_s)
    except (FileNotFoundError, ConnectionRefusedError):
        wire.close()
        return None
    except OSError as error:
        wire.close()
        raise_for_socket(error, cluster.call_socket)
    return wire


class CallConnection:
    """One connection to the call socket; it owns the socket."""

    def __init__(self, wire: socket.socket) -> None:
        self._socket = wire
        self._ids = os.geteuid(), os.getegid()
        self._number = 0
        self._hello = HELLO
        self._over = True  # the last call has ended
        self._used_at = time.monotonic()

    def close(self) -> None:
        """Closes it."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self._socket.fileno()

    def forget(self) -> None:
        """Nothing of a call stays in a connection of this kind."""

    def forget_file(self) -> None:
        """Drops the descriptor without closing it: its number has been reused."""
        self._socket.detach()

    def usable(self) -> bool:
        """Whether another call may be made: by the same user, soon after a whole one, and the server has not closed it."""
        if not self._over or self._ids != (os.geteuid(), os.getegid()) or time.monotonic() - self._used_at > REUSE_S:
            return False
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not waiting.poll(0)  # between calls the server sends nothing but the end

    def call(self, path: str, request: bytes, deadline: float, bytes_max: int) -> bytes:
        """Makes one call. Times by time.monotonic(); inf = no deadline. Raises CallFailed."""
        return self._exchange(path, request, deadline, bytes_max)[1]

    def pages(self, path: str, request: bytes, page_s: float, bytes_max: int) -> deque[bytes]:
        """As call(), of a method that answers in pages: all of them. `page_s`, how long may pass until the next one arrives,
        and `bytes_max` are those of each."""
        return self._exchange(path, request, time.monotonic() + page_s, bytes_max, page_s)[0]

    def _exchange(
        self, path: str, request: bytes, deadline: float, bytes_max: int, page_s: float = 0.0
    ) -> tuple[deque[bytes], bytes]:
        """Sends a request; returns the pages and the last reply."""
        if len(request) > REQUEST_BYTES_MAX:
            raise CallFailed(
                "RESOURCE_EXHAUSTED", f"a request of {len(request)} bytes; the limit is {REQUEST_BYTES_MAX}"
            )
        self._number = self._number % NUMBER_MAX + 1
        self._over = is_sent = False
        try:
            limit_s = math.inf if page_s else deadline - time.monotonic()
            frame = request_frame(self._number, path.encode(), request, limit_s)
            self._socket.settimeout(time_left_s(deadline))
            self._socket.sendall(self._hello + frame)
            is_sent = True
            self._hello = b""
            pages = deque[bytes]()
            have = bytearray()
            status, body = self._receive(have, deadline, bytes_max)
            while status == MORE:
                pages.append(body)
                deadline = time.monotonic() + page_s
                status, body = self._receive(have, deadline, bytes_max)
        except TimeoutError as error:
            raise CallFailed("DEADLINE_EXCEEDED", "Deadline Exceeded", is_sent=is_sent) from error
        except OSError as error:
            raise CallFailed("UNAVAILABLE", error.strerror or str(error), is_sent=is_sent) from error
        if have:
            raise CallFailed("INTERNAL", "this is not our controller: more than a reply", is_sent=True)
        self._over = True
        self._used_at = time.monotonic()
        if status:
            name, text, code = refusal_of(status, body)
            raise CallFailed(name, text, code, is_sent=True)
        return pages, body

    def _receive(self, have: bytearray, deadline: float, bytes_max: int) -> tuple[int, bytes]:
        """Reads the next reply of the call: its status and its body. `have`: what was read before, and is left."""
        end = self._end_of_reply(have, bytes_max)
        while len(have) < end:
            self._socket.settimeout(time_left_s(deadline))
            data = self._socket.recv(max(READ_BYTES, end - len(have)))
            if not data:
                raise ConnectionResetError("the controller closed the connection")
            have += data
            end = self._end_of_reply(have, bytes_max)
        status, body = have[REPLY.size - 1], bytes(have[REPLY.size : end])
        del have[:end]
        return status, body

    def _end_of_reply(self, have: bytearray, bytes_max: int) -> int:
        """Returns how many bytes the reply that begins here has, or its head if that is not there yet."""
        if len(have) < REPLY.size:
            return REPLY.size
        length: int
        length, number, _ = REPLY.unpack_from(have)
        if number != self._number or length < REPLY_HEAD_BYTES:
            raise CallFailed("INTERNAL", "this is not our controller: the reply is to another call", is_sent=True)
        if length - REPLY_HEAD_BYTES > bytes_max:
            text = f"an answer of {length - REPLY_HEAD_BYTES} bytes; the limit is {bytes_max}"
            raise CallFailed("RESOURCE_EXHAUSTED", text, is_sent=True)
        return LENGTH_BYTES + length
