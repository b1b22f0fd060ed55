"""The socket: in a folder of root's that only the REST daemon's group may enter, for the REST daemon's uid and root.

Each connection has one question and one answer. A peer of another uid is disconnected unread; so is one that is slow, or says
more than a question.
"""

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup
from penstock.passwordlogin import QUESTION_BYTES_MAX, LoginAnswer, encode
from penstock.security.credentials import peer_credentials

log = logging.getLogger("pamd")
BACKLOG: Final = 128
#: Connections at a time: more than questions, which the service counts.
CONNECTIONS_MAX: Final = 256
#: Time for a question to arrive, and for its answer to be taken.
TALK_S: Final = 5.0
FOLDER_MODE: Final = 0o710


class PasswordListener:
    """Serves one socket. Belongs to the loop's thread."""

    def __init__(self, answer: Callable[[bytes], Awaitable[LoginAnswer]], uids: frozenset[int]) -> None:
        """`uids`: the users who may ask."""
        self._answer = answer
        self._uids = uids
        self._connected = 0

    async def serve(self, wire: socket.socket) -> asyncio.Server:
        """Begins to serve a listening socket."""
        return await asyncio.start_unix_server(self._talk, sock=wire, limit=QUESTION_BYTES_MAX, backlog=BACKLOG)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connected += 1
        try:
            peer = peer_credentials(writer.get_extra_info("socket"))
            if peer.uid not in self._uids:
                log.warning("uid %d is not the REST daemon's: disconnected", peer.uid)
            elif self._connected <= CONNECTIONS_MAX:
                await self._answered(reader, writer)
        except (OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
            log.warning("a question is not answered: %s", type(error).__name__)
        finally:
            self._connected -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(TALK_S):
            line = await reader.readuntil(b"\n")
        answer = await self._answer(line)
        async with asyncio.timeout(TALK_S):
            writer.write(encode(answer))
            await writer.drain()


def listen(path: Path, uid: int, gid: int) -> socket.socket:
    """Opens the socket, for this user alone. Raises BadSetup. Nobody but root can write to its folder, so nobody can put
    another file into the place of what is changed here."""
    try:
        _prepare(path.parent, gid)
        _remove_left_over(path)
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        mask = os.umask(0o177)
        try:
            wire.bind(str(path))
            os.chown(path, uid, gid, follow_symlinks=False)
            wire.listen(BACKLOG)
        except BaseException:
            wire.close()
            raise
        finally:
            os.umask(mask)
    except OSError as error:
        raise BadSetup(f"{path}: cannot listen: {error.strerror or error}") from error
    return wire


def _prepare(folder: Path, gid: int) -> None:
    """Makes the folder, or checks the one that is there. Raises OSError, BadSetup."""
    above = folder.parent.stat()
    if above.st_uid != os.geteuid() or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
        raise BadSetup(
            f"{folder.parent}: others may write here, so the socket would not be safe: choose another folder"
        )
    try:
        os.mkdir(folder, FOLDER_MODE)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise BadSetup(f"{folder}: must be a folder of root's that nobody else can write to") from None
    os.chown(folder, -1, gid, follow_symlinks=False)
    os.chmod(folder, FOLDER_MODE)


def _remove_left_over(path: Path) -> None:
    """Removes the socket of a daemon that was killed. Raises OSError, BadSetup."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise BadSetup(f"{path}: is there, and no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise BadSetup(f"{path}: another penstock pamd listens here")
