"""Encodes accounting records as the wire's JobRecord, and decodes a request to the database's filter.

The scripts and environments of others are removed here, where every page is built.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypedDict

import msgspec

from accounting.filter import FilterRecord, RecordFilter, StepRecord
from ctld.core.records.request import JobRequest
from ctld.core.records.step import StepRequest
from ctld.core.steps import task_ends
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility
from ctld.rpc.jobs.jobinfo import file_names, request_message
from penstock.v1 import accounting_pb2, common_pb2
from penstock.values.fields import Fields
from penstock.values.hostlist import expand_all
from penstock.values.numbers import within_int64
from penstock.values.taskends import in_order

_LISTS: Final = (
    "ids", "accounts", "partitions", "names", "states", "qos", "wckeys", "group_ids", "assoc_ids",
)  # fmt: skip
_PLAIN: Final = (
    "start_at_us", "end_at_us", "duplicates", "no_steps", "truncate", "with_script", "with_environment",
    "with_task_ends",
)  # fmt: skip
_RECORD_FIELDS: Final = (
    # made by tools/records: recorded of job
    "job_id", "attempt", "array_job_id", "user_id", "group_id", "user_name", "group_name", "submit_at_us", "nodes_req",
    "cpus_req", "tres_req", "array_throttle", "partition", "reason", "priority", "eligible_at_us", "start_at_us",
    "end_at_us", "time_limit_s", "cancelled_by_uid", "failed_node", "admin_comment", "tres_alloc", "nodes_alloc",
    "cpus_alloc", "node_list", "suspended_us", "suspended_at_us", "het_job_id", "het_offset", "wckey", "assoc_id",
    # end of what is made
    "array_tasks", "script", "environment",
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


#: The message, of fields by their names.
_record_of: Final[Callable[..., accounting_pb2.JobRecord]] = accounting_pb2.JobRecord


class _Asked(TypedDict, total=False):
    """The shown fields of a step's request."""

    distribution: str
    submit_line: str


def record_filter(
    request: accounting_pb2.ListRecordsRequest,
    uids: tuple[int, ...],
    visibility: JobVisibility = ALL_JOBS,
    default_account: str = "",
) -> RecordFilter:
    """Returns the database's filter for the query, limited to what the user may see. Jobs without an account count for
    the default one.

    Raises BadValue.
    """
    fields: Fields = {name: getattr(request, name) for name in _PLAIN}
    fields |= {name: tuple(getattr(request, name)) for name in _LISTS}
    if default_account and default_account in request.accounts:
        fields["accounts"] = (*request.accounts, "")
    nodes = expand_all(request.nodes)
    seen = tuple(sorted(visibility.accounts))
    found = RecordFilter(uids=uids, nodes=tuple(nodes), seen_uid=visibility.uid, seen_accounts=seen)
    return msgspec.structs.replace(found, **fields)


def record_message(
    record: FilterRecord, scripts: JobVisibility, cluster: str, default_account: str = ""
) -> accounting_pb2.JobRecord:
    """Encodes one attempt of a job. `scripts`: the jobs whose script and environment the caller may see."""
    fields: Fields = {name: getattr(record, name) for name in _RECORD_FIELDS}
    if not scripts.sees_of(record.user_id, record.account):
        del fields["script"], fields["environment"]
    request = _read_request(record.request)
    if record.array_task_id is not None:
        fields["array_task_id"] = record.array_task_id
    fields |= file_names(record, request)
    return _record_of(
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
    """Encodes the steps of one attempt."""
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
            **_asked_of(step.request),
            **_task_ends(step.task_ends),
        )
        for step in steps
    ]


def _asked_of(request: bytes) -> _Asked:
    """Returns the shown fields of a step's request."""
    if not request:
        return {}
    asked = _read_step_request(request)
    return {"distribution": asked.distribution, "submit_line": asked.submit_line}


class _TaskEnds(TypedDict, total=False):
    task_ends: list[common_pb2.TaskEnds]
    task_ends_left_out: int


def _task_ends(text: str) -> _TaskEnds:
    """Returns how a step's tasks ended, those first that ended by themselves."""
    if not text:
        return {}
    groups, left_out = task_ends.decode(text)
    kinds = common_pb2.TaskEnds.Kind
    found = [
        common_pb2.TaskEnds(
            node=one.node, kind=kinds.Name(one.kind), exit=exit_status(one.code, one.signal), ranks=one.ranks
        )
        for one in in_order(groups)
    ]
    return {"task_ends": found, "task_ends_left_out": left_out}


def step_metrics(usage: str) -> list[accounting_pb2.StepMetric]:
    """Decodes the sampled usage of a step's tasks from the database's text, in which older versions have stored greater
    totals than a message holds."""
    if not usage:
        return []
    kinds = common_pb2.UsageMetric.Kind
    known = set(kinds.values())
    return [
        accounting_pb2.StepMetric(
            kind=kinds.Name(int(kind)), total=within_int64(total), max=high, max_node=high_node, max_task=high_task, min=low,
            min_node=low_node, min_task=low_task,
        )
        for kind, (total, high, high_node, high_task, low, low_node, low_task) in sorted(_read_usage(usage).items())
        if int(kind) in known
    ]  # fmt: skip


def exit_status(code: int, signal: int) -> common_pb2.ExitStatus:
    """Encodes an exit."""
    return common_pb2.ExitStatus(code=code, signal=signal)
