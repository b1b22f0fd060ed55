"""The launcher: a warm process that keeps a stepd ready for every order, and reaps them.

It is started by noded as a program of its own, isolated and without site packages, and imports as little as it can:
what a process has in memory is paid at each fork. It stays single-threaded, so that forking without exec is safe. It
decides nothing: an order that it read is handed to a stepd, and whether that may start anything is settled by the
claim (steprecord.py).

A stepd supervises one step at a time. When its step has ended it is handed the next one, or waits for one: making a
new one for each step would cost as much as the step's own process. How many may wait, and how many steps one may
serve, is limited.

It is a sub-reaper: when a stepd is killed, what that stepd supervised falls to the launcher, which kills it. It
therefore stays until its last stepd is gone, also when noded is not there any more; a new noded brings a launcher of
its own.

Deliberately absent: retries, state on disk, any knowledge of what a job is.
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

from nodedaemon import cgroup, lease, orders, plugs, pmi_plug, proctree, sampling, stepd
from nodedaemon.context import Context
from nodedaemon.crash import crash_point
from nodedaemon.folders import open_folder

READ_BYTES = 1024 * 1024
#: stepds that wait for a step: as many as a large node may run at once, since to fork one costs more than a step's own
#: work. Each holds about 1.5 MB of its own.
IDLE_MAX = 256
#: After so long without a word from anybody, all but a few of those that wait are let go.
IDLE_S = 60.0
IDLE_KEPT = 8
#: Steps that one stepd may serve: whatever small thing one might leave behind is bounded.
SERVED_MAX = 500
#: Who may take part in a step.
MAKERS = (pmi_plug.make, sampling.make)
BATCH_STEP, EXTERN_STEP = -5, -4  # penstock.values.jobid, without what that imports
#: Out of the way of the numbers that stepds keep.
FD_HIGH = 64


def has_streams(key: str) -> bool:
    """True for a step of srun or an interactive one, by its key."""
    return not key.endswith((f".{BATCH_STEP}", f".{EXTERN_STEP}"))


class Worker:
    """A stepd as the launcher sees it. `key` is the step that it has, "" when it waits."""

    __slots__ = ("feed", "key", "pid", "served")

    def __init__(self, pid: int, feed: socket.socket) -> None:
        self.pid = pid
        self.feed = feed
        self.key = ""
        self.served = 0


def main(arguments: list[str]) -> None:
    """The launcher's life. Arguments: descriptors of order stream and packet socket, spool, node, groups (hex), folder of
    the node's certificate ("" = streams go without TLS)."""
    order_fd, packet_fd, spool_path, node_name, cgroups, cert_dir = arguments
    plugs.MAKERS += MAKERS
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its end is the end of its stepds, or a kill
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _note_child)
    null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    steps_path = os.path.join(os.path.abspath(spool_path), "steps")
    spool_fd = open_folder(os.path.dirname(steps_path))
    context = Context(
        steps_path=steps_path,
        steps_fd=open_folder(steps_path),
        packets=socket.socket(fileno=int(packet_fd)),
        null_fd=null_fd,
        node_name=node_name,
        cgroups=cgroup.decode(bytes.fromhex(cgroups)),
        is_root=os.geteuid() == 0,
        contact_fd=lease.open_contact(spool_fd),
        cert_dir=cert_dir,
    )
    os.close(spool_fd)
    order_end = socket.socket(fileno=int(order_fd))
    for passed in (context.packets, order_end):
        passed.set_inheritable(False)
    moved = fcntl.fcntl(order_end.detach(), fcntl.F_DUPFD_CLOEXEC, FD_HIGH)
    os.close(int(order_fd))
    feed_fd = _fill_below(null_fd, max(context.packets.fileno(), context.steps_fd, context.contact_fd, null_fd))
    _load_name_services()
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page after a fork
    gc.disable()
    Launcher(context, socket.socket(fileno=moved), feed_fd).run()


def _load_name_services() -> None:
    """Have the libraries that look up users and groups loaded once, here, and not in every task."""
    with contextlib.suppress(KeyError, OSError):
        account = pwd.getpwuid(os.geteuid())
        os.getgrouplist(account.pw_name, account.pw_gid)


def _fill_below(fd: int, highest: int) -> int:
    """Take every free number up to `highest` and one more; returns that one. What is opened later gets a higher number."""
    while (taken := os.dup(fd)) < highest:
        pass
    return taken


def _note_child(signum: int, frame: object) -> None:
    """Only so that the signal wakes the poll through the wake-up descriptor."""


class Launcher:
    """The loop: orders in, stepds out, the dead reported."""

    def __init__(self, context: Context, order_end: socket.socket, feed_fd: int) -> None:
        self._context = context
        self._orders: socket.socket | None = order_end
        self._order_fd = order_end.fileno()
        self._feed_fd = feed_fd  # a stepd's end of its feed; what lies above is the launcher's own
        self._buffer = bytearray()
        self._workers: dict[int, Worker] = {}
        self._by_feed: dict[int, Worker] = {}
        self._idle: list[Worker] = []
        self._gone: list[tuple[str, int]] = []
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._epoll = select.epoll()
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._epoll.register(self._order_fd, select.EPOLLIN)

    def run(self) -> None:
        """Until noded is gone and the last stepd too."""
        while self._orders is not None or self._workers:
            ready = self._epoll.poll(IDLE_S if len(self._idle) > IDLE_KEPT else None)
            for fd, _ in ready:
                if fd == self._wake_read:
                    self._reap()
                elif fd == self._order_fd:
                    self._read_orders()
                elif fd in self._by_feed:  # it may have been retired a moment ago
                    self._hear(self._by_feed[fd])
            if not ready:
                self._let_go()
            self._tell_gone()

    def _let_go(self) -> None:
        """Nothing has happened for a while: the memory of idle stepds is better used otherwise."""
        for worker in self._idle[IDLE_KEPT:]:
            self._retire(worker)
        del self._idle[IDLE_KEPT:]

    # -- orders

    def _read_orders(self) -> None:
        """Hand on what has come."""
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
        """noded is gone: nobody will order any more."""
        assert self._orders is not None
        self._epoll.unregister(self._order_fd)
        self._orders.close()
        self._orders = None
        for worker in self._idle:
            self._retire(worker)
        self._idle.clear()

    def _hand(self, key: str, order: bytes) -> None:
        crash_point("launcher.received")
        if self._context.lacks_tls and has_streams(key):
            self._load_tls()
        worker = self._idle.pop() if self._idle else self._fork()
        if worker is None:  # no process, memory or descriptor left: as if a stepd had ended at once
            self._gone.append((key, os.EX_OSERR << 8))
            return
        worker.key = key
        worker.served += 1
        with contextlib.suppress(OSError):  # it died: it will be reaped, and its key told
            worker.feed.sendall(order)
        crash_point("launcher.handed")

    def _load_tls(self) -> None:
        """The first step with streams: from here on stepds are forked with TLS in them.

        Nodes that run only batch scripts so never pay for it, at each fork, and the others pay once and not in each stepd.
        """
        with contextlib.suppress(OSError):  # the stepd will say so, to its log
            self._context.tls()
        for worker in self._idle:
            self._retire(worker)
        self._idle.clear()
        gc.collect()
        gc.freeze()

    def _fork(self) -> Worker | None:
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
        worker = self._workers[pid] = self._by_feed[ours.fileno()] = Worker(pid, ours)
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        return worker

    # -- what becomes of stepds

    def _hear(self, worker: Worker) -> None:
        """A stepd is done with its step, or is gone."""
        try:
            word = worker.feed.recv(1)
        except ConnectionResetError:
            word = b""
        if not word:
            self._retire(worker)  # the rest when it is reaped
            return
        self._gone.append((worker.key, 0))
        worker.key = ""
        if self._orders is None or len(self._idle) >= IDLE_MAX or worker.served >= SERVED_MAX:
            self._retire(worker)
        else:
            self._idle.append(worker)

    def _retire(self, worker: Worker) -> None:
        """No more orders for it: it ends when it has ended its step."""
        fd = worker.feed.fileno()
        if fd >= 0:
            self._epoll.unregister(fd)
            del self._by_feed[fd]
            worker.feed.close()

    def _reap(self) -> None:
        """Collect the dead; kill what a stepd that died badly has left."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        died_badly = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            worker = self._workers.pop(pid, None)
            if worker is not None:
                died_badly = self._bury(worker, status) or died_badly
        if died_badly:
            self._kill_orphans()

    def _bury(self, worker: Worker, status: int) -> bool:
        """Note a stepd's end; True when it was not the end it should have."""
        if worker.feed.fileno() >= 0 and worker.key and status == 0:
            self._hear(worker)  # its last word is still in the feed
        self._retire(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.key:
            self._gone.append((worker.key, status))
        return status != 0

    def _kill_orphans(self) -> None:
        """Children that are no stepds belong to a stepd that is dead. Their children come here when they die."""
        for pid in proctree.children(os.getpid()):
            if pid not in self._workers:
                proctree.signal_descendants(pid, signal.SIGKILL)
                proctree.send_signal(pid, signal.SIGKILL, lambda candidate: candidate not in self._workers)

    def _tell_gone(self) -> None:
        gone, self._gone = self._gone, []
        for at in range(0, len(gone), orders.GONE_PER_PACKET_MAX):
            try:
                self._context.packets.send(orders.gone(gone[at : at + orders.GONE_PER_PACKET_MAX]))
            except OSError:  # noded is gone: its successor finds the records
                return


if __name__ == "__main__":
    main(sys.argv[1:])
