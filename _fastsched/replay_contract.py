"""The contract of the replay: how a workload is run through a policy on identical processors.

The replay is the planner reduced to processors and time. It exists to compare policies on long workload logs and to
reproduce published results; it is a function of its arrays, like the planner.

A policy is a few choices. Each is a number from a table here, and a branch of one small function in replay.pyx and in
replay_reference.py: a new predictor or order is a number, a row in the table and the two branches (predict and learn for
predictors, with their history of a user; key_of for orders; corrected_s for corrections). Both are computed once, when a
job is submitted: two waiting jobs never swap places. Ageing needs no more than that, since time passes for all waiting jobs
alike: AGED adds a handicap to the submit time.

Deliberately absent: nodes, memory, GPUs, limits, partitions (the controller's own core simulates those), and
reservations under predicted run times: conservative backfill needs estimates that are never outlived.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: All sums of times and of processors stay below 2**63.
PROCESSORS_MAX = 2**31 - 1
SECONDS_MAX = 2.0**61
AGED_FACTOR_MAX, AGED_S_MAX = 1000, 10**9

# -- the order in which jobs are considered; ties go to the job submitted first
ARRIVAL = 0  # by submit time
SHORTEST = 1  # by estimate (the ranker's, as below)
SMALLEST = 2  # by processors
SMALLEST_AREA = 3  # by the same estimate x processors
AGED = 4  # by submit time + min(aged_max_s, aged_factor x the same estimate): none submitted aged_max_s later overtakes
ORDERS = {
    "arrival": ARRIVAL,
    "shortest": SHORTEST,
    "smallest": SMALLEST,
    "smallest-area": SMALLEST_AREA,
    "aged": AGED,
}

# -- which jobs may overtake a head that does not fit
NONE = 0  # nothing
EASY = 1  # whatever does not delay the head's reservation
CONSERVATIVE = 2  # every job has a reservation, none is delayed
BACKFILLS = {"none": NONE, "easy": EASY, "conservative": CONSERVATIVE}

# -- the source of the estimate of a job's run time, at its submission
GIVEN = 0  # the given estimates (the request, or the true run time)
LAST_TWO = 1  # mean of the user's last two run times, at most the request; the request until there are two
SIMILAR = 2  # the same of the user's last two with the same estimate and processors; until there are two as LAST_TWO
PREDICTORS = {"given": GIVEN, "last-two": LAST_TWO, "similar": SIMILAR}

# -- when passes run
EVENT = 0  # after each submission and each end; at equal times outlived estimates, submissions, ends
BATCH = 1  # once for each distinct time, after all that happened then: ends, outlived estimates, submissions
MODES = {"event": EVENT, "batch": BATCH}

#: Added to the first prediction when the job has outlived its estimate once, twice, ... (Tsafrir, Etsion, Feitelson
#: 2007). The steps are not added up.
CORRECTIONS_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)


class ReplayPolicy(NamedTuple):
    """One policy."""

    order: int = ARRIVAL  # which job is the head
    backfill: int = NONE
    candidates: int = ARRIVAL  # the order in which EASY tries the jobs behind the head
    predictor: int = GIVEN  # of the run times by which reservations are made
    ranker: int = GIVEN  # of the run times by which jobs are ordered
    submit_must_fit: bool = False  # mode EVENT: a submission causes a pass only if that job itself fits
    aged_factor: int = 5  # order AGED: an hour of estimate counts as so many hours of waiting
    aged_max_s: int = 345_600  # maximum by which a long job is put back: 4 days


#: The named policies.
POLICIES = {
    "fcfs": ReplayPolicy(),
    "sjf": ReplayPolicy(order=SHORTEST),
    "easy": ReplayPolicy(backfill=EASY, submit_must_fit=True),
    "easy-sjbf": ReplayPolicy(backfill=EASY, candidates=SHORTEST),
    "easypp": ReplayPolicy(backfill=EASY, candidates=SHORTEST, predictor=LAST_TWO, ranker=LAST_TWO),
    "conservative": ReplayPolicy(backfill=CONSERVATIVE),
    "learned": ReplayPolicy(order=AGED, backfill=EASY, candidates=SHORTEST, ranker=SIMILAR),
}


def refuse(
    submit_s: NDArray[np.int64],
    run_s: NDArray[np.int64],
    estimate_s: NDArray[np.int64],
    procs: NDArray[np.int32],
    user: NDArray[np.int32],
    processors: int,
    policy: ReplayPolicy,
    mode: int,
) -> None:
    """Raises ValueError, naming the first invalid job, for input that no replay can run."""
    tables = (ORDERS, BACKFILLS, ORDERS, PREDICTORS, PREDICTORS)
    if mode not in MODES.values() or any(n not in t.values() for n, t in zip(policy[:5], tables, strict=True)):
        raise ValueError(f"not a policy and mode: {policy}, {mode}")
    if not (0 <= policy.aged_factor <= AGED_FACTOR_MAX and 0 <= policy.aged_max_s <= AGED_S_MAX):
        raise ValueError(f"aged_factor is 0 to {AGED_FACTOR_MAX}, aged_max_s 0 to {AGED_S_MAX}: {policy}")
    if {column.shape for column in (run_s, estimate_s, procs, user)} != {submit_s.shape} or submit_s.ndim != 1:
        raise ValueError("columns of different lengths")
    if not 1 <= processors <= PROCESSORS_MAX:
        raise ValueError(f"{processors} processors: 1 to {PROCESSORS_MAX} are possible")
    rules = [
        (np.diff(submit_s, prepend=submit_s[:1]) < 0, "is submitted before the job in front of it"),
        (run_s < 0, "has a negative run time"),
        (estimate_s < 1, "has an estimate below 1 s"),
        ((procs < 1) | (procs > processors), f"does not fit into {processors} processors"),
        (user < 0, "has a negative user number"),
    ]
    if policy.backfill == CONSERVATIVE:
        rules.append((estimate_s < run_s, "outlives its estimate, which conservative backfill cannot plan"))
        if policy.predictor != GIVEN or policy.submit_must_fit:
            raise ValueError(
                "conservative backfill needs estimates that hold, and plans every submission: no predictor"
            )
    for broken, text in rules:
        if broken.any():
            raise ValueError(f"job number {int(broken.argmax())} {text}")
    if np.abs(submit_s).sum(dtype=float) + run_s.sum(dtype=float) + estimate_s.sum(dtype=float) > SECONDS_MAX:
        raise ValueError("times are too large to be added up")
