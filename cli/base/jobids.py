"""Helpers about jobs that several commands share."""

import os
from typing import TYPE_CHECKING

from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobid import JobSelector, format_sluid, format_step

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.v1.accounting_pb2 import JobRecord


def selector_text(selector: JobSelector) -> str:
    """A job, tasks of an array or a component, as requests carry it; a step is not part of it."""
    if selector.submitted_s is not None:
        return format_sluid(selector.submitted_s * 1_000_000, selector.job_id)
    if selector.het_offset is not None:
        return f"{selector.job_id}+{selector.het_offset}"
    if selector.tasks is None:
        return str(selector.job_id)
    if len(selector.tasks) == 1:
        return f"{selector.job_id}_{selector.tasks.first()}"
    return f"{selector.job_id}_[{selector.tasks.format()}]"


def is_known(client: "Client", text: str, ended: bool = False) -> bool:
    """Whether the controller knows a job; `ended`: also one that has ended. With a SLUID one asks: the id in it may be
    another job's.
    """
    from penstock.v1.controller_pb2 import JobFilter, ListJobsRequest

    return any(
        page.jobs for page in client.stream("ListJobs", ListJobsRequest(filter=JobFilter(ids=[text]), all_states=ended))
    )


def component_text(job: "JobInfo | JobRecord") -> str:
    """`12+1` for a component of a heterogeneous job, else ""."""
    return f"{job.het_job_id}+{job.het_offset}" if job.het_job_id else ""


#: Slurm's names of layouts, by the words of --distribution.
_LAYOUT = {
    "block": "Block",
    "cyclic": "Cyclic",
    "plane": "Plane",
    "arbitrary": "Arbitrary",
    "fcyclic": "CFull",
    "*": "",
}


def wire_id(selector: JobSelector) -> str:
    """A selector as requests carry it, with its step."""
    step = "" if selector.step_id is None else f".{format_step(selector.step_id)}"
    return selector_text(selector) + step


def start_at(job: JobInfo) -> int:
    """The start time, or the expected one, else the begin time that the job waits for, else 0. For a job cancelled
    before it started it is the end time, as in Slurm.
    """
    return job.start_at_us or job.planned_start_at_us or begin_at(job) or job.end_at_us


def begin_at(job: JobInfo) -> int:
    """The begin time of a job that waits for it, else 0."""
    return job.request.begin_at_us if job.state == "PENDING" and job.reason == "BeginTime" else 0


def end_at(job: JobInfo) -> int:
    """The end, or that of its limit, counted from the planned start too; 0 = unknown."""
    start_us = job.planned_start_at_us or begin_at(job)
    if job.end_at_us or not start_us or job.time_limit_s < 0:
        return job.end_at_us
    return start_us + job.time_limit_s * 1_000_000


def own_node() -> str:
    """The name of this machine's node, from the environment or its host name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def layout_name(text: str) -> str:
    """`block:cyclic` as `BlockCyclic`; an omitted part is Block."""
    words = text.lower().partition(",")[0].partition("=")[0].split(":")
    return "".join(_LAYOUT.get(word, "") for word in words) or "Block"
