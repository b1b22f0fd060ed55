"""A GPU child as its parent sees it: started, listened to, given up when a call does not return.

A child announces each call, so that the parent knows what it does and since when. A call that takes longer than slow_s
is a line in the log; after hung_s it is taken never to return, and so is a child that says nothing for much longer than
it should. Then the owner is told, and kills it. SIGKILL does not end a process inside a driver that hangs: such a child
is left behind, and is gone when its connection is.

Nothing here blocks the loop; deliberately absent: what is done about any of it (watch).
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from nodedaemon.core.gpuwords import Asking
from nodedaemon.gpu.frames import BadFrame, Command, Frames, Setup, Word, pack, read_word

log = logging.getLogger("penstock.noded")

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
#: For tests, which cannot wait for minutes: names of Limits with values, as "hung_s=1 retry_s=0.5".
LIMITS_VARIABLE = "PENSTOCK_GPU_LIMITS"
#: Commands that a child has not read yet; it reads them between polls.
_UNREAD_MAX = 65536


@dataclass(frozen=True)
class Limits:
    """How long what may take, in seconds."""

    start_s: float = 10.0  # of one call at the daemon's start, which waits for it
    slow_s: float = 5.0
    hung_s: float = 60.0
    kill_s: float = 2.0  # for SIGKILL to end a child that is not stuck
    again_first_s: float = 1.0  # before a child that ended is started again; doubled each time
    again_most_s: float = 300.0
    retry_s: float = 180.0  # between looks for a driver where there was none
    return_s: float = 15.0  # between looks for one that was there
    merge_s: float = 0.5  # for the kernel's log to tell of an XID too
    twice_s: float = 1.0  # the same XID again within this is the same one
    left_max: float = 3  # children that do not die; with so many no more are started


def limits_of(environment: Mapping[str, str]) -> Limits:
    """The usual ones, but for what LIMITS_VARIABLE says. Raises ValueError."""
    names = {field.name for field in fields(Limits)}
    given = dict(word.split("=", 1) for word in environment.get(LIMITS_VARIABLE, "").split())
    if unknown := sorted(given.keys() - names):
        raise ValueError(f"{LIMITS_VARIABLE}: {unknown[0]}")
    return replace(Limits(), **{name: float(value) for name, value in given.items()})


class Child(asyncio.SubprocessProtocol):
    """One child process. `gone` is called once, when it has ended and all that it said was heard."""

    def __init__(
        self,
        mode: str,
        limits: Limits,
        heard: "Callable[[Child, Word], None]",
        hung: "Callable[[Child], None]",
        gone: "Callable[[Child], None]",
    ) -> None:
        self.mode = mode
        self.asking: Asking | None = Asking("start")
        self.polls = 0  # in a row, for the owner
        self.is_killed = False
        self._limits = limits
        self._heard, self._hung, self._gone = heard, hung, gone
        self._frames = Frames()
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()  # of the last word
        self._idle_s = limits.hung_s
        self._told_slow = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended = asyncio.Event()

    async def start(self, setup: Setup) -> None:
        """Raises OSError."""
        self.settle(setup.beat_s if self.mode == "xids" else setup.poll_s)
        await self._loop.subprocess_exec(
            lambda: self, sys.executable, "-s", "-P", PROGRAM, self.mode,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=None, start_new_session=True,
        )  # fmt: skip
        if self.is_killed:  # meanwhile
            self.kill()
            return
        self.send(setup)
        self._look()

    def settle(self, quiet_s: float) -> None:
        """How long it may have nothing to say."""
        self._idle_s = quiet_s + self._limits.hung_s

    def send(self, command: Command) -> bool:
        """False when it does not read what it is sent, or has ended."""
        pipe = self._transport.get_pipe_transport(0) if self._transport and not self.ended.is_set() else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing():
            return False
        if pipe.get_write_buffer_size() > _UNREAD_MAX:
            return False
        pipe.write(pack(command))
        return True

    def kill(self) -> None:
        """End it, if it can be ended."""
        self.is_killed = True
        self._stop_looking()
        if self._transport is not None:
            self._transport.close()  # its pipes too: what it still says is of no interest

    @property
    def pid(self) -> int:
        """0 when it was never started."""
        return self._transport.get_pid() or 0 if self._transport else 0

    # -- SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It runs."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Words."""
        if self.is_killed:
            return
        try:
            words = [read_word(body) for body in self._frames.feed(data)]
        except BadFrame as error:
            log.error("GPU child %s said nonsense: %s", self.mode, error)
            self.kill()
            return
        self._at = self._loop.time()
        for word in words:
            if isinstance(word, Asking):
                self.asking = word if word.function else None
                self._told_slow = False
            else:
                self.asking = None
                self._heard(self, word)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._stop_looking()
        self.ended.set()
        self._gone(self)

    # -- deadlines

    def _look(self) -> None:
        """Look at what it does, and look again when that could be too long."""
        limits, age_s = self._limits, self._loop.time() - self._at
        most_s = limits.hung_s if self.asking else self._idle_s
        if age_s >= most_s:
            self._timer = None
            self.asking = self.asking or Asking("(nothing)")
            self._hung(self)
            return
        next_s = limits.slow_s
        if self.asking and age_s >= limits.slow_s and not self._told_slow:
            self._told_slow = True
            log.warning("NVML is slow: %s of %s since %.0f s", self.asking.function, self.asking.gpu or "all", age_s)
        self._timer = self._loop.call_later(min(next_s, most_s - age_s), self._look)

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
