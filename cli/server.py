"""The command server: one process of a user that has every short command imported, and workers that run them.

    python -c 'from cli.server import main; main()' FOLDER KEY LOCK

The launcher (native/launcher.c, whose head says what it is all for) starts it on the first call, in an environment of
nearly nothing, and holds the lock KEY.lock for it, whose number is LOCK. The socket is FOLDER/KEY; KEY stands for
everything that a caller must have in common with this process, so whoever can connect and is of our uid is served.

What is done here is little, since it must never go wrong: accept, look whether the installed code is still the code
that is in memory, hand the connection to a worker, and report a worker that a signal ended. A worker (served.py) is a
fork of this process: it serves one call at a time, and another one only after a call that went well; a fork for each
call would take twice the CPU time, for pages that are copied. This process has one thread, no connection to a
controller, no token, and nothing of any call.

It ends when nothing was asked for `IDLE_S`, when its code is out of date, when its socket is no longer there, and when
it cannot go on. No caller is hurt by that: who is not greeted runs the command himself.
"""

import gc
import os
import select
import socket
import stat
import struct
import sys
import time
from typing import Final, NamedTuple, NoReturn

#: native/launcher.c has the same numbers and layouts.
MAGIC: Final = 0x50535401
READY, STALE, BUSY = 0, 1, 2
SIGNALLED: Final = 2
GREETING: Final = struct.Struct("=IIi")
REPORT: Final = struct.Struct("=IIi")

#: A quiet server goes after this; PENSTOCK_COMMAND_SERVER_IDLE_S is another number of seconds.
IDLE_S: Final = 300
#: Calls at a time. Beyond them the machine has more to do than it can, and a plain start is as good.
WORKERS_MAX: Final = 64
#: Workers that wait for a call: some shells' loops. After a quiet time (`REST_S`) only the server itself is left.
RESTING_MAX: Final = 8
REST_S: Final = 10
#: The code is looked at this often: an upgrade takes longer.
LOOK_S: Final = 0.1
BACKLOG: Final = 128
_PEERCRED: Final = struct.Struct("iII")

#: What is imported before the first fork: the commands, and what they import only when they need it.
COMMANDS: Final = (
    "sbatch", "squeue", "sinfo", "sacct", "sacctmgr", "scancel", "scontrol", "sdiag", "sprio", "sshare", "sstat", "seff",
    "sreport",
)  # fmt: skip
LATER: Final = (
    "cli.served", "cli.squeue_steps", "cli.showsteps", "cli.jsonout", "cli.jsonnode", "cli.jsonacct", "cli.confirm",
    "cli.sreport_usage", "cli.sreport_cluster", "cli.sreport_jobs",
    "penstock.values.dates", "penstock.values.taskset", "google.protobuf.message_factory", "pwd", "grp",
)  # fmt: skip
#: Folders whose modules are watched: the packages, by their names.
OURS: Final = ("cli", "penstock")


class FileMark(NamedTuple):
    """What a file is known by. Another one of it means other content."""

    device: int
    inode: int
    size: int
    changed_ns: int


class Worker:
    """A forked process. `connection` is that of the call it serves; None = it waits for one."""

    __slots__ = ("connection", "control", "pid")

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self.connection: socket.socket | None = None


class Server:
    """Listens, hands out, reports."""

    def __init__(self, listener: socket.socket, path: str, code: "dict[str, FileMark | None]") -> None:
        self._listener = listener
        self._path = path
        self._inode = os.stat(path).st_ino
        self._code = code
        self._looked_at = time.monotonic()
        self._workers: dict[int, Worker] = {}  # by the descriptor of `control`
        self._waiting = select.poll()
        self._waiting.register(listener, select.POLLIN)

    def serve(self, idle_s: int) -> None:
        """Until there is no more to do. In a worker this does not return."""
        last_call = time.monotonic()
        while True:
            quiet_s = REST_S if self._workers else idle_s
            ready = self._waiting.poll(min(quiet_s, idle_s) * 1000)
            if not ready:
                self._dismiss(0)
                if time.monotonic() - last_call >= idle_s and not self._workers:
                    return
            if not self._is_in_place():
                return
            # First who is free again, then who wants one: the other way round would fork a worker too many.
            for file, _ in sorted(ready, key=lambda pair: pair[0] == self._listener.fileno()):
                if file != self._listener.fileno():
                    self._hear(self._workers.get(file))
                    continue
                last_call = time.monotonic()
                if not self._accept():
                    return

    def close(self) -> None:
        """No more calls; those that are under way come to their end. The lock goes last, with the process."""
        if self._is_in_place():
            os.unlink(self._path)
        self._waiting.unregister(self._listener)
        self._listener.close()
        self._dismiss(0)
        while self._workers:
            for file, _ in self._waiting.poll():
                self._hear(self._workers.get(file))
            self._dismiss(0)

    def _is_in_place(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _accept(self) -> bool:
        """Serve one caller. False: this process is of no more use."""
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # it has gone
            return True
        except OSError:  # no more descriptors: to look again at once would only cost time
            return False
        uid = _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))[1]
        if uid != os.getuid():  # only root could have come this far
            connection.close()
            return True
        if self._is_outdated():
            greet(connection, STALE)
            connection.close()
            return False
        try:
            worker = self._worker()
            socket.send_fds(worker.control, [b"c"], [connection.fileno()])
        except OSError:  # no more processes, or the worker has just died: the caller goes his own way
            greet(connection, BUSY)
            connection.close()
            return True
        worker.connection = connection
        return True

    def _is_outdated(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return False
        self._looked_at = now
        return code_marks(self._code) != self._code

    def _worker(self) -> Worker:
        """One that waits, the last one that did something before all others; or a new one. OSError: none."""
        for worker in reversed(self._workers.values()):
            if worker.connection is None:
                return worker
        if len(self._workers) >= WORKERS_MAX:
            raise BlockingIOError
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            self._become_worker(its)
        its.close()
        worker = Worker(pid, ours)
        self._workers[ours.fileno()] = worker
        self._waiting.register(ours, select.POLLIN)
        return worker

    def _become_worker(self, control: socket.socket) -> NoReturn:
        """Nothing of the server stays open: not its lock, and not the connections of others."""
        from cli import served

        try:
            wire = control.detach()
            os.closerange(3, wire)
            os.closerange(wire + 1, wire + WORKERS_MAX * 4)
            served.work(socket.socket(fileno=wire))
        finally:
            os._exit(1)

    def _hear(self, worker: Worker | None) -> None:
        """A worker is free again, or has ended."""
        if worker is None:  # dismissed a moment ago
            return
        try:
            word = worker.control.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:  # a new one, under the descriptor of one that was dismissed
            return
        except OSError:
            word = b""
        if worker.connection is not None and word:
            worker.connection.close()
            worker.connection = None
            self._dismiss(RESTING_MAX)
            return
        self._waiting.unregister(worker.control)
        del self._workers[worker.control.fileno()]
        worker.control.close()
        _report(worker.connection, os.waitpid(worker.pid, 0)[1])

    def _dismiss(self, kept: int) -> None:
        """Send workers home that wait, but for some."""
        resting = [worker for worker in self._workers.values() if worker.connection is None]
        for worker in resting[kept:]:
            worker.control.shutdown(socket.SHUT_WR)
            self._hear_end(worker)

    def _hear_end(self, worker: Worker) -> None:
        while worker.control.recv(1):
            continue
        self._hear(worker)


def code_marks(known: "dict[str, FileMark | None] | None" = None) -> "dict[str, FileMark | None]":
    """The files of the code that is in memory (or those of `known`) as they are now; None = gone."""
    return {path: _mark(path) for path in (code_files() if known is None else known)}


def code_files() -> list[str]:
    """Our modules, the interpreter, and the folders where packages are installed."""
    modules = (m for name, m in sys.modules.items() if name.partition(".")[0] in OURS)
    files = [file for file in (getattr(m, "__file__", None) for m in modules) if file]
    return [*files, sys.executable, *(entry for entry in sys.path if entry.endswith("-packages"))]


def _mark(path: str) -> FileMark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileMark(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def greet(connection: socket.socket, word: int) -> None:
    """The first thing that a caller hears, with the pid of who says it."""
    try:
        connection.send(GREETING.pack(MAGIC, word, os.getpid()), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        return  # the caller has gone


def _report(connection: socket.socket | None, status: int) -> None:
    """A worker that ended by itself has said so itself; here only that a signal ended it."""
    if connection is None:
        return
    with connection:
        if os.WIFSIGNALED(status):
            try:
                connection.send(REPORT.pack(MAGIC, SIGNALLED, os.WTERMSIG(status)), socket.MSG_DONTWAIT)
            except OSError:
                return


def is_ours(folder: str) -> bool:
    """Whether a folder belongs to this uid and nobody else can enter it; links are not followed."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def clear_dead(folder: str) -> None:
    """Remove what servers left that were killed: their locks can be had."""
    import fcntl

    for name in os.listdir(folder):
        if not name.endswith(".lock"):
            continue
        path = os.path.join(folder, name)
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in (path.removesuffix(".lock"), path):
                if os.path.lexists(left):
                    os.unlink(left)
        except OSError:  # it lives; or another has just removed it
            continue
        finally:
            os.close(lock)


def main() -> NoReturn:
    """The whole of a server's process."""
    began_ns = time.time_ns()
    folder, key, lock = sys.argv[1], sys.argv[2], int(sys.argv[3])
    path = os.path.join(folder, key)
    os.set_inheritable(lock, False)
    if not is_ours(folder):
        os._exit(1)
    for name in (*(f"cli.{command}" for command in COMMANDS), *LATER):
        __import__(name)
    from penstock.client import make_messages

    make_messages()
    code = code_marks()
    if any(mark is None or mark.changed_ns >= began_ns for mark in code.values()):
        os.unlink(path + ".lock")
        os._exit(0)  # it is being upgraded: what is in memory may be some of both
    clear_dead(folder)
    if os.path.lexists(path):
        os.unlink(path)  # we have its lock, so it is a dead one's
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(BACKLOG)
    gc.collect()
    gc.freeze()
    server = Server(listener, path, code)
    idle = os.environ.get("PENSTOCK_COMMAND_SERVER_IDLE_S", "")
    server.serve(int(idle) if idle.isascii() and idle.isdigit() and 0 < int(idle) < 86400 else IDLE_S)
    server.close()
    os.unlink(path + ".lock")
    os._exit(0)
