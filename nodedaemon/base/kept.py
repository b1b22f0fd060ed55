"""Messages of a stepd to its owner, kept until they are acknowledged: frames, counted in bytes from the first.

Frames lie in chunks: a large one is a chunk by itself, small ones share one (a task that writes a line at a time would
cost ten times its bytes otherwise). Chunks are numbered, and begin and end with a frame; a position is a number of bytes.
Both only grow. Acknowledged or lost data is removed from the front in whole chunks.
"""

#: Frames up to this size are combined...
SMALL_BYTES = 8 * 1024
#: ... into chunks up to this one.
CHUNK_BYTES = 64 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    Piece = bytes | memoryview


class Kept:
    """Chunks from number `first` (at byte `base`) up to, not including, `next`."""

    __slots__ = ("_chunks", "_tail", "acknowledged", "base", "end", "first", "next")

    def __init__(self) -> None:
        self._chunks: dict[int, Piece | bytearray] = {}
        self._tail: bytearray | None = None  # the last chunk, while small frames may be added to it
        self.first = 0
        self.next = 0
        self.base = 0
        self.end = 0
        self.acknowledged = 0

    @property
    def size(self) -> int:
        """Bytes that wait for their acknowledgement."""
        return self.end - self.acknowledged

    def append(self, frame: "Piece") -> None:
        """Adds a frame."""
        size = len(frame)
        self.end += size
        if size > SMALL_BYTES:
            self._tail = None
            self._add(frame)
            return
        if self._tail is None or len(self._tail) + size > CHUNK_BYTES:
            self._tail = bytearray()
            self._add(self._tail)
        self._tail += frame

    def _add(self, chunk: "Piece | bytearray") -> None:
        self._chunks[self.next] = chunk
        self.next += 1

    def read(self, number: int, offset: int) -> "Piece":
        """The rest of a kept chunk."""
        chunk = self._chunks[number]
        if isinstance(chunk, bytearray):  # it may grow meanwhile
            return bytes(memoryview(chunk)[offset:])
        return memoryview(chunk)[offset:]

    def is_read(self, number: int, offset: int) -> bool:
        """Whether the chunk is closed and ends at this offset."""
        chunk = self._chunks[number]
        return offset == len(chunk) and chunk is not self._tail

    def drop_first(self) -> int:
        """Drops the oldest chunk; returns how many bytes of it were not acknowledged."""
        chunk = self._chunks.pop(self.first)
        if chunk is self._tail:
            self._tail = None
        self.first += 1
        self.base += len(chunk)
        lost = max(self.base - self.acknowledged, 0)
        self.acknowledged += lost
        return lost

    def acknowledge(self, position: int) -> None:
        """Drops everything before that position, which has been handled."""
        self.acknowledged = max(self.acknowledged, min(position, self.end))
        while self.first < self.next and self.base + len(self._chunks[self.first]) <= self.acknowledged:
            self.drop_first()

    def find(self, position: int) -> tuple[int, int]:
        """Returns a position as number and offset; the oldest or the newest place for a position that is not kept."""
        at = self.base
        for number in range(self.first, self.next):
            size = len(self._chunks[number])
            if position < at + size:
                return number, max(position - at, 0)
            at += size
        return self.next, 0
