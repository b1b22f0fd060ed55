"""The launcher: a warm process that keeps a stepd ready for every order, and reaps them.

It is started by noded as a program of its own, isolated and without site packages, and imports as little as it can:
the cost of each fork grows with the process's memory. It stays single-threaded, so that forking without exec is safe.
It decides nothing: each order is handed to a stepd, and the claim (spool/steprecord.py) decides whether that may start
anything.

A stepd supervises one step at a time. When its step has ended it gets the next one, or waits for one: a new stepd for
each step would cost as much as the step's own process. The number of idle stepds, and of steps that one may serve, is
limited.

It is a sub-reaper: when a stepd is killed, the processes that it supervised become children of the launcher, which
kills them. It therefore stays until its last stepd has ended, even without noded; a new noded starts a launcher of its
own.

Deliberately absent: retries, state on disk, any knowledge of jobs.
"""

import contextlib
import fcntl
import gc
import os
import pwd
import select
import signal
import socket
import sys

from nodedaemon.base import lease, orders, proctree
from nodedaemon.base.folders import open_folder
from nodedaemon.base.nodeclock import NodeClock
from nodedaemon.cgroups import cgroup
from nodedaemon.mpi import pmi_plug
from nodedaemon.stepd import instructions, plugs, sampling, session, stepd
from nodedaemon.stepd.context import LauncherContext
from penstock.crash import crash_point

READ_BYTES = 1024 * 1024
#: Idle stepds that are kept: as many as a large node may run at once, since to fork one costs more than a step's own
#: work. Each holds about 1.5 MB of its own.
IDLE_MAX = 256
#: After this long without any message, all but a few of the idle stepds are ended.
IDLE_S = 60.0
IDLE_KEPT = 8
#: Steps that one stepd may serve: bounds the effect of small leaks.
SERVED_MAX = 500
#: Plugs that a step may have (stepd/plugs.py); loaded here, so that stepds inherit them.
MAKERS = (pmi_plug.make, sampling.make, session.make)
BATCH_STEP, EXTERN_STEP = -5, -4  # as in penstock.values.jobid, without its imports
#: Above the descriptor numbers that stepds use.
FD_HIGH = 64


def has_streams(key: str) -> bool:
    """True for a step of srun or an interactive one, by its key."""
    return not key.endswith((f".{BATCH_STEP}", f".{EXTERN_STEP}"))


class LauncherWorker:
    """A stepd as the launcher sees it. `key` is its current step, "" when it is idle."""

    __slots__ = ("feed", "key", "pid", "served")

    def __init__(self, pid: int, feed: socket.socket) -> None:
        self.pid = pid
        self.feed = feed
        self.key = ""
        self.served = 0


def main(arguments: list[str]) -> None:
    """Runs the launcher. Arguments: descriptors of order stream and packet socket, spool, node, groups (hex), folder of
    the node's certificate ("" = streams go without TLS), base of the node's time.
    """
    order_fd, packet_fd, spool_path, node_name, cgroups, cert_dir, clock_base_us = arguments
    plugs.MAKERS += MAKERS
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its stepds, or by SIGKILL
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _note_child)
    null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    steps_path = os.path.join(os.path.abspath(spool_path), "steps")
    spool_fd = open_folder(os.path.dirname(steps_path))
    context = LauncherContext(
        steps_path=steps_path,
        steps_fd=open_folder(steps_path),
        packets=socket.socket(fileno=int(packet_fd)),
        null_fd=null_fd,
        node_name=node_name,
        cgroups=cgroup.decode(bytes.fromhex(cgroups)),
        is_root=os.geteuid() == 0,
        contact_fd=lease.open_contact(spool_fd),
        cert_dir=cert_dir,
        starter_fd=instructions.open_program(),
        clock=NodeClock(int(clock_base_us)),
    )
    os.close(spool_fd)
    order_end = socket.socket(fileno=int(order_fd))
    for passed in (context.packets, order_end):
        passed.set_inheritable(False)
    moved = fcntl.fcntl(order_end.detach(), fcntl.F_DUPFD_CLOEXEC, FD_HIGH)
    os.close(int(order_fd))
    held = (context.packets.fileno(), context.steps_fd, context.contact_fd, null_fd, context.starter_fd)
    feed_fd = _fill_below(null_fd, max(held))
    _load_name_services()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page after a fork
    gc.disable()
    Launcher(context, socket.socket(fileno=moved), feed_fd).run()


def _load_name_services() -> None:
    """Loads the libraries that look up users and groups once, here, and not in every task."""
    with contextlib.suppress(KeyError, OSError):
        account = pwd.getpwuid(os.geteuid())
        os.getgrouplist(account.pw_name, account.pw_gid)


def _fill_below(fd: int, highest: int) -> int:
    """Opens every free number up to `highest` and one more; returns that one. Later descriptors get higher numbers."""
    while (taken := os.dup(fd)) < highest:
        pass
    return taken


def _note_child(signum: int, frame: object) -> None:
    """Does nothing: the signal wakes the poll through the wake-up descriptor."""


class Launcher:
    """The loop: takes orders, runs stepds, reports the dead. `idle`: the stepds that wait for an order."""

    def __init__(self, context: LauncherContext, order_end: socket.socket, feed_fd: int) -> None:
        self._context = context
        self._orders: socket.socket | None = order_end
        self._order_fd = order_end.fileno()
        self._feed_fd = feed_fd  # number of the feed in each stepd; the launcher's own descriptors are above it
        self._buffer = bytearray()
        self._workers: dict[int, LauncherWorker] = {}
        self._by_feed: dict[int, LauncherWorker] = {}
        self.idle: list[LauncherWorker] = []
        self._gone: list[tuple[str, int]] = []
        #: Children that are no stepds. Of stepds that ended well: one that keeps output for a client, what prolog and epilog
        #: have left. And of stepds that failed: they are killed, and as each of them dies, what comes from below it.
        self._left: set[int] = set()
        self._lost: set[int] = set()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._epoll = select.epoll()
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._epoll.register(self._order_fd, select.EPOLLIN)

    def run(self) -> None:
        """Runs until noded is gone and the last stepd too."""
        while self._orders is not None or self._workers:
            self.turn()

    def turn(self) -> None:
        """Waits until something happens, or IDLE_S while many stepds are idle, and handles it."""
        ready = self._epoll.poll(IDLE_S if len(self.idle) > IDLE_KEPT else None)
        for fd, _ in ready:
            if fd == self._wake_read:
                self._reap()
            elif fd == self._order_fd:
                self._read_orders()
            elif fd in self._by_feed:  # it may have been retired a moment ago
                self._receive(self._by_feed[fd])
        if not ready:
            self._end_idle()
        self._report_ended()

    def _end_idle(self) -> None:
        """Ends idle stepds after a while without activity, to free their memory."""
        for worker in self.idle[IDLE_KEPT:]:
            self._retire(worker)
        del self.idle[IDLE_KEPT:]

    # -- orders

    def _read_orders(self) -> None:
        """Assigns the orders that have arrived."""
        assert self._orders is not None
        try:
            data = self._orders.recv(READ_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            self._retire_all()
            return
        self._buffer += data
        at = 0
        head = orders.ORDER_HEAD
        while len(self._buffer) >= at + head.size:
            key_bytes, body_bytes = head.unpack_from(self._buffer, at)
            end = at + head.size + key_bytes + body_bytes
            if len(self._buffer) < end:
                break
            key = self._buffer[at + head.size : at + head.size + key_bytes].decode()
            self._hand(key, bytes(self._buffer[at:end]))
            at = end
        del self._buffer[:at]

    def _retire_all(self) -> None:
        """Ends the idle stepds: noded is gone, so no further order will arrive."""
        assert self._orders is not None
        self._epoll.unregister(self._order_fd)
        self._orders.close()
        self._orders = None
        for worker in self.idle:
            self._retire(worker)
        self.idle.clear()

    def _hand(self, key: str, order: bytes) -> None:
        crash_point("launcher.received")
        if self._context.lacks_tls and has_streams(key):
            self._load_tls()
        worker = self.idle.pop() if self.idle else self._fork()
        if worker is None:  # no process, memory or descriptor left: as if a stepd had ended at once
            self._gone.append((key, os.EX_OSERR << 8))
            return
        worker.key = key
        worker.served += 1
        with contextlib.suppress(OSError):  # it died: it will be reaped, and its key reported
            worker.feed.sendall(order)
        crash_point("launcher.handed")

    def _load_tls(self) -> None:
        """Loads TLS at the first step with streams, so that later forks inherit it.

        So nodes that run only batch scripts never pay for it, and the others pay once and not in each stepd.
        """
        with contextlib.suppress(OSError):  # the stepd will log it
            self._context.tls()
        for worker in self.idle:
            self._retire(worker)
        self.idle.clear()
        gc.collect()
        gc.freeze()

    def _fork(self) -> LauncherWorker | None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError:
            return None
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            status = os.EX_SOFTWARE
            try:
                os.dup2(theirs.fileno(), self._feed_fd, inheritable=False)
                os.closerange(self._feed_fd + 1, 1 << 20)
                status = stepd.run(self._context, socket.socket(fileno=self._feed_fd))
            finally:
                os._exit(status)
        theirs.close()
        worker = self._workers[pid] = self._by_feed[ours.fileno()] = LauncherWorker(pid, ours)
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        return worker

    # -- ends of stepds

    def _receive(self, worker: LauncherWorker) -> None:
        """Handles a message or the end of a stepd's feed: it is done with its step, or is gone."""
        try:
            word = worker.feed.recv(1)
        except ConnectionResetError:
            word = b""
        if not word:
            self._retire(worker)  # the rest follows when it is reaped
            return
        self._gone.append((worker.key, 0))
        worker.key = ""
        if self._orders is None or len(self.idle) >= IDLE_MAX or worker.served >= SERVED_MAX:
            self._retire(worker)
        else:
            self.idle.append(worker)

    def _retire(self, worker: LauncherWorker) -> None:
        """Sends no more orders to it: it ends after its step."""
        fd = worker.feed.fileno()
        if fd >= 0:
            self._epoll.unregister(fd)
            del self._by_feed[fd]
            worker.feed.close()

    def _reap(self) -> None:
        """Reaps ended children; kills what a stepd that failed has left, and leaves alone what another has left.

        A process that is not known here proves nothing: what an epilog has left may end before its stepd is reaped.
        """
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        are_lost = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            worker = self._workers.pop(pid, None)
            is_well = self._reap_one(worker, status) if worker is not None else pid not in self._lost
            are_lost = are_lost or not is_well
            self._lost.discard(pid)
        self._sort_children(are_lost)

    def _sort_children(self, are_lost: bool) -> None:
        """Sorts what has become our child: as left on purpose, or (`are_lost`) by a stepd that failed, to be killed."""
        others = {pid for pid in proctree.children(os.getpid()) if pid not in self._workers}
        self._left &= others
        new = others - self._left - self._lost
        if are_lost:
            self._lost |= new
            proctree.signal_descendants(os.getpid(), signal.SIGKILL, self._workers.keys() | self._left)
        else:
            self._left |= new

    def _reap_one(self, worker: LauncherWorker, status: int) -> bool:
        """Records a stepd's end; returns True when it has ended well."""
        if worker.feed.fileno() >= 0 and worker.key and status == 0:
            self._receive(worker)  # its last message is still in the feed
        self._retire(worker)
        if worker in self.idle:
            self.idle.remove(worker)
        if worker.key:
            self._gone.append((worker.key, status))
        return status == 0

    def _report_ended(self) -> None:
        gone = self._gone
        self._gone = []
        for at in range(0, len(gone), orders.STEPDS_ENDED_PER_PACKET_MAX):
            try:
                self._context.packets.send(orders.stepds_ended(gone[at : at + orders.STEPDS_ENDED_PER_PACKET_MAX]))
            except OSError:  # noded is gone: its successor finds the records
                return


if __name__ == "__main__":
    main(sys.argv[1:])
