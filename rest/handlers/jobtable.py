"""The rows of a table of jobs: in short, or with all that a column of `squeue` or `sacct` may show of a job in the queue."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from cli.base.document import Json
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.jobid import format_job

IN_SHORT: Final = {
    "job_id": "integer", "shown_id": "string", "name": "string", "user_name": "string", "account": "string",
    "partition": "string", "qos": "string", "state": "string", "reason": "string", "priority": "integer",
    "nodes": "integer", "node_list": "string", "cpus": "integer", "tres": "string", "submit_at_us": "integer",
    "start_at_us": "integer", "end_at_us": "integer", "time_limit_s": "integer", "planned_start_at_us": "integer",
}  # fmt: skip
#: More members of a wide row, by the field of a job that each shows; their types are those of the fields.
_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "group_name": ("group_name", "string"), "array_job_id": ("array_job_id", "integer"), "tasks": ("tasks", "integer"),
    "tres_requested": ("tres_req", "string"), "memory_mb": ("mem_mb", "integer"), "attempt": ("attempt", "integer"),
    "nice": ("request.nice", "integer"), "eligible_at_us": ("eligible_at_us", "integer"),
    "suspended_us": ("suspended_us", "integer"), "preempt_at_us": ("preempt_at_us", "integer"),
    "exit_code": ("exit.code", "integer"), "exit_signal": ("exit.signal", "integer"),
    "derived_exit_code": ("derived_exit.code", "integer"), "reason_detail": ("reason_detail", "string"),
    "planned_node_list": ("planned_node_list", "string"), "batch_node": ("batch_node", "string"),
    "features": ("request.features", "string"), "nodes_required": ("request.nodes_required", "string"),
    "nodes_excluded": ("request.nodes_excluded", "string"), "licenses": ("request.licenses", "string"),
    "reservation": ("request.reservation", "string"), "dependency": ("dependency", "string"),
    "wckey": ("request.wckey", "string"), "comment": ("request.comment", "string"),
    "admin_comment": ("admin_comment", "string"), "command": ("request.command", "string"),
    "work_dir": ("request.work_dir", "string"), "std_out": ("std_out", "string"), "std_err": ("std_err", "string"),
    "submit_host": ("request.submit_host", "string"),
}  # fmt: skip
_GETTERS: Final[Mapping[str, Callable[[JobInfo], Any]]] = {  # Any: of the field's type
    name: attrgetter(field) for name, (field, _) in _FIELDS.items()
}
WIDE: Final = IN_SHORT | {name: kind for name, (_, kind) in _FIELDS.items()}


def shown_id(job: JobInfo) -> str:
    """`12`, `12_3`, `12+1`."""
    return format_job(job.job_id, job.array_job_id, job.array_task_id if job.HasField("array_task_id") else None)


def in_short(one: JobInfo) -> Json:
    """The row of most tables."""
    return {
        "job_id": one.job_id,
        "shown_id": shown_id(one),
        "name": one.request.name,
        "user_name": one.user_name,
        "account": one.request.account,
        "partition": one.partition,
        "qos": one.request.qos,
        "state": one.state,
        "reason": one.reason,
        "priority": one.priority,
        "nodes": one.nodes,
        "node_list": one.node_list,
        "cpus": one.cpus,
        "tres": one.tres_alloc or one.tres_req,
        "submit_at_us": one.submit_at_us,
        "start_at_us": one.start_at_us,
        "end_at_us": one.end_at_us,
        "time_limit_s": one.time_limit_s,
        "planned_start_at_us": one.planned_start_at_us,
    }


def wide(one: JobInfo) -> Json:
    """The row of a table with columns that few look at. Paths that are not UTF-8 have replacements."""
    return in_short(one) | {name: _text(get(one)) for name, get in _GETTERS.items()}


def _text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
