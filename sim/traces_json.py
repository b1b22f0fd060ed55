"""The output of `sacct --json`, of Slurm and of Penstock: `{"jobs": [...]}`.

Numbers may be plain or `{"set": true, "infinite": false, "number": 60}`, a state a word or a list of them, as the releases
of Slurm have it. The rules are those of the output of `sacct -P` (traces_sacct.py).
"""

import json

from penstock.values.errors import BadValue
from sim.tracefile import TraceError
from sim.tracerows import ENDS_FIRST, NEVER_ENDED, NEVER_STARTED, NO_SUBMIT, LogJson, LogRow, read_rows
from sim.workload import UNKNOWN, Workload

_MILLI = 1000
_UNFINISHED = {"PENDING", "RUNNING", "SUSPENDED"}


def parse_json(path: str, lines: list[str]) -> Workload:
    """The workload; raises TraceError."""
    try:
        jobs = list(json.loads("\n".join(lines), strict=False)["jobs"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError(path, 0, f"not the output of sacct --json ({type(error).__name__}: {error})") from None
    rows = ((f"job number {number}", job) for number, job in enumerate(jobs, start=1))
    return read_rows(path, rows, _row, "member")


def _row(_number_in_file: int, job: LogJson) -> LogRow | str:
    """A job; or why it is left out."""
    times = job["time"]
    submit_s, begin_s, end_s = (_number(times.get(name)) for name in ("submission", "start", "end"))
    if submit_s < 1:
        return NO_SUBMIT
    if begin_s < 1:
        return NEVER_STARTED
    if end_s < 1 or _states(job) & _UNFINISHED:
        return NEVER_ENDED
    if end_s < begin_s:
        return ENDS_FIRST
    allocated, requested = (_tres(job.get("tres", {}).get(name)) for name in ("allocated", "requested"))
    either = requested | allocated
    required = job.get("required") or {}
    limit_min, run_s = _number(times.get("limit")), _number(times.get("elapsed"))
    return LogRow(
        job_id=_number(job["job_id"]),
        submit_s=submit_s,
        wait_s=begin_s - submit_s,
        run_s=end_s - begin_s if run_s == UNKNOWN else run_s,
        requested_s=limit_min * 60 if limit_min > 0 else UNKNOWN,
        allocated=allocated.get("cpu", UNKNOWN),
        procs=requested.get("cpu", _number(required.get("CPUs"))),
        nodes=_number(job.get("allocation_nodes")),
        mem_mb=either.get("mem", UNKNOWN),
        gpu_milli=either.get("gres/gpu", 0) * _MILLI,
        user=str(job.get("user") or (job.get("association") or {}).get("user") or ""),
        group=str(job.get("account") or ""),
        name=str(job["job_id"]),
    )


def _number(value: object) -> int:
    """A number, in either form; UNKNOWN where it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if value is None:
        return UNKNOWN
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53:
        raise BadValue(f"{value!r} is not a whole number")
    return value


def _states(job: LogJson) -> set[str]:
    found = (job.get("state") or {}).get("current") or ()
    return {found} if isinstance(found, str) else set(found)


def _tres(items: LogJson) -> dict[str, int]:
    """cpu, mem (MB) and gres/gpu, whose types are summed where the whole is not given."""
    found: dict[str, int] = {}
    typed = 0
    for item in items or ():
        kind = item["type"]
        name = item.get("name") or ""
        count = _number(item.get("count"))
        if kind in ("cpu", "mem") and count > 0:
            found[kind] = count
        elif kind == "gres" and name == "gpu":
            found["gres/gpu"] = max(count, 0)
        elif kind == "gres" and name.startswith("gpu:"):
            typed += max(count, 0)
    if typed:
        found.setdefault("gres/gpu", typed)
    return found
