"""The client's end of a step's streams: one connection to each node of the step, reopened when it breaks.

    stream = Stream(loop, place, ticket, trust, handler)
    stream.open()                     # greeting, TLS, HELLO; then frames go to handler.on_frame
    stream.send(frame(Kind.SIGNAL, b"15"))
    stream.acknowledge()              # the handler has processed all frames

States: CLOSED -> CONNECTING -> ASKING (greeting sent) -> SHAKING (TLS) -> GREETED (HELLO sent) -> OPEN -> ENDED; a lost
connection leads back to CLOSED and, after a growing pause, to CONNECTING. Output continues after the acknowledged
position, so nothing is lost or duplicated. A frame without a connection is kept if its content is new (SIGNAL,
EXCHANGE, WINDOW); the sender of standard input keeps it, and checks `received` after WELCOME.

A stream retries without limit: the controller knows whether the step still runs (AwaitStep), and the handler queries
it. Only a node that fails authentication ends it at once.
"""

import errno
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from cli.steps.trust import Trust, UntrustedPeer
from penstock.eventloop import READ, WRITE, Loop, LoopTimer
from penstock.values.packing import Damaged, pack_values, unpack
from penstock.values.stepframes import (
    ACK_EVERY_BYTES,
    ANSWER_BYTES_MAX,
    ANSWER_NO,
    ANSWER_OK,
    HEAD,
    BadFrame,
    FrameKind,
    FrameReader,
    StreamRole,
    frame,
    greeting,
)

#: A connection must be made and welcomed within this.
CONNECT_LIMIT_S = 10.0
PAUSE_FIRST_S = 0.02  # the launch may still be on its way to the node
PAUSE_MAX_S = 2.0
#: The most bytes read before other descriptors get their turn.
READ_BYTES_MAX = 1024 * 1024
BUFFER_BYTES = 256 * 1024
#: The bytes after which an acknowledgement is sent.
ACK_BYTES = ACK_EVERY_BYTES // 2
#: A machine that is down sends nothing: TCP keep-alive detects it within about half a minute.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
UNSENT_LIMIT_MS = 30_000
#: Frames of stepd that are not counted: replies on this connection only.
_UNCOUNTED = frozenset((FrameKind.WELCOME, FrameKind.ANSWER))


class State(IntEnum):
    """The state of one stream."""

    CLOSED = 0
    CONNECTING = 1
    ASKING = 2
    SHAKING = 3
    GREETED = 4
    OPEN = 5
    ENDED = 6


class StreamEndpoint(NamedTuple):
    """The address of a node's streams."""

    node: str
    host: str
    port: int
    tls: bool
    node_index: int = 0  # in the step


class Ticket(NamedTuple):
    """The step, and the secret for its streams."""

    job_id: int
    attempt: int
    step_id: int
    io_key: bytes
    role: StreamRole = StreamRole.OWNER
    options: tuple[str, ...] = ()  # "name=value"


class Handler(Protocol):
    """The user of a stream."""

    def on_welcome(self, stream: "StepStream") -> None:
        """Called when a connection is established, for the first time or again."""

    def on_frame(self, stream: "StepStream", kind: int, channel: int, task: int, payload: bytes) -> None:
        """Called for each frame, in order, once."""

    def on_broken(self, stream: "StepStream", reason: str) -> None:
        """Called when the connection is gone; it will be tried again unless `close` is called."""

    def on_untrusted_peer(self, stream: "StepStream", reason: str) -> None:
        """Called when the peer is not the node; it is not tried again."""


def number(payload: bytes) -> int:
    """A single number. Raises BadFrame."""
    try:
        return int(payload) if payload.lstrip(b"-").isdigit() else int(unpack(payload)[0])
    except (Damaged, ValueError, IndexError) as error:
        raise BadFrame("a number was expected") from error


def values(payload: bytes, least: int) -> Sequence[bytes]:
    """Several values. Raises BadFrame."""
    try:
        found = unpack(payload)
    except Damaged as error:
        raise BadFrame(f"values: {error}") from error
    if len(found) < least:
        raise BadFrame(f"{len(found)} values, {least} were expected")
    return found


class StepStream:
    """One node's part of a step, as its client sees it."""

    def __init__(self, loop: Loop, place: StreamEndpoint, ticket: Ticket, trust: Trust, handler: Handler) -> None:
        self.place = place
        self.state = State.CLOSED
        self.counted = 0  # bytes of stepd's frames that the handler has had
        self.received = 0  # bytes of standard input that stepd has had, as of the last welcome
        self.failures = 0  # since the last welcome
        self.welcomed = False  # at least once
        self.paused = False
        self._loop = loop
        self._ticket = ticket
        self._trust = trust
        self._handler = handler
        self._socket: socket.socket | ssl.SSLSocket | None = None
        self._reader = FrameReader()
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._unsent: deque[memoryview] = deque()
        self._later: list[bytes] = []  # frames for the next connection
        self._acknowledged = 0
        self._pause_s = PAUSE_FIRST_S
        self._answer = b""
        self._timer: LoopTimer | None = None

    # ---- opening ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Starts to connect. Errors come through the handler."""
        self._cancel_timer()
        try:
            family, kind, protocol, _, address = self._resolve()
            self._socket = sock = socket.socket(family, kind, protocol)
            self._tune(sock)
            sock.setblocking(False)
            outcome = sock.connect_ex(address)
        except OSError as error:
            self._break(error.strerror or str(error))
            return
        if outcome not in (0, errno.EINPROGRESS):
            self._break(errno.errorcode.get(outcome, str(outcome)))
            return
        self.state = State.CONNECTING
        self._timer = self._loop.after(CONNECT_LIMIT_S, lambda: self._break("no answer in time"))
        self._loop.watch(sock.fileno(), self._connected, WRITE)

    def _resolve(self) -> tuple[int, int, int, str, tuple[object, ...]]:
        # As bytes: that avoids loading the IDNA codec.
        found = socket.getaddrinfo(self.place.host.encode(), self.place.port, type=socket.SOCK_STREAM)
        return found[self.failures % len(found)]

    @staticmethod
    def _tune(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_LIMIT_MS)

    def _connected(self, events: int) -> None:
        sock = self._sock()
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._break(errno.errorcode.get(failed, str(failed)))
            return
        try:
            # A line of some 30 bytes into an empty socket buffer is never split.
            sock.send(greeting(self._ticket.job_id, self._ticket.attempt, self._ticket.step_id))
        except OSError as error:
            self._break(error.strerror or str(error))
            return
        self.state = State.ASKING
        self._answer = b""
        self._loop.watch(sock.fileno(), self._asked)

    def _asked(self, events: int) -> None:
        """The answer to the greeting: read byte by byte, since the data after it belong to TLS."""
        sock = self._sock()
        try:
            while not self._answer.endswith(b"\n"):
                byte = sock.recv(1)
                self._answer += byte
                if not byte or len(self._answer) > ANSWER_BYTES_MAX:
                    self._break("closed by the node")
                    return
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error.strerror or str(error))
            return
        if self._answer != ANSWER_OK:
            self._break(self._answer.removeprefix(ANSWER_NO).decode("utf-8", "replace").strip())
        elif self.place.tls:
            self._loop.forget(sock.fileno())
            self._socket = self._trust.context().wrap_socket(sock, do_handshake_on_connect=False)
            self.state = State.SHAKING
            self._handshake()
        else:
            self._send_hello()

    def _handshake(self, events: int = 0) -> None:
        sock = self._sock()
        assert isinstance(sock, ssl.SSLSocket)
        try:
            sock.do_handshake()
            self._trust.check(self.place.node, sock)
        except ssl.SSLWantReadError:
            self._loop.watch(sock.fileno(), self._handshake)
        except ssl.SSLWantWriteError:
            self._loop.watch(sock.fileno(), self._handshake, WRITE)
        except (UntrustedPeer, ssl.SSLCertVerificationError) as error:
            self.close()
            self._handler.on_untrusted_peer(self, getattr(error, "verify_message", "") or str(error))
        except OSError as error:
            self._break(getattr(error, "reason", "") or error.strerror or str(error))
        else:
            self._send_hello()

    def _send_hello(self) -> None:
        self.state = State.GREETED
        self._reader = FrameReader()
        self._unsent.clear()
        ticket = self._ticket
        self._push(frame(FrameKind.HELLO, pack_values(ticket.io_key, int(ticket.role), self.counted, *ticket.options)))

    def _welcome(self, payload: bytes) -> None:
        _, counted, received, *_ = values(payload, 3)
        self.counted = self._acknowledged = int(counted)
        self.received = int(received)
        self._cancel_timer()
        self.state = State.OPEN
        self.failures = 0
        self.welcomed = True
        self._pause_s = PAUSE_FIRST_S
        later = self._later
        self._later = []
        for data in later:
            self.send(data)
        if self.state == State.OPEN:
            self._handler.on_welcome(self)

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, data: bytes, *, keep: bool = True) -> None:
        """Sends a frame: now, or (if `keep`) as soon as there is a connection again."""
        if self.state == State.OPEN:
            self._push(data)
        elif keep and self.state != State.ENDED:
            self._later.append(data)

    def acknowledge(self, *, all_of_it: bool = False) -> None:
        """Acknowledges what the handler has processed. Sent when enough has accumulated, or with `all_of_it`."""
        if self.state == State.OPEN and self.counted - self._acknowledged >= (1 if all_of_it else ACK_BYTES):
            self._acknowledged = self.counted
            self._push(frame(FrameKind.ACK, b"%d" % self.counted))

    def _push(self, data: bytes) -> None:
        self._unsent.append(memoryview(data))
        self._flush()

    def _flush(self) -> None:
        sock = self._sock()
        try:
            while self._unsent:
                sent = sock.send(self._unsent[0])
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    self._unsent.popleft()
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass  # the rest goes when there is room
        except OSError as error:
            self._break(error.strerror or str(error))
            return
        self._watch()

    def _watch(self) -> None:
        fd, events = self._sock().fileno(), (0 if self.paused else READ) | (WRITE if self._unsent else 0)
        if events:
            self._loop.watch(fd, self._ready, events)
        else:
            self._loop.forget(fd)  # the next read or write reports the error

    def _ready(self, events: int) -> None:
        sock = self._socket
        if events & ~WRITE and not self.paused:
            self._read()
        if events & ~READ and self._unsent and self._socket is sock:
            self._flush()

    # ---- receiving -------------------------------------------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        """Stops reading from the node for now: back-pressure."""
        if paused == self.paused:
            return
        self.paused = paused
        if self.state in (State.GREETED, State.OPEN):
            self._watch()
            if not paused:
                self._loop.soon(self._resume)  # TLS may have buffered data, which poll does not report

    def _resume(self) -> None:
        if self.state in (State.GREETED, State.OPEN) and not self.paused:
            self._read()

    def _read(self) -> None:
        reason = None
        read = 0
        sock = self._sock()
        while read < READ_BYTES_MAX:
            try:
                got = sock.recv_into(self._buffer)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                reason = error.strerror or str(error)
                break
            if not got:
                reason = "closed by the node"
                break
            self._reader.feed(self._buffer[:got])  # type: ignore[arg-type]  # any buffer will do
            read += got
        self._deliver()
        if reason is not None and self.state != State.ENDED and self._socket is sock:
            self._break(reason)
        elif read >= READ_BYTES_MAX:
            self._loop.soon(self._resume)

    def _deliver(self) -> None:
        sock = self._socket
        try:
            while self._socket is sock and (taken := self._reader.take()) is not None:
                self._one(*taken)
        except BadFrame as error:
            self._break(str(error))

    def _one(self, kind: int, channel: int, task: int, payload: bytes) -> None:
        if kind not in _UNCOUNTED:
            self.counted += HEAD.size + len(payload)
        if kind == FrameKind.WELCOME:
            self._welcome(payload)
            return
        self._handler.on_frame(self, kind, channel, task, payload)
        if kind == FrameKind.END and self.state == State.OPEN:
            self.finish()

    # ---- ending ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Reports that all data have arrived, and closes."""
        self.acknowledge(all_of_it=True)
        self.close()

    def close(self) -> None:
        """Closes the stream."""
        self._drop()
        self.state = State.ENDED

    def _break(self, reason: str) -> None:
        self._drop()
        self.state = State.CLOSED
        self.failures += 1
        self._timer = self._loop.after(self._pause_s, self.open)
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        self._handler.on_broken(self, reason)

    def _drop(self) -> None:
        self._cancel_timer()
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sock(self) -> socket.socket:
        if self._socket is None:
            raise ValueError("the stream has no connection")
        return self._socket
