"""The hub of a step's streams on one node: tasks' pipes and terminal on one side, its clients on the other.

Rules (stepd's side of penstock/values/stepframes.py)
    - The tasks' output becomes frames that are kept until the owner has acknowledged them. When KEPT_BYTES_MAX are
      kept, the output is no longer read: the kernel's pipes fill, and the tasks block.
    - Without an owner for OWNER_WAIT_S the oldest frames are dropped instead. An owner that reconnects gets their
      number, and starts and ends that it may have missed are repeated.
    - Standard input goes to the tasks as they read it; the progress of the slowest is reported to the owner.
    - It ends, and a terminal is hung up, when neither the owner nor a viewer has come back for OWNER_WAIT_S after the
      owner has closed its connection: it has ended or was killed. After a connection that was cut off the wait is
      CUT_WAIT_S. A task that waited for input would wait for ever, and its job with it.
    - Nothing here blocks, or deals with TLS or keys (stream_server.py).

Output is read through an epoll of its own, so that stopping and resuming is one call, however many tasks there are.
"""

import contextlib
import fcntl
import os
import select
import struct
import termios
import time
from collections import deque

from nodedaemon.base.kept import Kept
from penstock.eventloop import READ, WRITE, Loop, LoopTimer
from penstock.values import stepframes
from penstock.values.packing import pack_values
from penstock.values.stepframes import (
    HEAD,
    KEPT_BYTES_MAX,
    NO_TASK,
    PAYLOAD_BYTES_MAX,
    STDIN_WINDOW_BYTES,
    FrameKind,
    StreamRole,
)

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from typing import Protocol

    class StreamClient(Protocol):
        """What the hub uses of a client (stream_server.py)."""

        @property
        def role(self) -> stepframes.StreamRole | None: ...
        def pump(self) -> None: ...
        def close(self) -> None: ...


#: Reading resumes when no more than this is kept.
KEPT_LOW_BYTES = KEPT_BYTES_MAX // 2
#: A read of at most this many bytes is copied out of the buffer; for more, the buffer itself is kept.
COPY_BYTES_MAX = 32 * 1024
#: A pipe that was full is enlarged to this, to reduce wake-ups.
PIPE_BYTES = 1024 * 1024
PIPE_DEFAULT_BYTES = 64 * 1024
#: A longer line is passed on in pieces.
LINE_BYTES_MAX = 64 * 1024
#: Progress of standard input that is reported at once.
TAKEN_REPORT_BYTES = 64 * 1024
#: Standard input beyond the window that is accepted, for viewers who type; beyond this the client is disconnected.
INPUT_BYTES_MAX = 4 * STDIN_WINDOW_BYTES
#: Pieces of standard input below this size are combined while they wait.
PIECE_BYTES_MIN = 4096
#: stepd's own frames (notes, progress of standard input) are not kept beyond this for an owner that does not read.
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
        self.ends = False  # no data follows the pending

    def add(self, data: bytes) -> None:
        """Adds a piece. Small ones are combined: a piece costs more than a byte."""
        last = self.pending[-1] if self.pending else b""
        if self.pending and len(last) + len(data) <= PIECE_BYTES_MIN:
            self.pending[-1] = memoryview(bytes(last) + data)
        else:
            self.pending.append(memoryview(data))
        self.pending_bytes += len(data)


class StreamHub:
    """All streams of one step on this node, served by `loop`."""

    def __init__(self, loop: Loop, line_buffered: bool = False) -> None:
        self.loop = loop
        self._line_buffered = line_buffered
        self.kept = Kept()
        self.connections: list[StreamClient] = []
        self.owner: StreamClient | None = None
        self.had_owner = False
        self.owner_gone_s = 0.0  # by the monotonic clock
        self._is_owner_cut = False  # off by the network
        self._outputs: dict[int, Output] = {}
        self._inputs: dict[int, Input] = {}
        self._poll: select.epoll | None = None
        self._scratch = bytearray()
        self._terminal_fd = -1
        self._is_reading = True
        self._is_dropping = False
        self._lost_bytes = 0
        self._owner_timers: list[LoopTimer] = []
        self.stdin_received = 0
        self._stdin_reported = 0
        self._stdin_ended = False
        self._pids: list[int] = []
        self._exits: list[tuple[int, int]] = []
        self._end_text: bytes | None = None
        self.has_ended = False  # END has been queued

    # -- what the step has

    def open(self) -> None:
        """Prepares for outputs and an owner."""
        self._poll = select.epoll()
        self.loop.watch(self._poll.fileno(), self._read_ready)
        self._scratch = bytearray(HEAD.size + PAYLOAD_BYTES_MAX)
        self._await_owner()

    def add_output(self, fd: int, rank: int, stream: int) -> None:
        """Starts to read a task's output; the hub closes the descriptor."""
        assert self._poll is not None
        os.set_blocking(fd, False)
        self._outputs[fd] = Output(fd, rank, stream)
        self._poll.register(fd, READ)

    def add_input(self, fd: int, rank: int, is_terminal: bool = False) -> None:
        """Sets the descriptor of a task's standard input; the hub closes it, unless it is a terminal's."""
        os.set_blocking(fd, False)
        self._inputs[rank] = Input(fd, is_terminal)

    def add_terminal(self, fd: int, rank: int) -> None:
        """Adds a pseudo terminal's own end: output, input and window size."""
        self._terminal_fd = fd
        self.add_output(fd, rank, 1)
        self.add_input(fd, rank, is_terminal=True)

    def resize(self, rows: int, columns: int) -> None:
        """Sets the size of the owner's window."""
        if self._terminal_fd >= 0:
            set_window(self._terminal_fd, rows, columns)

    # -- frames

    def send(self, kind: FrameKind, payload: bytes = b"", task: int = NO_TASK, stream: int = 0) -> None:
        """Sends a frame to the owner and all viewers."""
        if kind == FrameKind.NOTE and self.kept.size >= KEPT_WORDS_BYTES_MAX:
            return
        self.kept.append(stepframes.frame(kind, payload, task, stream))
        self._bound()

    def send_started(self, pids: list[int]) -> None:
        """Sends that all tasks run."""
        self._pids = pids
        self.send(FrameKind.STARTED, pack_values(*pids))

    def send_exited(self, rank: int, status: int) -> None:
        """Sends that a task has ended."""
        self._exits.append((rank, status))
        self.send(FrameKind.EXITED, b"%d" % status, rank)

    def finish(self, text: str) -> None:
        """Ends the streams after all tasks and all their processes: END follows the last output."""
        self._end_text = text.encode("utf-8", "replace")
        for rank in list(self._inputs):
            self._close_input(rank)
        if self._is_reading:
            self._read_ready(READ)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._end_text is not None and not self._outputs and not self.has_ended:
            self.has_ended = True
            self.send(FrameKind.END, self._end_text)

    @property
    def is_delivered(self) -> bool:
        """True when the owner has acknowledged everything, including END."""
        return self.has_ended and not self.kept.size

    def flush(self) -> None:
        """Sends what has been queued."""
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
        except OSError:  # EIO: no process has the terminal open any more
            size = 0
        if size == 0:
            self._close_output(output)
            return
        if self._line_buffered:
            self._take_lines(output, bytes(memoryview(buffer)[HEAD.size : HEAD.size + size]))
            return
        HEAD.pack_into(buffer, 0, FrameKind.DATA, output.stream, output.rank, size)
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
            with contextlib.suppress(OSError):  # beyond the system's limit
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
            self.send(FrameKind.DATA, data[at : at + PAYLOAD_BYTES_MAX], output.rank, output.stream)

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
        """Closes outputs that a process outside the step keeps open: all processes of the step are gone."""
        assert self._poll is not None
        ready = {fd for fd, _ in self._poll.poll(0)}
        for output in [output for fd, output in self._outputs.items() if fd not in ready]:
            self._close_output(output)

    # -- the amount kept

    def _bound(self) -> None:
        if self.kept.size < KEPT_BYTES_MAX:
            return
        if self._is_dropping:
            while self.kept.size >= KEPT_BYTES_MAX:
                self._lost_bytes += self.kept.drop_first()
        elif self._is_reading and self._poll is not None:
            self._is_reading = False
            self.loop.change(self._poll.fileno(), 0)

    def _read_on(self) -> None:
        if not self._is_reading and self._poll is not None:
            self._is_reading = True
            self.loop.change(self._poll.fileno(), READ)

    def acknowledge(self, position: int) -> None:
        """Drops everything before that position, which the owner has handled."""
        self.kept.acknowledge(position)
        if self.kept.size <= KEPT_LOW_BYTES:
            self._read_on()
            self._report_progress()

    # -- the owner

    def take_owner(self, connection: "StreamClient") -> None:
        """Sets a new owner; the previous one is disconnected."""
        before = self.owner
        self.owner = connection
        self.had_owner = True
        if before is not None:
            before.close()
        self._cancel_timers()
        self._is_dropping = False
        if self._lost_bytes and not self.has_ended:
            self.send(FrameKind.LOST, b"%d" % self._lost_bytes)
            if self._pids:
                self.send(FrameKind.STARTED, pack_values(*self._pids))
            for rank, status in self._exits:
                self.send(FrameKind.EXITED, b"%d" % status, rank)
        self._lost_bytes = 0

    def lose(self, connection: "StreamClient", is_cut: bool = False) -> None:
        """Removes a connection that is gone. `is_cut`: by the network, so that its client may come back."""
        with contextlib.suppress(ValueError):
            self.connections.remove(connection)
        if connection is self.owner:
            self.owner = None
            self.owner_gone_s = time.monotonic()
            self._is_owner_cut = is_cut
            self._await_owner()
        elif self.owner is None and connection.role is StreamRole.VIEWER:
            self._await_owner()

    def _await_owner(self) -> None:
        self._cancel_timers()
        wait_s = stepframes.CUT_WAIT_S if self._is_owner_cut else stepframes.OWNER_WAIT_S
        self._owner_timers = [
            self.loop.after(stepframes.OWNER_WAIT_S, self._resume_without_owner),
            self.loop.after(wait_s, self._hang_up),
        ]

    def _cancel_timers(self) -> None:
        for timer in self._owner_timers:
            timer.cancel()
        self._owner_timers.clear()

    def _resume_without_owner(self) -> None:
        if self.owner is None:
            self._is_dropping = True
            self._bound()
            self._read_on()

    def _hang_up(self) -> None:
        """Ends the tasks' standard input, and closes a terminal: the kernel sends its session SIGHUP."""
        if self.owner is not None or any(one.role is StreamRole.VIEWER for one in self.connections):
            return
        for rank, source in list(self._inputs.items()):
            if not source.is_terminal:
                source.ends = True
                if not source.is_watched:
                    self._write_input(rank)
        if self._terminal_fd >= 0:
            self._close_output(self._outputs[self._terminal_fd])

    # -- standard input

    def take_stdin(self, task: int, data: bytes, is_owners: bool) -> bool:
        """Passes input on to a task, or to all that read any; empty = its end. False: more than a client may send."""
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
        self._report_progress()
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
        except OSError:  # EPIPE: it no longer reads
            self._close_input(rank)
            return
        self._unwatch_input(source)
        if source.ends:
            self._close_input(rank)

    def _watch_input(self, rank: int, source: Input) -> None:
        if not source.is_watched:
            source.is_watched = True
            self.loop.watch(source.fd, lambda events: self._input_ready(rank), WRITE)

    def _unwatch_input(self, source: Input) -> None:
        if source.is_watched:
            source.is_watched = False
            self.loop.forget(source.fd)

    def _input_ready(self, rank: int) -> None:
        self._write_input(rank)
        self._report_progress()

    def _close_input(self, rank: int) -> None:
        source = self._inputs.pop(rank, None)
        if source is not None:
            self._unwatch_input(source)
            if not source.is_terminal:
                os.close(source.fd)

    def _report_progress(self) -> None:
        waiting = max((source.pending_bytes for source in self._inputs.values()), default=0)
        taken = max(self.stdin_received - waiting, self._stdin_reported)
        progress = taken - self._stdin_reported
        if self.kept.size >= KEPT_WORDS_BYTES_MAX:
            return  # reported when there is space again
        if progress >= TAKEN_REPORT_BYTES or (progress and taken == self.stdin_received):
            self._stdin_reported = taken
            self.send(FrameKind.STDIN_TAKEN, b"%d" % taken)

    # -- the end

    def close(self) -> None:
        """Closes everything."""
        for connection in tuple(self.connections):
            connection.close()
        for rank in list(self._inputs):
            self._close_input(rank)
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()
        if self._poll is not None:
            self.loop.forget(self._poll.fileno())
            self._poll.close()


def set_window(fd: int, rows: int, columns: int) -> None:
    """Sets a terminal's size; values out of range are clipped."""
    with contextlib.suppress(OSError):
        size = (min(max(number, 0), 0xFFFF) for number in (rows, columns))
        fcntl.ioctl(fd, termios.TIOCSWINSZ, _WINDOW.pack(*size, 0, 0))
