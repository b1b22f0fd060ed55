"""`python -m bench.learnedbench`: the experiments with the policy `learned`, on every log there is.

Options: `--mode event`, `--part first`, `--stretch 0.9`. `--price` prints another table: slowdown, area-weighted wait in hours,
jobs that waited for over 48 hours, and the largest multiple of EASY's wait, of learned without and with bounds.

Prints a table in Markdown: for each log the mean bounded slowdown (tau 10 s), the p95 of waits as a share of EASY's on the
same jobs, and the longest wait in days. docs/scheduling.md has it with explanations. The last column says on how many of the
four logs of the SC'15 study a variant does what `learned` promises: a lower slowdown than EASY, EASY-SJBF and EASY++, and no
higher p95 than EASY's.
"""

import argparse
import sys
from dataclasses import replace

import numpy as np

from bench import published
from sim.bounded import over_easy
from sim.engines import ENGINES
from sim.metrics import Array, measure
from sim.outcome import Options
from sim.workload import Workload, window

STUDY = ("KTH-SP2", "CTC-SP2", "SDSC-SP2", "CEA-Curie")
OTHERS = ("lublin_256",)
LEARNED = "order=aged,backfill=easy,candidates=shortest,ranker=similar"
RIVALS = {"EASY": "easy", "EASY-SJBF": "easy-sjbf", "EASY++": "easypp"}
VARIANTS = RIVALS | {
    "**learned**": "learned",
    "time limits instead of predictions": "order=aged,backfill=easy,candidates=shortest",
    "the user's last two of any kind": "order=aged,backfill=easy,candidates=shortest,ranker=last-two",
    "reservations by prediction too": f"{LEARNED},predictor=similar",
    "candidates aged too": "order=aged,backfill=easy,candidates=aged,ranker=similar",
    "head by arrival, candidates by prediction": "backfill=easy,candidates=shortest,ranker=similar",
    "head by arrival, candidates aged": "backfill=easy,candidates=aged,ranker=similar",
    "head by prediction": "order=shortest,backfill=easy,candidates=shortest,ranker=similar",
    "head by predicted area": "order=smallest-area,backfill=easy,candidates=smallest-area,ranker=similar",
    "factor 2": f"{LEARNED},aged_factor=2",
    "factor 3": f"{LEARNED},aged_factor=3",
    "factor 10": f"{LEARNED},aged_factor=10",
    "factor 20": f"{LEARNED},aged_factor=20",
    "at most 1 day": f"{LEARNED},aged_max_s={86_400}",
    "at most 2 days": f"{LEARNED},aged_max_s={2 * 86_400}",
    "at most 3 days": f"{LEARNED},aged_max_s={3 * 86_400}",
    "at most 5 days": f"{LEARNED},aged_max_s={5 * 86_400}",
    "no bound": f"{LEARNED},aged_max_s={10**9}",
}
#: Name -> which of how many equal parts.
PARTS = {
    "all": (0, 1), "first": (0, 2), "second": (1, 2), "third-1": (0, 3), "third-2": (1, 3), "third-3": (2, 3),
}  # fmt: skip


def main() -> int:
    """Print the table; 0 also when a log is absent."""
    options = argparse.ArgumentParser(prog="python -m bench.learnedbench")
    options.add_argument("--mode", choices=("batch", "event"), default="batch")
    options.add_argument("--part", choices=tuple(PARTS), default="all", help="half or third of each log")
    options.add_argument("--stretch", type=float, default=1.0, help="factor of submit times; below 1 is a higher load")
    options.add_argument("--price", action="store_true", help="what learned costs, without and with bounds")
    given = options.parse_args()
    logs = [log for log in STUDY + OTHERS if published.is_there(log)]
    if not logs:
        print(f"no logs in {published.TRACES}: set PENSTOCK_TRACES; docs/simulator.md says where logs are found")
        return 0
    workloads = {log: load(log, given.part, given.stretch) for log in logs}
    if given.price:
        print_prices(workloads)
        return 0
    print("| variant | " + " | ".join(logs) + " | kept |\n" + "|---" * (len(logs) + 2) + "|")
    rivals: dict[str, list[dict[str, float]]] = {log: [] for log in logs}
    for name, policy in VARIANTS.items():
        cells, kept = [], 0
        for log in logs:
            found = figures(workloads[log], log, policy, given.mode)
            if name in RIVALS:
                rivals[log].append(found)
            kept += log in STUDY and keeps(found, rivals[log])
            share = found["wait_p95_s"] / max(rivals[log][0]["wait_p95_s"], 1)
            cells.append(f"{found['bsld_mean']:.1f} {share:.2f} {found['wait_max_s'] / 86_400:.1f}")
        verdict = "" if name in RIVALS else f"{kept} of {sum(log in STUDY for log in logs)}"
        print(f"| {name} | " + " | ".join(cells) + f" | {verdict} |", flush=True)
    return 0


def print_prices(workloads: dict[str, Workload]) -> None:
    """A row for EASY, and for learned with each bound."""
    print("| policy | " + " | ".join(workloads) + " |\n" + "|---" * (len(workloads) + 1) + "|")
    rows = {"EASY": ("easy", 0), "learned": ("learned", 0)} | {f"learned, bound {n}": ("learned", n) for n in (3, 2, 1)}
    easy: dict[str, Array] = {}
    for name, (policy, bound) in rows.items():
        cells = []
        for log, workload in workloads.items():
            options = Options(published.LOGS[log].processors, policy, bound=bound)
            outcome = ENGINES["nodes"](workload, options)
            wait_s = outcome.start_s - workload.submit_s
            found = measure(outcome.schedule(workload, options))
            times = over_easy(wait_s, easy.setdefault(log, wait_s))
            cells.append(
                f"{found['bsld_mean']:.1f} {found['wait_area_s'] / 3600:.1f} {found['starved_jobs']:.0f} {times:.1f}"
            )
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def load(log: str, part: str, stretch: float = 1.0) -> Workload:
    """The jobs of a log, or a part of them, submitted in more or less time."""
    workload = published.load(log, "sc15" if log in STUDY else "usable")
    number, parts = PARTS[part]
    count = len(workload)
    workload = window(workload, f"{count * number // parts}:{count * (number + 1) // parts}")
    return replace(workload, submit_s=(workload.submit_s * stretch).astype(np.int64))


def figures(workload: Workload, log: str, policy: str, mode: str) -> dict[str, float]:
    """Of one run."""
    options = Options(published.LOGS[log].processors, policy, mode)
    return measure(ENGINES["replay"](workload, options).schedule(workload, options))


def keeps(found: dict[str, float], rivals: list[dict[str, float]]) -> bool:
    """A lower slowdown than all rivals, and a p95 that is no higher than that of EASY, which is the first of them."""
    slowdown = min(rival["bsld_mean"] for rival in rivals)
    return found["bsld_mean"] < slowdown and found["wait_p95_s"] <= rivals[0]["wait_p95_s"]


if __name__ == "__main__":
    sys.exit(main())
