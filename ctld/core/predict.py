"""Predicted run times, and the queue's order that is made with them (PenstockBackfillPredictor, PenstockBackfillOrder).

Users ask for far more time than their jobs take. The prediction of a job is the mean run time of its user's last two jobs
that were asked for alike (limit, nodes, tasks, CPUs, GRES); until there are two, of the user's last two jobs; until there
are two, what is asked for; at most that in any case. With PenstockBackfillPredictor=none it is what is asked for.

It is made when the job gets its rows, and stays until the request changes: two jobs that wait do not change places because
a third has ended. Only orders are made with it. The planner goes by time limits, so a prediction that was too short delays
nobody's reservation and needs no correction, and no job is ended by it.

Order `aged` (priority/basic): within a PriorityTier, a job's place is its submit time plus its handicap, AGED_FACTOR times
its prediction, AGED_MAX_S at most. So a short job passes long ones that have not waited much, and nobody who was submitted
AGED_MAX_S later stands in front. Nice values count in seconds. A priority set by hand stays what it is: such a job stands
in front of all others of the tier with 3,000,000,000 and more, behind all with a small number. The same as order AGED of
the replay (_fastsched/replay_contract.py), where it was tuned.
"""

from ctld.core.histories import Kind
from ctld.core.model import Job
from ctld.core.state import ClusterState
from penstock.values.states import END_STATES

US = 1_000_000
AGED_FACTOR = 5
AGED_MAX_S = 4 * 86_400
#: Of a rank, the part below the tier.
PLACES = 1 << 32

#: Ends that say nothing of how long such a job takes.
CUT_SHORT = frozenset({"NODE_FAIL", "PREEMPTED", "REQUEUED", "BOOT_FAIL"})


def learn(state: ClusterState, job: Job) -> None:
    """A job has ended that held resources."""
    if not state.policy.predict or job.state.name in CUT_SHORT or not job.start_at_us:
        return
    run_s = max(0, job.end_at_us - job.start_at_us - job.suspended_us) // US
    state.histories.learn((job.user_id,), run_s)
    state.histories.learn(_kind(job), run_s)


def restore(state: ClusterState) -> None:
    """After a start: learn from the ended jobs that were loaded."""
    ended = [job for job in state.jobs.values() if job.state in END_STATES]
    for job in sorted(ended, key=lambda job: (job.end_at_us, job.job_id)):
        learn(state, job)


def expected_s(state: ClusterState, job: Job, limit_s: int) -> int:
    """The prediction for a pending job, 1 s to `limit_s`."""
    if not state.policy.predict:
        return limit_s
    mean_s = state.histories.mean_s(_kind(job))
    if mean_s is None:
        mean_s = state.histories.mean_s((job.user_id,))
    return limit_s if mean_s is None else max(1, min(limit_s, mean_s))


def aged(state: ClusterState, job: Job, ranks: list[int | None]) -> list[int | None]:
    """The ranks of a job's rows (priority.ranks) in order `aged`: the same tiers, places of our own in them."""
    if state.policy.order != "aged" or state.priorities is not None or job.request.priority is not None:
        return ranks
    found: list[int | None] = []
    for row, rank in zip(state.pending.rows_of(job.job_id), ranks, strict=True):
        handicap_s = min(AGED_MAX_S, AGED_FACTOR * int(state.pending.expected_s[row]))
        place_s = min(PLACES - 1, max(0, job.submit_at_us // US + handicap_s + job.request.nice))
        found.append(None if rank is None else rank // PLACES * PLACES + PLACES - 1 - place_s)
    return found


def _kind(job: Job) -> Kind:
    """What is asked for alike."""
    asked = job.request
    return (
        job.user_id, asked.time_limit_s, asked.nodes_min, asked.ntasks, asked.cpus_per_task, asked.gres_per_node,
    )  # fmt: skip
