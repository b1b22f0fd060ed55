"""A child of the command server: it becomes what the caller is, and runs one command.

The order is the promise: greet, take the whole request, become the caller, watch him, run. Until the request is there
whole, nothing was done and the caller may still run the command himself; afterwards it is ours alone, to the end.

What is taken over: arguments, environment, umask, working directory (as an open folder: it may have been removed),
all open files under their numbers, ignored signals. What cannot be taken over is the same already: the launcher sees to
that. The child is killed when its caller is gone, as a command is that was killed itself.
"""

import fcntl
import io
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Final, NoReturn

import cli.run
from cli.server import COMMANDS, MAGIC, READY, REPORT, greet

EXITED, DECLINED = 1, 3
FILES_MAX: Final = 32
REQUEST: Final = struct.Struct(f"=IIIIIIQ{FILES_MAX}i")
REQUEST_BYTES_MAX: Final = 2 * 1024 * 1024
#: The launcher sends everything at once.
PATIENCE_S: Final = 10.0
#: Python itself ignores these, in every command.
PYTHON_IGNORES: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Odd(Exception):
    """The request cannot be served as it would have to be."""


class Request:
    """What a caller sent."""

    __slots__ = ("arguments", "environment", "folder", "ignored", "open_files", "umask")

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        room = socket.CMSG_SPACE(FILES_MAX * 4)
        head, ancillary, flags, _ = connection.recvmsg(REQUEST.size, room, socket.MSG_CMSG_CLOEXEC)
        files = [file for *_, data in ancillary for (file,) in struct.iter_unpack("i", data)]
        if len(head) != REQUEST.size or flags & socket.MSG_CTRUNC:
            raise Odd("no whole head")
        magic, size, count, arguments, variables, self.umask, self.ignored, *numbers = REQUEST.unpack(head)
        if magic != MAGIC or size > REQUEST_BYTES_MAX or count != len(files) or not 4 <= count <= FILES_MAX:
            raise Odd("not a request")
        words = _receive(connection, size).split(b"\0")
        if len(words) != arguments + variables + 1 or arguments < 1:
            raise Odd("words are missing")
        self.arguments = words[:arguments]
        self.environment = words[arguments:-1]
        self.folder = files[-1]
        self.open_files = dict(zip(numbers[: count - 1], files[:-1], strict=True))


def _receive(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise Odd("the caller has gone")
        found += more
    return bytes(found)


def serve(connection: socket.socket) -> NoReturn:
    """Run what the caller asks for, as the whole of this process."""
    greet(connection, READY)
    try:
        request = Request(connection)
        wire = _take_files(request, connection)
    except (Odd, OSError):
        _leave(connection.fileno(), DECLINED, 0)  # nothing was done yet
    cli.run.leave = lambda status: _leave(wire, EXITED, status)
    cli.run.decline = lambda: _leave(wire, DECLINED, 0)
    name = os.fsdecode(request.arguments[0]).rpartition("/")[2]
    if name not in COMMANDS:
        _leave(wire, DECLINED, 0)
    _become(request)
    _watch(wire)
    try:
        sys.modules[f"cli.{name}"].main()
    except BaseException:  # noqa: BLE001 (main() ends the process itself; this is what Python does with what escapes)
        import traceback

        traceback.print_exc()
        _leave(wire, EXITED, 1)
    _leave(wire, EXITED, 0)


def _take_files(request: Request, connection: socket.socket) -> int:
    """The caller's files under their numbers. The number of the connection afterwards."""
    above = max(request.open_files) + 1
    high = {number: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for number, file in request.open_files.items()}
    folder = fcntl.fcntl(request.folder, fcntl.F_DUPFD_CLOEXEC, above)
    wire: int = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, above)
    os.fchdir(folder)
    connection.detach()
    lowest_high = min(*high.values(), folder, wire)
    os.closerange(3, lowest_high)
    for number, file in high.items():
        os.dup2(file, number)
    for file in (*high.values(), folder):
        os.close(file)
    return wire


def _become(request: Request) -> None:
    os.umask(request.umask)
    for number in range(1, signal.NSIG):
        _set_signal(number, bool(request.ignored >> number & 1))
    os.environ.clear()
    for entry in request.environment:
        key, _, value = entry.partition(b"=")
        os.environb[key] = value
    time.tzset()
    sys.argv = [os.fsdecode(word) for word in request.arguments]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _text_file(1, "surrogateescape", os.isatty(1))
    sys.stderr = _text_file(2, "backslashreplace", True)


def _set_signal(number: int, is_ignored: bool) -> None:
    if number in (signal.SIGKILL, signal.SIGSTOP, *PYTHON_IGNORES) or number not in _SIGNALS:
        return
    if is_ignored:
        signal.signal(number, signal.SIG_IGN)
    elif number == signal.SIGINT:
        signal.signal(number, signal.default_int_handler)


_SIGNALS: Final = frozenset(int(number) for number in signal.valid_signals())


def _text_file(number: int, errors: str, by_line: bool) -> io.TextIOWrapper:
    raw = open(number, "wb", closefd=False)  # noqa: SIM115 (open until the process ends)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=by_line)


def _watch(wire: int) -> None:
    """Be killed when the caller goes. He says nothing more, so whatever comes is his end."""
    fcntl.fcntl(wire, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(wire, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(wire, fcntl.F_SETFL, fcntl.fcntl(wire, fcntl.F_GETFL) | fcntl.FASYNC)
    waiting = select.poll()
    waiting.register(wire, select.POLLIN | select.POLLRDHUP)
    if waiting.poll(0):
        os._exit(1)  # he went before we watched


def _leave(wire: int, kind: int, value: int) -> NoReturn:
    """Tell the caller how it ended, and end."""
    try:
        os.write(wire, REPORT.pack(MAGIC, kind, value))
    finally:
        os._exit(value)
