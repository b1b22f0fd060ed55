"""The Standard Workload Format of the Parallel Workloads Archive, version 2: 18 numbers a line, `;` begins a comment.

Fields: 1 job, 2 submit time, 3 wait, 4 run time, 5 allocated processors, 6 average CPU time, 7 used memory (kB a
processor), 8 requested processors, 9 requested time, 10 requested memory (kB a processor), 11 status, 12 user,
13 group, 14 application, 15 queue, 16 partition, 17 preceding job, 18 think time. -1 = not known. Fractions of seconds,
which some logs have, are cut off.
(Chapin, Cirne, Feitelson and others, "Benchmarks and standards for the evaluation of parallel job schedulers", 1999.)
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.tracefile import TraceError
from sim.tracerows import SAME_ID, repeated
from sim.workload import UNKNOWN, Workload, from_columns

FIELDS = 18
_HEADER = re.compile(r"^;\s*(MaxProcs|MaxNodes):\s*(\d+)")
_KB_PER_MB = 1024
#: No machine has more processors; Python refuses numbers of some thousand digits.
_DIGITS_MAX = 15


def parse_swf(path: str, lines: list[str]) -> Workload:
    """The workload; raises TraceError."""
    header = _header(path, lines)
    rows = [line for line in lines if line and line[0] != ";" and not line.isspace()]
    table = _numbers(path, lines, rows)
    user_names, user = _numbered(table[:, 11])
    group_names, group = _numbered(table[:, 12])
    procs = table[:, 7]
    allocated = table[:, 4]
    memory_kb = table[:, 9]
    known = np.where(procs > 0, procs, allocated)
    mem_mb = np.where((memory_kb > 0) & (known > 0), memory_kb * known // _KB_PER_MB, UNKNOWN)
    return from_columns(
        Path(path).name.split(".swf")[0],
        job_id=table[:, 0],
        submit_s=table[:, 1],
        wait_s=table[:, 2],
        run_s=table[:, 3],
        allocated=allocated,
        procs=procs,
        requested_s=table[:, 8],
        mem_mb=mem_mb,
        user=user,
        group=group,
        user_names=user_names,
        group_names=group_names,
        processors=header.get("MaxProcs", header.get("MaxNodes", UNKNOWN)),
        doubts={SAME_ID: count} if (count := repeated(table[:, 0])) else {},
    )


def _header(path: str, lines: list[str]) -> dict[str, int]:
    """The sizes of the machine that comments name."""
    found: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if line[:1] == ";" and (one := _HEADER.match(line)):
            if len(one[2]) > _DIGITS_MAX:
                raise TraceError(path, number, f"{one[1]} has {len(one[2])} digits: correct it")
            found[one[1]] = int(one[2])
    return found


def _numbers(path: str, lines: list[str], rows: list[str]) -> NDArray[np.int64]:
    """All fields as whole numbers."""
    if not rows:
        raise TraceError(path, 0, "no jobs in it")
    try:
        table = np.loadtxt(rows, dtype=np.float64, ndmin=2, comments=None)
    except ValueError:
        raise _first_invalid_line(path, lines) from None
    if table.shape[1] != FIELDS or not np.isfinite(table).all() or np.abs(table).max() > 2**53:
        raise _first_invalid_line(path, lines)
    return table.astype(np.int64)


def _first_invalid_line(path: str, lines: list[str]) -> TraceError:
    """The first invalid line."""
    for number, line in enumerate(lines, start=1):
        if line[:1] == ";" or not line.strip():
            continue
        words = line.split()
        if len(words) != FIELDS:
            return TraceError(path, number, f"{len(words)} fields, and SWF has {FIELDS}: fix or remove the line")
        for field, word in enumerate(words, start=1):
            try:
                fine = abs(float(word)) <= 2**53
            except ValueError:
                fine = False
            if not fine:
                return TraceError(
                    path, number, f"field {field} is {word!r}, not a number: write -1 for what is not known"
                )
    return TraceError(path, 0, "not a table of numbers")


def _numbered(column: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names, and the column as indexes into them."""
    names, index = np.unique(column, return_inverse=True)
    return tuple(str(name) for name in names.tolist()), index.astype(np.int64)
