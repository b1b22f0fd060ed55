"""pmixd: the PMIx server of one step on one node, for Open MPI. A process of the job's user, started by stepd.

    stepd   -- FACTS --> pmixd       the step: who and where its tasks are
            <- GATHER -- pmixd       for the step's owner; the answer comes back as EXCHANGE
            -- EXITED -> pmixd       a task has ended; the end of the connection: all have
    pmixd   -- pipe ---> each task   its environment, before it becomes its program; or why there is none

Rules
    - It is executed anew and holds no secret of stepd: the library in it is the user's, and so is what it reads.
    - Round 0 of the exchange: names of the nodes and their ranks. Every fence of the whole step is one further round; data
      that libraries give to a fence are bytes to us.
    - Fences within a node never come here: the library serves them. Fences of some of a step's tasks on several nodes,
      names to look up, and new processes are refused with the standard's "not supported".
    - The library calls from its own thread: what it brings is only noted and sent.

Nothing is left behind: the library keeps its data in memory (gds hash) instead of files.
"""

import ctypes
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path

if __name__ == "__main__":  # run as a file, with nothing but the interpreter around it
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from nodedaemon import pmix_library as pmix
from penstock.values import exchange
from penstock.values.packing import Damaged, pack, unpack
from penstock.values.stepframes import BadFrame, FrameReader, Kind, frame

TYPE_CHECKING = False  # the helper starts sooner without `typing`
if TYPE_CHECKING:
    from collections.abc import Callable

    Procs = ctypes.Array[pmix.Proc]

#: What a task reads from its pipe: its environment, or why it has none.
ENVIRONMENT, FAILURE = b"e", b"f"
#: The first frame that stepd sends.
FACTS = Kind.HELLO
_READ_BYTES = 256 * 1024
_STORE = "PMIX_MCA_gds"
#: A fence of the whole step: one name, all ranks.
_Answer = tuple[int, int]


class Facts:
    """What stepd says first (pmi_plug.py)."""

    def __init__(self, payload: bytes) -> None:
        name, ntasks, node_index, nodes, node_name, ranks, pipes = unpack(payload)
        self.name = name
        self.ntasks = int(ntasks)
        self.node_index = int(node_index)
        self.nodes = int(nodes)
        self.node_name = node_name
        self.ranks = [int(rank) for rank in ranks.split(b",")]
        self.pipes = [int(fd) for fd in pipes.split(b",")]  # one a rank, in their order


class Server:
    """One step's server on one node."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self._control = control
        self._folder = folder  # for what libraries put into files; removed at the end
        self._lock = threading.Lock()  # of sending: the library's thread and ours
        self._reader = FrameReader()
        self._joiner = exchange.Joiner()
        self._fences: list[_Answer] = []  # that wait for their round, the first one's is under way
        self._waiting: list[bytes] = []  # data of those behind it
        self._answers: list[object] = []  # data that the library may still read
        self._facts: Facts | None = None
        self._library: pmix.Library | None = None

    def run(self) -> None:
        """Until stepd closes the connection. Raises LibraryError, BadExchange, BadFrame, Damaged."""
        while data := self._control.recv(_READ_BYTES):
            self._reader.feed(data)
            while (taken := self._reader.take()) is not None:
                kind, _, task, payload = taken
                if kind == FACTS:
                    self._begin(Facts(payload))
                elif kind == Kind.EXCHANGE:
                    self._exchanged(payload)
                elif kind == Kind.EXITED and self._library is not None and self._facts is not None:
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
                pmix.CONNECTED: lambda *_: pmix.SUCCEEDED_AT_ONCE,
                pmix.FINALIZED: lambda *_: pmix.SUCCEEDED_AT_ONCE,
                pmix.ABORTED: self._aborted,
                pmix.FENCE: self._fence,
                pmix.DIRECT: lambda *_: pmix.NOT_SUPPORTED,
                pmix.CONTROL: lambda *_: pmix.NOT_SUPPORTED,  # with it, the library takes files to remove at the end
            }
            tmp = os.fsencode(self._folder)
            places = [(b"pmix.srvr.tmpdir", tmp, pmix.STRING), (b"pmix.sys.tmpdir", tmp, pmix.STRING)]
            infos: list[pmix.Info] = [*places, (b"pmix.hname", facts.node_name, pmix.STRING)]
            library.start(infos, {place: pmix.CALLS[place](call) for place, call in calls.items()})
        except pmix.LibraryError as error:
            text = FAILURE + str(error).encode()
            self._tell_tasks(facts, lambda _: text)
            raise
        self._library = library
        blob = pack([facts.node_name, b",".join(b"%d" % rank for rank in facts.ranks)])
        if facts.nodes == 1:
            self._laid_out([blob])
        else:
            self._gather(0, blob)

    def _laid_out(self, blobs: list[bytes]) -> None:
        """All nodes' names and ranks are known: the tasks may begin."""
        facts, library = self._facts, self._library
        assert facts is not None and library is not None
        layout = [(name, [int(rank) for rank in ranks.split(b",")]) for name, ranks in map(unpack, blobs)]
        library.register_step(facts.name, len(facts.ranks), step_infos(library, facts, layout, self._folder))

        def environment(rank: int) -> bytes:
            found = library.environment_of(facts.name, rank)
            return ENVIRONMENT + pack([part for pair in found.items() for part in pair])

        self._tell_tasks(facts, environment)

    def _tell_tasks(self, facts: Facts, text: "Callable[[int], bytes]") -> None:
        for rank, pipe in zip(facts.ranks, facts.pipes, strict=True):
            data = text(rank)
            try:
                while data:
                    data = data[os.write(pipe, data) :]
            except BrokenPipeError:
                continue  # the task has ended already
            finally:
                os.close(pipe)

    # -- fences

    def _fence(
        self, procs: "Procs", count: int, _infos: int, _ninfos: int, data: int | None, size: int, answer: int, whom: int
    ) -> int:
        """In the library's thread."""
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
        self._send(frame(Kind.GATHER, exchange.abort_part(status, text or b"")))
        return pmix.SUCCEEDED_AT_ONCE

    def _gather(self, round_: int, blob: bytes) -> None:
        for payload in exchange.parts(round_, blob):
            self._send(frame(Kind.GATHER, payload))

    def _send(self, data: bytes) -> None:
        with self._lock:
            self._control.sendall(data)


def step_infos(
    library: pmix.Library, facts: Facts, layout: list[tuple[bytes, list[int]]], folder: str
) -> list[pmix.Info]:
    """What the standard wants to be known of a step."""
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
        (b"pmix.ndosub", len(own) > len(os.sched_getaffinity(0)), pmix.BOOL),  # then tasks that wait let others run
        *((key, os.fsencode(folder), pmix.STRING) for key in (b"pmix.tmpdir", b"pmix.nsdir")),
        (b"pmix.tdir.rmclean", True, pmix.BOOL),
    ]
    for node, (name, ranks) in enumerate(layout):
        for place, rank in enumerate(sorted(ranks)):
            infos.append(library.infos(_task_infos(rank, place, node, name)))
    return infos


def _task_infos(rank: int, place: int, node: int, node_name: bytes) -> list[pmix.Info]:
    """Of one task; `place` is its number on its node."""
    return [
        *((key, rank, pmix.RANK) for key in (b"pmix.rank", b"pmix.grank", b"pmix.apprank")),
        (b"pmix.appnum", 0, pmix.UINT32),
        (b"pmix.lrank", place, pmix.UINT16),
        (b"pmix.nrank", place, pmix.UINT16),
        (b"pmix.nodeid", node, pmix.UINT32),
        (b"pmix.hname", node_name, pmix.STRING),
    ]


def _list(ranks: list[int]) -> bytes:
    return b",".join(b"%d" % rank for rank in sorted(ranks))


def main(arguments: list[str]) -> int:
    """The number of the control descriptor is the only argument; the exit status is 1 when it could not serve."""
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-pmix-", ignore_cleanup_errors=True) as folder:
            Server(socket.socket(fileno=int(arguments[0])), folder).run()
    except (pmix.LibraryError, exchange.BadExchange, BadFrame, Damaged) as error:
        sys.stderr.write(f"pmixd: {error}\n")
        return 1
    except ConnectionError:  # stepd is gone, and with it the step
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
