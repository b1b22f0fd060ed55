"""The process management interface of one step on one node: requests of MPI libraries on PMI_FD, answered without I/O.

    received(rank, bytes)  ->  replies: (rank, bytes)
    exchanged(payload)     ->  replies; the combined data of all nodes has arrived
                               gathers: payloads for the step's owner; abort: a task requests the end of the step

Rules
    - Each task puts key-value pairs; when every task of the step has reached a fence (PMI-1: barrier), all tasks see
      all pairs that were put before it. A node sends the others only those put since the last fence.
    - Round 0 of the exchange is no fence: the nodes exchange their ranks. It begins with the step, so that
      PMI_process_mapping is known when the first library asks. A step of one node exchanges nothing.
    - A message that cannot be parsed ends the service of that task, not of the others.
    - The stored data is limited (KEPT_BYTES_MAX): it is in the supervisor's memory, which the job's limit does not
      cover.

Deliberately absent: starting further processes (spawn) and ports under a name (publish, lookup): both are refused with
an answer. Barriers of groups (PMI 1.2): the server reports version 1.1, so no client requests one.
"""

from nodedaemon.mpi import pmi_wire
from nodedaemon.mpi.process_mapping import process_mapping
from penstock.values import exchange
from penstock.values.packing import Damaged, pack, unpack

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable

    _Pairs = list[tuple[bytes, bytes]]
    _Handler = Callable[["PmiServer", int, pmi_wire.Message], _Pairs | None]

#: Buffer sizes of PMI-1 clients: bytes with the final zero.
KVSNAME_BYTES_MAX = 256
KEY_BYTES_MAX = 64
VALUE_BYTES_MAX = 1024
#: Data of all nodes together; a thousand tasks with a hundred pairs of a hundred bytes are 10 MB.
KEPT_BYTES_MAX = exchange.BLOB_BYTES_MAX
_WORD_OVERHEAD_BYTES = 128
#: Threads of a task that wait for a key of the node.
WAITING_MAX_A_TASK = 64
#: Bytes of node-local data that are stored.
_WAITING_WORDS = (b"key", b"wait", b"thrid")
MAPPING = b"PMI_process_mapping"
_OK: "_Pairs" = []


class PmiStep:
    """The inputs of the server. `name` is the same on all nodes, and unique to the step."""

    __slots__ = ("name", "node_index", "nodes", "ntasks", "ranks")

    def __init__(self, name: bytes, ntasks: int, node_index: int, nodes: int, ranks: list[int]) -> None:
        self.name = name
        self.ntasks = ntasks
        self.node_index = node_index
        self.nodes = nodes
        self.ranks = ranks  # of this node


def environment(step: PmiStep, rank: int, fd: int) -> dict[bytes, bytes]:
    """The environment of a task; `fd` is its end of the connection."""
    values = {b"PMI_FD": fd, b"PMI_RANK": rank, b"PMI_SIZE": step.ntasks}
    return {**{name: b"%d" % value for name, value in values.items()}, b"PMI_JOBID": step.name}


class PmiServer:
    """One step on one node. After each call the caller handles `replies`, `gathers`, `broken` and `abort`.

    `waiting`: unanswered requests for a key of the node or the mapping, with their ranks.
    """

    def __init__(self, step: PmiStep) -> None:
        self.step = step
        self.replies: list[tuple[int, bytes]] = []
        self.gathers: list[bytes] = []
        self.broken: list[int] = []  # ranks that sent invalid messages: close their descriptors
        self.abort: tuple[int, int, bytes] | None = None  # rank, exit code, message
        self._readers = {rank: pmi_wire.PmiReader() for rank in step.ranks}
        self._words: dict[bytes, bytes] = {}
        self._new: dict[bytes, bytes] = {}  # put since the last fence
        self._node_words: dict[bytes, bytes] = {}
        self._kept_bytes = 0
        self._inside: dict[int, pmi_wire.Message] = {}  # ranks that wait in the fence, with their requests
        self.waiting: list[tuple[int, pmi_wire.Message]] = []
        self._joiner = exchange.Joiner()
        self._is_exchanging = step.nodes > 1
        self._has_mapping = False
        if step.nodes > 1:
            self.gathers += exchange.parts(0, b",".join(b"%d" % rank for rank in step.ranks))
        else:
            self._map([step.ranks])

    def received(self, rank: int, data: bytes) -> None:
        """Handles data of this rank's library."""
        reader = self._readers[rank]
        reader.feed(data)
        try:
            while (message := reader.take()) is not None:
                self._answer(rank, message)
        except pmi_wire.BadMessage:
            self.broken.append(rank)

    def exchanged(self, payload: bytes) -> None:
        """Handles a payload of the owner's answer. Raises BadExchange."""
        joined = self._joiner.take(payload)
        if joined is None:
            return
        blobs = exchange.split(joined)
        if len(blobs) != self.step.nodes:
            raise exchange.BadExchange(f"blobs of {len(blobs)} nodes, the step has {self.step.nodes}")
        self._is_exchanging = False
        if not self._has_mapping:
            self._map([_ranks(blob) for blob in blobs])
        else:
            self._merge(blobs)
            self._release()
        self._fence()

    # -- requests

    def _answer(self, rank: int, message: pmi_wire.Message) -> None:
        reply, handler = _COMMANDS.get((message.version, message.name), (message.name + b"-response", _unknown))
        pairs = handler(self, rank, message)
        if pairs is not None:
            self._reply(rank, message, reply, pairs)

    def _reply(self, rank: int, message: pmi_wire.Message, name: bytes, pairs: "_Pairs") -> None:
        if not pairs or pairs[0][0] != b"rc":
            pairs = [(b"rc", b"0"), *pairs]
        thread = message.words.get(b"thrid")
        if thread is not None:
            pairs = [(b"thrid", thread), *pairs]
        self.replies.append((rank, pmi_wire.encode(message.version, name, pairs)))

    def _put(self, _rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        key, value = message.get(b"key"), message.get(b"value")
        problem = self._keep(self._words, key, value)
        if not problem:
            self._new[key] = value
        return problem

    def _keep(self, words: dict[bytes, bytes], key: bytes, value: bytes) -> "_Pairs":
        """Puts a pair; returns the error, or nothing."""
        if not key or len(key) >= KEY_BYTES_MAX or len(value) >= VALUE_BYTES_MAX:
            return _failure(b"key or value too long")
        more = len(value) - len(words[key]) if key in words else len(key) + len(value) + _WORD_OVERHEAD_BYTES
        if self._kept_bytes + more > KEPT_BYTES_MAX:
            return _failure(b"no room for more")
        self._kept_bytes += more
        words[key] = value
        return _OK

    def _get(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        key = message.get(b"key")
        if key == MAPPING and not self._has_mapping:
            return self._wait(rank, message)
        return _found(message.version, self._words.get(key))

    def _get_job(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        if message.get(b"key") == b"universeSize":
            return _found(message.version, b"%d" % self.step.ntasks)
        return self._get(rank, message)

    def _put_node(self, _rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        problem = self._keep(self._node_words, message.get(b"key"), message.get(b"value"))
        waiting = self.waiting
        self.waiting = []
        for rank, question in waiting:
            self._answer(rank, question)
        return problem

    def _get_node(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        value = self._node_words.get(message.get(b"key"))
        if value is None and message.get(b"wait").upper() == b"TRUE":
            return self._wait(rank, message)
        return _found(message.version, value)

    def _wait(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        if len(self.waiting) >= WAITING_MAX_A_TASK * len(self.step.ranks):
            return _failure(b"too many questions wait")
        message.words = {name: message.words[name] for name in _WAITING_WORDS if name in message.words}
        if sum(map(len, message.words.values())) > VALUE_BYTES_MAX:
            return _failure(b"key too long")
        self.waiting.append((rank, message))
        return None

    def _end(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        code = message.get(b"exitcode", b"1")
        number = int(code) if code.removeprefix(b"-").isdigit() and len(code) < 10 else 1
        text = message.get(b"message") or message.get(b"error_msg")
        if self.abort is None:
            self.abort = (rank, number, text)
            self.gathers.append(exchange.abort_part(number, text))
        return None  # no task waits for an answer

    # -- fences

    def _enter(self, rank: int, message: pmi_wire.Message) -> "_Pairs | None":
        self._inside[rank] = message
        self._fence()
        return None

    def _fence(self) -> None:
        """Starts the exchange, when all tasks of the node are inside and the previous round is over."""
        if self._is_exchanging or len(self._inside) < len(self.step.ranks):
            return
        if self.step.nodes == 1:
            self._new = {}
            self._release()
            return
        self._is_exchanging = True
        blob = pack([part for pair in self._new.items() for part in pair])
        self._new = {}
        self.gathers += exchange.parts(self._joiner.next_round, blob)

    def _merge(self, blobs: list[bytes]) -> None:
        for node, blob in enumerate(blobs):
            if node == self.step.node_index:
                continue  # our own: known already
            try:
                pieces = unpack(blob)
            except Damaged as error:
                raise exchange.BadExchange(f"of node {node}: {error}") from error
            for key, value in zip(pieces[::2], pieces[1::2], strict=False):
                self._keep(self._words, key, value)

    def _release(self) -> None:
        """Releases the tasks, since all are inside."""
        inside = self._inside
        self._inside = {}
        for rank, message in inside.items():
            self._reply(rank, message, b"barrier_out" if message.version == 1 else b"kvs-fence-response", _OK)

    def _map(self, ranks_of_nodes: list[list[int]]) -> None:
        """Answers those who wait for the layout, which is known now. A mapping longer than a value may be is left
        out."""
        self._has_mapping = True
        mapping = process_mapping(ranks_of_nodes).encode()
        if mapping and len(mapping) < VALUE_BYTES_MAX:
            self._words[MAPPING] = mapping
        waiting = self.waiting
        self.waiting = []
        for rank, question in waiting:
            self._answer(rank, question)


def _ranks(blob: bytes) -> list[int]:
    try:
        return [int(rank) for rank in blob.split(b",")]
    except ValueError:
        raise exchange.BadExchange("ranks that are no numbers") from None


def _found(version: int, value: bytes | None) -> "_Pairs":
    if value is not None:
        return [(b"found", b"TRUE"), (b"value", value)] if version == 2 else [(b"value", value)]
    return [(b"found", b"FALSE")] if version == 2 else _failure(b"key_not_found")


def _failure(text: bytes) -> "_Pairs":
    """Formats a refusal; PMI-1 values contain no blanks."""
    return [(b"rc", b"-1"), (b"msg", text.replace(b" ", b"_")), (b"errmsg", text.replace(b" ", b"_"))]


def _unknown(_server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return _failure(b"not supported")


def _init(_server: PmiServer, _rank: int, message: pmi_wire.Message) -> "_Pairs":
    """Handles the first line of both versions; any version but 2 gets 1.1."""
    if message.get(b"pmi_version") == b"2":
        return [(b"rc", b"0"), (b"pmi_version", b"2"), (b"pmi_subversion", b"0")]
    return [(b"rc", b"0"), (b"pmi_version", b"1"), (b"pmi_subversion", b"1")]


def _fullinit(server: PmiServer, rank: int, _message: pmi_wire.Message) -> "_Pairs":
    size = b"%d" % server.step.ntasks
    return [
        (b"rc", b"0"), (b"pmi-version", b"2"), (b"pmi-subversion", b"0"), (b"rank", b"%d" % rank), (b"size", size),
        (b"appnum", b"0"), (b"debugged", b"FALSE"), (b"pmiverbose", b"FALSE"),
    ]  # fmt: skip


def _maxes(_server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    limits = (KVSNAME_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX)
    return list(zip((b"kvsname_max", b"keylen_max", b"vallen_max"), (b"%d" % limit for limit in limits), strict=True))


def _size(server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return [(b"size", b"%d" % server.step.ntasks)]


def _appnum(_server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return [(b"appnum", b"0")]


def _kvsname(server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return [(b"kvsname", server.step.name)]


def _jobid(server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return [(b"jobid", server.step.name)]


def _by_index(server: PmiServer, _rank: int, message: pmi_wire.Message) -> "_Pairs":
    """Handles the old way to read everything: by index."""
    index = message.get(b"idx")
    at = int(index) if index.isdigit() and len(index) < 10 else -1
    words = list(server._words.items())
    if not 0 <= at < len(words):
        return [(b"rc", b"-2"), (b"reason", b"no_more_keyvals")]
    return [(b"nextidx", b"%d" % (at + 1)), (b"key", words[at][0]), (b"val", words[at][1])]


def _done(_server: PmiServer, _rank: int, _message: pmi_wire.Message) -> "_Pairs":
    return _OK


#: Protocol and command: the name of the answer, and the function that makes it.
_COMMANDS: "dict[tuple[int, bytes], tuple[bytes, _Handler]]" = {
    (1, b"init"): (b"response_to_init", _init),
    (1, b"get_maxes"): (b"maxes", _maxes),
    (1, b"get_appnum"): (b"appnum", _appnum),
    (1, b"get_universe_size"): (b"universe_size", _size),
    (1, b"get_my_kvsname"): (b"my_kvsname", _kvsname),
    (1, b"put"): (b"put_result", PmiServer._put),
    (1, b"get"): (b"get_result", PmiServer._get),
    (1, b"getbyidx"): (b"getbyidx_results", _by_index),
    (1, b"barrier_in"): (b"barrier_out", PmiServer._enter),
    (1, b"publish_name"): (b"publish_result", _unknown),
    (1, b"unpublish_name"): (b"unpublish_result", _unknown),
    (1, b"lookup_name"): (b"lookup_result", _unknown),
    (1, b"spawn"): (b"spawn_result", _unknown),
    (1, b"finalize"): (b"finalize_ack", _done),
    (1, b"abort"): (b"", PmiServer._end),
    (2, b"fullinit"): (b"fullinit-response", _fullinit),
    (2, b"job-getid"): (b"job-getid-response", _jobid),
    (2, b"info-getjobattr"): (b"info-getjobattr-response", PmiServer._get_job),
    (2, b"info-putnodeattr"): (b"info-putnodeattr-response", PmiServer._put_node),
    (2, b"info-getnodeattr"): (b"info-getnodeattr-response", PmiServer._get_node),
    (2, b"kvs-put"): (b"kvs-put-response", PmiServer._put),
    (2, b"kvs-get"): (b"kvs-get-response", PmiServer._get),
    (2, b"kvs-fence"): (b"kvs-fence-response", PmiServer._enter),
    (2, b"finalize"): (b"finalize-response", _done),
    (2, b"abort"): (b"", PmiServer._end),
}
