"""A GPU child process as its parent sees it: started, read from, abandoned when a call does not return.

A child announces each call, so that the parent knows what it does and since when. A call that takes longer than slow_s
is logged; after hung_s it is assumed never to return, and so is a child that is silent for much longer than it should
be. Then the owner is notified, and kills it. SIGKILL does not end a process inside a driver that hangs: such a child is
left behind, and is gone when its connection closes.

Nothing here blocks the loop. Deliberately absent: reactions to these events (watch).
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from nodedaemon.core.gpumessages import Asking
from nodedaemon.gpu.frames import BadGpuFrame, ChildMessage, Frames, ProbeCommand, Setup, pack, read_message

log = logging.getLogger("penstock.noded")

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
#: For tests, which cannot wait for minutes: names of Limits with values, as "hung_s=1 retry_s=0.5".
LIMITS_VARIABLE = "PENSTOCK_GPU_LIMITS"
#: Commands that a child has not read yet; it reads them between polls.
_UNREAD_MAX = 65536


@dataclass(frozen=True)
class ChildLimits:
    """Time limits of a child's calls, in seconds."""

    start_s: float = 10.0  # of one call at the daemon's start, which waits for it
    slow_s: float = 5.0
    hung_s: float = 60.0
    kill_s: float = 2.0  # for SIGKILL to end a child that is not stuck
    restart_first_s: float = 1.0  # before a child that ended is started again; doubled each time
    restart_most_s: float = 300.0
    retry_s: float = 180.0  # between checks for a driver where there was none
    return_s: float = 15.0  # between checks for one that was there
    merge_s: float = 0.5  # for the kernel's log to report an XID too
    twice_s: float = 1.0  # the same XID again within this time is the same one
    left_max: float = 3  # children that SIGKILL does not end; with this many no more are started


def limits_of(environment: Mapping[str, str]) -> ChildLimits:
    """The default limits, with the changes of LIMITS_VARIABLE. Raises ValueError."""
    names = {field.name for field in fields(ChildLimits)}
    given = dict(word.split("=", 1) for word in environment.get(LIMITS_VARIABLE, "").split())
    if unknown := sorted(given.keys() - names):
        raise ValueError(f"{LIMITS_VARIABLE}: {unknown[0]}")
    return replace(ChildLimits(), **{name: float(value) for name, value in given.items()})


class Child(asyncio.SubprocessProtocol):
    """One child process. `gone` is called once, when it has ended and all its messages were read."""

    def __init__(
        self,
        mode: str,
        limits: ChildLimits,
        on_message: "Callable[[Child, ChildMessage], None]",
        hung: "Callable[[Child], None]",
        gone: "Callable[[Child], None]",
    ) -> None:
        self.mode = mode
        self.asking: Asking | None = Asking("start")
        self.polls = 0  # in a row, counted by the owner
        self.is_killed = False
        self._limits = limits
        self._deliver = on_message
        self._hung = hung
        self._gone = gone
        self._frames = Frames()
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()  # time of the last message
        self._idle_s = limits.hung_s
        self._reported_slow = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended = asyncio.Event()

    async def start(self, setup: Setup) -> None:
        """Starts the process. Raises OSError."""
        self.settle(setup.beat_s if self.mode == "xids" else setup.poll_s)
        await self._loop.subprocess_exec(
            lambda: self, sys.executable, "-s", "-P", PROGRAM, self.mode,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=None, start_new_session=True,
        )  # fmt: skip
        if self.is_killed:  # meanwhile
            self.kill()
            return
        self.send(setup)
        self._check_time()

    def settle(self, quiet_s: float) -> None:
        """Sets how long it may be silent."""
        self._idle_s = quiet_s + self._limits.hung_s

    def send(self, command: ProbeCommand) -> bool:
        """Sends a message. False when it does not read, or has ended."""
        pipe = self._transport.get_pipe_transport(0) if self._transport and not self.ended.is_set() else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing():
            return False
        if pipe.get_write_buffer_size() > _UNREAD_MAX:
            return False
        pipe.write(pack(command))
        return True

    def kill(self) -> None:
        """Kills it, if it can be killed."""
        self.is_killed = True
        self._stop_timer()
        if self._transport is not None:
            self._transport.close()  # its pipes too: its further output is ignored

    @property
    def pid(self) -> int:
        """Its pid; 0 when it was never started."""
        return self._transport.get_pid() or 0 if self._transport else 0

    # -- SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when the child runs."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called with output of the child."""
        if self.is_killed:
            return
        try:
            words = [read_message(body) for body in self._frames.feed(data)]
        except BadGpuFrame as error:
            log.error("GPU child %s sent an invalid message: %s", self.mode, error)
            self.kill()
            return
        self._at = self._loop.time()
        for word in words:
            if isinstance(word, Asking):
                self.asking = word if word.function else None
                self._reported_slow = False
            else:
                self.asking = None
                self._deliver(self, word)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the child has ended."""
        self._stop_timer()
        self.ended.set()
        self._gone(self)

    # -- deadlines

    def _check_time(self) -> None:
        """Checks the duration of the present call, and schedules the next check."""
        limits, age_s = self._limits, self._loop.time() - self._at
        most_s = limits.hung_s if self.asking else self._idle_s
        if age_s >= most_s:
            self._timer = None
            self.asking = self.asking or Asking("(nothing)")
            self._hung(self)
            return
        next_s = limits.slow_s
        if self.asking and age_s >= limits.slow_s and not self._reported_slow:
            self._reported_slow = True
            log.warning("NVML is slow: %s of %s since %.0f s", self.asking.function, self.asking.gpu or "all", age_s)
        self._timer = self._loop.call_later(min(next_s, most_s - age_s), self._check_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
