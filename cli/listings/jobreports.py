"""Reports that the controller makes from jobs (RPC Report): what their rows say. `penstock waste`, `penstock report` and the REST
interface read them here, so that all show the same figures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cli.base.document import Json
    from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
    from penstock.v1.governance_pb2 import ReportRequest, ReportRow

#: What unused GPU time is ranked by.
WASTE_BY: Final = ("user", "account", "name")


class Waits(NamedTuple):
    """Seconds that jobs waited before they started."""

    jobs: int
    mean_s: int
    median_s: int
    p95_s: int
    longest_s: int


class Efficiency(NamedTuple):
    """Used fractions of the allocation; None = nothing was allocated, or nothing measured."""

    jobs: int
    cpu: float | None
    memory: float | None
    gpu: float | None


def waits_of(values: Sequence[int]) -> Waits:
    """Of a row of WAITS."""
    jobs, total_s, median_s, p95_s, longest_s = values[:5]
    return Waits(jobs, total_s // jobs if jobs else 0, median_s, p95_s, longest_s)


def efficiency_of(values: Sequence[int]) -> Efficiency:
    """Of a row of EFFICIENCY."""
    jobs, cpu, cpu_of, mem, mem_of, gpu, gpu_of = values[:7]
    return Efficiency(jobs, _part(cpu, cpu_of), _part(mem, mem_of), _part(gpu, gpu_of))


def _part(used: int, of: int) -> float | None:
    return used / of if of else None


# ---- waste


def waste_request(by: str, start_us: int, end_us: int) -> "ReportRequest":
    """GPU time that jobs which ended then had and did not use, most first; `by`: of WASTE_BY."""
    from penstock.v1.governance_pb2 import ReportRequest

    return ReportRequest(kind=ReportRequest.Kind.WASTE, start_at_us=start_us, end_at_us=end_us, group_by=[by])


def worst_jobs(rows: "Iterable[ReportRow]") -> "ListRecordsRequest | None":
    """The records of the worst job of each row, for their command lines; None without rows."""
    from penstock.v1.accounting_pb2 import ListRecordsRequest

    ids = [str(row.values[3]) for row in rows]
    return ListRecordsRequest(ids=ids, no_steps=True) if ids else None


def command_lines(records: "Iterable[JobRecord]") -> dict[int, str]:
    """By job: as it was submitted."""
    return {one.job_id: one.request.submit_line or one.request.command for one in records}


def waste_object(row: "ReportRow", commands: Mapping[int, str]) -> "Json":
    """A row of WASTE, as `penstock waste --json` writes it; no command of a job that the caller may not see."""
    jobs, unused_s, held_s, worst, most_s = row.values
    return {
        "name": row.keys[0], "jobs": jobs, "unused_gpu_s": unused_s, "allocated_gpu_s": held_s, "worst_job": worst,
        "worst_unused_gpu_s": most_s, "worst_command": commands.get(worst),
    }  # fmt: skip
