"""The hub of a step's streams on one node: tasks' pipes and terminal on one side, its clients on the other.

Rules (those of penstock/values/stepframes.py, seen from here)
    - What tasks write becomes frames that are kept until the owner has acknowledged them. When KEPT_BYTES_MAX are kept
      the tasks' output is not read any more: the kernel's pipes fill, and the tasks wait.
    - Without an owner for OWNER_WAIT_S the oldest is dropped instead. When he comes back he is told how much, and again
      what he may have missed of starts and ends.
    - Standard input goes to the tasks as they read it; how much of it the slowest has been given is told to the owner.
    - Nothing here blocks, and nothing here knows of TLS or keys (stream_server.py).

Output is read through an epoll of its own, so that to stop and to go on is one call however many tasks there are.
"""

import contextlib
import fcntl
import os
import select
import struct
import termios
import time
from collections import deque

from nodedaemon.kept import Kept
from nodedaemon.loop import READ, WRITE, Loop, Timer
from penstock.values import stepframes
from penstock.values.packing import pack_values
from penstock.values.stepframes import HEAD, KEPT_BYTES_MAX, NO_TASK, PAYLOAD_BYTES_MAX, STDIN_WINDOW_BYTES, Kind

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from nodedaemon.stream_server import Connection

#: Reading goes on when so little is kept again.
KEPT_LOW_BYTES = KEPT_BYTES_MAX // 2
#: A read of at most this many bytes is copied out of the buffer; for more, the buffer itself is kept.
COPY_BYTES_MAX = 32 * 1024
#: A pipe that was found full is made this large, so that a task which writes much wakes us seldom.
PIPE_BYTES = 1024 * 1024
PIPE_DEFAULT_BYTES = 64 * 1024
#: A line longer than this is passed on in pieces.
LINE_BYTES_MAX = 64 * 1024
#: Progress of standard input that is told at once.
TELL_TAKEN_BYTES = 64 * 1024
#: Standard input beyond the window that is still taken, for viewers who type; whoever sends more is cut off.
INPUT_BYTES_MAX = 4 * STDIN_WINDOW_BYTES
#: Pieces of standard input below this size are put together while they wait.
PIECE_BYTES_MIN = 4096
#: What stepd says by itself (notes, progress of standard input) is not kept beyond this for an owner who takes nothing.
KEPT_WORDS_BYTES_MAX = 2 * KEPT_BYTES_MAX
_END_OF_TERMINAL_INPUT = b"\x04"
_WINDOW = struct.Struct("HHHH")


class Output:
    """A task's output as stepd reads it."""

    __slots__ = ("fd", "is_wide", "partial", "rank", "stream")

    def __init__(self, fd: int, rank: int, stream: int) -> None:
        self.fd = fd
        self.rank = rank
        self.stream = stream
        self.partial = b""  # of a line, where only whole lines are passed on
        self.is_wide = False


class Input:
    """A task's standard input as stepd writes it."""

    __slots__ = ("ends", "fd", "is_terminal", "is_watched", "pending", "pending_bytes")

    def __init__(self, fd: int, is_terminal: bool) -> None:
        self.fd = fd
        self.is_terminal = is_terminal
        self.is_watched = False
        self.pending: deque[memoryview] = deque()
        self.pending_bytes = 0
        self.ends = False  # nothing follows what is pending

    def add(self, data: bytes) -> None:
        """One more piece. Small ones are put together: a piece costs more than the byte that it may hold."""
        last = self.pending[-1] if self.pending else b""
        if self.pending and len(last) + len(data) <= PIECE_BYTES_MIN:
            self.pending[-1] = memoryview(bytes(last) + data)
        else:
            self.pending.append(memoryview(data))
        self.pending_bytes += len(data)


class Hub:
    """All streams of one step on this node."""

    def __init__(self, loop: Loop, line_buffered: bool = False) -> None:
        self._loop = loop
        self._line_buffered = line_buffered
        self.kept = Kept()
        self.connections: list[Connection] = []
        self.owner: Connection | None = None
        self.had_owner = False
        self.owner_gone_s = 0.0  # by the monotonic clock
        self._outputs: dict[int, Output] = {}
        self._inputs: dict[int, Input] = {}
        self._poll: select.epoll | None = None
        self._scratch = bytearray()
        self._terminal_fd = -1
        self._is_reading = True
        self._is_dropping = False
        self._lost_bytes = 0
        self._owner_timer: Timer | None = None
        self.stdin_received = 0
        self._stdin_told = 0
        self._stdin_ended = False
        self._pids: list[int] = []
        self._exits: list[tuple[int, int]] = []
        self._end_text: bytes | None = None
        self.has_ended = False  # END is among the frames

    # -- what the step has

    def open(self) -> None:
        """There will be outputs, and an owner is expected."""
        self._poll = select.epoll()
        self._loop.watch(self._poll.fileno(), self._read_ready)
        self._scratch = bytearray(HEAD.size + PAYLOAD_BYTES_MAX)
        self._await_owner()

    def add_output(self, fd: int, rank: int, stream: int) -> None:
        """Read a task's output from here on; the descriptor is the hub's."""
        assert self._poll is not None
        os.set_blocking(fd, False)
        self._outputs[fd] = Output(fd, rank, stream)
        self._poll.register(fd, READ)

    def add_input(self, fd: int, rank: int, is_terminal: bool = False) -> None:
        """Write a task's standard input there; the descriptor is the hub's, unless it is a terminal's."""
        os.set_blocking(fd, False)
        self._inputs[rank] = Input(fd, is_terminal)

    def add_terminal(self, fd: int, rank: int) -> None:
        """A pseudo terminal's own end: output, input and window size."""
        self._terminal_fd = fd
        self.add_output(fd, rank, 1)
        self.add_input(fd, rank, is_terminal=True)

    def resize(self, rows: int, columns: int) -> None:
        """The size of the owner's window."""
        if self._terminal_fd >= 0:
            set_window(self._terminal_fd, rows, columns)

    # -- frames

    def send(self, kind: Kind, payload: bytes = b"", task: int = NO_TASK, stream: int = 0) -> None:
        """A frame for the owner and all viewers."""
        if kind == Kind.NOTE and self.kept.size >= KEPT_WORDS_BYTES_MAX:
            return
        self.kept.append(stepframes.frame(kind, payload, task, stream))
        self._bound()

    def tell_started(self, pids: list[int]) -> None:
        """All tasks run."""
        self._pids = pids
        self.send(Kind.STARTED, pack_values(*pids))

    def tell_exited(self, rank: int, status: int) -> None:
        """A task has ended."""
        self._exits.append((rank, status))
        self.send(Kind.EXITED, b"%d" % status, rank)

    def finish(self, text: str) -> None:
        """All tasks have ended and all their processes are gone: END follows the last output."""
        self._end_text = text.encode("utf-8", "replace")
        for rank in list(self._inputs):
            self._close_input(rank)
        if self._is_reading:
            self._read_ready(READ)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._end_text is not None and not self._outputs and not self.has_ended:
            self.has_ended = True
            self.send(Kind.END, self._end_text)

    @property
    def is_delivered(self) -> bool:
        """True when the owner has acknowledged everything, the END included."""
        return self.has_ended and not self.kept.size

    def flush(self) -> None:
        """Send what has gathered."""
        for connection in tuple(self.connections):
            connection.pump()

    # -- output

    def _read_ready(self, events: int) -> None:
        assert self._poll is not None
        for fd, _ in self._poll.poll(0):
            if not self._is_reading:
                return
            self._read(self._outputs[fd])
        if self._end_text is not None and self._is_reading:
            self._close_stuck()

    def _read(self, output: Output) -> None:
        buffer = self._scratch
        try:
            size = os.readv(output.fd, [memoryview(buffer)[HEAD.size :]])
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more
            size = 0
        if size == 0:
            self._close_output(output)
            return
        if self._line_buffered:
            self._take_lines(output, bytes(memoryview(buffer)[HEAD.size : HEAD.size + size]))
            return
        HEAD.pack_into(buffer, 0, Kind.DATA, output.stream, output.rank, size)
        if size <= COPY_BYTES_MAX:
            self.kept.append(bytes(memoryview(buffer)[: HEAD.size + size]))
        else:
            self.kept.append(memoryview(buffer)[: HEAD.size + size])
            self._scratch = bytearray(HEAD.size + PAYLOAD_BYTES_MAX)
            self._widen(output, size)
        self._bound()

    def _widen(self, output: Output, size: int) -> None:
        if not output.is_wide and size >= PIPE_DEFAULT_BYTES:
            output.is_wide = True
            with contextlib.suppress(OSError):  # beyond what the system lets us have
                fcntl.fcntl(output.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def _take_lines(self, output: Output, data: bytes) -> None:
        data = output.partial + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > LINE_BYTES_MAX:
            cut = len(data)
        output.partial = data[cut:]
        self._send_data(output, data[:cut])

    def _send_data(self, output: Output, data: bytes) -> None:
        for at in range(0, len(data), PAYLOAD_BYTES_MAX):
            self.send(Kind.DATA, data[at : at + PAYLOAD_BYTES_MAX], output.rank, output.stream)

    def _close_output(self, output: Output) -> None:
        assert self._poll is not None
        self._send_data(output, output.partial)
        self._poll.unregister(output.fd)
        del self._outputs[output.fd]
        if output.fd == self._terminal_fd:
            self._close_input(output.rank)
            self._terminal_fd = -1
        os.close(output.fd)
        self._end_if_done()

    def _close_stuck(self) -> None:
        """All processes of the step are gone, so what has nothing to read is held open by a stranger."""
        assert self._poll is not None
        ready = {fd for fd, _ in self._poll.poll(0)}
        for output in [output for fd, output in self._outputs.items() if fd not in ready]:
            self._close_output(output)

    # -- how much is kept

    def _bound(self) -> None:
        if self.kept.size < KEPT_BYTES_MAX:
            return
        if self._is_dropping:
            while self.kept.size >= KEPT_BYTES_MAX:
                self._lost_bytes += self.kept.drop_first()
        elif self._is_reading and self._poll is not None:
            self._is_reading = False
            self._loop.change(self._poll.fileno(), 0)

    def _read_on(self) -> None:
        if not self._is_reading and self._poll is not None:
            self._is_reading = True
            self._loop.change(self._poll.fileno(), READ)

    def acknowledge(self, position: int) -> None:
        """The owner has handled everything before that position."""
        self.kept.acknowledge(position)
        if self.kept.size <= KEPT_LOW_BYTES:
            self._read_on()
            self._tell_taken()

    # -- the owner

    def take_owner(self, connection: "Connection") -> None:
        """A new owner; the one before is cut off."""
        before, self.owner, self.had_owner = self.owner, connection, True
        if before is not None:
            before.close()
        if self._owner_timer is not None:
            self._owner_timer.cancel()
        self._is_dropping = False
        if self._lost_bytes and not self.has_ended:
            self.send(Kind.LOST, b"%d" % self._lost_bytes)
            if self._pids:
                self.send(Kind.STARTED, pack_values(*self._pids))
            for rank, status in self._exits:
                self.send(Kind.EXITED, b"%d" % status, rank)
        self._lost_bytes = 0

    def lose(self, connection: "Connection") -> None:
        """A connection is gone."""
        with contextlib.suppress(ValueError):
            self.connections.remove(connection)
        if connection is self.owner:
            self.owner = None
            self.owner_gone_s = time.monotonic()
            self._await_owner()

    def _await_owner(self) -> None:
        self._owner_timer = self._loop.after(stepframes.OWNER_WAIT_S, self._go_on_without_owner)

    def _go_on_without_owner(self) -> None:
        if self.owner is None:
            self._is_dropping = True
            self._bound()
            self._read_on()

    # -- standard input

    def take_stdin(self, task: int, data: bytes, is_owners: bool) -> bool:
        """Pass input on to a task, or to all that read any; empty = its end. False: more than a client may send."""
        self.stdin_received += len(data) if is_owners else 0
        targets = list(self._inputs) if task == NO_TASK else [task] if task in self._inputs else []
        for rank in targets:
            source = self._inputs[rank]
            if data:
                source.add(data)
            elif is_owners:
                source.ends = True
            if source.pending_bytes > INPUT_BYTES_MAX:
                return False
            if not source.is_watched:
                self._write_input(rank)
        self._tell_taken()
        return True

    def _write_input(self, rank: int) -> None:
        source = self._inputs[rank]
        try:
            while source.pending:
                first = source.pending[0]
                size = os.write(source.fd, first)
                source.pending_bytes -= size
                if size == len(first):
                    source.pending.popleft()
                else:
                    source.pending[0] = first[size:]
            if source.ends and source.is_terminal:
                os.write(source.fd, _END_OF_TERMINAL_INPUT)
                source.ends = False
        except BlockingIOError:
            self._watch_input(rank, source)
            return
        except OSError:  # EPIPE: it does not read any more
            self._close_input(rank)
            return
        self._unwatch_input(source)
        if source.ends:
            self._close_input(rank)

    def _watch_input(self, rank: int, source: Input) -> None:
        if not source.is_watched:
            source.is_watched = True
            self._loop.watch(source.fd, lambda events: self._input_ready(rank), WRITE)

    def _unwatch_input(self, source: Input) -> None:
        if source.is_watched:
            source.is_watched = False
            self._loop.forget(source.fd)

    def _input_ready(self, rank: int) -> None:
        self._write_input(rank)
        self._tell_taken()

    def _close_input(self, rank: int) -> None:
        source = self._inputs.pop(rank, None)
        if source is not None:
            self._unwatch_input(source)
            if not source.is_terminal:
                os.close(source.fd)

    def _tell_taken(self) -> None:
        waiting = max((source.pending_bytes for source in self._inputs.values()), default=0)
        taken = max(self.stdin_received - waiting, self._stdin_told)
        progress = taken - self._stdin_told
        if self.kept.size >= KEPT_WORDS_BYTES_MAX:
            return  # told when there is room again
        if progress >= TELL_TAKEN_BYTES or (progress and taken == self.stdin_received):
            self._stdin_told = taken
            self.send(Kind.STDIN_TAKEN, b"%d" % taken)

    # -- the end

    def close(self) -> None:
        """Let go of everything."""
        for connection in tuple(self.connections):
            connection.close()
        for rank in list(self._inputs):
            self._close_input(rank)
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()
        if self._poll is not None:
            self._loop.forget(self._poll.fileno())
            self._poll.close()


def set_window(fd: int, rows: int, columns: int) -> None:
    """Set a terminal's size; what is out of range is cut to what fits."""
    with contextlib.suppress(OSError):
        size = (min(max(number, 0), 0xFFFF) for number in (rows, columns))
        fcntl.ioctl(fd, termios.TIOCSWINSZ, _WINDOW.pack(*size, 0, 0))
