"""A time line: what was measured at moments of a step, in a bounded number of bytes.

A point has a time and, for each column, the mean and the largest value since the point before; `None` = not known. Values
are whole numbers from 0 to VALUE_MAX, times whole tenths of a second since the step began, and rise. A point is written as
differences from the one before, as numbers of variable length: one of an even course takes two bytes a column.

When a line is full (POINTS_MAX, or the bytes that it may have), each two neighbours become one: the mean weighted by their
times, the largest of the two. So a line always covers the whole step, ever more coarsely, and no maximum is lost. A mean
is rounded by at most a half each time.

Pure, and small: stepd, which is forked by the thousand, keeps one.
"""

from penstock.values.packing import Damaged
from penstock.values.varint import put_varint

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NamedTuple

    class Point(NamedTuple):
        """The time of a moment, and for each column the mean and the largest value since the moment before."""

        at_ds: int
        values: tuple[tuple[int, int] | None, ...]


else:
    from collections import namedtuple

    Point = namedtuple("Point", ("at_ds", "values"))

#: Points of one line.
POINTS_MAX = 2_000
#: Bytes of one line, as kept: some 20 a point.
BYTES_MAX = 48 * 1024
#: The largest value: bytes a second, kilobytes and milliwatts stay far below it.
VALUE_MAX = (1 << 53) - 1
#: The latest time: ten years.
AT_DS_MAX = 10 * 366 * 86_400 * 10
_NUMBER_BYTES_MAX = 8  # of 7 bits each: a difference of two values has 54, and its sign


class SampleLine:
    """A line of `columns` columns. Points are added in the order of their times."""

    __slots__ = ("_before", "_data", "at_ds", "columns", "count")

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.at_ds = 0  # of the last point
        self._before = [0] * self.columns  # its means
        self._data = bytearray()

    @property
    def data(self) -> bytes:
        """The points as bytes."""
        return bytes(self._data)

    @property
    def size(self) -> int:
        """Bytes of the points."""
        return len(self._data)

    def add(self, at_ds: int, values: "Sequence[int | None]", bytes_max: int = BYTES_MAX) -> None:
        """Adds what was measured at a moment. One that is not later than the last, or too late, is left out; a value that
        is too large counts as the largest.
        """
        if not self.at_ds < at_ds <= AT_DS_MAX:
            return
        if self.count >= POINTS_MAX:
            self.halve()
        self._append(Point(at_ds, tuple(None if v is None else (_within(v), _within(v)) for v in values)))
        while len(self._data) > bytes_max and self.count > 1:
            self.halve()

    def _append(self, point: "Point") -> None:
        data, before = self._data, self._before
        put_varint(data, point.at_ds - self.at_ds)
        for column, value in enumerate(point.values):
            if value is None:
                put_varint(data, 0)
                continue
            mean, most = value
            change = mean - before[column]
            put_varint(data, (change << 1 if change >= 0 else (-change << 1) - 1) + 1)
            put_varint(data, most - mean)
            before[column] = mean
        self.at_ds = point.at_ds
        self.count += 1

    def points(self) -> "list[Point]":
        """All points, decoded."""
        return decode(self.data, self.columns)

    def halve(self) -> None:
        """Merges each two neighbours; an odd last one stays as it is."""
        points = self.points()
        self._clear()
        since_ds = 0
        for first in range(0, len(points), 2):
            pair = points[first : first + 2]
            self._append(merged(since_ds, *pair) if len(pair) == 2 else pair[0])
            since_ds = pair[-1].at_ds

    @classmethod
    def restored(cls, data: bytes, columns: int) -> "SampleLine":
        """The line whose bytes these are. Raises Damaged."""
        line = cls(columns)
        for point in decode(data, columns):
            line._append(point)
        return line


def _within(value: int) -> int:
    return min(max(value, 0), VALUE_MAX)


def merged(since_ds: int, one: "Point", other: "Point") -> "Point":
    """Two neighbours as one. `since_ds`: the time of the point before them."""
    first_ds, second_ds = one.at_ds - since_ds, other.at_ds - one.at_ds
    whole_ds = first_ds + second_ds
    values: list[tuple[int, int] | None] = []
    for a, b in zip(one.values, other.values, strict=True):
        if a is None or b is None:
            values.append(b if a is None else a)
        else:
            mean = (2 * (a[0] * first_ds + b[0] * second_ds) + whole_ds) // (2 * whole_ds)
            values.append((mean, max(a[1], b[1])))
    return Point(other.at_ds, tuple(values))


def decode(data: bytes, columns: int) -> "list[Point]":
    """The points that bytes from anywhere hold. Raises Damaged for what no line has."""
    found: list[Point] = []
    before = [0] * columns
    at, at_ds = 0, 0

    def take() -> int:
        nonlocal at
        number = shift = 0
        while True:
            if at >= len(data) or shift >= 7 * _NUMBER_BYTES_MAX:
                raise Damaged("a number of a time line is cut short, or too long")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    while at < len(data):
        if len(found) >= POINTS_MAX:
            raise Damaged(f"a time line of more than {POINTS_MAX} points")
        passed_ds = take()
        at_ds += passed_ds
        if not passed_ds or at_ds > AT_DS_MAX:
            raise Damaged("a time line whose times do not rise, or end in the far future")
        values: list[tuple[int, int] | None] = []
        for column in range(columns):
            change = take() - 1
            if change < 0:
                values.append(None)
                continue
            mean = before[column] + (-((change + 1) >> 1) if change & 1 else change >> 1)
            most = mean + take()
            if mean < 0 or most > VALUE_MAX:
                raise Damaged("a value of a time line is out of bounds")
            values.append((mean, most))
            before[column] = mean
        found.append(Point(at_ds, tuple(values)))
    return found
