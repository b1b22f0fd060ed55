"""The page of `penstock report --html`: one self-contained file, without scripts or external resources.

Plots are SVG made by matplotlib (the extra `sim`) and embedded in the page as text. Names come from users: the template
escapes them. Colours are Okabe and Ito's, which are distinguishable with any colour vision.
"""

import io
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from cli.base.run import CommandError
from cli.subcommands.reportdata import GPU, Report
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.text import clean_block

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000", "#999999")
_SIZE_INCHES: Final = (10.0, 3.6)
#: The most accounts in one plot of groups of bars: those with most jobs. The table has all.
_GROUPS_MAX: Final = 12
#: The most names side by side below a plot; more are rotated.
_LINE_CHARS_MAX: Final = 110
#: The most days that are all labelled.
_LABELS_MAX: Final = 16

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #1b1f24; }
h1 { font-size: 1.6em; margin-bottom: 0; } h2 { font-size: 1.2em; margin-top: 2.2em; }
.tiles { display: flex; flex-wrap: wrap; gap: 1em; margin: 1.5em 0; }
.tile { border: 1px solid #d0d7de; border-radius: 6px; padding: .7em 1.1em; } .tile b { display: block; font-size: 1.5em; }
table { border-collapse: collapse; } td, th { padding: .2em .9em; text-align: right; border-bottom: 1px solid #d8dee4; }
td:first-child, th:first-child { text-align: left; } svg { max-width: 100%; height: auto; } .note { color: #57606a; }
"""


def page(report: Report) -> str:
    """The whole file."""
    unit = "GPU" if report.tres == GPU else "CPU"
    span = f"{format_date(report.begin_us)} to {format_date(report.end_us)}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(report.cluster)}: use of the cluster</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.cluster)}</h1>",
        f'<p class="note">Use of the cluster, {span}</p>',
        _tiles(report, unit),
        f"<h2>Use by account</h2><p>{unit} hours allocated to jobs, day by day.</p>",
        _svg(_usage_plot, report, unit) + _usage_table(report, unit),
        "<h2>Waiting time</h2><p>How long jobs waited, from when they could have started.</p>",
        _svg(_waits_plot, report, unit) + _waits_table(report),
        "<h2>Efficiency</h2><p>How much of what jobs had allocated they used.</p>",
        _svg(_efficiency_plot, report, unit) + _efficiency_table(report),
        f"<h2>Idle {unit}s</h2><p>What the cluster's {unit}s did, day by day.</p>",
        _svg(_days_plot, report, unit) + _days_table(report, unit),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


# ---- numbers -----------------------------------------------------------------------------------------------------


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}"


def _tiles(report: Report, unit: str) -> str:
    allocated = sum(day.allocated for day in report.days)
    idle = sum(day.idle for day in report.days)
    whole = sum(day.allocated + day.planned + day.idle + day.down for day in report.days)
    jobs = sum(one.jobs for one in report.waits.values())
    waited_s = sum(one.mean_s * one.jobs for one in report.waits.values())
    found = [
        (_hours(allocated), f"{unit} hours used"),
        (_percent(allocated / whole if whole else None), f"of all {unit} hours"),
        (_hours(idle), f"{unit} hours idle"),
        (f"{jobs:,}", "jobs started"),
        (format_duration(waited_s // jobs) if jobs else "-", "mean wait"),
    ]
    tiles = "".join(f'<div class="tile"><b>{value}</b>{label}</div>' for value, label in found)
    return f'<div class="tiles">{tiles}</div>'


def _table(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return '<p class="note">Nothing in this time.</p>'
    head = "".join(f"<th>{escape(word)}</th>" for word in heading)
    body = "".join("<tr>" + "".join(f"<td>{escape(clean_block(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _usage_table(report: Report, unit: str) -> str:
    whole = sum(sum(days.values()) for days in report.usage.values())
    rows = [
        (name, _hours(sum(days.values())), _percent(sum(days.values()) / whole if whole else None))
        for name, days in report.usage.items()
    ]
    return _table(("Account", f"{unit} hours", "of all use"), rows)


def _waits_table(report: Report) -> str:
    rows = [
        (name, str(one.jobs), *(format_duration(s) for s in (one.mean_s, one.median_s, one.p95_s, one.longest_s)))
        for name, one in report.waits.items()
    ]
    return _table(("Account", "Jobs", "Mean", "Median", "95 % within", "Longest"), rows)


def _efficiency_table(report: Report) -> str:
    rows = [
        (name, str(one.jobs), _percent(one.cpu), _percent(one.memory), _percent(one.gpu))
        for name, one in report.efficiency.items()
    ]
    return _table(("Account", "Jobs", "CPU time", "Memory", "GPU time"), rows)


def _days_table(report: Report, unit: str) -> str:
    rows = [(day.name, *map(_hours, day[1:])) for day in report.days]
    return _table(("Day", f"{unit} hours allocated", "planned", "idle", "down"), rows)


# ---- plots -------------------------------------------------------------------------------------------------------


def _svg(draw: Callable[["Axes", Report, str], bool], report: Report, unit: str) -> str:
    """A plot as text; "" when there is nothing to draw."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise CommandError("the page needs matplotlib: pip install 'penstock[sim]'") from None
    # Text is embedded as text, and ids are the same in every run.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock", "font.size": 9}):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        if not draw(axes, report, unit):
            return ""
        axes.spines[["top", "right"]].set_visible(False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _plain(name: str) -> str:
    """A name escaped for matplotlib: a dollar sign would begin a formula."""
    return name.replace("$", r"\$")


def _stacked(axes: "Axes", names: list[str], layers: list[tuple[str, list[float]]], unit: str) -> None:
    below = [0.0] * len(names)
    for place, (label, values) in enumerate(layers):
        axes.bar(
            range(len(names)), values, bottom=below, label=_plain(label), color=COLOURS[place % len(COLOURS)], width=0.9
        )
        below = [low + value for low, value in zip(below, values, strict=True)]
    step = -(-len(names) // _LABELS_MAX)
    axes.set_xticks(range(0, len(names), step), [names[i][5:] for i in range(0, len(names), step)])
    axes.set_ylabel(f"{unit} hours")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _usage_plot(axes: "Axes", report: Report, unit: str) -> bool:
    if not report.usage:
        return False
    names = [day.name for day in report.days]
    _stacked(axes, names, [(a, [days.get(n, 0.0) for n in names]) for a, days in report.usage.items()], unit)
    return True


def _days_plot(axes: "Axes", report: Report, unit: str) -> bool:
    names = [day.name for day in report.days]
    layers = [(word, [getattr(day, word) for day in report.days]) for word in ("allocated", "planned", "idle", "down")]
    if not any(any(values) for _, values in layers):
        return False
    _stacked(axes, names, layers, unit)
    return True


def _grouped(axes: "Axes", names: list[str], layers: list[tuple[str, list[float]]]) -> None:
    width = 0.8 / max(1, len(layers))
    for place, (label, values) in enumerate(layers):
        at = [i + (place - (len(layers) - 1) / 2) * width for i in range(len(names))]
        axes.bar(at, values, width, label=label, color=COLOURS[place])
    is_long = sum(map(len, names)) > _LINE_CHARS_MAX
    axes.set_xticks(
        range(len(names)),
        [_plain(name) for name in names],
        rotation=30 if is_long else 0,
        ha="right" if is_long else "center",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _waits_plot(axes: "Axes", report: Report, unit: str) -> bool:
    names = list(report.waits)[:_GROUPS_MAX]
    if not names:
        return False
    found = [report.waits[name] for name in names]
    _grouped(axes, names, [("median", [w.median_s / 60 for w in found]), ("95 %", [w.p95_s / 60 for w in found])])
    axes.set_ylabel("minutes")
    axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.set_ylim(0, 2 + 1.5 * max(one.p95_s for one in found) / 60)
    return True


def _efficiency_plot(axes: "Axes", report: Report, unit: str) -> bool:
    names = list(report.efficiency)[:_GROUPS_MAX]
    found = [report.efficiency[name] for name in names]
    layers = [
        (word, [100 * (getattr(one, field) or 0.0) for one in found])
        for word, field in (("CPU time", "cpu"), ("memory", "memory"), ("GPU time", "gpu"))
        if any(getattr(one, field) is not None for one in found)
    ]
    if not layers:
        return False
    _grouped(axes, names, layers)
    axes.set_ylabel("% of what was allocated")
    return True
