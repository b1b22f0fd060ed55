"""Jobs of a period from the accounting records, with what they used, in /penstock/v1/:

    GET /penstock/v1/jobs/past    a window of them, the newest first

A row has what a column of `sacct` shows of a job. Figures that are measured by step are the job's largest (memory) or their sum
(CPU time, bytes, energy), over steps whose figures are recorded: those that have ended.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from cli.base.document import Json
from cli.base.format import DisplayClock
from cli.base.listing import STATE_OF_WORD, words
from cli.listings.sacct_fields import (
    RecordRow,
    RecordView,
    account_of,
    cpu_us,
    elapsed_s,
    exit_of,
    job_energy_j,
    planned_s,
    priority_of,
    shown_cpus,
    state_of,
    suspended_us,
    tres_text,
    wckey_of,
)
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply, ListRecordsRequest, RecordWindow
from penstock.values.jobcolumns import WINDOW_ROWS_MAX
from penstock.values.jobid import JOB_ID_MAX
from rest.calling import RestCall, bad_query
from rest.contract.parse import CONVERSION, UNKNOWN_WORD
from rest.handlers.usage import DAY_US

#: Rows without `count`.
ROWS: Final = 200
_Value: TypeAlias = Callable[[RecordRow, RecordView], object]


def _job(value: Callable[[JobRecord], object]) -> _Value:
    return lambda row, view: value(row.job)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _usage(name: str, total: Callable[..., int]) -> _Value:
    """A figure over all steps; null: none is recorded."""

    def of(row: RecordRow, view: RecordView) -> int | None:
        found = [getattr(step.usage, name) for step in row.job.steps if step.HasField("usage")]
        return total(found) if found else None

    return of


def _cpu_used_us(row: RecordRow, view: RecordView) -> int | None:
    is_recorded = any(step.HasField("usage") for step in row.job.steps)
    return cpu_us(row, user=True, system=True) if is_recorded else None


#: The members of a row: type, and value.
_MEMBERS: Final[Mapping[str, tuple[str, _Value]]] = {
    "job_id": ("integer", _job(lambda job: job.job_id)),
    "shown_id": ("string", lambda row, view: row.id_text()),
    "attempt": ("integer", _job(lambda job: job.attempt)),
    "name": ("string", _job(lambda job: job.request.name)),
    "user_name": ("string", _job(lambda job: job.user_name)),
    "group_name": ("string", _job(lambda job: job.group_name)),
    "account": ("string", _job(account_of)),
    "partition": ("string", _job(lambda job: job.partition)),
    "qos": ("string", _job(lambda job: job.request.qos)),
    "wckey": ("string", _job(wckey_of)),
    "state": ("string", lambda row, view: state_of(row)),
    "reason": ("string", _job(lambda job: job.reason)),
    "exit_code": ("integer", lambda row, view: exit_of(row).code),
    "exit_signal": ("integer", lambda row, view: exit_of(row).signal),
    "derived_exit_code": ("integer", _job(lambda job: job.derived_exit.code)),
    "failed_node": ("string", _job(lambda job: job.failed_node)),
    "submit_at_us": ("integer", _job(lambda job: job.submit_at_us)),
    "eligible_at_us": ("integer", _job(lambda job: job.eligible_at_us)),
    "start_at_us": ("integer", _job(lambda job: job.start_at_us)),
    "end_at_us": ("integer", _job(lambda job: job.end_at_us)),
    "waited_s": ("integer", planned_s),
    "elapsed_s": ("integer", elapsed_s),
    "suspended_s": (
        "integer",
        lambda row, view: suspended_us(row, row.job.end_at_us or view.clock.now_us) // 1_000_000,
    ),
    "time_limit_s": ("integer", _job(lambda job: job.time_limit_s)),
    "priority": ("integer", _job(priority_of)),
    "nodes": ("integer", _job(lambda job: job.nodes_alloc)),
    "node_list": ("string", _job(lambda job: job.node_list)),
    "cpus": ("integer", lambda row, view: shown_cpus(row)),
    "tres": ("string", _job(lambda job: tres_text(job.tres_alloc))),
    "tres_requested": ("string", _job(lambda job: tres_text(job.tres_req))),
    "steps": ("integer", _job(lambda job: len(job.steps))),
    "cpu_allocated_s": ("integer", lambda row, view: shown_cpus(row) * elapsed_s(row, view)),
    "cpu_used_us": ("integer?", _cpu_used_us),
    "user_cpu_us": ("integer?", _usage("user_cpu_us", sum)),
    "system_cpu_us": ("integer?", _usage("system_cpu_us", sum)),
    "max_rss_kb": ("integer?", _usage("max_rss_kb", max)),
    "max_vmsize_kb": ("integer?", _usage("max_vmsize_kb", max)),
    "disk_read_bytes": ("integer?", _usage("disk_read_bytes", sum)),
    "disk_written_bytes": ("integer?", _usage("disk_write_bytes", sum)),
    "energy_joules": ("integer?", _job(job_energy_j)),
    "reservation": ("string", _job(lambda job: job.request.reservation)),
    "features": ("string", _job(lambda job: job.request.features)),
    "licenses": ("string", _job(lambda job: job.request.licenses)),
    "comment": ("string", _job(lambda job: job.request.comment)),
    "admin_comment": ("string", _job(lambda job: job.admin_comment)),
    "system_comment": ("string", _job(lambda job: job.system_comment)),
    "submit_line": ("string", _job(lambda job: job.request.submit_line)),
    "work_dir": ("string", _job(lambda job: _text(job.request.work_dir))),
    "std_out": ("string", _job(lambda job: _text(job.std_out))),
    "std_err": ("string", _job(lambda job: _text(job.std_err))),
}
PAST: Final = {name: kind for name, (kind, _) in _MEMBERS.items()}
PARAMETERS: Final = (
    "start",
    "end",
    "users",
    "accounts",
    "partitions",
    "qos",
    "names",
    "states",
    "nodes",
    "first",
    "count",
)


async def past_jobs(call: RestCall) -> Json:
    """A window of the jobs of a period; without times, of the last day. Each job's last attempt."""
    request = _request(call)
    total = 0
    found: list[JobRecord] = []
    page: ListRecordsReply
    async for page in call.pages("ListRecords", request):
        total += page.total
        found += page.records
    view = RecordView(DisplayClock(call.now_us))
    if not all(one.end_at_us for one in found):
        call.tag.vary(str(call.now_us // 1_000_000))  # those that run have an elapsed time
    call.check_modified()
    rows = [RecordRow(one, None) for one in found]
    return {"jobs": [{name: value(row, view) for name, (_, value) in _MEMBERS.items()} for row in rows], "total": total}


def _request(call: RestCall) -> ListRecordsRequest:
    get = call.query.get
    states = [STATE_OF_WORD.get(word.upper(), "") for word in words(get("states"))]
    if not all(states):
        raise bad_query("states", get("states", ""), UNKNOWN_WORD)
    start_us, end_us = call.time_us("start"), call.time_us("end")
    if start_us and end_us and start_us >= end_us:
        raise bad_query("start", get("start", ""), UNKNOWN_WORD)
    for name, largest in (("first", JOB_ID_MAX), ("count", WINDOW_ROWS_MAX)):
        if call.number(name) > largest:
            raise bad_query(name, get(name, ""), CONVERSION)
    return ListRecordsRequest(
        users=words(get("users")), accounts=words(get("accounts")), partitions=words(get("partitions")),
        qos=words(get("qos")), names=words(get("names")), states=sorted(set(states)),
        nodes=[node] if (node := get("nodes")) else (),
        start_at_us=start_us or (end_us or call.now_us) - DAY_US, end_at_us=end_us or (call.now_us if states else 0),
        window=RecordWindow(first=call.number("first"), count=call.number("count") or ROWS),
    )  # fmt: skip
