"""The command server: one process of a user that has every short command imported, and workers that run them.

    python -c 'from cli.commandserver.server import main; main()' FOLDER KEY LOCK

The launcher (native/launcher.c, whose head comment explains the purpose) starts it on the first call, with an almost
empty environment, and holds the lock KEY.lock for it, whose descriptor is LOCK. The socket is FOLDER/KEY; KEY is a
digest of everything that a caller must have in common with this process, so every caller that can connect and has our
uid is served. The server does little, since it must never fail: accept, check whether the installed code is still the
code in memory, pass the connection to a worker, and report a worker that a signal ended. A worker (served.py) is a fork
of this process: it serves one call at a time, and another one only after a call that went well; a fork for each call
would take twice the CPU time, for pages that are copied. This process has one thread, no connection to a controller, no
token, and nothing of any call.

It ends after `IDLE_S` without a call, when its code is out of date, when its socket is removed, and when it cannot
continue. No caller fails because of that: a launcher that gets no greeting runs the command itself.
"""

import gc
import os
import resource
import select
import socket
import stat
import sys
import time
from typing import Final, NamedTuple, NoReturn

from cli.commandserver.protocol import (
    BUSY,
    COMMANDS,
    DECLINED,
    LASTS,
    MAGIC,
    REPORT,
    SEND_FLAGS,
    SIGNALLED,
    STALE,
    greet,
)
from penstock.security.credentials import peer_credentials

#: An idle server ends after this; PENSTOCK_COMMAND_SERVER_IDLE_S overrides it, in seconds.
IDLE_S: Final = 300
#: The most concurrent calls but those that last. Beyond them the machine is overloaded, and a plain start is as good.
WORKERS_MAX: Final = 64
#: Descriptors of the server: two for each worker, and its own.
FILES_EACH: Final = 2
FILES_OWN: Final = 32
#: The most idle workers: the loops of some shells. After `REST_S` without a call only the server itself remains.
RESTING_MAX: Final = 8
REST_S: Final = 10
#: The interval between checks of the code: an upgrade takes longer.
CHECK_INTERVAL_S: Final = 0.1
BACKLOG: Final = 128
#: The launcher's mark of a first call in a job or on a terminal is kept for this.
MARK_S: Final = 600

#: Modules that commands import on demand, and the server before the first fork.
LATER: Final = (
    "cli.commandserver.served", "cli.listings.squeue_steps", "cli.control.showsteps", "cli.listings.jsonout",
    "cli.listings.jsonnode", "cli.listings.jsonacct", "cli.base.confirm",
    "cli.listings.sreport_usage", "cli.listings.sreport_cluster", "cli.listings.sreport_jobs",
    "cli.steps.session", "cli.steps.wiring", "cli.steps.terminal", "cli.steps.outcome", "cli.jobs.allocation", "ssl",
    "penstock.transport", "penstock.values.dates", "penstock.values.taskset", "google.protobuf.message_factory", "pwd", "grp",
)  # fmt: skip
#: Folders whose modules are watched: the packages, by their names.
OURS: Final = ("cli", "penstock")


class FileMark(NamedTuple):
    """The identity of a file's content. A different mark means different content."""

    device: int
    inode: int
    size: int
    changed_ns: int


class CommandWorker:
    """A forked process. `connection` is that of the call it serves; None = it waits for one."""

    __slots__ = ("connection", "control", "lasts", "pid")

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self.connection: socket.socket | None = None
        self.lasts = False  # its call waits for something else, and does not count


class CommandServer:
    """The server: listens, hands out connections, collects results."""

    def __init__(self, listener: socket.socket, path: str, code: "dict[str, FileMark | None]") -> None:
        self._listener = listener
        self._path = path
        self._inode = os.stat(path).st_ino
        self._code = code
        self._checked_at = time.monotonic()
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = (self._files - FILES_OWN) // FILES_EACH
        self._workers: dict[int, CommandWorker] = {}  # by the descriptor of `control`
        self._waiting = select.poll()
        self._waiting.register(listener, select.POLLIN)

    def serve(self, idle_s: int) -> None:
        """Serves until the server has to end. In a worker this does not return."""
        last_call = time.monotonic()
        while True:
            quiet_s = REST_S if self._workers else idle_s
            ready = self._waiting.poll(min(quiet_s, idle_s) * 1000)
            if not ready:
                self._stop_resting(0)
                if time.monotonic() - last_call >= idle_s and not self._workers:
                    return
            if not self._is_in_place():
                return
            # First the workers that became free, then new calls: the reverse order would fork a worker too many.
            for file, _ in sorted(ready, key=lambda pair: pair[0] == self._listener.fileno()):
                if file != self._listener.fileno():
                    self._receive(self._workers.get(file))
                    continue
                last_call = time.monotonic()
                if not self._accept():
                    return

    def close(self) -> None:
        """Accepts no more calls; those in progress are completed. The lock goes last, with the process."""
        if self._is_in_place():
            os.unlink(self._path)
        self._waiting.unregister(self._listener)
        self._listener.close()
        self._stop_resting(0)
        while self._workers:
            for file, _ in self._waiting.poll():
                self._receive(self._workers.get(file))
            self._stop_resting(0)

    def _is_in_place(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _accept(self) -> bool:
        """Serves one caller. False: this process has to end."""
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # it has gone
            return True
        except OSError:  # no more descriptors: an immediate retry would only cost time
            return False
        if peer_credentials(connection).uid != os.getuid():  # only root could have come this far
            connection.close()
            return True
        if self._is_outdated():
            greet(connection, STALE)
            connection.close()
            return False
        try:
            worker = self._worker()
            socket.send_fds(worker.control, [b"c"], [connection.fileno()])
        except OSError:  # no more processes, or the worker has just died: the launcher runs the command itself
            greet(connection, BUSY)
            connection.close()
            return True
        worker.connection = connection
        return True

    def _is_outdated(self) -> bool:
        now = time.monotonic()
        if now - self._checked_at < CHECK_INTERVAL_S:
            return False
        self._checked_at = now
        return code_marks(self._code) != self._code

    def _worker(self) -> CommandWorker:
        """An idle worker, the most recently used one first; or a new one. Raises OSError when there is none."""
        for worker in reversed(self._workers.values()):
            if worker.connection is None:
                return worker
        brief = sum(not worker.lasts for worker in self._workers.values())
        if brief >= WORKERS_MAX or len(self._workers) >= self._most:
            raise BlockingIOError
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            self._become_worker(its)
        its.close()
        worker = CommandWorker(pid, ours)
        self._workers[ours.fileno()] = worker
        self._waiting.register(ours, select.POLLIN)
        return worker

    def _become_worker(self, control: socket.socket) -> NoReturn:
        """Closes the server's descriptors in a worker: its lock and the connections of others."""
        from cli.commandserver import served

        try:
            wire = control.detach()
            os.closerange(3, wire)
            os.closerange(wire + 1, self._files)
            served.work(socket.socket(fileno=wire))
        finally:
            os._exit(1)

    def _receive(self, worker: CommandWorker | None) -> None:
        """Handles a worker that is free again or has ended."""
        if worker is None:  # dismissed a moment ago
            return
        try:
            word = worker.control.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:  # a new one, under the descriptor of one that was dismissed
            return
        except OSError:
            word = b""
        if word == LASTS:
            worker.lasts = True
            return
        if worker.connection is not None and word:
            worker.connection.close()
            worker.connection = None
            worker.lasts = False
            self._stop_resting(RESTING_MAX)
            return
        self._waiting.unregister(worker.control)
        del self._workers[worker.control.fileno()]
        worker.control.close()
        _report(worker.connection, os.waitpid(worker.pid, 0)[1])

    def _stop_resting(self, kept: int) -> None:
        """Ends idle workers, except for some."""
        resting = [worker for worker in self._workers.values() if worker.connection is None]
        for worker in resting[kept:]:
            worker.control.shutdown(socket.SHUT_WR)
            self._receive_signal(worker)

    def _receive_signal(self, worker: CommandWorker) -> None:
        while worker.control.recv(1):
            continue
        self._receive(worker)


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


def _report(connection: socket.socket | None, status: int) -> None:
    """Reports the signal that ended a worker; one that exited has reported itself. A worker that left some of the request
    unread had not begun: then the launcher runs the command itself.
    """
    if connection is None:
        return
    with connection:
        if os.WIFSIGNALED(status):
            try:
                report = (DECLINED, 0) if _has_unread(connection) else (SIGNALLED, os.WTERMSIG(status))
                connection.send(REPORT.pack(MAGIC, *report), SEND_FLAGS)
            except OSError:
                return


def _has_unread(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    if not any(events & select.POLLIN for _, events in waiting.poll(0)):
        return False
    return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))


def is_ours(folder: str) -> bool:
    """Whether a folder belongs to this uid and only its owner can enter it; links are not followed."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def clear_dead(folder: str) -> None:
    """Removes the files of servers that were killed: their locks are free."""
    import fcntl

    for name in os.listdir(folder):
        if not name.endswith(".lock"):
            continue
        path = os.path.join(folder, name)
        server = path.removesuffix(".lock")
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.lexists(server) and time.time() - os.fstat(lock).st_mtime < MARK_S:
                continue  # a first call's mark: the second one starts a server
            for left in (_unheard(server), server, path):
                if os.path.lexists(left):
                    os.unlink(left)
        except OSError:  # it lives; or another has just removed it
            continue
        finally:
            os.close(lock)


def _unheard(path: str) -> str:
    """The name of a server's socket before it listens. It is no longer than the other one, as such names are bounded."""
    folder, key = os.path.split(path)
    return os.path.join(folder, f".{key[:-2]}")


def listening(path: str) -> socket.socket:
    """A socket that listens, whose name is seen from then on: a caller that was refused before would run the command itself."""
    name = _unheard(path)
    for left in (path, name):
        if os.path.lexists(left):
            os.unlink(left)  # we have its lock, so it is a dead one's
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    listener.bind(name)
    os.chmod(name, 0o600)
    listener.listen(BACKLOG)
    os.rename(name, path)
    return listener


def main() -> NoReturn:
    """Runs a server."""
    began_ns = time.time_ns()
    folder = sys.argv[1]
    key = sys.argv[2]
    lock = int(sys.argv[3])
    path = os.path.join(folder, key)
    os.set_inheritable(lock, False)
    if not is_ours(folder):
        os._exit(1)
    for name in (*(f"cli.{command}" for command in COMMANDS), *LATER):
        __import__(name)
    from penstock.calls import make_messages

    make_messages()
    code = code_marks()
    if any(mark is None or mark.changed_ns >= began_ns for mark in code.values()):
        os.unlink(path + ".lock")
        os._exit(0)  # an upgrade is in progress: memory may have modules of both versions
    clear_dead(folder)
    gc.collect()
    gc.freeze()
    listener = listening(path)
    server = CommandServer(listener, path, code)
    idle = os.environ.get("PENSTOCK_COMMAND_SERVER_IDLE_S", "")
    server.serve(int(idle) if idle.isascii() and idle.isdigit() and 0 < int(idle) < 86400 else IDLE_S)
    server.close()
    os.unlink(path + ".lock")
    os._exit(0)
