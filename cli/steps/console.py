"""The output of a step on the client's side: stdout and stderr of the command, or files, with labels if requested. A
sink takes bytes and does not block where the system allows that: a pipe or a terminal is reopened in non-blocking mode
(so that other users of it are not affected), and unwritten data are buffered. While data are buffered, `flush` returns
True, and the session reads nothing more from the nodes: back-pressure up to the tasks. Regular files are written
directly. A closed reader (EPIPE) or a full disk ends a sink: later data are dropped. The session checks for such sinks
and informs the tasks or the user. Labels are put before whole lines, by one replacement per chunk and not line by line;
an incomplete line is kept until its rest or the end of the task.
"""

import os
import stat
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from cli.base.run import CommandError

#: The most buffers of one writev.
PIECES_MAX = 512
STDOUT, STDERR = 1, 2


class Sink:
    """One destination of output."""

    def __init__(self, fd: int, *, name: str = "", owns: bool = False) -> None:
        """`owns`: `close` closes `fd`, too."""
        self.name = name
        self.dead = False  # nothing is written any more
        self.error = ""  # why; "" = the reader is gone
        self.fd = _without_blocking(fd)
        self._owned = {self.fd, fd} if owns else {self.fd} - {fd}
        self._waiting: deque[bytes | memoryview] = deque()

    def add(self, data: bytes | memoryview) -> None:
        """Adds data; `flush` writes them."""
        if not self.dead:
            self._waiting.append(data)

    def flush(self) -> bool:
        """Writes as much as possible. True: data are left, wait until the descriptor is writable."""
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

    def close(self) -> None:
        """Writes nothing more. A descriptor left open would keep a worker of the command server from its next call."""
        self.dead = True
        while self._owned:
            os.close(self._owned.pop())

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
    """The same pipe or terminal, reopened in non-blocking mode; else the descriptor itself."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd  # a terminal of another user (after su): writes may block
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
        # Each sink once, in a fixed order: stdout and stderr may be one file.
        self.sinks = list(dict.fromkeys(sink for sink in (out, err, own) if sink is not None))
        self._alive = list(self.sinks)

    def show_only(self, channel: int, task: int) -> None:
        """Limits this channel to one task's output."""
        self._only[channel] = task

    def data(self, task: int, channel: int, payload: bytes) -> None:
        """Handles output of a task."""
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
        """Ends a task's output: an incomplete line is printed with a line end."""
        for channel in (STDOUT, STDERR):
            rest = self._rest.pop((task, channel), b"")
            sink = self._by_channel[channel]
            if rest and sink is not None:
                sink.add(b"%*d: %s\n" % (self._label_width, task, rest))

    def all_ended(self) -> None:
        """Ends the output of all tasks that send nothing more."""
        for task, _ in sorted(self._rest):
            self.ended(task)

    def say(self, line: str) -> None:
        """Prints a line of the command itself, in order with the tasks' error output."""
        self.note(line.encode("utf-8", "surrogateescape") + b"\n")

    def note(self, data: bytes) -> None:
        """Prints a message of a node."""
        self.own_err.add(data if data.endswith(b"\n") else data + b"\n")

    def flush(self) -> list[Sink]:
        """Writes; returns the sinks with data left."""
        return [sink for sink in self.sinks if sink.flush()]

    def close(self) -> None:
        """Closes all sinks."""
        for sink in self.sinks:
            sink.close()

    def newly_dead(self) -> list[Sink]:
        """The sinks that have failed since the last call."""
        dead = [sink for sink in self._alive if sink.dead]
        if dead:
            self._alive = [sink for sink in self._alive if not sink.dead]
        return dead


class PartsConsole(Console):
    """The output of a step over several components: each has its own destinations; their sinks may be the same."""

    def __init__(self, parts: Sequence[tuple[int, Console]]) -> None:
        """`parts`: in their order, the first rank and the console of each."""
        self._firsts = [first for first, _ in parts]
        self._consoles = [console for _, console in parts]
        self.own_err = self._consoles[0].own_err
        self.sinks = list(dict.fromkeys(sink for console in self._consoles for sink in console.sinks))
        self._alive = list(self.sinks)

    def data(self, task: int, channel: int, payload: bytes) -> None:
        self._of(task).data(task, channel, payload)

    def ended(self, task: int) -> None:
        self._of(task).ended(task)

    def all_ended(self) -> None:
        for console in self._consoles:
            console.all_ended()

    def _of(self, task: int) -> Console:
        return self._consoles[max(0, bisect_right(self._firsts, task) - 1)]


class Mode(NamedTuple):
    """The destination of one of a step's three streams, as --output, --error and --input name it."""

    kind: str  # all, none, task, file (on the client), nodes (files on the nodes)
    task: int = 0
    path: str = ""


TASK_MAX = 2**31 - 1
#: Symbols that only a node can expand: then the nodes open the files.
NODE_SYMBOLS = "tnN"


def parse_mode(text: str | None) -> Mode:
    """Parses all, none, the number of a task, or a file's name."""
    if text is None or text.lower() == "all":
        return Mode("all")
    if text.lower() == "none":
        return Mode("none")
    if text.isascii() and text.isdigit():
        return Mode("task", task=min(int(text[:10]), TASK_MAX))  # the number of tasks is checked when it is known
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
    """Opens a file on the client's machine for output."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
    name = os.fsdecode(path)
    try:
        return Sink(os.open(path, flags, 0o666), name=name, owns=True)
    except OSError as error:
        raise CommandError(f"Could not open stdout file: {name}: {error.strerror}") from error
