"""`make bench-history`: the figures of each release, one line of JSON a release, and a plot of them.

    python -m bench.history [--report bench/out/main.json]

Takes the report of `make bench` for the version in penstock/__init__.py, replaces that version's line in
bench/history.jsonl or adds one, and draws docs/history.svg. The plot names the digest of the lines it was drawn from, so a
test can compare without drawing.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.guardtree import git
from bench.measure import CannotMeasure
from penstock import __version__

HISTORY = Path(__file__).with_name("history.jsonl")
PLOT = Path(__file__).parents[1] / "docs" / "history.svg"
REPORT = Path(__file__).parent / "out" / "main.json"
#: The unit that the end of a figure's name says; the first that fits. Other figures are counts or ratios.
UNITS = (
    ("_mb_per_s", "MB/s"), ("_per_s", "1/s"), ("_ms", "ms"), ("_us", "us"), ("_mb", "MiB"), ("_cores", "cores"), ("_s", "s"),
)  # fmt: skip
#: What is drawn: figure, title.
DRAWN = (
    ("array_jobs_per_s", "array of 1,000 true, jobs/s"),
    ("durable_submits_per_s", "durable submissions/s"),
    ("shell_submits_per_s", "sbatch from 8 shells, /s"),
    ("sbatch_wall_ms", "one sbatch, ms"),
    ("restart_s", "restart, s"),
    ("ctld_rss_mb", "controller, MiB"),
)


class Release(NamedTuple):
    """One line. `figures` has a value and its unit by name."""

    version: str
    date: str
    commit: str
    cpus: int
    cpu_model: str
    interpreter: str
    figures: dict[str, tuple[float, str]]


def unit_of(name: str) -> str:
    """The unit of a figure; "" for counts and ratios."""
    return next((unit for ending, unit in UNITS if name.endswith(ending)), "")


def release_of(report: dict[str, Any], version: str, commit: str) -> Release:
    """The line of a report: all figures that are single numbers."""
    about = report["machine"]
    figures = {
        name: (value, unit_of(name))
        for name, value in report.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return Release(
        version, about["date"], commit, about["cpus"], about["cpu_model"], about["python_build"], figures
    )  # fmt: skip


def read(text: str) -> list[Release]:
    """The lines of a history. Raises ValueError for one that is not a release."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = json.loads(line)
        if not isinstance(fields, dict) or tuple(fields) != Release._fields:
            raise ValueError(f"line {number}: needs {', '.join(Release._fields)}")
        figures = {name: (value, unit) for name, (value, unit) in fields.pop("figures").items()}
        found.append(Release(**fields, figures=figures))
    return found


def with_release(releases: list[Release], new: Release) -> list[Release]:
    """The history with the new line in place of an older one of the same version, else at its end."""
    if any(one.version == new.version for one in releases):
        return [new if one.version == new.version else one for one in releases]
    return [*releases, new]


def text_of(releases: list[Release]) -> str:
    """The file's content."""
    return "".join(json.dumps(one._asdict()) + "\n" for one in releases)


def mark_of(text: str) -> str:
    """What the plot says about its source."""
    return f"bench/history.jsonl sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def draw(releases: list[Release], path: Path) -> None:
    """One small plot a figure, with releases from left to right."""
    import matplotlib as mpl  # half a second, needed here only

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mark = mark_of(text_of(releases))
    with mpl.rc_context({"svg.hashsalt": "penstock", "svg.fonttype": "none"}):
        figure, grid = plt.subplots(2, 3, figsize=(9, 4.6))
        for axis, (name, title) in zip(grid.flat, DRAWN, strict=True):
            points = [(one.version, one.figures[name][0]) for one in releases if name in one.figures]
            axis.plot([version for version, _ in points], [value for _, value in points], "o-")
            axis.set_title(title, fontsize=9)
            axis.set_ylim(bottom=0)
            axis.grid(visible=True, alpha=0.3)
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": mark})
        plt.close(figure)


def main() -> int:
    """Writes the line and the plot. 1 if there is no whole report."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description="Keeps a run as that of this release.")
    parser.add_argument("--report", type=Path, default=REPORT, help="what make bench wrote (%(default)s)")
    asked = parser.parse_args()
    try:
        report = json.loads(asked.report.read_text())
        commit = git("rev-parse", "--short", "HEAD")
    except (OSError, CannotMeasure) as error:
        print(f"bench-history: {error}; run `make bench` first", file=sys.stderr)
        return 1
    new = release_of(report, __version__, commit)
    releases = with_release(read(HISTORY.read_text() if HISTORY.exists() else ""), new)
    HISTORY.write_text(text_of(releases))
    draw(releases, PLOT)
    for part, why in report["not_measured"].items():
        print(f"not measured: {part}: {why}")
    print(f"{new.version}: {len(new.figures)} figures in {HISTORY}, drawn in {PLOT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
