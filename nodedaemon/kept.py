"""What a stepd has said to its owner and keeps until it is acknowledged: whole frames, counted in bytes from the first.

Frames are numbered; a position is a number of bytes. Both only grow. What is dropped from the front, acknowledged or
lost, makes the numbers begin later.
"""

#: What an entry costs beside its bytes: many small frames are as dear as a few large ones.
ENTRY_COST_BYTES = 128

TYPE_CHECKING = False
if TYPE_CHECKING:
    Piece = bytes | memoryview


class Kept:
    """Frames from number `first` (at byte `base`) up to, not including, `next`."""

    __slots__ = ("_entries", "base", "cost", "end", "first", "next")

    def __init__(self) -> None:
        self._entries: dict[int, Piece] = {}
        self.first = self.next = 0
        self.base = self.end = 0
        self.cost = 0

    def append(self, piece: "Piece") -> None:
        """Keep a frame."""
        self._entries[self.next] = piece
        self.next += 1
        self.end += len(piece)
        self.cost += len(piece) + ENTRY_COST_BYTES

    def get(self, number: int) -> "Piece":
        """The frame of that number, which must be kept."""
        return self._entries[number]

    def drop_first(self) -> int:
        """Forget the oldest frame; its size."""
        size = len(self._entries.pop(self.first))
        self.first += 1
        self.base += size
        self.cost -= size + ENTRY_COST_BYTES
        return size

    def acknowledge(self, position: int) -> None:
        """Forget the frames that end at or before a position."""
        while self.first < self.next and self.base + len(self._entries[self.first]) <= position:
            self.drop_first()

    def find(self, position: int) -> int:
        """The number of the frame that begins at a position, or of the first one after it that is kept."""
        at, number = self.base, self.first
        while number < self.next and at < position:
            at += len(self._entries[number])
            number += 1
        return number

    def position_of(self, number: int) -> int:
        """Where a kept frame (or the next one) begins."""
        return self.base + sum(len(self._entries[n]) for n in range(self.first, number))
