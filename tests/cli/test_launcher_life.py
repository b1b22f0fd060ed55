"""A served command lives as long as its launcher, whatever the kernel does late.

The launcher's part is played here, so that a test decides what is sent when.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from launched import ROOT, Launched, build, state_of, wait_for
from patience import ANSWER_S, END_S

from cli.commandserver.protocol import DECLINED, EXITED, GREETING, MAGIC, READY, REPORT
from cli.commandserver.served import FILES_MAX, REQUEST
from penstock.v1 import controller_pb2 as pb
from penstock.v1.common_pb2 import ExitStatus
from tests.cli.fake_controller import WireController

VERSION = (0, b"slurm 25.05.0\n", b"")


class Caller:
    """A launcher that obeys commands. `life` is the end of its pipe that nobody else holds."""

    def __init__(self, launched: Launched, magic: int = MAGIC) -> None:
        (path,) = launched.sockets()
        self.wire = socket.socket(socket.AF_UNIX)
        self.wire.settimeout(ANSWER_S)
        self.wire.connect(str(path))
        said, word, self.worker = GREETING.unpack(self.wire.recv(GREETING.size))
        assert (said, word) == (MAGIC, READY)
        self._magic = magic
        self._watched, self.life = os.pipe()

    def call(self, launched: Launched, *words: str) -> None:
        """Send the whole request; its output goes to /dev/null."""
        variables = [key + b"=" + value for key, value in launched.env.items()]
        body = b"".join(word + b"\0" for word in [*map(os.fsencode, words), *variables])
        null, here = os.open(os.devnull, os.O_RDWR), os.open("/", os.O_PATH)
        files = [null, null, null, self._watched, here]
        numbers = [0, 1, 2, *[-1] * (FILES_MAX - 3)]
        head = REQUEST.pack(self._magic, len(body), len(files), len(words), len(variables), 0o22, 0, 0, 0, *numbers)
        socket.send_fds(self.wire, [head], files)
        with contextlib.suppress(BrokenPipeError):  # who declines by the head waits for no more; see `report`
            self.wire.sendall(body)
        for file in (null, here, self._watched):
            os.close(file)

    def end(self) -> None:
        """As the kernel does it when the launcher is killed."""
        os.close(self.life)
        self.wire.close()

    def report(self) -> tuple[int, int]:
        """How the command ended: kind and value."""
        magic, kind, value = REPORT.unpack(self.wire.recv(REPORT.size))
        assert magic == MAGIC
        return kind, value


class Waiting:
    """A controller whose AwaitJob lasts until `ends` is set."""

    def __init__(self, folder: Path) -> None:
        self.ends, self.awaited = threading.Event(), threading.Event()
        submit = {"SubmitJob": lambda request: pb.SubmitJobReply(job_id=1), "AwaitJob": self._wait}
        self.wire = WireController(folder, submit)

    def _wait(self, request):
        self.awaited.set()
        self.ends.wait(ANSWER_S)
        return pb.AwaitJobReply(exit=ExitStatus(code=3), state="FAILED")


@pytest.fixture
def waiting(tmp_path):
    made = Waiting(tmp_path)
    (tmp_path / "w.sh").write_text("#!/bin/sh\n#SBATCH --wait\n")
    yield made
    made.ends.set()
    made.wire.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("b"))


@pytest.fixture
def launched(tmp_path_factory, program, waiting):
    made = Launched(tmp_path_factory.mktemp("s"), program, waiting.wire.cluster_file)
    made.warm()
    yield made
    made.close()


def test_29_what_comes_late_over_the_requests_connection_kills_nobody(launched, waiting, tmp_path):
    """A wake-up that comes after its data was read looks like this: the connection stirs, and the caller lives."""
    caller = Caller(launched)
    caller.call(launched, "sbatch", str(tmp_path / "w.sh"))
    assert waiting.awaited.wait(ANSWER_S)
    caller.wire.send(b"late")
    waiting.ends.set()
    assert caller.report() == (EXITED, 3)
    caller.end()


def test_the_end_of_the_pipe_ends_the_command(launched, waiting, tmp_path):
    caller = Caller(launched)
    caller.call(launched, "sbatch", str(tmp_path / "w.sh"))
    assert waiting.awaited.wait(ANSWER_S)
    os.close(caller.life)  # the connection stays: it is not what is watched
    wait_for(lambda: state_of(caller.worker) == "", "the worker is gone")
    assert caller.report() == (2, signal.SIGKILL)


def test_a_caller_that_went_before_the_command_began(launched, waiting, tmp_path):
    caller = Caller(launched)
    os.kill(caller.worker, signal.SIGSTOP)
    caller.call(launched, "sbatch", str(tmp_path / "w.sh"))
    caller.end()
    os.kill(caller.worker, signal.SIGCONT)
    wait_for(lambda: state_of(caller.worker) == "", "the worker is gone")
    assert waiting.wire.requests == []


def test_a_worker_that_was_killed_before_it_read_the_request(launched, waiting, tmp_path):
    """It has not begun, and the launcher learns that: it runs the command itself."""
    caller = Caller(launched)
    os.kill(caller.worker, signal.SIGSTOP)
    caller.call(launched, "sbatch", str(tmp_path / "w.sh"))
    os.kill(caller.worker, signal.SIGKILL)
    assert caller.report() == (DECLINED, 0)
    caller.end()
    assert waiting.wire.requests == []


def test_a_worker_that_was_killed_in_the_midst(launched, waiting, tmp_path):
    caller = Caller(launched)
    caller.call(launched, "sbatch", str(tmp_path / "w.sh"))
    assert waiting.awaited.wait(ANSWER_S)
    os.kill(caller.worker, signal.SIGKILL)
    assert caller.report() == (2, signal.SIGKILL)
    caller.end()


def test_after_the_command_nothing_is_watched(launched):
    """The end of a caller that has its answer does not end the worker, which serves the next."""
    workers = set()
    for _ in range(3):
        caller = Caller(launched)
        caller.call(launched, "squeue", "--version")
        assert caller.report() == (EXITED, 0)
        caller.end()
        wait_for(lambda pid=caller.worker: rests(pid), "it rests")
        workers.add(caller.worker)
    assert len(workers) == 1


def rests(pid: int) -> bool:
    """It has nothing open but its streams and the way to the server."""
    return len(os.listdir(f"/proc/{pid}/fd")) == 4


@pytest.mark.parametrize("magic", [MAGIC - 1, MAGIC + 1])
def test_a_request_of_another_protocol_is_declined(launched, waiting, magic):
    caller = Caller(launched, magic)
    caller.call(launched, "sbatch", "--wrap=x")
    assert caller.report() == (DECLINED, 0)
    caller.end()
    assert waiting.wire.requests == []


@pytest.mark.parametrize("step", [-1, 1])
def test_a_launcher_of_another_protocol_runs_plain(tmp_path_factory, tmp_path, step):
    """An upgrade leaves one of the two behind for a moment: then every call is plain, none is refused."""
    source = (ROOT / "native" / "launcher.c").read_text()
    number = MAGIC & 0xFF
    assert source.count(f"#define PROTOCOL {number}u ") == 1
    (tmp_path / "launcher.c").write_text(source.replace(f"PROTOCOL {number}u ", f"PROTOCOL {number + step}u "))
    other = Launched(tmp_path_factory.mktemp("o"), build(tmp_path, tmp_path / "launcher.c"))
    try:
        other.warm()
        done = other.run("squeue", "-V")
        assert (done.returncode, done.stdout, done.stderr) == VERSION
        assert other.starts() == ["squeue"]
    finally:
        other.close()


#: Calls of each of eight shells in each part: 200,000 in all.
SHELLS, CALLS, PARTS = 8, 5_000, 5
#: One line for each status that is not 0; the number of calls at the end.
LOOP = 'i=0; while [ $i -lt {calls} ]; do "$0" --version >/dev/null || echo $?; i=$((i+1)); done; echo done $i'


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_29_thousands_of_calls_from_eight_shells(launched, part):
    """In parts that the deadline of one test allows. `python -m bench.manycalls` makes as many, with submissions."""
    words = ["sh", "-c", LOOP.format(calls=CALLS), launched.bin / "squeue"]
    shells = [subprocess.Popen(words, env=launched.env, stdout=subprocess.PIPE, text=True) for _ in range(SHELLS)]
    assert [shell.communicate(timeout=END_S)[0] for shell in shells] == [f"done {CALLS}\n"] * SHELLS
