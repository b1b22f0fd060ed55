"""Reads workload logs and detects their format. read_trace(path) -> Workload. Plain or gzip-compressed (by content, not
by name), in UTF-8 or UTF-16. The format is detected from the first line; the readers are in a table. An invalid line ends
the reading with file, line and advice, since half a log would give plausible but wrong figures. Jobs whose times cannot be
true are left out and counted, and odd ones are kept and counted.
"""

from collections.abc import Callable

from penstock.boundedfile import read_bounded
from sim.tracefile import TRACE_BYTES_MAX, TraceError, lines_of
from sim.tracerows import ENDS_FIRST
from sim.traces_gpu import PAI_COLUMNS, parse_helios, parse_pai, parse_philly, parse_pods
from sim.traces_json import parse_json
from sim.traces_sacct import parse_sacct
from sim.traces_swf import parse_swf
from sim.workload import UNKNOWN, Workload

DAY_S = 86_400
#: No machine runs a job for longer without a restart.
RUN_DAYS_MAX = 366


def read_trace(path: str) -> Workload:
    """The workload of a log in any known format. Raises TraceError, OSError."""
    return parse_trace(path, read_bounded(path, TRACE_BYTES_MAX))


def parse_trace(path: str, data: bytes) -> Workload:
    """The workload of the contents of a log. `path`: its name. Raises TraceError."""
    lines = lines_of(path, data)
    return checked(READERS[format_of(path, lines)](path, lines))


def checked(log: Workload) -> Workload:
    """Without the jobs whose times cannot be true, and with doubts about others."""
    kept = log.without(
        [
            ("submit time before the beginning of the log", log.submit_s < 0),
            (ENDS_FIRST, log.run_s < UNKNOWN),
            (f"runs for more than {RUN_DAYS_MAX} days", log.run_s > RUN_DAYS_MAX * DAY_S),
        ]
    )
    limit_s = kept.requested_s
    return kept.doubted(
        [
            ("starts before its submission", kept.wait_s < UNKNOWN),
            ("runs for a day more than its time limit", (limit_s > 0) & (kept.run_s > limit_s + DAY_S)),
        ]
    )


def format_of(path: str, lines: list[str]) -> str:
    """A key of READERS."""
    first = next((line.strip() for line in lines if line.strip()), "")
    names = [name.strip() for name in first.split(",")]
    if first.startswith(("{", "[")):
        return "sacct --json" if first.startswith("{") else "philly"
    if len(names) == len(PAI_COLUMNS):
        return "pai"
    if first.startswith(";") or first[:1].isdigit() or first[:1] == "-":
        return "swf"
    if "|" in first and "jobid" in first.lower().replace("jobidraw", "jobid").split("|"):
        return "sacct"
    if {"gpu_num", "submit_time"} <= set(names):
        return "helios"
    if {"cpu_milli", "creation_time", "scheduled_time", "deletion_time"} <= set(names):
        return "openb"
    if "cpu_milli" in names:
        raise TraceError(
            path, 1, "a list of pods without creation_time, scheduled_time and deletion_time has no times to simulate: "
            "place its pods with penstock sim openb"
        )  # fmt: skip
    raise TraceError(
        path, 1, "not a known format: write Standard Workload Format, or the output of `sacct -P` with its header line"
    )


READERS: dict[str, Callable[[str, list[str]], Workload]] = {
    "swf": parse_swf,
    "sacct": parse_sacct,
    "sacct --json": parse_json,
    "philly": parse_philly,
    "helios": parse_helios,
    "pai": parse_pai,
    "openb": parse_pods,
}
