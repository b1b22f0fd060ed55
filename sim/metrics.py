"""The figures of one run of a schedule, each as defined in its publication.

With s = submit, b = begin, e = end, r = e - b, w = b - s, p = processors of a job, P = processors of the machine:

    wait                w: mean, median, p95, p99, max; quantiles by linear interpolation
    bounded slowdown    max(1, (w + r) / max(r, tau)); tau = 10 s   (Feitelson and Rudolph 1998); mean, p95, and the root
                        of the mean square (rms), which weights the tail
    flow                mean of w + r; weighted by area: sum((w + r) p r) / sum(p r)
    area-weighted wait  sum(w p r) / sum(p r): weighted towards big jobs
    utilisation         sum(p r) / (P (max e - min s)); for each TRES with its own amounts and total
    steady utilisation  the same between 10 % and 90 % of the time from min s to max e: without ramp-up and drain
    makespan            max e - min s
    Jain                (sum x)^2 / (n sum x^2), x = the mean bounded slowdown of each user (Jain, Chiu, Hawe 1984)
    starvation          jobs with w > 48 h
    goodput             sum of r of the runs that completed / sum of all r, with those that were preempted or requeued

This module does not depend on how the schedule was made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TAU_S = 10
STARVED_S = 172_800
STEADY_FROM, STEADY_UNTIL = 0.1, 0.9

Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The input of the figures. The columns have one row per job."""

    submit_s: Array
    start_s: Array
    end_s: Array
    procs: Array
    user: Array
    tres: Mapping[str, tuple[Array, int]]  # name -> amount of each job, amount of the whole machine
    preemptions: int = 0
    lost_area: int = 0  # processor seconds of runs that did not complete


def measure(schedule: Schedule, tau_s: int = TAU_S) -> dict[str, float]:
    """Name -> figure. Units are in the names; a workload without jobs gives {}."""
    if not len(schedule.submit_s):
        return {}
    wait_s = schedule.start_s - schedule.submit_s
    run_s = schedule.end_s - schedule.start_s
    area = (schedule.procs * run_s).astype(np.float64)
    flow_s = wait_s + run_s
    slowdown = bounded_slowdown(wait_s, run_s, tau_s)
    whole = area.sum()
    figures = {
        "wait_mean_s": float(wait_s.mean()),
        **{f"wait_{name}_s": float(np.quantile(wait_s, q)) for name, q in QUANTILES.items()},
        "wait_max_s": float(wait_s.max()),
        "bsld_mean": float(slowdown.mean()),
        "bsld_p95": float(np.quantile(slowdown, 0.95)),
        "bsld_rms": float(np.sqrt((slowdown**2).mean())),
        "flow_mean_s": float(flow_s.mean()),
        "flow_area_s": float((flow_s * area).sum() / whole) if whole else 0.0,
        "wait_area_s": float((wait_s * area).sum() / whole) if whole else 0.0,
        "makespan_s": float(schedule.end_s.max() - schedule.submit_s.min()),
        "jain_user_bsld": jain(means_by(schedule.user, slowdown)),
        "starved_jobs": float((wait_s > STARVED_S).sum()),
        "starved_share": float((wait_s > STARVED_S).mean()),
        "preemptions": float(schedule.preemptions),
        "goodput": float(whole / (whole + schedule.lost_area)) if whole else 1.0,
    }
    for name, (amount, total) in schedule.tres.items():
        figures[f"util_{name}"] = utilisation(schedule, amount, total, 0.0, 1.0)
        figures[f"util_steady_{name}"] = utilisation(schedule, amount, total, STEADY_FROM, STEADY_UNTIL)
    return figures


QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


def bounded_slowdown(wait_s: Array, run_s: Array, tau_s: int, clipped: bool = True) -> NDArray[np.float64]:
    """The bounded slowdown of each job. Unclipped it may be below 1, as in the cross-check with Batsim."""
    ratio = (wait_s + run_s) / np.maximum(run_s, tau_s)
    return np.maximum(ratio, 1.0) if clipped else ratio


def utilisation(schedule: Schedule, amount: Array, total: int, from_share: float, until_share: float) -> float:
    """Share of `total` in use between two points of the time from the first submission to the last end."""
    begin_s, end_s = float(schedule.submit_s.min()), float(schedule.end_s.max())
    low, high = begin_s + from_share * (end_s - begin_s), begin_s + until_share * (end_s - begin_s)
    inside = np.minimum(schedule.end_s, high) - np.maximum(schedule.start_s, low)
    used = float((np.maximum(inside, 0) * amount).sum())
    return used / (total * (high - low)) if total > 0 and high > low else 0.0


def means_by(group: Array, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each group that has members."""
    _, index, counts = np.unique(group, return_inverse=True, return_counts=True)
    sums = np.bincount(index, weights=values).astype(np.float64)
    return sums / counts.astype(np.float64)


def jain(values: NDArray[np.float64]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has all."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0
