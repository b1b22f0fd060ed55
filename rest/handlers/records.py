"""What accounting has beside entities: records of jobs that change after their end, statistics, instances of a cloud."""

from collections.abc import Mapping
from typing import Final, cast

from cli.base.document import Json, time_object
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.v1.controller_pb2 import ListNodesRequest, NodeInfo
from penstock.v1.explain_pb2 import DiagnosticsReply, DiagnosticsRequest, RpcCount
from penstock.v1.governance_pb2 import ModifyRecordsReply, ModifyRecordsRequest
from penstock.values.errors import BadValue
from penstock.values.hostlist import as_lists, expand
from rest.answers import BAD_QUERY, RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, NO_MEMBER
from rest.handlers.accounts import NOTHING_FOUND
from rest.handlers.jobs import check_ids
from rest.handlers.members import at

#: Members of a job's record, and the key of `sacctmgr modify job` of each.
_KEYS: Final = {
    "comment.administrator": "admincomment", "comment.job": "comment", "comment.system": "systemcomment",
    "extra": "extra", "wckey": "newwckey",
}  # fmt: skip


async def update_job(call: RestCall) -> Json:
    """POST job/{job_id}."""
    return await _modify(call, [call.path["job_id"]], call.record(), "#")


async def update_jobs(call: RestCall) -> Json:
    """POST jobs: the same changes of several."""
    ids = call.words_in("job_id_list")
    if not ids:
        raise RestError(422, NO_MEMBER, "job_id_list is missing", source="#/job_id_list")
    record = call.record().get("job_rec")
    return await _modify(
        call, ids, cast("Mapping[str, object]", record) if isinstance(record, dict) else {}, "#/job_rec"
    )


async def _modify(call: RestCall, ids: list[str], record: Mapping[str, object], source: str) -> Json:
    check_ids(ids)
    changes = {key: str(value) for path, key in _KEYS.items() if (value := at(record, path)) is not None}
    code, signal = at(record, "derived_exit_code.return_code"), at(record, "derived_exit_code.signal.id")
    if code is not None or signal is not None:
        changes["derivedexitcode"] = f"{code or 0}:{signal or 0}"
    if at(record, "tres.allocated"):
        call.warn("tres has no effect here", f"{source}/tres")
    if not changes:
        raise RestError(422, BAD_QUERY, "nothing to change", source=source)
    request = ModifyRecordsRequest(which=ListRecordsRequest(ids=ids), changes=changes)
    reply: ModifyRecordsReply = await call.call("ModifyRecords", request)
    if not reply.records:
        call.warn(f"{NOTHING_FOUND}: job {', '.join(ids)}")
    return {"results": [str(one.job_id) for one in reply.records]}


async def diag(call: RestCall) -> Json:
    """GET diag: the calls that the controller has handled, and its roll-ups of usage: days and months are summed with the
    hours."""
    reply = await call.call("Diagnostics", DiagnosticsRequest())
    made = {
        "RPCs": [{"rpc": one.name, "count": one.count, "time": _times(one)} for one in reply.by_type],
        "users": [{"user": one.name, "count": one.count, "time": _times(one)} for one in reply.by_user],
        "time_start": time_object(reply.since_us),
        "rollups": dict.fromkeys(("hourly", "daily", "monthly"), _rollup(reply)),
    }
    return {"statistics": made}


def _rollup(reply: DiagnosticsReply) -> Json:
    r = reply.rollup
    return {
        "count": r.cycles,
        "last_run": reply.last_rollup_at_us // 1_000_000,
        "duration": {"last": r.last_us, "max": r.max_us, "time": r.total_us},
    }


def _times(one: RpcCount) -> Json:
    return {"average": one.total_us // max(1, one.count), "total": one.total_us}


async def instances(call: RestCall) -> Json:
    """GET instances, GET instance: machines of a cloud that are nodes now. None: the answer has no list."""
    wanted = {
        name: call.query[name].split(",") for name in ("extra", "instance_id", "instance_type") if call.query.get(name)
    }
    reply = await call.call("ListNodes", ListNodesRequest(names=as_lists(_nodes(call))))
    found = [
        _instance(one, call.cluster)
        for one in reply.nodes
        if (one.instance_id or one.instance_type) and all(getattr(one, name) in texts for name, texts in wanted.items())
    ]
    if not found:
        call.warn(f"{NOTHING_FOUND}: instance")
        return {}
    return {"instances": found}


def _nodes(call: RestCall) -> list[str]:
    text = call.query.get("node_list", "")
    try:
        return expand(text) if text else []
    except BadValue as error:
        raise RestError(422, CONVERSION, str(error), source="#/node_list") from error


def _instance(one: NodeInfo, cluster: str) -> Json:
    return {
        "cluster": cluster,
        "extra": one.extra,
        "instance_id": one.instance_id,
        "instance_type": one.instance_type,
        "node_name": one.name,
        "time": {"time_start": time_object(one.boot_at_us), "time_end": 0},
    }
