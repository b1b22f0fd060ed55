"""Adds --mpi to a step: PMI-1 and PMI-2 on a descriptor of each task (pmi2), or a PMIx server beside the tasks (pmix).

pmi2: one socket pair a task. The library in the task asks, `pmi.Server` answers; stepd only carries bytes. Nothing blocks: a
task that sends requests and does not read loses its connection when PENDING_BYTES_MAX are waiting. A task may close it
at any time.

pmix: pmixd.py is executed as the job's user before the tasks are forked. It has one pipe to each of them, on which the task,
as the user and before its program, reads the variables that its library needs (`task.Start.late_fd`); so stepd does
not wait. When the last task has ended pmixd gets a moment to remove files of the libraries.

In both cases the nodes communicate by GATHER and EXCHANGE frames (penstock.values.exchange). A task's request to end
the whole step is sent to the step's owner, which ends it; without an owner the step ends here after ABORT_WAIT_S.
"""

import functools
import os
import signal
import socket
import sys
import time
import zlib

from nodedaemon.base import orders
from nodedaemon.mpi import pmi
from nodedaemon.stepd import task
from nodedaemon.stepd.plugs import Plug
from penstock.eventloop import READ, WRITE
from penstock.values import exchange
from penstock.values.packing import pack_values
from penstock.values.stepframes import BadFrame, FrameKind, FrameReader, frame

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from typing import NoReturn

    from nodedaemon.stepd.plugs import PluggedStep
    from nodedaemon.stepd.taskrecord import Task
    from penstock.values.packing import PackedValue

#: Bytes of answers that a task has not read; a library makes one request at a time.
PENDING_BYTES_MAX = 256 * 1024
#: Time for the owner to end a step on a task's request.
ABORT_WAIT_S = 5.0
#: Time for pmixd to remove files; a file system that hangs is left alone.
PMIXD_WAIT_S = 3.0
_READ_BYTES = 64 * 1024
_PMIXD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pmixd.py")


def make(order: orders.LaunchOrder) -> Plug | None:
    """Makes the plug of a step that requested one."""
    if not order.tasks:
        return None
    if order.mpi == "pmi2":
        return PmiPlug(order)
    return PmixPlug(order) if order.mpi.startswith("pmix") else None


def step_name(order: orders.LaunchOrder) -> bytes:
    """Returns the name of the step for libraries: JOB.STEP and a number that is unique over runs and clusters, since
    libraries name their shared memory after it and would wait forever for the remains of a killed program."""
    job, attempt, step = order.key.split(".")
    return f"{job}.{step}.{zlib.crc32(order.io_key + attempt.encode()):08x}".encode()


def _send_some(end: socket.socket, data: bytes) -> bytes | None:
    """Sends as much as the other side takes now; returns the rest, or None when it is gone."""
    try:
        return data[end.send(data, socket.MSG_NOSIGNAL) :]
    except BlockingIOError:
        return data
    except OSError:
        return None


class _MpiPlug(Plug):
    """Common base: the connection to the owner, and a task's request to end the step."""

    def __init__(self, order: orders.LaunchOrder) -> None:
        self._order = order
        self._step: PluggedStep
        self._is_aborting = False

    def _gather(self, payload: bytes) -> None:
        self._step.hub.send(FrameKind.GATHER, payload)
        if exchange.is_abort(payload) and not self._is_aborting:
            self._is_aborting = True
            self._step.loop.after(
                ABORT_WAIT_S, lambda: self._step.handle_signal((signal.SIGKILL,), orders.SCOPE_ALL, "")
            )

    def _bad_exchange(self, error: Exception) -> None:
        self._step.fail(f"exchange between nodes: {error}")


class PmiPlug(_MpiPlug):
    """PMI-1 and PMI-2."""

    def __init__(self, order: orders.LaunchOrder) -> None:
        super().__init__(order)
        ranks = [one.rank for one in order.tasks]
        facts = pmi.PmiStep(step_name(order), order.ntasks, order.node_index, order.nodes, ranks)
        self.server = pmi.PmiServer(facts)
        self._ours: dict[int, socket.socket] = {}
        self._theirs: dict[int, socket.socket] = {}  # until the task is forked
        self._pending: dict[int, bytes] = {}

    def open(self, step: "PluggedStep") -> None:
        self._step = step
        for rank in self.server.step.ranks:
            ours, self._theirs[rank] = socket.socketpair()
            ours.setblocking(False)
            self._ours[rank] = ours
            step.loop.watch(ours.fileno(), functools.partial(self._ready, rank))
        self._carry()

    def child_environment(self, task: "Task") -> dict[bytes, bytes]:
        return pmi.environment(self.server.step, task.rank, self._theirs[task.rank].fileno())

    def child_fds(self, task: "Task") -> list[int]:
        return [self._theirs[task.rank].fileno()]

    def forked(self, task: "Task") -> None:
        self._theirs.pop(task.rank).close()

    def exchange(self, payload: bytes) -> None:
        try:
            self.server.exchanged(payload)
        except exchange.BadExchange as error:
            self._bad_exchange(error)
        self._carry()

    def close(self) -> "dict[str, PackedValue]":
        for rank in list(self._ours):
            self._close(rank)
        for theirs in self._theirs.values():
            theirs.close()
        return {}

    def _ready(self, rank: int, _events: int) -> None:
        """Handles input, space or the end at a task's descriptor."""
        if rank in self._pending:
            self._send(rank, b"")
        end = self._ours.get(rank)
        if end is None:
            return
        try:
            data = end.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._close(rank)
        self.server.received(rank, data)
        self._carry()

    def _carry(self) -> None:
        """Forwards the server's output to its recipients."""
        server = self.server
        gathers = server.gathers
        server.gathers = []
        for payload in gathers:
            self._gather(payload)
        replies = server.replies
        server.replies = []
        for rank, reply in replies:
            self._send(rank, reply)
        broken = server.broken
        server.broken = []
        for rank in broken:
            self._close(rank)

    def _send(self, rank: int, data: bytes) -> None:
        end = self._ours.get(rank)
        if end is None:
            return
        waited = self._pending.pop(rank, b"")
        left = _send_some(end, waited + data)
        if left is None or len(left) > PENDING_BYTES_MAX:
            return self._close(rank)
        if left:
            self._pending[rank] = left
        if bool(left) != bool(waited):
            self._step.loop.change(end.fileno(), READ | WRITE if left else READ)

    def _close(self, rank: int) -> None:
        self._pending.pop(rank, None)
        end = self._ours.pop(rank, None)
        if end is not None:
            self._step.loop.forget(end.fileno())
            end.close()


class PmixPlug(_MpiPlug):
    """PMIx: the helper process and the connection to it."""

    def __init__(self, order: orders.LaunchOrder) -> None:
        super().__init__(order)
        self._control: socket.socket | None = None
        self._reader = FrameReader()
        self._pipes: dict[int, int] = {}  # the tasks' ends of the pipes
        self._to_send = b""
        self._gathered_bytes = 0  # since the last answer: pmixd runs as the user, and may send no more than a round

    def open(self, step: "PluggedStep") -> None:
        self._step = step
        ours, theirs = socket.socketpair()
        ranks = [one.rank for one in self._order.tasks]
        writers = []
        for rank in ranks:
            self._pipes[rank], writer = os.pipe2(os.O_CLOEXEC)
            writers.append(writer)
        pid = os.fork()
        if pid == 0:
            try:
                self._become_pmixd(theirs, writers)
            finally:
                os._exit(1)  # the tasks see that their pipes are closed
        theirs.close()
        for writer in writers:
            os.close(writer)
        ours.setblocking(False)
        self._control = ours
        step.loop.watch(ours.fileno(), self._ready)
        order = self._order
        lists = [b",".join(b"%d" % number for number in numbers) for numbers in (ranks, writers)]
        name = b"penstock." + step_name(order)
        self._send(
            frame(
                FrameKind.HELLO, pack_values(name, order.ntasks, order.node_index, order.nodes, order.node_name, *lists)
            )
        )

    def _become_pmixd(self, control: socket.socket, writers: list[int]) -> "NoReturn":
        """In the child: executes pmixd as the user, with the user's environment, since it loads a library of the user's
        choice."""
        context, order = self._step.context, self._order
        os.setpgid(0, 0)
        self._step.groups.join()
        task.become_user(order, context)
        task.change_folder(order.work_dir)
        for number in range(3):
            os.dup2(context.null_fd, number)
        keep = [control.fileno(), *writers]
        task.close_all_but(*keep)
        for fd in keep:
            os.set_inheritable(fd, True)
        task.restore_signals()
        argv = [sys.executable, "-I", _PMIXD, str(control.fileno())]
        os.execve(argv[0], argv, {b"PATH": task.DEFAULT_PATH} | order.environment)  # noqa: S606 (ours, as the user)

    def child_environment(self, task: "Task") -> dict[bytes, bytes]:
        task.start.late_fd = self._pipes[task.rank]
        return {}

    def forked(self, task: "Task") -> None:
        os.close(self._pipes.pop(task.rank))

    def exchange(self, payload: bytes) -> None:
        self._gathered_bytes = 0
        self._send(frame(FrameKind.EXCHANGE, payload))

    def ended(self, task: "Task") -> None:
        self._send(frame(FrameKind.EXITED, b"", task.rank))
        control = self._control
        if control is not None and self._step.tasks.have_ended:
            self._finish(control)
            self._hang_up()

    def close(self) -> "dict[str, PackedValue]":
        self._hang_up()
        for pipe in self._pipes.values():
            os.close(pipe)
        return {}

    def _finish(self, control: socket.socket) -> None:
        """Closes the connection, and waits until pmixd has ended. It is the user's process, so the wait is limited."""
        end_s = time.monotonic() + PMIXD_WAIT_S
        try:
            control.settimeout(PMIXD_WAIT_S)
            control.sendall(self._to_send)
            control.shutdown(socket.SHUT_WR)
            while (left_s := end_s - time.monotonic()) > 0:
                control.settimeout(left_s)
                if not control.recv(_READ_BYTES):
                    return
        except OSError:  # too slow, or gone: it is killed with all that is left of the step
            return

    def _ready(self, events: int) -> None:
        control = self._control
        if control is None:
            return
        if events & WRITE:
            self._send(b"")
        try:
            data = control.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._hang_up()
        self._reader.feed(data)
        try:
            while (taken := self._reader.take()) is not None:
                self._gathered_bytes += len(taken[3])
                if self._gathered_bytes > 2 * exchange.BLOB_BYTES_MAX:
                    raise BadFrame("a round without an end")
                self._gather(taken[3])
        except BadFrame as error:
            self._bad_exchange(error)

    def _send(self, data: bytes) -> None:
        control = self._control
        if control is None:
            return
        waited = self._to_send
        self._to_send = b""
        left = _send_some(control, waited + data)
        if left is None:
            return self._hang_up()
        self._to_send = left
        if bool(left) != bool(waited):
            self._step.loop.change(control.fileno(), READ | WRITE if left else READ)

    def _hang_up(self) -> None:
        if self._control is not None:
            self._step.loop.forget(self._control.fileno())
            self._control.close()
            self._control = None
