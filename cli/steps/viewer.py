"""A running step as somebody else than its owner sees it: sattach.

The same streams, messages and exit status as srun's, and none of its powers: what a viewer does never ends, signals or
delays the step. Signals that would end a command only detach it. What nodes still keep of earlier output is seen first.

A connection that broke begins again with what is kept, so frames may come twice: each has its place in the stream, and
what was seen is left out. Input is meant for typing: a viewer is not told how much of it the tasks have taken, and a
connection that was sent more than they read is closed by the node.
"""

import os
import signal

from cli.steps.console import Console
from cli.steps.ending import Rules
from cli.steps.loop import Loop
from cli.steps.session import Session
from cli.steps.streamclient import State, Stream
from penstock.cluster import ClusterFile
from penstock.v1.steps_pb2 import AttachStepReply, CreateStepReply
from penstock.values.packing import pack_values
from penstock.values.stepframes import NO_TASK, Kind, Role, frame

INPUT_BYTES = 4096
DETACHING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Detached(Exception):
    """A signal took us away from the step, which goes on."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Viewer(Session):
    """One step from now to its end, or until we are sent away."""

    def __init__(self, cluster: ClusterFile, attached: AttachStepReply, console: Console, name: str) -> None:
        created = CreateStepReply(
            step_id=attached.step_id,
            attempt=attached.attempt,
            plan=attached.plan,
            streams=attached.streams,
            io_key=attached.io_key,
            job_id=attached.job_id,
        )
        super().__init__(cluster, created, console, Rules(), name=name, role=Role.VIEWER)
        self._seen: dict[Stream, int] = {}
        self._typed: Typing | None = None

    def type_into(self, fd: int, task: int = NO_TASK) -> None:
        """Send what is read from a descriptor to all tasks, or to one."""
        targets = self.streams
        if task != NO_TASK:
            targets = [s for s in self.streams if task in self._ranks[s.place.node_index]]
        self._typed = Typing(self.loop, fd, targets, task)

    def on_welcome(self, stream: Stream) -> None:
        if self._typed is not None:
            self._typed.start()
        if self._terminal is not None:
            stream.send(frame(Kind.WINDOW, pack_values(*self._terminal.size())))

    def on_frame(self, stream: Stream, kind: int, channel: int, task: int, payload: bytes) -> None:
        if stream.counted <= self._seen.get(stream, 0):
            return
        self._seen[stream] = stream.counted
        if kind not in (Kind.GATHER, Kind.STDIN_TAKEN):
            super().on_frame(stream, kind, channel, task, payload)

    def terminate(self) -> None:
        """Nothing that we see is a reason to end it."""

    def _say_abort(self) -> None:
        """That is for who started it."""

    def _signal(self, number_: int) -> None:
        """Signals are the owner's. When nobody reads our output, we go."""
        raise Detached(number_)

    def _on_signal(self, caught: int) -> None:
        if caught in DETACHING:
            raise Detached(caught)
        if caught == signal.SIGWINCH:
            super()._on_signal(caught)


class Typing:
    """Reads a descriptor and passes it on, once all nodes have answered."""

    def __init__(self, loop: Loop, fd: int, streams: list[Stream], task: int) -> None:
        self._loop = loop
        self._fd = fd
        self._streams = streams
        self._task = task
        self._started = False

    def start(self) -> None:
        """Begin to read."""
        if not self._started and all(stream.welcomed for stream in self._streams):
            self._started = True
            self._loop.watch(self._fd, read=self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, INPUT_BYTES)
        except OSError:
            data = b""  # the terminal hung up, or we are in its background
        if not data:
            self._loop.forget(self._fd)
            return
        for stream in self._streams:
            if stream.state == State.OPEN:
                stream.send(frame(Kind.STDIN, data, self._task), keep=False)
