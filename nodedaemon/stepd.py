"""stepd: the supervisor of one step at a time. Forked warm by the launcher, fed by it, it outlives launcher and noded.

Its life: own session and sub-reaper; a control socket; then one order after the other from its feed, each handed to a
Supervisor (supervisor.py), and a word to the launcher when that is done. Between two steps it tells whoever comes for
the last one's streams that nothing is there any more.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import struct

from nodedaemon import orders, proctree
from nodedaemon.context import Context
from nodedaemon.control import CREDENTIALS, is_own_word, open_control, without_token
from nodedaemon.crash import crash_point
from nodedaemon.folders import open_folder
from nodedaemon.loop import Loop
from nodedaemon.supervisor import Supervisor
from penstock.values.stepframes import ANSWER_NO

_ORDER_BYTES_MAX = 4096
_FD = struct.Struct("i")
_FEED_READ_BYTES = 256 * 1024
#: What a stepd tells its launcher when a step is behind it.
DONE = b"."


def run(context: Context, feed: socket.socket) -> int:
    """The life of a stepd: one step after the other from its feed; its exit status, 0 = nothing is left undone."""
    os.setsid()
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(context.null_fd, 2)  # whoever reads noded's messages must not wait for the end of a job
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    own = Own(context, wake_read, *open_control(), feed)
    while own.await_order() and (framed := _read_order(feed)) is not None:
        key, body = framed
        try:
            stays = _supervise(own, key, body)
        except Exception as error:  # noqa: BLE001 (the last place where it can be told; the step counts as lost)
            _complain(context, key, f"{type(error).__name__}: {error}")
            return os.EX_SOFTWARE
        if not stays:
            return 0
        try:
            feed.send(DONE)
        except OSError:  # the launcher is gone
            return 0
    return 0


def _read_order(feed: socket.socket) -> tuple[str, bytes] | None:
    """The next order as key and body; None when there will be none."""
    data = b""
    wanted = orders.ORDER_HEAD.size
    while len(data) < wanted:
        part = feed.recv(_FEED_READ_BYTES)
        if not part:
            return None
        data += part
        if wanted == orders.ORDER_HEAD.size <= len(data):
            wanted += sum(orders.ORDER_HEAD.unpack_from(data))
    body_at = orders.ORDER_HEAD.size + orders.ORDER_HEAD.unpack_from(data)[0]
    return data[orders.ORDER_HEAD.size : body_at].decode(), data[body_at:]


def _supervise(own: "Own", key: str, body: bytes) -> bool:
    """One step; True when this stepd may have another one."""
    try:
        folder_fd = open_folder(key, own.context.steps_fd)
    except FileNotFoundError:
        return True  # decided by noded, and swept
    crash_point("stepd.folder")
    order = orders.decode_launch(key, body)
    if order.kind == "extern":
        from nodedaemon.holder import Holder  # what only a holder needs is not paid for by others

        Holder(own, order, folder_fd).run()
        return False  # its namespaces are not as they were, and children of a prolog are not the next step's
    own.step = Supervisor(own, order, folder_fd)
    try:
        own.step.run()
    finally:
        own.step.close()
        own.step = None
    if order.kind != "batch":
        gc.collect()  # clients and an exchange know each other in circles; what the launcher has made is not looked at
    return True


def _complain(context: Context, key: str, text: str) -> None:
    with contextlib.suppress(OSError):  # noded is away: the step without an end tells its successor as much
        context.packets.send(orders.trouble(key, text), socket.MSG_DONTWAIT)


class Own:
    """What a stepd keeps from step to step: its loop, and the two descriptors that are watched for every step."""

    __slots__ = (
        "_between", "address", "context", "control", "feed", "loop", "pid", "pid_start", "step", "token", "wake_read",
    )  # fmt: skip

    def __init__(
        self, context: Context, wake_read: int, control: socket.socket, token: bytes, feed: socket.socket
    ) -> None:
        self.feed = feed
        self.context = context
        self.wake_read = wake_read
        self.control = control
        self.token = token
        self.address: bytes = control.getsockname() + token
        self.pid = os.getpid()
        self.pid_start = proctree.start_time(self.pid)
        self.step: Supervisor | None = None
        self._between = select.poll()
        self._between.register(feed.fileno(), select.POLLIN)
        self._between.register(control.fileno(), select.POLLIN)
        self.loop = Loop()
        self.loop.watch(wake_read, self._woken)
        self.loop.watch(control.fileno(), self._ordered)

    def await_order(self) -> bool:
        """Sleep until there is something in the feed; always True."""
        while self.feed.fileno() not in (ready := dict(self._between.poll())):
            if self.control.fileno() in ready:
                self._ordered(select.POLLIN)
        return True

    def _woken(self, events: int) -> None:
        """A child has ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_read, 4096)
        if self.step is not None:
            self.step.reap()

    def _ordered(self, events: int) -> None:
        """Something from noded: signals for the step, or a client's connection."""
        space = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(_FD.size)
        try:
            data, ancillary, _, _ = self.control.recvmsg(_ORDER_BYTES_MAX, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        fds = _descriptors(ancillary)
        data = without_token(data, self.token)
        if not data or not is_own_word(ancillary):  # anybody may send to this address, and send anything along
            for fd in fds:
                os.close(fd)
            return
        key = orders.key_of(data)
        connections = [socket.socket(fileno=fd) for fd in fds]
        if self.step is None or key != self.step.order.key:
            for connection in connections:
                _refuse(connection, key)
        elif connections:
            self.step.take_connection(connections[0])
        else:
            self.step.obey(*orders.decode_signals(data)[1:])


def _refuse(connection: socket.socket, key: str) -> None:
    with contextlib.suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(ANSWER_NO + f"step {key} is not here any more\n".encode())


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """What came along; all of it is ours to close."""
    found: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found += [_FD.unpack_from(data, at)[0] for at in range(0, len(data) - _FD.size + 1, _FD.size)]
    return found
