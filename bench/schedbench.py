"""`make bench-sched`: measures the planner's time, how it grows, and what Slurm does with the same jobs.

    python -m bench.schedbench [--quick] [--slurm-s SECONDS] [--no-slurm]

Times are CPU seconds of one thread, the best of some runs: other work on the machine can only add. The input is made
before the clock starts (bench/schedqueue.py). Writes bench/out/sched.json and bench/out/sched.png; what each figure
means is in docs/performance.md.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _fastsched import COMPILED, plan
from _fastsched.contract import PlanInput, PlanLimits
from bench import report, schedslurm
from bench.measure import CannotMeasure
from bench.parts import Figures
from bench.schedqueue import NOW_S, generate, pending_queue, planner_input, running_after

OUT = Path("bench/out")
FULL_JOBS, FULL_NODES = 12_000, 1_000
BIG_JOBS, BIG_NODES = 103_500, 10_000
QUICK_ROWS = 128
RUNS = 5
#: (jobs on 1,000 nodes), (nodes with 12,000 jobs)
SCALE_JOBS = (1_500, 3_000, 6_000, 12_000, 24_000, 48_000)
SCALE_NODES = (250, 500, 1_000, 2_000, 4_000, 8_000)
KEYS = (
    "full_plan_s", "full_plan_jobs", "big_plan_s", "big_plan_jobs", "big_plan_rss_mb", "quick_pass_ms", "quick_pass_running",
    "small_call_us", "slurm_tested_jobs", "slurm_s", "slurm_version", "ratio_to_slurm",
)  # fmt: skip
TARGETS = {
    "full_plan_s": ("<", 1.0), "big_plan_s": ("<", 20.0), "big_plan_rss_mb": ("<", 2000.0), "quick_pass_ms": ("<", 5.0),
    "small_call_us": ("<", 15.0),
}  # fmt: skip


def best_s(work: Callable[[], object], runs: int) -> float:
    """CPU seconds of the quickest run."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def full_s(given: PlanInput, runs: int) -> float:
    """A plan of all that waits; each job must have got a start and nodes."""
    result = plan(given)
    if (result.start_s < 0).any():
        raise CannotMeasure(f"{(result.start_s < 0).sum()} of {len(given.rows)} jobs have no planned start")
    return best_s(lambda: plan(given), runs)


def quick_input() -> PlanInput:
    """1,000 nodes full of single-node jobs, of which one has just ended; the generated queue waits, 128 rows are
    planned."""
    small = generate(FULL_JOBS)
    small = small._replace(nodes=np.ones_like(small.nodes), gpus=np.minimum(small.gpus, 4))
    filled = planner_input(small, FULL_NODES)
    filled = running_after(filled, plan(filled._replace(limits=PlanLimits(NOW_S, reserve_max=0, estimate=False))))
    running, node = filled.running, filled.nodes
    for part in np.flatnonzero(running.part_run == 0):
        at = running.part_node[part]
        node.free_cpus[at] += running.part_cpus[part]
        node.free_mem_mb[at] += running.part_mem_mb[part]
        node.free_gres[at] += running.part_gres[part]
        running.part_run[part] = -1
    queue = planner_input(generate(FULL_JOBS), FULL_NODES)
    return queue._replace(nodes=node, running=running, limits=PlanLimits(NOW_S, rows_max=QUICK_ROWS))


def ours(runs: int) -> Figures:
    """All figures of the planner itself."""
    full = pending_queue(FULL_JOBS, FULL_NODES)
    quick = quick_input()
    small = planner_input(generate(30), 1)
    figures: Figures = {
        "full_plan_s": full_s(full, runs),
        "full_plan_jobs": len(full.rows),
        "quick_pass_ms": 1e3 * best_s(lambda: plan(quick), 4 * runs),
        "quick_pass_running": int((np.bincount(quick.running.part_run[quick.running.part_run >= 0]) > 0).sum()),
        "small_call_us": 1e3 * best_s(lambda: [plan(small) for _ in range(1000)], runs),
    }
    big = pending_queue(BIG_JOBS, BIG_NODES)
    figures["big_plan_s"] = full_s(big, 1)
    figures["big_plan_jobs"] = len(big.rows)
    figures["big_plan_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def scaling(runs: int) -> Figures:
    """Seconds by jobs and by nodes."""
    by_jobs = {jobs: full_s(pending_queue(jobs, FULL_NODES), runs) for jobs in SCALE_JOBS}
    by_nodes = {nodes: full_s(pending_queue(FULL_JOBS, nodes), runs) for nodes in SCALE_NODES}
    return {"seconds_by_jobs": by_jobs, "seconds_by_nodes": by_nodes}


def draw(figures: Figures, path: Path) -> None:
    """Both curves with equal axes."""
    import matplotlib as mpl  # half a second, needed at the end only

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, key, label in (
        (axes[0], "seconds_by_jobs", f"jobs, on {FULL_NODES:,} nodes"),
        (axes[1], "seconds_by_nodes", f"nodes, with {FULL_JOBS:,} jobs"),
    ):
        points = figures[key]
        assert isinstance(points, dict)
        axis.loglog(list(points), list(points.values()), "o-")
        axis.set_xlabel(label)
        axis.set_xticks(list(points), [f"{count / 1000:g}k" for count in points])
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("full plan, CPU seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def table(figures: Figures, reasons: dict[str, str]) -> str:
    """One line a figure, then how it grows."""
    lines = []
    for key in KEYS:
        value = figures.get(key)
        shown = "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
        target = TARGETS.get(key)
        judged = ""
        if target and isinstance(value, float):
            judged = f"{'ok' if value <= target[1] else 'MISSED'} (target at most {target[1]:g})"
        lines.append(f"{key:<20}{shown:>14}  {judged}".rstrip())
    for key in ("seconds_by_jobs", "seconds_by_nodes"):
        points = figures.get(key)
        if isinstance(points, dict):
            lines.append(f"{key}: " + ", ".join(f"{count:,}: {seconds:.3f}" for count, seconds in points.items()))
    return "\n".join(lines + [f"not measured: {part}: {why}" for part, why in reasons.items()])


def main() -> int:
    """Measure, print, write. 1 if the planner is not compiled."""
    parser = argparse.ArgumentParser(prog="python -m bench.schedbench", description="How long the planner takes.")
    parser.add_argument("--quick", action="store_true", help="one run of each, no curves, no Slurm")
    parser.add_argument("--no-slurm", action="store_true", help="do not start Slurm")
    parser.add_argument("--slurm-s", type=float, default=60.0, help="how long Slurm's backfill may work (default: 60)")
    parser.add_argument("--slurm-jobs", type=int, default=FULL_JOBS, help=f"jobs for Slurm (default: {FULL_JOBS})")
    chosen = parser.parse_args()
    if not COMPILED:
        print("bench-sched: the compiled planner is not there; run `make build` with a C compiler installed")
        return 1
    about = report.machine()
    figures: Figures = dict.fromkeys(KEYS)
    reasons: dict[str, str] = {}
    figures.update(ours(1 if chosen.quick else RUNS))
    if not chosen.quick:
        figures.update(scaling(2))
    if chosen.quick or chosen.no_slurm:
        reasons["slurm"] = "not asked for"
    else:
        try:
            figures.update(schedslurm.measure(generate(chosen.slurm_jobs), FULL_NODES, chosen.slurm_s))
            figures["ratio_to_slurm"] = ratio(figures)
        except CannotMeasure as why:
            reasons["slurm"] = str(why)
    print(table(figures, reasons))
    report.write(OUT / "sched.json", {**figures, "not_measured": reasons, "machine": about})
    if not chosen.quick:
        draw(figures, OUT / "sched.png")
    return 0


def ratio(figures: Figures) -> float | None:
    """How many jobs we plan in the time in which Slurm plans one."""
    tested = figures["slurm_tested_jobs"]
    slurm_s = figures["slurm_s"]
    full = figures["full_plan_s"]
    jobs = figures["full_plan_jobs"]
    if not (
        isinstance(tested, int) and isinstance(slurm_s, float) and isinstance(full, float) and isinstance(jobs, int)
    ):
        return None
    return (slurm_s / tested) / (full / jobs) if tested else None


if __name__ == "__main__":
    raise SystemExit(main())
