"""Reads workload logs: which format a file has, and the errors of all readers.

    read_trace(path)  ->  Workload

Plain or gzip-compressed (by content, not by name). The format is told from the first lines; the readers are in a table,
one module each. A line that cannot be read ends the reading with file, line and what to do, as half a log would give
figures that look right.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

from penstock.values.errors import BadValue
from sim.workload import Workload

#: A log of ten million jobs; beyond that it is probably not a log.
TRACE_BYTES_MAX = 4 * 1024**3
_GZIP = b"\x1f\x8b"


class TraceError(BadValue):
    """A log that cannot be read: file, line (0 = the whole file), what is wrong, what to do."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}" if line else f"{path}: {text}")


def read_trace(path: str) -> Workload:
    """The workload of a log in any known format. Raises TraceError, OSError."""
    lines = read_lines(path)
    return READERS[format_of(path, lines)](path, lines)


def read_lines(path: str) -> list[str]:
    """The lines of a file, compressed or not."""
    data = Path(path).read_bytes()
    try:
        if data.startswith(_GZIP):
            with gzip.open(path) as stream:
                data = stream.read(TRACE_BYTES_MAX + 1)
        if len(data) > TRACE_BYTES_MAX:
            raise TraceError(path, 0, f"more than {TRACE_BYTES_MAX} bytes; split it and use --window for parts")
        return data.decode("utf-8", errors="surrogateescape").splitlines()
    except (EOFError, gzip.BadGzipFile) as error:
        raise TraceError(path, 0, f"broken gzip file ({error}); fetch it again") from None


def format_of(path: str, lines: list[str]) -> str:
    """A key of READERS."""
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith(";") or first[:1].isdigit() or first[:1] == "-":
        return "swf"
    if "|" in first and "jobid" in first.lower().replace("jobidraw", "jobid").split("|"):
        return "sacct"
    if "cpu_milli" in first:
        raise TraceError(path, 1, "an Alibaba GPU list: its pods can be placed with `penstock sim openb`")
    raise TraceError(
        path, 1, "not a known format: write Standard Workload Format, or the output of `sacct -P` with its header line"
    )


def _swf(path: str, lines: list[str]) -> Workload:
    from sim.traces_swf import parse_swf

    return parse_swf(path, lines)


def _sacct(path: str, lines: list[str]) -> Workload:
    from sim.traces_sacct import parse_sacct

    return parse_sacct(path, lines)


READERS: dict[str, Callable[[str, list[str]], Workload]] = {"swf": _swf, "sacct": _sacct}
