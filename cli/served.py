"""A worker of the command server: it becomes what a caller is, runs his command, and is nobody again.

The order is the promise: greet, take the whole request, become the caller, watch him, run. Until the request is there
whole, nothing was done and the caller may still run the command himself; afterwards it is ours alone, to the end.

What is taken over: arguments, environment, umask, working directory (as an open folder: it may have been removed),
all open files under their numbers, ignored signals. What cannot be taken over is the same already: the launcher sees to
that. The worker is killed when its caller is gone, as a command is that was killed itself.

Nothing of a call may reach the next one. So a worker goes on only after a call that ended with status 0, left no thread
and no process, and took little memory; in all other cases it ends, and the next call gets a fresh one. Nor does it go
on before its caller has hung up: until then he may still send it signals. In return a command keeps nothing in its
modules (HACKING.md); tests run one after the other to see that. The one exception is the connection to the controller,
which belongs to no call (penstock/keep.py).
"""

import fcntl
import io
import itertools
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from typing import Final, NoReturn

import cli.run
from cli.server import COMMANDS, MAGIC, READY, REPORT, greet
from penstock.client import Client
from penstock.keep import NUMBER, Keeper

EXITED, DECLINED = 1, 3
FILES_MAX: Final = 32
REQUEST: Final = struct.Struct(f"=IIIIIIQ{FILES_MAX}i")
REQUEST_BYTES_MAX: Final = 2 * 1024 * 1024
#: The launcher sends everything at once.
PATIENCE_S: Final = 10.0
#: A worker is replaced after so many calls, or when it has grown beyond this.
CALLS_MAX: Final = 1_000
MEMORY_KB_MAX: Final = 100 * 1024
#: Descriptors above our own that a command might have left open.
FILES_LEFT_MAX: Final = 256
#: Python itself ignores these, in every command.
PYTHON_IGNORES: Final = (signal.SIGPIPE, signal.SIGXFSZ)
#: What goes from one call to the next: a connection that is nobody's (its module says why).
KEEPER: Final = Keeper()


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


class Finished(BaseException):
    """The command is over with this status. Not an Exception, so that no command takes it for an error of its own."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def work(control: socket.socket) -> NoReturn:
    """Serve the connections that come over `control`, one after the other, until it is closed."""
    Client.keeper = KEEPER
    for _ in range(CALLS_MAX):
        word, files, _, _ = socket.recv_fds(control, 1, 1)
        if not word or not files:
            break
        wire, home = serve(socket.socket(fileno=files[0]), control.fileno())
        if home < 0 or not _has_hung_up(wire):
            break
        os.close(wire)
        if home != control.fileno():
            control.detach()
            control = socket.socket(fileno=home)
        try:
            control.send(b"i")
        except OSError:
            break
    os._exit(0)


def serve(connection: socket.socket, control: int) -> tuple[int, int]:
    """Run what the caller asks for. The numbers of the connection and of `control` afterwards; -1: be a worker no more.

    The caller has been told how it ended when this returns.
    """
    greet(connection, READY)
    try:
        request = Request(connection)
        wire, control = _take_files(request, connection, control)
    except (Odd, OSError):
        _leave(connection.fileno(), DECLINED, 0)  # nothing was done yet
    cli.run.leave = _finish
    cli.run.decline = lambda: _leave(wire, DECLINED, 0)
    name = os.fsdecode(request.arguments[0]).rpartition("/")[2]
    if name not in COMMANDS:
        _leave(wire, DECLINED, 0)
    _become(request)
    _watch(wire)
    try:
        sys.modules[f"cli.{name}"].main()
    except Finished as finished:
        status = finished.status
    except BaseException:  # noqa: BLE001 (main() ends by Finished; this is what Python does with what escapes)
        import traceback

        traceback.print_exc()
        status = 1
    else:
        status = 0
    if status != 0 or not _become_nobody(wire, control):
        _leave(wire, EXITED, status)
    _say(wire, EXITED, status)
    return wire, control


def _finish(status: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over: no KeyboardInterrupt any more
    raise Finished(status)


def _become_nobody(wire: int, control: int) -> bool:
    """Undo what was taken over. False: something is left that must not meet another call."""
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(null, number)
    sys.stdin = sys.stdout = sys.stderr = None  # whatever they still hold goes to /dev/null
    os.close(null)
    kept = KEEPER.number()
    _close_but([wire, control] if kept is None else [wire, control, kept], FILES_LEFT_MAX)
    os.chdir("/")
    for number in _SIGNALS - {signal.SIGKILL, signal.SIGSTOP, *PYTHON_IGNORES}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if threading.active_count() > 1 or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MEMORY_KB_MAX:
        return False
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def _close_but(numbers: list[int], above: int = 0) -> None:
    """Close all files from 3 to the highest of `numbers`, and `above` more, but these."""
    numbers.sort()
    os.closerange(3, numbers[0])
    for lower, upper in itertools.pairwise(numbers):
        os.closerange(lower + 1, upper)
    os.closerange(numbers[-1] + 1, numbers[-1] + 1 + above)


def _has_hung_up(wire: int) -> bool:
    waiting = select.poll()
    waiting.register(wire, select.POLLIN | select.POLLRDHUP)
    return bool(waiting.poll(PATIENCE_S * 1000))


def _take_files(request: Request, connection: socket.socket, control: int) -> tuple[int, int]:
    """The caller's files under their numbers. The numbers of the connection and of `control` afterwards."""
    above = max(request.open_files) + 1
    if above > NUMBER:  # the caller has a file of that number
        KEEPER.drop()
    high = {number: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for number, file in request.open_files.items()}
    folder = fcntl.fcntl(request.folder, fcntl.F_DUPFD_CLOEXEC, above)
    wire: int = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, above)
    control_then = fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, above) if control < above else control
    os.fchdir(folder)
    connection.detach()
    kept = KEEPER.number()
    _close_but([*high.values(), folder, wire, control_then] + ([] if kept is None else [kept]))
    for number, file in high.items():
        os.dup2(file, number)
    for file in (*high.values(), folder):
        os.close(file)
    return wire, control_then


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


def _say(wire: int, kind: int, value: int) -> None:
    """Tell the caller how it ended. From then on his going means nothing."""
    fcntl.fcntl(wire, fcntl.F_SETFL, fcntl.fcntl(wire, fcntl.F_GETFL) & ~fcntl.FASYNC)
    os.write(wire, REPORT.pack(MAGIC, kind, value))


def _leave(wire: int, kind: int, value: int) -> NoReturn:
    """Tell the caller how it ended, and end."""
    try:
        _say(wire, kind, value)
    finally:
        os._exit(value)
