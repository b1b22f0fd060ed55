"""Decides which pending jobs gain age priority: GrpJobsAccrue, MaxJobsAccrue, and those of a QOS.

A job ages while holds, dependencies and begin times let it start. Jobs beyond a limit keep the age of 0 until one of
the others has started or is held; they are checked when priorities are calculated, lowest job id first, and age from
then on. The pending tasks of an array are one record with one age: it ages when one of its tasks may, and counts for as
many as the limit allows.

Also here: MinPrioThreshold, the priority below which no nodes are reserved for a job (it starts only where it fits at
once).
"""

from ctld.core.jobs.arrays import weight
from ctld.core.limits.checks import used
from ctld.core.limits.ledger import US
from ctld.core.limits.rules import rules_of
from ctld.core.queue import resolve_association
from ctld.core.queue.priority import rank
from ctld.core.records.job import Job
from ctld.core.state.books import LimitLedger
from ctld.core.state.priority_columns import NEVER_S
from ctld.core.state.state import ClusterState
from penstock.values.limits import NO_LIMIT
from penstock.values.states import Hold

_PRIORITY_MASK = (1 << 32) - 1


def update_age(state: ClusterState, job: Job) -> None:
    """Decides whether a refreshed pending job ages."""
    ledger = state.limits.ledger
    assert ledger is not None
    job_id = job.job_id
    if not job.eligible_at_us or job.hold is not Hold.NO or job_id in state.dependencies.waiting_for:
        if ledger.accruing.pop(job_id, None) is not None:
            state.limits.due[job_id] = None
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
    state.limits.due[job_id] = None


def unaged(ledger: LimitLedger) -> list[int]:
    """Returns the jobs that would age if their limit allowed it, lowest id first."""
    return sorted(job_id for job_id, since_s in ledger.aging.items() if since_s == NEVER_S)


def keeps_nodes(state: ClusterState, job: Job) -> None:
    """Tells the planner whether to reserve nodes for a ready job."""
    ledger = state.limits.ledger
    assert ledger is not None
    threshold = threshold_of(state, job)
    if threshold == NO_LIMIT:
        if ledger.thresholds and job.job_id in ledger.thresholds:
            del ledger.thresholds[job.job_id]
            for row in state.pending.rows_of(job.job_id):
                state.pending.table.reserve[row] = resolve_association.reserves(state, job)
        return
    ledger.thresholds[job.job_id], own = None, resolve_association.reserves(state, job)
    for row in state.pending.rows_of(job.job_id):
        number = rank(state, job, state.partition_list[state.pending.partition[row]]) & _PRIORITY_MASK
        state.pending.table.reserve[row] = own and number >= threshold


def threshold_of(state: ClusterState, job: Job) -> int:
    """Returns MinPrioThreshold: of the QOS in their order, else of the nearest association; -1 = none."""
    return rules_of(state, job, job.request.partitions[0]).min_priority
