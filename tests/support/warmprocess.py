"""The process that warmstart.py starts: it has imported a program, and forks one that runs it for each request. If that is the
controller, it has also compiled the statements of its start (compiledsql.py).

    warmprocess.py FD MODULE...

It ends when the other end of FD is closed, or its parent is gone: a test's child may have inherited that end. Those it forked
are killed when it ends, so that tests that were killed leave no daemons. It has one thread, so a fork is safe at any time.
"""

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from penstock import crash

REQUEST_BYTES_MAX = 1 << 18
#: In a program's environment: constants of its modules that have another value in it, as {"MODULE:NAME": VALUE}.
CONSTANTS = "PENSTOCK_TEST_CONSTANTS"
PR_SET_PDEATHSIG = 1
#: What cli/penstock.py itself imports; it is run as __main__, so it is not imported.
ALWAYS = ("cli.base.run", "penstock.commandline", "click")


class Program(NamedTuple):
    """What a new process is to run: `penstock WORDS`, or a command with its name first. `uid`: None for that of this process."""

    words: list[str]
    cwd: str
    environment: dict[str, str]
    is_command: bool
    uid: int | None


def next_request(requests: socket.socket, parent_fd: int) -> Program | None:
    """In a new process: what it is to run. In this one: None, when the other end is closed or the parent has ended.

    A request comes with the files for input, output and errors. One that is a number asks for the exit status of the process
    of that number.
    """
    own_pid, libc = os.getpid(), ctypes.CDLL(None)
    while True:
        if parent_fd in select.select([requests.fileno(), parent_fd], [], [])[0]:
            return None
        data, fds, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not data:
            return None
        if data.isdigit():
            requests.send(b"%d" % os.waitpid(int(data), 0)[1])
            continue
        pid = os.fork()
        if pid == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != own_pid:  # it ended before that
                os._exit(1)
            for target, source in enumerate(fds):
                os.dup2(source, target)
            for fd in (*fds, parent_fd):
                os.close(fd)
            requests.close()
            open_streams()
            return Program(*json.loads(data))
        for fd in fds:
            os.close(fd)
        requests.send(b"%d" % pid)


def open_streams() -> None:
    """Opens Python's streams again: those of the warm process know whether its own files can seek."""
    sys.stdin = os.fdopen(0, closefd=False, encoding="utf-8", errors="surrogateescape")
    sys.stdout = os.fdopen(1, "w", closefd=False, encoding="utf-8", errors="surrogateescape")
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace")


def set_constants(text: str) -> None:
    """Gives constants their values; a name that a module does not have is an error."""
    for place, value in json.loads(text).items():
        module, _, name = place.partition(":")
        getattr(found := importlib.import_module(module), name)
        setattr(found, name, value)


def main() -> None:
    """Serves, or is the program that was asked for."""
    parent_fd = os.pidfd_open(os.getppid())
    fd, *modules = sys.argv[1:]
    for name in (*ALWAYS, *modules):
        importlib.import_module(name)
    if "ctld.main" in modules:
        from compiledsql import compile_start

        compile_start()
    gc.collect()
    gc.freeze()  # else the first collection of each child would touch, and so copy, every page
    request = next_request(socket.socket(fileno=int(fd)), parent_fd)
    if request is None:
        return
    os.setsid()
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    if request.environment.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    crash.read_environment()
    set_constants(os.environ.pop(CONSTANTS, "{}"))
    own = str(Path(__file__).parent)
    if request.is_command:
        from run_as import run

        run(request.uid, *request.words)
    sys.path[:] = [path for path in sys.path if path != own]
    sys.argv = ["penstock", *request.words]
    runpy.run_module("cli.penstock", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
