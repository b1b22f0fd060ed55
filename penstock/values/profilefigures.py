"""Figures of profiles: means, maxima, idle and throttled shares of a line, and lines on a common axis.

A point stands for the time since the point before. A GPU is idle while its utilisation is below IDLE_PERMILLE. Pure; integers
until a share is made.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.values.profile import COLUMNS, GPU, ProfileLine
from penstock.values.timeline import Point

#: Utilisation below this counts as idle.
IDLE_PERMILLE: Final = 50
_UTIL: Final = COLUMNS[GPU].index("util_permille")
_THROTTLED: Final = COLUMNS[GPU].index("throttled_permille")


class ColumnFigures(NamedTuple):
    """What a column says over all points where it is known."""

    mean: float
    max: int
    known_ds: int  # the time for which it is known


class GpuIdleTime(NamedTuple):
    """How a GPU's time was spent, in tenths of a second."""

    known_ds: int = 0
    idle_ds: int = 0
    throttled_ds: float = 0.0

    def plus(self, other: "GpuIdleTime") -> "GpuIdleTime":
        """Both together."""
        return GpuIdleTime(
            self.known_ds + other.known_ds, self.idle_ds + other.idle_ds, self.throttled_ds + other.throttled_ds
        )


def spans(points: Sequence[Point]) -> Iterable[tuple[int, Point]]:
    """Yields each point with the time that it stands for."""
    since_ds = 0
    for point in points:
        yield point.at_ds - since_ds, point
        since_ds = point.at_ds


def figures(points: Sequence[Point], column: int) -> ColumnFigures | None:
    """The figures of a column; None where it is never known."""
    total = most = known_ds = 0
    for lasted_ds, point in spans(points):
        value = point.values[column]
        if value is not None:
            total += value[0] * lasted_ds
            most = max(most, value[1])
            known_ds += lasted_ds
    return ColumnFigures(total / known_ds, most, known_ds) if known_ds else None


def gpu_time(line: ProfileLine) -> GpuIdleTime:
    """How long a GPU was idle or throttled, of the time for which its utilisation is known."""
    found = GpuIdleTime()
    for lasted_ds, point in spans(line.points):
        util, throttled = point.values[_UTIL], point.values[_THROTTLED]
        if util is not None:
            is_idle = util[0] < IDLE_PERMILLE
            slowed_ds = lasted_ds * throttled[0] / 1000 if throttled is not None else 0.0
            found = found.plus(GpuIdleTime(lasted_ds, lasted_ds if is_idle else 0, slowed_ds))
    return found


def resampled(points: Sequence[Point], column: int, bins: int, until_ds: int) -> list[tuple[float, int] | None]:
    """Mean and maximum of a column in `bins` equal parts of the time from 0 to `until_ds`; None = not known."""
    sums = [0.0] * bins
    weights = [0.0] * bins
    peaks = [0] * bins
    width = max(until_ds, 1) / bins
    since_ds = 0
    for point in points:
        value = point.values[column]
        begin, end = since_ds / width, point.at_ds / width
        since_ds = point.at_ds
        if value is None:
            continue
        for place in range(int(begin), min(int(end) + 1, bins)):
            part = min(end, place + 1) - max(begin, place)
            if part > 0:
                sums[place] += value[0] * part
                weights[place] += part
                peaks[place] = max(peaks[place], value[1])
    return [
        (total / weight, peak) if weight > 0 else None for total, weight, peak in zip(sums, weights, peaks, strict=True)
    ]
