"""Reading jobs: GET jobs, job/{job_id}, jobs/state."""

from collections.abc import AsyncIterator, Iterable, Sequence

from cli.base.document import Json, number, time_object
from cli.listings.jsonout import job_object
from penstock.v1.common_pb2 import GresIndices, NodeAllocation
from penstock.v1.controller_pb2 import JobFilter, JobInfo, ListJobsRequest, ListNodesRequest, NodeInfo
from penstock.values.allowance import Allowance
from penstock.values.cpusets import format_cpus, numbers_of
from penstock.values.errors import BadValue
from penstock.values.hostlist import as_lists
from penstock.values.jobid import JobSelector, format_job, parse_selector, parse_selectors
from penstock.values.refusals import TEXT, Code
from rest.answers import RestError
from rest.calling import RestCall, bad_path, bad_query
from rest.contract.parse import CONVERSION
from rest.listing import AnswerList, JobItem, listing

#: An index of a device above this one is not listed.
INDEX_MAX = 4096
UNCHANGED = "Slurm job information has not changed since update_time"


async def jobs(call: RestCall) -> Json:
    """GET jobs: those of the queue, and recently ended ones."""
    call.words("flags")
    if call.number("update_time") * 1_000_000 > call.now_us:
        call.warn(UNCHANGED, "_op_handler_jobs")
        return _answer(call, [])
    request = ListJobsRequest(all_states=True, detail=True, planned=True)
    found = await listing(call, "ListJobs", request, JobItem(lambda one: object_of(one, call)))
    return _answer(call, found)


async def job(call: RestCall) -> Json:
    """GET job/{job_id}: a job, all tasks of an array, or one (12_3)."""
    text = call.path["job_id"]
    job_path(text)
    call.words("flags")
    found = [object_of(one, call) async for one in listed(call, [text])]
    if not found:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], text)
    return _answer(call, found)


async def states(call: RestCall) -> Json:
    """GET jobs/state: ids and states alone."""
    text = call.query.get("job_id", "")
    try:
        wanted = parse_selectors(text) if text else []
    except BadValue as error:
        raise bad_query("job_id", text, CONVERSION) from error
    ids = [_selected(one) for one in wanted]
    request = ListJobsRequest(filter=JobFilter(ids=ids), all_states=True)
    return {"jobs": await listing(call, "ListJobs", request, lambda page: (_state(one, call) for one in page.jobs))}


async def resources(call: RestCall) -> Json:
    """GET resources/{job_id}: what a job has on each of its nodes. A job that has no nodes: a warning."""
    text = call.path["job_id"]
    job_path(text)
    found = [one async for one in listed(call, [text])]
    if not found:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], text)
    parts = [part for one in found for part in one.allocation]
    if not parts:
        call.warn(f"job {text} has no nodes")
        return {"nodes": []}
    names = list(dict.fromkeys(part.node for part in parts))
    nodes = {one.name: one for one in (await call.call("ListNodes", ListNodesRequest(names=as_lists(names)))).nodes}
    return {"nodes": [_layout(part, nodes.get(part.node, NodeInfo())) for part in parts]}


def _layout(part: NodeAllocation, node: NodeInfo) -> Json:
    """What a job has on one node. CPUs are numbered core by core, thread by thread."""
    threads = max(1, node.threads_per_core)
    cores = {cpu // threads for cpu in numbers_of(int.from_bytes(part.cpu_ids, "little"))}
    return {
        "node": part.node,
        "sockets_per_node": node.sockets,
        "cores_per_socket": node.cores_per_socket,
        "core_bitmap": format_cpus(sum(1 << core for core in cores)),
        "mem_alloc": part.mem_mb,
        "channel": number(None),
        "gres": [
            {"name": one.name, "type": one.type, "count": len(one.index), "index": _indices(one)} for one in part.gres
        ],
    }


def _indices(held: GresIndices) -> str:
    return format_cpus(sum(1 << index for index in set(held.index) if index < INDEX_MAX))


async def listed(call: RestCall, ids: Sequence[str] = ()) -> AsyncIterator[JobInfo]:
    """The jobs that the caller may see; all, or those of these ids."""
    request = ListJobsRequest(filter=JobFilter(ids=ids), all_states=True, detail=True, planned=True)
    async for page in call.pages("ListJobs", request):
        for one in page.jobs:
            yield one


def job_path(text: str, allowance: Allowance | None = None) -> JobSelector:
    """A job id of the path, or one of several (`allowance`: that of the request). Raises RestError."""
    try:
        selector = parse_selector(text, allowance)
    except BadValue as error:
        raise bad_path("job_id", text) from error
    if selector.step_id is not None:
        raise bad_path("job_id", text)
    return selector


def object_of(one: JobInfo, call: RestCall) -> Json:
    """A job. One that never had nodes has null in place of its resources."""
    made = job_object(one, call.cluster)
    return made if made["job_resources"] else made | {"job_resources": None}


def _state(one: JobInfo, call: RestCall) -> Json:
    made = job_object(one, call.cluster)
    if one.het_job_id:
        name = f"{one.het_job_id}+{one.het_offset}"
    else:
        name = format_job(one.job_id, one.array_job_id, one.array_task_id if one.HasField("array_task_id") else None)
    return {"job_id": name, "job_state": made["job_state"]}


def _answer(call: RestCall, found: AnswerList) -> Json:
    return {"jobs": found, "last_backfill": time_object(0), "last_update": time_object(call.now_us)}


def check_ids(ids: Iterable[str]) -> None:
    """Checks several job ids, within one allowance. Raises RestError."""
    allowance = Allowance()
    for one in ids:
        job_path(one, allowance)


def _selected(one: JobSelector) -> str:
    tasks = f"_[{one.tasks.format()}]" if one.tasks is not None else ""
    return f"{one.job_id}{tasks}" + (f"+{one.het_offset}" if one.het_offset is not None else "")
