"""Answers one client's questions for the output of a job whose supervisor is gone, or which a command of the job's wrote.

A process of its own for each client, started by noded (daemon/outputreaders.py) with the client's connection and an order in
which stands who the user is and what the files are: the connection is served as a step's is (stream_server.py), and the
files are read as a step's are (tail.py), by a child that has become the user. This process opens none of them.

It ends with the connection, at a question more than QUESTIONS_MAX, or after READER_S. If a file system still holds the child
then, it waits for it: the daemon starts no other reader for this user meanwhile.
"""

import contextlib
import os
import socket
import sys

from nodedaemon.base import orders
from nodedaemon.stepd.account import account_of, groups_of
from nodedaemon.stepd.context import server_context
from nodedaemon.stepd.stream_server import StreamConnection
from nodedaemon.stepd.streams import StreamHub
from nodedaemon.stepd.tail import Tails
from penstock.eventloop import Loop
from penstock.inherited import begin_empty_session_keyring
from penstock.values.outputtail import QUESTIONS_MAX, TAIL_READ_S

TYPE_CHECKING = False  # the launcher's modules avoid it, and this one is loaded as they are
if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext, SSLSocket

    from penstock.values.packing import PackedValue

#: The handshake, the question, and the two seconds of the file system.
READER_S = TAIL_READ_S + 6.0
#: An order holds two paths of at most 4 KiB, a key and a name.
_ORDER_BYTES_MAX = 64 * 1024
_STEPD_ONLY = "this reads output, and nothing else"


class ReaderContext:
    """What the readings need of a launcher's context: no job has a namespace here."""

    steps_fd = -1

    def __init__(self) -> None:
        self.is_root = os.geteuid() == 0


class OutputReader:
    """Serves one client in the place of a step."""

    def __init__(self, order: orders.LaunchOrder) -> None:
        self.loop = Loop()
        self.order = order
        self.hub = StreamHub(self.loop)
        self._tails = Tails(self.loop, order, ReaderContext(), has_ended=True)
        self._tasks = [orders.TaskOrder(0, std_out=order.std_out, std_err=order.std_err)]
        self._watched = 0
        self._is_over = False
        self._questions = 0

    def run(self, connection: socket.socket, tls: "SSLContext | None") -> None:
        """Serves until the client has gone, or READER_S have passed."""
        self.loop.after(READER_S, self._end)
        StreamConnection(self, connection, tls)
        while self.hub.connections and not self._is_over:
            self.loop.turn()
            self.hub.flush()
            self._watch_child()
        self._tails.close()
        if self._tails.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._tails.pid, 0)

    def _end(self) -> None:
        self._is_over = True

    def _watch_child(self) -> None:
        """Has the loop reap the child that reads, when it ends."""
        pid = self._tails.pid
        if pid and pid != self._watched:
            self._watched = pid
            ended = os.pidfd_open(pid)
            self.loop.watch(ended, lambda _: self._reap(ended, pid))

    def _reap(self, ended: int, pid: int) -> None:
        self.loop.forget(ended)
        os.close(ended)
        os.waitpid(pid, 0)
        self._tails.reaped(pid)

    # -- as a client sees a step (stream_server.StreamedStep)

    def ask_tail(self, text: str, is_own_key: bool, reply: "Callable[[bytes], None]") -> None:
        """Answers a question for a part of a file. Raises ValueError, also for one too many."""
        self._questions += 1
        if self._questions > QUESTIONS_MAX:
            raise ValueError(f"more than {QUESTIONS_MAX} questions")
        self._tails.ask(text, self._tasks, is_own_key, reply)

    def answer(self, word: str) -> "dict[str, PackedValue]":
        """There is nothing else to ask."""
        return {}

    def signal_tasks(self, signum: int) -> None:
        """There is nothing to signal. Raises ValueError."""
        raise ValueError(_STEPD_ONLY)

    def exchange(self, payload: bytes) -> None:
        """There is nothing to exchange. Raises ValueError."""
        raise ValueError(_STEPD_ONLY)

    def open_tunnel(self, client: "socket.socket | SSLSocket", answer: bytes) -> None:
        """Leads nowhere. Raises OSError."""
        raise OSError(_STEPD_ONLY)


def present_group(order: orders.LaunchOrder) -> int:
    """The job's group, if it is still one of the user's; else the user's own. An unknown user is refused later."""
    try:
        account = account_of(order.user_id)
    except KeyError:
        return order.group_id
    is_member = order.group_id in groups_of(account.pw_name, account.pw_gid)
    return order.group_id if is_member else account.pw_gid


def main(arguments: list[str]) -> None:
    """Arguments: descriptors of the client's connection and of the order, folder of the node's certificate ("" = without TLS)."""
    connection_fd, order_fd, cert_dir = arguments
    begin_empty_session_keyring()
    connection = socket.socket(fileno=int(connection_fd))
    connection.set_inheritable(False)
    with open(int(order_fd), "rb") as file:
        file.seek(0)
        framed = file.read(_ORDER_BYTES_MAX)
    head = orders.ORDER_HEAD.size
    body_at = head + orders.ORDER_HEAD.unpack_from(framed)[0]
    order = orders.decode_launch(framed[head:body_at].decode(), framed[body_at:])
    order.group_id = present_group(order)
    OutputReader(order).run(connection, server_context(cert_dir) if cert_dir else None)


if __name__ == "__main__":
    main(sys.argv[1:])
