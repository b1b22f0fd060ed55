"""One step on its way from claim to end: its tasks, its streams, its orders, its record.

Sequence
    the script into the step folder; CLAIM the start (the one moment that decides); groups; fork the tasks; wait until
    all of their programs run or one says why not; tell noded; obey orders; reap. When all tasks have ended, everything
    that they left is killed and reaped; then the exit record is written with fsync and rename, and noded is told.

    Only then comes what depends on clients: the rest of the output is sent, END, and the owner's acknowledgement is
    awaited. So no client holds up the end of a step, and no end of a step loses output: what was written before the
    kill is in the kernel's pipes and is read as the owner takes it. The wait is bounded (LINGER_*); a stepd whose noded
    is gone leaves it to a child, so that the next noded sees the end at once.

Rules
    - No claim, or one by somebody else: nothing is started.
    - noded is not needed: orders come from whichever noded is there, telling it is a courtesy, the exit record is the
      report.
    - A failure before all programs run is an exit record with `failure` and no start time.
    - It stays outside the step's groups, so that neither a memory limit nor a kill of the group ends it.

Deliberately absent: time limits and the controller's escalation (noded's), who is bound where (the order says it).
"""

import contextlib
import os
import resource
import signal
import socket
import stat
import time

from nodedaemon import orders, plugs, proctree, taskhooks
from nodedaemon.crash import crash_point
from nodedaemon.folders import SCRIPT_NAME
from nodedaemon.lease import LAPSED, LOOKS, Lease
from nodedaemon.loop import Timer
from nodedaemon.sampling import Sampler
from nodedaemon.steprecord import CANNOT_START, STEPD, TASK_END, Claim, End, now_us, place_claim, place_end
from nodedaemon.stream_server import Connection
from nodedaemon.streams import Hub
from nodedaemon.tasks import Task, Tasks
from penstock.values.stepframes import Kind

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from nodedaemon.context import Context
    from nodedaemon.plugs import Plug
    from nodedaemon.stepd import Own
    from penstock.values.packing import Value

#: How long to wait for killed processes before killing again: new ones may have been forked meanwhile.
KILL_AGAIN_S = 0.2
#: Processes that are collected in one go.
REAPED_AT_ONCE_MAX = 1000
REAP_AGAIN_S = 0.001
#: How long a note may take to be written, when the step has ended meanwhile.
NOTE_WAIT_S = 1.0
#: How long the streams of a step that has ended stay for an owner who is gone; for one who never came; and for one who
#: is there and takes nothing (a pager at the other end).
LINGER_GONE_S = 10.0
LINGER_NEVER_S = 60.0
LINGER_STALLED_S = 3600.0
#: The kernel counts what the task's process shared with stepd before its exec. At or below that plus this, nothing is
#: known.
FORK_RSS_KB = 4096
#: Slurm's "signal" of a step that lost a process for want of memory: 0:125.
OUT_OF_MEMORY_SIGNAL = 125
_BLOCK_BYTES = 512  # getrusage counts blocks of this size


class Supervisor:
    """The step that a stepd has in hand."""

    def __init__(self, own: "Own", order: orders.LaunchOrder, folder_fd: int) -> None:
        self._own = own
        self._context = own.context
        self.loop = own.loop
        self.order = order
        self._hub: Hub | None = None
        self._has_streams = order.kind != "batch"
        self.plugs: list[Plug] = []
        self.groups = own.context.cgroups.of(order)
        hub = self.hub if self._has_streams else None
        self.tasks = Tasks(order, own.context, own.loop, hub, self.plugs, self.groups, self._began, self._start_failed)
        self._folder_fd = folder_fd
        self._folder_path = f"{own.context.steps_path}/{order.key}"
        self._record_fd = -1
        self._is_frozen = False
        self._is_clearing = False
        self._is_clear = False
        self._is_dismissed = False  # its output is kept no longer
        self._kill_timer: Timer | None = None
        self._lease = Lease(own.context.contact_fd, order.lease_s, order.lease_grace_s) if order.lease_s else None
        self._note_pid = 0
        self._note_timer: Timer | None = None
        self._epilogs: dict[int, Timer] = {}
        self._start_at_us = 0
        self._failure = ""
        self._more: dict[str, Value] = {}
        self._used = [0.0, 0.0, 0, 0, 0]  # user and system CPU seconds, largest RSS kB, blocks read and written

    @property
    def context(self) -> "Context":
        """What the launcher gave its stepds."""
        return self._context

    @property
    def folder_fd(self) -> int:
        """The step's folder in the spool."""
        return self._folder_fd

    @property
    def hub(self) -> Hub:
        """The step's streams; a batch script has none until somebody comes to ask."""
        if self._hub is None:
            self._hub = Hub(self.loop, self.order.line_buffered)
        return self._hub

    def run(self) -> None:
        """From the claim to the end; nothing when the claim is another's."""
        if self.order.kind == "batch":
            self._write_script()
        if not self._claim():
            return
        crash_point("stepd.claimed")
        if self._lease is not None:  # it runs from now on
            self.loop.after(self.order.lease_s / LOOKS, self._heed_lease)
        self._start()
        while not self._is_clear:
            self._turn()
        crash_point("stepd.ended")
        self._record()
        crash_point("stepd.recorded")
        if self._has_streams and self.order.io_key:
            self._linger()

    def close(self) -> None:
        """Leave nothing open for the next step."""
        if self._hub is not None:
            self._hub.close()
        self.tasks.close()
        self.loop.clear_timers()
        for fd in (self._folder_fd, self._record_fd):
            if fd >= 0:
                os.close(fd)
        self.plugs.clear()
        del self.tasks  # they know this step: nobody would ever free the two, as stepds have no collector

    def _turn(self) -> None:
        self.loop.turn()
        if self._hub is not None and self._hub.connections:
            self._hub.flush()

    # -- before the claim

    def _write_script(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(SCRIPT_NAME, flags, 0o500, dir_fd=self._folder_fd)
        try:
            view = memoryview(self.order.script)
            while view:
                view = view[os.write(fd, view) :]
            if self._context.is_root:
                os.fchown(fd, self.order.user_id, self.order.group_id)
            os.fchmod(fd, 0o500)
        finally:
            os.close(fd)

    def _claim(self) -> bool:
        own = self._own
        claim = Claim(STEPD, own.pid, own.pid_start, self.order.user_id, now_us(), own.address)
        self._record_fd = place_claim(self._folder_fd, claim)
        return self._record_fd >= 0

    # -- the tasks

    def _start(self) -> None:
        key = self.order.key
        if self._has_streams:
            self.hub.open()
            self._tell(orders.ready(key))
        try:
            self.groups.create()
            if self._has_streams or self.order.sample_every_s:
                self.plugs += plugs.plugs_of(self.order)
            for plug in self.plugs:
                plug.open(self)
            self.tasks.start(f"{self._folder_path}/{SCRIPT_NAME}")
        except OSError as error:
            self.fail(f"{CANNOT_START}: {error.strerror or error}")
        crash_point("stepd.forked")

    def _began(self) -> None:
        """All tasks' programs run."""
        self._start_at_us = now_us()
        pids = [task.pid for task in self.tasks.all]
        self._tell(orders.began(self.order.key, self._start_at_us, pids[0]))
        crash_point("stepd.began")
        if self._has_streams:
            self.hub.tell_started(pids)
        for plug in self.plugs:
            plug.began()

    def _start_failed(self, task: Task, text: str) -> None:
        if self._has_streams:
            self.hub.send(Kind.FAILED, text.encode(), task.rank)
        self.fail(text)

    def fail(self, text: str) -> None:
        """The step cannot go on: it ends with this failure, and everything in it is killed."""
        self._failure = self._failure or text
        self.tasks.has_failed = True
        self._begin_clear()

    def _tell(self, packet: bytes) -> bool:
        """Say something to noded. False: it is away; it will learn what it needs from the exit record."""
        try:
            self._context.packets.send(packet, socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    # -- orders, of noded and of clients

    def obey(self, signals: tuple[int, ...], scope: int, note: str) -> None:
        """Signals for the step, and a line for its error output."""
        if self._is_clear:
            self._is_dismissed = signal.SIGKILL in signals
            return
        is_for_all = scope != orders.SCOPE_BATCH
        if is_for_all and signal.SIGKILL in signals:
            self._begin_clear()
            return
        if is_for_all and signal.SIGCONT in signals:
            self._freeze(False)
        for signum in signals:
            if is_for_all:
                proctree.signal_descendants(os.getpid(), signum)
            elif self.order.kind == "batch":
                self._signal_script(signum)
            else:
                self.tasks.signal(signum)
        if is_for_all and signal.SIGSTOP in signals:
            self._freeze(True)
        if note:
            self._write_note(note)

    def _signal_script(self, signum: int) -> None:
        for task in self.tasks.all:
            if task.pid and task.status is None:  # not reaped yet, so the number is still the task's
                with contextlib.suppress(PermissionError):  # it has become somebody else (sudo), and we are not root
                    os.kill(task.pid, signum)

    def signal_tasks(self, signum: int) -> None:
        """The owner's wish; ValueError for what is no signal."""
        self.tasks.signal(signal.Signals(signum))

    def exchange(self, payload: bytes) -> None:
        """What all nodes of the step have brought together."""
        for plug in self.plugs:
            plug.exchange(payload)

    def answer(self, word: str) -> "dict[str, Value]":
        """The answer to a client's question; empty for one that nobody understands."""
        if word == "pids":
            return {"pids": list(proctree.descendants(os.getpid())), "tasks": self._task_pids()}
        if word in Sampler.words and not any(word in plug.words for plug in self.plugs):
            self._sample_from_now_on()
        for plug in self.plugs:
            if word in plug.words:
                return plug.answer(word)
        return {}

    def _sample_from_now_on(self) -> None:
        """A batch script that nobody asked about so far has no sampler."""
        user_s, system_s, _, blocks_read, blocks_written = self._used
        sampler = Sampler(self.order)
        sampler.open(self)
        for task in self.tasks.by_pid.values():
            sampler.forked(task)
        sampler.count_before(user_s + system_s, blocks_read, blocks_written)
        self.plugs.append(sampler)

    def _task_pids(self) -> "list[Value]":
        return [[task.rank, task.pid] for task in self.tasks.all if task.pid and task.status is None]

    def take_connection(self, connection: socket.socket) -> None:
        """A client that noded has sent on."""
        with contextlib.suppress(OSError):  # it is gone already
            Connection(self, connection, self._context.tls())

    def _freeze(self, frozen: bool) -> None:
        """What SIGSTOP alone would miss: a process that is just being forked."""
        if frozen != self._is_frozen:
            self._is_frozen = frozen
            self.groups.freeze(frozen)

    def _heed_lease(self) -> None:
        """Nobody has renewed it: whoever could tell us to stop cannot reach us, and may start the job elsewhere."""
        if self._lease is None or self._is_clear:
            return
        signum = self._lease.look()
        if signum == signal.SIGTERM:
            job_id = self.order.key.split(".")[0]
            self._write_note(f"slurmstepd: error: *** JOB {job_id} CANCELLED DUE TO NODE FAILURE ***")
            self._freeze(False)
            self._ask_to_end()
        elif signum:
            self._begin_clear()
        self.loop.after(self._lease.wait_s(), self._heed_lease)

    def _ask_to_end(self) -> None:
        for signum in (signal.SIGCONT, signal.SIGTERM):
            proctree.signal_descendants(os.getpid(), signum)

    def _write_note(self, note: str) -> None:
        """A line for the error output. A file is written by a child, through the user's descriptor, as it may hang."""
        if self._has_streams:
            self.hub.send(Kind.NOTE, note.encode())
            return
        error_fd = self.tasks.error_fd
        if error_fd < 0 or not stat.S_ISREG(os.fstat(error_fd).st_mode):
            return
        try:
            self._note_pid = os.fork()
        except OSError:  # the process table is full: perhaps that is why the step is being ended
            return
        if self._note_pid == 0:
            try:
                os.write(error_fd, note.encode() + b"\n")
            finally:
                os._exit(0)

    # -- ends of tasks

    def reap(self) -> bool:
        """Collect the dead; False when no child is left."""
        for _ in range(REAPED_AT_ONCE_MAX):
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_clear = self._is_clearing
                return False
            if pid == 0:
                return True
            self._count(used)
            for plug in self.plugs:
                plug.reaped(pid, used)
            if pid in self.tasks.by_pid:
                self._task_ended(self.tasks.by_pid[pid], status)
            elif pid == self._note_pid:
                self._note_pid = 0
            elif pid in self._epilogs:
                self._epilogs.pop(pid).cancel()
            self._clear_if_ended()
        self.loop.after(REAP_AGAIN_S, self._reap_more)  # they die as fast as we count: orders and streams have a turn
        return True

    def _reap_more(self) -> None:
        self.reap()

    def _task_ended(self, task: Task, status: int) -> None:
        self.tasks.bury(task, status)
        if self._has_streams:
            self.hub.tell_exited(task.rank, status)
        for plug in self.plugs:
            plug.ended(task)
        if self._is_clearing:
            return
        if status and self.order.kill_on_bad_exit and self._kill_timer is None and not self.tasks.have_ended:
            self._end_others()
        for program in self.order.task_epilog:
            with contextlib.suppress(OSError):  # no room for a process: the step's end is what matters
                self._start_epilog(task, program)

    def _end_others(self) -> None:
        """One has failed and the others are not wanted without it."""
        self._ask_to_end()
        self._kill_timer = self.loop.after(self.order.kill_wait_s, self._begin_clear)

    def _start_epilog(self, task: Task, program: bytes) -> None:
        pid = self.tasks.start_epilog(task, program)

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

        self._epilogs[pid] = self.loop.after(taskhooks.EPILOG_S, kill)

    def _clear_if_ended(self) -> None:
        if self._is_clearing or self._epilogs or not self.tasks.have_ended:
            return
        if self._note_pid:  # let it be written, if its file does not hang, before everything is killed
            if self._note_timer is None:
                self._note_timer = self.loop.after(NOTE_WAIT_S, self._begin_clear)
            return
        self._begin_clear()

    def _count(self, used: resource.struct_rusage) -> None:
        """Add what a reaped process and its own reaped children have used."""
        total = self._used
        total[0] += used.ru_utime
        total[1] += used.ru_stime
        total[2] = max(total[2], used.ru_maxrss)
        total[3] += used.ru_inblock
        total[4] += used.ru_oublock

    # -- the end

    def _begin_clear(self) -> None:
        """Kill and reap all that is left. Orphans come to us, so this ends with nothing left."""
        if not self._is_clearing:
            self._is_clearing = True
            if self._is_frozen:
                self._freeze(False)  # frozen processes do not die
            self._clear_more()

    def _clear_more(self) -> None:
        if self.reap():
            if not self.groups.signal_all(signal.SIGKILL):
                proctree.signal_descendants(os.getpid(), signal.SIGKILL)
            self.loop.after(KILL_AGAIN_S, self._clear_more)
        else:
            self._is_clear = True

    def _record(self) -> None:
        for plug in self.plugs:
            self._more |= plug.close()
        place_end(self._record_fd, self._end(self.groups.out_of_memory()))
        self.groups.remove()

    def _end(self, out_of_memory: bool) -> End:
        more = self._more
        if self._has_streams:
            ended = [(task.rank, task.status) for task in self.tasks.all if task.status is not None]
            more["tasks"] = b"".join(TASK_END.pack(rank, status) for rank, status in ended)
        if self._start_at_us:
            code, signum = _split_status(self.tasks.status())
            if out_of_memory:  # as Slurm shows it, whatever the program made of it
                code, signum = 0, OUT_OF_MEMORY_SIGNAL
            end_at_us = max(now_us(), self._start_at_us)
            lapsed = LAPSED if self._lease is not None and self._lease.has_lapsed else ""
            failure = lapsed or self._failure
            return End(self._start_at_us, end_at_us, code, signum, failure, out_of_memory, self._usage(), more)
        failure = self._failure or "ended before it was started"
        return End(0, now_us(), 0, 0, failure, out_of_memory, self._usage(), more)

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

    # -- after the end

    def _linger(self) -> None:
        """Deliver what is left to the owner, within bounds."""
        if not self._tell(orders.ended(self.order.key)):
            self._leave_to_child()
        self.hub.finish(self._failure)
        self.hub.flush()
        ended_s = time.monotonic()
        mark = (self.hub.kept.acknowledged, ended_s)  # last progress: acknowledged so far, and since when

        def is_over() -> bool:
            nonlocal mark
            hub, now_s = self.hub, time.monotonic()
            if hub.is_delivered or self._is_dismissed:
                return True
            if hub.kept.acknowledged != mark[0]:
                mark = (hub.kept.acknowledged, now_s)
            if hub.owner is not None:
                return now_s - mark[1] > LINGER_STALLED_S
            since_s = max(ended_s, hub.owner_gone_s)
            return now_s - since_s > (LINGER_GONE_S if hub.had_owner else LINGER_NEVER_S)

        def look_again() -> None:
            self.loop.after(1.0, look_again)

        look_again()
        while not is_over():
            self._turn()

    def _leave_to_child(self) -> None:
        """noded is gone, and its successor knows this process: let it see the end, and let a child go on."""
        try:
            pid = os.fork()
        except OSError:  # then the end of the step is seen a little later
            return
        if pid:
            os._exit(0)
        self._own.feed.close()  # the launcher listens for the end of it


def _split_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait status."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0
