"""One gRPC call over one HTTP/2 connection, with sockets of the standard library alone.

Commands are called in loops, so what their start costs counts. `import grpc` takes 60 ms of CPU and a channel brings
threads, which a process that forks (the command server) must not have. What a command needs is little: one call at a
time, one message out, one or many back. That is this module; the other side is gRPC's own server.

What is spoken: HTTP/2 (RFC 9113) with the header compression's (RFC 7541) static part only: the table for our reader is
set to size 0, so nothing that the server sends refers to earlier headers. A server may still write a text in Huffman
code; gRPC's does not for the headers that are read here, so such a text is not decoded and stands as UNREADABLE.
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
from collections.abc import Iterator
from typing import Final, NoReturn

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
WINDOW_FIRST: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
#: After so many bytes of answers the server's windows are filled up again.
WINDOW_REFILL: Final = 2**28
FRAME_FIRST: Final = 16_384
#: The largest frame that is taken.
FRAME_BYTES_MAX: Final = 2**20
#: All headers of an answer; the server's are some hundred bytes.
HEADER_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 256 * 1024
#: What grpc-timeout can say at most: eight digits of milliseconds, a good day.
TIMEOUT_MS_MAX: Final = 99_999_999
UNREADABLE: Final = "?"

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
#: Names of the static table (RFC 7541, appendix A) that carry something for us; the others are skipped by their number.
STATIC_NAMES_MAX: Final = 61
STATIC_STATUS: Final = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}


class CallFailed(Exception):
    """The call did not end with OK. `status` is gRPC's name, `code` the refusal's number as text or ""."""

    def __init__(self, status: str, details: str, code: str = "") -> None:
        super().__init__(f"{status}: {details}")
        self.status = status
        self.details = details
        self.code = code


class Connection:
    """One connection; it owns the socket. One call at a time: read a call's answers to the end, or close."""

    def __init__(self, connection: socket.socket, authority: str, code_key: str, *, secure: bool = False) -> None:
        self._socket = connection
        self._head = b"\x83" + (b"\x87" if secure else b"\x86") + _named(1, authority)
        self._code_key = code_key
        self._unread = bytearray()
        self._stream = -1  # the last stream that was opened
        self._over = True  # that stream has ended
        self._may_send = WINDOW_FIRST  # on the connection, on the stream, at the start of a stream, in one frame
        self._may_send_here = 0
        self._window = WINDOW_FIRST
        self._frame_max = FRAME_FIRST
        self._owed = 0  # bytes taken in since the windows were last filled up
        self._leaving = False  # the server said GOAWAY
        self._messages = bytearray()
        self._headers: dict[str, str] = {}
        self._block = b""
        self._block_ends_stream = False
        settings = b"".join(_setting(*pair) for pair in ((1, 0), (2, 0), (4, WINDOW_MAX), (5, FRAME_BYTES_MAX)))
        more = (WINDOW_MAX - WINDOW_FIRST).to_bytes(4, "big")
        self._unsent = PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW, 0, 0, more)

    def close(self) -> None:
        """Drop it."""
        self._socket.close()

    def usable(self) -> bool:
        """Whether another call may be made: the last one is over, and the server neither closed nor left."""
        if not self._over or self._leaving:
            return False
        try:
            # Without unread bytes, a readable socket has pings or an end to tell.
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN)
            while waiting.poll(0):
                self._socket.settimeout(0.01)
                self._take(*self._read_frame())
        except (OSError, CallFailed, ValueError):
            return False
        return not self._leaving

    def call(
        self, path: str, request: bytes, metadata: tuple[tuple[str, bytes], ...], deadline: float, bytes_max: int
    ) -> Iterator[bytes]:
        """The answers of one call, as they come. Times by time.monotonic(); inf = no deadline. Raises CallFailed."""
        self._stream += 2
        self._over = False
        self._headers = {}
        self._messages.clear()
        self._may_send_here = self._window
        block = self._head + _named(4, path) + _named(31, "application/grpc") + _literal("te", "trailers")
        if deadline != float("inf"):
            left_ms = max(1, int((deadline - time.monotonic()) * 1000) + 1)
            block += _literal("grpc-timeout", f"{min(left_ms, TIMEOUT_MS_MAX)}m")
        for name, value in metadata:
            block += _literal(name, binascii.b2a_base64(value, newline=False).rstrip(b"=").decode())
        self._unsent += frame(HEADERS, END_HEADERS, self._stream, block)
        try:
            self._send_request(b"\0" + len(request).to_bytes(4, "big") + request, deadline)
            yield from self._receive(deadline, bytes_max)
        except TimeoutError as error:
            raise CallFailed("DEADLINE_EXCEEDED", "Deadline Exceeded") from error
        except OSError as error:
            raise CallFailed("UNAVAILABLE", error.strerror or str(error)) from error
        self._end()

    def _end(self) -> None:
        """Raise what the server said, if that is not OK."""
        said = self._headers
        number = said.get("grpc-status", "")
        if number.isascii() and number.isdigit() and int(number) < len(STATUSES):
            status = STATUSES[int(number)]
        else:
            status = STATUS_OF_HTTP.get(said.get(":status", ""), "UNKNOWN")
        if status != "OK":
            raise CallFailed(status, percent_decoded(said.get("grpc-message", "")), said.get(self._code_key, ""))

    def _send_request(self, body: bytes, deadline: float) -> None:
        rest = memoryview(body)
        while len(rest):
            room = min(self._may_send, self._may_send_here, self._frame_max, len(rest))
            if room > 0:
                self._may_send -= room
                self._may_send_here -= room
                ends = END_STREAM if room == len(rest) else 0
                self._unsent += frame(DATA, ends, self._stream, bytes(rest[:room]))
                rest = rest[room:]
                continue
            self._flush(deadline)
            self._take(*self._read_frame(deadline))
            if self._over:
                return  # the server has answered without reading all of it
        self._flush(deadline)

    def _receive(self, deadline: float, bytes_max: int) -> Iterator[bytes]:
        have = self._messages
        while True:
            while len(have) >= 5:
                size = int.from_bytes(have[1:5], "big")
                if have[0]:
                    raise CallFailed("INTERNAL", "the answer is compressed, which was not asked for")
                if size > bytes_max:
                    raise CallFailed("RESOURCE_EXHAUSTED", f"an answer of {size} bytes; the limit is {bytes_max}")
                if len(have) < 5 + size:
                    break
                message = bytes(have[5 : 5 + size])
                del have[: 5 + size]
                yield message
            if self._over:
                return
            self._take(*self._read_frame(deadline))

    # -- frames

    def _flush(self, deadline: float) -> None:
        if self._unsent:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(self._unsent)
            self._unsent = b""

    def _read_frame(self, deadline: float | None = None) -> tuple[int, int, int, bytes]:
        """The next frame: kind, flags, stream, content."""
        while True:
            have = self._unread
            if len(have) >= 9:
                size = int.from_bytes(have[:3], "big")
                if size > FRAME_BYTES_MAX:
                    raise CallFailed("INTERNAL", f"a frame of {size} bytes: this is not our controller")
                if len(have) >= 9 + size:
                    content = bytes(have[9 : 9 + size])
                    kind, flags, stream = have[3], have[4], int.from_bytes(have[5:9], "big") & WINDOW_MAX
                    del have[: 9 + size]
                    return kind, flags, stream, content
            if deadline is not None:
                self._flush(deadline)
                self._socket.settimeout(_left(deadline))
            more = self._socket.recv(READ_BYTES)
            if not more:
                raise ConnectionResetError("the controller closed the connection")
            self._unread += more

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == DATA:
            self._take_data(flags, stream, content)
        elif kind in (HEADERS, CONTINUATION):
            self._take_headers(kind, flags, stream, content)
        elif kind == RESET and stream == self._stream:
            reason = int.from_bytes(content[:4], "big")
            if not self._over:
                raise CallFailed(STATUS_OF_RESET.get(reason, "INTERNAL"), f"the controller ended the call ({reason})")
        elif kind == SETTINGS and not flags & ACK:
            self._take_settings(content)
        elif kind == PING and not flags & ACK:
            self._unsent += frame(PING, ACK, 0, content)
        elif kind == GOAWAY:
            self._leaving = True
            if int.from_bytes(content[:4], "big") & WINDOW_MAX < self._stream and not self._over:
                raise CallFailed("UNAVAILABLE", "the controller is going down")
        elif kind == WINDOW:
            more = int.from_bytes(content[:4], "big") & WINDOW_MAX
            if stream == 0:
                self._may_send += more
            elif stream == self._stream:
                self._may_send_here += more

    def _take_settings(self, content: bytes) -> None:
        for at in range(0, len(content) - 5, 6):
            name, value = int.from_bytes(content[at : at + 2], "big"), int.from_bytes(content[at + 2 : at + 6], "big")
            if name == 4:
                self._may_send_here += value - self._window
                self._window = value
            elif name == 5:
                self._frame_max = value
        self._unsent += frame(SETTINGS, ACK, 0, b"")

    def _take_data(self, flags: int, stream: int, content: bytes) -> None:
        self._owed += len(content)
        if stream == self._stream:
            self._messages += _unpadded(flags, content)
            self._over = self._over or bool(flags & END_STREAM)
        if self._owed >= WINDOW_REFILL:
            more = self._owed.to_bytes(4, "big")
            self._owed = 0
            self._unsent += frame(WINDOW, 0, 0, more)
            if not self._over:
                self._unsent += frame(WINDOW, 0, self._stream, more)

    def _take_headers(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == HEADERS:
            self._block = b""
            self._block_ends_stream = bool(flags & END_STREAM)
            content = _unpadded(flags, content)
            if flags & PRIORITY:
                content = content[5:]
        self._block += content
        if len(self._block) > HEADER_BYTES_MAX:
            raise CallFailed("INTERNAL", "too many headers: this is not our controller")
        if not flags & END_HEADERS or stream != self._stream:
            return
        try:
            self._headers.update(decoded(self._block))
        except (IndexError, ValueError) as error:
            raise CallFailed("INTERNAL", f"headers that cannot be read ({error})") from error
        self._over = self._over or self._block_ends_stream


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """One frame as bytes."""
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


def decoded(block: bytes) -> dict[str, str]:
    """The headers of a block that refers to nothing earlier. IndexError or ValueError for one that cannot be read."""
    found: dict[str, str] = {}
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:  # a whole field of the static table: only the status can be one for us
            number, at = _integer(block, at, 7)
            _check_static(number)
            if number in STATIC_STATUS:
                found[":status"] = STATIC_STATUS[number]
            continue
        if first & 0xE0 == 0x20:  # the table's size: ours stays 0
            _, at = _integer(block, at, 5)
            continue
        number, at = _integer(block, at, 6 if first & 0x40 else 4)
        if number:
            _check_static(number)
            name = ":status" if number in STATIC_STATUS else ""
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        if name:
            found[name] = value
    return found


def percent_decoded(text: str) -> str:
    """grpc-message as it was written: %XX stands for a byte, all of it is UTF-8."""
    if "%" not in text:
        return text
    out = bytearray()
    raw = text.encode("ascii", "replace")
    at = 0
    while at < len(raw):
        pair = raw[at + 1 : at + 3]
        if raw[at] == 0x25 and len(pair) == 2 and all(c in b"0123456789abcdefABCDEF" for c in pair):
            out.append(int(pair, 16))
            at += 3
        else:
            out.append(raw[at])
            at += 1
    return out.decode("utf-8", "replace")


def _left(deadline: float) -> float | None:
    if deadline == float("inf"):
        return None
    left_s = deadline - time.monotonic()
    return left_s if left_s > 0 else _too_late()


def _too_late() -> NoReturn:
    raise TimeoutError


def _setting(name: int, value: int) -> bytes:
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def _unpadded(flags: int, content: bytes) -> bytes:
    return content[1 : len(content) - content[0]] if flags & PADDED and content else content


def _check_static(number: int) -> None:
    if not 1 <= number <= STATIC_NAMES_MAX:
        raise ValueError(f"index {number}")


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """RFC 7541, 5.1: an integer that begins in the lower bits of a byte; and where it ends."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in range(0, 28, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise ValueError("an integer without an end")


def _text(block: bytes, at: int) -> tuple[str, int]:
    is_huffman = block[at] & 0x80
    size, at = _integer(block, at, 7)
    if at + size > len(block):
        raise ValueError("a text that ends too early")
    return (UNREADABLE if is_huffman else block[at : at + size].decode("latin-1")), at + size


def _length(size: int, bits: int, mark: int) -> bytes:
    most = (1 << bits) - 1
    if size < most:
        return bytes((mark | size,))
    out = bytearray((mark | most,))
    size -= most
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def _named(number: int, value: str) -> bytes:
    """A field whose name is in the static table, not to be remembered."""
    text = value.encode("latin-1")
    return _length(number, 4, 0) + _length(len(text), 7, 0) + text


def _literal(name: str, value: str) -> bytes:
    text, key = value.encode("latin-1"), name.encode("latin-1")
    return b"\0" + _length(len(key), 7, 0) + key + _length(len(text), 7, 0) + text
