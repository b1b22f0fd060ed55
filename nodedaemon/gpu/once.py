"""The inventory of GPUs at the daemon's start: one child, run once, before anything else.

A call that does not return within its limit is given up: its GPU is left out of a second try, or, where the call
concerns no GPU, the daemon starts without GPUs and logs why; the watcher tries again later. A child that does not die
is left.
"""

import contextlib
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass

from nodedaemon.core.gpumessages import Asking, Found, Polled
from nodedaemon.gpu.child import PROGRAM, limits_of
from nodedaemon.gpu.frames import BadGpuFrame, Frames, Setup, pack, read_message

#: Limit of one try: sixteen GPUs that have to be woken.
LIMIT_S = 20.0
#: Tries, each of which leaves out one more GPU.
TRIES = 3
_READ = 65536
_REAP_S = 0.2


@dataclass
class _Hung(Exception):
    """The last call that was announced."""

    asking: Asking


def find(call_limit_s: float | None = None, limit_s: float = LIMIT_S, program: str = PROGRAM) -> Found:
    """Returns the inventory, or why it is not available. call_limit_s: None = start_s of child.ChildLimits."""
    if call_limit_s is None:
        call_limit_s = limits_of(os.environ).start_s
    skip: tuple[int, ...] = ()
    for _ in range(TRIES):
        try:
            return _try_once(Setup(skip=skip), call_limit_s, limit_s, program)
        except _Hung as hung:
            asking = hung.asking
            why = f"NVML did not answer within {call_limit_s:.0f} s ({asking.function})"
            if not asking.gpu.startswith("#"):
                return Found(why=why)
            skip = (*skip, int(asking.gpu[1:]))
        except OSError as error:
            return Found(why=f"NVML could not be queried: {error.strerror}")
    return Found(why=why)


def _try_once(setup: Setup, call_limit_s: float, limit_s: float, program: str) -> Found:
    """Runs one try. Raises _Hung and OSError."""
    command = [sys.executable, "-s", "-P", program, "once"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        return _listen(child, setup, call_limit_s, time.monotonic() + limit_s)
    finally:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_REAP_S)


def _listen(child: "subprocess.Popen[bytes]", setup: Setup, call_limit_s: float, until: float) -> Found:
    assert child.stdin is not None and child.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        os.write(child.stdin.fileno(), pack(setup))
    asking, frames = Asking("start"), Frames()
    while True:
        wait_s = min(call_limit_s, until - time.monotonic())
        readable, _, _ = select.select([child.stdout], [], [], max(wait_s, 0))
        if not readable:
            raise _Hung(asking)
        data = os.read(child.stdout.fileno(), _READ)
        if not data:
            return Found(why="NVML's child ended without an answer; the daemon's log has its output")
        try:
            words = [read_message(body) for body in frames.feed(data)]
        except BadGpuFrame as error:
            return Found(why=f"NVML's child sent an invalid message: {error}")
        for word in words:
            if isinstance(word, Asking):
                asking = word
            elif isinstance(word, Polled) and word.found is not None:
                return word.found
