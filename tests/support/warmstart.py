"""Starts daemons without a start of Python for each: a warm process forks them.

The imports of a controller or a REST daemon take most of a second of CPU, and the tests start some hundreds. So for each
program one process
(warmprocess.py) imports what that program imports, and waits. `start` hands it a command line, a working folder, an
environment and a file for the output, and it makes a process that runs `penstock WORDS` from the first line of its
`__main__`. It is the warm process's child: that one is asked for the exit status.

Commands that no command server serves (those of `penstock` itself, and another user's, who may read nothing of this tree) are
forked as well, by a process that has imported all of them (run_as.py).

A test may give constants of the program's modules other values (`warmprocess.CONSTANTS`), as those of times that it waits for.

What modules read when they are imported is as it was in the warm process. So a program that is to die at a crash point is
forked by another warm process, whose crash points are armed; the list of the points passed (PENSTOCK_CRASH_LIST) needs a
start of its own (`needs_start`), as do a preloaded library and tests of how a program starts.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import BinaryIO

import run_as
from warmprocess import CONSTANTS, REQUEST_BYTES_MAX

ROOT = Path(__file__).resolve().parents[2]
#: Not a word of `penstock`: its warm process runs commands (run_as.py).
COMMANDS = "commands"
#: What the program behind a word of `penstock` imports, also later than at its start: noded.main imports little itself.
PROGRAMS = {
    "ctld": ("ctld.main", "ctld.dbtool.main"),
    "noded": (
        "nodedaemon.main",
        "nodedaemon.base.topology_info",
        "nodedaemon.daemon.daemon",
        "nodedaemon.daemon.localauth",
        "nodedaemon.daemon.renewal",
        "nodedaemon.daemon.stream_port",
        "penstock.config",
        "penstock.grpclib",
    ),
    "sim": ("sim.__main__", "sim.order"),
    "restd": (
        "rest.main",
        "rest.app",
        "rest.interactive.origin",
        "rest.oidc",
        "rest.pages",
        "rest.passwords",
        "rest.server",
        "rest.sessions",
        "rest.sitetemplates",
    ),
    COMMANDS: tuple(run_as.all_modules()),
}
#: What is in the environment when a program is imported.
AT_IMPORT: dict[str, dict[str, str]] = {"noded": {"GRPC_VERBOSITY": "NONE"}}  # as noded.main sets it
CRASH_AT, CRASH_LIST = "PENSTOCK_CRASH_AT", "PENSTOCK_CRASH_LIST"


def start_daemon(
    words: Sequence[str], output: BinaryIO, cwd: Path, environment: Mapping[str, str], prefix: Iterable[str] = ()
) -> "subprocess.Popen[bytes] | Child":
    """`penstock WORDS` in a session of its own, both outputs into one file, without input.

    `prefix`: a command that runs it somewhere else.
    """
    before = list(prefix)
    if not before and not needs_start(words[0], environment):
        with open(os.devnull, "rb") as nothing:
            files = (nothing, output, output)
            return starter(words[0], bool(environment.get(CRASH_AT))).start(words, files, cwd, environment)
    assert CONSTANTS not in environment, f"{CONSTANTS}: only a warm process sets them"
    return subprocess.Popen(
        [*before, sys.executable, "-P", "-m", "cli.penstock", *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )


def run_command(
    words: Sequence[str],
    stdin: bytes,
    cwd: Path,
    environment: Mapping[str, str],
    limit_s: float,
    uid: int | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """A command, run to its end, in a session of its own; by root also as another user, whatever of this tree that one may
    read. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        read_end, write_end = os.pipe()
        with open(read_end, "rb") as given:
            with open(write_end, "wb") as writer:
                assert len(stdin) <= select.PIPE_BUF
                writer.write(stdin)
            program = "ctld" if list(words[:2]) == ["penstock", "db"] else COMMANDS
            child = starter(program, False).start(words, (given, output, errors), cwd, environment, True, uid)
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(words, status, output.read(), errors.read())


def needs_start(word: str, environment: Mapping[str, str]) -> bool:
    """Whether a daemon needs a start of Python."""
    return word not in PROGRAMS or any(environment.get(name) for name in (CRASH_LIST, "LD_PRELOAD"))


class Child:
    """A child of a warm process, with the methods of subprocess.Popen that tests use."""

    def __init__(self, pid: int, starter: "WarmStarter") -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)
        self._starter = starter

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._await_end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Exit status, once it has ended. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        status = self._await_end(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def _await_end(self, limit_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(None if limit_s is None else limit_s * 1000):
                os.close(self._pidfd)
                self.returncode = os.waitstatus_to_exitcode(self._starter.ask(b"%d" % self.pid))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing happens once it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmStarter:
    """The warm process of one program; `armed`: those it forks look for their crash point. `prefix`: a command that runs the
    warm process somewhere else."""

    def __init__(self, word: str, armed: bool, prefix: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [
            *prefix,
            sys.executable,
            "-P",
            os.fspath(Path(__file__).with_name("warmprocess.py")),
            str(theirs.fileno()),
            *PROGRAMS[word],
        ]
        own = os.fspath(Path(__file__).parent)
        libraries = os.pathsep.join(filter(None, (os.fspath(ROOT), os.environ.get("PYTHONPATH"), own)))
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": libraries,
            **AT_IMPORT.get(word, {}),
        }
        if armed:
            environment[CRASH_LIST] = os.devnull
        with theirs:
            self._process = subprocess.Popen(
                words,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait()

    @property
    def pid(self) -> int:
        """That of the warm process."""
        return self._process.pid

    def start(
        self,
        words: Sequence[str],
        files: Sequence[BinaryIO],
        cwd: Path,
        environment: Mapping[str, str],
        is_command: bool = False,
        uid: int | None = None,
    ) -> Child:
        """`files`: for input, output and errors. See start_daemon and run_command."""
        request = json.dumps([list(words), os.fspath(cwd), dict(environment), is_command, uid]).encode()
        assert len(request) < REQUEST_BYTES_MAX
        return Child(self.ask(request, *(file.fileno() for file in files)), self)

    def ask(self, request: bytes, *fds: int) -> int:
        """The warm process's answer. Several threads may ask."""
        with self._lock:
            socket.send_fds(self._ours, [request], fds)
            return int(self._ours.recv(64))


@cache
def starter(word: str, armed: bool) -> WarmStarter:
    """Of this process: it is started when it is first wanted."""
    return WarmStarter(word, armed)
