"""Detached processes of the user: start them, identify them later, stop them.

A pid alone does not identify a process: the kernel reuses it. So a process is identified by pid, start time
(/proc/PID/stat, clock ticks since boot) and a word of its command line; signals go through a pidfd that was opened
before the check, so that they reach the process that was checked. Deliberately absent: restarting what died (systemd
does that for a site; another `penstock up` does it for a user).
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: A log larger than this is renamed to NAME.log.old when its daemon starts (one generation).
LOG_BYTES_MAX = 10 * 1024 * 1024
#: How much of a log is shown when its daemon failed.
TAIL_LINES = 15
TAIL_BYTES = 8192
_STATE, _START_TICKS = 0, 19  # fields of /proc/PID/stat after the name in parentheses


@dataclass(frozen=True, slots=True)
class DetachedProcess:
    """One process that was started here, with what identifies it later."""

    pid: int
    start_ticks: int
    mark: str  # a word of its command line


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def is_running(process: DetachedProcess) -> bool:
    """Whether the pid still belongs to that process; a zombie counts as gone."""
    stat = _stat(process.pid)
    if not stat or stat[_STATE] in "ZX" or int(stat[_START_TICKS]) != process.start_ticks:
        return False
    try:
        line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # For a moment in the middle of exec the kernel shows an empty command line; the start time has matched already.
    return not line or os.fsencode(process.mark) in line.split(b"\0")


def start(words: list[str], mark: str, log: Path, environment: Mapping[str, str]) -> DetachedProcess:
    """Starts a daemon: own session, no terminal, output to the end of its log. `mark` must be one of `words`."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_name(log.name + ".old"))
    with open(log, "ab") as output:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=dict(environment),
            start_new_session=True,
        )
    # Until we wait for it, the child keeps its pid even if it has died already: this reads its own entry.
    process = DetachedProcess(child.pid, int(_stat(child.pid)[_START_TICKS]), mark)
    # The daemon outlives this program; Popen must not complain about that.
    child.returncode = 0
    return process


def _open(process: DetachedProcess) -> int | None:
    """A pidfd of the process, or None when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_running(process):
        return handle
    os.close(handle)
    return None


@contextlib.contextmanager
def _handles(processes: Iterable[DetachedProcess]):  # type: ignore[no-untyped-def]
    handles = {h: p for p in processes if (h := _open(p)) is not None}
    try:
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def pause(processes: Iterable[DetachedProcess], limit_s: float) -> None:
    """Waits `limit_s`, or until one of the processes has ended; not at all if one has ended already."""
    processes = list(processes)
    with _handles(processes) as handles:
        if len(handles) < len(processes):
            return
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        poll.poll(limit_s * 1000)


def stop(processes: Iterable[DetachedProcess], limit_s: float) -> list[DetachedProcess]:
    """Sends SIGTERM to all, waits for them together, sends SIGKILL to those that are still there after `limit_s`.
    Returns those.
    """
    with _handles(processes) as handles:
        _signal(handles, signal.SIGTERM)
        stubborn = _wait(handles, limit_s)
        _signal(stubborn, signal.SIGKILL)
        _wait(stubborn, limit_s)
        return list(stubborn.values())


def _signal(handles: Mapping[int, DetachedProcess], number: signal.Signals) -> None:
    for handle in handles:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)


def _wait(handles: Mapping[int, DetachedProcess], limit_s: float) -> dict[int, DetachedProcess]:
    """Waits for all to end; returns those that have not."""
    left = dict(handles)
    poll = select.poll()
    for handle in left:
        poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + limit_s
    while left and (rest_s := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(rest_s * 1000):
            poll.unregister(handle)
            _reap(left.pop(handle).pid)
    return left


def _reap(pid: int) -> None:
    """Take the exit status if it is our own child, so that no zombie stays while this program runs."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def tail(log: Path) -> list[str]:
    """Returns the last lines of a log, which show why its daemon failed."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        return []
