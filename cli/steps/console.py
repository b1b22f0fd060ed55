"""Where a step's output goes on the client's side: its own output and error output, or files, with labels if asked for.

A sink takes bytes and never blocks where the system allows it: a pipe or a terminal is opened anew without blocking (so
that nobody else's use of it changes), and what does not go out at once waits. While something waits, `flush` says so,
and the session takes nothing more from the nodes: back-pressure up to the tasks. Regular files are just written.

A reader that went away (EPIPE) or a full disk ends a sink: what comes after is dropped. The session asks for such sinks
and tells the tasks or the user.

Labels are put before whole lines, by one replacement a chunk and not line by line; what has no end of line yet waits
for the rest, or for the end of the task.
"""

import os
import stat
from collections import deque
from typing import NamedTuple

from cli.run import CommandError

#: What the kernel takes in one writev.
PIECES_MAX = 512
STDOUT, STDERR = 1, 2


class Sink:
    """One place that output goes to."""

    def __init__(self, fd: int, *, name: str = "") -> None:
        self.name = name
        self.dead = False  # nothing goes there any more
        self.error = ""  # why; "" = nobody reads there
        self.fd = _without_blocking(fd)
        self._waiting: deque[bytes | memoryview] = deque()

    def add(self, data: bytes | memoryview) -> None:
        """Take what is to be written; `flush` writes it."""
        if not self.dead:
            self._waiting.append(data)

    def flush(self) -> bool:
        """Write what can be written. True: something is left, wait until the descriptor takes more."""
        while self._waiting:
            pieces = [self._waiting[i] for i in range(min(len(self._waiting), PIECES_MAX))]
            try:
                written = os.writev(self.fd, pieces)
            except BlockingIOError:
                return True
            except OSError as error:
                self.dead = True
                self.error = "" if isinstance(error, BrokenPipeError) else error.strerror or str(error)
                self._waiting.clear()
                return False
            self._written(written)
        return False

    def _written(self, count: int) -> None:
        while count:
            first = self._waiting[0]
            if len(first) > count:
                self._waiting[0] = memoryview(first)[count:]
                return
            count -= len(first)
            self._waiting.popleft()
        while self._waiting and not len(self._waiting[0]):
            self._waiting.popleft()


def _without_blocking(fd: int) -> int:
    """The same pipe or terminal, opened anew so that writes to it do not block; else the descriptor itself."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd  # a terminal of somebody else (after su): it may block then
    return fd


class Console:
    """The output of all tasks of a step, on the client's side."""

    def __init__(
        self, out: Sink | None, err: Sink | None, *, label_width: int = 0, own_err: Sink | None = None
    ) -> None:
        self._by_channel = {STDOUT: out, STDERR: err}
        self._only: dict[int, int] = {}  # channel -> the one task that is shown
        self._label_width = label_width  # 0 = no labels
        self._rest: dict[tuple[int, int], bytes] = {}
        own = own_err or err or Sink(STDERR)
        self.own_err = own
        # Sinks once each, in a fixed order: output and error output may be one file.
        self.sinks = list(dict.fromkeys(sink for sink in (out, err, own) if sink is not None))
        self._alive = list(self.sinks)

    def show_only(self, channel: int, task: int) -> None:
        """Of this channel only one task's output."""
        self._only[channel] = task

    def data(self, task: int, channel: int, payload: bytes) -> None:
        """Output of a task."""
        sink = self._by_channel.get(channel)
        if sink is None or self._only.get(channel, task) != task:
            return
        if self._label_width:
            self._labelled(sink, task, channel, payload)
        else:
            sink.add(payload)

    def _labelled(self, sink: Sink, task: int, channel: int, payload: bytes) -> None:
        end = payload.rfind(b"\n") + 1
        key = (task, channel)
        rest = self._rest.pop(key, b"")
        if not end:
            self._rest[key] = rest + payload
            return
        if end < len(payload):
            self._rest[key] = payload[end:]
        label = b"%*d: " % (self._label_width, task)
        sink.add(label + (rest + payload[: end - 1]).replace(b"\n", b"\n" + label) + b"\n")

    def ended(self, task: int) -> None:
        """Nothing more of this task: a line without an end is shown as it is, with one."""
        for channel in (STDOUT, STDERR):
            rest = self._rest.pop((task, channel), b"")
            sink = self._by_channel[channel]
            if rest and sink is not None:
                sink.add(b"%*d: %s\n" % (self._label_width, task, rest))

    def all_ended(self) -> None:
        """The same for all tasks of which nothing more will come."""
        for task, _ in sorted(self._rest):
            self.ended(task)

    def say(self, line: str) -> None:
        """A line of the command itself, in order with the tasks' error output."""
        self.note(line.encode("utf-8", "surrogateescape") + b"\n")

    def note(self, data: bytes) -> None:
        """A line of a node's own."""
        self.own_err.add(data if data.endswith(b"\n") else data + b"\n")

    def flush(self) -> list[Sink]:
        """Write; the sinks for which to wait."""
        return [sink for sink in self.sinks if sink.flush()]

    def newly_dead(self) -> list[Sink]:
        """Sinks that have ended since this was asked last."""
        dead = [sink for sink in self._alive if sink.dead]
        if dead:
            self._alive = [sink for sink in self._alive if not sink.dead]
        return dead


class Mode(NamedTuple):
    """Where one of a step's three streams goes, as --output, --error and --input say."""

    kind: str  # all, none, task, file (the client's), nodes (files of the nodes)
    task: int = 0
    path: str = ""


TASK_MAX = 2**31 - 1
#: Symbols that only a node knows: then the nodes open the files.
NODE_SYMBOLS = "tnN"


def parse_mode(text: str | None) -> Mode:
    """all, none, the number of a task, or a file's name."""
    if text is None or text.lower() == "all":
        return Mode("all")
    if text.lower() == "none":
        return Mode("none")
    if text.isascii() and text.isdigit():
        return Mode(
            "task", task=min(int(text[:10]), TASK_MAX)
        )  # more tasks than there can be: told when they are known
    return Mode("nodes" if _is_of_nodes(text) else "file", path=text)


def _is_of_nodes(path: str) -> bool:
    if "\\" in path:
        return False
    at = 0
    while (percent := path.find("%", at)) >= 0:
        symbol = percent + 1
        while symbol < len(path) and path[symbol].isdigit():
            symbol += 1
        if path[symbol : symbol + 1] in tuple(NODE_SYMBOLS):
            return True
        at = symbol + 1
    return False


def open_file(path: bytes, *, append: bool) -> Sink:
    """A file on the client's machine that output goes to."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    name = os.fsdecode(path)
    try:
        return Sink(os.open(path, flags, 0o666), name=name)
    except OSError as error:
        raise CommandError(f"Could not open stdout file: {name}: {error.strerror}") from error
