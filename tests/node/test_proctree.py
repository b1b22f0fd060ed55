"""Killing a tree of processes one by one, where there is no control group: none is left to report it."""

import os
import signal
import subprocess
import time

import pytest
from patience import END_S

from nodedaemon.base import proctree
from tests.node.fakectl import processes_with


@pytest.fixture
def sent(monkeypatch):
    """What was sent to whom, in order."""
    found = []
    send = proctree.send_signal

    def note(pid, signum, is_right):
        found.append((pid, signum))
        return send(pid, signum, is_right)

    monkeypatch.setattr(proctree, "send_signal", note)
    return found


def shells(tmp_path, depth: int) -> "subprocess.Popen[bytes]":
    """A shell in a shell in a shell, each waiting for the one below; the innermost says that it is there.

    It forks nothing: it waits for a writer that never comes. So when it has spoken, all processes are there.
    """
    os.mkfifo(tmp_path / "never")
    line = f"echo there; read x <{tmp_path}/never"
    for number in range(depth):
        inner = tmp_path / f"s{number}"
        inner.write_text(f"{line}\n")
        line = f"sh {inner}; :"
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout.readline() == b"there\n"
    return process


def test_all_stand_still_before_one_is_killed(tmp_path, sent):
    """A shell that sees its child killed writes "Killed" into the job's output."""
    with shells(tmp_path, 3) as outer:
        below = list(proctree.descendants(outer.pid))
        assert len(below) >= 3
        outer.send_signal(signal.SIGSTOP)  # it stands for the supervisor, which says nothing
        assert proctree.signal_descendants(outer.pid, signal.SIGKILL) == len(below)
        outer.kill()
        assert outer.stdout.read() == b""
    assert sent[: len(below)] == [(pid, signal.SIGSTOP) for pid in below]  # parents first: they fork no more
    assert sent[len(below) :] == [(pid, signal.SIGKILL) for pid in reversed(below)]


def test_a_parent_that_ends_with_its_last_child_hides_nobody(tmp_path):
    """A script waits for its last command: with that one killed it ends, and what it left in other sessions is nobody's."""
    escapes = "i=0; while [ $i -lt 100 ]; do setsid sh -c 'read x <$1/never' - $1 & i=$((i+1)); done"
    os.mkfifo(tmp_path / "never")
    script = f"{escapes}; (echo there; read x <$1/never)"
    words = ["sh", "-c", script, "-", os.fspath(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"there\n"
        assert proctree.kill_session(process.pid, os.geteuid())
        assert process.wait() == -signal.SIGKILL
    assert processes_with(os.fsdecode(tmp_path)) == []


def test_other_signals_stop_nobody(tmp_path, sent):
    with shells(tmp_path, 1) as outer:
        below = list(proctree.descendants(outer.pid))
        proctree.signal_descendants(outer.pid, signal.SIGTERM)
        outer.kill()
    assert sent == [(pid, signal.SIGTERM) for pid in below]
    deadline = time.monotonic() + END_S  # an orphan is somebody else's to reap
    while left := processes_with(os.fsdecode(tmp_path)):
        assert time.monotonic() < deadline, left
