"""An all-gather between the nodes of a step: in each round every node sends a blob and receives those of all nodes, in
node order.

    stepd of node 0 --- GATHER parts ---> |     | --- EXCHANGE parts ---> every stepd
    stepd of node 1 --- GATHER parts ---> | Hub |
                                          (srun)

Rules
    - Rounds are counted from 0; a node starts a round only when it has the answer of the previous one.
    - A blob may be larger than a frame, so it is sent in parts, in order: round, total length, offset, bytes.
    - Parts that are repeated (on a reopened stream) are ignored. The hub keeps its last answer for a node that
      missed it.
    - A part with the round ABORT requests the end of the whole step on behalf of a task: exit code and message.

Blobs are opaque, and nothing here does I/O: srun and stepd pass in the payloads that they receive and send those that
are returned.
"""

import struct

#: Round, total length of the blob, offset of these bytes in it.
PART = struct.Struct("<IQQ")
#: Below the limit of a frame's payload (stepframes.PAYLOAD_BYTES_MAX), header included.
PART_BYTES_MAX = 128 * 1024
#: A thousand tasks send about a megabyte; more than this limit is damage or an attack.
BLOB_BYTES_MAX = 64 * 1024 * 1024
NODES_MAX = 65536
#: Takes the place of the round.
ABORT = 0xFFFFFFFF
_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_CODE = struct.Struct("<i")
MESSAGE_BYTES_MAX = 1024


class BadExchange(Exception):
    """The error for a message that is not part of an exchange, or is out of order."""


def parts(round_: int, blob: bytes) -> list[bytes]:
    """Divides a blob into payloads of frames: at least one, even for an empty blob."""
    starts = range(0, max(1, len(blob)), PART_BYTES_MAX)
    return [PART.pack(round_, len(blob), at) + blob[at : at + PART_BYTES_MAX] for at in starts]


def abort_part(code: int, message: bytes) -> bytes:
    """Returns the payload that requests the end of the step."""
    text = message[:MESSAGE_BYTES_MAX]
    return PART.pack(ABORT, _CODE.size + len(text), 0) + _CODE.pack(code) + text


def is_abort(payload: bytes) -> bool:
    """Returns whether `abort_part` made this payload."""
    return payload.startswith(_COUNT.pack(ABORT))


def join(blobs: list[bytes]) -> bytes:
    """Joins the blobs of all nodes: their number, then length and bytes of each."""
    return _COUNT.pack(len(blobs)) + b"".join(piece for blob in blobs for piece in (_LENGTH.pack(len(blob)), blob))


def split(joined: bytes) -> list[bytes]:
    """Splits joined blobs. Raises BadExchange."""
    try:
        (count,) = _COUNT.unpack_from(joined)
        if count > NODES_MAX:
            raise BadExchange(f"blobs of {count} nodes, the limit is {NODES_MAX}")
        blobs, at = [], _COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(joined, at)
            at += _LENGTH.size
            blobs.append(joined[at : at + length])
            at += length
    except struct.error as error:
        raise BadExchange("cut short") from error
    if at != len(joined):
        raise BadExchange("the lengths do not add up")
    return blobs


class Joiner:
    """Reassembles the blobs of one sender from their parts."""

    __slots__ = ("_blob", "_round", "next_round")

    def __init__(self) -> None:
        self._blob = bytearray()
        self._round = 0
        self.next_round = 0  # rounds below are complete; their parts are ignored

    def take(self, payload: bytes) -> bytes | None:
        """Takes a part; returns the whole blob of `next_round` if this was its last part, else None. Raises BadExchange."""
        try:
            round_, length, at = PART.unpack_from(payload)
        except struct.error as error:
            raise BadExchange("cut short") from error
        if round_ < self.next_round:
            return None  # a repeated part
        if round_ > self.next_round or length > BLOB_BYTES_MAX:
            raise BadExchange(f"round {round_} of {length} bytes, expected is {self.next_round}")
        data = payload[PART.size :]
        if at == 0:
            self._blob.clear()  # restarted on a new stream
        if at and at + len(data) <= len(self._blob):
            return None
        if at != len(self._blob) or at + len(data) > length:
            raise BadExchange(f"bytes at {at}, expected at {len(self._blob)} of {length}")
        self._blob += data
        if len(self._blob) < length:
            return None
        blob = bytes(self._blob)
        self._blob.clear()
        self.next_round += 1
        return blob


class Hub:
    """The hub in srun, which collects the blobs of the nodes.

    `receive` returns the EXCHANGE payloads to send to every node, mostly none. `last` is the answer of the latest round,
    for a node that has reopened its stream. `aborted` is set when a task has requested the end of the step.
    """

    __slots__ = ("_blobs", "_joiners", "aborted", "last")

    def __init__(self, nodes: int) -> None:
        self._joiners = [Joiner() for _ in range(nodes)]
        self._blobs: list[bytes | None] = [None] * nodes
        self.last: list[bytes] = []
        self.aborted: tuple[int, int, str] | None = None  # node index, exit code, message

    def receive(self, node: int, payload: bytes) -> list[bytes]:
        """Handles a GATHER payload of the node with this index in the step. Raises BadExchange."""
        if is_abort(payload):
            if len(payload) < PART.size + _CODE.size:
                raise BadExchange("cut short")
            (code,) = _CODE.unpack_from(payload, PART.size)
            text = payload[PART.size + _CODE.size :].decode("utf-8", "backslashreplace")
            self.aborted = self.aborted or (node, code, text)
            return []
        blob = self._joiners[node].take(payload)
        if blob is None:
            return []
        self._blobs[node] = blob
        whole = [known for known in self._blobs if known is not None]
        if len(whole) < len(self._blobs):
            return []
        self.last = parts(self._joiners[node].next_round - 1, join(whole))
        self._blobs = [None] * len(self._blobs)
        return self.last
