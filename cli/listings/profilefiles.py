"""Files of `penstock profile`: a picture (PNG, by matplotlib) and a table for programs (Parquet, by pyarrow).

Both libraries are large and optional: the extra `profile` names them, and they are imported when a file is asked for.
Texts of a profile are other machines': a dollar sign would begin a formula of matplotlib.
"""

from collections.abc import Sequence
from itertools import islice
from typing import IO, Final, NamedTuple

from cli.base.run import CommandError
from cli.listings.profilechart import csv_rows
from cli.listings.profiles import NodeProfile

#: Of one diagram: a legend of more lines than this cannot be read.
LINES_MAX: Final = 16
_WIDTH_INCHES, _ROW_INCHES = 10.0, 2.0
_DOTS_PER_INCH: Final = 120
#: Characters of a line's name in the legend.
_NAME_CHARS_MAX: Final = 40
_EXTRA: Final = "pip install 'penstock[profile]'"
#: What a diagram of each metric is headed with, and what its values are divided by.
_HEADS: Final = {
    "cpu_cores": ("CPU cores", 1.0),
    "memory_bytes": ("memory, GiB", 2.0**30),
    "read_bytes_per_second": ("read, MiB/s", 2.0**20),
    "written_bytes_per_second": ("written, MiB/s", 2.0**20),
    "gpu_utilization_percent": ("GPU busy, %", 1.0),
    "gpu_memory_bytes": ("GPU memory, GiB", 2.0**30),
    "gpu_power_watts": ("GPU power, W", 1.0),
    "gpu_temperature_celsius": ("GPU temperature, °C", 1.0),
    "gpu_throttled_percent": ("GPU throttled, %", 1.0),
}


class DrawnLine(NamedTuple):
    """The course of one metric of one device: seconds since the step's start, and the means."""

    name: str
    at_s: list[float]
    means: list[float]


def courses(profiles: Sequence[NodeProfile]) -> dict[str, list[DrawnLine]]:
    """The lines of each metric, in the order of `_HEADS`; metrics that no device has are left out."""
    found: dict[str, dict[str, DrawnLine]] = {metric: {} for metric in _HEADS}
    for row in islice(csv_rows(profiles), 1, None):
        job, step, node, device, at_s, metric, mean, _ = row
        name = " ".join(filter(None, (f"{job}.{step}", str(node), str(device))))
        line = found[str(metric)].setdefault(name, DrawnLine(name, [], []))
        line.at_s.append(_float(at_s))
        line.means.append(_float(mean))
    return {metric: list(lines.values()) for metric, lines in found.items() if lines}


def write_png(profiles: Sequence[NodeProfile], file: IO[bytes]) -> None:
    """Writes a picture: a diagram for each metric, a line in it for each step, node and GPU. Raises CommandError, OSError."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError(f"--png needs matplotlib: {_EXTRA}") from None
    shown = courses(profiles)
    figure = Figure(figsize=(_WIDTH_INCHES, _ROW_INCHES * max(len(shown), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)
    for (axes,), (metric, lines) in zip(rows, shown.items(), strict=False):
        head, unit = _HEADS[metric]
        for line in lines[:LINES_MAX]:
            label = line.name[:_NAME_CHARS_MAX].replace("$", r"\$")
            axes.plot(line.at_s, [mean / unit for mean in line.means], label=label, linewidth=1)
        more = f" (first {LINES_MAX} of {len(lines)})" if len(lines) > LINES_MAX else ""
        axes.set_title(head + more, fontsize=9, loc="left")
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=7)
    rows[-1][0].set_xlabel("seconds since the step's start", fontsize=8)
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)


def write_parquet(profiles: Sequence[NodeProfile], file: IO[bytes]) -> None:
    """Writes the rows of --csv as a table. Raises CommandError, OSError."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise CommandError(f"--parquet needs pyarrow: {_EXTRA}") from None
    rows = csv_rows(profiles)
    names = [str(name) for name in next(rows)]
    columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    kinds = [arrow.float64() if name in ("elapsed_s", "mean", "max") else arrow.string() for name in names]
    made = [
        arrow.array(map(_float if kind == arrow.float64() else str, column), type=kind)
        for kind, column in zip(kinds, columns, strict=True)
    ]
    parquet.write_table(arrow.table(made, names=names), file, compression="zstd")


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
