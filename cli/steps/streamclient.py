"""The client's end of a step's streams: one connection to each node of the step, opened again when it breaks.

    stream = Stream(loop, place, ticket, trust, handler)
    stream.open()                     # greeting, TLS, HELLO; then frames go to handler.on_frame
    stream.send(frame(Kind.SIGNAL, b"15"))
    stream.acknowledge()              # all that was given to the handler has been dealt with

States: CLOSED -> CONNECTING -> ASKING (greeting sent) -> SHAKING (TLS) -> GREETED (HELLO sent) -> OPEN -> ENDED; a break
leads back to CLOSED and, after a pause that grows, to CONNECTING. What was acknowledged tells where output goes on, so
nothing is lost or seen twice. A frame that was to be sent while there is no connection is kept if it says something new
(SIGNAL, EXCHANGE, WINDOW); standard input is kept by whoever sends it, who looks at `received` after WELCOME.

A stream does not give up by itself: whether it is worth while to go on is what the controller knows (AwaitStep), and
the handler asks. Only a node that cannot be believed ends it at once.
"""

import errno
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from cli.steps.loop import Loop, Timer
from cli.steps.trust import Distrust, Trust
from penstock.values.packing import Damaged, pack_values, unpack
from penstock.values.stepframes import (
    ACK_EVERY_BYTES,
    ANSWER_BYTES_MAX,
    ANSWER_NO,
    ANSWER_OK,
    HEAD,
    BadFrame,
    FrameReader,
    Kind,
    Role,
    frame,
    greeting,
)

#: A connection must be made and welcomed within this.
CONNECT_LIMIT_S = 10.0
PAUSE_FIRST_S = 0.02  # the launch may be on its way to the node still
PAUSE_MAX_S = 2.0
#: Read at one go; then others get their turn.
READ_BYTES_MAX = 1024 * 1024
BUFFER_BYTES = 256 * 1024
#: Acknowledged when so much was handled.
ACK_BYTES = ACK_EVERY_BYTES // 2
#: A node whose machine is gone says nothing: the kernel finds out within about half a minute.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
UNSENT_LIMIT_MS = 30_000
#: Frames of stepd that are not counted: answers to this connection only.
_UNCOUNTED = frozenset((Kind.WELCOME, Kind.ANSWER))


class State(IntEnum):
    """Of one stream."""

    CLOSED = 0
    CONNECTING = 1
    ASKING = 2
    SHAKING = 3
    GREETED = 4
    OPEN = 5
    ENDED = 6


class Place(NamedTuple):
    """Where a node's streams are."""

    node: str
    host: str
    port: int
    tls: bool
    node_index: int = 0  # in the step


class Ticket(NamedTuple):
    """Which step, and what lets one in."""

    job_id: int
    attempt: int
    step_id: int
    io_key: bytes
    role: Role = Role.OWNER
    options: tuple[str, ...] = ()  # "name=value"


class Handler(Protocol):
    """Who uses a stream."""

    def on_welcome(self, stream: "Stream") -> None:
        """A connection stands, for the first time or again."""

    def on_frame(self, stream: "Stream", kind: int, channel: int, task: int, payload: bytes) -> None:
        """One frame, in order, once."""

    def on_broken(self, stream: "Stream", reason: str) -> None:
        """The connection is gone; it will be tried again unless `close` is called."""

    def on_distrust(self, stream: "Stream", reason: str) -> None:
        """Whoever answered is not the node; it is not tried again."""


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


class Stream:
    """One node's part of a step, as its client sees it."""

    def __init__(self, loop: Loop, place: Place, ticket: Ticket, trust: Trust, handler: Handler) -> None:
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
        self._timer: Timer | None = None

    # ---- opening ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to connect. Errors come through the handler."""
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
        self._timer = self._loop.at(CONNECT_LIMIT_S, lambda: self._break("no answer in time"))
        self._loop.watch(sock.fileno(), write=self._connected)

    def _resolve(self) -> tuple[int, int, int, str, tuple[object, ...]]:
        # As bytes: the codec for international names is not loaded for names that are none.
        found = socket.getaddrinfo(self.place.host.encode(), self.place.port, type=socket.SOCK_STREAM)
        return found[self.failures % len(found)]

    @staticmethod
    def _tune(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_LIMIT_MS)

    def _connected(self) -> None:
        sock = self._sock()
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._break(errno.errorcode.get(failed, str(failed)))
            return
        try:
            # A line of some 30 bytes into an empty socket: it goes out whole.
            sock.send(greeting(self._ticket.job_id, self._ticket.attempt, self._ticket.step_id))
        except OSError as error:
            self._break(error.strerror or str(error))
            return
        self.state = State.ASKING
        self._answer = b""
        self._loop.watch(sock.fileno(), read=self._asked)

    def _asked(self) -> None:
        """The answer to the greeting: read byte by byte, what follows it belongs to TLS."""
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
            self._shake()
        else:
            self._say_hello()

    def _shake(self) -> None:
        sock = self._sock()
        assert isinstance(sock, ssl.SSLSocket)
        try:
            sock.do_handshake()
            self._trust.check(self.place.node, sock)
        except ssl.SSLWantReadError:
            self._loop.watch(sock.fileno(), read=self._shake)
        except ssl.SSLWantWriteError:
            self._loop.watch(sock.fileno(), write=self._shake)
        except (Distrust, ssl.SSLCertVerificationError) as error:
            self.close()
            self._handler.on_distrust(self, getattr(error, "verify_message", "") or str(error))
        except OSError as error:
            self._break(getattr(error, "reason", "") or error.strerror or str(error))
        else:
            self._say_hello()

    def _say_hello(self) -> None:
        self.state = State.GREETED
        self._reader = FrameReader()
        self._unsent.clear()
        ticket = self._ticket
        self._push(frame(Kind.HELLO, pack_values(ticket.io_key, int(ticket.role), self.counted, *ticket.options)))

    def _welcome(self, payload: bytes) -> None:
        _, counted, received, *_ = values(payload, 3)
        self.counted = self._acknowledged = int(counted)
        self.received = int(received)
        self._cancel_timer()
        self.state = State.OPEN
        self.failures = 0
        self.welcomed = True
        self._pause_s = PAUSE_FIRST_S
        later, self._later = self._later, []
        for data in later:
            self.send(data)
        if self.state == State.OPEN:
            self._handler.on_welcome(self)

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, data: bytes, *, keep: bool = True) -> None:
        """Send a frame: now, or (if `keep`) as soon as there is a connection again."""
        if self.state == State.OPEN:
            self._push(data)
        elif keep and self.state != State.ENDED:
            self._later.append(data)

    def acknowledge(self, *, all_of_it: bool = False) -> None:
        """What the handler has had is dealt with. Told when it is worth a frame, or `all_of_it`."""
        if self.state == State.OPEN and self.counted - self._acknowledged >= (1 if all_of_it else ACK_BYTES):
            self._acknowledged = self.counted
            self._push(frame(Kind.ACK, b"%d" % self.counted))

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
        self._loop.watch(
            self._sock().fileno(),
            read=None if self.paused else self._read,
            write=self._flush if self._unsent else None,
        )

    # ---- receiving -------------------------------------------------------------------------------------------------

    def pause(self, paused: bool) -> None:
        """Take no more from the node for now: back-pressure."""
        if paused == self.paused:
            return
        self.paused = paused
        if self.state in (State.GREETED, State.OPEN):
            self._watch()
            if not paused:
                self._loop.soon(self._resume)  # something may lie in TLS's buffer, of which the kernel knows nothing

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
        if kind == Kind.WELCOME:
            self._welcome(payload)
            return
        self._handler.on_frame(self, kind, channel, task, payload)
        if kind == Kind.END and self.state == State.OPEN:
            self.finish()

    # ---- ending ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """All has come: say so, and go."""
        self.acknowledge(all_of_it=True)
        self.close()

    def close(self) -> None:
        """The stream is of no more use."""
        self._drop()
        self.state = State.ENDED

    def _break(self, reason: str) -> None:
        self._drop()
        self.state = State.CLOSED
        self.failures += 1
        self._timer = self._loop.at(self._pause_s, self.open)
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
