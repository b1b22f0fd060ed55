"""Small things about jobs that several commands share."""

import os
from typing import Any

from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobid import JobSelector, format_step


def selector_text(selector: JobSelector) -> str:
    """A job, tasks of an array or a component, as requests carry it; a step is not part of it."""
    if selector.het_offset is not None:
        return f"{selector.job_id}+{selector.het_offset}"
    if selector.tasks is None:
        return str(selector.job_id)
    if len(selector.tasks) == 1:
        return f"{selector.job_id}_{selector.tasks.first()}"
    return f"{selector.job_id}_[{selector.tasks.format()}]"


def component_text(job: Any) -> str:
    """`12+1` for a component of a heterogeneous job, else ""."""
    return f"{job.het_job_id}+{job.het_offset}" if job.het_job_id else ""


#: By the words of --distribution, as Slurm names layouts.
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
    """When it started or is expected to start, else the begin time that it waits for, else 0.

    A job that was cancelled before it started has for a start its end, as in Slurm.
    """
    return job.start_at_us or job.planned_start_at_us or begin_at(job) or job.end_at_us


def begin_at(job: JobInfo) -> int:
    """The begin time of a job that waits for it, else 0."""
    return job.request.begin_at_us if job.state == "PENDING" and job.reason == "BeginTime" else 0


def end_at(job: JobInfo) -> int:
    """When it ended or will by its limit, counted from the planned start too; 0 = nobody knows."""
    start_us = job.planned_start_at_us or begin_at(job)
    if job.end_at_us or not start_us or job.time_limit_s < 0:
        return job.end_at_us
    return start_us + job.time_limit_s * 1_000_000


def own_node() -> str:
    """The node that this machine is, as far as the environment or its name say."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def layout_name(text: str) -> str:
    """`block:cyclic` as `BlockCyclic`; what was not said is Block."""
    words = text.lower().partition(",")[0].partition("=")[0].split(":")
    return "".join(_LAYOUT.get(word, "") for word in words) or "Block"
