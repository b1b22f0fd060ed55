"""Which pending jobs get older: GrpJobsAccrue, MaxJobsAccrue, and those of a QOS.

A job ages while it could start as far as holds, dependencies and begin times go. Where a limit says how many jobs may, further
ones keep the age of 0 until one of the others has started or is held; they are looked at when priorities are calculated,
lowest job id first, and age from then on. The pending tasks of an array are one record with one age: it ages when one of
its tasks may, and counts for as many as there is room for.

Also here: MinPrioThreshold, the priority below which no nodes are kept for a job (it starts only where it fits at once).
"""

from ctld.core import standing
from ctld.core.arrays import weight
from ctld.core.ledger import US, Ledger
from ctld.core.limit_rules import rules_of
from ctld.core.limits import used
from ctld.core.model import Job
from ctld.core.priority import NEVER_S, rank
from ctld.core.state import ClusterState
from penstock.values.limits import NO_LIMIT
from penstock.values.states import Hold

_PRIORITY_MASK = (1 << 32) - 1


def look(state: ClusterState, job: Job) -> None:
    """A pending job is refreshed: does it age?"""
    ledger = state.ledger
    assert ledger is not None
    job_id = job.job_id
    if not job.eligible_at_us or job.hold is not Hold.NO or job_id in state.waiting_for:
        if ledger.accruing.pop(job_id, None) is not None:
            state.limits_due[job_id] = None
        return
    if job_id in ledger.accruing:
        return
    number = weight(job)
    for check in rules_of(state, job, job.request.partitions[0]).accrue:
        number = min(number, check.bound - used(state, check))
    if number <= 0:
        ledger.aging[job_id] = NEVER_S
        return
    if job_id in ledger.aging:
        ledger.aging[job_id] = state.now_us // US
    ledger.accruing[job_id] = number
    state.limits_due[job_id] = None


def unaged(ledger: Ledger) -> list[int]:
    """Jobs that would age if they might, lowest id first."""
    return sorted(job_id for job_id, since_s in ledger.aging.items() if since_s == NEVER_S)


def keeps_nodes(state: ClusterState, job: Job) -> None:
    """Tell the planner whether nodes are kept for a job that is ready."""
    ledger = state.ledger
    assert ledger is not None
    threshold = threshold_of(state, job)
    if threshold == NO_LIMIT:
        if ledger.thresholds and job.job_id in ledger.thresholds:
            del ledger.thresholds[job.job_id]
            for row in state.pending.rows_of(job.job_id):
                state.pending.table.reserve[row] = standing.reserves(state, job)
        return
    ledger.thresholds[job.job_id], own = None, standing.reserves(state, job)
    for row in state.pending.rows_of(job.job_id):
        number = rank(state, job, state.partition_list[state.pending.partition[row]]) & _PRIORITY_MASK
        state.pending.table.reserve[row] = own and number >= threshold


def threshold_of(state: ClusterState, job: Job) -> int:
    """MinPrioThreshold: of the QOS in their order, else of the nearest association; -1 = none."""
    return rules_of(state, job, job.request.partitions[0]).min_priority
