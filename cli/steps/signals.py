"""Signals that srun is sent, as things that the loop is told of: nothing is done inside a handler."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType

from cli.steps.loop import Loop

CAUGHT = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT, signal.SIGTSTP, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH,
)  # fmt: skip


class SignalDesk:
    """While it is open, `on_signal` gets every caught signal's number from the loop."""

    def __init__(self, loop: Loop, on_signal: Callable[[int], None], numbers: Iterable[int] = CAUGHT) -> None:
        self._loop = loop
        self._on_signal = on_signal
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _noted) for number in numbers}
        loop.watch(self._read, read=self._news)

    def close(self) -> None:
        """As it was before."""
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            with contextlib.suppress(ValueError, TypeError):
                signal.signal(number, handler)
        self._loop.forget(self._read)
        os.close(self._read)
        os.close(self._write)

    def _news(self) -> None:
        try:
            numbers = os.read(self._read, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            self._on_signal(number)


def _noted(number: int, frame: FrameType | None) -> None:
    """The number is in the pipe already."""


def stop_ourselves() -> None:
    """As Ctrl-Z would have, had it not been caught."""
    os.kill(os.getpid(), signal.SIGSTOP)
