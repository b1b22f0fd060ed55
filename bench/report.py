"""A run's figures as a table for people and as JSON for programs."""

import json
import os
import platform
import time
from pathlib import Path

from bench.parts import KEYS, Figures
from penstock.interpreter import running_build

#: The target of each figure on two cores (">" at least, "<" at most); the reasons are in docs/performance.md.
TARGETS: dict[str, tuple[str, float]] = {
    "array_jobs_per_s": (">", 200),
    "array_jobs_per_s_ratio_to_slurm": (">", 3),
    "durable_submits_per_s": (">", 1000),
    "sbatch_wall_ms_ratio_to_slurm": ("<", 3),
    "squeue_wall_ms_ratio_to_slurm": ("<", 3),
    "shell_submits_per_s_ratio_to_slurm": (">", 1),
    "restart_s": ("<", 3),
    "ctld_rss_mb": ("<", 250),
    "array_100k_accept_ms": ("<", 200),
    "array_100k_growth_mb": ("<", 20),
    "rest_list_ms": ("<", 60),
    "rest_submit_above_grpc_p99_ms": ("<", 2),
    "rest_watched_controller_percent": ("<", 5),
}


def machine() -> dict[str, str | int | float]:
    """The machine of the measurement."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": model,
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_build": running_build().text(),
        "load_before": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d"),
    }


def table(figures: Figures, reasons: dict[str, str]) -> str:
    """One line a figure: name, value, and whether it reaches its target."""
    width = max(map(len, figures))
    lines = [
        f"{name:<{width}}  {_shown(figures[name]):>12}  {_judged(name, figures[name])}".rstrip() for name in figures
    ]
    lines += [f"not measured: {part}: {why}" for part, why in reasons.items()]
    return "\n".join(lines)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return str(value)


def _judged(name: str, value: object) -> str:
    target = TARGETS.get(name)
    if target is None or not isinstance(value, int | float):
        return ""
    sign, limit = target
    reached = value >= limit if sign == ">" else value <= limit
    return f"{'ok' if reached else 'MISSED'} (target {'at least' if sign == '>' else 'at most'} {limit:g})"


def document(figures: Figures, reasons: dict[str, str], about: dict[str, str | int | float]) -> Figures:
    """The document: the fixed keys, then all others."""
    return {**dict.fromkeys(KEYS), **figures, "not_measured": reasons, "machine": about}


def write(path: Path, content: Figures) -> None:
    """Writes the JSON atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(content, indent=2) + "\n")
    new.replace(path)
