"""sacct --json: accounting records in the structure of Slurm's data_parser (see cli.listings.jsonout)."""

from collections.abc import Iterable, Mapping

from cli.base.document import Json, document, exit_object, minutes, number, time_object
from cli.base.format import DisplayClock, seconds_us, text_of
from cli.listings.sacct_fields import (
    RecordRow,
    RecordView,
    account_of,
    association_id,
    cpu_us,
    elapsed_s,
    end_us,
    exit_of,
    layout_of,
    planned_s,
    priority_of,
    state_of,
    suspended_us,
    wckey_of,
)
from cli.listings.stepusage import SIZES_KB, TRES_IN, TRES_OUT, K, recorded
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.common_pb2 import JobRequest
from penstock.values.hostlist import expand
from penstock.values.jobid import format_sluid, format_step
from penstock.values.nodesharing import exclusive_word, oversubscribe_word
from penstock.values.tres import parse_tres


def records_document(
    records: Iterable[JobRecord], cluster: str, now_us: int, assoc_ids: Mapping[tuple[str, str], int] | None = None
) -> Json:
    """sacct --json."""
    ids = assoc_ids or {}
    return document("jobs", [record_object(record, cluster, now_us, ids) for record in records], cluster)


def _sharing(request: JobRequest) -> Json:
    agreed = request.oversubscribe if request.HasField("oversubscribe") else None
    return {
        "exclusive": exclusive_word(
            request.exclusive_topo, request.exclusive_user, request.exclusive_mcs, request.exclusive
        ),
        "oversubscribe": oversubscribe_word(request.exclusive or request.exclusive_topo, agreed),
    }


def record_object(job: JobRecord, cluster: str, now_us: int, assoc_ids: Mapping[tuple[str, str], int]) -> Json:
    """One attempt of a job."""
    row = RecordRow(job, None)
    request = job.request
    task = job.array_task_id if job.HasField("array_task_id") else None
    where = job.cluster or cluster
    memory = parse_tres(job.tres_req).get("mem") if job.tres_req else None
    return {
        "account": account_of(job),
        "comment": {"administrator": job.admin_comment, "job": request.comment, "system": job.system_comment},
        "allocation_nodes": job.nodes_alloc,
        "block": "",
        "array": {
            "job_id": job.array_job_id,
            "limits": {"max": {"running": {"tasks": job.array_throttle}}},
            "task_id": number(task),
            "task": job.array_tasks,
        },
        "association": {
            "account": account_of(job),
            "cluster": where,
            "partition": "",
            "user": job.user_name,
            "id": association_id(assoc_ids, job),
        },
        "cluster": where,
        "constraints": request.features,
        "container": request.container,
        "derived_exit_code": exit_object(job.derived_exit),
        "time": _record_time(job, row, now_us)
        | {"planned": number(planned_s(row, RecordView(DisplayClock(now_us)))), "limit": minutes(job.time_limit_s)},
        "exit_code": exit_object(exit_of(row)),
        "extra": request.extra,
        "failed_node": job.failed_node,
        "flags": [],
        "group": job.group_name,
        "het": {"job_id": job.het_job_id, "job_offset": number(job.het_offset if job.het_job_id else None)},
        "job_id": job.job_id,
        "name": request.name,
        "licenses": request.licenses,
        **_sharing(request),
        "mcs": {"label": request.mcs_label},
        "nodes": job.node_list or "None assigned",
        "partition": job.partition,
        "hold": "",
        "priority": number(priority_of(job)),
        "qos": request.qos,
        "qosreq": request.qos,
        "required": {"CPUs": job.cpus_req, "memory_per_cpu": number(None), "memory_per_node": number(memory)},
        "kill_request_user": str(job.cancelled_by_uid) if job.cancelled_by_uid > 0 else "",
        "restart_cnt": job.attempt,
        "reservation": {"id": 0, "name": request.reservation, "requested": request.reservation},
        "script": "",
        "segment_size": request.segment,
        "sluid": format_sluid(job.submit_at_us, job.job_id),
        "stdin_expanded": text_of(job.std_in),
        "stdout_expanded": text_of(job.std_out),
        "stderr_expanded": text_of(job.std_err or job.std_out),
        "stdin": text_of(job.std_in),
        "stdout": text_of(job.std_out),
        "stderr": text_of(job.std_err or job.std_out),
        "state": {"current": [state_of(row)], "reason": job.reason or "None"},
        "steps": [_step_object(job, step, now_us) for step in job.steps],
        "submit_line": request.submit_line,
        "tres": {"allocated": _tres_list(job.tres_alloc), "requested": _tres_list(job.tres_req)},
        "user": job.user_name,
        "used_gres": ",".join(part for part in job.tres_alloc.split(",") if part.startswith("gres/")),
        "wckey": _wckey(job),
        "working_directory": text_of(request.work_dir),
    }


def _wckey(job: JobRecord) -> Json:
    key = wckey_of(job)
    return {"wckey": key.lstrip("*"), "flags": ["ASSIGNED_DEFAULT"] if key.startswith("*") else []}


def _record_time(job: JobRecord, row: RecordRow, now_us: int) -> Json:

    return {
        "elapsed": elapsed_s(row, RecordView(DisplayClock(now_us))),
        "eligible": seconds_us(job.eligible_at_us),
        "end": seconds_us(end_us(row)),
        "start": seconds_us(job.start_at_us),
        "submission": seconds_us(job.submit_at_us),
        "suspended": suspended_us(row, end_us(row) or now_us) // 1_000_000,
        "system": _cpu(cpu_us(row, user=False, system=True)),
        "total": _cpu(cpu_us(row, user=True, system=True)),
        "user": _cpu(cpu_us(row, user=True, system=False)),
    }


def _cpu(used_us: int) -> Json:
    return {"seconds": used_us // 1_000_000, "microseconds": used_us % 1_000_000}


def _step_object(job: JobRecord, step: StepRecord, now_us: int) -> Json:

    row = RecordRow(job, step)
    name = format_step(step.step_id)
    return {
        "time": {
            "elapsed": elapsed_s(row, RecordView(DisplayClock(now_us))),
            "end": time_object(end_us(row)),
            "start": time_object(step.start_at_us),
            "suspended": suspended_us(row, end_us(row) or now_us) // 1_000_000,
            "system": _cpu(cpu_us(row, user=False, system=True)),
            "total": _cpu(cpu_us(row, user=True, system=True)),
            "user": _cpu(cpu_us(row, user=True, system=False)),
        },
        "exit_code": exit_object(exit_of(row)),
        "nodes": {
            "count": step.nodes_alloc,
            "range": step.node_list,
            "list": expand(step.node_list) if step.node_list else [],
        },
        "tasks": {"count": step.tasks},
        "pid": "",
        "CPU": {"requested_frequency": {"min": number(None), "max": number(None)}, "governor": "0"},
        "kill_request_user": str(step.cancelled_by_uid) if step.cancelled_by_uid > 0 else "",
        "task": {"distribution": layout_of(step)},
        "submit_line": step.submit_line,
        "state": [state_of(row)],
        "step": {"id": f"{job.job_id}.{name}", "name": step.name or name},
        "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": number(_consumed(step))}},
        "tres": {
            "allocated": _tres_list(step.tres_alloc),
            "requested": _used(step, TRES_IN),
            "consumed": _used(step, TRES_OUT),
        },
    }


def _consumed(step: StepRecord) -> int | None:
    return next((metric.total for metric in step.metrics if metric.kind == K.ENERGY_J), None)


def _used(step: StepRecord, names: Mapping[str, int]) -> Json:
    """TRESUsageIn* or TRESUsageOut*, under the names that Slurm has for them there."""
    metrics = recorded(step.metrics, step.tasks).metrics
    found: dict[str, list[Json]] = {"max": [], "min": [], "average": [], "total": []}
    for full_name, kind in names.items() if metrics else ():
        if kind not in metrics:
            continue
        one, factor = metrics[kind], 1024 if kind in SIZES_KB else 1
        counts = {"max": one.max, "min": one.min, "average": one.total // max(step.tasks, 1), "total": one.total}
        for word, count in counts.items():
            places = {"max": (one.max_node, one.max_task), "min": (one.min_node, one.min_task)}.get(word)
            more = {"node": places[0], "task": places[1]} if places else {}
            found[word].append(tres_object(full_name, count * factor) | more)
    return dict(found)


#: Slurm's numbers of the TRES types that every cluster has; its database numbers the others.
_TRES_ID = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs": 6, "vmem": 7, "pages": 8}


def _tres_list(text: str) -> list[Json]:
    items = []
    for full_name, count in parse_tres(text).items() if text else ():
        items.append(tres_object(full_name, count))
    return items


def tres_object(full_name: str, count: int) -> Json:
    """One amount: a TRES by its type and name, with its number."""
    kind, _, name = full_name.partition("/")
    return {"type": kind, "name": name, "id": _TRES_ID.get(kind, 1001), "count": count}
