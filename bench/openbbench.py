"""`python -m bench.openbbench`: the openb lists by every policy and seed, against every published figure; and how fast.

Part of `make bench-sim`. The lists are not ours to hand on: they lie in the folder PENSTOCK_TRACES (default:
shared/traces beside the project's folder; docs/simulator.md says where a user finds them). Written: bench/out/openb.json.

Compared are all points of both curves (allocated, fragmentation) of each published run, which are printed with two
digits, and the end states of seed 42. Random is left out: the study's program chooses by the order of its threads. Of
the study's 17 lists those are taken that are there. On each, steer may be at most STEER_TOLERANCE below FGD at any point of
the mean curve.
"""

import csv
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from _fastsched.fragment_contract import POLICIES
from sim.openb import OpenbWorkload, arrivals_of, make_workload, recorded_arrivals
from sim.openb_cli import mean_curves, run
from sim.openb_files import read_openb_nodes, read_openb_pods
from sim.openb_published import SEEDS, published

TRACES = Path(os.environ.get("PENSTOCK_TRACES") or Path(__file__).resolve().parents[2] / "shared" / "traces")
OUT = Path(__file__).parent / "out" / "openb.json"
WORKLOADS = ("default", "gpushare40", "gpuspec33", "multigpu20")
FURTHER_WORKLOADS = (
    "cpu050", "cpu100", "cpu200", "cpu250", "gpushare60", "gpushare80", "gpushare100", "gpuspec10", "gpuspec20", "gpuspec25",
    "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip
EXACT = POLICIES[1:6]
_PUBLISHED_NAMES = ("01-Random", "02-DotProd", "03-GpuClustering", "04-GpuPacking", "05-BestFit", "06-FGD")
#: Both sides are rounded to two digits, the published one from values that were rounded before.
TOLERANCE = 0.01
STEER_TOLERANCE = 0.1
PLACEMENTS_PER_S_TARGET = 100_000
#: Default list, seed 42: failed pods, GPU milli, CPU milli, GPUs touched, fragmentation milli.
END_STATES = {
    "dotprod": (2874, 5_624_470, 86_680_650, 5964, 584_628.0),
    "clustering": (2797, 5_686_120, 87_334_260, 5942, 519_629.3),
    "packing": (2794, 5_688_580, 87_353_972, 5972, 518_404.8),
    "bestfit": (2676, 5_785_450, 88_473_204, 6112, 422_360.8),
    "fgd": (2532, 5_919_410, 89_928_302, 6189, 291_361.7),
}
Curves = dict[tuple[str, str, int], np.ndarray]


def lists_there() -> bool:
    return (TRACES / "openb").is_dir() and (TRACES / "fgd").is_dir()


def list_of(name: str) -> Path:
    """The list of pods of a workload."""
    return TRACES / "openb" / f"openb_pod_list_{name}.csv.gz"


def read_workload(name: str) -> tuple[OpenbWorkload, str]:
    """A workload and the path of its list of pods."""
    pods = str(list_of(name))
    nodes = read_openb_nodes(str(TRACES / "openb" / "openb_node_list_gpu_node.csv.gz"))
    return make_workload(nodes, read_openb_pods(pods)), pods


def sequences() -> str:
    """The recorded orders of the default list."""
    return str(TRACES / "openb" / "openb_default_sequences.npz")


def read_curves(kind: str) -> Curves:
    """Published curves, `allo` or `frag`, by workload, policy and seed; 131 values, nan where there is none."""
    found: Curves = {}
    with gzip.open(TRACES / "fgd" / f"analysis_{kind}_discrete.csv.gz", "rt") as stream:
        for row in csv.DictReader(stream):
            values = [float(row[str(percent)] or "nan") for percent in range(131)]
            policy = POLICIES[_PUBLISHED_NAMES.index(row["sc_policy"])]
            found[row["workload"].removeprefix("openb_pod_list_"), policy, int(row["seed"])] = np.array(values)
    return found


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest, over the points that both have."""
    return float(np.nanmax(np.abs(ours - theirs)))


def behind_fgd(steer: np.ndarray, fgd: np.ndarray) -> tuple[float, int]:
    """How far the curve of steer is below that of FGD at most, 0 if nowhere, and at how many percent arrived."""
    below = np.maximum(np.nan_to_num(fgd - steer), 0)
    return float(below.max()), int(below.argmax())


def measure() -> tuple[dict[str, Any], list[str]]:
    """Figures for the JSON, and what is not as published."""
    allocated, fragmented = read_curves("allo"), read_curves("frag")
    figures: dict[str, Any] = {}
    wrong: list[str] = []
    for name in (*WORKLOADS, *(further for further in FURTHER_WORKLOADS if list_of(further).exists())):
        workload, path = read_workload(name)
        outcomes, pods_per_s = run(workload, list(POLICIES), SEEDS, None)
        for o in outcomes:
            if o.policy in EXACT:
                key = (name, o.policy, o.seed)
                pairs = ((o.allocated_curve, allocated[key]), (o.fragmentation_curve, fragmented[key]))
                worst = max(difference(ours, theirs) for ours, theirs in pairs)
                if worst > TOLERANCE:
                    wrong.append(f"{name}, {o.policy}, seed {o.seed}: a point is {worst:.3f} away")
            if (name, o.seed) == ("default", 42) and o.policy in END_STATES:
                state = (o.failed_pods, o.allocated_gpu_milli, o.allocated_cpu_milli, o.gpus_touched)
                if (*state, round(o.fragmentation_milli, 1)) != END_STATES[o.policy]:
                    wrong.append(f"end state of {o.policy}: {state}, {o.fragmentation_milli:.1f}")
        behind, behind_at = behind_fgd(mean_curves(outcomes, "steer")[0], mean_curves(outcomes, "fgd")[0])
        if behind > STEER_TOLERANCE:
            wrong.append(f"{name}: steer is {behind:.3f} below FGD when {behind_at} % have arrived")
        known = published(path)
        for policy in POLICIES:
            at = mean_curves(outcomes, policy)[0]
            figures[f"{name}_{policy}"] = {
                **{f"allocated_percent_at_{percent}": round(float(at[percent]), 3) for percent in (90, 100, 130)},
                "published_at_100": known.get(policy),
                "placements_per_s": round(pods_per_s[policy]),
            }
        figures[f"{name}_steer"] |= {"most_below_fgd": round(behind, 3), "most_below_fgd_at_percent": behind_at}
    return figures | _recorded(wrong), wrong


def _recorded(wrong: list[str]) -> dict[str, Any]:
    """The generator gives the recorded orders."""
    workload, _ = read_workload("default")
    for seed in SEEDS:
        pairs = zip(arrivals_of(workload, seed), recorded_arrivals(workload, sequences(), seed), strict=True)
        if not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
            wrong.append(f"arrivals of seed {seed} differ from the recorded ones")
    return {"seeds": list(SEEDS), "placements_per_s_target": PLACEMENTS_PER_S_TARGET}


def table(figures: dict[str, Any]) -> str:
    """One line a workload and policy."""
    lines = [f"{'':<24}{'90 %':>8}{'100 %':>8}{'130 %':>8}{'published':>11}{'placements/s':>14}"]
    for name, row in figures.items():
        if isinstance(row, dict):
            values = "".join(f"{row[f'allocated_percent_at_{percent}']:>8.2f}" for percent in (90, 100, 130))
            beside = "-" if row["published_at_100"] is None else f"{row['published_at_100']:.2f}"
            lines.append(f"{name:<24}{values}{beside:>11}{row['placements_per_s']:>14,}")
    return "\n".join(lines)


def main() -> int:
    """0 when everything is as published, or the lists are absent."""
    if not lists_there():
        print(f"no lists in {TRACES}: set PENSTOCK_TRACES; docs/simulator.md says where they are found")
        return 0
    figures, wrong = measure()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(figures | {"not_as_published": wrong}, indent=2) + "\n")
    print(table(figures))
    print("\n".join(wrong) or "all curves and end states are as published")
    print(f"written to {OUT}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
