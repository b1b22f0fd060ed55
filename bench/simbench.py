"""`python -m bench.simbench` (`make bench-sim`): every published figure of the simulator, ours beside it, and the speed.

The table says OK where the last printed digit agrees, and for the SC'15 study where every job's wait does. The rate is
jobs divided by the CPU time of the engine alone, the best of three runs. Rows "core" go through the controller's own
core, once; their starts are also compared with those of the replay, job by job. Writes bench/out/sim.json; the status
is 1 when anything differs, and 0 with a message when no log is there.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench import published
from bench.published import Case
from sim.workload import Workload

OUT = Path(__file__).parent / "out" / "sim.json"
ROUNDS = {"replay": 3, "core": 1}


def main() -> int:
    """0 when all is as published."""
    all_cases = published.cases() + published.ours()
    cases = [case for case in all_cases if published.is_there(case.log)]
    if not cases:
        print(f"no logs in {published.TRACES}: set PENSTOCK_TRACES; docs/simulator.md says where logs are found")
        return 0
    if absent := sorted({case.log for case in all_cases} - {case.log for case in cases}):
        print(f"absent and left out: {', '.join(absent)}")
    rows: list[dict[str, Any]] = []
    workloads: dict[tuple[str, str, int], Workload] = {}
    for case in cases:
        key = (case.log, case.filter, case.processors)
        if key not in workloads:
            workloads[key] = published.load(*key)
        if case.policy == "learned" and not any(row["ours_alone"] for row in rows):
            print("ours (no publication; in the place of a published figure is the one that it had)")
        rows.append(one(case, workloads[key]))
        print(line(rows[-1]), flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"cases": rows, "slowest_easy_jobs_per_s": slowest(rows)}, indent=1) + "\n")
    print(f"{kept(rows, False)} as published, {kept(rows, True)} of ours as before", end="; ")
    print(f"slowest EASY {slowest(rows):,} jobs/s; written to {OUT}")
    return 1 if any(row["differs"] for row in rows) else 0


def kept(rows: list[dict[str, Any]], ours_alone: bool) -> str:
    """`52 of 52`."""
    verdicts = [not row["differs"] for row in rows if row["ours_alone"] is ours_alone]
    return f"{sum(verdicts)} of {len(verdicts)}"


def one(case: Case, workload: Workload) -> dict[str, Any]:
    """One case, run and compared."""
    outcome, figures = published.run(case, workload)
    rounds_s = [outcome.cpu_s, *(published.run(case, workload)[0].cpu_s for _ in range(ROUNDS[case.engine] - 1))]
    return {
        "case": case.name,
        "jobs": len(workload),
        "ours": {name: round(figures[name], decimals) for name, (_, decimals) in case.want.items()},
        "published": {name: value for name, (value, _) in case.want.items()},
        "ours_alone": case.policy == "learned",
        "every_wait": bool(case.waits),
        "differs": published.differences(case, workload, outcome, figures),
        "jobs_per_s": round(len(workload) / max(min(rounds_s), 1e-9)),
    }


def line(row: dict[str, Any]) -> str:
    """A row of the table: the first figure of each case, and the verdict on all."""
    name, ours = next(iter(row["ours"].items()), ("", ""))
    every = "OK, every wait" if row["every_wait"] else "OK, every start" if row["case"].endswith(" core") else ""
    verdict = "; ".join(row["differs"]) or every or f"OK, {len(row['ours'])} figures"
    return f"{row['case']:<44}{name:<12}{ours:>14} {row['published'].get(name, ''):>14}  {row['jobs_per_s']:>11,}/s  {verdict}"


def slowest(rows: list[dict[str, Any]]) -> int:
    """The lowest rate of EASY with one pass for each time."""
    return min((row["jobs_per_s"] for row in rows if " easy " in row["case"] and "batch" in row["case"]), default=0)


if __name__ == "__main__":
    sys.exit(main())
