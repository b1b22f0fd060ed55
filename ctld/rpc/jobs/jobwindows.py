"""What tables and overviews need of a long list of jobs: a window of it (some rows, in an order), and how many there are.

Both are computed of all rows, in slices, and used again for a while (keptanswers.py): a row may be at its former place for
that time, but is shown as it is.
"""

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection
from functools import lru_cache
from operator import attrgetter
from typing import Final, TypeAlias

from ctld.core.records.job import JobRow
from ctld.core.state.forecast import Forecast
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.jobs.jobcolumns import partition_of, priority_of
from ctld.rpc.jobs.jobinfo import counts, end_at
from ctld.runtime.errors import BadRequest
from ctld.runtime.tally import weight
from penstock.v1 import controller_pb2
from penstock.values.hostlist import compress
from penstock.values.jobcolumns import ORDERS
from penstock.values.jobid import format_job
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES, JobState

#: Rows in one turn of the loop: some 5 ms of sorting, and of reading texts.
SORTED_ROWS: Final = 8_000
READ_ROWS: Final = 2_000
#: Values that stand for SORTED_ROWS of them when runs are chosen.
SAMPLES: Final = 32
_LONGEST_S: Final = 2**62

OrderValue: TypeAlias = int | str | tuple[int | str, ...]
_Key = Callable[[JobRow], OrderValue]
_DIGITS: Final = re.compile(r"([0-9]{1,18})")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")


class JobOrder:
    """An order of rows, and the words that each has to have."""

    def __init__(
        self, window: controller_pb2.JobWindow, state: ClusterState, forecast: Forecast | None, now_us: int
    ) -> None:
        """Raises BadRequest."""
        name = window.order.removeprefix("-") or "job_id"
        if name not in ORDERS:
            raise BadRequest(
                Code.INVALID_VALUE,
                f"jobs cannot be ordered by {name!r}: one of {', '.join(ORDERS)}, with - in front: descending",
            )
        self._is_descending = window.order.startswith("-")
        self._is_by_id = name == "job_id"
        self._words = [word.lower() for word in window.words if word]
        self._key = _KEYS[name] if name in _KEYS else _present(name, state, forecast, now_us)

    async def sorted(self, rows: list[JobRow], pace: ScanPace) -> "array[int]":
        """Returns the ids of the rows that have the words, in order. `rows`: by job id."""
        if self._words:
            rows = await self._with_words(rows, pace)
        if self._is_by_id:
            return array("I", [row.job_id for row in (reversed(rows) if self._is_descending else rows)])
        groups = await self._groups(rows, pace)
        ids = array("I")
        for values in await _in_order(groups, pace):
            for value in values:
                found = groups[value]
                if isinstance(found, int):
                    ids.append(found)
                else:
                    ids.extend(found)
            await pace.pause()
        if self._is_descending:
            ids.reverse()
        return ids

    async def _groups(self, rows: list[JobRow], pace: ScanPace) -> "dict[OrderValue, int | list[int]]":
        """Returns the ids of the rows by their values: most columns have few, and then little is left to be sorted."""
        groups: dict[OrderValue, int | list[int]] = {}
        known = groups.get
        for first in range(0, len(rows), SORTED_ROWS):
            if first:
                await pace.pause()
            part = rows[first : first + SORTED_ROWS]
            for value, row in zip(map(self._key, part), part, strict=True):
                found = known(value)
                if found is None:
                    groups[value] = row.job_id  # a list for each of many values would be garbage for the collector
                elif isinstance(found, int):
                    groups[value] = [found, row.job_id]
                else:
                    found.append(row.job_id)
        return groups

    async def _with_words(self, rows: list[JobRow], pace: ScanPace) -> list[JobRow]:
        found: list[JobRow] = []
        for first in range(0, len(rows), READ_ROWS):
            if first:
                await pace.pause()
            found += filter(self._has_words, rows[first : first + READ_ROWS])
        return found

    def _has_words(self, row: JobRow) -> bool:
        text = _text(row)
        return all(word in text for word in self._words)


async def _in_order(values: Collection[OrderValue], pace: ScanPace) -> list[list[OrderValue]]:
    """Returns the values in runs, each sorted, and all of a run before those of the next. Many are dealt by samples of them
    into runs that one slice sorts: a merge costs more."""
    if len(values) <= SORTED_ROWS:
        return [sorted(values)]
    every = list(values)
    splits = sorted(every[:: max(1, len(every) // (SAMPLES * -(-len(every) // SORTED_ROWS)))])[SAMPLES::SAMPLES]
    runs: list[list[OrderValue]] = [[] for _ in range(len(splits) + 1)]
    for first in range(0, len(every), SORTED_ROWS):
        await pace.pause()
        for value in every[first : first + SORTED_ROWS]:
            runs[bisect_right(splits, value)].append(value)
    for run in runs:
        await pace.pause()
        run.sort()
    return runs


def _text(row: JobRow) -> str:
    """What a table shows of a row in words, in small letters. Only a job that waits has a reason."""
    request = row.request
    shown = format_job(row.job_id, row.array_job_id, row.array_task_id) if row.array_job_id else row.job_id
    reason = row.reason._value_ if row.state is JobState.PENDING else ""
    nodes = compress(part.node for part in row.alloc) if row.alloc else ""
    common = _common(row.user_name, request.account, partition_of(row), request.qos, row.state._name_, reason)
    return f"{shown}\n{request.name}\n{nodes}".lower() + common


@lru_cache(maxsize=16_384)
def _common(*words: str) -> str:
    """What many rows have in common, in small letters."""
    return "\n" + "\n".join(words).lower()


@lru_cache(maxsize=65_536)
def _natural(name: str) -> tuple[int | str, ...]:
    """A host's name so that n2 is before n10: texts and numbers in turns."""
    return tuple(int(part) if number % 2 else part for number, part in enumerate(_DIGITS.split(name)))


@lru_cache(maxsize=4096)
def gpus_of(tres: str) -> int:
    """Returns the GPUs of a TRES text (`cpu=4,mem=1352M,gres/gpu=6`)."""
    found = _GPUS.search(tres)
    return int(found[1]) if found else 0


#: Keys that read nothing but the row. No time limit is the longest one.
_KEYS: Final[dict[str, _Key]] = {
    **{name: attrgetter(name) for name in ("job_id", "user_name", "submit_at_us", "start_at_us")},
    **{name: attrgetter(f"request.{name}") for name in ("name", "account", "qos")},
    "partition": partition_of,
    "state": lambda row: row.state._name_,
    "reason": lambda row: row.reason._value_ if row.state is JobState.PENDING else "",
    "node_list": lambda row: _natural(row.alloc[0].node if row.alloc else ""),
    "cpus": lambda row: counts(row)["cpus"],
    "gpus": lambda row: gpus_of(row.tres_alloc or row.tres_req),
    "end_at_us": end_at,
    "time_limit_s": lambda row: row.time_limit_s if row.time_limit_s >= 0 else _LONGEST_S,
}


def _present(name: str, state: ClusterState, forecast: Forecast | None, now_us: int) -> _Key:
    """Returns the key of an order that depends on priorities, the plan or the time."""
    if name == "priority":
        return lambda row: priority_of(state, row)
    if name == "planned_start_at_us":
        return lambda row: _planned_at_s(row, forecast)
    return lambda row: _elapsed_us(row, now_us)


def is_of_the_time(window: controller_pb2.JobWindow) -> bool:
    """Whether its order may change while nothing is committed: that by the time for which jobs have run."""
    return window.order.removeprefix("-") not in ("", *_KEYS, "priority", "planned_start_at_us")


def _planned_at_s(row: JobRow, forecast: Forecast | None) -> int:
    found = forecast.of(row.job_id) if forecast is not None and row.state is JobState.PENDING else None
    return found[0] if found is not None else _LONGEST_S  # those whose start is known come first


def _elapsed_us(row: JobRow, now_us: int) -> int:
    """How long it has run: 0 = it has not started."""
    if not row.start_at_us:
        return 0
    return (now_us if row.state in ACTIVE_STATES else row.end_at_us) - row.start_at_us


async def counted(rows: list[JobRow], pace: ScanPace) -> list[controller_pb2.JobCount]:
    """Counts rows by state, partition and reason."""
    jobs: Counter[tuple[str, str, str]] = Counter()
    gpus: Counter[tuple[str, str, str]] = Counter()
    for first in range(0, len(rows), SORTED_ROWS):
        if first:
            await pace.pause()
        for row in rows[first : first + SORTED_ROWS]:
            is_pending = row.state is JobState.PENDING
            key = row.state._name_, partition_of(row), row.reason._value_ if is_pending else ""
            number = weight(row)
            jobs[key] += number
            gpus[key] += number * gpus_of(row.tres_alloc or row.tres_req)
    return [
        controller_pb2.JobCount(state=key[0], partition=key[1], reason=key[2], jobs=number, gpus=gpus[key])
        for key, number in sorted(jobs.items())
    ]
