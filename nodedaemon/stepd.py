"""stepd: the supervisor of one step at a time. Forked warm by the launcher, fed by it, it outlives launcher and noded.

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
from nodedaemon.lease import LAPSED, Lease
from nodedaemon.steprecord import STEPD, Claim, End, place_claim, place_end

#: How long to wait for killed processes before killing again: new ones may have been forked meanwhile.
KILL_AGAIN_MS = 200
#: How long a note may take to be written, when the step has ended meanwhile.
NOTE_WAIT_S = 1.0
#: The kernel counts what the task's process shared with stepd before its exec. At or below that plus this, nothing is
#: known.
FORK_RSS_KB = 4096
_BLOCK_BYTES = 512  # getrusage counts blocks of this size
_ORDER_BYTES_MAX = 4096
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_FEED_READ_BYTES = 256 * 1024
#: What a stepd tells its launcher when a step is behind it.
DONE = b"."


def now_us() -> int:
    """Wall clock in microseconds."""
    return time.time_ns() // 1000


def run(context: Context, feed: socket.socket) -> int:
    """The life of a stepd: one step after the other from its feed; its exit status, 0 = nothing is left undone."""
    os.setsid()
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(context.null_fd, 2)  # whoever reads noded's messages must not wait for the end of a job
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    own = Own(context, wake_read, _open_control())
    while (framed := _read_order(feed)) is not None:
        key, body = framed
        try:
            stays = _supervise(own, key, body)
        except Exception as error:  # noqa: BLE001 (the last place where it can be told; the step counts as lost)
            _complain(context, key, f"{type(error).__name__}: {error}")
            return os.EX_SOFTWARE
        if not stays:
            return 0
        try:
            feed.send(DONE)
        except OSError:  # the launcher is gone
            return 0
    return 0


def _read_order(feed: socket.socket) -> tuple[str, bytes] | None:
    """The next order as key and body; None when there will be none."""
    data = b""
    wanted = orders.ORDER_HEAD.size
    while len(data) < wanted:
        part = feed.recv(_FEED_READ_BYTES)
        if not part:
            return None
        data += part
        if wanted == orders.ORDER_HEAD.size <= len(data):
            wanted += sum(orders.ORDER_HEAD.unpack_from(data))
    body_at = orders.ORDER_HEAD.size + orders.ORDER_HEAD.unpack_from(data)[0]
    return data[orders.ORDER_HEAD.size : body_at].decode(), data[body_at:]


def _supervise(own: "Own", key: str, body: bytes) -> bool:
    """One step; True when this stepd may have another one."""
    try:
        folder_fd = open_folder(key, own.context.steps_fd)
    except FileNotFoundError:
        return True  # decided by noded, and swept
    crash_point("stepd.folder")
    order = orders.decode_launch(key, body)
    if order.kind == "extern":
        from nodedaemon.holder import Holder  # what only a holder needs is not paid for by others

        Holder(own, order, folder_fd).run()
        return False  # its namespaces are not as they were, and children of a prolog are not the next step's
    step = Supervisor(own, order, folder_fd)
    try:
        step.run()
    finally:
        step.close()
    return True


def _complain(context: Context, key: str, text: str) -> None:
    with contextlib.suppress(OSError):  # noded is away: the step without an end tells its successor as much
        context.packets.send(orders.trouble(key, text), socket.MSG_DONTWAIT)


class Own:
    """What a stepd keeps from step to step."""

    __slots__ = ("address", "context", "control", "pid", "pid_start", "wake_read")

    def __init__(self, context: Context, wake_read: int, control: socket.socket) -> None:
        self.context = context
        self.wake_read = wake_read
        self.control = control
        self.address: bytes = control.getsockname()
        self.pid = os.getpid()
        self.pid_start = proctree.start_time(self.pid)


class Supervisor:
    """One step on its way from claim to end."""

    def __init__(self, own: Own, order: orders.LaunchOrder, folder_fd: int) -> None:
        self._own = own
        self._context = own.context
        self._wake_read = own.wake_read
        self._order = order
        self._folder_fd = folder_fd
        self._is_frozen = False
        self._lease = Lease(own.context.contact_fd, order.lease_s, order.lease_grace_s) if order.lease_s else None
        self._folder_path = f"{own.context.steps_path}/{order.key}"
        self._task_pid = 0
        self._task_status: int | None = None
        self._note_pid = 0
        self._start_at_us = 0
        self._failure = ""
        self._record_fd = -1
        self._error_fd = -1  # the task's own stderr, opened by it as the user
        self._used = [0.0, 0.0, 0, 0, 0]  # user and system CPU seconds, largest RSS kB, blocks read and written

    def run(self) -> None:
        """From the claim to the end; nothing when the claim is another's."""
        self._write_script()
        if not self._claim():
            return
        crash_point("stepd.claimed")
        self._start()
        self._clear()
        crash_point("stepd.ended")
        self._record()
        crash_point("stepd.recorded")

    def close(self) -> None:
        """Leave nothing open for the next step."""
        for fd in (self._folder_fd, self._record_fd, self._error_fd):
            if fd >= 0:
                os.close(fd)

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

    def _claim(self) -> bool:
        own = self._own
        claim = Claim(STEPD, own.pid, own.pid_start, self._order.user_id, now_us(), own.address)
        self._record_fd = place_claim(self._folder_fd, claim)
        return self._record_fd >= 0

    # -- the task

    def _start(self) -> None:
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
                task.become(self._order, self._context, f"{self._folder_path}/{SCRIPT_NAME}", theirs)
            finally:
                os._exit(1)  # become() has said why
        theirs.close()
        self._task_pid = pid
        crash_point("stepd.forked")
        self._watch(self._own.control, ours)

    def _watch(self, control: socket.socket, status: socket.socket) -> None:
        """Obey and reap until the task has ended."""
        poll = select.poll()
        for source in (self._wake_read, control.fileno(), status.fileno()):
            poll.register(source, select.POLLIN)
        while self._task_status is None:
            ready = dict(poll.poll(self._lease.wait_s() * 1000 if self._lease else None))
            self._heed_lease()
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
        key, signals, scope, note = orders.decode_signals(data)
        if key != self._order.key:
            return  # for a step that has ended
        if scope != orders.SCOPE_BATCH and signal.SIGKILL in signals:
            self._clear()
            return
        if scope != orders.SCOPE_BATCH and signal.SIGCONT in signals:
            self._freeze(False)
        for signum in signals:
            if scope == orders.SCOPE_BATCH:
                os.kill(self._task_pid, signum)  # not reaped yet, so the number is still the task's
            else:
                proctree.signal_descendants(os.getpid(), signum)
        if scope != orders.SCOPE_BATCH and signal.SIGSTOP in signals:
            self._freeze(True)
        if note:
            self._write_note(note)

    def _freeze(self, frozen: bool) -> None:
        """What SIGSTOP alone would miss: a process that is just being forked."""
        if frozen != self._is_frozen:
            self._is_frozen = frozen
            self._context.cgroups.freeze(self._order.key, frozen)

    def _write_note(self, note: str) -> None:
        """A line for the error file, through the descriptor the user opened; by a child, as the file may hang."""
        if self._error_fd < 0 or not stat.S_ISREG(os.fstat(self._error_fd).st_mode):
            return
        self._note_pid = os.fork()
        if self._note_pid == 0:
            try:
                os.write(self._error_fd, note.encode() + b"\n")
            finally:
                os._exit(0)

    def _await_note(self, poll: select.poll) -> None:
        """Let the note be written, if its file does not hang, before everything is killed."""
        end_s = time.monotonic() + NOTE_WAIT_S
        while self._note_pid and self._reap() and (left_s := end_s - time.monotonic()) > 0:
            if poll.poll(left_s * 1000):
                self._drain_wake()

    def _heed_lease(self) -> None:
        """Nobody has renewed it: whoever could tell us to stop cannot reach us, and may start the job elsewhere."""
        signum = self._lease.look() if self._lease else 0
        if signum == signal.SIGTERM:
            self._write_note(
                f"slurmstepd: error: *** JOB {self._order.key.split('.')[0]} CANCELLED DUE TO NODE FAILURE ***"
            )
            self._freeze(False)
            proctree.signal_descendants(os.getpid(), signal.SIGCONT)
            proctree.signal_descendants(os.getpid(), signal.SIGTERM)
        elif signum:
            self._clear()

    # -- the end

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _reap(self) -> bool:
        """Collect the dead; False when no child is left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._count(used)
            if pid == self._task_pid:
                self._task_status = status
            elif pid == self._note_pid:
                self._note_pid = 0

    def _count(self, used: resource.struct_rusage) -> None:
        """Add what a reaped process and its own reaped children have used."""
        total = self._used
        total[0] += used.ru_utime
        total[1] += used.ru_stime
        total[2] = max(total[2], used.ru_maxrss)
        total[3] += used.ru_inblock
        total[4] += used.ru_oublock

    def _usage(self) -> tuple[int, ...]:
        """User and system CPU in us, largest RSS in kB, bytes read and written."""
        user_s, system_s, rss_kb, blocks_read, blocks_written = self._used
        floor_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + FORK_RSS_KB
        return (
            int(user_s * 1_000_000),
            int(system_s * 1_000_000),
            int(rss_kb) if rss_kb > floor_kb else 0,
            int(blocks_read) * _BLOCK_BYTES,
            int(blocks_written) * _BLOCK_BYTES,
        )

    def _clear(self) -> None:
        """Kill and reap all that the task left. Orphans come to us, so this ends with nothing left."""
        self._freeze(False)  # frozen processes do not die
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        self._await_note(poll)
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
            failure = LAPSED if self._lease is not None and self._lease.has_lapsed else ""
            return End(self._start_at_us, end_at_us, code, signum, failure, out_of_memory, self._usage())
        return End(0, now_us(), 0, 0, self._failure or _failure_of(signum), out_of_memory, self._usage())


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


def _split_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _failure_of(signum: int) -> str:
    return f"ended by signal {signum} before its program was started" if signum else "the task could not be started"
