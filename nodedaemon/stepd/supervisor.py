"""Supervises one step from claim to end: its tasks, its streams, its orders, its record.

Sequence
    write the script into the step folder; CLAIM the start (the deciding moment); make the groups; fork the tasks; wait
    until all of their programs run or one reports an error; report to noded; execute orders; reap. When all tasks have
    ended, all processes that they left are killed and reaped; then the exit record is written with fsync, and noded is
    notified.

    Only then follow the parts that depend on clients: the rest of the output and END are sent, and the owner's
    acknowledgement is awaited. So no client delays the end of a step, and no end of a step loses output: output that
    was written before the kill is in the kernel's pipes and is read as the owner reads it. The wait is bounded
    (LINGER_*); a stepd whose noded is gone leaves it to a child, so that the next noded sees the end at once.

Rules
    - Without the claim, or with another process's: nothing is started.
    - noded is not needed: any running noded may send orders, messages to it are optional, the exit record is the
      report.
    - A failure before all programs run is an exit record with `failure` and no start time.
    - stepd stays outside the step's groups, so that neither a memory limit nor a kill of the group ends it.

Deliberately absent: time limits and escalation (noded's), the computation of bindings (they are in the order).
"""

import contextlib
import os
import signal
import socket
import stat
import time

from nodedaemon.base import orders, proctree
from nodedaemon.base.folders import SCRIPT_NAME
from nodedaemon.base.lease import LAPSED, LOOKS, Lease
from nodedaemon.spool.steprecord import CANNOT_START, STEPD, TASK_END, Claim, StepEnd, write_claim, write_end
from nodedaemon.stepd import batchscript, plugs, taskhooks
from nodedaemon.stepd.reaped_usage import ReapedUsage
from nodedaemon.stepd.sampling import Sampler
from nodedaemon.stepd.session import NoSession, SessionPlug
from nodedaemon.stepd.stream_server import StreamConnection
from nodedaemon.stepd.streams import StreamHub
from nodedaemon.stepd.task import be_user, close_all_but
from nodedaemon.stepd.taskrecord import Task
from nodedaemon.stepd.tasks import Tasks
from penstock.crash import crash_point
from penstock.eventloop import LoopTimer
from penstock.values.sessions import SESSION_VARIABLE
from penstock.values.stepframes import FrameKind

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLSocket

    from nodedaemon.stepd.context import LauncherContext
    from nodedaemon.stepd.own import Own
    from nodedaemon.stepd.plugs import Plug
    from nodedaemon.stepd.tail import Tails
    from penstock.values.packing import PackedValue

#: Time to wait for killed processes before killing again: new ones may have been forked meanwhile.
KILL_AGAIN_S = 0.2
#: Processes that are reaped in one go.
REAPED_AT_ONCE_MAX = 1000
REAP_AGAIN_S = 0.001
#: Time limit for writing a note, when the step has ended meanwhile.
NOTE_WAIT_S = 1.0
#: Time that the streams of an ended step are kept for an owner who has disconnected; for one who never connected; and
#: for one who is connected and does not read (output in a pager).
OWNER_LOST_WAIT_S = 10.0
OWNER_NEVER_WAIT_S = 60.0
OWNER_STALLED_WAIT_S = 3600.0
#: Slurm's "signal" of a step that lost a process to the OOM killer: 0:125.
OUT_OF_MEMORY_SIGNAL = 125


class Supervisor:
    """The supervisor of a stepd's current step."""

    def __init__(self, own: "Own", order: orders.LaunchOrder, folder_fd: int) -> None:
        self._own = own
        self._context = own.context
        self.loop = own.loop
        self.order = order
        self._hub: StreamHub | None = None
        self._has_streams = order.kind != "batch"
        self.plugs: list[Plug] = []
        self.groups = own.context.cgroups.of(order)
        hub = self.hub if self._has_streams else None
        self.tasks = Tasks(order, own.context, own.loop, hub, self.plugs, self.groups, self._began, self._start_failed)
        self._folder_fd = folder_fd
        self._folder_path = f"{own.context.steps_path}/{order.key}"
        self._record_fd = -1
        self._claimed = b""
        self._is_frozen = False
        self._is_clearing = False
        self._is_clear = False
        self._is_output_dropped = False  # its output is no longer kept
        self._kill_timer: LoopTimer | None = None
        self._lease = Lease(own.context.contact_fd, order.lease_s, order.lease_grace_s) if order.lease_s else None
        self._end_note = ""  # why it was asked to end
        self._note_pid = 0
        self._note_timer: LoopTimer | None = None
        self._epilogs: dict[int, LoopTimer] = {}
        self._tails: Tails | None = None  # until the first question
        self._start_at_us = 0
        self._later_noded = b""  # the address of one that was started after this stepd, and receives its reports
        self._suspicion = "", ""  # what was said last
        self._failure = ""
        self._more: dict[str, PackedValue] = {}
        self._used = ReapedUsage()

    @property
    def context(self) -> "LauncherContext":
        """The launcher's context, shared by all stepds."""
        return self._context

    @property
    def folder_fd(self) -> int:
        """The step's folder in the spool."""
        return self._folder_fd

    @property
    def hub(self) -> StreamHub:
        """The step's streams; a batch script has none until the first question."""
        if self._hub is None:
            self._hub = StreamHub(self.loop, self.order.line_buffered)
        return self._hub

    def run(self) -> None:
        """Runs from the claim to the end; does nothing when another process has the claim."""
        if self.order.kind == "batch":
            order = self.order
            batchscript.provide(self._folder_fd, order.script, order.user_id, order.group_id, self._context.is_root)
        if not self._claim():
            return
        crash_point("stepd.claimed")
        if self._lease is not None:  # it is in force from now on
            self.loop.after(self.order.lease_s / LOOKS, self.enforce_lease)
        self._start()
        while not self._is_clear:
            self._turn()
        crash_point("stepd.ended")
        self._record()
        crash_point("stepd.recorded")
        self._close_files()  # a process that has them open has a step that has not ended (daemon/orphans.py)
        if self._has_streams and self.order.io_key:
            self._deliver_rest()
        elif self._tails is not None and self._tails.is_followed and self._report(orders.ended(self.order.key)):
            self._tails.serve_after_end(self._turn, lambda: self._is_output_dropped)

    @property
    def leaves_a_process(self) -> bool:
        """Whether a reader of its output is still held by a file system; it must not meet the next step."""
        return self._tails is not None and self._tails.pid > 0

    def close(self) -> None:
        """Closes everything, for the next step."""
        if self._hub is not None:
            self._hub.close()
        self.tasks.close()
        self.loop.clear_timers()
        self._close_files()
        self.plugs.clear()
        del self.tasks  # they refer to this step: the cycle would never be freed, as stepds run without the collector

    def _close_files(self) -> None:
        for fd in (self._folder_fd, self._record_fd):
            if fd >= 0:
                os.close(fd)
        self._folder_fd = -1
        self._record_fd = -1

    def _turn(self) -> None:
        self.loop.turn()
        if self._hub is not None and self._hub.connections:
            self._hub.flush()

    # -- before the claim

    def _claim(self) -> bool:
        own = self._own
        claim = Claim(
            STEPD, own.pid, own.pid_start, self.order.user_id, self._context.clock.now_us(), own.address, self.order.key
        )
        self._record_fd = write_claim(self._folder_fd, claim)
        self._claimed = claim.encode()
        return self._record_fd >= 0

    # -- the tasks

    def _start(self) -> None:
        key = self.order.key
        if self._has_streams:
            self.hub.open()
            self._report(orders.ready(key))
        try:
            self.groups.create()
            if self._has_streams or self.order.sample_every_s or SESSION_VARIABLE in self.order.environment:
                self.plugs += plugs.plugs_of(self.order)
            for plug in self.plugs:
                plug.open(self)
            self.tasks.start(f"{self._folder_path}/{SCRIPT_NAME}")
        except OSError as error:
            self.fail(f"{CANNOT_START}: {error.strerror or error}")
        crash_point("stepd.forked")

    def _began(self) -> None:
        """Called when all tasks' programs run."""
        self._start_at_us = self._context.clock.now_us()
        self._report(self._began_packet())
        crash_point("stepd.began")
        if self._later_noded:
            self.report_to(self._later_noded)
        if self._has_streams:
            self.hub.send_started([task.pid for task in self.tasks.all])
        for plug in self.plugs:
            plug.began()
        if self.order.profile_every_s and self._sampler() is None:
            self.loop.after(self.order.profile_every_s, self._profile_from_now_on)

    def ran_us(self) -> int:
        """How long the step has run."""
        return self._context.clock.now_us() - self._start_at_us if self._start_at_us else 0

    @property
    def is_frozen(self) -> bool:
        """Whether it is suspended on an order of the controller."""
        return self._is_frozen

    def suspect(self, kind: str, text: str) -> None:
        """Tells noded that the step is suspected to hang; an empty kind: it no longer is."""
        self._suspicion = kind, text
        if not self._report(orders.suspected(self.order.key, kind, text)):
            self._send(orders.suspected(self.order.key, kind, text))

    def signal_hanging(self, signum: int, text: str) -> None:
        """Sends the site's signal to a step that goes on to hang, says so in its error output, and tells noded."""
        packet, name = orders.hang_signalled(self.order.key, signum, text), f"SIGNAL {signum}"
        if not self._report(packet):
            self._send(packet)
        with contextlib.suppress(ValueError):  # a real-time signal has no name
            name = signal.Signals(signum).name
        self._write_note(f"slurmstepd: error: *** STEP {self.order.key} MAY HANG: {text}; SENT {name} ***")
        self.handle_signal((signum,), orders.SCOPE_ALL, "")

    def _began_packet(self) -> bytes:
        return orders.began(self.order.key, self._start_at_us, self.tasks.all[0].pid, self._claimed)

    def report_to(self, sender: bytes) -> None:
        """Reports to a noded that was not running when the step began: the start, now or when all programs run, and what
        is suspected of the step, now and whenever it changes."""
        self._later_noded = sender
        if self._start_at_us:
            self._send(self._began_packet())
        if self._suspicion[0]:
            self._send(orders.suspected(self.order.key, *self._suspicion))

    def _send(self, packet: bytes) -> None:
        if self._later_noded:
            with contextlib.suppress(OSError):  # that noded has ended, too
                self._own.control.sendto(packet, self._later_noded)

    def _start_failed(self, task: Task, text: str) -> None:
        if self._has_streams:
            self.hub.send(FrameKind.FAILED, text.encode(), task.rank)
        self.fail(text)

    def fail(self, text: str) -> None:
        """Ends a step that cannot continue, with this failure; all its processes are killed."""
        self._failure = self._failure or text
        self.tasks.has_failed = True
        self._begin_clear()

    def _report(self, packet: bytes) -> bool:
        """Sends a packet to noded. False: it is not running; it will read the exit record."""
        try:
            self._context.packets.send(packet, socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    # -- orders of noded and of clients

    def handle_signal(self, signals: tuple[int, ...], scope: int, note: str) -> None:
        """Executes an order: signals for the step, and a line for its error output."""
        if self._is_clear:
            self._is_output_dropped = signal.SIGKILL in signals
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
        # A node daemon that was restarted repeats an order to end; other notes have no signal.
        if note and (not signals or note != self._end_note):
            self._end_note = note if signals else self._end_note
            self._write_note(note)

    def move_cpus(self, cpus: list[int], job_cpus: list[int]) -> None:
        """Executes an order to continue on other CPUs."""
        from nodedaemon.stepd import moving  # loaded only where needed

        try:
            moving.move(self.order, self.groups, cpus, job_cpus)
        except OSError as error:
            self._write_note(
                f"slurmstepd: error: cannot move the step to the CPUs that its job has now: {error.strerror}"
            )

    def _signal_script(self, signum: int) -> None:
        for task in self.tasks.all:
            if task.pid and task.status is None:  # not reaped yet, so the number is still the task's
                with contextlib.suppress(PermissionError):  # it has changed its user (sudo), and we are not root
                    os.kill(task.pid, signum)

    def signal_tasks(self, signum: int) -> None:
        """Sends a signal on the owner's request; ValueError for what is no signal."""
        self.tasks.signal(signal.Signals(signum))

    def exchange(self, payload: bytes) -> None:
        """Passes on the combined data of all nodes of the step."""
        for plug in self.plugs:
            plug.exchange(payload)

    def answer(self, word: str) -> "dict[str, PackedValue]":
        """The answer to a client's question; empty for an unknown one."""
        if word == "pids":
            return {"pids": list(proctree.descendants(os.getpid())), "tasks": self._task_pids()}
        if word in Sampler.words and self._sampler() is None and not self._is_clear:
            self._sample_from_now_on()
        for plug in self.plugs:
            if word in plug.words:
                return plug.answer(word)
        return {}

    def ask_tail(self, text: str, is_own_key: bool, reply: "Callable[[bytes], None]") -> None:
        """Answers a client's question for a part of the output of a task here. Raises ValueError."""
        if self._tails is None:
            from nodedaemon.stepd.tail import Tails  # loaded only where needed

            self._tails = Tails(self.loop, self.order, self._context)
        self._tails.ask(text, [task.order for task in self.tasks.all], is_own_key, reply)

    def _sampler(self) -> Sampler | None:
        return next((plug for plug in self.plugs if isinstance(plug, Sampler)), None)

    def _profile_from_now_on(self) -> None:
        """Begins to sample a batch script for its profile."""
        (self._sampler() or self._sample_from_now_on()).tick()

    def _sample_from_now_on(self) -> Sampler:
        """Adds a sampler to a batch script, at the first request or for its profile."""
        sampler = Sampler(self.order)
        sampler.open(self)
        for task in self.tasks.by_pid.values():
            sampler.forked(task)
        sampler.count_before(self._used.cpu_s, self._used.blocks_read, self._used.blocks_written)
        self.plugs.append(sampler)
        return sampler

    def _task_pids(self) -> "list[PackedValue]":
        return [[task.rank, task.pid] for task in self.tasks.all if task.pid and task.status is None]

    def open_tunnel(self, client: "socket.socket | SSLSocket", answer: bytes) -> None:
        """Joins a client to the session that the job is, and sends it the answer first. Raises NoSession, OSError."""
        plug = next((plug for plug in self.plugs if isinstance(plug, SessionPlug)), None)
        if plug is None or self._is_clearing:
            raise NoSession("this job is no session")
        plug.take(client, answer)

    def take_connection(self, connection: socket.socket) -> None:
        """Takes a client that noded has passed on."""
        with contextlib.suppress(OSError):  # it has disconnected already
            StreamConnection(self, connection, self._context.tls())

    def _freeze(self, frozen: bool) -> None:
        """Freezes the groups, which includes processes that are just being forked and that SIGSTOP would miss."""
        if frozen != self._is_frozen:
            self._is_frozen = frozen
            self.groups.freeze(frozen)

    def enforce_lease(self) -> None:
        """Stops the step when its lease has expired: the controller cannot reach us, and may start the job
        elsewhere.
        """
        if self._lease is None or self._is_clear:
            return
        signum = self._lease.signal_due()
        if signum == signal.SIGTERM:
            job_id = self.order.key.split(".")[0]
            self._write_note(f"slurmstepd: error: *** JOB {job_id} CANCELLED DUE TO NODE FAILURE ***")
            self._freeze(False)
            self._ask_to_end()
        elif signum:
            self._begin_clear()
        self.loop.after(self._lease.wait_s(), self.enforce_lease)

    def _ask_to_end(self) -> None:
        for signum in (signal.SIGCONT, signal.SIGTERM):
            proctree.signal_descendants(os.getpid(), signum)

    def _write_note(self, note: str) -> None:
        """Writes a line to the error output. For a file, in a child that first becomes the user: what a descriptor of a
        user's leads to may check who uses it, refuse root (FUSE), or hang (NFS), also when it is only asked what it is."""
        if self._has_streams:
            self.hub.send(FrameKind.NOTE, note.encode())
            return
        error_fd = self.tasks.error_output()
        if error_fd < 0:
            return
        try:
            self._note_pid = os.fork()
        except OSError:  # the process table is full: perhaps that is why the step is being ended
            return
        if self._note_pid == 0:
            try:
                close_all_but(error_fd)
                if self._context.is_root:
                    be_user(self.order.user_id, self.order.group_id)
                if stat.S_ISREG(os.fstat(error_fd).st_mode):
                    os.write(error_fd, note.encode() + b"\n")
            finally:
                os._exit(0)

    # -- ends of tasks

    def reap(self) -> bool:
        """Reaps ended children; False when no child is left."""
        for _ in range(REAPED_AT_ONCE_MAX):
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_clear = self._is_clearing
                return False
            if pid == 0:
                return True
            if self._tails is not None and self._tails.reaped(pid):
                continue
            self._used.add(used)
            for plug in self.plugs:
                plug.reaped(pid, used)
            if pid in self.tasks.by_pid:
                self._task_ended(self.tasks.by_pid[pid], status)
            elif pid == self._note_pid:
                self._note_pid = 0
            elif pid in self._epilogs:
                self._epilogs.pop(pid).cancel()
            self._clear_if_ended()
        self.loop.after(REAP_AGAIN_S, self._reap_more)  # they die as fast as we reap: orders and streams get a turn
        return True

    def _reap_more(self) -> None:
        self.reap()

    def _task_ended(self, task: Task, status: int) -> None:
        self.tasks.note_end(task, status)
        if self._has_streams:
            self.hub.send_exited(task.rank, status)
        for plug in self.plugs:
            plug.ended(task)
        if self._is_clearing:
            return
        if status and self.order.kill_on_bad_exit and self._kill_timer is None and not self.tasks.have_ended:
            self._end_others()
        for program in self.order.task_epilog:
            with contextlib.suppress(OSError):  # no process can be forked: the step's end is what matters
                self._start_epilog(task, program)

    def _end_others(self) -> None:
        """Ends the other tasks, since one has failed and the step is to end with it."""
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
        if self._note_pid:  # let the write finish, if its file does not hang, before everything is killed
            if self._note_timer is None:
                self._note_timer = self.loop.after(NOTE_WAIT_S, self._begin_clear)
            return
        self._begin_clear()

    # -- the end

    def _begin_clear(self) -> None:
        """Kills and reaps all processes that are left. Orphans become our children, so this finds all of them."""
        if not self._is_clearing:
            self._is_clearing = True
            if self._tails is not None:
                self._tails.close()
            if self._is_frozen:
                self._freeze(False)  # frozen processes do not die
            self._clear_more()

    def _clear_more(self) -> None:
        if self.reap() and not (self._tails is not None and self._tails.is_left_alone):
            if not self.groups.signal_all(signal.SIGKILL):
                proctree.signal_descendants(os.getpid(), signal.SIGKILL)
            self.loop.after(KILL_AGAIN_S, self._clear_more)
        else:
            self._is_clear = True

    def _record(self) -> None:
        for plug in self.plugs:
            self._more |= plug.close()
        write_end(self._record_fd, self._end(self.groups.out_of_memory()))
        self.groups.remove()

    def _end(self, out_of_memory: bool) -> StepEnd:
        more = self._more
        if self._has_streams:
            ended = [(task.rank, task.status) for task in self.tasks.all if task.status is not None]
            more["tasks"] = b"".join(TASK_END.pack(rank, status) for rank, status in ended)
        if self._start_at_us:
            code, signum = _split_status(self.tasks.status())
            if out_of_memory:  # as Slurm reports it, whatever the program's own exit status
                code, signum = 0, OUT_OF_MEMORY_SIGNAL
            end_at_us = max(self._context.clock.now_us(), self._start_at_us)
            lapsed = LAPSED if self._lease is not None and self._lease.has_lapsed else ""
            failure = lapsed or self._failure
            return StepEnd(
                self._start_at_us, end_at_us, code, signum, failure, out_of_memory, self._used.recorded(), more
            )
        failure = self._failure or "ended before it was started"
        return StepEnd(0, self._context.clock.now_us(), 0, 0, failure, out_of_memory, self._used.recorded(), more)

    # -- after the end

    def _deliver_rest(self) -> None:
        """Delivers the rest to the owner, within limits."""
        if not self._report(orders.ended(self.order.key)):
            self._leave_to_child()
        self.hub.finish(self._failure)
        self.hub.flush()
        ended_s = time.monotonic()
        mark = (self.hub.kept.acknowledged, ended_s)  # last progress: acknowledged bytes, and since when

        def is_over() -> bool:
            nonlocal mark
            hub, now_s = self.hub, time.monotonic()
            if hub.is_delivered or self._is_output_dropped:
                return True
            if hub.kept.acknowledged != mark[0]:
                mark = (hub.kept.acknowledged, now_s)
            if hub.owner is not None:
                return now_s - mark[1] > OWNER_STALLED_WAIT_S
            since_s = max(ended_s, hub.owner_gone_s)
            return now_s - since_s > (OWNER_LOST_WAIT_S if hub.had_owner else OWNER_NEVER_WAIT_S)

        def tick() -> None:
            self.loop.after(1.0, tick)

        tick()
        while not is_over():
            self._turn()

    def _leave_to_child(self) -> None:
        """Ends this process, so that the next noded sees the step's end, and lets a child continue: noded is gone."""
        try:
            pid = os.fork()
        except OSError:  # then the end of the step is seen a little later
            return
        if pid:
            os._exit(0)
        self._own.feed.close()  # the launcher waits for its end


def _split_status(status: int) -> tuple[int, int]:
    """Splits a wait status into exit code and signal."""
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0
