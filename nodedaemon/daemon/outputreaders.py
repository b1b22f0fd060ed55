"""Readers of the output of jobs that have ended: a process for each client, which the controller has announced by a ticket.

    ticket   who the user is, the files, and the key that the client will show; kept for TICKET_S, for one connection
    client   comes to the stream port as to a step's; its connection goes to a process of its own (stepd/outputreader.py)

Bounds: one process for each user at a time, READERS_MAX in all, TICKETS_MAX tickets and TICKETS_OF_USER_MAX of a user, the
oldest of which goes first. Whoever finds no place waits at the stream port. A process that does not end by itself is killed;
one whose child a file system holds counts until it is gone. The daemon itself opens none of the files.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.launching import IMPORTABLE
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.stepd.outputreader import READER_S
from penstock.v1 import node_pb2
from penstock.values.jobid import OUTPUT_STEP

log = logging.getLogger("penstock.noded")

TICKET_S: Final = 30.0
TICKETS_MAX: Final = 256
TICKETS_OF_USER_MAX: Final = 16
READERS_MAX: Final = 16
NO_TURN: Final = (
    "other outputs of this user, or of many, are being read here, or their file systems do not answer: ask again"
)
#: The process ends by itself before.
KILL_S: Final = READER_S + 5.0
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from nodedaemon.stepd.outputreader import main; main(sys.argv[1:])"
)


class HeldTicket(NamedTuple):
    """A ticket: what a client may ask for, and until when (monotonic)."""

    order: LaunchOrder
    end_s: float


class OutputReaders:
    """The tickets, and the processes that run. `cert_dir`: of the node's certificate, "" = streams go without TLS."""

    def __init__(self, node: NodeFacts, cert_dir: str) -> None:
        self._node = node
        self._cert_dir = cert_dir
        self._tickets: OrderedDict[StepKey, HeldTicket] = OrderedDict()
        self._running: dict[int, subprocess.Popen[bytes]] = {}  # by user
        self._loop = asyncio.get_running_loop()
        self.on_free: Callable[[], None] = lambda: None  # called when another client may have its turn

    def announce(self, ticket: node_pb2.OutputTicket) -> StepKey:
        """Takes a ticket of the controller's; returns what its client will greet with."""
        key = StepKey(ticket.job_id, ticket.number, OUTPUT_STEP)
        order = LaunchOrder(
            key=str(key), user_id=ticket.user_id, group_id=ticket.group_id, user_name=ticket.user_name, script=b"",
            work_dir=b"/", std_out=ticket.std_out, std_err=ticket.std_err, io_key=ticket.io_key, node_name=self._node.node_name,
        )  # fmt: skip
        settings = self._node.site.settings  # under the names of private folders are the node's own now
        order.private_tmp = settings.private_tmp
        order.private_folders = list(settings.private_tmp_folders)
        now_s = time.monotonic()
        for old in [old for old, one in self._tickets.items() if one.end_s < now_s]:
            del self._tickets[old]
        of_user = [old for old, one in self._tickets.items() if one.order.user_id == ticket.user_id]
        if len(of_user) >= TICKETS_OF_USER_MAX:
            del self._tickets[of_user[0]]
        elif len(self._tickets) >= TICKETS_MAX:
            self._tickets.popitem(last=False)
        self._tickets[key] = HeldTicket(order, now_s + TICKET_S)
        return key

    def serve(self, key: StepKey, client: socket.socket) -> str | None:
        """Hands a client to a process of its own. Returns why not, "" = it has one; None = its ticket or turn has not come."""
        ticket = self._tickets.get(key)
        if ticket is None or ticket.end_s < time.monotonic():
            return None
        user_id = ticket.order.user_id
        if user_id in self._running or len(self._running) >= READERS_MAX:
            return None
        try:
            process = start_reader(ticket.order, client, self._cert_dir)
        except OSError as error:
            return f"no process can be started to read it: {error.strerror}"
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError as error:  # its end could not be seen: the user would never have another turn
            process.kill()
            process.wait()
            return f"no process can be started to read it: {error.strerror}"
        del self._tickets[key]
        self._running[user_id] = process
        timer = self._loop.call_later(KILL_S, process.kill)
        self._loop.add_reader(pidfd, self._ended, user_id, pidfd, timer)
        return ""

    def too_late(self, key: StepKey) -> str:
        """As the port's other servers; the same for every key."""
        return NO_TURN

    def close(self) -> None:
        """Ends all: their clients ask again."""
        for process in self._running.values():
            process.kill()

    def _ended(self, user_id: int, pidfd: int, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        status = self._running.pop(user_id).wait()
        if status not in (0, -signal.SIGKILL):
            log.error("a reader of output has ended with status %d", status)
        self.on_free()


def start_reader(order: LaunchOrder, client: socket.socket, cert_dir: str) -> subprocess.Popen[bytes]:
    """Starts the process for a client. Raises OSError."""
    order_fd = os.memfd_create("output", os.MFD_CLOEXEC)
    try:
        os.write(order_fd, order.encode())
        passed = (client.fileno(), order_fd)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, IMPORTABLE, *map(str, passed), cert_dir],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=passed,
            start_new_session=True,
            cwd="/",
            env={},
        )
    finally:
        os.close(order_fd)
