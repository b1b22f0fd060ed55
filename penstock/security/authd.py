"""The auth socket: a client connects, receives a token and is disconnected.

All users of the machine may connect to this Unix socket. The kernel reports the client's user (SO_PEERCRED); the answer
is a token for that user; data from the client is never read. A token fits into an empty socket's buffer, so it is
signed and sent and the connection is closed at once: slow or silent clients occupy nothing.

Accepting takes some microseconds and signing ten times as long, so they are separate. All connections are accepted, and
queued by user; the users are served in turn. Connections of a user beyond USER_WAITING_MAX are closed at once (the
client retries), so one user's loop neither fills the backlog nor delays the others.

It runs in the controller and in every node daemon, including those of login hosts. It replaces munge.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup
from penstock.security.credentials import peer_credentials
from penstock.security.tokens import TokenIssuer

log = logging.getLogger("penstock.auth")

BACKLOG: Final = 1024
#: Connections accepted, and tokens made (some milliseconds each), per iteration of the event loop, so that many callers
#: cannot starve other work.
ACCEPTS_PER_TURN_MAX: Final = 256
TOKENS_PER_TURN_MAX: Final = 32
#: Queued callers per user and in total: open connections without a token yet.
USER_WAITING_MAX: Final = 256
WAITING_MAX: Final = 512
#: Pause before accepting again after running out of file descriptors.
PAUSE_S: Final = 0.1
PATH_BYTES_MAX: Final = 107  # size of sun_path without the terminating NUL


class AuthServer:
    """Serves tokens on a socket until it is closed. Belongs to one event loop."""

    def __init__(self, path: Path, issuer: TokenIssuer, clock_us: Callable[[], int]) -> None:
        self._path = path
        self._issuer = issuer
        self._clock_us = clock_us
        self._listener: socket.socket | None = None
        self._inode = 0
        self._lines: OrderedDict[int, deque[tuple[socket.socket, int]]] = (
            OrderedDict()
        )  # by uid, with the gid; served from the first
        self._waiting = 0
        self._is_due = False  # callers are queued, and `_serve_lines` is scheduled
        self.turned_away = 0  # callers whose connection was closed without a token

    @property
    def waiting_users(self) -> list[int]:
        """The users with queued callers, the next to be served first."""
        return list(self._lines)

    def start(self) -> None:
        """Starts listening. Raises BadSetup if the path cannot be used."""
        self._listener = listen(self._path, BACKLOG)
        self._inode = os.stat(self._path).st_ino
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._serve)

    def sign_with(self, issuer: TokenIssuer) -> None:
        """Replaces the certificate that signs tokens by another one of this host."""
        self._issuer = issuer

    def close(self) -> None:
        """Stops listening and removes the socket, unless another process has replaced it."""
        if self._listener is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()
        self._listener = None
        for line in self._lines.values():
            for connection, _gid in line:
                connection.close()
        self._lines = OrderedDict()
        self._waiting = 0
        try:
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except FileNotFoundError:
            pass

    def _serve(self) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            if self._listener is None:
                return
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._line_up(connection)

    def _line_up(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        peer = peer_credentials(connection)
        if not peer.is_known:
            log.warning("auth: a caller without a uid in this namespace was refused")
            connection.close()
            return
        uid = peer.uid
        if len(self._lines.get(uid, ())) >= USER_WAITING_MAX or not self._has_room(uid):
            self.turned_away += 1
            connection.close()
            return
        self._lines.setdefault(uid, deque()).append((connection, peer.gid))
        self._waiting += 1
        self._call_soon()

    def _has_room(self, uid: int) -> bool:
        """Returns whether another caller can be queued. If all queues are full, drops the last caller of the longest
        one, provided that this user has fewer.
        """
        if self._waiting < WAITING_MAX:
            return True
        longest = max(self._lines.values(), key=len)
        if len(longest) <= len(self._lines.get(uid, ())) + 1:
            return False
        longest.pop()[0].close()
        self._waiting -= 1
        self.turned_away += 1
        return True

    def _call_soon(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve_lines)

    def _serve_lines(self) -> None:
        """Makes tokens for the first callers of each queue in turn."""
        self._is_due = False
        for _ in range(min(self._waiting, TOKENS_PER_TURN_MAX)):
            uid, line = self._lines.popitem(last=False)
            connection, gid = line.popleft()
            self._waiting -= 1
            if line:
                self._lines[uid] = line  # move behind the others
            with connection:
                self._answer(connection, uid, gid)
        self._call_soon()

    def _answer(self, connection: socket.socket, uid: int, gid: int) -> None:
        try:
            connection.send(self._issuer.issue(uid, gid, self._clock_us()))
        except OSError as error:  # the caller has disconnected
            log.debug("auth: uid %d went away: %s", uid, error)

    def _pause(self, error: OSError) -> None:
        """Pauses accepting when descriptors or memory are exhausted, instead of spinning."""
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
            raise error
        log.error("auth: cannot accept callers: %s", error.strerror)
        loop = asyncio.get_running_loop()
        if self._listener is not None:
            loop.remove_reader(self._listener.fileno())
            loop.call_later(PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._serve)


def listen(path: Path, backlog: int) -> socket.socket:
    """Opens a Unix socket that all users may connect to, in a folder that no other user can write to."""
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise BadSetup(f"{path}: a socket's path may have {PATH_BYTES_MAX} bytes; choose a shorter folder")
    try:
        _check_folder(path.parent)
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            listener.bind(str(path))
            os.chmod(path, 0o666)  # noqa: S103 (for all users: that is its purpose)
            listener.listen(backlog)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise BadSetup(f"{path}: cannot listen: {error.strerror}") from error
    return listener


def _check_folder(folder: Path) -> None:
    """Checks that no other user can write to the folder, replace the socket there and impersonate the daemon."""
    status = folder.stat()
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadSetup(
            f"{folder}: others may write here, so the auth socket would not be safe: run `chmod 711 {folder}`"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise BadSetup(f"{folder}: belongs to uid {status.st_uid}, so the auth socket would not be safe there")


def _remove_stale(path: Path) -> None:
    """Removes the socket of a daemon that has ended. Raises BadSetup if the socket answers: that daemon is running."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BadSetup(f"{path}: exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # its backlog is full, so the daemon is running
    raise BadSetup(f"{path}: another daemon listens here")
