"""The encoding of the pipes between the daemon and its GPU children: msgpack with a length in front.

The child reads commands from its standard input and writes messages to its standard output. The end of its input means
that the daemon is gone, or wants it to end. Nothing here uses NVML.
"""

import os
import select
import struct
import time

import msgspec

from nodedaemon.core.gpumessages import Asking, Device, Lifetimes, Polled, Xid

_HEAD = struct.Struct("<I")
#: A poll of 16 GPUs with 4,000 processes is a fraction of this.
FRAME_MAX = 16 * 1024 * 1024
_READ = 65536
#: Timeout before the input is read again while there is no first command; it arrives at once.
_SETUP_S = 60.0


class Setup(msgspec.Struct, frozen=True, tag=True):
    """The first command. `only` >= 0: only the GPU with that index; `skip`: never these."""

    poll_s: float = 10.0
    known: tuple[Device, ...] = ()
    skip: tuple[int, ...] = ()
    only: int = -1
    accounting: bool = False
    per_process: tuple[str, ...] = ()
    slow_s: float = 5.0
    mig_minors: str = ""  # other paths than the kernel's, for tests
    sysfs: str = ""
    beat_s: float = 30.0  # how often one that waits for events sends a sign of life


class Settle(msgspec.Struct, frozen=True, tag=True):
    """The settings that can change while it runs."""

    poll_s: float
    accounting: bool
    per_process: tuple[str, ...]


class PollNow(msgspec.Struct, frozen=True, tag=True):
    """Requests a poll at once, confirmed by Answered."""

    request: int


class AskLifetimes(msgspec.Struct, frozen=True, tag=True):
    """A request to look up processes by GPU, answered with Lifetimes, then Answered."""

    request: int
    pids: dict[str, tuple[int, ...]]


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The request has been executed."""

    request: int


class DriverEvent(msgspec.Struct, frozen=True, tag=True):
    """The driver has reported an event whose details a poll will show."""

    uuid: str
    event: int


ProbeCommand = Setup | Settle | PollNow | AskLifetimes
ChildMessage = Polled | Xid | Asking | Lifetimes | Answered | DriverEvent

_encoder = msgspec.msgpack.Encoder()
_words: msgspec.msgpack.Decoder[ChildMessage] = msgspec.msgpack.Decoder(ChildMessage)
_commands: msgspec.msgpack.Decoder[ProbeCommand] = msgspec.msgpack.Decoder(ProbeCommand)


class BadGpuFrame(Exception):
    """Data that does not follow this protocol."""


def pack(message: ChildMessage | ProbeCommand) -> bytes:
    """One frame."""
    body = _encoder.encode(message)
    return _HEAD.pack(len(body)) + body


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Adds data; returns the complete frames. Raises BadFrame."""
        self._held += data
        found = []
        while len(self._held) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._held)
            if length > FRAME_MAX:
                raise BadGpuFrame(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._held) < end:
                break
            found.append(bytes(self._held[_HEAD.size : end]))
            del self._held[:end]
        return found


def read_message(body: bytes) -> ChildMessage:
    """Decodes a child's message. Raises BadFrame."""
    try:
        return _words.decode(body)
    except msgspec.MsgspecError as error:
        raise BadGpuFrame(str(error)) from error


class ChildEnd:
    """The child's side."""

    def __init__(self, read_fd: int = 0, write_fd: int = 1) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._frames = Frames()

    def send(self, message: ChildMessage) -> None:
        """Writes a whole message. Ends the child when the parent is gone."""
        data = memoryview(pack(message))
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except BrokenPipeError:
            raise SystemExit(0) from None

    def commands(self, wait_s: float) -> list[ProbeCommand]:
        """The commands that arrive within that time. The end of the input ends the child."""
        deadline = time.monotonic() + wait_s
        while True:
            left_ms = max(int((deadline - time.monotonic()) * 1000), 0)
            poll = select.poll()
            poll.register(self._read_fd, select.POLLIN)
            if not poll.poll(left_ms):
                return []
            data = os.read(self._read_fd, _READ)
            if not data:
                raise SystemExit(0)
            bodies = self._frames.feed(data)
            if bodies:
                return [_commands.decode(body) for body in bodies]

    def setup(self) -> tuple[Setup, list[ProbeCommand]]:
        """The first command, and any that came with it."""
        commands: list[ProbeCommand] = []
        while not commands:
            commands = self.commands(_SETUP_S)
        first = commands.pop(0)
        assert isinstance(first, Setup)
        return first, commands
