"""Bounds the wait of every job by a multiple of its wait under EASY, and the price of a policy against EASY.

Orders by run time make long jobs wait. With a bound of N no job waits longer than N times its wait under EASY, where waits
below a day count as a day. The jobs that would are made urgent (noderun_contract.py, rule 8), and the whole run is repeated
until there is none. Where a job is urgent already, those that waited at the same time become urgent too. The set only
grows, and with all jobs urgent the run is EASY's, so that this ends.

It needs the waits of the whole log under EASY. So it is no policy that a controller could follow: it says what a bound costs
on this log, and which part of a policy's gain does not depend on starving a few jobs.
"""

import numpy as np
from numpy.typing import NDArray

from _fastsched import BACKFILLS, NODE_POLICIES, ORDERS, NodeRun, ReplayPolicy, RunJobs, RunNodes, run_on_nodes
from penstock.values.errors import BadValue
from sim.metrics import STARVED_S, Array

#: A wait below it counts as this long: a job that EASY starts at once may wait under any bound.
FLOOR_S = 86_400
#: Repetitions, before all jobs become urgent.
ROUNDS_MAX = 200
#: The orders in which urgent jobs stand by submission.
_ORDERS = {ORDERS[name] for name in ("arrival", "shortest", "smallest-area", "aged")}


def run_bounded(jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy, bound: int) -> tuple[NodeRun, str]:
    """The run, and what was done for the bound. Raises BadValue for a policy that cannot be bounded."""
    if policy.backfill != BACKFILLS["easy"] or not {policy.order, policy.candidates} <= _ORDERS:
        raise BadValue("--bound needs backfill easy and the orders arrival, shortest, smallest-area or aged")
    easy_s = run_on_nodes(jobs, nodes, NODE_POLICIES["easy"]).start_s - jobs.submit_s
    due_s = bound * np.maximum(easy_s, FLOOR_S)
    urgent = np.zeros(len(jobs.urgent), dtype=bool)
    rounds = 0
    while True:
        found = run_on_nodes(jobs._replace(urgent=urgent.astype(np.uint8)), nodes, policy)
        late = found.start_s - jobs.submit_s > due_s
        if not late.any():
            return found, f"bound {bound}: {int(urgent.sum()):,} of {len(urgent):,} jobs are urgent"
        rounds += 1
        urgent = urgent | (_around(jobs, found, late, urgent) if (late <= urgent).all() else late)
        if rounds >= ROUNDS_MAX:
            urgent[:] = True


def _around(jobs: RunJobs, found: NodeRun, late: NDArray[np.bool_], urgent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The jobs that waited while one of these did; where they are urgent already, within more and more days around."""
    near = late.copy()
    around_s = 0
    while (near <= urgent).all() and not urgent.all():
        for number in np.flatnonzero(late).tolist():
            begin_s, end_s = jobs.submit_s[number] - around_s, found.start_s[number] + around_s
            near |= (jobs.submit_s <= end_s) & (found.start_s >= begin_s)
        around_s = 2 * around_s + FLOOR_S
    return near


def price(wait_s: Array, easy_wait_s: Array, area: NDArray[np.float64]) -> str:
    """What large and unlucky jobs pay for a policy, against EASY on the same machine."""
    whole = max(float(area.sum()), 1.0)
    means = [float((column * area).sum()) / whole for column in (wait_s, easy_wait_s)]
    starved = [int((column > STARVED_S).sum()) for column in (wait_s, easy_wait_s)]
    return (
        f"against easy: area-weighted wait {means[0]:,.0f} s instead of {means[1]:,.0f}, starved jobs {starved[0]:,} "
        f"instead of {starved[1]:,}, a job's wait up to {over_easy(wait_s, easy_wait_s):.1f} times as long"
    )


def over_easy(wait_s: Array, easy_wait_s: Array) -> float:
    """The largest quotient of a job's wait and its wait under EASY, which counts as a day at least."""
    return float((wait_s / np.maximum(easy_wait_s, FLOOR_S)).max(initial=0.0))
