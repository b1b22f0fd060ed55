"""noded's dealings with launcher and stepds: hand over orders, hear how they fare, find them again after a restart.

What is heard becomes events of the core. A stepd of this noded's launcher is reaped by the launcher, which says so; a
stepd of an earlier noded is watched through a pidfd, after boot id, pid and start time have said that it is the same
process. In both cases the exit record tells the end, and a stepd that went without one is a lost supervisor: what it
supervised is killed here.

Deliberately absent: decisions (core), waiting for anything in the loop: what may block runs in a worker thread.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

import msgspec

from nodedaemon import control, orders, proctree, strays
from nodedaemon.cgroup import Cgroups
from nodedaemon.core.machine import SCOPE_ALL, NodeMachine
from nodedaemon.core.messages import Event, Notice, SignalStep, StepBegan, StepEnded
from nodedaemon.core.steps import StepKey, StepState
from nodedaemon.crash import crash_point
from nodedaemon.framing import unpack
from nodedaemon.launching import LauncherHandle
from nodedaemon.spool import Spool
from nodedaemon.steprecord import CANNOT_START, NEVER, Claim
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

log = logging.getLogger("penstock.noded")

#: Packets taken per wake-up of the loop, so that a storm of ends does not starve the stream.
PACKETS_PER_WAKE_MAX = 256
#: An answer of a holder is a few words.
ANSWER_BYTES_MAX = 4096
NEVER_STARTED = "the node daemon was restarted before the step was started"
#: Steps of one user that have ended and whose stepds still keep output for a client. Each is a process of ours that no
#: job accounts for: of more, the oldest loses its output.
LINGERING_MAX = 256
NODE_REBOOTED = "the node was rebooted"
SUPERVISOR_LOST = "supervisor lost"


class Supervisors:
    """All stepds of this node, ours and adopted."""

    def __init__(
        self,
        spool: Spool,
        launcher: LauncherHandle,
        cgroups: Cgroups,
        executor: Executor,
        post: Callable[[Event], None],
        now_us: Callable[[], int],
    ) -> None:
        self._spool = spool
        self._launcher = launcher
        self._cgroups = cgroups
        self._executor = executor
        self._post = post
        self._now_us = now_us
        self._loop = asyncio.get_running_loop()
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._control.bind("")  # a name of the kernel's, so that holders can answer
        self._adopted: dict[StepKey, int] = {}
        self._lingering: dict[StepKey, Claim] = {}  # steps that have ended, whose stepds keep their output for a client
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self.launcher_lost = asyncio.Event()
        self.tell_ready: Callable[[StepKey], None] = lambda key: None  # a step with streams has its stepd

    async def open(self) -> None:
        """Begin to talk with the launcher."""
        _, self._writer = await asyncio.open_unix_connection(sock=self._launcher.orders)
        self._launcher.packets.setblocking(False)
        self._loop.add_reader(self._launcher.packets.fileno(), self._hear)
        self._loop.add_reader(self._control.fileno(), self._hear_answer)

    def close(self) -> None:
        """Let go: the launcher stays as long as it has stepds."""
        self._loop.remove_reader(self._launcher.packets.fileno())
        self._loop.remove_reader(self._control.fileno())
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
        """Hand a journaled launch to the launcher."""
        try:
            self._spool.make_folder(key)
        except OSError as error:
            self._ended_unstarted(key, f"cannot make the step folder: {error.strerror}")
            return
        assert self._writer is not None
        self._writer.write(order.encode())
        crash_point("launch.ordered")

    def refuse(self, key: StepKey, why: str) -> None:
        """A journaled launch that cannot be: what the step needs is not there, and would not be the next time."""
        self._post(StepEnded(key, 0, self._now_us(), failure=why))

    def send(self, effect: SignalStep) -> None:
        """Signal a step through its stepd; a SIGKILL that no stepd takes is dealt here."""
        claim, end = self._spool.read(effect.key)
        if claim is None or claim.by == NEVER or end is not None:
            return  # not begun (the core says it again when it has), or over
        order = orders.encode_signals(str(effect.key), effect.signals, effect.scope, effect.note)
        try:
            control.send(self._control, claim.control, order)
        except OSError as error:
            log.warning(
                "step %s: its supervisor does not take signals %s: %s", effect.key, effect.signals, error.strerror
            )
            if signal.SIGKILL in effect.signals:
                self._in_thread(self._kill_leftovers, effect.key, claim)

    def address_of(self, key: StepKey) -> bytes:
        """Where a step's stepd takes orders; b"" when no stepd has claimed it, or it is gone."""
        if key in self._lingering:
            return self._lingering[key].control
        claim, _ = self._spool.read(key)
        return claim.control if claim is not None and claim.by != NEVER else b""

    # -- what launcher and stepds say

    def _hear(self) -> None:
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

    def _hear_answer(self) -> None:
        """What an adopted holder answers: that it has begun."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(ANSWER_BYTES_MAX, socket.CMSG_SPACE(control.CREDENTIALS.size))
        except BlockingIOError:
            return
        if control.is_own_word(ancillary):
            self._take(unpack(data))

    def _take(self, packet: list[bytes]) -> None:
        kind, *values = packet
        if kind == orders.BEGAN:
            key, at_us, pid = values
            self._post(StepBegan(_key(key), int(at_us), int(pid)))
        elif kind == orders.READY:
            self.tell_ready(_key(values[0]))
        elif kind == orders.ENDED:
            self._linger(_key(values[0]))
            self._stepd_gone(_key(values[0]))
        elif kind == orders.GONE:
            for key, status in zip(values[::2], values[1::2], strict=True):
                if self._lingering.pop(_key(key), None) is None:  # else its end was heard, its folder may be going
                    self._stepd_gone(_key(key), int(status))
        elif kind == orders.SAID:
            key, text = values
            log.info("step %s: %s", key.decode(), text.decode("utf-8", "replace"))
        else:
            key, text = values
            log.error("step %s: its supervisor failed: %s", key.decode(), text.decode("utf-8", "replace"))

    def _linger(self, key: StepKey) -> None:
        """Its step folder may be gone before its client has come: remember where it is until its process ends."""
        claim, _ = self._spool.read(key)
        if claim is None or claim.by == NEVER:
            return
        self._lingering[key] = claim
        if len(self._lingering) <= LINGERING_MAX:
            return
        of_user = [other for other, held in self._lingering.items() if held.user_id == claim.user_id]
        for other in of_user[:-LINGERING_MAX]:
            order = orders.encode_signals(str(other), (signal.SIGKILL,), SCOPE_ALL, "")
            with contextlib.suppress(OSError):  # it is going by itself
                control.send(self._control, self._lingering[other].control, order)
            del self._lingering[other]

    def _stepd_gone(self, key: StepKey, status: int = 0) -> None:
        claim, end = self._spool.read(key)
        if end is not None:
            self._ended(end)
        elif claim is not None and claim.by != NEVER:
            log.error("step %s: its supervisor is gone without a word (wait status %d)", key, status)
            self._in_thread(self._clear_lost, key, claim)
        elif self._spool.claim_never(key, self._now_us()):
            self._ended_unstarted(key, f"no supervisor could be started (wait status {status})")
            if status == os.EX_OSERR << 8:
                self._post(Notice(f"{CANNOT_START} of step {key}", drain=True, key=key))

    def _ended(self, end: StepEnded) -> None:
        """As the record says. Where the node had no room for it, it is the node that is looked at, and not the job."""
        had_no_room = not end.start_at_us and end.failure.startswith(CANNOT_START)
        if had_no_room and end.key.step_id == BATCH_STEP:  # of several tasks, some may have run
            end = msgspec.structs.replace(end, untried=True)
        self._post(end)
        if had_no_room:
            self._post(Notice(end.failure, drain=True, key=end.key))

    # -- after a restart

    async def adopt(self, machine: NodeMachine) -> None:
        """Find out what became of every step that an earlier noded left; what is not in the spool is killed."""
        for step in machine.live_steps():
            self._find(step.key)
        known = {str(key) for key, step in machine.steps.items() if step.state is not StepState.TOMBSTONE}
        path = self._spool.path if self._spool.is_new else None
        clear = partial(strays.clear, self._cgroups, known, path, self._launcher.process.pid)
        if not await self._loop.run_in_executor(self._executor, clear):
            log.error("processes of steps that nobody knows are left, and SIGKILL does not end them")
        stale = [_parse_key(name) for name in self._spool.folders() if name not in known]
        self._spool.sweep([key for key in stale if key is not None])

    def _find(self, key: StepKey) -> None:
        claim, end = self._spool.read(key)
        if end is not None:
            self._post(end)
        elif self._spool.was_rebooted:  # its claim may not even have reached the disk
            at_us = claim.at_us if claim else 0
            self._post(StepEnded(key, at_us, self._now_us(), failure=NODE_REBOOTED, rebooted=True))
        elif claim is None and self._spool.claim_never(key, self._now_us()):
            self._ended_unstarted(key, NEVER_STARTED)
        else:
            claim = claim or self._spool.read(key)[0]  # none a moment ago: its stepd was quicker
            assert claim is not None
            if claim.by == NEVER:
                self._ended_unstarted(key, NEVER_STARTED)
            else:
                self._adopt_stepd(key, claim)

    def _adopt_stepd(self, key: StepKey, claim: Claim) -> None:
        try:
            pidfd = os.pidfd_open(claim.pid)
        except ProcessLookupError:
            self._stepd_gone(key)
            return
        if proctree.start_time(claim.pid) != claim.pid_start:  # after the pidfd is open, so it is of that process
            os.close(pidfd)
            self._stepd_gone(key)
            return
        self._adopted[key] = pidfd
        self._loop.add_reader(pidfd, self._adopted_gone, key)
        log.info("step %s: adopted, supervisor pid %d", key, claim.pid)
        if key.step_id == EXTERN_STEP:  # its prolog may have ended while nobody was there to hear it
            with contextlib.suppress(OSError):  # it is going: its record tells the rest
                control.send(self._control, claim.control, orders.encode_signals(str(key), (), SCOPE_ALL, ""))

    def _adopted_gone(self, key: StepKey) -> None:
        pidfd = self._adopted.pop(key)
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._stepd_gone(key)

    # -- a step without supervisor

    def _ended_unstarted(self, key: StepKey, why: str) -> None:
        self._post(StepEnded(key, 0, self._now_us(), failure=why, untried=True))

    def _clear_lost(self, key: StepKey, claim: Claim) -> None:
        """Kill what a dead stepd supervised, then say so. Blocks: in a worker thread."""
        is_empty = proctree.kill_session(claim.pid, claim.user_id)
        is_empty = self._cgroups.kill(str(key)) and is_empty
        self._cgroups.remove(str(key))
        if not is_empty:
            log.error("step %s: processes of it are left that SIGKILL does not end", key)
        end = StepEnded(key, claim.at_us, self._now_us(), exit_signal=signal.SIGKILL, failure=SUPERVISOR_LOST)
        self._loop.call_soon_threadsafe(self._post, end)

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


def _parse_key(name: str) -> StepKey | None:
    with contextlib.suppress(ValueError):
        job_id, attempt, step_id = (int(word) for word in name.split("."))
        return StepKey(job_id, attempt, step_id)
    return None
