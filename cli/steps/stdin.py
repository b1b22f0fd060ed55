"""Standard input of srun on its way to the tasks: to all of them, to one, or (not here) to none.

Each node that takes part has its own window; the slowest one sets the pace, as all get the same. What a node has not
said to have taken is kept, so that a connection that broke goes on in the middle of it. Nothing is read before all these
nodes have answered once, nor while srun is in the background of its terminal: the shell in front wants its keys.
"""

import os
import signal
from collections.abc import Sequence

from cli.steps.loop import Loop
from cli.steps.streamclient import State, Stream
from penstock.values.stepframes import NO_TASK, STDIN_WINDOW_BYTES, Kind, frame

PIECE_BYTES = 64 * 1024
#: How often a command in the background looks whether it has come to the front.
BACKGROUND_S = 0.5


class StdinPump:
    """Reads a descriptor and sends what it reads."""

    def __init__(self, loop: Loop, fd: int, streams: Sequence[Stream], task: int = NO_TASK) -> None:
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
        self._is_terminal = os.isatty(fd)
        if self._is_terminal:
            signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a read in the background fails then, and does not stop us

    def welcomed(self, stream: Stream) -> None:
        """A connection stands (again): go on after what the node has had."""
        if stream not in self._sent:
            return
        self._sent[stream] = max(stream.received, self._base)
        self._taken[stream] = max(self._taken[stream], min(stream.received, self._sent[stream]))
        self._send(stream)
        self._ready()

    def taken(self, stream: Stream, count: int) -> None:
        """A node has passed on so much in all."""
        if stream in self._taken:
            self._taken[stream] = max(self._taken[stream], count)
            self._forget()
            self._ready()

    def gone(self, stream: Stream) -> None:
        """Nothing more goes to this node."""
        if stream in self._sent:
            self._streams.remove(stream)
            del self._sent[stream], self._taken[stream]
            if self._streams:
                self._forget()
                self._ready()
            else:
                self.close()

    def close(self) -> None:
        """Read no more."""
        if not self._closed:
            self._closed = True
            self._loop.forget(self._fd)

    def _ready(self) -> None:
        """Read when there is room, else wait."""
        if self._closed or self._ended:
            return
        if not all(stream.welcomed for stream in self._streams) or self._room() <= 0:
            self._loop.forget(self._fd)
        elif self._is_terminal and not self._in_front():
            self._loop.forget(self._fd)
            self._loop.at(BACKGROUND_S, self._ready)
        else:
            self._loop.watch(self._fd, read=self._read)

    def _room(self) -> int:
        return STDIN_WINDOW_BYTES - len(self._kept)

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return True  # not our terminal: reading tells

    def _read(self) -> None:
        try:
            data = os.read(self._fd, min(PIECE_BYTES, self._room()))
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone, or we are in its background
            if self._is_terminal and not self._in_front():
                self._ready()
                return
            data = b""
        if not data:
            self._ended = True
            self._loop.forget(self._fd)
        self._kept += data
        for stream in tuple(self._streams):
            self._send(stream)
        self._ready()

    def _send(self, stream: Stream) -> None:
        if stream.state != State.OPEN:
            return
        end = self._base + len(self._kept)
        while self._sent[stream] < end:
            at = self._sent[stream] - self._base
            piece = bytes(self._kept[at : at + PIECE_BYTES])
            self._sent[stream] += len(piece)
            stream.send(frame(Kind.STDIN, piece, self._task), keep=False)
        if self._ended:
            stream.send(frame(Kind.STDIN, b"", self._task), keep=False)

    def _forget(self) -> None:
        least = min(self._taken.values())
        if least > self._base:
            del self._kept[: least - self._base]
            self._base = least
