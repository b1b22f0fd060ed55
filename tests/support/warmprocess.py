"""The process that warmstart.py starts: it has imported a program, and forks one that runs it for each request.

    warmprocess.py FD MODULE...

It ends when the other end of FD is closed. It has one thread, so a fork is safe at any time.
"""

import faulthandler
import gc
import importlib
import json
import os
import runpy
import socket
import sys
from pathlib import Path

from penstock import crash

REQUEST_BYTES_MAX = 1 << 18
#: What cli/penstock.py itself imports; it is run as __main__, so it is not imported.
ALWAYS = ("cli.base.run", "penstock.commandline", "click")


def next_request(requests: socket.socket) -> tuple[list[str], str, dict[str, str]] | None:
    """In a new process: what it is to run. In this one: None, when the other end is closed.

    A request that is a number asks for the exit status of the process of that number.
    """
    while True:
        data, fds, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 1)
        if not data:
            return None
        if data.isdigit():
            requests.send(b"%d" % os.waitpid(int(data), 0)[1])
            continue
        pid = os.fork()
        if pid == 0:
            for target in (1, 2):
                os.dup2(fds[0], target)
            os.close(fds[0])
            requests.close()
            words, cwd, environment = json.loads(data)
            return words, cwd, environment
        os.close(fds[0])
        requests.send(b"%d" % pid)


def main() -> None:
    """Serves, or is the program that was asked for."""
    fd, *modules = sys.argv[1:]
    for name in (*ALWAYS, *modules):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection of each child would touch, and so copy, every page
    request = next_request(socket.socket(fileno=int(fd)))
    if request is None:
        return
    words, cwd, environment = request
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if environment.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    crash.read_environment()
    own = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != own]
    sys.argv = ["penstock", *words]
    runpy.run_module("cli.penstock", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
