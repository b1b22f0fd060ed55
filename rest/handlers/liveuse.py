"""What running jobs use, for a table of them: one answer for the rows in sight.

    GET /penstock/v1/jobs/use?jobs=12,14_3

What GPUs do is known from the heartbeats of their nodes. CPU time and memory are asked of the nodes of running steps, which
answer the job's user and operators; of a job of which not all can be had in time, they are null: a part would look like a whole.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cli.base.document import Json
from cli.base.format import DisplayClock
from cli.base.jobids import wire_id
from cli.listings.efficiency import Use, use_of
from cli.listings.jobefficiency import add_figures
from cli.listings.livesteps import LiveBounds, all_answers
from cli.listings.sacct_fields import RecordView
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply, ListRecordsRequest
from penstock.v1.controller_pb2 import GpuReadingInfo, JobFilter, JobInfo, ListGpuReadingsRequest, ListJobsRequest
from penstock.values.hostlist import as_lists, expand
from penstock.values.jobid import EXTERN_STEP, format_job
from rest.asking import ThreadClient, in_thread
from rest.calling import RestCall, bad_query
from rest.contract.parse import CONVERSION
from rest.handlers.jobs import job_path
from rest.limits import ASKED_JOBS_MAX, ASKED_JOBS_NODES_MAX, ASKED_JOBS_S, ASKED_STEP_S

#: Members of a job, and their types.
USE: Final = {
    "job_id": "integer", "cpu_used_s": "number?", "cpu_percent": "number?", "memory_used_bytes": "integer?",
    "gpus": "integer", "gpu_percent": "number?", "gpu_memory_used_bytes": "integer?", "gpu_power_w": "integer?",
}  # fmt: skip
_RUNNING: Final = frozenset(("RUNNING", "SUSPENDED"))


async def use(call: RestCall) -> Json:
    """What each of the jobs (`jobs`) uses; those that do not run are left out."""
    jobs = await _running(call)
    gpus = await _gpus(call, [job for job in jobs if "gres/gpu" in job.tres_alloc])
    clock = DisplayClock(call.now_us)
    found = await in_thread(call, lambda client: _measured(client, jobs, clock)) if jobs else {}
    rows = [_row(job.job_id, found.get(job.job_id), gpus.get(job.job_id, ())) for job in jobs]
    call.tag.vary(json.dumps(rows))  # nodes have answered, too
    return {"jobs": rows}


async def _running(call: RestCall) -> list[JobRecord]:
    """The records of the jobs that are asked for and run. Raises RestError."""
    texts = list(dict.fromkeys(call.words("jobs")))
    if not texts or len(texts) > ASKED_JOBS_MAX:
        raise bad_query("jobs", call.query.get("jobs", ""), CONVERSION)
    found: list[JobRecord] = []
    page: ListRecordsReply
    async for page in call.pages("ListRecords", ListRecordsRequest(ids=[wire_id(job_path(text)) for text in texts])):
        found += [one for one in page.records if one.state in _RUNNING]
        if len(found) > ASKED_JOBS_MAX:  # the number of an array stands for all of its tasks
            call.warn(f"more than {ASKED_JOBS_MAX} jobs run; only the first are here")
            break
    return found[:ASKED_JOBS_MAX]


async def _gpus(call: RestCall, jobs: Sequence[JobRecord]) -> Mapping[int, list[GpuReadingInfo]]:
    """What the GPUs of each job do, as far as it is known: nothing of MIG instances, and nothing to a user who may see no
    nodes (PrivateData)."""
    nodes = sorted({node for job in jobs for node in expand(job.node_list)})
    if not nodes:
        return {}
    reply = await call.call("ListGpuReadings", ListGpuReadingsRequest(names=as_lists(nodes)))
    readings = {one.uuid: one for one in reply.readings}
    if not readings:
        return {}
    found: dict[int, list[GpuReadingInfo]] = {job.job_id: [] for job in jobs}
    which = JobFilter(ids=[_named(job) for job in jobs])
    async for page in call.pages("ListJobs", ListJobsRequest(filter=which, detail=True)):
        for one in page.jobs:
            if one.job_id in found:
                found[one.job_id] = [readings[uuid] for uuid in _gpus_of(one) if uuid in readings]
    return found


def _named(job: JobRecord) -> str:
    """The job alone: the number of an array's first task is that of all of them."""
    return format_job(job.job_id, job.array_job_id, job.array_task_id if job.HasField("array_task_id") else None)


def _gpus_of(job: JobInfo) -> Iterable[str]:
    """The UUIDs of the GPUs that a job has, whole or in part."""
    return dict.fromkeys(uuid for place in job.allocation for held in place.gres for uuid in held.uuid)


def _measured(client: ThreadClient, jobs: Iterable[JobRecord], clock: DisplayClock) -> Mapping[int, Use]:
    """What jobs have used up to now; those of which not all nodes have answered in time are missing."""
    until_s = time.monotonic() + ASKED_JOBS_S
    nodes_left = ASKED_JOBS_NODES_MAX
    asked: list[JobRecord] = []
    for job in jobs:
        nodes = sum(step.nodes_alloc for step in job.steps if _is_asked(step.state, step.step_id))
        if 0 < nodes <= nodes_left:
            nodes_left -= nodes
            asked.append(job)
    open_steps = Counter(job.job_id for job in asked for step in job.steps if _is_asked(step.state, step.step_id))
    bounds = LiveBounds(ASKED_JOBS_NODES_MAX, ASKED_JOBS_NODES_MAX, ASKED_STEP_S)
    for one in all_answers(client, asked, "usage", lambda sentence: None, bounds):
        if not one.refusal and not one.missing:
            add_figures(one)
            open_steps[one.job.job_id] -= 1
        if time.monotonic() > until_s:
            break
    view = RecordView(clock, cluster=client.cluster.cluster_name)
    return {job.job_id: use_of(job, view) for job in asked if open_steps[job.job_id] == 0}


def _is_asked(state: str, step_id: int) -> bool:
    return state in _RUNNING and step_id != EXTERN_STEP


class _Gpus(NamedTuple):
    """Figures of some GPUs, without those that a device does not tell."""

    percent: list[int]
    memory_mb: list[int]
    power_w: list[int]


def _row(job_id: int, used: Use | None, gpus: Sequence[GpuReadingInfo]) -> Json:
    known = _Gpus(
        [one.utilization_percent for one in gpus if one.HasField("utilization_percent")],
        [one.memory_used_mb for one in gpus if one.HasField("memory_used_mb")],
        [one.power_w for one in gpus if one.HasField("power_w")],
    )
    return {
        "job_id": job_id,
        "cpu_used_s": None if used is None else used.cpu_us / 1_000_000,
        "cpu_percent": None if used is None or not used.core_s else used.cpu_us / 10_000 / used.core_s,
        "memory_used_bytes": None if used is None else used.memory_kb * 1024,
        "gpus": len(gpus),
        "gpu_percent": sum(known.percent) / len(known.percent) if known.percent else None,
        "gpu_memory_used_bytes": sum(known.memory_mb) << 20 if known.memory_mb else None,
        "gpu_power_w": sum(known.power_w) if known.power_w else None,
    }
