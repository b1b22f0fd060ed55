"""noded's communication with launcher and stepds: sends orders, receives their reports, finds them again after a
restart.

Their messages become events of the core. A stepd of this noded's launcher is reaped by the launcher, which reports it;
a stepd of an earlier noded is watched through a pidfd, after boot id, pid and start time have proven that it is the
same process. In both cases the exit record describes the end, and a stepd that ended without one is a lost supervisor:
the processes that it supervised are killed here.

Deliberately absent: decisions (core), and blocking in the loop: blocking work runs in a worker thread.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial

import msgspec

from nodedaemon.base import orders, proctree
from nodedaemon.base.framing import unpack
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.core.machine import SCOPE_ALL, NodeMachine
from nodedaemon.core.messages import DeliverSignal, NodeCoreEvent, Notice, StepBegan, StepEnded
from nodedaemon.core.steps import ANY_CPUS, NodeStep, StepKey, StepState
from nodedaemon.daemon import orphans
from nodedaemon.daemon.launching import LauncherHandle
from nodedaemon.spool.spool import Spool
from nodedaemon.spool.steprecord import CANNOT_START, NEVER, Claim, decode_claim
from nodedaemon.stepd import control
from penstock.crash import crash_point
from penstock.values.jobid import BATCH_STEP, format_step
from penstock.values.signals import signal_name

log = logging.getLogger("penstock.noded")

#: Packets taken per wake-up of the loop, so that a burst of ends does not starve the stream.
PACKETS_PER_WAKE_MAX = 256
#: Bytes of an extern step's answer.
ANSWER_BYTES_MAX = 4096
NEVER_STARTED = "the node daemon was restarted before the step was started"
#: Ended steps of one user whose stepds still keep output for a client. Each is a process of ours that is charged to no
#: job: beyond this, the oldest loses its output.
KEPT_FOR_CLIENTS_MAX = 256
#: After this time a step is looked for again for which no descriptor was left.
ADOPT_AGAIN_S = 1.0
NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
#: Of what is said of a step that may hang.
SUSPICION_CHARS_MAX = 400
#: Times that one step is reported to hang or to go on, so that one that comes and goes does not fill the journal.
SUSPICIONS_MAX = 40
NO_SUPERVISOR = f"{CANNOT_START}: no process, memory or file descriptor is left for a supervisor"
NODE_REBOOTED = "the node was rebooted"
SUPERVISOR_LOST = "supervisor lost"
LEFT_OVER = "there may be processes"
RECORD_LOST = "the node lost the step's record: how it ended is not known"


class Supervisors:
    """All stepds of this node, ours and adopted."""

    def __init__(
        self,
        spool: Spool,
        launcher: LauncherHandle,
        cgroups: Cgroups,
        executor: Executor,
        post: Callable[[NodeCoreEvent], None],
        now_us: Callable[[], int],
    ) -> None:
        self._spool = spool
        self._launcher = launcher
        self._cgroups = cgroups
        self._executor = executor
        self._post = post
        self._now_us = now_us
        self._loop = asyncio.get_running_loop()
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)  # without an address
        self._adopted: dict[StepKey, int] = {}
        self._asked: dict[StepKey, socket.socket] = {}  # adopted steps: where their stepds report
        #: Of steps that have begun, the claims read then: the record may be lost later. None = there was none even
        #: then.
        self._claims: dict[StepKey, Claim | None] = {}
        self._suspicions: dict[StepKey, int] = {}  # how often each was reported
        self._clearing: set[StepKey] = set()  # steps whose leftover processes are being killed
        self._kept_for_clients: dict[StepKey, Claim] = {}  # ended steps whose stepds keep their output for a client
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: list[asyncio.TimerHandle] = []  # of what had no descriptor
        self._writer: asyncio.StreamWriter | None = None
        self.launcher_lost = asyncio.Event()
        self.on_ready: Callable[[StepKey], None] = lambda key: None  # a step with streams is ready
        self.on_suspected: Callable[[StepKey, str], None] = lambda key, kind: None  # "" = no longer

    async def open(self) -> None:
        """Starts to communicate with the launcher."""
        _, self._writer = await asyncio.open_unix_connection(sock=self._launcher.orders)
        self._launcher.packets.setblocking(False)
        self._loop.add_reader(self._launcher.packets.fileno(), self._receive)

    def close(self) -> None:
        """Disconnects: the launcher stays as long as it has stepds."""
        self._loop.remove_reader(self._launcher.packets.fileno())
        for timer in self._later:
            timer.cancel()
        for key in list(self._asked):
            self._end_question(key)
        for pidfd in self._adopted.values():
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._adopted.clear()
        if self._writer is not None:
            self._writer.close()
        self._control.close()
        self._launcher.packets.close()

    # -- orders

    def launch(self, key: StepKey, order: orders.LaunchOrder) -> None:
        """Hands a journaled launch to the launcher."""
        try:
            self._spool.make_folder(key)
        except OSError as error:
            self._ended_unstarted(key, f"cannot make the step folder: {error.strerror}")
            return
        assert self._writer is not None
        self._writer.write(order.encode())
        crash_point("launch.ordered")

    def refuse(self, key: StepKey, why: str) -> None:
        """Refuses a journaled launch that cannot be executed: something that the step needs is missing, and would be at
        a retry.
        """
        self._post(StepEnded(key, 0, self._now_us(), failure=why))

    def send(self, effect: DeliverSignal) -> None:
        """Signals a step through its stepd; a SIGKILL that no stepd takes is executed here."""
        claim, end = self._read(effect.key)
        if claim is None or claim.by == NEVER or end is not None:
            return  # not begun (the core sends it again then), or over
        order = orders.encode_signals(str(effect.key), effect.signals, effect.scope, effect.note)
        try:
            if effect.cpus != ANY_CPUS:
                move = orders.encode_move(str(effect.key), effect.cpus.step, effect.cpus.job)
                control.send(self._control, claim.control, move)
            control.send(self._control, claim.control, order)
        except OSError as error:
            log.warning(
                "step %s: its supervisor does not take signals %s: %s", effect.key, effect.signals, error.strerror
            )
            if signal.SIGKILL in effect.signals:
                self._in_thread(self._kill_leftovers, effect.key, claim)

    def address_of(self, key: StepKey) -> bytes:
        """The address at which a step's stepd takes orders; b"" when no stepd has claimed it, or it is gone."""
        if key in self._kept_for_clients:
            return self._kept_for_clients[key].control
        claim, _ = self._read(key)
        return claim.control if claim is not None and claim.by != NEVER else b""

    def _read(self, key: StepKey) -> tuple[Claim | None, StepEnded | None]:
        """Returns the step's record; its claim even when the record is gone."""
        claim, end = self._spool.read(key)
        return claim or self._claims.get(key), end

    # -- messages of launcher and stepds

    def _receive(self) -> None:
        for _ in range(PACKETS_PER_WAKE_MAX):
            try:
                data = self._launcher.packets.recv(orders.PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            if not data:
                self._loop.remove_reader(self._launcher.packets.fileno())
                self.launcher_lost.set()
                return
            self._take(unpack(data))

    def _ask(self, key: StepKey, claim: Claim) -> None:
        """Asks an adopted step for its reports: whether its tasks or its prolog have begun, and what is suspected of it, now
        and later. The kernel lets only its stepd answer. Raises OSError when no descriptor is left."""
        if key not in self._adopted:
            return  # it has ended
        sock = control.connected(claim.control)
        if sock is None:
            return  # it is ending: its record has the rest
        self._asked[key] = sock
        self._loop.add_reader(sock.fileno(), self._receive_answer, key)
        with contextlib.suppress(OSError):  # it has just ended
            control.send(sock, claim.control, orders.encode_signals(str(key), (), SCOPE_ALL, ""))

    def _receive_answer(self, key: StepKey) -> None:
        """Handles a report of an adopted step."""
        try:
            data = self._asked[key].recv(ANSWER_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:  # it is gone, which its pidfd reports
            data = b""
        if data:
            self._take(unpack(data))
        else:
            self._end_question(key)

    def _end_question(self, key: StepKey) -> None:
        sock = self._asked.pop(key, None)
        if sock is not None:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    def _take(self, packet: list[bytes]) -> None:
        kind, *values = packet
        if kind == orders.BEGAN:
            name, at_us, pid, *claim = values  # without a claim: of a stepd that an earlier release started
            key = _key(name)
            self._claims[key] = decode_claim(claim[0]) if claim and claim[0] else self._spool.read(key)[0]
            self._post(StepBegan(key, int(at_us), int(pid)))
        elif kind == orders.READY:
            self.on_ready(_key(values[0]))
        elif kind == orders.ENDED:
            self._keep_for_clients(_key(values[0]))
            self._stepd_ended(_key(values[0]), is_over=True)
        elif kind == orders.STEPDS_ENDED:
            for key, status in zip(map(_key, values[::2]), map(int, values[1::2]), strict=True):
                if self._kept_for_clients.pop(key, None) is None:  # else its end was handled, its folder may be removed
                    self._stepd_ended(key, status, is_over=status == 0)
        elif kind == orders.SUSPECTED:
            name, why, text = values
            self._suspect(_key(name), why.decode(), text.decode("utf-8", "replace")[:SUSPICION_CHARS_MAX])
        elif kind == orders.HANG_SIGNALLED:
            name, signum, text = values
            self._hang_signalled(_key(name), int(signum), text.decode("utf-8", "replace")[:SUSPICION_CHARS_MAX])
        elif kind == orders.SCRIPT_MESSAGE:
            name, text = values
            log.info("step %s: %s", name.decode(), text.decode("utf-8", "replace"))
        else:
            name, text = values
            log.error("step %s: its supervisor failed: %s", name.decode(), text.decode("utf-8", "replace"))

    def _suspect(self, key: StepKey, kind: str, text: str) -> None:
        """Reports that a step may hang, or that it no longer seems to; what is beyond the limit, by the metric alone."""
        self.on_suspected(key, kind)
        times = self._suspicions[key] = self._suspicions.get(key, 0) + 1
        if times > SUSPICIONS_MAX:
            return
        if kind:
            log.warning("step %s may hang: %s", key, text)
        else:
            log.info("step %s goes on", key)
        what = f"may hang: {text}" if kind else "goes on"
        last = "; further changes are not reported" if times == SUSPICIONS_MAX else ""
        self._post(Notice(f"step {format_step(key.step_id)} {what}{last}", key=key))

    def _hang_signalled(self, key: StepKey, signum: int, text: str) -> None:
        """Reports that its supervisor has sent a step the site's signal."""
        name = signal_name(signum)
        log.warning("step %s was sent SIG%s (PenstockHangAction): %s", key, name, text)
        said = f"step {format_step(key.step_id)} was sent SIG{name} (PenstockHangAction): {text}"
        self._post(Notice(said, key=key, signal=signum))

    def _keep_for_clients(self, key: StepKey) -> None:
        """Remembers the address until the process ends: the step folder may be removed before the client has read
        everything."""
        claim = self._claims.get(key) or self._spool.read(key)[0]
        if claim is None or claim.by == NEVER:
            return
        self._kept_for_clients[key] = claim
        if len(self._kept_for_clients) <= KEPT_FOR_CLIENTS_MAX:
            return
        of_user = [other for other, held in self._kept_for_clients.items() if held.user_id == claim.user_id]
        for other in of_user[:-KEPT_FOR_CLIENTS_MAX]:
            order = orders.encode_signals(str(other), (signal.SIGKILL,), SCOPE_ALL, "")
            with contextlib.suppress(OSError):  # it is ending by itself
                control.send(self._control, self._kept_for_clients[other].control, order)
            del self._kept_for_clients[other]

    def _stepd_ended(self, key: StepKey, status: int = 0, is_over: bool = False) -> None:
        """Handles the end of a stepd. `is_over`: it reported the end of all its processes; it may supervise another
        step by now."""
        if key in self._clearing:
            return
        claim, end = self._spool.read(key)
        has_begun, began = key in self._claims, self._claims.pop(key, None)
        self._suspicions.pop(key, None)
        if end is not None:
            self._ended(end)
        elif claim is not None and claim.by != NEVER:
            log.error("step %s: its supervisor has ended without a report (wait status %d)", key, status)
            self._clear(key, claim, SUPERVISOR_LOST)
        elif has_begun and is_over:
            log.error("step %s has ended, and its record is lost or damaged", key)
            self._post(self._lost(key, began, RECORD_LOST))
        elif has_begun:
            log.error("step %s: its supervisor and its record are lost", key)
            self._clear(key, began, RECORD_LOST)
        elif self._spool.claim_never(key, self._now_us()):
            if status == os.EX_OSERR << 8:
                self._ended_unstarted(key, NO_SUPERVISOR)
                self._post(Notice(NO_SUPERVISOR, drain=True, key=key))
            else:
                self._ended_unstarted(key, f"no supervisor could be started (wait status {status})")

    def _ended(self, end: StepEnded) -> None:
        """Handles an end as recorded. Where the node had no space for the step, the node is to be checked, not the
        job."""
        had_no_room = not end.start_at_us and end.failure.startswith(CANNOT_START)
        if had_no_room and end.key.step_id == BATCH_STEP:  # of several tasks, some may have run
            end = msgspec.structs.replace(end, untried=True)
        self._post(end)
        if had_no_room:
            self._post(Notice(end.failure, drain=True, key=end.key))

    # -- after a restart

    async def adopt(self, machine: NodeMachine) -> None:
        """Determines the state of every step that an earlier noded left; what is not in the spool is killed."""
        live = machine.live_steps()
        found_by_step: dict[str, list[int]] = {}
        if not self._spool.was_rebooted and any(_is_undecided(self._spool.read(step.key)[0]) for step in live):
            find = partial(orphans.by_step, self._spool.path, self._launcher.process.pid, self._spool.steps_fd)
            found_by_step = await self._loop.run_in_executor(self._executor, find)
        for step in live:
            self._in_time(step.key, self._find, step, found_by_step.get(str(step.key), []))
        known = {str(key) for key, step in machine.steps.items() if step.state is not StepState.TOMBSTONE}
        path, steps_fd = self._spool.path, -1 if self._spool.is_new else self._spool.steps_fd
        clear = partial(orphans.clear, self._cgroups, known, path, self._launcher.process.pid, steps_fd)
        if not await self._loop.run_in_executor(self._executor, clear):
            log.error("processes of steps without a record are left, and SIGKILL does not end them")
        stale = [_parse_key(name) for name in self._spool.folders() if name not in known]
        self._spool.sweep([key for key in stale if key is not None])

    def _in_time(self, key: StepKey, work: Callable[..., None], *args: object) -> None:
        """Does a part of a step's adoption; again after ADOPT_AGAIN_S, when no descriptor or memory is left for it, unless the
        daemon stops before. Raises OSError for any other reason."""
        try:
            work(*args)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            log.warning("step %s: not adopted yet: %s", key, error.strerror)
            self._later = [timer for timer in self._later if timer.when() > self._loop.time()]
            self._later.append(self._loop.call_later(ADOPT_AGAIN_S, self._in_time, key, work, *args))

    def _find(self, step: NodeStep, pids: list[int]) -> None:
        """Determines the state of a step. `pids`: supervisors that work on it, where its record does not name one."""
        key = step.key
        claim, end = self._spool.read(key)
        if end is not None:
            self._post(end)
        elif self._spool.was_rebooted:  # its claim may not even have reached the disk
            at_us = claim.at_us if claim else 0
            self._post(StepEnded(key, at_us, self._now_us(), failure=NODE_REBOOTED, rebooted=True))
        elif _is_undecided(claim) and self._spool.claim_never(key, self._now_us()):
            if step.state is StepState.RUNNING or any(map(proctree.children, pids)) or self._cgroups.members(str(key)):
                log.error(
                    "step %s: its record is lost or damaged; ending it, its supervisors are %s", key, pids or "gone"
                )
                self._clear(key, None, RECORD_LOST, pids)
            else:
                self._ended_unstarted(key, NEVER_STARTED)
        else:
            claim = self._spool.read(key)[0]  # none a moment ago: its stepd was faster
            assert claim is not None
            self._adopt_stepd(key, claim)

    def _adopt_stepd(self, key: StepKey, claim: Claim) -> None:
        """Watches a stepd. Raises OSError, and then nothing was done."""
        try:
            pidfd = os.pidfd_open(claim.pid)
        except ProcessLookupError:
            self._stepd_ended(key)
            return
        try:
            is_it = proctree.is_process(claim.pid, claim.pid_start)  # the pidfd is open: it is of that process
        except OSError:
            os.close(pidfd)
            raise
        if not is_it:
            os.close(pidfd)
            self._stepd_ended(key)
            return
        self._adopted[key] = pidfd
        self._claims[key] = claim
        self._loop.add_reader(pidfd, self._adopted_ended, key)
        log.info("step %s: adopted, supervisor pid %d", key, claim.pid)
        self._in_time(key, self._ask, key, claim)

    def _adopted_ended(self, key: StepKey) -> None:
        pidfd = self._adopted.pop(key)
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._end_question(key)
        self._stepd_ended(key)

    # -- a step without supervisor

    def _ended_unstarted(self, key: StepKey, why: str) -> None:
        self._post(StepEnded(key, 0, self._now_us(), failure=why, untried=True))

    def _clear(self, key: StepKey, claim: Claim | None, why: str, pids: Sequence[int] = ()) -> None:
        self._clearing.add(key)
        self._in_thread(self._clear_lost, key, claim, why, list(pids))

    def _clear_lost(self, key: StepKey, claim: Claim | None, why: str, pids: list[int]) -> None:
        """Kills the rest of a step, then reports its end. Blocks: in a worker thread. `pids`: supervisors that were
        found."""
        is_sure = claim is not None or bool(pids) or bool(self._cgroups.trees)
        is_empty = orphans.end(pids)
        if claim is not None:
            is_empty = proctree.kill_session(claim.pid, claim.user_id) and is_empty
        else:
            is_empty = orphans.end_script(str(key), self._spool.steps_fd) and is_empty
        is_empty = self._cgroups.kill(str(key)) and is_empty
        self._cgroups.remove(str(key))
        end = self._lost(key, claim, why)
        self._loop.call_soon_threadsafe(self._cleared, end, is_sure and is_empty)

    def _lost(self, key: StepKey, claim: Claim | None, why: str) -> StepEnded:
        """Returns the end of a step that has run, and whose real end is unknown."""
        now_us = self._now_us()
        return StepEnded(key, claim.at_us if claim else now_us, now_us, exit_signal=signal.SIGKILL, failure=why)

    def _cleared(self, end: StepEnded, is_empty: bool) -> None:
        """Reports the end; when processes may be left, the node is drained until an administrator has checked it."""
        if not is_empty:
            log.error("step %s: processes of it may be left", end.key)
            self._post(Notice(f"{LEFT_OVER} of step {end.key}", drain=True, key=end.key))
        self._post(end)
        self._clearing.discard(end.key)

    def _kill_leftovers(self, key: StepKey, claim: Claim) -> None:
        """Blocks: in a worker thread."""
        proctree.kill_session(claim.pid, claim.user_id)
        self._cgroups.kill(str(key))

    def _in_thread(self, work: Callable[..., None], *args: object) -> None:
        async def run() -> None:
            await self._loop.run_in_executor(self._executor, work, *args)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _key(text: bytes) -> StepKey:
    return StepKey(*map(int, text.split(b".")))


def _is_undecided(claim: Claim | None) -> bool:
    """True if no stepd made the claim: there is none, or a daemon's NEVER, which may be newer than a record that was
    lost."""
    return claim is None or claim.by == NEVER


def _parse_key(name: str) -> StepKey | None:
    with contextlib.suppress(ValueError):
        job_id, attempt, step_id = (int(word) for word in name.split("."))
        return StepKey(job_id, attempt, step_id)
    return None
