"""Predicts run times, and orders the queue by them (PenstockBackfillPredictor, PenstockBackfillOrder).

Users request far more time than their jobs take. The prediction of a job is the mean run time of its user's last two
jobs with an equal request (limit, nodes, tasks, CPUs, GRES); if there are fewer, of the user's last two jobs; if there
are fewer, the time limit; and never more than the limit. With PenstockBackfillPredictor=none it is the time limit.

It is computed when the job gets its rows, and kept until the request changes: two pending jobs do not swap positions
because a third has ended. It only affects the order. The planner uses time limits, so a prediction that was too short
delays no planned start and needs no correction, and no job is ended by it.

Order `aged` (priority/basic): within a PriorityTier, a job's rank is its submit time plus its handicap, AGED_FACTOR
times its prediction, AGED_MAX_S at most. So a short job overtakes long ones that have not waited much, but never one
that was submitted AGED_MAX_S earlier. Nice values count in seconds. A priority set by an administrator is kept: with
3,000,000,000 and more such a job precedes all others of the tier, with a small number it follows all. The same as order
AGED of the replay (_fastsched/replay_contract.py), where it was tuned.
"""

from ctld.core.records.job import Job
from ctld.core.state.histories import HistoryKind
from ctld.core.state.state import ClusterState
from penstock.values.states import END_STATES

US = 1_000_000
AGED_FACTOR = 5
AGED_MAX_S = 4 * 86_400
#: Of a rank, the part below the tier.
PLACES = 1 << 32

#: End states from which the run time of such a job cannot be learned.
CUT_SHORT = frozenset({"NODE_FAIL", "PREEMPTED", "REQUEUED", "BOOT_FAIL"})


def learn(state: ClusterState, job: Job) -> None:
    """Learns from an ended job that had an allocation."""
    if not state.scheduling.policy.predict or job.state.name in CUT_SHORT or not job.start_at_us:
        return
    run_s = max(0, job.end_at_us - job.start_at_us - job.suspended_us) // US
    state.histories.learn((job.user_id,), run_s)
    state.histories.learn(_kind(job), run_s)


def restore(state: ClusterState) -> None:
    """Learns from the loaded ended jobs, after a start."""
    ended = [job for job in state.jobs.others() if job.state in END_STATES]
    for job in sorted(ended, key=lambda job: (job.end_at_us, job.job_id)):
        learn(state, job)


def expected_s(state: ClusterState, job: Job, limit_s: int) -> int:
    """Returns the predicted run time of a pending job, 1 s to `limit_s`."""
    if not (state.scheduling.policy.predict and state.histories):
        return limit_s
    mean_s = state.histories.mean_s(_kind(job))
    if mean_s is None:
        mean_s = state.histories.mean_s((job.user_id,))
    return limit_s if mean_s is None else max(1, min(limit_s, mean_s))


def aged(state: ClusterState, job: Job, ranks: list[int | None]) -> list[int | None]:
    """Returns the ranks of a job's rows (priority.ranks) in order `aged`: the same tiers, with this order inside them."""
    if state.scheduling.policy.order != "aged" or state.priorities is not None or job.request.priority is not None:
        return ranks
    found: list[int | None] = []
    for row, rank in zip(state.pending.rows_of(job.job_id), ranks, strict=True):
        handicap_s = min(AGED_MAX_S, AGED_FACTOR * int(state.pending.expected_s[row]))
        place_s = min(PLACES - 1, max(0, job.submit_at_us // US + handicap_s + job.request.nice))
        found.append(None if rank is None else rank // PLACES * PLACES + PLACES - 1 - place_s)
    return found


def _kind(job: Job) -> HistoryKind:
    """Returns the class of jobs with equal requests."""
    asked = job.request
    return (
        job.user_id, asked.time_limit_s, asked.nodes_min, asked.ntasks, asked.cpus_per_task, asked.gres_per_node,
    )  # fmt: skip
