"""What the nodes of a step bring together: each gives a blob a round, each gets the blobs of all, in node order.

    stepd of node 0 --- GATHER parts ---> |     | --- EXCHANGE parts ---> every stepd
    stepd of node 1 --- GATHER parts ---> | Hub |
                                          (srun)

Rules
    - Rounds are counted from 0; a node begins a round only when it has the answer of the one before.
    - A blob may be larger than a frame, so it travels in parts, in order: round, length of the whole, place, bytes.
    - What comes twice (a stream that was opened again) is taken once. The hub keeps its last answer for a node that
      missed it.
    - A part with the round ABORT is no exchange: a task has asked to end the whole step; exit code and a message.

It knows nothing of what is in the blobs, and does no I/O: srun and stepd feed it what came and send what it gives.
"""

import struct

#: Round, length of the whole blob, place of these bytes in it.
_PART = struct.Struct("<IQQ")
#: Below a frame's limit (stepframes.PAYLOAD_BYTES_MAX), head included.
PART_BYTES_MAX = 128 * 1024
#: A thousand tasks bring a megabyte; more than this is damage or malice.
BLOB_BYTES_MAX = 64 * 1024 * 1024
NODES_MAX = 65536
#: In place of a round.
ABORT = 0xFFFFFFFF
_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_CODE = struct.Struct("<i")
MESSAGE_BYTES_MAX = 1024


class BadExchange(Exception):
    """What came is no part of an exchange, or not the part that follows."""


def parts(round_: int, blob: bytes) -> list[bytes]:
    """A blob as payloads of frames; at least one, also of an empty blob."""
    starts = range(0, max(1, len(blob)), PART_BYTES_MAX)
    return [_PART.pack(round_, len(blob), at) + blob[at : at + PART_BYTES_MAX] for at in starts]


def abort_part(code: int, message: bytes) -> bytes:
    """The payload that asks for the end of the step."""
    text = message[:MESSAGE_BYTES_MAX]
    return _PART.pack(ABORT, _CODE.size + len(text), 0) + _CODE.pack(code) + text


def is_abort(payload: bytes) -> bool:
    """True for what `abort_part` made."""
    return payload.startswith(_COUNT.pack(ABORT))


def join(blobs: list[bytes]) -> bytes:
    """The blobs of all nodes as one: their number, then length and bytes of each."""
    return _COUNT.pack(len(blobs)) + b"".join(piece for blob in blobs for piece in (_LENGTH.pack(len(blob)), blob))


def split(joined: bytes) -> list[bytes]:
    """What was joined. Raises BadExchange."""
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
    """Puts the blobs of one sender together from their parts."""

    __slots__ = ("_blob", "_round", "next_round")

    def __init__(self) -> None:
        self._blob = bytearray()
        self._round = 0
        self.next_round = 0  # what is complete below is not taken again

    def take(self, payload: bytes) -> bytes | None:
        """The whole blob of `next_round` when this was its last part, else None. Raises BadExchange."""
        try:
            round_, length, at = _PART.unpack_from(payload)
        except struct.error as error:
            raise BadExchange("cut short") from error
        if round_ < self.next_round:
            return None  # it came twice
        if round_ > self.next_round or length > BLOB_BYTES_MAX:
            raise BadExchange(f"round {round_} of {length} bytes, expected is {self.next_round}")
        data = payload[_PART.size :]
        if at == 0:
            self._blob.clear()  # begun again on a new stream
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
    """The one that brings the nodes' blobs together: in srun.

    `heard` gives what is to be sent to every node (EXCHANGE payloads), mostly nothing. `last` is the answer of the
    latest round, for a node whose stream was opened again. `aborted` is set when a task asked for the end of the step.
    """

    __slots__ = ("_blobs", "_joiners", "aborted", "last")

    def __init__(self, nodes: int) -> None:
        self._joiners = [Joiner() for _ in range(nodes)]
        self._blobs: list[bytes | None] = [None] * nodes
        self.last: list[bytes] = []
        self.aborted: tuple[int, int, str] | None = None  # node index, exit code, message

    def heard(self, node: int, payload: bytes) -> list[bytes]:
        """A GATHER payload of this node (its index in the step). Raises BadExchange."""
        if is_abort(payload):
            if len(payload) < _PART.size + _CODE.size:
                raise BadExchange("cut short")
            (code,) = _CODE.unpack_from(payload, _PART.size)
            text = payload[_PART.size + _CODE.size :].decode("utf-8", "backslashreplace")
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
