"""The auth socket: connect, be told a token, gone.

A Unix socket that anybody on this machine may connect to. The kernel says who connected (SO_PEERCRED); the answer is a
token for that user; nothing that the other side sends is ever read. Accepting, signing and sending happen in one go
without waiting for anybody: a token fits into an empty socket's buffer, so no connection outlives its own callback and
slow or silent clients can hold nothing. The backlog is the limit on how many may stand in line.

Runs in the controller, in every node daemon, and in the one of a login host. It replaces munge.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup
from penstock.security.tokens import TokenIssuer

log = logging.getLogger("penstock.auth")

BACKLOG: Final = 1024
#: Tokens made in one turn of the loop (some 10 ms), so that a flood of callers cannot starve everything else.
ACCEPTS_PER_TURN_MAX: Final = 64
#: Without a free file descriptor there is nothing to accept with; look again after this.
PAUSE_S: Final = 0.1
PATH_BYTES_MAX: Final = 107  # sun_path without its final NUL
_PEERCRED: Final = struct.Struct("iII")
_NO_ID: Final = 0xFFFFFFFF  # what the kernel says for an id that has no meaning in this namespace


class AuthServer:
    """Serves tokens at a path until it is closed. Belongs to one event loop."""

    def __init__(self, path: Path, issuer: TokenIssuer, clock_us: Callable[[], int]) -> None:
        self._path = path
        self._issuer = issuer
        self._clock_us = clock_us
        self._listener: socket.socket | None = None
        self._inode = 0

    def start(self) -> None:
        """Listen from now on. Raises BadSetup when the path cannot be used."""
        self._listener = listen(self._path, BACKLOG)
        self._inode = os.stat(self._path).st_ino
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._serve)

    def close(self) -> None:
        """Stop listening and remove the socket, unless somebody else has put his there."""
        if self._listener is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._listener.close()
        self._listener = None
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
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
        _pid, uid, gid = _PEERCRED.unpack(credentials)
        if _NO_ID in (uid, gid):
            log.warning("auth: a caller without a uid in this namespace was refused")
            return
        try:
            connection.send(self._issuer.issue(uid, gid, self._clock_us()))
        except OSError as error:  # the caller has gone: nobody is left to tell
            log.debug("auth: uid %d went away: %s", uid, error)

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory: stop looking for a moment instead of spinning."""
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
    """A listening Unix socket that everybody may connect to, in a folder that nobody else can write to."""
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise BadSetup(f"{path}: a socket's path may have {PATH_BYTES_MAX} bytes; choose a shorter folder")
    try:
        _check_folder(path.parent)
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            listener.bind(str(path))
            os.chmod(path, 0o666)  # noqa: S103 (for everybody: that is its purpose)
            listener.listen(backlog)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise BadSetup(f"{path}: cannot listen: {error.strerror}") from error
    return listener


def _check_folder(folder: Path) -> None:
    """Who can write to the folder could put his own socket there and collect nothing less than trust."""
    status = folder.stat()
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadSetup(
            f"{folder}: others may write here, so the auth socket would not be safe: run `chmod 711 {folder}`"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise BadSetup(f"{folder}: belongs to uid {status.st_uid}, so the auth socket would not be safe there")


def _remove_stale(path: Path) -> None:
    """Remove what a dead daemon left. A socket that answers belongs to a living one."""
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
            pass  # its backlog is full: it lives
    raise BadSetup(f"{path}: another daemon listens here")
