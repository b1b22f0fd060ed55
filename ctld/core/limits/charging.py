"""Charges a job's allocation from its start to its end: to its association, and to the budgets of its accounts."""

from ctld.core.limits import budgets
from ctld.core.queue import associations
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState


def begin(state: ClusterState, job: Job, now_us: int) -> None:
    """Starts charging a job for the allocation that it has got."""
    if state.shares.in_partition or not job.assoc_id:  # it may have started in another partition of its list
        associations.note(state, job, now_us)
    if state.limits.budgets.books:
        budgets.begin(state, job, now_us)
    if state.priorities is None:
        return
    assoc, rate = associations.of(state, job, now_us), associations.charge_of(state, job)
    state.shares.begin(assoc, rate, now_us)
    state.limits.charged[job.job_id] = (assoc.assoc_id, rate)
    state.outputs.dirty_usage[assoc.assoc_id] = None


def end(state: ClusterState, job: Job, end_at_us: int) -> None:
    """Ends the charging of a job that has released its allocation."""
    if state.limits.budgets.books:
        budgets.end(state, job, end_at_us)
    found = state.limits.charged.pop(job.job_id, None)
    if found is None:
        return
    assoc_id, rate = found
    state.shares.end(state.shares.by_id[assoc_id], rate, max(end_at_us, job.start_at_us), state.now_us)
    state.outputs.dirty_usage[assoc_id] = None
