"""Tables of results on the screen: figures down, policies across."""

from collections.abc import Sequence

from sim.results import Result, Run

#: End or beginning of a figure's name -> decimals.
_DECIMALS = {"_s": 1, "_jobs": 0, "preemptions": 0}
_DECIMALS_OTHER = 4


def number(name: str, value: float) -> str:
    """A figure as printed."""
    decimals = next((d for end, d in _DECIMALS.items() if name.endswith(end)), _DECIMALS_OTHER)
    return f"{value:,.{decimals}f}"


def headline(result: Result) -> str:
    """The conditions of the figures."""
    conditions = [
        f"{result.workload}: {result.jobs:,} jobs",
        f"P = {result.processors:,}",
        f"window {result.window or 'all'}",
        f"filter {result.filter}",
        f"tau = {result.tau_s} s",
    ]
    lines = [", ".join(conditions)]
    if result.skipped:
        lines.append("left out: " + "; ".join(f"{why}: {count:,}" for why, count in result.skipped.items()))
    if result.doubts:
        lines.append("kept, but odd: " + "; ".join(f"{what}: {count:,}" for what, count in result.doubts.items()))
    if result.unrecorded:
        lines.append(f"note: {result.unrecorded}")
    said: dict[str, list[str]] = {}
    for run in result.runs:
        for note in run.notes:
            said.setdefault(note, []).append(run.policy)
    lines += [f"note: {', '.join(policies)}: {note}" for note, policies in said.items()]
    return "\n".join(lines)


def label(run: Run) -> str:
    """A run in a heading."""
    return f"{run.policy} ({run.engine}, {run.estimate}, {run.mode})"


def table(result: Result) -> str:
    """Of one result."""
    names = list(dict.fromkeys(name for run in result.runs for name in run.metrics))
    rows = [[name, *(number(name, run.metrics[name]) for run in result.runs)] for name in names]
    speed = ["(jobs/s)", *(f"{result.jobs / run.cpu_s:,.0f}" if run.cpu_s > 0 else "-" for run in result.runs)]
    heads = [
        ["", *(run.policy for run in result.runs)],
        ["estimate", *(run.estimate for run in result.runs)],
        ["engine, mode", *(run.engine if run.mode == "-" else f"{run.engine}, {run.mode}" for run in result.runs)],
    ]
    return headline(result) + "\n\n" + aligned([*heads, *rows, speed])


def comparison(a: Result, b: Result, pairs: Sequence[tuple[Run, Run]]) -> str:
    """Two results side by side, one block for each pair of runs."""
    blocks = [f"A  {headline(a)}\nB  {headline(b)}"]
    for one, other in pairs:
        rows = [["", f"A {label(one)}", f"B {label(other)}", "B - A", "%"]]
        for name in dict.fromkeys([*one.metrics, *other.metrics]):
            left, right = one.metrics.get(name), other.metrics.get(name)
            if left is None or right is None:
                rows.append([name, *("-" if v is None else number(name, v) for v in (left, right)), "", ""])
                continue
            change = f"{100 * (right - left) / left:+.1f}" if left else ""
            rows.append([name, number(name, left), number(name, right), number(name, right - left), change])
        blocks.append(aligned(rows))
    return "\n\n".join(blocks)


def aligned(rows: list[list[str]]) -> str:
    """Aligns the first column left, the others right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
