"""PMI_FD's other ends: one socket pair a task, between the tasks' libraries and the step's server (pmi.py).

    ports = Ports(step)                before the tasks are forked
    task_end(rank)                     the descriptor for the task, to be inherited; `forked(rank)` closes it here
    fds()                              what the supervisor's loop watches for input
    ready(fd), exchanged(payload)      then take `gathers` and `abort`

Rules
    - Nothing blocks: a task that asks without reading the answers loses its connection when PENDING_BYTES_MAX wait.
    - A task's end may close its connection at any time; that is no error. The socket is not watched any more then.
"""

import socket

from nodedaemon import pmi

#: Answers that a task has not read; a library asks one thing at a time.
PENDING_BYTES_MAX = 256 * 1024
_READ_BYTES = 64 * 1024


class Ports:
    """The connections of one step's tasks on this node."""

    def __init__(self, step: pmi.Step) -> None:
        self.server = pmi.Server(step)
        self._sockets: dict[int, socket.socket] = {}  # our ends by rank
        self._tasks: dict[int, socket.socket] = {}  # theirs, until they are forked
        self._rank_of: dict[int, int] = {}
        self._pending: dict[int, bytes] = {}
        for rank in step.ranks:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            self._sockets[rank], self._tasks[rank] = ours, theirs
            self._rank_of[ours.fileno()] = rank

    @property
    def abort(self) -> tuple[int, int, bytes] | None:
        """Who wants the step ended (rank), exit code, message."""
        return self.server.abort

    def task_end(self, rank: int) -> int:
        """The descriptor that the task inherits as PMI_FD."""
        return self._tasks[rank].fileno()

    def environment(self, rank: int, fd: int) -> dict[bytes, bytes]:
        """What the task finds in its environment; `fd` is the number that it has the descriptor under."""
        return pmi.environment(self.server.step, rank, fd)

    def forked(self, rank: int) -> None:
        """The task has its end: ours of it is closed, so that the task's end shows."""
        self._tasks.pop(rank).close()

    def fds(self) -> list[int]:
        """Descriptors to watch for input."""
        return list(self._rank_of)

    def writers(self) -> list[int]:
        """Descriptors to watch for room."""
        return [self._sockets[rank].fileno() for rank in self._pending]

    def ready(self, fd: int) -> None:
        """Input, room or an end at this descriptor."""
        rank = self._rank_of.get(fd)
        if rank is None:
            return
        if rank in self._pending:
            self._send(rank, b"")
        try:
            data = self._sockets[rank].recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.server.received(rank, data)
            self._deliver()
        else:
            self._close(rank)

    def exchanged(self, payload: bytes) -> None:
        """An EXCHANGE frame's payload. Raises exchange.BadExchange."""
        self.server.exchanged(payload)
        self._deliver()

    def take_gathers(self) -> list[bytes]:
        """Payloads of GATHER frames that are to be sent to the step's owner."""
        gathers, self.server.gathers = self.server.gathers, []
        return gathers

    def close(self) -> None:
        """The step has ended."""
        for end in (*self._sockets.values(), *self._tasks.values()):
            end.close()
        self._rank_of.clear()

    def _deliver(self) -> None:
        replies, self.server.replies = self.server.replies, []
        for rank, reply in replies:
            self._send(rank, reply)
        broken, self.server.broken = self.server.broken, []
        for rank in broken:
            self._close(rank)

    def _send(self, rank: int, data: bytes) -> None:
        end = self._sockets.get(rank)
        if end is None:
            return
        data = self._pending.pop(rank, b"") + data
        try:
            data = data[end.send(data, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            pass
        except OSError:
            return self._close(rank)
        if len(data) > PENDING_BYTES_MAX:
            return self._close(rank)
        if data:
            self._pending[rank] = data

    def _close(self, rank: int) -> None:
        end = self._sockets.pop(rank, None)
        if end is not None:
            self._rank_of.pop(end.fileno(), None)
            self._pending.pop(rank, None)
            end.close()
