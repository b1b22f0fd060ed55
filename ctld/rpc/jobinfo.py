"""Jobs out: committed rows as JobInfo messages.

The short form leaves out what only `scontrol show job` and JSON show: the allocation by node, the submit line, resource
limits. File names are expanded as far as they are known: a pending job keeps `%N`.
"""

import os.path
from collections.abc import Mapping
from typing import Any, Final

from ctld.agents.stepmessages import allocation_of
from ctld.core.model import JobRequest, JobRow, Node, NodeAlloc
from ctld.core.planning import Forecast
from ctld.rpc.gpuinfo import with_indices
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.errors import BadValue
from penstock.values.filenames import FileNames, expand_pattern
from penstock.values.hostlist import compress
from penstock.values.states import ACTIVE_STATES, Hold, JobState

#: Fields of a request that are sent as they are, when they say something.
_REQUEST_FIELDS: Final = (
    "name", "partitions", "account", "qos", "comment", "work_dir", "std_out", "std_err", "std_in", "open_append",
    "time_limit_s", "begin_at_us", "nodes_min", "nodes_max", "ntasks_per_node", "mem_per_node_mb", "mem_per_cpu_mb",
    "features", "exclusive", "dependency", "array", "requeue", "nice", "umask", "kill_on_invalid_dep", "export_env",
    "submit_host", "submit_dir", "command", "wckey", "ntasks", "cpus_per_task", "exclusive_user", "licenses",
    "switches_max", "switches_wait_s", "segment", "time_min_s", "deadline_at_us", "prefer", "sockets_per_node",
    "cores_per_socket", "threads_per_core", "mincpus", "tmp_disk_mb", "ntasks_per_core", "ntasks_per_socket",
    "spread_job", "use_min_nodes", "ntasks_per_gpu", "cpus_per_gpu", "resv_ports", "distribution", "overcommit",
    "no_kill", "wait_all_nodes", "node_fail_policy", "mpi", "cpu_bind", "mem_bind", "gpu_bind", "network",
    "gpu_mem_mb", "gpu_freq", "gres_sockets",
    "mail_types", "mail_user", "contiguous", "extra", "mcs_label", "batch_features", "get_user_env", "acctg_freq",
    "reboot", "exclusive_mcs", "expedite", "container", "cpu_freq",
)  # fmt: skip
#: Those that may say 0 or no.
_OPTIONAL_FIELDS: Final = (
    "time_limit_s", "mem_per_node_mb", "mem_per_cpu_mb", "umask", "mem_per_gpu_mb", "immediate_s", "oversubscribe",
    "core_spec", "thread_spec", "oom_kill_step", "delay_boot_s",
)  # fmt: skip
#: Fields of a row that have the same name and meaning in JobInfo.
_ROW_FIELDS: Final = (
    "job_id", "array_job_id", "array_task_id", "array_throttle", "reason_detail", "user_id", "group_id", "user_name",
    "group_name", "priority", "submit_at_us", "eligible_at_us", "start_at_us", "time_limit_s", "batch_node", "attempt",
    "tres_req", "tres_alloc", "admin_comment", "dependency", "hold", "suspended_us", "suspended_at_us", "preempt_at_us",
    "borrowed",
)  # fmt: skip


def request_message(request: JobRequest, detail: bool) -> common_pb2.JobRequest:
    """What was asked for, with the defaults that were put in."""
    fields: dict[str, Any] = {}
    for name in _REQUEST_FIELDS:
        value = getattr(request, name)
        if value:
            fields[name] = value
    if not request.nodes_asked:
        fields.pop("nodes_max", None)  # one node for each task at most: nobody has said so
    fields["requeue"] = request.requeue
    if request.kind:
        fields["kind"] = int(request.kind)
    for name in _OPTIONAL_FIELDS:
        value = getattr(request, name)
        if value is not None:
            fields[name] = value
    for name in ("gres_per_node", "gres_per_job", "gres_per_task", "gres_per_socket"):
        counts = getattr(request, name)
        if counts:
            fields[name] = [common_pb2.GresCount(name=n, type=type_, count=count) for n, type_, count in counts]
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
    return common_pb2.JobRequest(**fields)


def begin_of(row: JobRow) -> int:
    """When it may begin at the earliest: of a crontab's job that waits, its next time."""
    waits = row.request.cron and row.state is JobState.PENDING
    return max(row.request.begin_at_us, row.eligible_at_us) if waits else row.request.begin_at_us


def job_info(row: JobRow, detail: bool, nodes: Mapping[str, Node] = {}) -> controller_pb2.JobInfo:
    """One job as it is shown. `nodes`: by whose numbers of GPUs its allocation is told."""
    request = row.request
    fields: dict[str, Any] = {}
    for name in _ROW_FIELDS:
        value = getattr(row, name)
        if value:
            fields[name] = value
    if row.hold:
        fields.pop("priority", None)  # Slurm shows 0 of a held job; the number it will have again is kept apart here
    if row.array_task_id is not None:
        fields["array_task_id"] = row.array_task_id
    if row.array_tasks is not None:
        fields["array_tasks"] = row.array_tasks.format()
    fields["state"], fields["reason"] = row.state.name, row.reason.value
    pending = row.state is JobState.PENDING
    if row.hold is Hold.SPECIAL_EXIT and pending:
        fields["state"] = "SPECIAL_EXIT"
    fields["partition"] = ",".join(request.partitions) if pending else row.partition
    fields["end_at_us"] = end_at(row)
    if row.alloc:
        fields["node_list"] = compress(part.node for part in row.alloc)
        if detail:
            here = nodes if row.state in ACTIVE_STATES else {}  # who has which place may be another matter by now
            fields["allocation"] = [_shown_part(part, here.get(part.node)) for part in row.alloc]
    if request.het_job_id:
        fields["het_job_id"], fields["het_offset"] = request.het_job_id, request.het_offset
        fields["het_job_ids"] = f"{request.het_job_id}-{request.het_job_id + request.het_size - 1}"
    fields |= counts(row)
    if request.system_comment:
        fields["system_comment"] = request.system_comment
    if row.exit_code or row.exit_signal:
        fields["exit"] = common_pb2.ExitStatus(code=row.exit_code, signal=row.exit_signal)
    per_cpu = request.mem_per_cpu_mb is not None
    fields["mem_is_per_cpu"] = per_cpu
    fields["mem_mb"] = (request.mem_per_cpu_mb if per_cpu else request.mem_per_node_mb) or 0
    fields["request"] = request_message(request, detail)
    if request.cron:
        fields["cron"] = request.cron
        fields["request"].begin_at_us = begin_of(row)
    if pending and request.reservation_run:  # where it ran before it was requeued
        fields["request"].reservation = request.reservation
    fields |= file_names(row, request)
    return controller_pb2.JobInfo(**fields)


def _shown_part(part: NodeAlloc, node: Node | None) -> common_pb2.NodeAllocation:
    found = allocation_of(part, node.gpu_slots if node is not None else ())
    for held in found.gres:
        with_indices(held, node)
    return found


def planned(row: JobRow, forecast: Forecast | None) -> bytes:
    """When and where a pending job is expected to start, encoded: to be put behind its JobInfo, which it becomes a part of.

    Kept apart, since it changes with every pass while the job does not.
    """
    if forecast is None or row.state is not JobState.PENDING or row.submit_at_us > forecast.made_at_us:
        return b""
    fields: dict[str, Any] = {"last_sched_at_us": forecast.made_at_us}
    found = forecast.of(row.job_id)
    if found is not None:
        fields["planned_start_at_us"], fields["planned_node_list"] = found[0] * 1_000_000, compress(found[1])
    return controller_pb2.JobInfo(**fields).SerializeToString()


def counts(row: JobRow) -> dict[str, int]:
    """CPUs, nodes and tasks: what it holds or held, else what it asks for."""
    request = row.request
    if row.alloc:
        cpus, nodes = sum(part.cpus for part in row.alloc), len(row.alloc)
        tasks = sum(part.tasks for part in row.alloc)  # more than were asked for with `-N 2-4`
    else:
        cpus, nodes, tasks = request.ntasks * request.cpus_per_task, request.nodes_min, request.ntasks
    return {"cpus": cpus, "nodes": nodes, "tasks": request.ntasks_over or tasks}


def end_at(row: JobRow) -> int:
    """When it ended, else when its time limit would end it, else 0."""
    if row.end_at_us or row.state not in ACTIVE_STATES or not row.start_at_us or row.time_limit_s < 0:
        return row.end_at_us
    if row.preempt_end_at_us:
        return row.preempt_end_at_us
    return row.start_at_us + row.suspended_us + row.time_limit_s * 1_000_000


def file_names(row: Any, request: JobRequest) -> dict[str, bytes]:
    """The files of a JobRow (or of a record of it) with their symbols replaced, absolute."""
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
    found: dict[str, bytes] = {}
    for field in ("std_out", "std_err", "std_in"):
        pattern: bytes = getattr(request, field)
        if pattern:
            try:
                name = expand_pattern(pattern, names) if b"%" in pattern or b"\\" in pattern else pattern
            except BadValue:
                name = pattern  # too long once expanded: the node will say so
            found[field] = os.path.join(request.work_dir, name)
    return found
