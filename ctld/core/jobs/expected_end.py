"""Computes when a running job's resources are expected to be free: the job's end as the planner sees it."""

from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.states import JobState, Suspend

US = 1_000_000
#: The planner treats an unlimited time limit as one year, as Slurm does. Without an end, a job that waits behind such a
#: job could never be planned, would reserve nothing, and would be overtaken forever.
UNLIMITED_S = 365 * 86_400


def time_limit_us(state: ClusterState, job: Job) -> int:
    """Returns the longest time that the job may run, OverTimeLimit included. Only for a job that has a limit."""
    partition = state.partitions.get(job.partition)
    over_s = (partition.config.over_time_limit_s if partition else 0) or state.config.over_time_limit_s
    return (job.time_limit_s + over_s) * US


def expected_end_s(state: ClusterState, job: Job) -> int:
    """The expected end, seconds since 1970, rounded up; 0 = any moment: the job is ending already."""
    if job.state is JobState.COMPLETING:
        return 0
    if job.preempt_end_at_us:
        return -(-job.preempt_end_at_us // US)
    if job.time_limit_s < 0 or job.suspended_by is Suspend.ADMIN:
        return max(job.start_at_us, job.suspended_at_us) // US + UNLIMITED_S
    return -(-max(limit_at_us(state, job), _after_others_us(state, job)) // US)


def limit_at_us(state: ClusterState, job: Job) -> int:
    """Returns when the job reaches its time limit if it runs, or is resumed, without another suspension. Only for a job
    with a limit.
    """
    return job.start_at_us + job.suspended_us + time_limit_us(state, job)


def _after_others_us(state: ClusterState, job: Job) -> int:
    """Returns the expected end of a suspended job: its remaining time after the end of its preemptor."""
    if job.suspended_by is Suspend.NO or job.state is not JobState.SUSPENDED:
        return 0
    left_us = limit_at_us(state, job) - job.suspended_at_us
    other = state.jobs.get(job.preemptor_id)
    if other is None or not other.start_at_us or other.time_limit_s < 0:
        return job.suspended_at_us + left_us
    return max(job.suspended_at_us, limit_at_us(state, other)) + left_us
