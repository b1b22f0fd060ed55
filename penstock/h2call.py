"""One gRPC call over one HTTP/2 connection, without the library grpc.

Commands are called in loops, so what their start costs counts. `import grpc` takes 60 ms of CPU, and a channel brings
threads, which a process that forks (the command server) must not have. What a command needs is little: one call at a
time, one message out, one or many back. HTTP/2 itself (RFC 9113, RFC 7541) is the library h2, which does no I/O; here
are the socket, gRPC's five bytes before each message, its headers and its deadline. The other side is gRPC's own server.

Windows for what comes in are as large as they can be; a reader who is slow is protected by the socket's own buffer.
Pings are answered while a call waits and when the next one begins.

A call that was broken off, by an error or an exception from a signal handler, leaves a connection that nobody knows the
state of: `usable` says so. Statuses are gRPC's names; `penstock.client` translates. Deliberately absent: calls side by
side, requests in pieces, compression, trying again.
"""

import binascii
import select
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hpack import Encoder, NeverIndexedHeaderTuple

WINDOW_FIRST: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
#: The largest frame that is taken.
FRAME_BYTES_MAX: Final = 2**20
#: All headers of an answer; the server's are some hundred bytes.
HEADER_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
#: gRPC's head of a message: whether it is compressed, and four bytes of its length.
HEAD_BYTES: Final = 5
#: A frame of HTTP/2: three bytes of length, its type, flags and stream (RFC 9113, 4.1 and 6.8).
FRAME_HEAD_BYTES, FRAME_TYPE_AT, GOAWAY = 9, 3, 7
#: What grpc-timeout can say at most: eight digits of milliseconds, a good day.
TIMEOUT_MS_MAX: Final = 99_999_999

STATUSES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
#: gRPC's rules for answers without a status of its own: HTTP's status, and HTTP/2's reasons to end a stream.
STATUS_OF_HTTP: Final = {
    "400": "INTERNAL", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE", "502": "UNAVAILABLE", "503": "UNAVAILABLE", "504": "UNAVAILABLE",
}  # fmt: skip
STATUS_OF_RESET: Final = {7: "UNAVAILABLE", 8: "CANCELLED", 11: "RESOURCE_EXHAUSTED", 12: "PERMISSION_DENIED"}


class CallFailed(Exception):
    """The call did not end with OK. `status` is gRPC's name, `code` the refusal's number as text or ""."""

    def __init__(self, status: str, details: str, code: str = "") -> None:
        super().__init__(f"{status}: {details}")
        self.status = status
        self.details = details
        self.code = code


class _Encoder(Encoder):
    """Headers without Huffman's code: for a token, making it in Python takes longer than the rest of a call's HTTP/2."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        return super().encode(headers, huffman)


class Connection:
    """One connection; it owns the socket. One call at a time: read a call's answers to the end, or close."""

    def __init__(self, connection: socket.socket, authority: str, code_key: str, *, secure: bool = False) -> None:
        self._socket = connection
        self._common = [
            (":method", "POST"),
            (":scheme", "https" if secure else "http"),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        self._code_key = code_key
        self._stream = 0
        self._over = True  # the last call has ended
        self._leaving = False  # the server said GOAWAY
        self._said: dict[str, str] = {}  # the headers and trailers of the answer
        self._messages = bytearray()
        self._have = bytearray()  # of a frame that has not come whole
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_MAX,
                SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES_MAX,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
            },
        )
        self._h2.max_inbound_frame_size = FRAME_BYTES_MAX  # h2 takes over only what changes later
        self._h2.encoder = _Encoder()
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_MAX - WINDOW_FIRST)

    def close(self) -> None:
        """Drop it."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self._socket.fileno()

    def forget(self) -> None:
        """Between two users of a connection: nothing of what was said stays."""
        self._said = {}
        self._messages = bytearray()

    def forget_file(self) -> None:
        """The number is somebody else's now: leave the file there alone."""
        self._socket.detach()

    def usable(self) -> bool:
        """Whether another call may be made: the last one is over, and the server neither closed nor left."""
        if not self._over or self._leaving:
            return False
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        try:
            while waiting.poll(0):  # between calls there are only pings or an end to read
                self._socket.settimeout(0.01)
                self._read()
        except (OSError, CallFailed):
            return False
        return not self._leaving

    def call(
        self, path: str, request: bytes, metadata: Iterable[tuple[str, bytes]], deadline: float, bytes_max: int
    ) -> Iterator[bytes]:
        """The answers of one call, as they come. Times by time.monotonic(); inf = no deadline. Raises CallFailed."""
        self._over = False
        self._said = {}
        self._messages.clear()
        headers: list[tuple[str, str] | NeverIndexedHeaderTuple] = [(":path", path), *self._common]
        # What is for one call never gets into HTTP/2's table of headers, which lives as long as the connection.
        own = [*_timeout(deadline), *((key, _base64(value)) for key, value in metadata)]
        headers += [NeverIndexedHeaderTuple(key, value) for key, value in own]
        is_over = False
        try:
            self._stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(self._stream, headers)
            self._send(b"\0" + len(request).to_bytes(4, "big") + request, deadline)
            yield from self._receive(deadline, bytes_max)
            is_over = True
        except TimeoutError as error:
            raise CallFailed("DEADLINE_EXCEEDED", "Deadline Exceeded") from error
        except OSError as error:
            raise CallFailed("UNAVAILABLE", error.strerror or str(error)) from error
        except ProtocolError as error:
            raise CallFailed("INTERNAL", f"this is not our controller: {error}") from error
        finally:
            self._over = is_over  # also when the caller of this generator leaves it
        self._end()

    def _end(self) -> None:
        """Raise what the server said, if that is not OK."""
        said = self._said
        number = said.get("grpc-status", "")
        if number.isascii() and number.isdigit() and int(number) < len(STATUSES):
            status = STATUSES[int(number)]
        else:
            status = STATUS_OF_HTTP.get(said.get(":status", ""), "UNKNOWN")
        if status != "OK":
            raise CallFailed(status, percent_decoded(said.get("grpc-message", "")), said.get(self._code_key, ""))

    def _send(self, body: bytes, deadline: float) -> None:
        """The request, as far as the server's windows let it."""
        at = 0
        while at < len(body) and not self._over:
            room = min(self._h2.local_flow_control_window(self._stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                self._flush(deadline)
                self._read(deadline)
                continue
            piece = body[at : at + room]
            at += len(piece)
            self._h2.send_data(self._stream, piece, end_stream=at == len(body))
        self._flush(deadline)

    def _receive(self, deadline: float, bytes_max: int) -> Iterator[bytes]:
        have = self._messages
        while True:
            while len(have) >= HEAD_BYTES:
                end = HEAD_BYTES + int.from_bytes(have[1:HEAD_BYTES], "big")
                if have[0]:
                    raise CallFailed("INTERNAL", "the answer is compressed, which was not asked for")
                if end - HEAD_BYTES > bytes_max:
                    text = f"an answer of {end - HEAD_BYTES} bytes; the limit is {bytes_max}"
                    raise CallFailed("RESOURCE_EXHAUSTED", text)
                if len(have) < end:
                    break
                message = bytes(have[HEAD_BYTES:end])
                del have[:end]
                yield message
            if self._over:
                return
            self._read(deadline)

    # -- the socket

    def _flush(self, deadline: float | None = None) -> None:
        data = self._h2.data_to_send()
        if data:
            if deadline is not None:
                self._socket.settimeout(_left(deadline))
            self._socket.sendall(data)

    def _read(self, deadline: float | None = None) -> None:
        """What the server sends next, and the answers to it that HTTP/2 asks for."""
        if deadline is not None:
            self._socket.settimeout(_left(deadline))
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError("the controller closed the connection")
        for frame in self._frames(data):
            if frame[FRAME_TYPE_AT] == GOAWAY:
                self._leave(frame)
                continue
            try:
                events = self._h2.receive_data(frame)
            except ProtocolError as error:
                raise CallFailed("INTERNAL", f"this is not our controller: {error}") from error
            for event in events:
                self._take(event)
        self._flush(deadline)

    def _frames(self, data: bytes) -> Iterator[bytes]:
        """Whole frames, as far as they have come (RFC 9113, 4.1). The library takes them one at a time, so that what one of
        them means is not lost when the next is wrong."""
        self._have += data
        while len(self._have) >= FRAME_HEAD_BYTES:
            end = FRAME_HEAD_BYTES + int.from_bytes(self._have[:FRAME_TYPE_AT], "big")
            if end - FRAME_HEAD_BYTES > self._h2.max_inbound_frame_size:
                raise CallFailed("INTERNAL", "this is not our controller: a frame longer than we take")
            if len(self._have) < end:
                return
            frame = bytes(self._have[:end])
            del self._have[:end]
            yield frame

    def _leave(self, frame: bytes) -> None:
        """GOAWAY: no new calls, but those that it took go on to their end. The library would take nothing any more."""
        self._leaving = True
        last = int.from_bytes(frame[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + 4], "big") & 0x7FFF_FFFF
        if not self._over and last < self._stream:
            raise CallFailed("UNAVAILABLE", "the controller is going down")

    def _take(self, event: Any) -> None:
        if getattr(event, "stream_id", None) != self._stream:
            return  # of a call that was broken off, or of the whole connection
        elif isinstance(event, DataReceived):
            self._messages += event.data
            self._h2.acknowledge_received_data(event.flow_controlled_length, self._stream)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            self._said |= {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, StreamReset):
            if not self._over:
                reason = int(event.error_code)
                raise CallFailed(STATUS_OF_RESET.get(reason, "INTERNAL"), f"the controller ended the call ({reason})")
        elif isinstance(event, StreamEnded):
            self._over = True


def percent_decoded(text: str) -> str:
    """grpc-message as it was written: %XX stands for a byte, all of it is UTF-8."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, "utf-8", "replace")


def _base64(value: bytes) -> str:
    """gRPC's form of a header's bytes: without the filling at the end."""
    return binascii.b2a_base64(value, newline=False).rstrip(b"=").decode()


def _timeout(deadline: float) -> list[tuple[str, str]]:
    if deadline == float("inf"):
        return []
    left_ms = max(1, int((deadline - time.monotonic()) * 1000) + 1)
    return [("grpc-timeout", f"{min(left_ms, TIMEOUT_MS_MAX)}m")]


def _left(deadline: float) -> float | None:
    if deadline == float("inf"):
        return None
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
