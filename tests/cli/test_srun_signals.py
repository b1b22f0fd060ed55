"""Signals that srun receives: what it does with those of a terminal, in a process of their own, as they stop it."""

import os
import signal
from typing import NoReturn

import pytest

from cli.base import run
from cli.steps.signals import SignalCatcher
from penstock.eventloop import Loop


def stops_at(*caught: signal.Signals) -> bool:
    """Whether a process stops that has received these before its loop turns."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            loop = Loop()
            seen: list[int] = []
            catcher = SignalCatcher(loop, seen.append)
            for number in caught:
                os.kill(os.getpid(), number)
            loop.turn()
            catcher.close()
            status = 0 if seen == list(caught) else 2
        finally:
            os._exit(status)
    _, how = os.waitpid(pid, os.WUNTRACED)
    if stopped := os.WIFSTOPPED(how):
        assert os.WSTOPSIG(how) == signal.SIGSTOP
        os.kill(pid, signal.SIGCONT)
        _, how = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(how) == 0
    return stopped


def test_a_stop_from_the_terminal_stops_it() -> None:
    assert stops_at(signal.SIGTSTP)


def test_a_stop_that_has_been_undone_does_not() -> None:
    assert not stops_at(signal.SIGTSTP, signal.SIGCONT)


def test_a_stop_after_that_does() -> None:
    assert stops_at(signal.SIGCONT, signal.SIGTSTP)


def _report_signals(to: int) -> NoReturn:
    """Sends itself SIGTSTP and reports each signal that the catcher reports, until it is killed."""
    try:
        loop = Loop()

        def report(number: int) -> None:
            os.write(to, bytes([number]))

        SignalCatcher(loop, report)
        os.kill(os.getpid(), signal.SIGTSTP)
        while True:
            loop.turn()
    finally:
        os._exit(1)


def test_a_process_that_the_shell_does_not_see_waits_and_is_never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher stops and may be continued before its child stops: SIGSTOP would come after SIGCONT then."""
    monkeypatch.setattr(run, "is_served", True)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _report_signals(write)
    os.close(write)
    assert os.read(read, 1) == bytes([signal.SIGTSTP])
    os.kill(pid, signal.SIGUSR1)  # kept until it goes on, as for a process that is stopped
    os.kill(pid, signal.SIGCONT)
    assert {*os.read(read, 1), *os.read(read, 1)} == {signal.SIGUSR1, signal.SIGCONT}
    os.kill(pid, signal.SIGKILL)
    _, how = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSIGNALED(how)
    os.close(read)
