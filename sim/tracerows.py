"""Rows of a log that is read line by line, and the workload of them; for all readers but that of SWF, which has columns."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

# Any: members of a document of JSON
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.values.errors import BadValue
from sim.tracefile import TraceError
from sim.workload import UNKNOWN, Workload, from_columns

T = TypeVar("T")
#: A member of a document of JSON.
LogJson = Any

#: Reasons for leaving out a job.
NO_SUBMIT = "no submit time"
NEVER_STARTED = "never started"
NEVER_ENDED = "has not ended"
ENDS_FIRST = "ends before it starts"
#: A doubt about jobs that stay.
SAME_ID = "the id of another job"
#: Numbers up to it are exact in columns and in floats.
NUMBER_MAX = 2**53
#: Words of logs for an unknown or unlimited value.
NOTHING = frozenset({"", "unknown", "none", "null", "n/a", "partition_limit", "unlimited", "invalid"})


class LogRow(NamedTuple):
    """A job of a log; UNKNOWN where the log does not say."""

    job_id: int
    submit_s: int
    wait_s: int
    run_s: int
    requested_s: int
    allocated: int
    procs: int
    nodes: int
    mem_mb: int
    gpu_milli: int
    user: str
    group: str
    name: str = ""  # the id as the log has it


def date_s(text: str, what: str) -> int:
    """Seconds of a date, without time zone, or of a number of seconds; UNKNOWN if the text says so."""
    text = text.strip()
    if text.lower() in NOTHING:
        return UNKNOWN
    try:
        if text.replace(".", "", 1).isdigit():
            return int(float(text))
        return int(
            datetime.fromisoformat(text.removesuffix(" PST").removesuffix(" PDT")).replace(tzinfo=UTC).timestamp()
        )
    except (ValueError, OverflowError):
        raise BadValue(f"{what} is {text!r}, not a date as 2026-01-31T12:00:00") from None


def read_rows(
    path: str, rows: Iterable[tuple[str, T]], row_of: Callable[[int, T], LogRow | str], field: str
) -> Workload:
    """The workload of rows with their locations in the file; `row_of` returns a job or why it is left out, `field` is
    what a row consists of. Raises TraceError.
    """
    found: list[LogRow] = []
    skipped: dict[str, int] = {}
    for number, (location, row) in enumerate(rows, start=1):
        try:
            one = row_of(number, row)
        except (BadValue, KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            why = f"no {field} {error}" if isinstance(error, KeyError) else str(error)
            raise TraceError(path, 0, f"{location}: {why}; fix or remove it") from None
        if isinstance(one, LogRow):
            found.append(one)
        else:
            skipped[one] = skipped.get(one, 0) + 1
    if not found:
        raise TraceError(path, 0, "no finished job in it")
    return workload_of(path, found, skipped)


def workload_of(path: str, rows: list[LogRow], skipped: dict[str, int]) -> Workload:
    """The workload; its times count from the first submission."""
    user_names = tuple(sorted({row.user for row in rows}))
    group_names = tuple(sorted({row.group for row in rows}))
    user_number = {name: number for number, name in enumerate(user_names)}
    group_number = {name: number for number, name in enumerate(group_names)}
    numbers = [name for name in LogRow._fields if name not in ("user", "group", "name")]
    columns = {name: _column(path, rows, name) for name in numbers}
    columns["submit_s"] -= columns["submit_s"].min()
    return from_columns(
        Path(path).name.split(".")[0],
        **columns,
        user=[user_number[row.user] for row in rows],
        group=[group_number[row.group] for row in rows],
        user_names=user_names,
        group_names=group_names,
        skipped=skipped,
        doubts={SAME_ID: count} if (count := repeated(np.array([row.name for row in rows]))) else {},
    )


def _column(path: str, rows: list[LogRow], name: str) -> NDArray[np.int64]:
    values = [getattr(row, name) for row in rows]
    if max(values) > NUMBER_MAX or min(values) < -NUMBER_MAX:
        worst = max(rows, key=lambda row: abs(getattr(row, name)))
        raise TraceError(path, 0, f"job {worst.name}: {name} is too large; fix or remove the job")
    return np.array(values, dtype=np.int64)


def repeated(names: NDArray[np.int64] | NDArray[np.str_]) -> int:
    """How many values have come before, in a column of ids or names."""
    return len(names) - len(np.unique(names))
