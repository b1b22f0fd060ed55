"""noded's port for clients of steps: reads one greeting line, and hands the connection on to the step's stepd.

The data after the line (TLS, keys, data) is for stepd, so no byte beyond it is read, and a restart of noded breaks no
stream. No client is trusted here: a greeting has a deadline and a size, and when too many are unfinished the one that
has waited longest is disconnected: of the same peer first, then of the peer with the most.

A client may connect before its step is launched, or its ticket for a job's output is here: it waits up to STEP_WAIT_S. Without
certificates the port is on the loopback address only, and streams go without TLS.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from nodedaemon.base.orders import encode_connection
from nodedaemon.core.steps import StepKey
from nodedaemon.stepd import control
from penstock.security.peers import LocalUsers, tcp_key
from penstock.storagefaults import naming
from penstock.values.stepframes import ANSWER_BYTES_MAX, ANSWER_NO, GREETING, GREETING_BYTES_MAX

log = logging.getLogger("penstock.noded")

GREETING_S = 5.0
STEP_WAIT_S = 5.0
#: Connections that wait, for their own greeting or for a step. Far more than the start of a large step causes.
WAITING_MAX = 512
#: Of one user of this machine, or of one other machine. Peers are looked up only when there are this many in all.
PEER_WAITING_MAX = 128
BACKLOG = 512
#: Without descriptors or memory: pause before connections are accepted again.
PAUSE_S = 1.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
LOOPBACK = "127.0.0.1"
#: Where the last port is stored, so that a restarted daemon takes the same one if it is free.
PORT_FILE = "stream-port"


_FD = struct.Struct("i")


class PortError(Exception):
    """The port cannot be opened; the message says what to do."""


def open_port(bind: str, port: int, with_tls: bool, wanted: int = 0) -> socket.socket:
    """Opens the port. `bind` "" = all addresses with TLS, else the loopback address; `wanted` = preferred if
    `port` is 0.

    Raises PortError.
    """
    if not with_tls and bind not in ("", LOOPBACK, "localhost"):
        raise PortError(f"--stream-bind {bind} needs --cert-dir: without certificates streams stay on this machine")
    address = bind or ("" if with_tls else LOOPBACK)
    everywhere = address == "" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in address else socket.AF_INET
    for candidate in (wanted, 0) if wanted and not port else (port,):
        try:
            found = socket.create_server(
                (address, candidate), family=family, backlog=BACKLOG, dualstack_ipv6=everywhere
            )
        except OSError as error:
            why = error
            continue
        found.setblocking(False)
        return found
    where = f"{address or 'all addresses'}, port {port}"
    raise PortError(f"cannot listen for clients of steps on {where}: {why.strerror}; see --stream-port, --stream-bind")


class Waiting:
    """A connection that has not been handed on. `key` is None until the greeting is complete."""

    __slots__ = ("greeting", "key", "peer", "sock", "timer")

    def __init__(self, sock: socket.socket, timer: asyncio.TimerHandle, peer: str) -> None:
        self.peer = peer  # connections of one peer count together
        self.sock = sock
        self.timer = timer
        self.greeting = b""
        self.key: StepKey | None = None


class StreamServer(Protocol):
    """Takes connections over from the port."""

    def serve(self, key: StepKey, client: socket.socket) -> str | None:
        """Returns why it takes none, "" = it has taken it; None = the client is to wait."""

    def too_late(self, key: StepKey) -> str:
        """Returns what a client is told that has waited in vain."""


class StepServers:
    """Hands connections on to the stepds of their steps. `find` returns the address of a step's stepd, b"" when there is
    none yet, and None when there will be none."""

    def __init__(self, find: Callable[[StepKey], bytes | None]) -> None:
        self._find = find
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def serve(self, key: StepKey, client: socket.socket) -> str | None:
        """As StreamServer's."""
        address = self._find(key)
        if address is None:
            return f"step {key} is no longer here"
        if not address:
            return None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(client.fileno()))]
        try:
            control.send(self._out, address, encode_connection(str(key)), rights)
        except OSError as error:
            return f"step {key} takes no connections: {error.strerror}"
        return ""

    def too_late(self, key: StepKey) -> str:
        """As StreamServer's."""
        return f"step {key} is not here"

    def close(self) -> None:
        """Closes its socket."""
        self._out.close()


class StreamPort:
    """The listening socket and the waiting connections. `find` is that of StepServers; `others` serve the steps of these
    numbers."""

    def __init__(
        self,
        listener: socket.socket,
        find: Callable[[StepKey], bytes | None],
        others: Mapping[int, StreamServer] = MappingProxyType({}),
    ) -> None:
        self._listener = listener
        self._steps = StepServers(find)
        self._others = others
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, Waiting] = {}  # by descriptor, the oldest first
        self._by_key: dict[StepKey, list[Waiting]] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener.fileno(), self._accept)

    @property
    def number(self) -> int:
        """The port."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Stops accepting; waiting clients are disconnected."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for one in list(self._waiting.values()):
            self._refuse(one, "the node daemon ends")
        self._steps.close()

    def is_here(self, key: StepKey) -> None:
        """Hands on the clients that wait for a step whose stepd is ready."""
        for one in self._by_key.get(key, [])[:]:
            self._hand_on(one, key)

    def serve_waiting(self, step_id: int) -> None:
        """Tries again for the clients that wait for steps of this number, in their order."""
        for key in [key for key in self._by_key if key.step_id == step_id]:
            self.is_here(key)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:  # the client keeps waiting: without a pause this would be called again at once
                log.error("cannot accept clients of steps: %s", error.strerror)
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(PAUSE_S, self._resume_accepting)
            return  # the client has disconnected again
        sock.setblocking(False)
        try:
            is_crowded = len(self._waiting) >= min(PEER_WAITING_MAX, WAITING_MAX)
            peer = tcp_key(sock, LocalUsers()) if is_crowded else ""
        except OSError:  # the client has disconnected again
            sock.close()
            return
        if is_crowded:
            self._make_room(peer)
        fd = sock.fileno()
        timer = self._loop.call_later(GREETING_S, self._late, fd)
        self._waiting[fd] = Waiting(sock, timer, peer)
        self._loop.add_reader(fd, self._read, fd)

    def _make_room(self, peer: str) -> None:
        """Disconnects one: a peer has a share of the places; when all are taken, the longest waiting of the peer with
        the most goes."""
        most = Counter(one.peer for one in self._waiting.values()).most_common(1)[0][0]
        of_peer = [one for one in self._waiting.values() if one.peer == peer]
        if len(self._waiting) >= WAITING_MAX:
            self._refuse(next(one for one in self._waiting.values() if one.peer == most), "too many connections wait")
        elif len(of_peer) >= PEER_WAITING_MAX:
            self._refuse(of_peer[0], "too many connections of yours wait")

    def _resume_accepting(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _late(self, fd: int) -> None:
        one = self._waiting[fd]
        self._refuse(one, "no greeting arrived" if one.key is None else self._server(one.key).too_late(one.key))

    def _read(self, fd: int) -> None:
        """Reads the rest of the line, and not a byte more."""
        one = self._waiting[fd]
        try:
            seen = one.sock.recv(GREETING_BYTES_MAX - len(one.greeting), socket.MSG_PEEK)
            newline = seen.find(b"\n")
            one.greeting += one.sock.recv(newline + 1 if newline >= 0 else len(seen)) if seen else b""
        except BlockingIOError:
            return
        except OSError:
            seen = b""
        if not seen:
            self._drop(one)
        elif newline >= 0:
            self._greeted(one)
        elif len(one.greeting) >= GREETING_BYTES_MAX or not GREETING.startswith(one.greeting[: len(GREETING)]):
            self._refuse(one, "that is no greeting of a step's client")

    def _greeted(self, one: Waiting) -> None:
        self._loop.remove_reader(one.sock.fileno())
        key = parse_greeting(one.greeting)
        if key is None:
            self._refuse(one, "that is no greeting of a step's client")
            return
        one.key = key
        self._hand_on(one, key)

    def _server(self, key: StepKey) -> StreamServer:
        return self._others.get(key.step_id, self._steps)

    def _hand_on(self, one: Waiting, key: StepKey) -> None:
        refusal = self._server(key).serve(key, one.sock)
        if refusal is None:
            self._wait_for(one, key)
        elif refusal:
            self._refuse(one, refusal)
        else:
            self._drop(one)

    def _wait_for(self, one: Waiting, key: StepKey) -> None:
        if one not in self._by_key.setdefault(key, []):
            self._by_key[key].append(one)
            one.timer.cancel()
            one.timer = self._loop.call_later(STEP_WAIT_S, self._late, one.sock.fileno())

    def _refuse(self, one: Waiting, why: str) -> None:
        line = ANSWER_NO + why.encode()[: ANSWER_BYTES_MAX - len(ANSWER_NO) - 1] + b"\n"
        try:
            one.sock.send(line)
        except OSError as error:
            log.debug("a client of steps has disconnected: %s", error.strerror)
        self._drop(one)

    def _drop(self, one: Waiting) -> None:
        """Closes our copy of the connection."""
        fd = one.sock.fileno()
        one.timer.cancel()
        self._loop.remove_reader(fd)
        self._waiting.pop(fd, None)
        if one.key is not None and one.key in self._by_key:
            waiting = self._by_key[one.key]
            if one in waiting:
                waiting.remove(one)
            if not waiting:
                del self._by_key[one.key]
        one.sock.close()


def parse_greeting(line: bytes) -> StepKey | None:
    """Returns the step that a client asks for; None for a line that is no greeting."""
    if not line.startswith(GREETING) or not line.endswith(b"\n"):
        return None
    words = line[len(GREETING) : -1].split(b".")
    try:
        job_id, attempt, step_id = (int(word) for word in words)
    except ValueError:
        return None
    return StepKey(job_id, attempt, step_id)


def read_port(dir_fd: int) -> int:
    """Returns the port of the previous daemon, 0 when there is none."""
    try:
        fd = os.open(PORT_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return 0
    with open(fd, encoding="ascii") as file:
        text = file.read(8).strip()
    return int(text) if text.isdecimal() and int(text) < 65536 else 0


def write_port(dir_fd: int, port: int) -> None:
    """Stores it for the next daemon."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(PORT_FILE), open(os.open(PORT_FILE, flags, 0o600, dir_fd=dir_fd), "w", encoding="ascii") as file:
        file.write(f"{port}\n")
