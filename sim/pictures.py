"""Pictures of runs: utilisation over time, queue length, distribution of waits, and which job ran where (node-time chart).

The data is made here too, and is tested without a picture. matplotlib is imported only when pictures are asked for.
A replay has no nodes: for its node-time chart the lowest free processors are given to each job, which is a drawing, not
a decision of the scheduler. The chart shows the first CHART_JOBS_MAX jobs; more cannot be told apart.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.values.errors import BadValue
from sim.metrics import Array, Schedule

CHART_JOBS_MAX = 2000
BINS = 400
_DAY_S = 86_400
_SIZE_INCHES = (10, 4)

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x, y


class Bar(NamedTuple):
    """A job on a range of processors."""

    job: int
    first: int
    width: int
    start_s: int
    end_s: int


def steps(begin_s: Array, end_s: Array, amount: Array) -> Curve:
    """The sum of the amounts between begin and end, as the steps of a function of time."""
    times = np.concatenate([begin_s, end_s])
    changes = np.concatenate([amount, -amount])
    moments, index = np.unique(times, return_inverse=True)
    sums = np.bincount(index, weights=changes.astype(np.float64), minlength=len(moments))
    return moments.astype(np.float64), np.cumsum(sums)


def binned(curve: Curve, bins: int = BINS) -> Curve:
    """Means over equal times; what a year of steps looks like when it is to be seen."""
    times, values = curve
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    edges = np.linspace(times[0], times[-1], bins + 1)
    width = max(edges[1] - edges[0], 1e-9)
    return (edges[:-1] + edges[1:]) / 2, np.diff(np.interp(edges, times, area)) / width


def placed(schedule: Schedule, processors: int, jobs_max: int = CHART_JOBS_MAX) -> list[Bar]:
    """The lowest free processors for each job, in order of their starts; a job may be in several pieces."""
    order = np.lexsort((np.arange(len(schedule.start_s)), schedule.start_s))[:jobs_max].tolist()
    free = [(0, processors)]  # (first, count), by first
    running: list[tuple[int, list[tuple[int, int]]]] = []
    bars = []
    for job in order:
        start_s, end_s, left = int(schedule.start_s[job]), int(schedule.end_s[job]), int(schedule.procs[job])
        free = _joined(free + [piece for ended_s, pieces in running if ended_s <= start_s for piece in pieces])
        running = [entry for entry in running if entry[0] > start_s]
        taken = []
        while left > 0 and free:
            first, count = free.pop(0)
            used = min(count, left)
            taken.append((first, used))
            left -= used
            if used < count:
                free.insert(0, (first + used, count - used))
        running.append((end_s, taken))
        bars += [Bar(job, first, count, start_s, end_s) for first, count in taken]
    return bars


def _joined(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, count in sorted(pieces):
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found


def draw(folder: Path, title: str, processors: int, runs: dict[str, Schedule]) -> list[Path]:
    """Write the pictures of all runs of one workload; returns their files. Raises BadValue without matplotlib."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise BadValue("--pictures needs matplotlib: pip install 'penstock[sim]'") from None
    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (what, curve_of) in _CURVES.items():
        figure, axes = pyplot.subplots(figsize=_SIZE_INCHES)
        for policy, schedule in runs.items():
            axes.plot(*curve_of(schedule, processors), label=policy, linewidth=0.8)
        _finish(axes, title, *what)
        axes.legend()
        written.append(_save(pyplot, figure, folder / f"{name}.png"))
    for policy, schedule in runs.items():
        figure, axes = pyplot.subplots(figsize=_SIZE_INCHES)
        _chart(axes, schedule, processors)
        _finish(
            axes, f"{title}, {policy}, first {min(len(schedule.start_s), CHART_JOBS_MAX)} jobs", "days", "processor"
        )
        written.append(_save(pyplot, figure, folder / f"chart-{file_word(policy)}.png"))
    return written


def file_word(policy: str) -> str:
    """A policy's name as part of a file's name."""
    return "".join(c if c.isalnum() or c == "-" else "-" for c in policy)


def _days(schedule: Schedule, curve: Curve) -> Curve:
    return (curve[0] - float(schedule.submit_s.min())) / _DAY_S, curve[1]


def _utilisation(schedule: Schedule, processors: int) -> Curve:
    days, used = _days(schedule, binned(steps(schedule.start_s, schedule.end_s, schedule.procs)))
    return days, used / processors


def _queue(schedule: Schedule, processors: int) -> Curve:
    return _days(schedule, binned(steps(schedule.submit_s, schedule.start_s, np.ones_like(schedule.procs))))


def _waits(schedule: Schedule, processors: int) -> Curve:
    waits = np.sort(schedule.start_s - schedule.submit_s).astype(np.float64)
    return waits / 3600, np.arange(1, len(waits) + 1) / len(waits)


_CURVES = {
    "utilisation": (("days", "share of processors in use"), _utilisation),
    "queue": (("days", "jobs waiting"), _queue),
    "waits": (("wait (hours)", "share of jobs that waited no longer"), _waits),
}


def _chart(axes: Any, schedule: Schedule, processors: int) -> None:
    from matplotlib.collections import PolyCollection

    bars = placed(schedule, processors)
    zero_s = int(schedule.submit_s.min())
    corners = []
    for bar in bars:
        left, right = (bar.start_s - zero_s) / _DAY_S, (bar.end_s - zero_s) / _DAY_S
        low, high = bar.first, bar.first + bar.width
        corners.append([(left, low), (right, low), (right, high), (left, high)])
    colours = [f"C{bar.job % 10}" for bar in bars]
    axes.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="white", linewidths=0.1))
    axes.autoscale()
    axes.set_ylim(0, processors)


def _finish(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _save(pyplot: Any, figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
