"""A running step as sattach shows it, without owning it.

The same streams, messages and exit status as srun's, without control: a viewer never ends, signals or delays the step.
Terminating signals only detach it. Earlier output that the nodes still buffer is shown first. A new connection starts
again at the beginning of the buffer, so frames may arrive twice: each has its position in the stream, and duplicates
are dropped. Input is meant for typing: a viewer gets no count of the bytes that the tasks have read, and the node
closes a connection that sends more than they read.
"""

import os
import signal

from cli.steps.console import Console
from cli.steps.ending import EndingRules
from cli.steps.session import Session
from cli.steps.streamclient import State, StepStream
from penstock.clusterfile import ClusterFile
from penstock.eventloop import Loop
from penstock.v1.steps_pb2 import AttachStepReply, CreateStepReply
from penstock.values.packing import pack_values
from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole, frame

INPUT_BYTES = 4096
DETACHING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Detached(Exception):
    """A signal has detached the viewer; the step continues."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Viewer(Session):
    """Shows one step from now to its end, or until it is detached."""

    def __init__(self, cluster: ClusterFile, attached: AttachStepReply, console: Console, name: str) -> None:
        created = CreateStepReply(
            step_id=attached.step_id,
            attempt=attached.attempt,
            plan=attached.plan,
            streams=attached.streams,
            io_key=attached.io_key,
            job_id=attached.job_id,
        )
        super().__init__(cluster, created, console, EndingRules(), name=name, role=StreamRole.VIEWER)
        self._seen: dict[StepStream, int] = {}
        self._typed: Typing | None = None

    def type_into(self, fd: int, task: int = NO_TASK) -> None:
        """Sends what is read from a descriptor to all tasks, or to one."""
        targets = self.streams
        if task != NO_TASK:
            targets = [s for s in self.streams if task in self._ranks[s.place.node_index]]
        self._typed = Typing(self.loop, fd, targets, task)

    def on_welcome(self, stream: StepStream) -> None:
        if self._typed is not None:
            self._typed.start()
        if self._terminal is not None:
            stream.send(frame(FrameKind.WINDOW, pack_values(*self._terminal.size())))

    def on_frame(self, stream: StepStream, kind: int, channel: int, task: int, payload: bytes) -> None:
        if stream.counted <= self._seen.get(stream, 0):
            return
        self._seen[stream] = stream.counted
        if kind not in (FrameKind.GATHER, FrameKind.STDIN_TAKEN):
            super().on_frame(stream, kind, channel, task, payload)

    def terminate(self) -> None:
        """Does nothing: a viewer never ends the step."""

    def _report_abort(self) -> None:
        """Does nothing: only the step's srun prints it."""

    def _signal(self, number_: int) -> None:
        """Sends no signals, which are the owner's; detaches when the reader of our output is gone."""
        raise Detached(number_)

    def _on_signal(self, caught: int) -> None:
        if caught in DETACHING:
            raise Detached(caught)
        if caught == signal.SIGWINCH:
            super()._on_signal(caught)


class Typing:
    """Reads a descriptor and passes it on, once all nodes have answered."""

    def __init__(self, loop: Loop, fd: int, streams: list[StepStream], task: int) -> None:
        self._loop = loop
        self._fd = fd
        self._streams = streams
        self._task = task
        self._started = False

    def start(self) -> None:
        """Starts reading."""
        if not self._started and all(stream.welcomed for stream in self._streams):
            self._started = True
            self._loop.watch(self._fd, self._read)

    def _read(self, events: int) -> None:
        try:
            data = os.read(self._fd, INPUT_BYTES)
        except OSError:
            data = b""  # the terminal hung up, or we are in its background
        if not data:
            self._loop.forget(self._fd)
            return
        for stream in self._streams:
            if stream.state == State.OPEN:
                stream.send(frame(FrameKind.STDIN, data, self._task), keep=False)
