"""Turns signals that srun receives into notifications for its event loop: handlers do no work."""

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType

from cli.base import run
from penstock.eventloop import Loop

CAUGHT = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT, signal.SIGTSTP, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH,
)  # fmt: skip


class SignalCatcher:
    """Catches signals: while it is open, `on_signal` gets every caught signal's number from the loop. After SIGTSTP the
    process stops."""

    def __init__(self, loop: Loop, on_signal: Callable[[int], None], numbers: Iterable[int] = CAUGHT) -> None:
        self._loop = loop
        self._on_signal = on_signal
        self._caught: deque[int] = deque()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _noted) for number in numbers}
        loop.watch(self._read, self._on_wake)

    def close(self) -> None:
        """Restores the handlers."""
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            with contextlib.suppress(ValueError, TypeError):
                signal.signal(number, handler)
        self._loop.forget(self._read)
        os.close(self._read)
        os.close(self._write)

    def _take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._caught.extend(os.read(self._read, 4096))

    def _on_wake(self, events: int) -> None:
        self._take()
        while self._caught:
            number = self._caught.popleft()
            self._on_signal(number)
            if number == signal.SIGTSTP:
                self._stop()

    def _stop(self) -> None:
        """Stops as Ctrl-Z would have stopped this process, had it not been caught; not if SIGCONT has come since.

        A shell continues what it saw stop. It sees this process, which the kernel stops; or the command server's
        launcher, which stops by itself, before or after this: then SIGSTOP could follow SIGCONT, and nothing would
        continue this process. So it waits for SIGCONT instead, which the pipe keeps if it has come already.
        """
        self._take()
        while signal.SIGCONT not in self._caught:
            if not run.is_served:
                os.kill(os.getpid(), signal.SIGSTOP)
                break
            select.select([self._read], [], [])
            self._take()


def _noted(number: int, frame: FrameType | None) -> None:
    """Does nothing: the wakeup descriptor has the signal's number already."""
