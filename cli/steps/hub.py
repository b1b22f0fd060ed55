"""The middle between the nodes of a step: what each brings to a round goes, all together, back to all (PMI's fence).

A node sends GATHER(round, data). When all nodes' data of a round are there, everybody gets EXCHANGE(round, all of it),
in the order of the nodes. Data longer than a frame come in pieces: a third value 1 says that more of the same round
follows. Rounds are told apart by their names, so a node may be ahead of another.
"""

from collections.abc import Callable

from penstock.values.packing import pack_values, unpack
from penstock.values.stepframes import PAYLOAD_BYTES_MAX, Kind, frame

#: What all nodes bring to one round: 100,000 tasks with 2 KB each.
ROUND_BYTES_MAX = 256 * 1024 * 1024
PIECE_BYTES = PAYLOAD_BYTES_MAX - 1024


class TooMuch(Exception):
    """A round holds more than any honest program brings."""


class Hub:
    """Brings rounds together. `send` gives a frame to all nodes."""

    def __init__(self, nodes: int, send: Callable[[bytes], None]) -> None:
        self._nodes = nodes
        self._send = send
        self._rounds: dict[bytes, dict[int, bytearray]] = {}
        self._whole: dict[bytes, int] = {}

    def gather(self, node_index: int, payload: bytes) -> None:
        """One node's data, or a piece of it. Raises Damaged or TooMuch."""
        name, data, *more = unpack(payload)
        parts = self._rounds.setdefault(name, {})
        parts.setdefault(node_index, bytearray()).extend(data)
        if sum(map(len, parts.values())) > ROUND_BYTES_MAX:
            raise TooMuch(f"round {name.decode(errors='replace')} exceeds {ROUND_BYTES_MAX} bytes")
        if more and more[0] == b"1":
            return
        self._whole[name] = self._whole.get(name, 0) + 1
        if self._whole[name] == self._nodes:
            del self._whole[name]
            parts = self._rounds.pop(name)
            self._answer(name, b"".join(parts[index] for index in sorted(parts)))

    def _answer(self, name: bytes, data: bytes) -> None:
        for at in range(0, max(len(data), 1), PIECE_BYTES):
            more = int(at + PIECE_BYTES < len(data))
            values = (name, data[at : at + PIECE_BYTES], *((1,) if more else ()))
            self._send(frame(Kind.EXCHANGE, pack_values(*values)))
