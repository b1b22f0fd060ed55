"""One gRPC call over one HTTP/2 connection, without the library grpc.

Commands are called in loops, so their start-up time matters. `import grpc` takes 60 ms of CPU, and a channel brings
threads, which a process that forks (the command server) must not have. A command needs little: one call at a time, one
message out, one or many back. HTTP/2 itself (RFC 9113, RFC 7541) is the library h2, which does no I/O; here are the
socket, gRPC's five bytes before each message, its headers and its deadline. The other side is gRPC's own server.

Windows for what comes in are as large as they can be; a reader who is slow is protected by the socket's own buffer.
Pings are answered while a call waits and when the next one begins.

A call that was aborted, by an error or an exception from a signal handler, leaves a connection in an unknown state:
then `usable` is False. Statuses are gRPC's names; `penstock.calls` translates. Deliberately absent: concurrent calls,
request streams, compression, retries.
"""

import binascii
import math
import select
import socket
import time
from collections.abc import Iterable, Iterator

# Any: hpack and hyperframe have no types
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

from penstock.calls import CallFailed
from penstock.frames import STATUSES
from penstock.transport import time_left_s

WINDOW_FIRST: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
#: The largest frame that is accepted.
FRAME_BYTES_MAX: Final = 2**20
#: All headers of an answer; the server's are some hundred bytes.
HEADER_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
#: gRPC's header of a message: whether it is compressed, and four bytes of its length.
HEAD_BYTES: Final = 5
#: A frame of HTTP/2: three bytes of length, its type, flags and stream (RFC 9113, 4.1 and 6.8).
FRAME_HEAD_BYTES = 9
FRAME_TYPE_AT = 3
GOAWAY = 7
#: The maximum of grpc-timeout: eight digits of milliseconds, about a day.
TIMEOUT_MS_MAX: Final = 99_999_999

#: gRPC's rules for answers without a status of its own: HTTP's status, and HTTP/2's reasons to end a stream.
STATUS_OF_HTTP: Final = {
    "400": "INTERNAL", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE", "502": "UNAVAILABLE", "503": "UNAVAILABLE", "504": "UNAVAILABLE",
}  # fmt: skip
REFUSED_STREAM: Final = 7  # "prior to any application processing" (RFC 9113, 7)
STATUS_OF_RESET: Final = {
    REFUSED_STREAM: "UNAVAILABLE",
    8: "CANCELLED",
    11: "RESOURCE_EXHAUSTED",
    12: "PERMISSION_DENIED",
}


class _Encoder(Encoder):
    """Encodes headers without Huffman's code, which in Python takes longer for a token than the rest of a call's
    HTTP/2."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        return super().encode(headers, huffman)


class Connection:
    """One connection; it owns the socket. One call at a time: read all answers of a call, or close."""

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
        self._sent = False  # its whole request was sent
        self._leaving = False  # the server sent GOAWAY
        self._said: dict[str, str] = {}  # the headers and trailers of the answer
        self._messages = bytearray()
        self._have = bytearray()  # an incomplete frame
        self._silent_s = math.inf
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
        self._h2.max_inbound_frame_size = FRAME_BYTES_MAX  # h2 applies only later changes
        self._h2.encoder = _Encoder()
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_MAX - WINDOW_FIRST)

    def close(self) -> None:
        """Closes it."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self._socket.fileno()

    def forget(self) -> None:
        """Resets it between two users of a connection: no state of a call remains."""
        self._said = {}
        self._messages = bytearray()

    def forget_file(self) -> None:
        """Drops the descriptor without closing it: its number has been reused."""
        self._socket.detach()

    def usable(self) -> bool:
        """Whether another call may be made: the last one is over, and the server has sent neither a close nor
        GOAWAY."""
        if not self._over or self._leaving:
            return False
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        try:
            while waiting.poll(0):  # between calls the server sends only pings or an end
                self._socket.settimeout(0.01)
                self._read()
        except (OSError, CallFailed):
            return False
        return not self._leaving

    def call(
        self,
        path: str,
        request: bytes,
        metadata: Iterable[tuple[str, str | bytes]],
        deadline: float,
        bytes_max: int,
        silent_s: float = math.inf,
    ) -> Iterator[bytes]:
        """Makes one call and yields its answers, as they arrive. Times by time.monotonic(); inf = no deadline. `silent_s`:
        the longest time without anything from the server. Raises CallFailed.
        """
        self._sent = False
        self._silent_s = silent_s
        try:
            yield from self._call(path, request, metadata, deadline, bytes_max)
        except CallFailed as error:
            error.is_sent = self._sent
            raise

    def _call(
        self, path: str, request: bytes, metadata: Iterable[tuple[str, str | bytes]], deadline: float, bytes_max: int
    ) -> Iterator[bytes]:
        self._over = False
        self._said = {}
        self._messages.clear()
        headers: list[tuple[str, str] | NeverIndexedHeaderTuple] = [(":path", path), *self._common]
        # A call's own headers are not added to HTTP/2's table of headers, which lives as long as the connection.
        own = [*_timeout(deadline), *((key, _header(value)) for key, value in metadata)]
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
        """Raises the server's error, if the status is not OK."""
        said = self._said
        number = said.get("grpc-status", "")
        if number.isascii() and number.isdigit() and int(number) < len(STATUSES):
            status = STATUSES[int(number)]
        else:
            status = STATUS_OF_HTTP.get(said.get(":status", ""), "UNKNOWN")
        if status != "OK":
            raise CallFailed(status, percent_decoded(said.get("grpc-message", "")), said.get(self._code_key, ""))

    def _send(self, body: bytes, deadline: float) -> None:
        """Sends the request, as far as the server's windows allow."""
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
        self._sent = at == len(body)
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
            self._read(min(deadline, time.monotonic() + self._silent_s))

    # -- the socket

    def _flush(self, deadline: float | None = None) -> None:
        data = self._h2.data_to_send()
        if data:
            if deadline is not None:
                self._socket.settimeout(time_left_s(deadline))
            self._socket.sendall(data)

    def _read(self, deadline: float | None = None) -> None:
        """Reads the next data of the server, and sends the replies that HTTP/2 requires."""
        if deadline is not None:
            self._socket.settimeout(time_left_s(deadline))
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
        """Yields complete frames (RFC 9113, 4.1). The library processes them one at a time, so that the events of one
        are not lost when the next is invalid."""
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
        """Handles GOAWAY: no new calls, but accepted ones complete. The library itself would process nothing any
        more."""
        self._leaving = True
        last = int.from_bytes(frame[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + 4], "big") & 0x7FFF_FFFF
        if not self._over and last < self._stream:
            self._sent = False
            raise CallFailed("UNAVAILABLE", "the controller is going down")

    def _take(self, event: object) -> None:
        if getattr(event, "stream_id", None) != self._stream:
            return  # of an aborted call, or of the whole connection
        elif isinstance(event, DataReceived):
            self._messages += event.data
            self._h2.acknowledge_received_data(event.flow_controlled_length, self._stream)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            self._said |= {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, StreamReset):
            if not self._over:
                reason = int(event.error_code)
                self._sent = self._sent and reason != REFUSED_STREAM
                raise CallFailed(STATUS_OF_RESET.get(reason, "INTERNAL"), f"the controller ended the call ({reason})")
        elif isinstance(event, StreamEnded):
            self._over = True


def percent_decoded(text: str) -> str:
    """Decodes grpc-message: %XX stands for a byte, all of it is UTF-8."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, "utf-8", "replace")


def _header(value: str | bytes) -> str:
    """gRPC's form of metadata: text as it is, bytes in base64 without padding."""
    if isinstance(value, str):
        return value
    return binascii.b2a_base64(value, newline=False).rstrip(b"=").decode()


def _timeout(deadline: float) -> list[tuple[str, str]]:
    if deadline == float("inf"):
        return []
    left_ms = max(1, int((deadline - time.monotonic()) * 1000) + 1)
    return [("grpc-timeout", f"{min(left_ms, TIMEOUT_MS_MAX)}m")]
