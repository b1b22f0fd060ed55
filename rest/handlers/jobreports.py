"""Reports of a period that are made from jobs, in the figures of `penstock waste` and `penstock report`:

GET /penstock/v1/waste        GPU time that was allocated and not used, most first
GET /penstock/v1/efficiency   what jobs used of what they had
GET /penstock/v1/waits        how long jobs waited before they started

Times are widened to whole hours. Jobs count by their end, for waits by their start; who may see them is the controller's word.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cli.base.document import Json
from cli.listings.jobreports import (
    WASTE_BY,
    command_lines,
    efficiency_of,
    waits_of,
    waste_object,
    waste_request,
    worst_jobs,
)
from penstock.v1.governance_pb2 import ReportReply, ReportRequest, ReportRow
from rest.calling import RestCall, bad_query
from rest.contract.facts import Words
from rest.contract.parse import UNKNOWN_WORD
from rest.handlers.usage import DAY_US, GROUPS, period
from rest.listing import listing

if TYPE_CHECKING:
    from penstock.v1.accounting_pb2 import JobRecord

#: Rows of an answer of /waste, which are looked up each: without `count`, and at most.
WASTE_ROWS: Final = 100
WASTE_ROWS_MAX: Final = 1_000
#: Without times.
WASTE_PERIOD_US: Final = 7 * DAY_US
WASTE_GROUPS: Final = Words(WASTE_BY)
WAIT_GROUPS: Final = Words((*GROUPS.words, "gpu_type", "gpus"))

#: Members of a row, and their types.
WASTE: Final = {
    "name": "string", "jobs": "integer", "unused_gpu_s": "integer", "allocated_gpu_s": "integer", "worst_job": "integer",
    "worst_unused_gpu_s": "integer", "worst_command": "string?",
}  # fmt: skip
EFFICIENCY: Final = {
    "keys": "string[]", "jobs": "integer", "cpu_used_s": "integer", "cpu_allocated_s": "integer", "cpu_percent": "number?",
    "memory_used_mb_s": "integer", "memory_allocated_mb_s": "integer", "memory_percent": "number?",
    "gpu_used_s": "integer", "gpu_allocated_s": "integer", "gpu_percent": "number?",
}  # fmt: skip
WAITS: Final = {
    "keys": "string[]", "jobs": "integer", "mean_s": "integer", "median_s": "integer", "p95_s": "integer", "longest_s": "integer",
}  # fmt: skip


async def waste(call: RestCall) -> Json:
    """The ranking of `penstock waste`; without times, of the last seven days."""
    by = call.words("by") or [WASTE_BY[0]]
    if len(by) > 1:
        raise bad_query("by", call.query["by"], UNKNOWN_WORD)
    count = call.number("count") or WASTE_ROWS
    if count > WASTE_ROWS_MAX:
        raise bad_query("count", call.query["count"], UNKNOWN_WORD)
    start_us, end_us = period(call, WASTE_PERIOD_US)
    rows: list[ReportRow] = []
    async for page in call.pages("Report", waste_request(by[0], start_us, end_us)):
        rows += page.rows
        if len(rows) >= count:
            break
    del rows[count:]
    commands = await _commands(call, rows)
    call.check_modified()
    return _answer(start_us, end_us, [waste_object(row, commands) for row in rows])


async def _commands(call: RestCall, rows: list[ReportRow]) -> dict[int, str]:
    request = worst_jobs(rows)
    records: list[JobRecord] = []
    if request:
        async for page in call.pages("ListRecords", request):
            records += page.records
    return command_lines(records)


async def efficiency(call: RestCall) -> Json:
    """What jobs that ended used of what they had; without times, in the last day."""
    start_us, end_us = period(call)
    request = ReportRequest(
        kind=ReportRequest.EFFICIENCY,
        start_at_us=start_us,
        end_at_us=end_us,
        group_by=call.words("group_by") or ["account"],
    )
    return _answer(start_us, end_us, await listing(call, "Report", request, _efficiency))


async def waits(call: RestCall) -> Json:
    """How long jobs that started had waited; without times, in the last day."""
    start_us, end_us = period(call)
    request = ReportRequest(
        kind=ReportRequest.WAITS, start_at_us=start_us, end_at_us=end_us,
        group_by=call.words("group_by") or ["partition", "gpu_type"],
    )  # fmt: skip
    return _answer(start_us, end_us, await listing(call, "Report", request, _waits))


def _answer(start_us: int, end_us: int, rows: object) -> Json:
    return {"start_at_us": start_us, "end_at_us": end_us, "rows": rows}


def _efficiency(page: ReportReply) -> Iterable[Json]:
    for row in page.rows:
        jobs, cpu, cpu_of, mem, mem_of, gpu, gpu_of = row.values[:7]
        parts = efficiency_of(row.values)
        yield {
            "keys": list(row.keys), "jobs": jobs,
            "cpu_used_s": cpu, "cpu_allocated_s": cpu_of, "cpu_percent": _percent(parts.cpu),
            "memory_used_mb_s": mem, "memory_allocated_mb_s": mem_of, "memory_percent": _percent(parts.memory),
            "gpu_used_s": gpu, "gpu_allocated_s": gpu_of, "gpu_percent": _percent(parts.gpu),
        }  # fmt: skip


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


def _waits(page: ReportReply) -> Iterable[Json]:
    for row in page.rows:
        yield {"keys": list(row.keys), **waits_of(row.values)._asdict()}
