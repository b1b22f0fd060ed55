"""A worker of the command server: takes over a caller's identity and terminal, runs their command, and resets itself.

The order is guaranteed: greet, read the whole request, take over the caller's state, watch the caller, run. Until the
request is complete nothing was done and the caller may still run the command itself; afterwards only the worker runs
it. Taken over are arguments, environment, umask, working directory (as an open folder: it may have been removed), all
open files under their numbers, ignored signals. What cannot be taken over is the same already: the launcher ensures
that. The worker is killed when its caller is gone, as the command itself would have been.

No state of a call may reach the next one. So a worker is reused only after a call that ended with status 0, left no
thread and no process, and used little memory; otherwise it ends, and the next call gets a new one. The caller does not
wait for that: it has its status as soon as its files are closed. The worker waits until its caller has closed the
connection: until then the caller may still send it signals. In return a command keeps no state in its modules
(HACKING.md); tests run commands one after the other to check that. The one exception is the connection to the
controller, which belongs to no call (penstock/keep.py).
"""

import contextlib
import fcntl
import gc
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

import cli.base.run
from cli.base.output import Cleaned
from cli.commandserver.protocol import COMMANDS, DECLINED, EXITED, IDLE, LASTING, LASTS, MAGIC, READY, REPORT, greet
from penstock.callsocket import CallConnection
from penstock.client import Client
from penstock.h2call import Connection
from penstock.keep import CALLS_NUMBER, NUMBER, Keeper, call_socket_key, controller_key

FILES_MAX: Final = 32
#: The last ones are the launcher's lifetime pipe and the working directory, which have no number.
FILES_OWN: Final = 2
REQUEST: Final = struct.Struct(f"=IIIIIIiiQ{FILES_MAX}i")
REQUEST_BYTES_MAX: Final = 2 * 1024 * 1024
#: As plain numbers: each operation on flags of `socket` makes a member of an enumeration.
CUT_OFF: Final = int(socket.MSG_CTRUNC)
CLOSE_ON_EXEC: Final = int(socket.MSG_CMSG_CLOEXEC)
#: The launcher sends everything at once.
PATIENCE_S: Final = 10.0
#: A worker is replaced after this many calls, or when it has grown beyond this size.
CALLS_MAX: Final = 1_000
MEMORY_KB_MAX: Final = 100 * 1024
#: Descriptors above our own that a command may have left open.
FILES_LEFT_MAX: Final = 256
#: Python itself ignores these, in every command.
PYTHON_IGNORES: Final = (signal.SIGPIPE, signal.SIGXFSZ)
#: State that survives a call: connections of this worker's user (their module says why).
KEEPER: Final = Keeper[Connection](NUMBER, controller_key)
CALLS_KEEPER: Final = Keeper[CallConnection](CALLS_NUMBER, call_socket_key)


class Unserviceable(Exception):
    """The request cannot be served correctly in a worker."""


class Request:
    """The request of a caller."""

    __slots__ = (
        "arguments", "environment", "folder", "group", "has_terminal", "ignored", "life", "open_files", "umask",
    )  # fmt: skip

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        room = socket.CMSG_SPACE(FILES_MAX * 4)
        head, ancillary, flags, _ = connection.recvmsg(REQUEST.size, room, CLOSE_ON_EXEC)
        files = [file for *_, data in ancillary for (file,) in struct.iter_unpack("i", data)]
        if len(head) != REQUEST.size or flags & CUT_OFF:
            raise Unserviceable("no whole head")
        magic, size, count, arguments, variables, self.umask, *rest = REQUEST.unpack(head)
        self.group, self.has_terminal, self.ignored, *numbers = rest
        if magic != MAGIC or size > REQUEST_BYTES_MAX or count != len(files) or not 5 <= count <= FILES_MAX:
            raise Unserviceable("not a request")
        words = _receive(connection, size).split(b"\0")
        if len(words) != arguments + variables + 1 or arguments < 1:
            raise Unserviceable("words are missing")
        self.arguments = words[:arguments]
        self.environment = words[arguments:-1]
        self.life, self.folder = files[-FILES_OWN:]
        self.open_files = dict(zip(numbers[: count - FILES_OWN], files[:-FILES_OWN], strict=True))


def _receive(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise Unserviceable("the caller has gone")
        found += more
    return bytes(found)


class Finished(BaseException):
    """The command has ended with this status. Not an Exception, so that no command catches it as an error of its
    own."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def work(control: socket.socket) -> NoReturn:
    """Serves the connections that come over `control`, one after the other, until it is closed."""
    Client.keeper = KEEPER
    Client.calls_keeper = CALLS_KEEPER
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
            control.send(IDLE)
        except OSError:
            break
    os._exit(0)


def serve(connection: socket.socket, control: int) -> tuple[int, int]:
    """Runs the caller's command. Returns the numbers of the connection and of `control` afterwards; -1: the worker
    ends. The caller has received the exit status when this returns.
    """
    greet(connection, READY)
    try:
        request = Request(connection)
        wire, control = _take_files(request, connection, control)
    except (Unserviceable, OSError):
        _leave(connection.fileno(), DECLINED, 0)  # nothing was done yet
    cli.base.run.leave = _finish
    cli.base.run.is_served = True
    name = os.fsdecode(request.arguments[0]).rpartition("/")[2]
    if name not in COMMANDS or not _join(request.group):
        _leave(wire, DECLINED, 0)

    def lasts() -> None:
        """The call may last, or ask its user: on a terminal only the caller's own process can."""
        if request.has_terminal and not request.group:
            _leave(wire, DECLINED, 0)
        os.write(control, LASTS)

    cli.base.run.decline = lasts
    if name in LASTING:
        lasts()
    _become(request)
    _watch(request.life)
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
    if status != 0 or request.group:
        _leave(wire, EXITED, status)
    _close_files(request)
    os.write(wire, REPORT.pack(MAGIC, EXITED, status))
    if (name in LASTING and not _has_let_go(wire, control)) or not _undo_takeover(wire, control):
        return wire, -1
    return wire, control


def _join(group: int) -> bool:
    """Joins the caller's process group, if the server is of its session; 0 = the group of the server's session."""
    try:
        if group:
            os.setpgid(0, group)
    except OSError:  # not a group of this session
        return False
    return True


def _finish(status: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over: no KeyboardInterrupt any more
    raise Finished(status)


def _close_files(request: Request) -> None:
    """Gives up the caller's files and folder, as the end of the command does: a reader of one of their pipes sees its end.
    Closes the lifetime pipe, too, which would kill this process once the caller has ended.
    """
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(null, number)
    # whatever they still buffer goes to /dev/null
    sys.stdin = None
    sys.stdout = None
    sys.stderr = None
    os.close(null)
    os.chdir("/")
    for number in (*request.open_files, request.life):
        if number > 2:
            with contextlib.suppress(OSError):  # the command has closed it
                os.close(number)


def _has_let_go(wire: int, control: int) -> bool:
    """Frees what the call has left in cycles. False: something still holds a file, and would close its number when it is
    freed, in the midst of another call.
    """
    gc.collect()
    known = {0, 1, 2, wire, control, *_kept()}
    return not any(_is_open(int(number)) for number in os.listdir("/proc/self/fd") if int(number) not in known)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:  # that of the list itself
        return False
    return True


def _undo_takeover(wire: int, control: int) -> bool:
    """Undoes the rest of the takeover. False: some state is left that must not reach another call."""
    _close_but([wire, control, *_kept()], FILES_LEFT_MAX)
    for number in _OURS:
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


def _kept() -> list[int]:
    """The descriptors of connections that outlive a call."""
    return [number for number in (KEEPER.number(), CALLS_KEEPER.number()) if number is not None]


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
    """Puts the caller's files at their numbers, ours above them. Returns the new numbers of the connection and of
    `control`."""
    above = max(request.open_files) + 1
    if above > NUMBER:  # the caller has a file of that number
        KEEPER.drop()
        CALLS_KEEPER.drop()
    high = {number: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for number, file in request.open_files.items()}
    folder = fcntl.fcntl(request.folder, fcntl.F_DUPFD_CLOEXEC, above)
    wire: int = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, above)
    request.life = fcntl.fcntl(request.life, fcntl.F_DUPFD_CLOEXEC, above)
    control_then = fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, above) if control < above else control
    os.fchdir(folder)
    connection.detach()
    _close_but([*high.values(), folder, wire, request.life, control_then, *_kept()])
    for number, file in high.items():
        os.dup2(file, number)
    for file in (*high.values(), folder):
        os.close(file)
    return wire, control_then


def _become(request: Request) -> None:
    os.umask(request.umask)
    for number in _OURS:
        if request.ignored >> number & 1:
            signal.signal(number, signal.SIG_IGN)
    if not request.ignored >> signal.SIGINT & 1:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _set_environment(request.environment)
    time.tzset()
    sys.argv = [os.fsdecode(word) for word in request.arguments]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _text_file(1, "surrogateescape", os.isatty(1))
    sys.stderr = _text_file(2, "backslashreplace", True)


def _set_environment(entries: list[bytes]) -> None:
    """Sets the environment, unless it is that of the last call, in the same order: each variable costs a microsecond twice."""
    wanted = [(key, value) for key, _, value in (entry.partition(b"=") for entry in entries)]
    if list(os.environb.items()) == wanted:
        return
    os.environ.clear()
    for key, value in wanted:
        os.environb[key] = value


#: The signals of a caller that a worker takes over.
_OURS: Final = tuple(
    sorted(
        {int(number) for number in signal.valid_signals()}
        - {int(number) for number in (signal.SIGKILL, signal.SIGSTOP, *PYTHON_IGNORES)}
    )
)


def _text_file(number: int, errors: str, by_line: bool) -> io.TextIOWrapper:
    raw = open(number, "wb", closefd=False)  # noqa: SIM115 (open until the process ends)
    return Cleaned(raw, encoding="utf-8", errors=errors, line_buffering=by_line)


def _watch(life: int) -> None:
    """Has the kernel kill this process when the caller ends: the pipe hangs up. Ends when the files of the call are
    closed. Nothing may ever be sent over this file: the kernel delivers a message to its reader first and signals
    O_ASYNC afterwards, so a reader that arms in between is signalled for a message that it has read already.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | fcntl.FASYNC)
    waiting = select.poll()
    waiting.register(life, select.POLLIN)
    if waiting.poll(0):
        os._exit(1)  # the caller ended before this


def _leave(wire: int, kind: int, value: int) -> NoReturn:
    """Sends the caller the exit status, and ends."""
    try:
        os.write(wire, REPORT.pack(MAGIC, kind, value))
    finally:
        os._exit(value)
