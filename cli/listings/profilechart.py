"""The output of `penstock profile`: a chart in the terminal, rows for programs, and a document.

A row of the chart is one column of a line: its name, mean and maximum, and its course in block characters over the width
of the terminal, each the mean of its time; a blank = not known. A full block is the row's maximum, of shares 100 %.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from cli.base.document import Json
from cli.base.format import aligned
from cli.listings.efficiency import size_text
from cli.listings.profiles import NodeProfile
from penstock.values.duration import format_duration
from penstock.values.jobid import format_step
from penstock.values.profile import COLUMNS, GPU, TASK, ProfileLine
from penstock.values.profilefigures import figures, gpu_time, resampled

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
#: Characters of a course: at least, and at most.
COURSE_MIN, COURSE_MAX = 20, 200


class ShownColumn(NamedTuple):
    """How a column is shown: its head, and the size of one unit in that of programs (CSV and documents)."""

    head: str
    name: str  # for programs
    factor: float
    top: int = 0  # the value of a full block; 0 = the row's maximum


#: In the order of COLUMNS.
SHOWN: Final = {
    "cpu_milli": ShownColumn("CPU cores", "cpu_cores", 0.001),
    "mem_kb": ShownColumn("memory", "memory_bytes", 1024),
    "read_bytes_s": ShownColumn("read/s", "read_bytes_per_second", 1),
    "write_bytes_s": ShownColumn("written/s", "written_bytes_per_second", 1),
    "util_permille": ShownColumn("busy", "gpu_utilization_percent", 0.1, 1000),
    "power_mw": ShownColumn("power", "gpu_power_watts", 0.001),
    "temperature_c": ShownColumn("temperature", "gpu_temperature_celsius", 1),
    "throttled_permille": ShownColumn("throttled", "gpu_throttled_percent", 0.1, 1000),
}


def shown_column(kind: str, column: str) -> ShownColumn:
    """How a column of a line of this kind is shown."""
    found = SHOWN[column]
    return found._replace(name=f"gpu_{found.name}") if kind == GPU and not found.name.startswith("gpu_") else found


def value_text(column: str, value: float) -> str:
    """A value for people."""
    if column == "mem_kb":
        return size_text(value)
    if column.endswith("_bytes_s"):
        return size_text(value / 1024)
    if column.endswith("_permille"):
        return f"{value / 10:.0f}%"
    if column == "power_mw":
        return f"{value / 1000:.0f} W"
    return f"{value:.0f} C" if column == "temperature_c" else f"{value / 1000:.2f}"


def chart(profiles: Sequence[NodeProfile], width: int) -> Iterator[str]:
    """The chart, then the table of GPUs."""
    for one in profiles:
        until_ds = max((line.points[-1].at_ds for line in one.lines if line.points), default=0)
        yield f"Step {one.name()}: {format_duration(until_ds // 10)}"
        yield from aligned(list(_rows(one, until_ds, width)), right=(2, 3))
        yield ""
    if any(line.kind == GPU for one in profiles for line in one.lines):
        yield from aligned(
            [("STEP", "GPU", "MEAN", "MAX", "IDLE", "THROTTLED"), *_gpu_rows(profiles)], right=(2, 3, 4, 5)
        )


def _rows(one: NodeProfile, until_ds: int, width: int) -> Iterator[tuple[str, ...]]:
    yield ("", "", "MEAN", "MAX", "")
    gpus = [line.name for line in one.lines if line.kind == GPU]
    course = min(max(width - 48, COURSE_MIN), COURSE_MAX)
    for line in one.lines:
        for index, column in enumerate(COLUMNS[line.kind]):
            found = figures(line.points, index)
            if found is None or (column == "throttled_permille" and not found.max):
                continue
            shown = SHOWN[column]
            device = f"GPU {gpus.index(line.name)}" if line.kind == GPU else line.name
            values = resampled(line.points, index, course, until_ds)
            text = "".join(_block(value[0] if value else None, shown.top or found.max) for value in values)
            yield device, shown.head, value_text(column, found.mean), value_text(column, found.max), text


def _block(value: float | None, top: int) -> str:
    if value is None:
        return " "
    return _BLOCKS[min(int(value * len(_BLOCKS) / top), len(_BLOCKS) - 1)] if top else _BLOCKS[0]


def _gpu_rows(profiles: Sequence[NodeProfile]) -> Iterator[tuple[str, ...]]:
    for one in profiles:
        for line in one.lines:
            util = figures(line.points, 0) if line.kind == GPU else None
            if util is not None:
                time = gpu_time(line)
                shares = (100 * part / time.known_ds for part in (time.idle_ds, time.throttled_ds))
                yield (
                    one.name(), line.name, f"{util.mean / 10:.0f}%", f"{util.max / 10:.0f}%",
                    *(f"{share:.0f}%" for share in shares),
                )  # fmt: skip


# ---- for programs


def csv_rows(profiles: Sequence[NodeProfile]) -> Iterator[tuple[object, ...]]:
    """A row for each value of each point."""
    yield "job", "step", "node", "device", "elapsed_s", "metric", "mean", "max"
    for one in profiles:
        job, _, step = one.name().partition(" ")[0].rpartition(".")
        for line in one.lines:
            columns = [shown_column(line.kind, column) for column in COLUMNS[line.kind]]
            for point in line.points:
                for shown, value in zip(columns, point.values, strict=True):
                    if value is not None:
                        numbers = (_number(number * shown.factor) for number in value)
                        yield job, step, one.node, line.name, point.at_ds / 10, shown.name, *numbers


def as_object(profiles: Sequence[NodeProfile]) -> Json:
    """The profiles as a document: seconds, bytes, percent, watts; null = not known."""
    return {"profiles": [_profile_object(one) for one in profiles]}


def _profile_object(one: NodeProfile) -> Json:
    job, _, step = one.name().partition(" ")[0].rpartition(".")
    return {"job": job, "step": step, "node": one.node, "lines": [_line_object(line) for line in one.lines]}


def _line_object(line: ProfileLine) -> Json:
    metrics: Json = {}
    for index, column in enumerate(COLUMNS[line.kind]):
        shown, found = shown_column(line.kind, column), figures(line.points, index)
        values = [point.values[index] for point in line.points]
        metrics[shown.name] = {
            "mean": None if found is None else _number(found.mean * shown.factor),
            "max": None if found is None else _number(found.max * shown.factor),
            "means": [None if value is None else _number(value[0] * shown.factor) for value in values],
            "maxima": [None if value is None else _number(value[1] * shown.factor) for value in values],
        }
    document: Json = {
        "device": line.name or None,
        "elapsed_s": [point.at_ds / 10 for point in line.points],
        "metrics": metrics,
    }
    if line.kind == GPU:
        time = gpu_time(line)
        document |= {
            "known_s": time.known_ds / 10, "idle_s": time.idle_ds / 10, "throttled_s": round(time.throttled_ds / 10, 1),
        }  # fmt: skip
    return document


def drawn_object(one: NodeProfile, points_max: int, ranks: Collection[int] = ()) -> Json:
    """A profile as a chart draws it: all lines with the same times, `points_max` at most, each `interval_s` after the last; with
    the lines of some tasks, and what each task has used."""
    drawn = [*one.lines, *(line for rank, line in one.tasks.items() if rank in ranks)]
    until_ds = max((line.points[-1].at_ds for line in one.lines if line.points), default=0)
    points = max(1, min(points_max, max((len(line.points) for line in one.lines), default=0)))
    return {
        "step": format_step(one.step.step_id),
        "node": one.node,
        "start_at_us": one.step.start_at_us,
        "interval_s": _number(until_ds / 10 / points),
        "lines": [
            {"kind": line.kind, "device": line.name, "metrics": [*_drawn_metrics(line, points, until_ds)]}
            for line in drawn
        ],
        "tasks": [_task_object(rank, line) for rank, line in one.tasks.items()],
    }


def _task_object(rank: int, line: ProfileLine) -> Json:
    """What a task has used, by its samples; null = not known."""
    cpu, memory, read, written = (figures(line.points, index) for index in range(len(COLUMNS[TASK])))
    return {
        "rank": rank,
        "cpu_used_s": None if cpu is None else _number(cpu.mean * cpu.known_ds / 10_000),
        "memory_max_bytes": None if memory is None else memory.max * 1024,
        "read_bytes": None if read is None else round(read.mean * read.known_ds / 10),
        "written_bytes": None if written is None else round(written.mean * written.known_ds / 10),
    }


def _drawn_metrics(line: ProfileLine, points: int, until_ds: int) -> Iterator[Json]:
    for index, column in enumerate(COLUMNS[line.kind]):
        shown, found = shown_column(line.kind, column), figures(line.points, index)
        if found is None:
            continue
        values = resampled(line.points, index, points, until_ds)
        yield {
            "name": shown.name,
            "mean": _number(found.mean * shown.factor),
            "max": _number(found.max * shown.factor),
            "means": [None if value is None else _number(value[0] * shown.factor) for value in values],
            "maxima": [None if value is None else _number(value[1] * shown.factor) for value in values],
        }


def _number(value: float) -> float | int:
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded
