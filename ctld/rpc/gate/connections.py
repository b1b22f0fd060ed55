"""Limits the connections of one peer to the controller, and keeps descriptors free for others.

gRPC accepts connections itself, without a hook before they are served. A proxy in front of it would cost every call two
more copies and four more system calls, and lose the user's address. So connections are checked after they were
accepted: they are files of this process. A thread lists the connections of our listening sockets, counts them by peer
(penstock/security/peers.py), and shuts down the excess, the newest first. For gRPC the peer has closed the connection;
the client sees the end of its connection and tries again until its deadline.

Rules
    - A peer has at most PEER_MAX connections, or its share of the room if that is less.
    - All peers together have half of the process's limit of open files: a quarter is reserved for nodes and a quarter
      for the controller's own files. Beyond that the newest of the peer with most are closed.
    - Nodes' streams are counted separately, by address: a machine of many pretended nodes has many. For local ones the
      kernel reports the owner, so a user's idle connections do not count as a node's.
    - root and the account of the controller are not limited: they could end it anyway.
    - Between two checks (CHECK_S) a flood may open more than its share; the limit of open files is raised to what the
      system allows, so that this does not reach it. gRPC closes connections that are idle for IDLE_MS, or do not end
      their TLS handshake in time (server.py).

A check costs some microseconds a connection. While the number of open files hardly changes there is one every REST_S
only. Deliberately absent: limits of calls (underway.py) and of requests (ratelimit.py).
"""

import contextlib
import errno
import logging
import os
import resource
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.security.peers import LocalUsers, TcpPeer, tcp_peer, unix_uid, user_key
from penstock.threads import start_thread

log = logging.getLogger("penstock.ctld")

#: Maximum of one user, or of one other machine, for commands. A login host with many users has some hundred at its
#: busiest.
PEER_MAX: Final = 1024
#: Maximum of one machine, for nodes.
NODE_PEER_MAX: Final = 4096
CHECK_S: Final = 0.1
REST_S: Final = 2.0
#: An increase by so many files since the last check causes another one at once.
GROWTH: Final = 64
#: A local connection may come between the reading of the kernel's table and the listing of files, so its owner is looked
#: for again by the next checks. One that has gone has none.
DOUBTS_MAX: Final = 3
#: Descriptors that a check itself needs when none is left.
SPARES: Final = 4
#: Maximum to which the limit of open files is raised: beyond it the kernel's tables cost too much.
FILES_MAX: Final = 524_288
_NOBODY: Final = TcpPeer("")
_FOLDER: Final = "/proc/self/fd"
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE)


class Known(NamedTuple):
    """An open file of this process. `inode` distinguishes files that reuse a number; `door`: the path or port where the
    connection was accepted, "" = it is not one of ours."""

    inode: int
    door: str = ""
    peer: str = ""
    came: int = 0  # number of the check that found it
    doubts: int = 0  # checks that have not found its owner


class ConnectionLimits(NamedTuple):
    """The limits of connections."""

    peer: int
    node_peer: int
    commands: int
    nodes: int

    @classmethod
    def of(cls, files: int) -> "ConnectionLimits":
        """Derives them from the limit of open files: half of it is for commands, a quarter for nodes."""
        return cls(min(PEER_MAX, files // 8), min(NODE_PEER_MAX, files // 8), files // 2, files // 4)


def raise_limit() -> int:
    """Raises this process's limit of open files as far as possible. Returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return most if soft == resource.RLIM_INFINITY else soft


class Connections:
    """The thread that checks connections. `doors`: the Unix sockets' paths and the TCP ports, each with whether it is
    for nodes.
    """

    def __init__(
        self,
        socket_paths: Iterable[str],
        command_port: int,
        node_port: int,
        limits: ConnectionLimits,
        exempt: Iterable[int] = (),
    ) -> None:
        self._socket_paths = frozenset(socket_paths)
        self._ports = {command_port: "commands", node_port: "nodes"}
        self._limits = limits
        self._exempt = frozenset(map(user_key, exempt))
        self._known: dict[int, Known] = {}
        self._looks = 0
        self._files = 0
        self._logged_at: dict[str, float] = {}  # by peer: time of the last log line
        self._spares = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(SPARES)]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)
        self.turned_away = 0

    def start(self) -> None:
        """Starts the checks."""
        start_thread(self._thread)

    def stop(self) -> None:
        """Stops the checks."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        self._give_spares()

    def _run(self) -> None:
        looked_at = time.monotonic()
        while not self._ends.wait(CHECK_S):
            files = os.stat(_FOLDER).st_size  # number of open files; 0 = not supported by this kernel (before 6.2)
            grown = files - self._files if files else GROWTH
            if grown >= GROWTH or time.monotonic() - looked_at >= REST_S:
                looked_at = time.monotonic()
                self.check()
                self._files = files

    def check(self) -> None:
        """Counts connections, and shuts down the excess."""
        self._looks += 1
        try:
            self._check()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._give_spares()
            try:
                self._check()
            except OSError as still:
                log.error("connections cannot be checked: %s", still.strerror)
            finally:
                self._take_spares()

    def _check(self) -> None:
        self._list()
        for number, known in self._too_many():
            self.shut(number, known)

    def _give_spares(self) -> None:
        while self._spares:
            os.close(self._spares.pop())

    def _take_spares(self) -> None:
        with contextlib.suppress(OSError):  # none is left: the next check tries again
            while len(self._spares) < SPARES:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _list(self) -> None:
        users = LocalUsers()
        before = self._known
        now = dict[int, Known]()
        for name in os.listdir(_FOLDER):
            number = int(name)
            try:
                status = os.fstat(number)
            except OSError:  # closed meanwhile
                continue
            if not stat.S_ISSOCK(status.st_mode):
                continue
            known = before.get(number)
            if known is None or known.inode != status.st_ino:
                known = self.identify(number, Known(status.st_ino, came=self._looks), users)
            elif 0 < known.doubts < DOUBTS_MAX:
                known = self.identify(number, known, users)
            now[number] = known
        self._known = now

    def identify(self, number: int, known: Known, users: LocalUsers) -> Known:
        """Identifies a socket that is new since the last check, or whose owner was not found."""
        try:
            duplicate = os.dup(number)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            return Known(0)
        if not stat.S_ISSOCK(os.fstat(duplicate).st_mode):  # closed meanwhile, and another file has the number
            os.close(duplicate)
            return Known(0)
        with socket.socket(fileno=duplicate) as connection:  # whatever has this number later, this is one file
            try:
                door, peer = self._listener_and_peer(connection, users)
                doubts = known.doubts + 1 if peer.is_owner_missing else 0
                return known._replace(door=door, peer=peer.key, doubts=doubts)
            except OSError:  # not connected any more, or of an unknown kind
                return Known(0)

    def _listener_and_peer(self, connection: socket.socket, users: LocalUsers) -> tuple[str, TcpPeer]:
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "", _NOBODY
        if connection.family == socket.AF_UNIX:
            if connection.getsockname() not in self._socket_paths:
                return "", _NOBODY
            return "commands", TcpPeer(user_key(unix_uid(connection)))
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
            return "", _NOBODY
        door = self._ports.get(connection.getsockname()[1], "")
        return door, tcp_peer(connection, users) if door else _NOBODY

    def _too_many(self) -> list[tuple[int, Known]]:
        """Returns the connections to shut down."""
        found: list[tuple[int, Known]] = []
        for door, of_peer, of_all in (
            ("commands", self._limits.peer, self._limits.commands),
            ("nodes", self._limits.node_peer, self._limits.nodes),
        ):
            here = [(n, k) for n, k in self._known.items() if k.door == door and k.peer not in self._exempt]
            here.sort(key=lambda one: one[1].came)  # the oldest stay
            counts: Counter[str] = Counter()
            stay: list[tuple[int, Known]] = []
            for one in here:
                counts[one[1].peer] += 1
                (stay if counts[one[1].peer] <= of_peer else found).append(one)
            found += _of_the_largest(stay, len(stay) - of_all)
        return found

    def shut(self, number: int, known: Known) -> None:
        """Shuts down a connection, unless its number is another file's by now."""
        try:
            duplicate = os.dup(number)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            return  # closed meanwhile
        if os.fstat(duplicate).st_ino != known.inode:
            os.close(duplicate)
            return
        with (
            socket.socket(fileno=duplicate) as connection,
            contextlib.suppress(OSError),
        ):  # the peer has closed it already
            connection.shutdown(socket.SHUT_RDWR)
        self._known[number] = Known(known.inode)  # it is closed, and no longer counted
        self.turned_away += 1
        now = time.monotonic()
        if now - self._logged_at.get(known.peer, -60.0) >= 60.0:
            self._logged_at = {peer: at for peer, at in self._logged_at.items() if now - at < 60.0} | {known.peer: now}
            log.warning("%s has too many connections for %s: the newest are closed", known.peer, known.door)


def _of_the_largest(here: list[tuple[int, Known]], count: int) -> list[tuple[int, Known]]:
    """Returns `count` connections: repeatedly the newest one of the peer that has most then."""
    if count <= 0:
        return []
    by_peer: dict[str, list[tuple[int, Known]]] = {}
    for one in here:
        by_peer.setdefault(one[1].peer, []).append(one)
    gone: list[tuple[int, Known]] = []
    while len(gone) < count:
        largest = max(by_peer.values(), key=len)
        gone.append(largest.pop())
    return gone
