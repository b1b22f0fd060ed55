"""Holds pending jobs whose licenses or hierarchical resources a new configuration does not have, as Slurm 26.05 does.

It is an administrator's hold: an administrator took the license away, and knows whether the job is to wait for its return, to
be changed (`scontrol update job ... licenses=`) or to be cancelled. A job that is held already stays as it is, and one that is
released waits until there is such a license.
"""

from ctld.core.jobs import holds
from ctld.core.queue.defaults import check_licenses
from ctld.core.records.effects import Refused
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.states import Hold


def keep_back(state: ClusterState, job: Job, now_us: int) -> Job:
    """Holds a pending job whose licenses would be refused today. Returns the job to be read: a row is replaced by a job."""
    if not job.request.licenses or job.hold is not Hold.NO:
        return job
    try:
        check_licenses(state, job.request.licenses)
    except Refused as refusal:
        job = state.jobs.own(job)
        holds.hold_for(job, "")
        state.record(now_us, job, "hold", f"Licenses: {refusal.detail}")
        state.touch(job)
    return job
