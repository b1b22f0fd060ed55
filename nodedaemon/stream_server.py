"""One client of a step: TLS, then HELLO with the step's key, then frames both ways. The connection comes from noded.

Who it is: whoever shows the step's key (compared in constant time) may do what his role may. An OWNER sees all, sends
input and signals, and acknowledges; a VIEWER sees and may send input; an ASKER asks, and may have a key that is good for
nothing else. Before that nothing is said, and
there is a deadline; of those who have not said HELLO the oldest goes when there are too many.

Sending is pulled: each connection has its own place among the frames that the hub keeps.
"""

import socket
from _operator import _compare_digest as compare_digest  # hmac's own, without the OpenSSL that hmac brings along

from nodedaemon.loop import READ, WRITE, Loop
from penstock.values.packing import Damaged, dump, pack_values, unpack
from penstock.values.stepframes import ANSWER_OK, KEY_BYTES, BadFrame, FrameReader, Kind, Role, frame

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from ssl import SSLContext, SSLSocket

    from nodedaemon.supervisor import Supervisor

HELLO_S = 10.0
CONNECTIONS_MAX = 32
RECEIVE_BYTES = 128 * 1024
#: Answers that wait for a client who asks and does not listen.
ANSWERS_MAX = 16
#: After so many seconds of silence the kernel asks whether the peer is there; three times, ten seconds apart.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
#: What ssl's "want to read" and "want to write" have as errno (the ssl module need not be loaded to know them).
_TLS_BLOCKED = (2, 3)
_TLS_WANTS_WRITE = 3


def server_context(folder: str) -> "SSLContext":
    """TLS 1.3 with the node's certificate. Raises OSError (SSLError is one)."""
    import ssl  # only where it is needed: every fork would pay for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody comes back often enough for resumption
    context.load_cert_chain(f"{folder}/node.pem", f"{folder}/node.key")
    return context


class NotAllowed(Exception):
    """The client does what it may not."""


class Connection:
    """A client. `role` is None until it has said HELLO with the right key."""

    def __init__(self, step: "Supervisor", sock: socket.socket, tls: "SSLContext | None") -> None:
        self._step = step
        self._hub = step.hub
        self._loop: Loop = step.loop
        self._reader = FrameReader()
        self.role: Role | None = None
        self._at = self._offset = 0  # what to send next: a place in a chunk of what is kept
        self._position = 0  # the same in bytes of the whole stream
        self._own: list[bytes] = []  # for this client only
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
            (silent or [other for other in others if other.role is not Role.OWNER])[0].close()

    def close(self) -> None:
        """Hang up."""
        if not self._is_open:
            return
        self._is_open = False
        self._timer.cancel()
        self._loop.forget(self._sock.fileno())
        self._sock.close()
        self._hub.lose(self)

    # -- from the client

    def _ready(self, events: int) -> None:
        try:
            if self._is_shaking:
                self._shake()
            elif events & ~WRITE:
                self._receive()
        except (NotAllowed, BadFrame, Damaged, ValueError):  # it does not speak as it should: there is nothing to mend
            self.close()
        except OSError as error:
            if not _is_blocked(error):
                self.close()
        self.pump()

    def _shake(self) -> None:
        try:
            self._sock.do_handshake()  # type: ignore[union-attr]
        except OSError as error:
            if not _is_blocked(error):
                raise
            self._want(WRITE if error.errno == _TLS_WANTS_WRITE else READ)
            return
        self._is_shaking = False
        self._want(READ)

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
            if kind != Kind.HELLO:
                raise NotAllowed
            self._hello(payload)
        elif kind == Kind.QUESTION:
            if len(self._own) >= ANSWERS_MAX:
                raise NotAllowed
            self._own.append(frame(Kind.ANSWER, dump(self._step.answer(payload.decode("ascii")))))
        elif self.role is Role.ASKER:
            raise NotAllowed
        elif kind == Kind.STDIN:
            if not self._hub.take_stdin(task, payload, self.role is Role.OWNER):
                raise NotAllowed
        elif kind == Kind.WINDOW:
            rows, columns = unpack(payload)
            self._hub.resize(int(rows), int(columns))
        elif self.role is Role.OWNER:
            self._take_owners(kind, payload)

    def _take_owners(self, kind: int, payload: bytes) -> None:
        if kind == Kind.ACK:
            self._hub.acknowledge(int(payload))
        elif kind == Kind.SIGNAL:
            self._step.signal_tasks(int(payload))
        elif kind == Kind.EXCHANGE:
            self._step.exchange(payload)

    def _hello(self, payload: bytes) -> None:
        shown, role_word, from_word, *_ = unpack(payload)
        role = Role(int(role_word))
        order = self._step.order
        is_known = _is_key(shown, order.io_key)
        if not is_known and not (role is Role.ASKER and _is_key(shown, order.asking_key)):
            raise NotAllowed
        kept = self._hub.kept
        self._timer.cancel()
        self.role = role
        if role is Role.OWNER:
            self._hub.take_owner(self)
            self._position = min(max(int(from_word), kept.base), kept.end)
        else:
            self._position = kept.base
        self._at, self._offset = kept.find(self._position)
        self._own.append(
            frame(Kind.WELCOME, pack_values(self._step.order.node_name, self._position, self._hub.stdin_received))
        )

    # -- to the client

    def pump(self) -> None:
        """Send until nothing is left or the socket is full."""
        if not self._is_open or self._is_shaking:
            return
        try:
            while self._out is not None or self._next():
                assert self._out is not None
                sent = self._sock.send(self._out)
                self._out = self._out[sent:] if sent < len(self._out) else None
        except OSError as error:
            if _is_blocked(error):
                self._want(READ | WRITE)
            else:
                self.close()
            return
        self._want(READ)

    def _next(self) -> bool:
        """Choose what to send now; False = nothing is left."""
        kept = self._hub.kept
        if self._own:
            self._out = memoryview(b"".join(self._own))
            self._own.clear()
            return True
        if self.role is None or self.role is Role.ASKER:
            return False
        if self._at < kept.first:
            lost = kept.base - self._position
            self._at, self._offset, self._position = kept.first, 0, kept.base
            if lost:  # too slow, and it is a viewer
                self._out = memoryview(frame(Kind.LOST, b"%d" % lost))
                return True
        while self._at < kept.next and kept.is_read(self._at, self._offset):
            self._at, self._offset = self._at + 1, 0
        piece = kept.read(self._at, self._offset) if self._at < kept.next else b""
        if not piece:
            return False
        self._offset += len(piece)
        self._position += len(piece)
        self._out = memoryview(piece)
        return True

    def _want(self, events: int) -> None:
        if events != self._events and self._is_open:
            self._events = events
            self._loop.change(self._sock.fileno(), events)


def _is_key(shown: bytes, key: bytes) -> bool:
    return len(key) == KEY_BYTES and compare_digest(shown, key)


def _is_blocked(error: OSError) -> bool:
    return isinstance(error, BlockingIOError) or error.errno in _TLS_BLOCKED
