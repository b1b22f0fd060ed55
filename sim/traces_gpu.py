"""Published logs of GPU clusters with times, as tables of comma-separated values or as JSON.

    philly    Microsoft's Philly, `cluster_job_log` of msr-fiddle/philly-traces: JSON, attempts with their GPUs by node
    helios    SenseTime's Helios, `cluster_log.csv` of S-Lab-System-Group/HeliosData
    pai       Alibaba's GPU cluster of 2020, `pai_task_table.csv` of alibaba/clusterdata, with or without its header line
    openb     Alibaba's GPU cluster of 2023, `openb_pod_list_*.csv` of the same; sim/openb.py places its pods without times

What a log does not have is UNKNOWN; no log of these has requested times. Philly has no CPUs: each job counts as one for
each of its GPUs. In that of 2020 submissions are not known: a task is submitted when it is launched.
"""

import csv
import json
from collections.abc import Iterator

from penstock.values.errors import BadValue
from sim.tracefile import TraceError
from sim.tracerows import ENDS_FIRST, NEVER_ENDED, NEVER_STARTED, NO_SUBMIT, LogJson, LogRow, date_s, read_rows
from sim.workload import UNKNOWN, Workload

_MILLI = 1000
_GB_MB = 1024
#: Columns of a table of 2020, which has no header line.
PAI_COLUMNS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip

_Row = dict[str, str]


def parse_philly(path: str, lines: list[str]) -> Workload:
    """The workload of a log of Philly; raises TraceError."""
    try:
        document: LogJson = json.loads("\n".join(lines), strict=False)
        jobs = [("job " + str(job["jobid"]), job) for job in document]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TraceError(path, 0, f"not the JSON of a cluster_job_log ({error})") from None
    return read_rows(path, jobs, _philly, "column")


def _philly(number: int, job: LogJson) -> LogRow | str:
    """A job: it runs from the start of its first attempt, as long as all attempts together."""
    attempts = [a for a in job["attempts"] or () if date_s(_text(a, "start_time"), "start_time") != UNKNOWN]
    if not attempts:
        return NEVER_STARTED
    ran = [(date_s(_text(a, "start_time"), "start_time"), date_s(_text(a, "end_time"), "end_time")) for a in attempts]
    if any(end_s == UNKNOWN for _, end_s in ran):
        return NEVER_ENDED
    parts = attempts[0].get("detail") or ()
    gpus = sum(len(part["gpus"]) for part in parts)
    return _row(
        number,
        date_s(_text(job, "submitted_time"), "submitted_time"),
        ran[0][0],
        sum(end_s - begin_s for begin_s, end_s in ran),
        procs=max(1, gpus),
        nodes=len(parts) or 1,
        gpu_milli=gpus * _MILLI,
        user=str(job.get("user", "")),
        group=str(job.get("vc", "")),
        name=str(job["jobid"]),
    )


def _text(member: LogJson, name: str) -> str:
    found = member.get(name)
    return "" if found is None else str(found)


def parse_helios(path: str, lines: list[str]) -> Workload:
    """The workload of a log of Helios; raises TraceError."""
    return read_rows(path, _table(path, lines, ()), _helios, "column")


def _helios(number: int, row: _Row) -> LogRow | str:
    begin_s, end_s, missing = _times(row, "start_time", "end_time")
    if missing:
        return missing
    return _row(
        number,
        date_s(row["submit_time"], "submit_time"),
        begin_s,
        end_s - begin_s,
        procs=_count(row, "cpu_num"),
        nodes=max(1, _count(row, "node_num")),
        gpu_milli=_count(row, "gpu_num") * _MILLI,
        user=row.get("user", ""),
        group=row.get("vc", ""),
        name=row.get("job_id", ""),
    )


def parse_pai(path: str, lines: list[str]) -> Workload:
    """The workload of a table of tasks of 2020; raises TraceError."""
    return read_rows(path, _table(path, lines, PAI_COLUMNS), _pai, "column")


def _pai(number: int, row: _Row) -> LogRow | str:
    """A task: so many instances, each with hundredths of CPUs and GPUs."""
    begin_s, end_s, missing = _times(row, "start_time", "end_time")
    if missing:
        return missing
    instances = max(1, _count(row, "inst_num"))
    cpus, gpus = _amount(row, "plan_cpu"), _amount(row, "plan_gpu")
    return _row(
        number,
        begin_s,
        begin_s,
        end_s - begin_s,
        procs=instances * max(1, round(cpus / 100)),
        nodes=UNKNOWN,
        gpu_milli=instances * round(gpus * 10),
        mem_mb=round(instances * _amount(row, "plan_mem") * _GB_MB) or UNKNOWN,
        name=f"{row['job_name']} {row['task_name']}",
    )


def parse_pods(path: str, lines: list[str]) -> Workload:
    """The workload of a list of pods of 2023; raises TraceError."""
    return read_rows(path, _table(path, lines, ()), _pod, "column")


def _pod(number: int, row: _Row) -> LogRow | str:
    begin_s, end_s, missing = _times(row, "scheduled_time", "deletion_time")
    if missing:
        return missing
    return _row(
        number,
        date_s(row["creation_time"], "creation_time"),
        begin_s,
        end_s - begin_s,
        procs=max(1, -(-_count(row, "cpu_milli") // _MILLI)),
        nodes=1,
        gpu_milli=_count(row, "num_gpu") * _count(row, "gpu_milli"),
        mem_mb=_count(row, "memory_mib"),
        group=row.get("qos", ""),
        name=row.get("name", ""),
    )


def _times(row: _Row, begin: str, end: str) -> tuple[int, int, str]:
    """Begin and end of a job; and why it is left out if one is unknown."""
    begin_s, end_s = date_s(row[begin], begin), date_s(row[end], end)
    if begin_s == UNKNOWN:
        return begin_s, end_s, NEVER_STARTED
    return begin_s, end_s, NEVER_ENDED if end_s == UNKNOWN else ""


def _row(
    number: int, submit_s: int, begin_s: int, run_s: int, *, procs: int, nodes: int, gpu_milli: int,
    mem_mb: int = UNKNOWN, user: str = "", group: str = "", name: str = "",
) -> LogRow | str:  # fmt: skip
    """A job of these logs; or why it is left out."""
    if submit_s == UNKNOWN:
        return NO_SUBMIT
    if run_s < 0:
        return ENDS_FIRST
    return LogRow(
        number, submit_s, begin_s - submit_s, run_s, UNKNOWN, procs, procs, nodes, mem_mb, gpu_milli, user, group, name
    )


def _table(path: str, lines: list[str], columns: tuple[str, ...]) -> Iterator[tuple[str, _Row]]:
    """The rows with their locations; `columns` where the first line is no header."""
    reader = csv.reader(lines)
    try:
        for fields in reader:
            if not fields or [field.strip() for field in fields] == list(columns):
                continue
            if not columns:
                columns = tuple(field.strip() for field in fields)
            elif len(fields) != len(columns):
                raise TraceError(path, reader.line_num, f"{len(fields)} fields, and there are {len(columns)} columns")
            else:
                yield f"line {reader.line_num}", dict(zip(columns, fields, strict=True))
    except csv.Error as error:
        raise TraceError(path, reader.line_num, f"not comma-separated values ({error})") from None


def _amount(row: _Row, name: str) -> float:
    """A number that is not negative; 0 where there is none."""
    text = row[name].strip()
    value = float(text) if text else 0.0
    if not 0 <= value < 2**40:
        raise BadValue(f"{name} is {text!r}, not a number")
    return value


def _count(row: _Row, name: str) -> int:
    return int(_amount(row, name))
