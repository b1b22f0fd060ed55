"""Rows of the database as SQL parameters and back. Made by tools/records from its field tables: `make records`.

A row's parameters are a plain tuple in the order of its table's columns, so that the statements (statements.py) bind it
without names. A row of a class that has no NAME_values is its own parameters. How single values are stored: encodings.py,
stepparts.py. This is the hot path: every microsecond is paid for with each job.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from accounting.schema import join_strings, split_strings
from ctld.core.records.accounting_rows import AccountRow, AssocRow, ResourceRow, TresRow, UsageRow, UserRow, WckeyRow
from ctld.core.records.budget_book import BudgetRow
from ctld.core.records.gpu import Gpu
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.records.node import NodeEvent, NodeRow, PartitionRow
from ctld.core.records.periodic import Crontab, Trigger
from ctld.core.records.personal_token import PersonalToken
from ctld.core.records.qos import Qos
from ctld.core.records.request import JobRequest
from ctld.core.records.reservation import Reservation, ReservationSpan
from ctld.core.records.revocation import TokenRevocation
from ctld.core.records.step import StepRow
from ctld.core.records.waiting_row import WaitingRow
from ctld.store.encodings import (
    HOLDS,
    JOB_STATES,
    REASONS,
    SUSPENDS,
    alloc_from,
    alloc_values,
    cron_jobs_from,
    cron_lines_from,
    encode_json,
    gpu_json,
    json_text,
    limits_from,
    limits_text,
    words,
)
from ctld.store.stepparts import parts_from, parts_json, ports_from, step_request_from
from penstock.values.states import NodeFlag
from penstock.values.taskset import TaskSet

Params = tuple[object, ...]
V = TypeVar("V")


class One(Protocol):
    """Returns the known value that equals the first argument; the second becomes known if there is none."""

    def __call__(self, value: V, new: V, /) -> V: ...


#: Columns of a job that an update writes, in the order of `job_update`; the key follows them.
JOB_LIFE_COLUMNS: tuple[str, ...] = (
    "array_task_id", "array_tasks", "array_throttle", "partition", "state", "end_state", "reason", "reason_detail",
    "hold", "priority", "dependency", "eligible_at_us", "start_at_us", "end_at_us", "time_limit_s", "alloc",
    "batch_node", "exit_code", "exit_signal", "derived_code", "derived_signal", "cancelled_by_uid", "failed_node",
    "admin_comment", "tres_alloc", "nodes_alloc", "cpus_alloc", "node_list", "suspended_by", "suspended_us",
    "suspended_at_us", "preempt_at_us", "preempt_end_at_us", "preemptor_id", "assoc_id", "borrowed", "completing_at_us",
    "resized_at_us", "stopped", "failed_attempts", "licenses_alloc",
)  # fmt: skip
#: What `job_from` reads: columns of the job, then columns of its request.
JOB_READ_COLUMNS: tuple[str, ...] = (
    "job_id", "attempt", "array_job_id", "request_id", "spec_hash", "user_id", "group_id", "user_name", "group_name",
    "submit_at_us", "tres_req", "array_task_id", "array_tasks", "array_throttle", "partition", "state", "end_state",
    "reason", "reason_detail", "hold", "priority", "dependency", "eligible_at_us", "start_at_us", "end_at_us",
    "time_limit_s", "alloc", "batch_node", "exit_code", "exit_signal", "derived_code", "derived_signal",
    "cancelled_by_uid", "failed_node", "admin_comment", "tres_alloc", "suspended_by", "suspended_us", "suspended_at_us",
    "preempt_at_us", "preempt_end_at_us", "preemptor_id", "assoc_id", "borrowed", "completing_at_us", "resized_at_us",
    "stopped", "failed_attempts", "licenses_alloc", "trace_one_in",
)  # fmt: skip
#: What `waiting_job_from` reads of a job that waits for its first start, and what its other columns hold then.
JOB_WAITING_COLUMNS: tuple[str, ...] = (
    "job_id", "array_job_id", "request_id", "spec_hash", "user_id", "group_id", "user_name", "group_name",
    "submit_at_us", "tres_req", "array_task_id", "partition", "reason", "reason_detail", "hold", "priority",
    "eligible_at_us", "time_limit_s", "assoc_id", "trace_one_in",
)  # fmt: skip
JOB_WAITING_USUAL: dict[str, object] = {
    "attempt": 0, "array_tasks": None, "array_throttle": 0, "state": 0, "end_state": None, "dependency": "",
    "start_at_us": 0, "end_at_us": 0, "alloc": "[]", "batch_node": "", "exit_code": 0, "exit_signal": 0,
    "derived_code": 0, "derived_signal": 0, "cancelled_by_uid": -1, "failed_node": "", "admin_comment": "",
    "tres_alloc": "", "suspended_by": 0, "suspended_us": 0, "suspended_at_us": 0, "preempt_at_us": 0,
    "preempt_end_at_us": 0, "preemptor_id": 0, "borrowed": 0, "completing_at_us": 0, "resized_at_us": 0, "stopped": 0,
    "failed_attempts": 0, "licenses_alloc": "",
}  # fmt: skip
JOB_REQUEST_READ_COLUMNS: tuple[str, ...] = (
    "job_id", "submit_key", "request",
)  # fmt: skip


def job_insert(row: JobRow) -> Params:
    """All columns, for a new row or one whose request has changed."""
    (
        job_id, attempt, array_job_id, request_id, request, spec_hash, _, user_id, group_id, user_name, group_name,
        submit_at_us, tres_req, array_task_id, array_tasks, array_throttle, partition, state, end_state, reason,
        reason_detail, hold, priority, dependency, eligible_at_us, start_at_us, end_at_us, time_limit_s, alloc,
        batch_node, exit_code, exit_signal, derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment,
        tres_alloc, suspended_by, suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us, preemptor_id,
        assoc_id, borrowed, completing_at_us, resized_at_us, stopped, failed_attempts, licenses_alloc, trace_one_in,
    ) = row  # fmt: skip
    alloc_json, nodes_alloc, cpus_alloc, node_list = alloc_values(alloc) if alloc else ("[]", 0, 0, "")
    return (
        job_id, attempt, array_job_id, request_id, spec_hash, user_id, group_id, user_name, group_name, submit_at_us,
        request.name, request.account, request.qos, request.nodes_min, request.ntasks * request.cpus_per_task, tres_req,
        array_task_id, array_tasks.format() if array_tasks is not None else None, array_throttle, partition, int(state),
        int(end_state) if end_state is not None else None, reason.value, reason_detail, int(hold), priority, dependency,
        eligible_at_us, start_at_us, end_at_us, time_limit_s, alloc_json, batch_node, exit_code, exit_signal,
        derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment, tres_alloc, nodes_alloc, cpus_alloc,
        node_list, int(suspended_by), suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us, preemptor_id,
        request.het_job_id, request.het_offset, request.wckey, assoc_id, borrowed, completing_at_us, resized_at_us,
        stopped, failed_attempts, licenses_alloc, trace_one_in,
    )  # fmt: skip


def job_update(row: JobRow) -> Params:
    """What changes in its life, then the key."""
    (
        job_id, attempt, _, _, _, _, _, _, _, _, _, _, _, array_task_id, array_tasks, array_throttle, partition, state,
        end_state, reason, reason_detail, hold, priority, dependency, eligible_at_us, start_at_us, end_at_us,
        time_limit_s, alloc, batch_node, exit_code, exit_signal, derived_code, derived_signal, cancelled_by_uid,
        failed_node, admin_comment, tres_alloc, suspended_by, suspended_us, suspended_at_us, preempt_at_us,
        preempt_end_at_us, preemptor_id, assoc_id, borrowed, completing_at_us, resized_at_us, stopped, failed_attempts,
        licenses_alloc, _,
    ) = row  # fmt: skip
    alloc_json, nodes_alloc, cpus_alloc, node_list = alloc_values(alloc) if alloc else ("[]", 0, 0, "")
    return (
        array_task_id, array_tasks.format() if array_tasks is not None else None, array_throttle, partition, int(state),
        int(end_state) if end_state is not None else None, reason.value, reason_detail, int(hold), priority, dependency,
        eligible_at_us, start_at_us, end_at_us, time_limit_s, alloc_json, batch_node, exit_code, exit_signal,
        derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment, tres_alloc, nodes_alloc, cpus_alloc,
        node_list, int(suspended_by), suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us, preemptor_id,
        assoc_id, borrowed, completing_at_us, resized_at_us, stopped, failed_attempts, licenses_alloc, job_id, attempt,
    )  # fmt: skip


JobRowValues: TypeAlias = tuple[
    int, int, int, int, bytes, int, int, str, str, int, str, int | None, str | None, int, str, int, int | None, str,
    str, int, int, str, int, int, int, int, str, str, int, int, int, int, int, str, str, str, int, int, int, int, int,
    int, int, int, int, int, int, int, str, int, int, str, bytes,
]  # fmt: skip


def job_from(
    requests: Mapping[bytes, JobRequest],
    read_request: Callable[[bytes], JobRequest],
    one: One,
    values: JobRowValues,
) -> JobRow:
    """A row of JOB_READ_COLUMNS and JOB_REQUEST_READ_COLUMNS. The other parameters: jobreader.py."""
    (
        job_id, attempt, array_job_id, request_id, spec_hash, user_id, group_id, user_name, group_name, submit_at_us,
        tres_req, array_task_id, array_tasks, array_throttle, partition, state, end_state, reason, reason_detail, hold,
        priority, dependency, eligible_at_us, start_at_us, end_at_us, time_limit_s, alloc, batch_node, exit_code,
        exit_signal, derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment, tres_alloc,
        suspended_by, suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us, preemptor_id, assoc_id, borrowed,
        completing_at_us, resized_at_us, stopped, failed_attempts, licenses_alloc, trace_one_in, request_job_id,
        request_key, request_json,
    ) = values  # fmt: skip
    fields = (
        job_id, attempt, array_job_id, job_id if request_id == job_id else request_id,
        requests.get(request_json) or read_request(request_json), one(spec_hash, spec_hash),
        request_key if request_job_id == job_id else "", one(user_id, user_id), one(group_id, group_id),
        one(user_name, user_name), one(group_name, group_name), submit_at_us, one(tres_req, tres_req), array_task_id,
        TaskSet.parse(array_tasks) if array_tasks is not None else None, array_throttle, one(partition, partition),
        JOB_STATES[state], JOB_STATES[end_state] if end_state is not None else None, REASONS[reason],
        reason_detail and one(reason_detail, reason_detail), HOLDS[hold], priority, dependency,
        submit_at_us if eligible_at_us == submit_at_us else eligible_at_us, start_at_us, end_at_us,
        one(time_limit_s, time_limit_s), () if alloc == "[]" else alloc_from(alloc),
        batch_node and one(batch_node, batch_node), exit_code, exit_signal, derived_code, derived_signal,
        cancelled_by_uid, failed_node, admin_comment, tres_alloc and one(tres_alloc, tres_alloc),
        SUSPENDS[suspended_by], suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us, preemptor_id, assoc_id,
        borrowed, completing_at_us, resized_at_us, stopped, failed_attempts, licenses_alloc, trace_one_in,
    )  # fmt: skip
    return tuple.__new__(JobRow, fields)


WaitingRowValues: TypeAlias = tuple[
    int, int, int, bytes, int, int, str, str, int, str, int | None, str, str, str, int, int, int, int, int, int, int,
    str, bytes,
]  # fmt: skip


def waiting_job_from(
    requests: Mapping[bytes, JobRequest],
    read_request: Callable[[bytes], JobRequest],
    one: One,
    values: WaitingRowValues,
) -> JobRow:
    """The row of a waiting job, of JOB_WAITING_COLUMNS and JOB_REQUEST_READ_COLUMNS. The other parameters: jobreader.py."""
    (
        job_id, array_job_id, request_id, spec_hash, user_id, group_id, user_name, group_name, submit_at_us, tres_req,
        array_task_id, partition, reason, reason_detail, hold, priority, eligible_at_us, time_limit_s, assoc_id,
        trace_one_in, request_job_id, request_key, request_json,
    ) = values  # fmt: skip
    return WaitingRow(
        job_id, array_job_id, job_id if request_id == job_id else request_id,
        requests.get(request_json) or read_request(request_json), one(spec_hash, spec_hash),
        request_key if request_job_id == job_id else "", one(user_id, user_id), one(group_id, group_id),
        one(user_name, user_name), one(group_name, group_name), submit_at_us, one(tres_req, tres_req), array_task_id,
        one(partition, partition), REASONS[reason], reason_detail and one(reason_detail, reason_detail), HOLDS[hold],
        priority, submit_at_us if eligible_at_us == submit_at_us else eligible_at_us, one(time_limit_s, time_limit_s),
        assoc_id, trace_one_in,
    )  # fmt: skip


def job_spec_values(row: SpecRow) -> Params:
    """A row of job_spec."""
    (
        spec_hash, script, argv, environment, _,
    ) = row  # fmt: skip
    return (
        spec_hash, script, join_strings(argv), join_strings(environment),
    )  # fmt: skip


def job_spec_from(values: tuple[bytes, bytes, bytes, bytes]) -> SpecRow:
    """A row of job_spec, from its columns."""
    (
        spec_hash, script, argv, environment,
    ) = values  # fmt: skip
    fields = (
        spec_hash, script, split_strings(argv), split_strings(environment), 0,
    )  # fmt: skip
    return tuple.__new__(SpecRow, fields)


def plain_step_values(row: StepRow) -> Params:
    """The first columns: all that a batch step has."""
    (
        job_id, attempt, step_id, name, state, node, epoch, tasks, start_at_us, end_at_us, exit_code, exit_signal,
        user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes,
    ) = row[:18]  # fmt: skip
    return (
        job_id, attempt, step_id, name, int(state), node, epoch, tasks, start_at_us, end_at_us, exit_code, exit_signal,
        user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes,
    )  # fmt: skip


def step_values(row: StepRow) -> Params:
    """All columns."""
    (
        job_id, attempt, step_id, name, state, node, epoch, tasks, start_at_us, end_at_us, exit_code, exit_signal,
        user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes, request, parts,
        spec_hash, step_key, node_list, nodes, cpus, tres_alloc, submit_at_us, time_limit_s, cancelled_by_uid, usage,
        note, ports, task_ends,
    ) = row  # fmt: skip
    return (
        job_id, attempt, step_id, name, int(state), node, epoch, tasks, start_at_us, end_at_us, exit_code, exit_signal,
        user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes,
        encode_json(request) if request is not None else None, parts_json(parts) if parts is not None else None,
        spec_hash or None, step_key, node_list, nodes, cpus, tres_alloc, submit_at_us, time_limit_s, cancelled_by_uid,
        usage, note, ",".join(map(str, ports)), task_ends or None,
    )  # fmt: skip


StepRowValues: TypeAlias = tuple[
    int, int, int, str, int, str, int, int, int, int, int, int, int, int, int, int, int, int, bytes | None, str | None,
    bytes | None, str, str, int, int, str, int, int, int, str, str, str, str | None,
]  # fmt: skip


def step_from(values: StepRowValues) -> StepRow:
    """A row of step, from its columns."""
    (
        job_id, attempt, step_id, name, state, node, epoch, tasks, start_at_us, end_at_us, exit_code, exit_signal,
        user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes, request, parts,
        spec_hash, step_key, node_list, nodes, cpus, tres_alloc, submit_at_us, time_limit_s, cancelled_by_uid, usage,
        note, ports, task_ends,
    ) = values  # fmt: skip
    fields = (
        job_id, attempt, step_id, name, JOB_STATES[state], node, epoch, tasks, start_at_us, end_at_us, exit_code,
        exit_signal, user_cpu_us, system_cpu_us, max_rss_kb, max_vmsize_kb, disk_read_bytes, disk_write_bytes,
        step_request_from(request) if request is not None else None, parts_from(parts) if parts is not None else None,
        spec_hash or b"", step_key, node_list, nodes, cpus, tres_alloc, submit_at_us, time_limit_s, cancelled_by_uid,
        usage, note, ports_from(ports), task_ends or "",
    )  # fmt: skip
    return tuple.__new__(StepRow, fields)


def job_history_from(values: tuple[int, int, int, str, str]) -> HistoryRow:
    """A row of job_history, from its columns."""
    (
        at_us, job_id, attempt, event, detail,
    ) = values  # fmt: skip
    fields = (
        at_us, job_id, attempt, event, detail,
    )  # fmt: skip
    return tuple.__new__(HistoryRow, fields)


def crontab_values(row: Crontab) -> Params:
    """A row of crontab."""
    (
        uid, user_name, text, jobs, disabled, changed_at_us,
    ) = row  # fmt: skip
    return (
        uid, user_name, text, json_text(jobs), json_text(disabled), changed_at_us,
    )  # fmt: skip


def crontab_from(values: tuple[int, str, str, str, str, int]) -> Crontab:
    """A row of crontab, from its columns."""
    (
        uid, user_name, text, jobs, disabled, changed_at_us,
    ) = values  # fmt: skip
    fields = (
        uid, user_name, text, cron_jobs_from(jobs), cron_lines_from(disabled), changed_at_us,
    )  # fmt: skip
    return tuple.__new__(Crontab, fields)


def event_trigger_values(row: Trigger) -> Params:
    """A row of event_trigger."""
    return (
        row.trigger_id, row.uid, row.job_id, row.kinds, encode_json(row._asdict()),
    )  # fmt: skip


def node_values(row: NodeRow) -> Params:
    """A row of node."""
    (
        name, flags, reason, reason_uid, reason_at_us, comment, boot_id, spool_id, version, last_busy_at_us, extra,
        resume_after_us, instance_id, instance_type,
    ) = row  # fmt: skip
    return (
        name, int(flags), reason, reason_uid, reason_at_us, comment, boot_id, spool_id, version, last_busy_at_us, extra,
        resume_after_us, instance_id, instance_type,
    )  # fmt: skip


def node_from(values: tuple[str, int, str, int, int, str, str, str, str, int, str, int, str, str]) -> NodeRow:
    """A row of node, from its columns."""
    (
        name, flags, reason, reason_uid, reason_at_us, comment, boot_id, spool_id, version, last_busy_at_us, extra,
        resume_after_us, instance_id, instance_type,
    ) = values  # fmt: skip
    fields = (
        name, NodeFlag(flags), reason, reason_uid, reason_at_us, comment, boot_id, spool_id, version, last_busy_at_us,
        extra, resume_after_us, instance_id, instance_type,
    )  # fmt: skip
    return tuple.__new__(NodeRow, fields)


def gpu_values(row: Gpu) -> Params:
    """A row of gpu."""
    return (
        row.node, row.uuid, row.slot, int(row.state()), row.reason(), gpu_json(row),
    )  # fmt: skip


def partition_state_from(values: tuple[str, str]) -> PartitionRow:
    """A row of partition_state, from its columns."""
    (
        name, state,
    ) = values  # fmt: skip
    fields = (
        name, state,
    )  # fmt: skip
    return tuple.__new__(PartitionRow, fields)


def reservation_values(row: Reservation) -> Params:
    """A row of reservation."""
    return (
        row.name, row.resv_id, row.start_at_us, row.end_at_us, int(row.flags), encode_json(row),
    )  # fmt: skip


def node_event_from(values: tuple[str, int, int, str, str, int, str]) -> NodeEvent:
    """A row of node_event, from its columns."""
    (
        node, start_at_us, end_at_us, state, reason, reason_uid, tres,
    ) = values  # fmt: skip
    fields = (
        node, start_at_us, end_at_us, state, reason, reason_uid, tres,
    )  # fmt: skip
    return tuple.__new__(NodeEvent, fields)


def reservation_span_from(values: tuple[int, int, int, str, int, str, str, str, str]) -> ReservationSpan:
    """A row of reservation_span, from its columns."""
    (
        resv_id, start_at_us, end_at_us, name, flags, nodes, tres, who, node_tres,
    ) = values  # fmt: skip
    fields = (
        resv_id, start_at_us, end_at_us, name, flags, nodes, tres, who, node_tres,
    )  # fmt: skip
    return tuple.__new__(ReservationSpan, fields)


def token_revocation_from(values: tuple[str, int]) -> TokenRevocation:
    """A row of token_revocation, from its columns."""
    (
        user_name, at_us,
    ) = values  # fmt: skip
    fields = (
        user_name, at_us,
    )  # fmt: skip
    return tuple.__new__(TokenRevocation, fields)


def personal_token_from(values: tuple[str, str, str, int, int, int, int, str]) -> PersonalToken:
    """A row of personal_token, from its columns."""
    (
        token_id, user_name, name, scope, created_at_us, ends_at_us, used_at_us, used_from,
    ) = values  # fmt: skip
    fields = (
        token_id, user_name, name, scope, created_at_us, ends_at_us, used_at_us, used_from,
    )  # fmt: skip
    return tuple.__new__(PersonalToken, fields)


def assoc_values(row: AssocRow) -> Params:
    """A row of assoc."""
    (
        assoc_id, account, user_name, parent, shares, priority, made_by_itself, deleted, partition, limits, qos,
        default_qos, created_at_us, budget,
    ) = row  # fmt: skip
    return (
        assoc_id, account, user_name, parent, shares, priority, int(made_by_itself), int(deleted), partition,
        limits_text(limits), ",".join(qos), default_qos, created_at_us, budget,
    )  # fmt: skip


def assoc_from(values: tuple[int, str, str, str, int, int, int, int, str, str, str, str, int, str]) -> AssocRow:
    """A row of assoc, from its columns."""
    (
        assoc_id, account, user_name, parent, shares, priority, made_by_itself, deleted, partition, limits, qos,
        default_qos, created_at_us, budget,
    ) = values  # fmt: skip
    fields = (
        assoc_id, account, user_name, parent, shares, priority, bool(made_by_itself), bool(deleted), partition,
        limits_from(limits), words(qos), default_qos, created_at_us, budget,
    )  # fmt: skip
    return tuple.__new__(AssocRow, fields)


def assoc_usage_from(values: tuple[int, int, int, str]) -> UsageRow:
    """A row of assoc_usage, from its columns."""
    (
        assoc_id, usage, at_us, tres,
    ) = values  # fmt: skip
    fields = (
        assoc_id, usage, at_us, tres,
    )  # fmt: skip
    return tuple.__new__(UsageRow, fields)


def account_values(row: AccountRow) -> Params:
    """A row of account."""
    (
        name, description, organization, coordinators, deleted,
    ) = row  # fmt: skip
    return (
        name, description, organization, ",".join(coordinators), int(deleted),
    )  # fmt: skip


def account_from(values: tuple[str, str, str, str, int]) -> AccountRow:
    """A row of account, from its columns."""
    (
        name, description, organization, coordinators, deleted,
    ) = values  # fmt: skip
    fields = (
        name, description, organization, words(coordinators), bool(deleted),
    )  # fmt: skip
    return tuple.__new__(AccountRow, fields)


def account_user_values(row: UserRow) -> Params:
    """A row of account_user."""
    (
        name, default_account, admin_level, default_wckey, deleted,
    ) = row  # fmt: skip
    return (
        name, default_account, admin_level, default_wckey, int(deleted),
    )  # fmt: skip


def account_user_from(values: tuple[str, str, int, str, int]) -> UserRow:
    """A row of account_user, from its columns."""
    (
        name, default_account, admin_level, default_wckey, deleted,
    ) = values  # fmt: skip
    fields = (
        name, default_account, admin_level, default_wckey, bool(deleted),
    )  # fmt: skip
    return tuple.__new__(UserRow, fields)


def wckey_values(row: WckeyRow) -> Params:
    """A row of wckey."""
    (
        wckey_id, name, user_name, deleted,
    ) = row  # fmt: skip
    return (
        wckey_id, name, user_name, int(deleted),
    )  # fmt: skip


def wckey_from(values: tuple[int, str, str, int]) -> WckeyRow:
    """A row of wckey, from its columns."""
    (
        wckey_id, name, user_name, deleted,
    ) = values  # fmt: skip
    fields = (
        wckey_id, name, user_name, bool(deleted),
    )  # fmt: skip
    return tuple.__new__(WckeyRow, fields)


def resource_values(row: ResourceRow) -> Params:
    """A row of resource."""
    (
        name, server, total, allowed_percent, type, manager, description, deleted,
    ) = row  # fmt: skip
    return (
        name, server, total, allowed_percent, type, manager, description, int(deleted),
    )  # fmt: skip


def resource_from(values: tuple[str, str, int, int, str, str, str, int]) -> ResourceRow:
    """A row of resource, from its columns."""
    (
        name, server, total, allowed_percent, type, manager, description, deleted,
    ) = values  # fmt: skip
    fields = (
        name, server, total, allowed_percent, type, manager, description, bool(deleted),
    )  # fmt: skip
    return tuple.__new__(ResourceRow, fields)


def tres_from(values: tuple[int, str]) -> TresRow:
    """A row of tres, from its columns."""
    (
        tres_id, name,
    ) = values  # fmt: skip
    fields = (
        tres_id, name,
    )  # fmt: skip
    return tuple.__new__(TresRow, fields)


def qos_values(row: Qos) -> Params:
    """A row of qos."""
    (
        name, description, priority, preempt, preempt_mode, grace_time_s, preempt_exempt_time_s, flags,
        usage_factor_ppm, limits, usage_threshold_ppm, limit_factor_ppm, qos_id, deleted,
    ) = row  # fmt: skip
    return (
        name, description, priority, ",".join(preempt), ",".join(preempt_mode), grace_time_s, preempt_exempt_time_s,
        ",".join(flags), usage_factor_ppm, limits_text(limits), usage_threshold_ppm, limit_factor_ppm, qos_id,
        int(deleted),
    )  # fmt: skip


def qos_from(values: tuple[str, str, int, str, str, int, int, str, int, str, int, int, int, int]) -> Qos:
    """A row of qos, from its columns."""
    (
        name, description, priority, preempt, preempt_mode, grace_time_s, preempt_exempt_time_s, flags,
        usage_factor_ppm, limits, usage_threshold_ppm, limit_factor_ppm, qos_id, deleted,
    ) = values  # fmt: skip
    fields = (
        name, description, priority, words(preempt), words(preempt_mode), grace_time_s, preempt_exempt_time_s,
        words(flags), usage_factor_ppm, limits_from(limits), usage_threshold_ppm, limit_factor_ppm, qos_id,
        bool(deleted),
    )  # fmt: skip
    return tuple.__new__(Qos, fields)


def budget_use_values(row: BudgetRow) -> Params:
    """A row of budget_use."""
    (
        assoc_id, unit, period, start_us, end_us, used, at_us,
    ) = row  # fmt: skip
    return (
        assoc_id, unit, period, start_us, end_us, str(used), at_us,
    )  # fmt: skip


def budget_use_from(values: tuple[int, str, str, int, int, str, int]) -> BudgetRow:
    """A row of budget_use, from its columns."""
    (
        assoc_id, unit, period, start_us, end_us, used, at_us,
    ) = values  # fmt: skip
    fields = (
        assoc_id, unit, period, start_us, end_us, int(used), at_us,
    )  # fmt: skip
    return tuple.__new__(BudgetRow, fields)
