"""One client of a step: TLS, then HELLO with the step's key, then frames both ways. The connection comes from noded.

A client that shows the step's key (compared in constant time) has the rights of its role. An OWNER receives all, sends
input and signals, and acknowledges; a VIEWER receives and may send input; a TUNNEL leads to the session that the job is;
a QUERY client asks questions, and may have a key that is valid for nothing else, and not for the output. Before HELLO nothing
is sent, and there is a deadline; when there are too many clients, the oldest without HELLO is disconnected, then the oldest
that asks, then any but an OWNER.

Sending is pulled: each connection has its own position in the frames that the hub keeps.
"""

import contextlib
import errno
import socket
from _operator import _compare_digest as compare_digest  # hmac's own, without the OpenSSL that hmac brings along

from nodedaemon.stepd.session import NoSession
from penstock.eventloop import READ, WRITE, Loop
from penstock.values.outputtail import TAIL
from penstock.values.packing import Damaged, dump, pack_values, unpack
from penstock.values.stepframes import ANSWER_OK, KEY_BYTES, BadFrame, FrameKind, FrameReader, StreamRole, frame

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext, SSLSocket
    from typing import Protocol

    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.stepd.streams import StreamHub
    from penstock.values.packing import PackedValue

    class StreamedStep(Protocol):
        """What a client uses of its step, which is the Supervisor."""

        loop: Loop
        order: LaunchOrder

        @property
        def hub(self) -> StreamHub: ...
        def answer(self, word: str) -> dict[str, PackedValue]: ...
        def ask_tail(self, text: str, is_own_key: bool, reply: Callable[[bytes], None]) -> None: ...
        def signal_tasks(self, signum: int) -> None: ...
        def exchange(self, payload: bytes) -> None: ...
        def open_tunnel(self, client: socket.socket | SSLSocket, answer: bytes) -> None: ...


HELLO_S = 10.0
CONNECTIONS_MAX = 32
RECEIVE_BYTES = 128 * 1024
#: Bytes of answers that wait for a client which does not read.
ANSWERS_MAX = 16
#: After this many seconds of silence the kernel probes the peer; three times, ten seconds apart.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
#: How a connection ends whose client may still be there: the kernel's probes had no answer.
_CUT_OFF = frozenset((errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH))
#: The errno of ssl's "want to read" and "want to write" (without loading the ssl module).
_TLS_BLOCKED = (2, 3)
_TLS_WANTS_WRITE = 3


class NotAllowed(Exception):
    """The client attempts something that its role does not allow."""


class StreamConnection:
    """A client. `role` is None until it has sent HELLO with the right key."""

    def __init__(self, step: "StreamedStep", sock: socket.socket, tls: "SSLContext | None") -> None:
        self._step = step
        self._hub = step.hub
        self._loop: Loop = step.loop
        self._reader = FrameReader()
        self.role: StreamRole | None = None
        self._at = 0  # next to send: a kept chunk
        self._offset = 0  # and where in it
        self._position = 0  # the same in bytes of the whole stream
        self._own: list[bytes] = []  # frames for this client only
        self._awaited = 0  # answers that come later
        self._is_own_key = False  # the step's: that of its user and of administrators
        self._out: memoryview | None = None  # being sent
        self._events = READ
        self._is_open = True
        self._is_shaking = tls is not None
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        sock.send(ANSWER_OK)
        self._sock: socket.socket | SSLSocket = sock
        if tls is not None:
            self._sock = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._timer = self._loop.after(HELLO_S, self.close)
        self._make_room()
        self._hub.connections.append(self)
        self._loop.watch(self._sock.fileno(), self._ready)

    def _make_room(self) -> None:
        others = self._hub.connections
        if len(others) >= CONNECTIONS_MAX:
            silent = [other for other in others if other.role is None]
            asking = [other for other in others if other.role is StreamRole.QUERY]
            (silent or asking or [other for other in others if other.role is not StreamRole.OWNER])[0].close()

    def close(self, is_cut: bool = False) -> None:
        """Closes the connection. `is_cut`: the network has, not the client."""
        if not self._is_open:
            return
        self._is_open = False
        self._timer.cancel()
        self._loop.forget(self._sock.fileno())
        self._sock.close()
        self._hub.lose(self, is_cut)

    # -- from the client

    def _ready(self, events: int) -> None:
        try:
            if self._is_shaking:
                self._handshake()
            elif events & ~WRITE:
                self._receive()
        except (NotAllowed, BadFrame, Damaged, ValueError):  # it violates the protocol: disconnect
            self.close()
        except OSError as error:
            if not _is_blocked(error):
                self.close(error.errno in _CUT_OFF)
        self.pump()

    def _handshake(self) -> None:
        try:
            self._sock.do_handshake()  # type: ignore[union-attr]
        except OSError as error:
            if not _is_blocked(error):
                raise
            self._watch_events(WRITE if error.errno == _TLS_WANTS_WRITE else READ)
            return
        self._is_shaking = False
        self._watch_events(READ)

    def _receive(self) -> None:
        more = True
        while more and self._is_open:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                self.close()
                return
            self._reader.feed(data)
            while self._is_open and (taken := self._reader.take()) is not None:
                self._take(*taken)
            more = hasattr(self._sock, "pending") and self._sock.pending() > 0

    def _take(self, kind: int, stream: int, task: int, payload: bytes) -> None:
        if self.role is None:
            if kind != FrameKind.HELLO:
                raise NotAllowed
            self._hello(payload)
        elif kind == FrameKind.QUESTION:
            self._take_question(payload.decode("ascii"))
        elif self.role is StreamRole.QUERY:
            raise NotAllowed
        elif kind == FrameKind.STDIN:
            if not self._hub.take_stdin(task, payload, self.role is StreamRole.OWNER):
                raise NotAllowed
        elif kind == FrameKind.WINDOW:
            rows, columns = unpack(payload)
            self._hub.resize(int(rows), int(columns))
        elif self.role is StreamRole.OWNER:
            self._take_owners(kind, payload)

    def _take_question(self, text: str) -> None:
        if len(self._own) + self._awaited >= ANSWERS_MAX:
            raise NotAllowed
        self._awaited += 1
        if text.partition(" ")[0] == TAIL:
            self._step.ask_tail(text, self._is_own_key, self._answer)
        else:
            self._answer(dump(self._step.answer(text)))

    def _answer(self, payload: bytes) -> None:
        """Sends an answer with the loop's next turn; to a client that is gone, nothing."""
        self._awaited -= 1
        if self._is_open:
            self._own.append(frame(FrameKind.ANSWER, payload))

    def _take_owners(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.ACK:
            self._hub.acknowledge(int(payload))
        elif kind == FrameKind.SIGNAL:
            self._step.signal_tasks(int(payload))
        elif kind == FrameKind.EXCHANGE:
            self._step.exchange(payload)

    def _hello(self, payload: bytes) -> None:
        shown, role_name, from_wire, *_ = unpack(payload)
        role = StreamRole(int(role_name))
        order = self._step.order
        is_known = _is_key(shown, order.io_key)
        if not is_known and not (role is StreamRole.QUERY and _is_key(shown, order.asking_key)):
            raise NotAllowed
        kept = self._hub.kept
        self._timer.cancel()
        self.role = role
        if role is StreamRole.TUNNEL:
            self._leave_to_tunnel()
            return
        self._is_own_key = is_known
        if role is StreamRole.OWNER:
            self._hub.take_owner(self)
            self._position = min(max(int(from_wire), kept.base), kept.end)
        else:
            self._position = kept.base
        self._at, self._offset = kept.find(self._position)
        self._own.append(
            frame(FrameKind.WELCOME, pack_values(self._step.order.node_name, self._position, self._hub.stdin_received))
        )

    def _leave_to_tunnel(self) -> None:
        """Hands the client's socket over: what follows WELCOME is for the session. The client waits for it."""
        self._loop.forget(self._sock.fileno())
        self._is_open = False
        self._hub.lose(self, False)
        answer = frame(FrameKind.WELCOME, pack_values(self._step.order.node_name))
        try:
            self._step.open_tunnel(self._sock, answer)
        except (NoSession, OSError) as refusal:
            with contextlib.suppress(OSError), self._sock:
                self._sock.send(frame(FrameKind.FAILED, str(refusal).encode()))

    # -- to the client

    def pump(self) -> None:
        """Sends until nothing is left or the socket is full."""
        if not self._is_open or self._is_shaking:
            return
        try:
            while self._out is not None or self._next():
                assert self._out is not None
                sent = self._sock.send(self._out)
                self._out = self._out[sent:] if sent < len(self._out) else None
        except OSError as error:
            if _is_blocked(error):
                self._watch_events(READ | WRITE)
            else:
                self.close(error.errno in _CUT_OFF)
            return
        self._watch_events(READ)

    def _next(self) -> bool:
        """Chooses what to send now; False = nothing is left."""
        kept = self._hub.kept
        if self._own:
            self._out = memoryview(b"".join(self._own))
            self._own.clear()
            return True
        if self.role is None or self.role is StreamRole.QUERY:
            return False
        if self._at < kept.first:
            lost = kept.base - self._position
            self._at = kept.first
            self._offset = 0
            self._position = kept.base
            if lost:  # too slow, and a viewer
                self._out = memoryview(frame(FrameKind.LOST, b"%d" % lost))
                return True
        while self._at < kept.next and kept.is_read(self._at, self._offset):
            self._at = self._at + 1
            self._offset = 0
        piece = kept.read(self._at, self._offset) if self._at < kept.next else b""
        if not piece:
            return False
        self._offset += len(piece)
        self._position += len(piece)
        self._out = memoryview(piece)
        return True

    def _watch_events(self, events: int) -> None:
        if events != self._events and self._is_open:
            self._events = events
            self._loop.change(self._sock.fileno(), events)


def _is_key(shown: bytes, key: bytes) -> bool:
    return len(key) == KEY_BYTES and compare_digest(shown, key)


def _is_blocked(error: OSError) -> bool:
    return isinstance(error, BlockingIOError) or error.errno in _TLS_BLOCKED
