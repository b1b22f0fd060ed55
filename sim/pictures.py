"""Pictures of runs: use of CPUs and GPUs over time, queue length, distribution of waits, and a node-time chart of jobs. The
data are computed here too, and tested without a picture. matplotlib is imported only when pictures are requested.

The chart shows the first CHART_JOBS_MAX jobs; more cannot be distinguished. Where the engine placed jobs on nodes, each job
is drawn on its nodes, with an equal part of its CPUs and GPUs on each. A replay has no nodes: there the lowest free processors
are given to each job, for display only.
"""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.values.errors import BadValue
from sim.metrics import Array, Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHART_JOBS_MAX = 2000
BINS = 400
_DAY_S = 86_400
_SIZE_INCHES = (10, 4)

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x, y


class Drawing(NamedTuple):
    """A run to be drawn."""

    schedule: Schedule
    nodes: tuple[
        tuple[int, ...], ...
    ] = ()  # of each job, as numbers in DrawnMachine.nodes; () = the engine has no nodes


class DrawnMachine(NamedTuple):
    """The machine of all runs. `nodes` holds (name, CPUs, GPUs); () = processors alone."""

    processors: int
    nodes: tuple[tuple[str, int, int], ...] = ()


class Bar(NamedTuple):
    """A job on a range of processors."""

    job: int
    first: int
    width: int
    start_s: int
    end_s: int


def steps(begin_s: Array, end_s: Array, amount: Array) -> Curve:
    """The sum of the amounts between begin and end, as a step function of time."""
    times = np.concatenate([begin_s, end_s])
    changes = np.concatenate([amount, -amount])
    moments, index = np.unique(times, return_inverse=True)
    sums = np.bincount(index, weights=changes.astype(np.float64), minlength=len(moments))
    return moments.astype(np.float64), np.cumsum(sums)


def binned(curve: Curve, bins: int = BINS) -> Curve:
    """Means over equal intervals, to draw a year of steps."""
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
        start_s = int(schedule.start_s[job])
        end_s = int(schedule.end_s[job])
        left = int(schedule.procs[job])
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


def on_nodes(drawing: Drawing, sizes: list[int], amount: Array, jobs_max: int = CHART_JOBS_MAX) -> list[Bar]:
    """The bars of jobs on their nodes, which stand on each other: node k from sum(sizes[:k]) on."""
    schedule = drawing.schedule
    order = np.lexsort((np.arange(len(schedule.start_s)), schedule.start_s))[:jobs_max].tolist()
    at: dict[int, list[tuple[int, int]]] = {}
    for job in order:
        names = drawing.nodes[job]
        for k, node in enumerate(names):
            share = (int(amount[job]) + len(names) - 1 - k) // len(names)
            if share > 0:
                at.setdefault(node, []).append((job, share))
    bottom = [0, *np.cumsum(sizes).tolist()]
    bars = []
    for node in sorted(at):
        jobs = np.array([job for job, _ in at[node]])
        column = np.array([share for _, share in at[node]], dtype=np.int64)
        start_s, end_s = schedule.start_s[jobs], schedule.end_s[jobs]
        alone = Schedule(start_s, start_s, end_s, column, column, {})
        for bar in placed(alone, sizes[node], len(jobs)):
            bars.append(bar._replace(job=int(jobs[bar.job]), first=bar.first + bottom[node]))
    return bars


def draw(folder: Path, title: str, machine: DrawnMachine, runs: dict[str, Drawing]) -> list[Path]:
    """Write the pictures of all runs of one workload; returns their files. Raises BadValue without matplotlib."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise BadValue("--pictures needs matplotlib: pip install 'penstock[sim]'") from None
    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = [
        _utilisation(pyplot, folder, title, runs),
        _curves(pyplot, folder / "queue.png", title, "jobs waiting", {name: _queue(run) for name, run in runs.items()}),
        _waits(pyplot, folder, title, runs),
    ]
    for policy, run in runs.items():
        name = f"{title}, {policy}, first {min(len(run.schedule.start_s), CHART_JOBS_MAX):,} jobs"
        written.append(_charts(pyplot, folder / f"chart-{file_word(policy)}.png", name, machine, run))
    return written


def file_word(policy: str) -> str:
    """A policy's name as part of a file's name."""
    return "".join(c if c.isalnum() or c == "-" else "-" for c in policy)


def _days(schedule: Schedule, curve: Curve) -> Curve:
    return (curve[0] - float(schedule.submit_s.min())) / _DAY_S, curve[1]


def _queue(run: Drawing) -> Curve:
    schedule = run.schedule
    return _days(schedule, binned(steps(schedule.submit_s, schedule.start_s, np.ones_like(schedule.procs))))


def used(schedule: Schedule, name: str) -> Curve:
    """Share of a TRES in use, by days."""
    amount, total = schedule.tres[name]
    days, values = _days(schedule, binned(steps(schedule.start_s, schedule.end_s, amount)))
    return days, values / total


def waits(schedule: Schedule) -> Curve:
    """The distribution of waits: seconds, and the share of jobs that waited no longer. Below a second counts as one."""
    found = np.maximum(np.sort(schedule.start_s - schedule.submit_s), 1).astype(np.float64)
    return np.append(1.0, found), np.append((found <= 1).mean(), np.arange(1, len(found) + 1) / len(found))


#: What has a panel of its own in the picture of utilisation: TRES -> its word.
_TRES = {"cpu": "CPUs", "gres/gpu": "GPUs"}
#: Ticks of the axis of waits.
_TICKS_S = {1: "1 s", 60: "1 min", 3600: "1 h", _DAY_S: "1 d", 10 * _DAY_S: "10 d", 100 * _DAY_S: "100 d"}


def _utilisation(pyplot: ModuleType, folder: Path, title: str, runs: dict[str, Drawing]) -> Path:
    first = next(iter(runs.values())).schedule
    names = [name for name in _TRES if first.tres.get(name, (None, 0))[1] > 0]
    figure, panels = _panels(pyplot, len(names))
    for axes, name in zip(panels, names, strict=True):
        for policy, run in runs.items():
            axes.plot(*used(run.schedule, name), label=policy, linewidth=0.8)
        _finish(axes, title if axes is panels[0] else "", "days", f"share of {_TRES[name]} in use")
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.axhline(1.0, color="black", linewidth=0.4)
        axes.set_xlim(left=0)
        axes.legend()
    return save(pyplot, figure, folder / "utilisation.png")


def _curves(pyplot: ModuleType, path: Path, title: str, what: str, curves: dict[str, Curve]) -> Path:
    figure, (axes,) = _panels(pyplot, 1)
    for policy, curve in curves.items():
        axes.plot(*curve, label=policy, linewidth=0.8)
    _finish(axes, title, "days", what)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return save(pyplot, figure, path)


def _waits(pyplot: ModuleType, folder: Path, title: str, runs: dict[str, Drawing]) -> Path:
    figure, (axes,) = _panels(pyplot, 1)
    for policy, run in runs.items():
        axes.step(*waits(run.schedule), where="post", label=policy, linewidth=0.8)
    _finish(axes, title, "wait, logarithmic (1 s: no wait)", "share of jobs that waited no longer")
    axes.set_xscale("log")
    longest = axes.get_xlim()[1]
    axes.set_xticks([s for s in _TICKS_S if s <= longest], [text for s, text in _TICKS_S.items() if s <= longest])
    axes.set_xlim(1, max(longest, 60))
    axes.set_ylim(0, 1)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend()
    return save(pyplot, figure, folder / "waits.png")


def _charts(pyplot: ModuleType, path: Path, title: str, machine: DrawnMachine, run: Drawing) -> Path:
    """A panel of CPUs and, where the machine has GPUs that are placed, one of them."""
    cpus = [cpus for _, cpus, _ in machine.nodes]
    gpus = [gpus for _, _, gpus in machine.nodes]
    if not run.nodes:
        figure, (axes,) = _panels(pyplot, 1)
        _bars(axes, run.schedule, placed(run.schedule, machine.processors), machine.processors)
        _finish(axes, title, "days", "processors (not real ones)")
        return save(pyplot, figure, path)
    whole = [(cpus, run.schedule.procs, "CPUs")]
    if sum(gpus) and "gres/gpu" in run.schedule.tres:
        whole.append((gpus, -(-run.schedule.tres["gres/gpu"][0] // 1000), "GPUs"))
    figure, panels = _panels(pyplot, len(whole))
    for axes, (sizes, amount, what) in zip(panels, whole, strict=True):
        _bars(axes, run.schedule, on_nodes(run, sizes, amount), sum(sizes))
        _finish(axes, title if axes is panels[0] else "", "days", f"{what} of nodes")
        _name_nodes(axes, [name for name, _, _ in machine.nodes], sizes)
    return save(pyplot, figure, path)


#: More names of nodes than this cannot be read.
_NAMES_MAX = 24


def _name_nodes(axes: "Axes", names: list[str], sizes: list[int]) -> None:
    """A line between nodes, and their names, or those of some."""
    bottom = np.concatenate([[0], np.cumsum(sizes)])
    there = [k for k, size in enumerate(sizes) if size > 0]
    shown = there[:: -(-len(there) // _NAMES_MAX)] if there else []
    axes.set_yticks([(bottom[k] + bottom[k + 1]) / 2 for k in shown], [names[k] for k in shown], fontsize=7)
    if len(there) <= 4 * _NAMES_MAX:
        axes.hlines([bottom[k] for k in there], *axes.get_xlim(), color="black", linewidth=0.4)


def _bars(axes: "Axes", schedule: Schedule, bars: list[Bar], height: int) -> None:
    from matplotlib.collections import PolyCollection

    zero_s = int(schedule.submit_s.min())
    corners = []
    for bar in bars:
        left, right = (bar.start_s - zero_s) / _DAY_S, (bar.end_s - zero_s) / _DAY_S
        low, high = bar.first, bar.first + bar.width
        corners.append([(left, low), (right, low), (right, high), (left, high)])
    colours = [f"C{bar.job % 10}" for bar in bars]
    axes.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="white", linewidths=0.1))
    axes.autoscale()
    axes.set_xlim(left=0)
    axes.set_ylim(0, height)


def _panels(pyplot: ModuleType, count: int) -> tuple["Figure", list["Axes"]]:
    """A figure with panels on each other."""
    width, height = _SIZE_INCHES
    figure, panels = pyplot.subplots(count, 1, figsize=(width, height * count), squeeze=False)
    return figure, panels[:, 0].tolist()


def _finish(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def save(pyplot: ModuleType, figure: "Figure", path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
