"""Detached processes: known again by more than their pid, stopped gently and then not."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.base import daemons
from nodedaemon.base import proctree

SLEEPER = "import signal, sys; print('ready', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"


def launch(folder: Path, code: str = SLEEPER, mark: str = "the-mark") -> daemons.DetachedProcess:
    log = folder / "daemon.log"
    process = daemons.start([sys.executable, "-c", code, mark], mark, log, os.environ)
    while "ready" not in "".join(daemons.tail(log)):
        assert daemons.is_running(process)
        daemons.pause([process], 0.01)
    return process


def test_start_detaches(tmp_path: Path) -> None:
    process = launch(tmp_path)
    assert daemons.is_running(process)
    assert os.getsid(process.pid) == process.pid
    assert os.readlink(f"/proc/{process.pid}/fd/0") == "/dev/null"
    assert daemons.stop([process], 10) == []
    assert not daemons.is_running(process)
    assert not Path(f"/proc/{process.pid}").exists()


def test_another_process_with_the_pid_is_not_it(tmp_path: Path) -> None:
    process = launch(tmp_path)
    for other in (replace(process, start_ticks=process.start_ticks + 1), replace(process, mark="other")):
        assert not daemons.is_running(other)
        assert daemons.stop([other], 1) == []
    assert daemons.is_running(process)
    daemons.stop([process], 10)


def test_a_process_nobody_has_waited_for_is_not_running() -> None:
    child = subprocess.Popen([sys.executable, "-c", "", "mark"])
    start_ticks = proctree.start_time(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not daemons.is_running(daemons.DetachedProcess(child.pid, start_ticks, "mark"))
    child.wait()


def test_stop_kills_who_does_not_listen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    stubborn, gentle = launch(tmp_path / "a", STUBBORN), launch(tmp_path / "b")
    assert daemons.stop([stubborn, gentle], 0.3) == [stubborn]
    assert not daemons.is_running(stubborn)
    assert not daemons.is_running(gentle)


def test_pause_ends_with_a_death(tmp_path: Path) -> None:
    process = launch(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    daemons.pause([process], 600)
    assert not daemons.is_running(process)
    os.waitpid(process.pid, 0)


def test_large_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "LOG_BYTES_MAX", 10)
    (tmp_path / "daemon.log").write_text("old words beyond the limit\n")
    daemons.stop([launch(tmp_path)], 10)
    assert (tmp_path / "daemon.log.old").read_text() == "old words beyond the limit\n"
    assert daemons.tail(tmp_path / "daemon.log") == ["ready"]


def test_tail_is_short_and_survives_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xff\n" + b"".join(b"line %d\n" % i for i in range(5000)))
    assert daemons.tail(tmp_path / "log") == [f"line {i}" for i in range(4985, 5000)]
    assert daemons.tail(tmp_path / "none") == []
