"""The state that a stepd keeps from step to step: its loop, its control socket, and its current step.

Between two steps it answers clients of the last one that its streams are gone.
"""

import contextlib
import os
import select
import socket
import struct

from nodedaemon.base import orders, proctree
from nodedaemon.stepd.context import LauncherContext
from nodedaemon.stepd.control import CREDENTIALS, is_from_noded, without_token
from penstock.eventloop import Loop
from penstock.values.stepframes import ANSWER_NO

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from typing import Protocol

    class SupervisedStep(Protocol):
        """What a stepd's loop uses of its step, which is the Supervisor."""

        order: orders.LaunchOrder

        def reap(self) -> bool: ...
        def take_connection(self, connection: socket.socket) -> None: ...
        def handle_signal(self, signals: tuple[int, ...], scope: int, note: str) -> None: ...
        def move_cpus(self, cpus: list[int], job_cpus: list[int]) -> None: ...
        def report_to(self, sender: bytes) -> None: ...


_ORDER_BYTES_MAX = 4096
_FD = struct.Struct("i")


class Own:
    """The loop of one stepd, and the two descriptors that are watched for every step."""

    __slots__ = (
        "_between", "address", "context", "control", "feed", "loop", "pid", "pid_start", "step", "token", "wake_read",
    )  # fmt: skip

    def __init__(
        self, context: LauncherContext, wake_read: int, control: socket.socket, token: bytes, feed: socket.socket
    ) -> None:
        self.feed = feed
        self.context = context
        self.wake_read = wake_read
        self.control = control
        self.token = token
        self.address: bytes = control.getsockname() + token
        self.pid = os.getpid()
        self.pid_start = proctree.start_time(self.pid)
        self.step: SupervisedStep | None = None
        self._between = select.poll()
        self._between.register(feed.fileno(), select.POLLIN)
        self._between.register(control.fileno(), select.POLLIN)
        self.loop = Loop()
        self.loop.watch(wake_read, self._woken)
        self.loop.watch(control.fileno(), self._ordered)

    def await_order(self) -> bool:
        """Waits until there is an order in the feed; always True."""
        while self.feed.fileno() not in (ready := dict(self._between.poll())):
            if self.control.fileno() in ready:
                self._ordered(select.POLLIN)
        return True

    def _woken(self, events: int) -> None:
        """Called when a child has ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_read, 4096)
        if self.step is not None:
            self.step.reap()

    def _ordered(self, events: int) -> None:
        """Receives noded's datagrams: signals for the step, other CPUs, a client's connection, or the question whether it has
        begun."""
        space = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(_FD.size)
        try:
            data, ancillary, _, sender = self.control.recvmsg(_ORDER_BYTES_MAX, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        fds = _descriptors(ancillary)
        data = without_token(data, self.token)
        if not data or not is_from_noded(ancillary):  # any user may send to this address, with any descriptors
            for fd in fds:
                os.close(fd)
            return
        move = orders.decode_move(data)
        key = orders.key_of(data) if move is None else move[0]
        connections = [socket.socket(fileno=fd) for fd in fds]
        if self.step is None or key != self.step.order.key:
            for connection in connections:
                _refuse(connection, key)
        elif connections:
            self.step.take_connection(connections[0])
        elif move is not None:
            step, (_, cpus, job_cpus) = self.step, move
            self.loop.soon(lambda: step.move_cpus(cpus, job_cpus))
        else:
            step = self.step
            _, signals, scope, note = orders.decode_signals(data)
            if signals or note:
                # After what this turn still has of clients, as a Ctrl-C that was sent before the step was cancelled.
                self.loop.soon(lambda: step.handle_signal(signals, scope, note))
            else:
                step.report_to(sender)


def _refuse(connection: socket.socket, key: str) -> None:
    with contextlib.suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(ANSWER_NO + f"step {key} is no longer here\n".encode())


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that were passed along; we have to close all of them."""
    found: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found += [_FD.unpack_from(data, at)[0] for at in range(0, len(data) - _FD.size + 1, _FD.size)]
    return found
