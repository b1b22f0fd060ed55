"""srun through the command server of a terminal: job control is the kernel's, as for a plain program.

A small shell with job control runs in a session on a pseudo-terminal of its own. It makes two calls, so that the
session has a server, then starts srun in the foreground, reports its stops and its end, and obeys commands.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import Launched, build, kill, wait_for
from patience import END_S

from penstock.values.stepframes import FrameKind, frame
from tests.cli.test_srun_wire import END, Scene, data, exited
from tests.cli.test_srun_wire import make_plain as make_scene

scenes = make_scene
SHELL = """
import fcntl, os, signal, subprocess, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
srun, folder, *words = sys.argv[1:]
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def servers():
    return {name for name in os.listdir(folder) if len(name) == 32} if os.path.isdir(folder) else set()
before = servers()
for _ in range(2):
    subprocess.run([srun, "-V"], check=True)
while not servers() - before:
    time.sleep(0.01)
subprocess.run([srun, "-V"], check=True)
print("begins", flush=True)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(srun, ["srun", *words])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
        break
    print("stopped", os.WSTOPSIG(status), flush=True)
    for line in sys.stdin:
        if line == "fg\\n":
            os.tcsetpgrp(0, pid)
        os.killpg(pid, signal.SIGCONT)
        print("read", line, flush=True)
        if line == "fg\\n":
            break
"""


class Terminal:
    """The terminal's other side."""

    def __init__(self, launched: Launched, scene: Scene, *words: str) -> None:
        self._launched = launched
        env = {os.fsdecode(key): os.fsdecode(value) for key, value in launched.env.items()}
        env |= {"SLURM_JOB_ID": "12", "PENSTOCK_CLUSTER": str(scene.controller.cluster_file)}
        self.before = set(launched.sockets())
        self.fd, theirs = pty.openpty()
        line = [sys.executable, "-c", SHELL, str(launched.bin / "srun"), str(launched.servers_dir), *words]
        self._shell = subprocess.Popen(
            line, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.pid = self._shell.pid
        self._shown = ""
        self.until("begins")
        assert sorted(launched.starts()) == ["server", "srun", "srun"]

    def type(self, text: bytes) -> None:
        """Types it."""
        os.write(self.fd, text)

    def until(self, text: str) -> str:
        """Reads until it is shown; returns what was shown before it."""
        deadline_s = time.monotonic() + END_S
        while text not in self._shown:
            assert select.select([self.fd], [], [], max(deadline_s - time.monotonic(), 0))[0], self._shown
            self._shown += os.read(self.fd, 4096).decode()
        shown, _, self._shown = self._shown.partition(text)
        return shown

    def close(self) -> None:
        """Ends the shell and the session's server."""
        self._shell.kill()
        self._shell.wait()
        os.close(self.fd)
        for path in set(self._launched.sockets()) - self.before:
            if pid := self._launched.server(path):
                kill(pid)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    made = Launched(tmp_path_factory.mktemp("l"), build(tmp_path_factory.mktemp("b")))
    made.warm()
    yield made
    made.close()


@pytest.fixture
def scene(scenes) -> Scene:
    return scenes(tasks=2)


@pytest.fixture
def terminal(launched: Launched, scene: Scene) -> Iterator[Terminal]:
    scene.nodes[0].play(frame(FrameKind.NOTE, b"ready"))
    made = Terminal(launched, scene, "-n2", "x")
    made.until("ready")
    yield made
    assert launched.starts() == []
    made.close()


def signals(scene: Scene) -> list[bytes]:
    return scene.nodes[0].of(FrameKind.SIGNAL)


def stop(terminal: Terminal, scene: Scene) -> None:
    """Ctrl-Z. The launcher, which the shell sees, stops by itself: its child has not yet reported the step then."""
    terminal.type(b"\x1a")
    terminal.until(f"stopped {int(signal.SIGTSTP)}")
    scene.nodes[0].wait_until(lambda: signals(scene) == [b"%d" % signal.SIGTSTP])


def end(scene: Scene, terminal: Terminal, status: int = 0) -> None:
    scene.nodes[0].play(exited(0, status), exited(1), END)
    terminal.until(f"ended {status}")


def test_one_ctrl_c_is_one(terminal: Terminal, scene: Scene) -> None:
    terminal.type(b"\x03")
    terminal.until("interrupt (one more within 1 sec to abort)")
    terminal.until("tasks 0-1: running")
    assert signals(scene) == []
    end(scene, terminal)


def test_ctrl_z_and_the_foreground_again(terminal: Terminal, scene: Scene) -> None:
    stop(terminal, scene)
    terminal.type(b"fg\n")
    scene.nodes[0].wait_until(lambda: b"%d" % signal.SIGCONT in signals(scene))
    terminal.type(b"hello\n")
    scene.nodes[0].wait_until(lambda: b"hello\n" in scene.nodes[0].of(FrameKind.STDIN))
    end(scene, terminal, 3)


def test_in_the_background_the_terminal_is_the_shells(terminal: Terminal, scene: Scene) -> None:
    stop(terminal, scene)
    terminal.type(b"bg\n")
    scene.nodes[0].wait_until(lambda: b"%d" % signal.SIGCONT in signals(scene))
    terminal.type(b"for the shell\n")
    terminal.until("read for the shell")
    terminal.type(b"fg\n")
    terminal.until("read fg")
    terminal.type(b"for the step\n")
    scene.nodes[0].wait_until(lambda: scene.nodes[0].of(FrameKind.STDIN))
    assert scene.nodes[0].of(FrameKind.STDIN) == [b"for the step\n"]
    end(scene, terminal)


def test_a_signal_for_the_command_alone_arrives_once(terminal: Terminal, scene: Scene) -> None:
    os.kill(foreground(terminal), signal.SIGUSR1)
    scene.nodes[0].wait_until(lambda: signals(scene))
    scene.nodes[0].play(data(0, "done\n"))
    terminal.until("done")
    assert signals(scene) == [b"%d" % signal.SIGUSR1]
    end(scene, terminal)


def test_the_child_is_of_the_session_and_dies_with_its_caller(terminal: Terminal) -> None:
    caller = foreground(terminal)
    child = next(pid for pid in members(caller) if pid != caller)
    assert os.getsid(child) == terminal.pid
    os.kill(caller, signal.SIGKILL)
    terminal.until("ended -9")
    wait_for(lambda: not members(caller), "the child is gone")


def foreground(terminal: Terminal) -> int:
    """The leader of the foreground group: the launcher."""
    return wait_for(lambda: (pid := os.tcgetpgrp(terminal.fd)) != terminal.pid and pid, "srun in the foreground")


def members(group: int) -> list[int]:
    """The processes of a group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(words[2]) == group and words[0] != "Z":
            found.append(int(path.parent.name))
    return found
