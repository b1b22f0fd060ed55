"""pmixd: the PMIx server of one step on one node, for Open MPI. A process of the job's user, started by stepd.

    stepd   -- FACTS --> pmixd       the step: its tasks and their nodes
            <- GATHER -- pmixd       for the step's owner; the answer is an EXCHANGE
            -- EXITED -> pmixd       a task has ended; the end of the connection: all have ended
    pmixd   -- pipe ---> each task   its environment, before it executes its program; or why there is none

Rules
    - It is a fresh process without secrets of stepd: its library and its input are the user's.
    - Round 0 of the exchange: names of the nodes and their ranks. Every fence of the whole step is one further round;
      the data of a fence is opaque to us.
    - Fences within a node are served by the library itself. Fences of some of a step's tasks on several nodes,
      names to look up, and new processes are refused with the standard's "not supported".
    - The library calls back in its own thread: there data is only stored and sent.
    - It listens on a TCP port of the loopback address, which all users of the node reach, and believes the uid that its
      client states. So the kernel is asked whose connection it is, before a client is admitted (`expel_strangers`).

No files are left: the library keeps its data in memory (gds hash). The folder for its sockets is removed at the end; the
next server of the same user removes that of one that was killed.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

if __name__ == "__main__":  # run as a file, in a bare interpreter
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodedaemon.mpi import pmix_library as pmix
from penstock.values import exchange
from penstock.values.packing import Damaged, pack, unpack
from penstock.values.stepframes import BadFrame, FrameKind, FrameReader, frame

TYPE_CHECKING = False  # avoids importing `typing`: the helper starts faster
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Procs = ctypes.Array[pmix.Proc]

#: Prefixes of the data in a task's pipe: its environment, or why it has none.
ENVIRONMENT, FAILURE = b"e", b"f"
#: The first frame that stepd sends.
FACTS = FrameKind.HELLO
_READ_BYTES = 256 * 1024
_STORE = "PMIX_MCA_gds"
#: The kernel's table of connections changes while it is read, so that a row can be missed.
_TABLE_READS = 5
#: Names of the folders of servers.
_FOLDERS = "penstock-pmix-"
#: A folder without a lock that is younger may belong to a server that is about to lock it.
_LOCKED_WITHIN_S = 60.0
#: Entries of the parent that are looked at: others may have filled it, and the step waits.
_ENTRIES_MAX = 1000
#: A fence of the whole step: one name, all ranks.
_Answer = tuple[int, int]


class Facts:
    """The first message of stepd (pmi_plug.py)."""

    def __init__(self, payload: bytes) -> None:
        name, ntasks, node_index, nodes, node_name, ranks, pipes = unpack(payload)
        self.name = name
        self.ntasks = int(ntasks)
        self.node_index = int(node_index)
        self.nodes = int(nodes)
        self.node_name = node_name
        self.ranks = [int(rank) for rank in ranks.split(b",")]
        self.pipes = [int(fd) for fd in pipes.split(b",")]  # one a rank, in their order


class PmixServer:
    """One step's server on one node."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self._control = control
        self._folder = folder  # of the libraries' files; removed at the end
        self._lock = threading.Lock()  # serialises sending by the library's thread and ours
        self._reader = FrameReader()
        self._joiner = exchange.Joiner()
        self._fences: list[_Answer] = []  # that wait for their round; the first one's is in progress
        self._waiting: list[bytes] = []  # data of the rounds after it
        self._answers: list[object] = []  # data that the library may still read
        self._facts: Facts | None = None
        self._library: pmix.Library | None = None

    def run(self) -> None:
        """Serves until stepd closes the connection. Raises LibraryError, BadExchange, BadFrame, Damaged."""
        while data := self._control.recv(_READ_BYTES):
            self._reader.feed(data)
            while (taken := self._reader.take()) is not None:
                kind, _, task, payload = taken
                if kind == FACTS:
                    self._begin(Facts(payload))
                elif kind == FrameKind.EXCHANGE:
                    self._exchanged(payload)
                elif kind == FrameKind.EXITED and self._library is not None and self._facts is not None:
                    self._library.forget(self._facts.name, task)
        if self._library is not None and self._facts is not None:
            self._library.forget_step(self._facts.name)
            self._library.stop()

    # -- the beginning

    def _begin(self, facts: Facts) -> None:
        self._facts = facts
        try:
            library = pmix.Library(pmix.find_library(dict(os.environ)))
            os.environ[_STORE] = "hash"  # in memory; read by the library when it starts
            calls: dict[int, Callable[..., int]] = {
                pmix.CONNECTED: self._connected,
                pmix.FINALIZED: lambda *_: pmix.SUCCEEDED_AT_ONCE,
                pmix.ABORTED: self._aborted,
                pmix.FENCE: self._fence,
                pmix.DIRECT: lambda *_: pmix.NOT_SUPPORTED,
                pmix.CONTROL: lambda *_: pmix.NOT_SUPPORTED,  # with it, the library takes files to remove at the end
            }
            tmp = os.fsencode(self._folder)
            folders = [(b"pmix.srvr.tmpdir", tmp, pmix.STRING), (b"pmix.sys.tmpdir", tmp, pmix.STRING)]
            infos: list[pmix.Info] = [*folders, (b"pmix.hname", facts.node_name, pmix.STRING)]
            library.start(infos, {name: pmix.CALLS[name](call) for name, call in calls.items()})
        except pmix.LibraryError as error:
            text = FAILURE + str(error).encode()
            self._send_environments(facts, lambda _: text)
            raise
        self._library = library
        blob = pack([facts.node_name, b",".join(b"%d" % rank for rank in facts.ranks)])
        if facts.nodes == 1:
            self._laid_out([blob])
        else:
            self._gather(0, blob)

    def _laid_out(self, blobs: list[bytes]) -> None:
        """Starts the tasks: all nodes' names and ranks are known."""
        facts, library = self._facts, self._library
        assert facts is not None and library is not None
        layout = [(name, [int(rank) for rank in ranks.split(b",")]) for name, ranks in map(unpack, blobs)]
        library.register_step(facts.name, len(facts.ranks), step_infos(library, facts, layout, self._folder))

        def environment(rank: int) -> bytes:
            found = library.environment_of(facts.name, rank)
            return ENVIRONMENT + pack([part for pair in found.items() for part in pair])

        self._send_environments(facts, environment)

    def _send_environments(self, facts: Facts, text: "Callable[[int], bytes]") -> None:
        for rank, pipe in zip(facts.ranks, facts.pipes, strict=True):
            data = text(rank)
            try:
                while data:
                    data = data[os.write(pipe, data) :]
            except BrokenPipeError:
                continue  # the task has ended already
            finally:
                os.close(pipe)

    def _connected(self, *_: object) -> int:
        """Runs in the library's thread: a client has said who it is, and has no answer yet."""
        try:
            expel_strangers()
        except OSError:
            return pmix.NOT_SUPPORTED  # refused: an exception would leave it waiting
        return pmix.SUCCEEDED_AT_ONCE

    # -- fences

    def _fence(
        self, procs: "Procs", count: int, _infos: int, _ninfos: int, data: int | None, size: int, answer: int, whom: int
    ) -> int:
        """Runs in the library's thread."""
        facts = self._facts
        assert facts is not None
        if count != 1 or procs[0].name != facts.name or procs[0].rank != pmix.WILDCARD:
            ranks = {procs[at].rank for at in range(count)}
            if len(ranks) != facts.ntasks:
                return pmix.NOT_SUPPORTED
        blob = ctypes.string_at(data, size) if data and size else b""
        with self._lock:
            self._fences.append((answer, whom))
            if len(self._fences) > 1:
                self._waiting.append(blob)
                return pmix.SUCCESS
        self._gather(self._joiner.next_round, blob)
        return pmix.SUCCESS

    def _exchanged(self, payload: bytes) -> None:
        joined = self._joiner.take(payload)
        if joined is None:
            return
        blobs = exchange.split(joined)
        if self._joiner.next_round == 1:
            self._laid_out(blobs)
            return
        with self._lock:
            answer, whom = self._fences.pop(0)
            following = self._waiting.pop(0) if self._waiting else None
        joined = b"".join(blobs)
        kept = ctypes.create_string_buffer(joined, len(joined))
        self._answers = [*self._answers[-1:], kept]  # the library copies it in its own thread
        pmix.ANSWER(answer)(pmix.SUCCESS, ctypes.addressof(kept), len(joined), whom, None, None)
        if following is not None:
            self._gather(self._joiner.next_round, following)

    def _aborted(
        self,
        _proc: "Procs",
        _object: int,
        status: int,
        text: bytes | None,
        _procs: int,
        _n: int,
        _answer: int,
        _whom: int,
    ) -> int:
        self._send(frame(FrameKind.GATHER, exchange.abort_part(status, text or b"")))
        return pmix.SUCCEEDED_AT_ONCE

    def _gather(self, round_: int, blob: bytes) -> None:
        for payload in exchange.parts(round_, blob):
            self._send(frame(FrameKind.GATHER, payload))

    def _send(self, data: bytes) -> None:
        with self._lock:
            self._control.sendall(data)


def expel_strangers() -> None:
    """Ends all connections of other users to this process's listening sockets; what they have sent is discarded. Raises
    OSError when it cannot find out whose they are.

    A descriptor may be closed by the library meanwhile: each is looked at by a copy of its own.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(one) for name in os.listdir("/proc/self/fd") if (one := _socket_at(int(name)))]
        tcp = [one for one in sockets if (one.family, one.type) == (socket.AF_INET, socket.SOCK_STREAM)]
        listening = [one for one in tcp if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
        own = {one.getsockname() for one in listening}
        taken = {}
        for one in tcp:
            with contextlib.suppress(OSError):  # it listens, or is not connected any more
                here, there = one.getsockname(), one.getpeername()
                if here in own:
                    taken[_in_table(there), _in_table(here)] = one
        owners: dict[tuple[str, str], int] = {}
        for _ in range(_TABLE_READS):
            owners = {key: uid for key, uid in _owners() if key in taken} | owners
            if len(owners) == len(taken):
                break
        for key, one in taken.items():
            if owners.get(key) != os.geteuid():
                with contextlib.suppress(OSError):  # it has ended
                    one.shutdown(socket.SHUT_RDWR)
                    while one.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                        pass


def _socket_at(number: int) -> socket.socket | None:
    """A copy of a descriptor's socket; None: it is closed already, or no socket."""
    try:
        copy = os.dup(number)
    except OSError as error:
        if error.errno == errno.EBADF:
            return None
        raise
    if stat.S_ISSOCK(os.fstat(copy).st_mode):
        return socket.socket(fileno=copy)
    os.close(copy)
    return None


def _owners() -> "Iterator[tuple[tuple[str, str], int]]":
    """All TCP connections of this machine that a process holds: their own and the other address, the uid.

    Of one that its process has closed the kernel forgets whose it was: the table then has user 0 and inode 0.
    """
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in islice(file, 1, None):
            row = line.split()
            if row[9] != "0":
                yield (row[1], row[2]), int(row[7])


def _in_table(address: tuple[str, int]) -> str:
    """An address as the kernel's table has it."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def step_infos(
    library: pmix.Library, facts: Facts, layout: list[tuple[bytes, list[int]]], folder: str
) -> list[pmix.Info]:
    """The attributes of the step that the standard requires."""
    own = facts.ranks
    infos: list[pmix.Info] = [
        (b"pmix.jobid", facts.name, pmix.STRING),
        *((key, facts.ntasks, pmix.UINT32) for key in (b"pmix.univ.size", b"pmix.job.size", b"pmix.max.size")),
        (b"pmix.job.napps", 1, pmix.UINT32),
        (b"pmix.num.nodes", len(layout), pmix.UINT32),
        (b"pmix.nmap", b"raw:" + b",".join(name for name, _ in layout), pmix.STRING),
        (b"pmix.pmap", b"raw:" + b";".join(_list(ranks) for _, ranks in layout), pmix.STRING),
        (b"pmix.local.size", len(own), pmix.UINT32),
        (b"pmix.node.size", len(own), pmix.UINT32),
        (b"pmix.lpeers", _list(own), pmix.STRING),
        (b"pmix.lldr", min(own), pmix.RANK),
        (b"pmix.nodeid", facts.node_index, pmix.UINT32),
        (b"pmix.ndosub", len(own) > len(os.sched_getaffinity(0)), pmix.BOOL),  # then waiting tasks yield their cpus
        *((key, os.fsencode(folder), pmix.STRING) for key in (b"pmix.tmpdir", b"pmix.nsdir")),
        (b"pmix.tdir.rmclean", True, pmix.BOOL),
    ]
    for node, (name, ranks) in enumerate(layout):
        for local_rank, rank in enumerate(sorted(ranks)):
            infos.append(library.infos(_task_infos(rank, local_rank, node, name)))
    return infos


def _task_infos(rank: int, local_rank: int, node: int, node_name: bytes) -> list[pmix.Info]:
    """The attributes of one task; `local_rank` is its number on its node."""
    return [
        *((key, rank, pmix.RANK) for key in (b"pmix.rank", b"pmix.grank", b"pmix.apprank")),
        (b"pmix.appnum", 0, pmix.UINT32),
        (b"pmix.lrank", local_rank, pmix.UINT16),
        (b"pmix.nrank", local_rank, pmix.UINT16),
        (b"pmix.nodeid", node, pmix.UINT32),
        (b"pmix.hname", node_name, pmix.STRING),
    ]


def _list(ranks: list[int]) -> bytes:
    return b",".join(b"%d" % rank for rank in sorted(ranks))


def hold(folder: str) -> int:
    """Locks a folder for as long as the returned descriptor is open. Raises OSError: it is held, or no folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def remove_left(parent: str, now_s: float) -> None:
    """Removes folders of the user's servers that were killed: nobody holds them."""
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        folders += (entry.path for entry in islice(entries, _ENTRIES_MAX) if entry.name.startswith(_FOLDERS))
    for folder in folders:
        with contextlib.suppress(OSError):
            found = os.lstat(folder)
            if found.st_uid != os.geteuid() or now_s - found.st_mtime < _LOCKED_WITHIN_S:
                continue
            fd = hold(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(fd)


def main(arguments: list[str]) -> int:
    """Runs the server. The only argument is the control descriptor; the exit status is 1 when it could not serve."""
    try:
        remove_left(tempfile.gettempdir(), time.time())
        with tempfile.TemporaryDirectory(prefix=_FOLDERS, ignore_cleanup_errors=True) as folder:
            with contextlib.suppress(OSError):  # a file system without locks: nobody else gets it, either
                hold(folder)  # until this process ends
            PmixServer(socket.socket(fileno=int(arguments[0])), folder).run()
    except (pmix.LibraryError, exchange.BadExchange, BadFrame, Damaged) as error:
        sys.stderr.write(f"pmixd: {error}\n")
        return 1
    except ConnectionError:  # stepd is gone, and with it the step
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
