"""Forwards srun's standard input to the tasks: to all of them, to one, or (not here) to none.

Each receiving node has its own window; the slowest one sets the pace, since all get the same data. Data that a node has
not confirmed are kept, so that a new connection resumes in the middle. Nothing is read before all these nodes have
answered once, nor while srun is in the background of its terminal: the keys belong to the foreground shell.
"""

import os
import signal
from collections.abc import Sequence

from cli.steps.streamclient import State, StepStream
from penstock.eventloop import Loop
from penstock.values.stepframes import NO_TASK, STDIN_WINDOW_BYTES, FrameKind, frame

PIECE_BYTES = 64 * 1024
#: The interval at which a background command checks whether it is in the foreground.
BACKGROUND_S = 0.5


class StdinPump:
    """Reads a descriptor and sends what it reads."""

    def __init__(self, loop: Loop, fd: int, streams: Sequence[StepStream], task: int = NO_TASK) -> None:
        self._loop = loop
        self._fd = fd
        self._task = task
        self._streams = list(streams)
        self._sent = dict.fromkeys(streams, 0)
        self._taken = dict.fromkeys(streams, 0)
        self._kept = bytearray()  # from `_base` on
        self._base = 0
        self._ended = False
        self._closed = False
        self._has_failed = False  # a read has failed, and none has succeeded since
        self._is_terminal = os.isatty(fd)
        if self._is_terminal:
            signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a background read fails instead of stopping us

    def welcomed(self, stream: StepStream) -> None:
        """Handles an established or re-established connection: continues after the data that the node has."""
        if stream not in self._sent:
            return
        self._sent[stream] = max(stream.received, self._base)
        self._taken[stream] = max(self._taken[stream], min(stream.received, self._sent[stream]))
        self._send(stream)
        self._ready()

    def taken(self, stream: StepStream, count: int) -> None:
        """Handles a node's count of bytes passed on."""
        if stream in self._taken:
            self._taken[stream] = max(self._taken[stream], count)
            self._forget()
            self._ready()

    def gone(self, stream: StepStream) -> None:
        """Sends nothing more to this node."""
        if stream in self._sent:
            self._streams.remove(stream)
            del self._sent[stream], self._taken[stream]
            if self._streams:
                self._forget()
                self._ready()
            else:
                self.close()

    def close(self) -> None:
        """Stops reading."""
        if not self._closed:
            self._closed = True
            self._loop.forget(self._fd)

    def _ready(self) -> None:
        """Reads when there is room, else waits."""
        if self._closed or self._ended:
            return
        if not all(stream.welcomed for stream in self._streams) or self._room() <= 0:
            self._loop.forget(self._fd)
        elif self._is_terminal and not self._in_front():
            self._loop.forget(self._fd)
            self._loop.after(BACKGROUND_S, self._ready)
        else:
            self._loop.watch(self._fd, self._read)

    def _room(self) -> int:
        return STDIN_WINDOW_BYTES - len(self._kept)

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return True  # not our terminal: the read will fail

    def _read(self, events: int) -> None:
        try:
            data = os.read(self._fd, min(PIECE_BYTES, self._room()))
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone, or we were in its background, and may be in front by now
            is_in_front = self._in_front()
            if self._is_terminal and not (is_in_front and self._has_failed):
                self._has_failed = is_in_front
                self._ready()
                return
            data = b""
        self._has_failed = False
        if not data:
            self._ended = True
            self._loop.forget(self._fd)
        self._kept += data
        for stream in tuple(self._streams):
            self._send(stream)
        self._ready()

    def _send(self, stream: StepStream) -> None:
        if stream.state != State.OPEN:
            return
        end = self._base + len(self._kept)
        while self._sent[stream] < end:
            at = self._sent[stream] - self._base
            piece = bytes(self._kept[at : at + PIECE_BYTES])
            self._sent[stream] += len(piece)
            stream.send(frame(FrameKind.STDIN, piece, self._task), keep=False)
        if self._ended:
            stream.send(frame(FrameKind.STDIN, b"", self._task), keep=False)

    def _forget(self) -> None:
        least = min(self._taken.values())
        if least > self._base:
            del self._kept[: least - self._base]
            self._base = least
