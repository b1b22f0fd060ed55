"""The output of `sacct -P` with its header line: the log that every Slurm and Penstock site has.

    sacct -a -P -S 2026-01-01 -o JobID,User,Account,Submit,Start,End,Elapsed,Timelimit,NNodes,NCPUS,AllocTRES,State >log

Columns in any order; others are ignored. Needed: JobID, Submit, and one of each line of _TIME and _CPUS.
Steps (`12.batch`) are skipped, and so are jobs that never started or have not ended; their number is reported. Dates
are read without time zone: at clock changes an hour may be off. A record of a requeued job (`sacct -D`) is a job of its
own.
"""

import re
from collections.abc import Callable

from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from sim.tracefile import TraceError
from sim.tracerows import (
    ENDS_FIRST,
    NEVER_ENDED,
    NEVER_STARTED,
    NO_SUBMIT,
    NOTHING,
    NUMBER_MAX,
    LogRow,
    date_s,
    workload_of,
)
from sim.workload import UNKNOWN, Workload

_MILLI = 1000
_ADVICE = (
    "ask sacct for it: sacct -P -o JobID,User,Account,Submit,Start,End,Elapsed,Timelimit,NNodes,NCPUS,AllocTRES,State"
)


def parse_sacct(path: str, lines: list[str]) -> Workload:
    """The workload; raises TraceError."""
    start = next(k for k, line in enumerate(lines) if line.strip())
    header = [name.strip().lower() for name in lines[start].split("|")]
    _check_header(path, start + 1, header)
    rows: list[LogRow] = []
    skipped: dict[str, int] = {}
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        if not line.strip():
            continue
        words = line.split("|")
        if len(words) != len(header):
            raise TraceError(
                path,
                number,
                f"{len(words)} fields, and the header has {len(header)}: leave out columns that contain |, as JobName",
            )
        try:
            found = _row(dict(zip(header, words, strict=True)))
        except BadValue as error:
            raise TraceError(path, number, f"{error}; fix or remove the line") from None
        if isinstance(found, LogRow):
            rows.append(found)
        elif found:
            skipped[found] = skipped.get(found, 0) + 1
    if not rows:
        raise TraceError(path, 0, "no finished job in it")
    return workload_of(path, rows, skipped)


def _check_header(path: str, number: int, header: list[str]) -> None:
    for choice in (("jobid", "jobidraw"), ("submit",), *_TIME, _CPUS):
        if not any(name in header for name in choice):
            raise TraceError(path, number, f"no column {' or '.join(choice)}; {_ADVICE}")


_TIME = (("elapsed", "elapsedraw", "end"),)
_CPUS = ("ncpus", "alloccpus", "reqcpus", "alloctres", "reqtres")


def _row(row: dict[str, str]) -> LogRow | str:
    """The job of a line; or why it is skipped ("" for a step)."""
    name = row.get("jobid") or row.get("jobidraw", "")
    if not name:
        raise BadValue("a job without JobID")
    if "." in name:
        return ""
    submit_s = date_s(row["submit"], "Submit")
    begin_s, end_s = date_s(row.get("start", ""), "Start"), date_s(row.get("end", ""), "End")
    if submit_s == UNKNOWN:
        return NO_SUBMIT
    if begin_s == UNKNOWN and "start" in row:
        return NEVER_STARTED
    if row.get("state", "").split(" ")[0] in ("PENDING", "RUNNING", "SUSPENDED") or (end_s == UNKNOWN and "end" in row):
        return NEVER_ENDED
    if UNKNOWN < end_s < begin_s:
        return ENDS_FIRST
    run_s = _first(row, _ELAPSED)
    if run_s == UNKNOWN:
        run_s = end_s - begin_s if min(end_s, begin_s) >= 0 else UNKNOWN
    allocated, requested = _tres(row, "alloctres"), _tres(row, "reqtres")
    either = requested | allocated
    return LogRow(
        job_id=int(re.match(r"\d*", name)[0] or 0),  # type: ignore[index]
        submit_s=submit_s,
        wait_s=begin_s - submit_s if begin_s != UNKNOWN else UNKNOWN,
        run_s=run_s,
        requested_s=_first(row, _LIMIT),
        allocated=_first(row, _ALLOCATED) if _first(row, _ALLOCATED) > 0 else allocated.get("cpu", UNKNOWN),
        procs=_first(row, _REQUESTED) if _first(row, _REQUESTED) > 0 else requested.get("cpu", UNKNOWN),
        nodes=_first(row, _NODES),
        mem_mb=either.get("mem", UNKNOWN),
        gpu_milli=either.get("gres/gpu", 0) * _MILLI,
        user=row.get("user", ""),
        group=row.get("account", row.get("group", "")),
        name=name,
    )


def _whole(text: str) -> int:
    if not text.isdigit():
        raise BadValue(f"{text!r} is not a whole number")
    return int(text)


_Reader = Callable[[str], int]
_ELAPSED: dict[str, _Reader] = {"elapsedraw": _whole, "elapsed": parse_duration_s}
_LIMIT: dict[str, _Reader] = {"timelimitraw": lambda text: _whole(text) * 60, "timelimit": parse_duration_s}
_ALLOCATED: dict[str, _Reader] = {"ncpus": _whole, "alloccpus": _whole}
_REQUESTED: dict[str, _Reader] = {"reqcpus": _whole}
_NODES: dict[str, _Reader] = {"nnodes": _whole, "allocnodes": _whole, "reqnodes": _whole}


def _first(row: dict[str, str], columns: dict[str, _Reader]) -> int:
    """The first non-empty one of these columns."""
    for name, reader in columns.items():
        if (text := row.get(name, "").strip()).lower() not in NOTHING:
            return reader(text)
    return UNKNOWN


_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_UNIT_MB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


def _tres(row: dict[str, str], column: str) -> dict[str, int]:
    """cpu, mem (MB) and gres/gpu. Not penstock.values.tres: Slurm's accounting rounds amounts (`mem=62.50G`)."""
    found: dict[str, int] = {}
    for item in row.get(column, "").strip().split(","):
        name, _, text = item.partition("=")
        name, _, kind = name.lower().partition(":")
        if name not in ("cpu", "mem", "gres/gpu"):
            continue
        amount = _AMOUNT.fullmatch(text.upper())
        if amount is None:
            raise BadValue(f"{column} has {item!r}, not an amount as cpu=4 or mem=62.50G")
        exact = float(amount[1]) * (_UNIT_MB[amount[2]] if name == "mem" else 1)
        if exact > NUMBER_MAX:
            raise BadValue(f"{column} has {item[:40]!r}, which is too large")
        value = round(exact)
        key = f"{name}:" if kind else name
        found[key] = found.get(key, 0) + value
    if typed := found.pop("gres/gpu:", 0):  # counted under gres/gpu as well, if that is tracked
        found.setdefault("gres/gpu", typed)
    return found
