"""Changing jobs and nodes: kill, update, requeue; deletions of nodes, partitions and reservations; reconfigure.

The changes of an update are the keys of `scontrol update`, whose values the controller parses.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cli.base.document import Json, number
from cli.base.errnumbers import WORDS
from penstock.v1.controller_pb2 import (
    CancelJobsRequest,
    ControlJobsRequest,
    DeleteNodesRequest,
    DeletePartitionRequest,
    DeleteReservationRequest,
    JobFilter,
    JobResult,
    ReconfigureRequest,
    UpdateJobsRequest,
    UpdateNodesRequest,
)
from penstock.values.dates import format_date
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.signals import parse_signal
from rest.answers import RestError, number_of_update, slurm_number
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, INFINITE
from rest.handlers.jobs import check_ids, job_path

SIGKILL: Final = 9
#: Members of a job's description that an update takes, and the key of each.
_JOB_KEYS: Final = {
    "name": "jobname", "account": "account", "partition": "partition", "qos": "qos", "comment": "comment",
    "admin_comment": "admincomment", "extra": "extra", "wckey": "wckey", "priority": "priority", "nice": "nice",
    "dependency": "dependency", "constraints": "features", "prefer": "prefer", "batch_features": "batchfeatures",
    "reservation": "reservationname", "licenses": "licenses", "mail_user": "mailuser", "tasks": "numtasks",
    "cpus_per_task": "cpuspertask", "tasks_per_node": "taskspernode", "memory_per_node": "minmemorynode",
    "memory_per_cpu": "minmemorycpu", "minimum_cpus_per_node": "mincpusnode", "temporary_disk_per_node": "mintmpdisknode",
    "sockets_per_node": "reqsockets", "cores_per_socket": "reqcores", "threads_per_core": "reqthreads",
    "site_factor": "sitefactor", "network": "network", "standard_output": "stdout", "standard_error": "stderr",
    "standard_input": "stdin", "current_working_directory": "workdir", "time_minimum": "timemin",
    "delay_boot": "delayboot", "mcs_label": "mcslabel",
}  # fmt: skip
_NODE_KEYS: Final = {
    "comment": "comment", "extra": "extra", "features": "features", "features_act": "activefeatures", "gres": "gres",
    "reason": "reason", "weight": "weight", "address": "nodeaddr", "hostname": "nodehostname", "cpu_bind": "cpubind",
    "resume_after": "resumeafter", "state": "state",
}  # fmt: skip
_Form = Callable[[object], tuple[str, str]]
_JOB_FORMS: Final[Mapping[str, _Form]] = {
    "time_limit": lambda value: ("timelimit", "UNLIMITED" if value == INFINITE else str(value)),
    "minimum_nodes": lambda value: ("numnodes", str(value)),
    "nodes": lambda value: ("numnodes", str(value)),
    "required_nodes": lambda value: ("reqnodelist", _joined(value)),
    "excluded_nodes": lambda value: ("excnodelist", _joined(value)),
    "requeue": lambda value: ("requeue", str(int(bool(value)))),
    "contiguous": lambda value: ("contiguous", str(int(bool(value)))),
    "tres_per_node": lambda value: ("gres", str(value).replace("gres/", "").replace("gres:", "")),
    "begin_time": lambda value: ("starttime", _date(value)),
    "deadline": lambda value: ("deadline", _date(value)),
    "mail_type": lambda value: ("mailtype", _joined(value)),
}
_REQUEUES: Final = {
    "": ControlJobsRequest.REQUEUE, "Hold": ControlJobsRequest.REQUEUE_HOLD, "Incomplete": ControlJobsRequest.REQUEUE,
    "SpecialExit": ControlJobsRequest.REQUEUE_SPECIAL,
}  # fmt: skip


# ---- jobs


async def kill_job(call: RestCall) -> Json:
    """DELETE job/{job_id}."""
    text = call.path["job_id"]
    job_path(text)
    flags = call.words("flags")
    return await _kill(call, JobFilter(ids=[text]), call.query.get("signal", ""), flags)


async def kill_jobs(call: RestCall) -> Json:
    """DELETE jobs: those that pass all filters of the body. None of the filters: an error, never all jobs."""
    body = call.record()
    filters = JobFilter(
        ids=call.words_in("jobs"),
        users=_either(call.text_in("user_name"), call.text_in("user_id")),
        states=call.words_in("job_state"),
        nodes=call.words_in("nodes"),
    )
    for name, field in (
        ("account", filters.accounts), ("job_name", filters.names), ("partition", filters.partitions),
        ("qos", filters.qos), ("reservation", filters.reservations), ("wckey", filters.wckeys),
    ):  # fmt: skip
        if body.get(name):
            field.append(str(body[name]))
    if not filters.ListFields():
        raise RestError(422, 9000, "no filter: name the jobs, or a user, account, partition, ...", source="#")
    return await _kill(call, filters, call.text_in("signal"), call.words_in("flags"))


async def _kill(call: RestCall, filters: JobFilter, signal: str, flags: list[str]) -> Json:
    try:
        signal_no = parse_signal(signal) if signal else 0
    except BadValue as error:
        call.fail(str(error), source="slurm_kill_jobs()")
        return {"status": []}
    partial = {"BATCH_JOB", "FULL_STEPS_ONLY", "FULL_JOB"}.intersection(flags)
    request = CancelJobsRequest(
        filter=filters,
        signal=0 if signal_no == SIGKILL and not partial else signal_no,
        batch_only="BATCH_JOB" in flags,
        full="FULL_JOB" in flags,
        hurry="HURRY" in flags,
        cron="CRON_JOBS" in flags,
    )
    reply = await call.call("CancelJobs", request)
    return {"status": [_killed(one) for one in reply.results if one.code]}


def _killed(result: JobResult) -> Json:
    code = slurm_number(result.code)
    words = WORDS.get(code, result.text)
    job_id = int(result.id) if result.id.isdigit() else None
    return {
        "error": {"code": code, "string": words, "message": result.text},
        "step_id": result.id,
        "job_id": number(job_id),
        "federation": {"sibling": ""},
    }


async def update_job(call: RestCall) -> Json:
    """POST job/{job_id}: changes as those of scontrol; all or none of them. A hold or release is a change of its own."""
    text = call.path["job_id"]
    job_path(text)
    body = call.record()
    changes = _changes(call, _JOB_KEYS, _JOB_FORMS, {"hold", "job_id"})
    if not changes and "hold" not in body:
        raise RestError(422, 9000, "nothing to change", source="#")
    if changes and "hold" in body:
        raise RestError(
            422, 9000, "hold is a request of its own: send the other changes in another one", source="#/hold"
        )
    if changes:
        reply = await call.call("UpdateJobs", UpdateJobsRequest(ids=[text], changes=changes))
    else:
        action = ControlJobsRequest.HOLD if body["hold"] else ControlJobsRequest.RELEASE
        reply = await call.call("ControlJobs", ControlJobsRequest(ids=[text], action=action))
    for line in reply.user_messages:  # of the site's submit filter
        call.warn(line, "slurm_update_job()")
    _check_results(list(reply.results), number_of_update)
    return {"results": [_result(one, number_of_update) for one in reply.results] if len(reply.results) > 1 else None}


async def requeue_job(call: RestCall) -> Json:
    """GET job/{job_id}/requeue."""
    text = call.path["job_id"]
    job_path(text)
    return await _requeue(call, [text], [name for name in ("Incomplete", "Hold", "SpecialExit") if call.flag(name)])


async def requeue_jobs(call: RestCall) -> Json:
    """POST jobs/requeue."""
    ids = call.words_in("jobs")
    if not ids:
        raise RestError(422, 9200, "jobs is missing", source="#/jobs")
    check_ids(ids)
    return await _requeue(call, ids, call.words_in("flags"))


async def _requeue(call: RestCall, ids: list[str], flags: list[str]) -> Json:
    action = next((_REQUEUES[flag] for flag in ("SpecialExit", "Hold") if flag in flags), _REQUEUES[""])
    if "Incomplete" in flags:
        call.warn("Incomplete has no effect", "#/Incomplete")
    reply = await call.call("ControlJobs", ControlJobsRequest(ids=ids, action=action))
    _check_results(list(reply.results))
    return {"status": [_result(one) for one in reply.results]}


def _check_results(results: list[JobResult], number_of: Callable[[int], int] = slurm_number) -> None:
    """Raises RestError if none of them succeeded."""
    refused = [one for one in results if one.code]
    if refused and len(refused) == len(results):
        raise RestError(422, number_of(refused[0].code), refused[0].text, source=refused[0].id)


def _result(one: JobResult, number_of: Callable[[int], int] = slurm_number) -> Json:
    code = number_of(one.code) if one.code else 0
    job_id = int(one.id.partition("_")[0]) if one.id.partition("_")[0].isdigit() else 0
    error = WORDS.get(code, one.text) if code else "No error"
    return {"job_id": job_id, "step_id": one.id, "error": error, "error_code": code, "why": one.text}


# ---- nodes, partitions, reservations


async def update_node(call: RestCall) -> Json:
    """POST node/{node_name}."""
    return await _update_nodes(call, call.path["node_name"])


async def update_nodes(call: RestCall) -> Json:
    """POST nodes: those that the body names."""
    names = ",".join(call.words_in("name"))
    if not names:
        raise RestError(422, 9200, "name is missing", source="#/name")
    return await _update_nodes(call, names)


async def _update_nodes(call: RestCall, names: str) -> Json:
    try:
        expand(names)
    except BadValue as error:
        raise RestError(422, CONVERSION, str(error), source="#/name") from error
    changes = _changes(call, _NODE_KEYS, {}, {"name"})
    if not changes:
        raise RestError(422, 9000, "nothing to change", source="#")
    await call.call("UpdateNodes", UpdateNodesRequest(names=names, changes=changes))
    return {}


async def delete_node(call: RestCall) -> Json:
    """DELETE node/{node_name}: a dynamic one."""
    await call.call("DeleteNodes", DeleteNodesRequest(names=call.path["node_name"]))
    return {}


async def delete_partition(call: RestCall) -> Json:
    """DELETE partition/{partition_name}."""
    await call.call("DeletePartition", DeletePartitionRequest(name=call.path["partition_name"]))
    return {}


async def delete_reservation(call: RestCall) -> Json:
    """DELETE reservation/{reservation_name}."""
    await call.call("DeleteReservation", DeleteReservationRequest(name=call.path["reservation_name"]))
    return {}


async def reconfigure(call: RestCall) -> Json:
    """GET reconfigure: of administrators, as all of this in the controller's eyes."""
    reply = await call.call("Reconfigure", ReconfigureRequest())
    for text in reply.warnings:
        call.warn(text, "slurm_reconfigure()")
    return {}


def _changes(call: RestCall, keys: Mapping[str, str], forms: Mapping[str, _Form], other: set[str]) -> dict[str, str]:
    """The changes of the body, by key. Members that no key takes have no effect, and get a warning."""
    found: dict[str, str] = {}
    for name, value in call.record().items():
        if name in keys:
            found[keys[name]] = _joined(value)
        elif name in forms:
            key, text = forms[name](value)
            found[key] = text
        elif name not in other:
            call.warn(f"{name} has no effect here", f"#/{name}")
    return found


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _date(value: object) -> str:
    return format_date(value * 1_000_000) if isinstance(value, int) and value > 0 else str(value)


def _either(*texts: str) -> list[str]:
    return [text for text in texts if text]
