"""The launcher: a warm process that forks one stepd per order, and reaps them.

It is started by noded as a program of its own, isolated and without site packages, and imports as little as it can:
the cost of a fork is what the forked process has in memory. It stays single-threaded, so that forking without exec is
safe. It decides nothing: an order that it read is forked, and whether that stepd may start anything is settled by the
claim (steprecord.py).

It is a sub-reaper: when a stepd is killed, what that stepd supervised falls to the launcher, which kills it. It
therefore stays until its last stepd is gone, also when noded is not there any more; a new noded brings a launcher of
its own.

Deliberately absent: retries, state on disk, any knowledge of what a job is.
"""

import contextlib
import gc
import os
import pwd
import select
import signal
import socket
import sys

from nodedaemon import cgroup, orders, proctree, stepd
from nodedaemon.context import Context
from nodedaemon.crash import crash_point
from nodedaemon.folders import open_folder

READ_BYTES = 1024 * 1024


def main(arguments: list[str]) -> None:
    """The launcher's life. Arguments: descriptors of order stream and packet socket, spool, node, groups (hex)."""
    order_fd, packet_fd, spool_path, node_name, cgroups = arguments
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its end is the end of its stepds, or a kill
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _note_child)
    null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    steps_path = os.path.join(os.path.abspath(spool_path), "steps")
    context = Context(
        steps_path=steps_path,
        steps_fd=open_folder(steps_path),
        packets=socket.socket(fileno=int(packet_fd)),
        null_fd=null_fd,
        node_name=node_name,
        cgroups=cgroup.decode(bytes.fromhex(cgroups)),
        is_root=os.geteuid() == 0,
    )
    order_end = socket.socket(fileno=int(order_fd))
    for passed in (context.packets, order_end):
        passed.set_inheritable(False)
    _load_name_services()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page after a fork
    gc.disable()
    Launcher(context, order_end).run()


def _load_name_services() -> None:
    """Have the libraries that look up users and groups loaded once, here, and not in every task."""
    with contextlib.suppress(KeyError, OSError):
        account = pwd.getpwuid(os.geteuid())
        os.getgrouplist(account.pw_name, account.pw_gid)


def _note_child(signum: int, frame: object) -> None:
    """Only so that the signal wakes the poll through the wake-up descriptor."""


class Launcher:
    """The loop: orders in, stepds out, the dead reported."""

    def __init__(self, context: Context, order_end: socket.socket) -> None:
        self._context = context
        self._orders: socket.socket | None = order_end
        self._buffer = bytearray()
        self._stepds: dict[int, str] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def run(self) -> None:
        """Until noded is gone and the last stepd too."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        assert self._orders is not None
        poll.register(self._orders, select.POLLIN)
        order_fd = self._orders.fileno()
        while self._orders is not None or self._stepds:
            ready = dict(poll.poll())
            if self._wake_read in ready:
                self._reap()
            if order_fd in ready and self._orders is not None and not self._read_orders(self._orders):
                poll.unregister(order_fd)

    def _read_orders(self, source: socket.socket) -> bool:
        """Fork what has come; False when noded is gone."""
        try:
            data = source.recv(READ_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            source.close()
            self._orders = None
            return False
        self._buffer += data
        at = 0
        head = orders.ORDER_HEAD
        while len(self._buffer) >= at + head.size:
            key_bytes, body_bytes = head.unpack_from(self._buffer, at)
            body_at = at + head.size + key_bytes
            if len(self._buffer) < body_at + body_bytes:
                break
            key = self._buffer[at + head.size : body_at].decode()
            self._fork(key, bytes(self._buffer[body_at : body_at + body_bytes]))
            at = body_at + body_bytes
        del self._buffer[:at]
        return True

    def _fork(self, key: str, body: bytes) -> None:
        crash_point("launcher.received")
        try:
            pid = os.fork()
        except OSError:  # process table or memory full: as if the stepd had ended at once
            self._tell_gone([(key, os.EX_OSERR << 8)])
            return
        if pid == 0:
            status = os.EX_SOFTWARE
            try:
                os.close(self._wake_read)
                os.close(self._wake_write)
                if self._orders is not None:
                    self._orders.close()
                status = stepd.run(self._context, key, body)
            finally:
                os._exit(status)
        self._stepds[pid] = key
        crash_point("launcher.forked")

    def _reap(self) -> None:
        """Collect the dead; kill what a stepd that died badly has left."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        gone: list[tuple[str, int]] = []
        died_badly = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            key = self._stepds.pop(pid, None)
            if key is not None:
                gone.append((key, status))
                died_badly = died_badly or status != 0
        if died_badly:
            self._kill_orphans()
        self._tell_gone(gone)

    def _kill_orphans(self) -> None:
        """Children that are no stepds belong to a stepd that is dead. Their children come here when they die."""
        for pid in proctree.children(os.getpid()):
            if pid not in self._stepds:
                proctree.signal_descendants(pid, signal.SIGKILL)
                proctree.send_signal(pid, signal.SIGKILL, lambda candidate: candidate not in self._stepds)

    def _tell_gone(self, gone: list[tuple[str, int]]) -> None:
        for at in range(0, len(gone), orders.GONE_PER_PACKET_MAX):
            try:
                self._context.packets.send(orders.gone(gone[at : at + orders.GONE_PER_PACKET_MAX]))
            except OSError:  # noded is gone: its successor finds the records
                return


if __name__ == "__main__":
    main(sys.argv[1:])
