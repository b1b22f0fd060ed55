"""Between the core's rows and SQL parameters. The hot path: every microsecond here is paid for with each job.

A row's parameters are a plain tuple in the order of its table's columns, so that the statements (statements.py) bind it
without names. A job's columns come in three parts: the key, what cannot change unless the request does (`_fixed`), and
what changes (`_life`). A new row needs all three, a later one only the last and the key.

Numbers and words are passed as plain int and str: the driver looks twice at subclasses such as enums.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from accounting.schema import join_strings, split_strings
from ctld.core.budget_book import BudgetRow
from ctld.core.fairshare import AccountRow, AssocRow, ResourceRow, UserRow, WckeyRow
from ctld.core.gpu_model import Gpu, GpuOpinion
from ctld.core.model import (
    GpuShare,
    HistoryRow,
    JobRequest,
    JobRow,
    NodeAlloc,
    NodeRow,
    PartitionRow,
    Qos,
    Reservation,
    SpecRow,
)
from ctld.core.periodic import CronJob, Crontab, Trigger
from ctld.core.plain import read_request
from penstock.values.amendment import Amendment
from penstock.values.hostlist import compress
from penstock.values.limits import NO_LIMITS, Limits, from_texts, texts
from penstock.values.states import Hold, JobState, NodeFlag, Reason, Suspend
from penstock.values.taskset import TaskSet

Params = tuple[Any, ...]

#: Allocations whose encoded form is remembered: a job's is written at its start, when it runs and at its end.
ALLOCATIONS_KEPT = 2_048

#: Requests whose JSON is remembered while rows are read: jobs of one array follow each other, others hardly repeat.
REQUESTS_KEPT = 1_000

encode_json = msgspec.json.Encoder().encode
_decode_gpu = msgspec.json.Decoder(dict[str, Any]).decode
_decode_reservation = msgspec.json.Decoder(Reservation).decode
_AllocJson = tuple[tuple[Any, ...], ...]
_decode_alloc = msgspec.json.Decoder(_AllocJson).decode

#: Fields of requests that are mostly the same in requests that differ.
_REPEATED = (
    "name", "partitions", "account", "qos", "comment", "work_dir", "std_err", "submit_host", "submit_dir", "command",
    "gres_per_node", "features", "rlimits", "export_env", "time_limit_s", "mem_per_node_mb", "mem_per_cpu_mb",
)  # fmt: skip
#: Fields that are the same in most jobs of a loop or script, and in no others: they are compared with the job before.
_ALIKE = ("std_out", "submit_line")

_repeated = attrgetter(*_REPEATED)

_STATES = {int(state): state for state in JobState}
_HOLDS = {int(hold): hold for hold in Hold}
_SUSPENDS = {int(why): why for why in Suspend}
_REASONS = {reason.value: reason for reason in Reason}


@lru_cache(maxsize=ALLOCATIONS_KEPT)
def _alloc_values(alloc: tuple[NodeAlloc, ...]) -> tuple[str, int, int, str]:
    """JSON, number of nodes, number of CPUs, hostlist. Masks are hexadecimal: a JSON number ends at 64 bits."""
    parts = [
        (
            a.node,
            a.cpus,
            a.mem_mb,
            a.tasks,
            [(n, t, f"{mask:x}") for n, t, mask in a.gres],
            f"{a.cpu_ids:x}",
            *((a.shares,) if a.shares else ()),
        )
        for a in alloc
    ]
    return encode_json(parts).decode(), len(alloc), sum(a.cpus for a in alloc), compress(a.node for a in alloc)


def _alloc_from(text: str) -> tuple[NodeAlloc, ...]:
    if text == "[]":
        return ()
    return tuple(
        NodeAlloc(
            node,
            cpus,
            mem_mb,
            tasks,
            tuple((n, t, int(mask, 16)) for n, t, mask in gres),
            int(more[0] if more else "0", 16),
            tuple(GpuShare(*share) for share in more[1]) if len(more) > 1 else (),
        )
        for node, cpus, mem_mb, tasks, gres, *more in _decode_alloc(text)
    )


def _fixed(row: JobRow) -> Params:
    request = row.request
    return (
        row.array_job_id, row.request_id, row.spec_hash, row.user_id, row.group_id, row.user_name, row.group_name,
        row.submit_at_us, request.name, request.account, request.qos, request.nodes_min,
        request.ntasks * request.cpus_per_task, row.tres_req,
    )  # fmt: skip


def _life(row: JobRow) -> Params:
    alloc, nodes_alloc, cpus_alloc, node_list = _alloc_values(row.alloc) if row.alloc else ("[]", 0, 0, "")
    return (
        row.array_task_id, row.array_tasks.format() if row.array_tasks is not None else None, row.array_throttle,
        row.partition, int(row.state), int(row.end_state) if row.end_state is not None else None, row.reason.value,
        row.reason_detail, int(row.hold), row.priority, row.dependency, row.eligible_at_us, row.start_at_us,
        row.end_at_us, row.time_limit_s, alloc, row.batch_node, row.exit_code, row.exit_signal, row.derived_code,
        row.derived_signal, row.cancelled_by_uid, row.failed_node, row.admin_comment, row.tres_alloc, nodes_alloc,
        cpus_alloc, node_list, int(row.suspended_by), row.suspended_us, row.suspended_at_us, row.preempt_at_us,
        row.preempt_end_at_us, row.preemptor_id,
    )  # fmt: skip


def job_insert(row: JobRow) -> Params:
    """All columns, for a new row or one whose request has changed."""
    request = row.request
    return (
        row.job_id, row.attempt, *_fixed(row), *_life(row), request.het_job_id, request.het_offset, request.wckey,
        row.assoc_id, row.borrowed,
    )  # fmt: skip


def job_update(row: JobRow) -> Params:
    """What changes, then the key."""
    return (*_life(row), row.assoc_id, row.borrowed, row.job_id, row.attempt)


#: Requests that are remembered while rows are read: arrays and equal submissions follow each other closely.
REQUESTS_KEPT = 4_096


class JobReader:
    """Decodes job rows. Equal requests that come close together become one object, and so do equal words of all."""

    #: In the order in which `read` takes them; the last three come from the table of requests.
    COLUMNS = (
        "job_id", "attempt", "array_job_id", "array_task_id", "array_tasks", "array_throttle", "request_id",
        "spec_hash", "user_id", "group_id", "user_name", "group_name", "partition", "state", "end_state", "reason",
        "reason_detail", "hold", "priority", "dependency", "submit_at_us", "eligible_at_us", "start_at_us", "end_at_us",
        "time_limit_s", "alloc", "batch_node", "exit_code", "exit_signal", "derived_code", "derived_signal",
        "cancelled_by_uid", "failed_node", "admin_comment", "tres_req", "tres_alloc", "suspended_by", "suspended_us",
        "suspended_at_us", "preempt_at_us", "preempt_end_at_us", "preemptor_id", "assoc_id", "borrowed",
    )  # fmt: skip
    REQUEST_COLUMNS = ("job_id", "submit_key", "request")

    def __init__(self) -> None:
        self._requests: dict[bytes, JobRequest] = {}
        self._words: dict[Any, Any] = {}
        self._last = JobRequest()

    def read(self, values: Params) -> JobRow:
        """One row of COLUMNS and REQUEST_COLUMNS."""
        (
            job_id, attempt, array_job_id, array_task_id, array_tasks, array_throttle, request_id, spec_hash, user_id,
            group_id, user_name, group_name, partition, state, end_state, reason, reason_detail, hold, priority,
            dependency, submit_at_us, eligible_at_us, start_at_us, end_at_us, time_limit_s, alloc, batch_node,
            exit_code, exit_signal, derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment,
            tres_req, tres_alloc, suspended_by, suspended_us, suspended_at_us, preempt_at_us, preempt_end_at_us,
            preemptor_id, assoc_id, borrowed, key_job_id, submit_key, request_json,
        ) = values  # fmt: skip
        request = self._requests.get(request_json) or self._request(request_json)
        one: Callable[[Any, Any], Any] = self._words.setdefault
        values = (
            job_id, attempt, array_job_id, array_task_id,
            TaskSet.parse(array_tasks) if array_tasks is not None else None, array_throttle, request_id, request,
            one(spec_hash, spec_hash), submit_key if key_job_id == job_id else "", one(user_id, user_id),
            one(group_id, group_id),
            one(user_name, user_name), one(group_name, group_name), one(partition, partition), _STATES[state],
            _STATES[end_state] if end_state is not None else None, _REASONS[reason],
            reason_detail and one(reason_detail, reason_detail),
            _HOLDS[hold], priority, dependency, submit_at_us,
            submit_at_us if eligible_at_us == submit_at_us else eligible_at_us, start_at_us, end_at_us,
            one(time_limit_s, time_limit_s), () if alloc == "[]" else _alloc_from(alloc),
            batch_node and one(batch_node, batch_node), exit_code, exit_signal,
            derived_code, derived_signal, cancelled_by_uid, failed_node, admin_comment, one(tres_req, tres_req),
            tres_alloc and one(tres_alloc, tres_alloc), _SUSPENDS[suspended_by], suspended_us, suspended_at_us, preempt_at_us,
            preempt_end_at_us, preemptor_id, assoc_id, borrowed,
        )  # fmt: skip
        return tuple.__new__(JobRow, values)  # as JobRow(...), without the call in between

    def _request(self, request_json: bytes) -> JobRequest:
        if len(self._requests) >= REQUESTS_KEPT:
            self._requests.clear()
        request = self._requests[request_json] = read_request(request_json)
        one = self._words.setdefault
        for name, value in zip(_REPEATED, _repeated(request), strict=True):
            if value and (known := one(value, value)) is not value:
                # Nobody else has the new record yet: that it is frozen is not broken by this.
                msgspec.structs.force_setattr(request, name, known)
        before = self._last
        for name in _ALIKE:
            if (value := getattr(request, name)) and value == getattr(before, name):
                msgspec.structs.force_setattr(request, name, getattr(before, name))
        self._last = request
        return request


def request_values(request_id: int, request: JobRequest, owner: JobRow) -> Params:
    """A row of job_request; `owner` is the job for which the request was made."""
    return (request_id, owner.job_id, owner.submit_key, owner.submit_at_us, encode_json(request))


def budget_values(row: BudgetRow) -> Params:
    """A row of budget_use. What is used may be more than a column of numbers holds."""
    return (*row[:5], str(row.used), row.at_us)


def budget_from(values: Params) -> BudgetRow:
    """The reverse of `budget_values`."""
    return BudgetRow(*values)._replace(used=int(values[5]))


def spec_values(row: SpecRow) -> Params:
    """A row of job_spec."""
    return (row.spec_hash, row.script, join_strings(row.argv), join_strings(row.environment))


def spec_from(values: Params) -> SpecRow:
    """The reverse of `spec_values`."""
    spec_hash, script, argv, environment = values
    return SpecRow(spec_hash, script, split_strings(argv), split_strings(environment))


def node_values(row: NodeRow) -> Params:
    """A row of node."""
    name, flags, *rest = row
    return (name, int(flags), *rest)


def node_from(values: Params) -> NodeRow:
    """The reverse of `node_values`."""
    name, flags, *rest = values
    return NodeRow(name, NodeFlag(flags), *rest)


def partition_from(values: Params) -> PartitionRow:
    """A row of partition_state."""
    return PartitionRow(*values)


def amendment_values(row: Amendment, place: int) -> Params:
    """A row of amendment."""
    return (row.kind, row.name, place, encode_json(row._asdict()))


def amendment_from(record: bytes) -> Amendment:
    """The reverse of `amendment_values`, from the record."""
    return msgspec.convert(_in_order(Amendment, msgspec.json.decode(record)), Amendment)


def assoc_values(row: AssocRow) -> Params:
    """A row of assoc."""
    return (
        row.assoc_id, row.account, row.user_name, row.parent, row.shares, row.priority, int(row.made_by_itself),
        int(row.deleted), row.partition, _limits_text(row.limits), ",".join(row.qos), row.default_qos,
        row.created_at_us, row.budget,
    )  # fmt: skip


def assoc_from(values: Params) -> AssocRow:
    """The reverse of `assoc_values`."""
    row = AssocRow(*values)
    return row._replace(
        made_by_itself=bool(row.made_by_itself),
        deleted=bool(row.deleted),
        limits=_limits_from(values[9]),
        qos=_words(values[10]),
    )


def _limits_text(limits: Limits) -> str:
    return encode_json(texts(limits)).decode() if limits is not NO_LIMITS else "{}"


def _limits_from(text: str) -> Limits:
    return from_texts(msgspec.json.decode(text)) if text != "{}" else NO_LIMITS


def _words(joined: str) -> tuple[str, ...]:
    return tuple(word for word in joined.split(",") if word)


def account_values(row: AccountRow) -> Params:
    """A row of account."""
    return (row.name, row.description, row.organization, ",".join(row.coordinators), int(row.deleted))


def account_from(values: Params) -> AccountRow:
    """The reverse of `account_values`."""
    name, description, organization, coordinators, deleted = values
    return AccountRow(name, description, organization, _words(coordinators), bool(deleted))


def flagged_values(row: UserRow | WckeyRow | ResourceRow) -> Params:
    """A row of account_user, wckey or resource: `deleted` is the last column."""
    return (*row[:-1], int(row.deleted))


def user_from(values: Params) -> UserRow:
    """The reverse, for a user."""
    return UserRow(*values)._replace(deleted=bool(values[-1]))


def wckey_from(values: Params) -> WckeyRow:
    """The reverse, for a wckey."""
    return WckeyRow(*values)._replace(deleted=bool(values[-1]))


def resource_from(values: Params) -> ResourceRow:
    """The reverse, for licences."""
    return ResourceRow(*values)._replace(deleted=bool(values[-1]))


def reservation_values(row: Reservation) -> Params:
    """A row of reservation: what can be asked for, and the whole record as JSON."""
    return (row.name, row.resv_id, row.start_at_us, row.end_at_us, int(row.flags), encode_json(row))


def reservation_from(record: bytes) -> Reservation:
    """The reverse of `reservation_values`, from the record."""
    return _decode_reservation(record)


def gpu_values(gpu: Gpu) -> Params:
    """A row of gpu: what can be asked for, and the whole record as JSON."""
    record = encode_json({**gpu._asdict(), "opinion": gpu.opinion._asdict()})
    return (gpu.node, gpu.uuid, gpu.slot, int(gpu.state()), gpu.reason(), record)


def gpu_from(record: bytes) -> Gpu:
    """The reverse of `gpu_values`, from the record."""
    found = _decode_gpu(record)
    found["opinion"] = _in_order(GpuOpinion, found["opinion"])
    return msgspec.convert(_in_order(Gpu, found), Gpu)


def _in_order(kind: Any, found: dict[str, Any]) -> list[Any]:
    """Its fields by name as a list; one that the record is too old for has its default, one from a later version is left out."""
    return [found.get(name, kind._field_defaults.get(name)) for name in kind._fields]


def crontab_values(row: Crontab) -> Params:
    """A row of crontab."""
    jobs, disabled = encode_json(row.jobs).decode(), encode_json(row.disabled).decode()
    return (row.uid, row.user_name, row.text, jobs, disabled, row.changed_at_us)


def crontab_from(values: Params) -> Crontab:
    """The reverse of `crontab_values`."""
    uid, user_name, text, jobs, disabled, changed_at_us = values
    entries = tuple(CronJob(*job) for job in msgspec.json.decode(jobs))
    lines = tuple((first, last) for first, last in msgspec.json.decode(disabled))
    return Crontab(uid, user_name, text, entries, lines, changed_at_us)


def trigger_values(row: Trigger) -> Params:
    """A row of event_trigger: what can be asked for, and the whole record as JSON."""
    return (row.trigger_id, row.uid, row.job_id, row.kinds, encode_json(row._asdict()))


def trigger_from(record: bytes) -> Trigger:
    """The reverse of `trigger_values`, from the record."""
    return msgspec.convert(_in_order(Trigger, msgspec.json.decode(record)), Trigger)


def qos_values(record: Qos) -> Params:
    """A row of qos; lists are joined by commas, which no name of theirs holds."""
    values = {**record._asdict(), "limits": _limits_text(record.limits), "deleted": int(record.deleted)}
    return tuple(",".join(value) if isinstance(value, tuple) else value for value in values.values())


def qos_from(values: Params) -> Qos:
    """The reverse of `qos_values`."""
    fields = dict(zip(Qos._fields, values, strict=True))
    for name in ("preempt", "preempt_mode", "flags"):
        fields[name] = _words(fields[name])
    fields["limits"], fields["deleted"] = _limits_from(fields["limits"]), bool(fields["deleted"])
    return Qos(**fields)


def history_from(values: Params) -> HistoryRow:
    """A row of job_history, without its number."""
    return HistoryRow(*values)
