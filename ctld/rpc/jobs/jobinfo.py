"""Encodes committed job rows as JobInfo messages.

The short form omits what only `scontrol show job` and JSON show: the allocation by node, the submit line, resource
limits. File names are expanded as far as possible: a pending job keeps `%N`.
"""

import os.path
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from accounting.filter import FilterRecord
from ctld.agents.stepmessages import allocation_of
from ctld.core.records.job import JobRow
from ctld.core.records.node import Node
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.rpc.cluster.gpuinfo import with_indices
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.filenames import FileNames, expand_pattern
from penstock.values.hostlist import compress
from penstock.values.states import ACTIVE_STATES, Hold, JobState
from penstock.values.varint import number_tag, text_tag, varint

#: Fields of a request that are never shown; a job's priority is in JobInfo.
_NOT_SHOWN: Final = frozenset(("priority", "signal", "gpus_per_node_asked"))
#: Fields with another form there, or shown only sometimes.
_OTHERWISE: Final = frozenset(
    ("kind", "nodes_max", "nodes_required", "nodes_excluded", "reservation", "submit_line", "rlimits")
)
_SHOWN: Final = [
    field
    for field in common_pb2.JobRequest.DESCRIPTOR.fields
    if field.name in JobRequest.__struct_fields__ and field.name not in _NOT_SHOWN | _OTHERWISE
]
#: Fields that are sent unchanged when they are set.
_PLAIN: Final = [f.name for f in _SHOWN if f.message_type is None and not f.has_presence]
#: Fields for which 0 or no is sent, too.
_OPTIONAL: Final = [f.name for f in _SHOWN if f.message_type is None and f.has_presence]
_GRES: Final = [f.name for f in _SHOWN if f.message_type is common_pb2.GresCount.DESCRIPTOR]
#: Fields of a row that have the same name and meaning in JobInfo.
_ROW_FIELDS: Final = (
    # made by tools/records: shown of job
    "job_id", "attempt", "array_job_id", "user_id", "group_id", "user_name", "group_name", "submit_at_us", "tres_req",
    "array_task_id", "array_throttle", "reason_detail", "hold", "priority", "dependency", "eligible_at_us", "start_at_us",
    "time_limit_s", "batch_node", "admin_comment", "tres_alloc", "suspended_us", "suspended_at_us", "preempt_at_us",
    "borrowed", "resized_at_us", "licenses_alloc",
    # end of what is made
)  # fmt: skip
_REQUEST: Final = text_tag(controller_pb2.JobInfo.DESCRIPTOR.fields_by_name["request"].number)
_NODES: Final = number_tag(controller_pb2.JobInfo.DESCRIPTOR.fields_by_name["nodes"].number)
_LINE: Final = text_tag(common_pb2.JobRequest.DESCRIPTOR.fields_by_name["submit_line"].number)

#: The two messages, of fields by their names.
_request_of: Final[Callable[..., common_pb2.JobRequest]] = common_pb2.JobRequest
_info_of: Final[Callable[..., controller_pb2.JobInfo]] = controller_pb2.JobInfo


def request_message(request: JobRequest, detail: bool) -> common_pb2.JobRequest:
    """Encodes the request, with the defaults that were filled in."""
    fields: Fields = {name: value for name in _PLAIN if (value := getattr(request, name))}
    for name in _OPTIONAL:
        value = getattr(request, name)
        if value is not None:
            fields[name] = value
    for name in _GRES:
        counts = getattr(request, name)
        if counts:
            fields[name] = [common_pb2.GresCount(name=n, type=type_, count=count) for n, type_, count in counts]
    if request.kind:
        fields["kind"] = int(request.kind)
    if request.nodes_asked:  # else one node for each task at most: the number was not requested
        fields["nodes_max"] = request.nodes_max
    if request.ntasks_over:
        fields["ntasks"] = request.ntasks_over
    if request.nodes_required:
        fields["nodes_required"] = compress(request.nodes_required)
    if request.nodes_excluded:
        fields["nodes_excluded"] = compress(request.nodes_excluded)
    if request.reservation_run or request.reservation:
        fields["reservation"] = request.reservation_run or request.reservation
    if detail:
        fields["submit_line"] = request.submit_line
        fields["rlimits"] = dict(request.rlimits)
    return _request_of(**fields)


def begin_of(row: JobRow) -> int:
    """Returns the earliest begin time: of a waiting crontab's job, its next time."""
    waits = row.request.cron and row.state is JobState.PENDING
    return max(row.request.begin_at_us, row.eligible_at_us) if waits else row.request.begin_at_us


def shown_state(row: JobRow) -> str:
    """Returns the job's state in Slurm's word."""
    if row.hold is Hold.SPECIAL_EXIT and row.state is JobState.PENDING:
        return "SPECIAL_EXIT"
    return "STOPPED" if row.stopped and row.state is JobState.RUNNING else row.state.name


def job_info(row: JobRow, detail: bool, nodes: Mapping[str, Node] = {}) -> controller_pb2.JobInfo:
    """Encodes one job. `nodes`: by whose numbers of GPUs its allocation is shown."""
    request = row.request
    fields: Fields = {}
    for name in _ROW_FIELDS:
        value = getattr(row, name)
        if value:
            fields[name] = value
    if row.hold:
        fields.pop("priority", None)  # Slurm shows 0 for a held job; the priority after its release is a separate field
    if row.array_task_id is not None:
        fields["array_task_id"] = row.array_task_id
    if row.array_tasks is not None:
        fields["array_tasks"] = row.array_tasks.format()
    fields["state"] = shown_state(row)
    fields["reason"] = row.reason.value
    pending = row.state is JobState.PENDING
    fields["partition"] = ",".join(request.partitions) if pending else row.partition
    fields["end_at_us"] = end_at(row)
    if row.alloc:
        fields["node_list"] = compress(part.node for part in row.alloc)
    if request.het_job_id:
        fields["het_job_id"] = request.het_job_id
        fields["het_offset"] = request.het_offset
        fields["het_job_ids"] = f"{request.het_job_id}-{request.het_job_id + request.het_size - 1}"
    fields |= counts(row)
    if request.system_comment:
        fields["system_comment"] = request.system_comment
    if row.exit_code or row.exit_signal:
        fields["exit"] = common_pb2.ExitStatus(code=row.exit_code, signal=row.exit_signal)
    if row.derived_code or row.derived_signal:
        fields["derived_exit"] = common_pb2.ExitStatus(code=row.derived_code, signal=row.derived_signal)
    if row.state is JobState.COMPLETING and row.end_state is not None:
        fields["end_state"] = row.end_state.name
    per_cpu = request.mem_per_cpu_mb is not None
    fields["mem_is_per_cpu"] = per_cpu
    fields["mem_mb"] = (request.mem_per_cpu_mb if per_cpu else request.mem_per_node_mb) or 0
    fields["request"] = asked = request_message(request, False)
    if request.cron:
        fields["cron"] = request.cron
        asked.begin_at_us = begin_of(row)
    if pending and request.reservation_run:  # where it ran before it was requeued
        asked.reservation = request.reservation
    fields |= file_names(row, request)
    made = _info_of(**fields)
    if detail:
        made.MergeFrom(details(row, nodes))
    return made


def details(row: JobRow, nodes: Mapping[str, Node]) -> controller_pb2.JobInfo:
    """Encodes what the long form has beside the short one: to be merged with that, or appended to it when both are bytes."""
    fields: Fields = {}
    if row.request.submit_line or row.request.rlimits:
        fields["request"] = _request_of(submit_line=row.request.submit_line, rlimits=dict(row.request.rlimits))
    if row.alloc:
        here = nodes if row.state in ACTIVE_STATES else {}  # places may have been assigned to other GPUs since
        fields["allocation"] = [_shown_part(part, here.get(part.node)) for part in row.alloc]
    return _info_of(**fields)


def encoded_details(row: JobRow, nodes: Mapping[str, Node]) -> bytes:
    """Encodes the same, to be appended. Of a job without an allocation in two parts, of which many jobs have the same one;
    the other is written by hand, which takes a third of the time.
    """
    if row.alloc:
        return details(row, nodes).SerializeToString()
    request = row.request
    limits = _encoded_limits(request.rlimits) if request.rlimits else b""
    if not request.submit_line:
        return limits
    line = request.submit_line.encode()
    asked = _LINE + varint(len(line)) + line
    return limits + _REQUEST + varint(len(asked)) + asked


@lru_cache(64)
def _encoded_limits(rlimits: tuple[tuple[str, int], ...]) -> bytes:
    return _info_of(request=_request_of(rlimits=dict(rlimits))).SerializeToString()


def _shown_part(part: NodeAlloc, node: Node | None) -> common_pb2.NodeAllocation:
    found = allocation_of(part, node.gpu_slots if node is not None else ())
    for held in found.gres:
        with_indices(held, node)
    return found


def nodes_estimated(row: JobRow, largest: int) -> int:
    """The number of a job's nodes; of a pending one at least as many as its CPUs fill of the largest node, as in Slurm."""
    request = row.request
    if row.alloc:
        return len(row.alloc)
    if not largest or row.state is not JobState.PENDING:
        return request.nodes_min
    filled = -(-request.ntasks * request.cpus_per_task // largest)
    at_most = request.nodes_max if request.nodes_asked and request.nodes_max else filled
    return max(request.nodes_min, min(filled, at_most))


def estimate(row: JobRow, largest: int) -> bytes:
    """Encodes that number where it differs from the encoded job's, to be appended to it."""
    nodes = nodes_estimated(row, largest)
    return b"" if row.alloc or nodes == row.request.nodes_min else _NODES + varint(nodes)


def counts(row: JobRow) -> dict[str, int]:
    """Returns CPUs and tasks and nodes: of its allocation, else of its request."""
    request = row.request
    if row.alloc:
        cpus, nodes = sum(part.cpus for part in row.alloc), len(row.alloc)
        tasks = sum(part.tasks for part in row.alloc)  # more than the minimum of `-N 2-4`
    else:
        cpus = request.ntasks * request.cpus_per_task
        nodes = request.nodes_min
        tasks = request.ntasks
    if request.ntasks_asked:  # otherwise the number is only the room on its nodes
        tasks = request.ntasks
    if row.resized_at_us:  # as many as have room on the nodes that are left
        tasks = min(tasks, cpus // max(1, request.cpus_per_task))
    return {"cpus": cpus, "nodes": nodes, "tasks": request.ntasks_over or tasks}


def end_at(row: JobRow) -> int:
    """The job's end, when it began to end if it is COMPLETING, else the end of its time limit, else 0."""
    if row.state is JobState.COMPLETING:
        return row.completing_at_us
    if row.end_at_us or row.state not in ACTIVE_STATES or not row.start_at_us or row.time_limit_s < 0:
        return row.end_at_us
    if row.preempt_end_at_us:
        return row.preempt_end_at_us
    return row.start_at_us + row.suspended_us + row.time_limit_s * 1_000_000


def file_names(row: JobRow | FilterRecord, request: JobRequest) -> dict[str, bytes]:
    """Returns the files of a JobRow (or of a record of it) with their symbols expanded, absolute."""
    found: dict[str, bytes] = {}
    for field in ("std_out", "std_err", "std_in"):
        pattern: bytes = getattr(request, field)
        if pattern:
            is_name = b"%" not in pattern and b"\\" not in pattern
            found[field] = os.path.join(request.work_dir, pattern if is_name else _expanded(pattern, row, request))
    return found


def _expanded(pattern: bytes, row: JobRow | FilterRecord, request: JobRequest) -> bytes:
    names = FileNames(
        job_id=row.job_id,
        array_job_id=row.array_job_id,
        array_task_id=row.array_task_id,
        job_name=request.name,
        user_name=row.user_name,
        node_name=row.batch_node or "%N",
        short_node="" if row.batch_node else "%N",
        restart_count=row.attempt,
    )
    try:
        return expand_pattern(pattern, names)
    except BadValue:
        return pattern  # too long once expanded: the node will report it
