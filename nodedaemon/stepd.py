"""stepd: the supervisor of one step. Forked warm by the launcher, it runs to the end of the step and then to its own.

Sequence
    own session and sub-reaper; the script into the step folder; the control socket; CLAIM the start (the one
    moment that decides); groups; fork the task; wait until its program runs or it says why not; tell noded; obey
    orders; reap. When the task has ended, everything that it left is killed and reaped, then the exit record is
    written with fsync and rename.

Rules
    - No step folder or a claim by somebody else: nothing is started.
    - noded is not needed: orders come from whichever noded is there, telling it is a courtesy, the exit record is the
      report.
    - A failure before the program runs is an exit record with `failure` and no start time.
    - It stays outside the step's groups, so that neither a memory limit nor a kill of the group ends it.

Deliberately absent: time limits and escalation (the controller's and noded's), I/O forwarding (a batch step writes to
files).
"""

import contextlib
import os
import resource
import select
import signal
import socket
import stat
import struct
import time

from nodedaemon import orders, proctree, task
from nodedaemon.context import Context
from nodedaemon.crash import crash_point
from nodedaemon.folders import SCRIPT_NAME, open_folder
from nodedaemon.steprecord import STEPD, Claim, End, place_claim, place_end

#: How long to wait for killed processes before killing again: new ones may have been forked meanwhile.
KILL_AGAIN_MS = 200
#: The kernel counts what the task's process shared with stepd before its exec. At or below that plus this, nothing is
#: known.
FORK_RSS_KB = 4096
_BLOCK_BYTES = 512  # getrusage counts blocks of this size
_ORDER_BYTES_MAX = 4096
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
#: Exit status of a stepd that may not start anything: not its claim.
NOT_OURS = 0


def now_us() -> int:
    """Wall clock in microseconds."""
    return time.time_ns() // 1000


def run(context: Context, key: str, body: bytes) -> int:
    """The life of a stepd; its exit status. 0 = an exit record is in place, or the step was not ours."""
    os.setsid()
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    try:
        folder_fd = open_folder(key, context.steps_fd)
    except FileNotFoundError:
        return NOT_OURS
    os.dup2(context.null_fd, 2)  # whoever reads noded's messages must not wait for the end of a job
    crash_point("stepd.folder")
    try:
        return Supervisor(context, orders.decode_launch(key, body), folder_fd).run()
    except Exception as error:  # noqa: BLE001 (the last place where it can be told; the step counts as lost)
        _complain(context, key, f"{type(error).__name__}: {error}")
        return os.EX_SOFTWARE


def _complain(context: Context, key: str, text: str) -> None:
    with contextlib.suppress(OSError):  # noded is away: the step without exit record tells its successor as much
        context.packets.send(orders.trouble(key, text), socket.MSG_DONTWAIT)


class Supervisor:
    """One step on its way from claim to exit record."""

    def __init__(self, context: Context, order: orders.LaunchOrder, folder_fd: int) -> None:
        self._context = context
        self._order = order
        self._folder_fd = folder_fd
        self._folder_path = f"{context.steps_path}/{order.key}"
        self._task_pid = 0
        self._task_status: int | None = None
        self._start_at_us = 0
        self._failure = ""
        self._record_fd = -1
        self._error_fd = -1  # the task's own stderr, opened by it as the user
        self._wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def run(self) -> int:
        """From the claim to the exit record."""
        self._write_script()
        control = _open_control()
        if not self._claim(control):
            return NOT_OURS
        crash_point("stepd.claimed")
        self._start(control)
        self._clear()
        crash_point("stepd.ended")
        self._record()
        crash_point("stepd.recorded")
        return 0

    # -- before the claim

    def _write_script(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(SCRIPT_NAME, flags, 0o500, dir_fd=self._folder_fd)
        try:
            view = memoryview(self._order.script)
            while view:
                view = view[os.write(fd, view) :]
            if self._context.is_root:
                os.fchown(fd, self._order.user_id, self._order.group_id)
            os.fchmod(fd, 0o500)
        finally:
            os.close(fd)

    def _claim(self, control: socket.socket) -> bool:
        pid = os.getpid()
        address = control.getsockname()
        claim = Claim(STEPD, pid, proctree.start_time(pid), self._order.user_id, now_us(), address)
        self._record_fd = place_claim(self._folder_fd, claim)
        return self._record_fd >= 0

    # -- the task

    def _start(self, control: socket.socket) -> None:
        key, cgroups = self._order.key, self._context.cgroups
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            cgroups.create(key, self._order.memory_limit_mb)
            pid = os.fork()
        except OSError as error:
            self._failure = f"cannot start a process: {error.strerror}"
            return
        if pid == 0:
            try:
                ours.close()
                control.close()
                task.become(self._order, self._context, f"{self._folder_path}/{SCRIPT_NAME}", theirs)
            finally:
                os._exit(1)  # become() has said why
        theirs.close()
        self._task_pid = pid
        crash_point("stepd.forked")
        self._watch(control, ours)
        control.close()

    def _watch(self, control: socket.socket, status: socket.socket) -> None:
        """Obey and reap until the task has ended."""
        poll = select.poll()
        for source in (self._wake_read, control.fileno(), status.fileno()):
            poll.register(source, select.POLLIN)
        while self._task_status is None:
            ready = dict(poll.poll())
            if status.fileno() in ready and not self._hear_task(status):
                poll.unregister(status.fileno())
                status.close()
            if control.fileno() in ready:
                self._obey(control)
            if self._wake_read in ready:
                self._drain_wake()
                self._reap()
        if status.fileno() >= 0:  # the task may have ended before we looked at what it said
            while self._hear_task(status):
                pass
            status.close()

    def _hear_task(self, status: socket.socket) -> bool:
        """Read what the task says on its way to the program; False = it has said all."""
        try:
            text, fds, _, _ = socket.recv_fds(status, task.FAILURE_BYTES_MAX, 1)
        except ConnectionResetError:
            text, fds = b"", []
        if fds:
            self._error_fd = fds[0]
            return True
        if text:
            self._failure = text.decode("utf-8", "replace")
            return True
        if not self._failure and self._error_fd >= 0:  # closed by a successful exec
            self._began()
        return False

    def _began(self) -> None:
        self._start_at_us = now_us()
        packet = orders.began(self._order.key, self._start_at_us, self._task_pid)
        with contextlib.suppress(OSError):  # noded is away or far behind: it will learn it from the exit record
            self._context.packets.send(packet, socket.MSG_DONTWAIT)
        crash_point("stepd.began")

    # -- orders

    def _obey(self, control: socket.socket) -> None:
        try:
            data, ancillary, _, _ = control.recvmsg(_ORDER_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return
        if not _is_ours(ancillary):
            return
        signals, scope, note = orders.decode_signals(data)
        if scope != orders.SCOPE_BATCH and signal.SIGKILL in signals:
            self._clear()
            return
        for signum in signals:
            if scope == orders.SCOPE_BATCH:
                os.kill(self._task_pid, signum)  # not reaped yet, so the number is still the task's
            else:
                proctree.signal_descendants(os.getpid(), signum)
        if note:
            self._write_note(note)

    def _write_note(self, note: str) -> None:
        """A line for the error file, through the descriptor the user opened; by a child, as the file may hang."""
        if self._error_fd < 0 or not stat.S_ISREG(os.fstat(self._error_fd).st_mode):
            return
        if os.fork() == 0:
            try:
                os.write(self._error_fd, note.encode() + b"\n")
            finally:
                os._exit(0)

    # -- the end

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _reap(self) -> bool:
        """Collect the dead; False when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._task_pid:
                self._task_status = status

    def _clear(self) -> None:
        """Kill and reap all that the task left. Orphans come to us, so this ends with nothing left."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        while self._reap():
            proctree.signal_descendants(os.getpid(), signal.SIGKILL)
            if poll.poll(KILL_AGAIN_MS):
                self._drain_wake()

    def _record(self) -> None:
        key, cgroups = self._order.key, self._context.cgroups
        place_end(self._record_fd, self._end(cgroups.out_of_memory(key)))
        cgroups.remove(key)

    def _end(self, out_of_memory: bool) -> End:
        code, signum = _split_status(self._task_status or 0)
        if self._start_at_us:
            end_at_us = max(now_us(), self._start_at_us)
            return End(self._start_at_us, end_at_us, code, signum, "", out_of_memory, _usage())
        return End(0, now_us(), 0, 0, self._failure or _failure_of(signum), out_of_memory, _usage())


def _open_control() -> socket.socket:
    """A socket for orders, under an abstract name that the kernel chooses; the claim says which."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    control.bind("")
    return control


def _is_ours(ancillary: list[tuple[int, int, bytes]]) -> bool:
    """True when root, or the user that this stepd runs as, sent the order: the kernel says who."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            _, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            return uid in (0, os.geteuid())
    return False


def _usage() -> tuple[int, ...]:
    """What all reaped processes used: user and system CPU, largest RSS, bytes read and written."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (
        int(used.ru_utime * 1_000_000),
        int(used.ru_stime * 1_000_000),
        used.ru_maxrss if used.ru_maxrss > own_kb + FORK_RSS_KB else 0,
        used.ru_inblock * _BLOCK_BYTES,
        used.ru_oublock * _BLOCK_BYTES,
    )


def _split_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _failure_of(signum: int) -> str:
    return f"ended by signal {signum} before its program was started" if signum else "the task could not be started"
