"""A batch job that is a session (PENSTOCK_SESSION in its environment): clients reach the program that it runs.

stepd opens no path of the user and makes no connection in the user's name. It has a control socket in common with the
job's first process, which the program `nodedaemon.session` inherits. For each client stepd makes a socket pair and hands
one end over; that program, as the user, in the job's own namespaces and groups, connects it to the server that it has
started. So what is reached is what the user could reach in any case.

The control socket carries datagrams: OPEN with a descriptor to the program, IS_READY from it. Nothing of it is trusted:
a job that says what is not true deceives its own user.
"""

import os
import socket
import sys
import time

from nodedaemon.stepd.plugs import Plug
from nodedaemon.stepd.tunnel import ByteTunnel
from penstock.values.sessions import FD_VARIABLE, IS_READY, OPEN, PYTHON_VARIABLE, SESSION_VARIABLE, SESSION_WORD

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from ssl import SSLSocket

    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.stepd.plugs import PluggedStep
    from nodedaemon.stepd.taskrecord import Task
    from penstock.values.packing import PackedValue

#: Connections of one session at a time. A browser has six for each page, and one for each notebook and terminal.
TUNNELS_MAX = 64
_WORD_BYTES_MAX = 64


def make(order: "LaunchOrder") -> Plug | None:
    """Makes the plug of a job that is a session."""
    return SessionPlug() if order.kind == "batch" and SESSION_VARIABLE in order.environment else None


class NoSession(Exception):
    """The client cannot be taken; the text says why."""


class SessionPlug(Plug):
    """The control socket, and the tunnels."""

    words = (SESSION_WORD,)

    def __init__(self) -> None:
        self._step: PluggedStep
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None  # until the task is forked
        self._tunnels: list[ByteTunnel] = []
        self._is_ready = False
        self._used_s = time.monotonic()

    def open(self, step: "PluggedStep") -> None:
        self._step = step
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        step.loop.watch(self._ours.fileno(), self._listen)

    def child_environment(self, task: "Task") -> dict[bytes, bytes]:
        assert self._theirs is not None
        fd = self._theirs.fileno()
        return {FD_VARIABLE: b"%d" % fd, PYTHON_VARIABLE: os.fsencode(sys.executable)}

    def child_fds(self, task: "Task") -> list[int]:
        assert self._theirs is not None
        return [self._theirs.fileno()]

    def forked(self, task: "Task") -> None:
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def answer(self, word: str) -> "dict[str, PackedValue]":
        idle_s = 0 if self._tunnels else int(time.monotonic() - self._used_s)
        return {"is_ready": int(self._is_ready), "connections": len(self._tunnels), "idle_s": idle_s}

    def take(self, client: "socket.socket | SSLSocket", answer: bytes) -> None:
        """Joins a client to the session's program, and sends it the answer first; the client's socket is the tunnel's from
        then on. Raises NoSession, OSError."""
        if self._ours is None:
            raise NoSession("the session has ended")
        if not self._is_ready:
            raise NoSession("the session's program is not ready yet")
        if len(self._tunnels) >= TUNNELS_MAX:
            raise NoSession(f"the session has {TUNNELS_MAX} connections already")
        local, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._ours, [OPEN], [theirs.fileno()])
        except OSError as error:  # the program is gone, or does not take what waits for it
            local.close()
            raise NoSession(f"the session's program takes no connections: {error.strerror}") from None
        self._tunnels.append(ByteTunnel(self._step.loop, client, local, answer, self._note_use, self._lose))
        self._note_use()

    def close(self) -> "dict[str, PackedValue]":
        for tunnel in self._tunnels[:]:
            tunnel.close()
        self._hang_up()
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None
        return {}

    def _note_use(self) -> None:
        self._used_s = time.monotonic()

    def _lose(self, tunnel: ByteTunnel) -> None:
        self._tunnels.remove(tunnel)
        self._note_use()

    def _listen(self, _events: int) -> None:
        assert self._ours is not None
        try:
            word = self._ours.recv(_WORD_BYTES_MAX)  # descriptors that come along are not taken: the kernel closes them
        except BlockingIOError:
            return
        except OSError:
            word = b""
        if word != IS_READY or self._is_ready:
            self._hang_up()
            return
        self._is_ready = True
        self._note_use()
        self._step.loop.change(self._ours.fileno(), 0)  # from now on its end alone: nobody floods stepd

    def _hang_up(self) -> None:
        self._is_ready = False
        if self._ours is not None:
            self._step.loop.forget(self._ours.fileno())
            self._ours.close()
            self._ours = None
