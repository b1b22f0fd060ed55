"""Accounting records out: what the database has as the wire's JobRecord, and a request as the database's filter.

The scripts and environments of others are left out here, where a page is made, so that no way past it exists.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from accounting.filter import Record, RecordFilter, StepRecord
from ctld.core.model import JobRequest
from ctld.core.step_model import StepRequest
from ctld.rpc.jobinfo import file_names, request_message
from ctld.rpc.sight import ALL_JOBS, JobSight
from penstock.v1 import accounting_pb2, common_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand

#: Values of one field of a query.
VALUES_MAX: Final = 100_000

_LISTS: Final = (
    "ids", "accounts", "partitions", "names", "states", "qos", "wckeys", "group_ids", "assoc_ids",
)  # fmt: skip
_PLAIN: Final = (
    "start_at_us", "end_at_us", "duplicates", "no_steps", "truncate", "with_script", "with_environment",
)  # fmt: skip
_RECORD_FIELDS: Final = (
    "job_id", "attempt", "array_job_id", "array_tasks", "array_throttle", "reason", "user_id", "group_id", "user_name",
    "group_name", "partition", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s",
    "node_list", "cpus_req", "cpus_alloc", "nodes_req", "nodes_alloc", "tres_req", "tres_alloc", "cancelled_by_uid",
    "admin_comment", "failed_node", "script", "environment", "suspended_us", "suspended_at_us", "het_job_id",
    "het_offset", "assoc_id", "wckey",
)  # fmt: skip
_STEP_FIELDS: Final = (
    "step_id", "name", "start_at_us", "end_at_us", "cpus_alloc", "tasks", "tres_alloc", "submit_at_us",
)  # fmt: skip
_USAGE_FIELDS: Final = (
    "user_cpu_us", "system_cpu_us", "max_rss_kb", "max_vmsize_kb", "disk_read_bytes", "disk_write_bytes",
)  # fmt: skip

_read_request = msgspec.json.Decoder(JobRequest).decode
_read_step_request = msgspec.json.Decoder(StepRequest).decode
_read_usage = msgspec.json.Decoder(dict[str, tuple[int, int, str, int, int, str, int]]).decode


def record_filter(
    request: accounting_pb2.ListRecordsRequest,
    uids: tuple[int, ...],
    sight: JobSight = ALL_JOBS,
    default_account: str = "",
) -> RecordFilter:
    """The query as the database takes it, for these eyes. Jobs that have named no account are the default one's.

    Raises BadValue.
    """
    fields: dict[str, Any] = {name: getattr(request, name) for name in _PLAIN}
    for name in _LISTS:
        values = getattr(request, name)
        if len(values) > VALUES_MAX:
            raise BadValue(f"{len(values)} {name}, the limit is {VALUES_MAX}")
        fields[name] = tuple(values)
    if default_account and default_account in fields["accounts"]:
        fields["accounts"] += ("",)
    nodes = dict.fromkeys(name for text in request.nodes for name in expand(text))
    seen = tuple(sorted(sight.accounts))
    return RecordFilter(uids=uids, nodes=tuple(nodes), seen_uid=sight.uid, seen_accounts=seen, **fields)


def record_message(
    record: Record, scripts: JobSight, cluster: str, default_account: str = ""
) -> accounting_pb2.JobRecord:
    """One attempt of a job. `scripts`: whose script and environment the caller may see."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in _RECORD_FIELDS}
    if not scripts.sees_of(record.user_id, record.account):
        del fields["script"], fields["environment"]
    request = _read_request(record.request)
    if record.array_task_id is not None:
        fields["array_task_id"] = record.array_task_id
    fields |= file_names(record, request)
    return accounting_pb2.JobRecord(
        **fields,
        state=record.state.name,
        tasks=request.ntasks,
        exit=exit_status(record.exit_code, record.exit_signal),
        derived_exit=exit_status(record.derived_code, record.derived_signal),
        request=request_message(request, detail=True),
        steps=step_messages(record.steps, record.cancelled_by_uid),
        cluster=cluster,
        system_comment=request.system_comment,
        account=request.account or (default_account if record.assoc_id else ""),
    )


def step_messages(steps: Iterable[StepRecord], cancelled_by_uid: int) -> list[accounting_pb2.StepRecord]:
    """The steps of one attempt."""
    return [
        accounting_pb2.StepRecord(
            **{name: getattr(step, name) for name in _STEP_FIELDS},
            state=step.state.name,
            exit=exit_status(step.exit_code, step.exit_signal),
            node_list=step.node_list or step.node,
            nodes_alloc=step.nodes,
            usage=common_pb2.Usage(**{name: getattr(step, name) for name in _USAGE_FIELDS}),
            cancelled_by_uid=cancelled_by_uid if step.cancelled_by_uid < 0 else step.cancelled_by_uid,
            metrics=step_metrics(step.usage),
            **_asked(step.request),
        )
        for step in steps
    ]


def _asked(request: bytes) -> dict[str, Any]:
    """What of a step's request is shown."""
    if not request:
        return {}
    asked = _read_step_request(request)
    return {"distribution": asked.distribution, "submit_line": asked.submit_line}


def step_metrics(usage: str) -> list[accounting_pb2.StepMetric]:
    """What was sampled of a step's tasks, out of the database's text."""
    if not usage:
        return []
    kinds = common_pb2.UsageMetric.Kind
    known = set(kinds.values())
    return [
        accounting_pb2.StepMetric(
            kind=kinds.Name(int(kind)), total=total, max=high, max_node=high_node, max_task=high_task, min=low,
            min_node=low_node, min_task=low_task,
        )
        for kind, (total, high, high_node, high_task, low, low_node, low_task) in sorted(_read_usage(usage).items())
        if int(kind) in known
    ]  # fmt: skip


def exit_status(code: int, signal: int) -> common_pb2.ExitStatus:
    """How something ended."""
    return common_pb2.ExitStatus(code=code, signal=signal)
