"""What tables and overviews need of a long list of jobs: a window of it (some rows, in an order), and how many there are.

Both are computed of all rows, in slices, and used again for a while (keptanswers.py): a row may be at its former place for
that time, but is shown as it is.
"""

import re
from array import array
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from _fastsched import Ordering
from ctld.core.records.job import JobRow
from ctld.core.records.request import NodeAlloc
from ctld.core.state.forecast import Forecast
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.jobs.jobcolumns import partition_of, priority_of
from ctld.rpc.jobs.jobinfo import counts, end_at
from ctld.runtime.errors import BadRequest
from ctld.runtime.queuecounts import gpus_of_row
from penstock.v1 import controller_pb2
from penstock.values.hostlist import compress
from penstock.values.jobcolumns import ORDERS
from penstock.values.jobid import format_job
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES, JobState

#: Rows in one turn of the loop: some 5 ms of sorting, of taking what is sorted, and of looking for words.
SORTED_ROWS: Final = 8_000
TAKEN_ROWS: Final = 50_000
READ_ROWS: Final = 4_000
_LONGEST_S: Final = 2**62

OrderValue: TypeAlias = int | str
_Key = Callable[[JobRow], OrderValue]
_Values = Callable[[list[JobRow]], list[OrderValue]]
_JOB_ID: Final = attrgetter("job_id")
_DIGITS_MAX: Final = 18
_DIGITS: Final = re.compile(rf"[0-9]{{1,{_DIGITS_MAX}}}")
_NAME: Final[Callable[[JobRow], str]] = attrgetter("request.name")
_ALLOC: Final[Callable[[JobRow], tuple[NodeAlloc, ...]]] = attrgetter("alloc")
#: Columns that have few values. Whether they are shown of pending jobs, of others, or (None) of both.
_FEW_VALUES: Final[Mapping[Callable[[JobRow], str | tuple[str, ...]], bool | None]] = {
    **dict.fromkeys(map(attrgetter, ("user_name", "request.account", "request.qos", "state._name_")), None),
    attrgetter("reason._value_"): True,
    attrgetter("request.partitions"): True,
    attrgetter("partition"): False,
}
#: Characters of ids, 12 and 12_3.
_OF_IDS: Final = frozenset("0123456789_")


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
        key = _KEYS.get(name)
        self._values: _Values = (
            (lambda rows: list(map(key, rows))) if key is not None else _present(name, state, forecast, now_us)
        )

    async def sorted(self, rows: list[JobRow], pace: ScanPace) -> "array[int]":
        """Returns the ids of the rows that have the words, in order. `rows`: by job id."""
        if self._words:
            rows = await self._with_words(rows, pace)
        if self._is_by_id:
            return array("I", map(_JOB_ID, reversed(rows) if self._is_descending else rows))
        ids = array("I")
        ordering = await self._ordering(rows, pace)
        while len(ids) < len(rows):
            if ids:
                await pace.pause()
            ids += ordering.take(TAKEN_ROWS)
        if self._is_descending:
            ids.reverse()
        return ids

    async def narrowed(self, ids: "array[int]", jobs: Mapping[int, JobRow], pace: ScanPace) -> "array[int]":
        """Returns those of the ids whose rows have the words, in their order."""
        if not self._words:
            return ids
        found = array("I")
        for first in range(0, len(ids), READ_ROWS):
            if first:
                await pace.pause()
            rows = [jobs[job_id] for job_id in ids[first : first + READ_ROWS] if job_id in jobs]
            found.extend(map(_JOB_ID, self.having(rows)))
        return found

    def having(self, rows: list[JobRow]) -> list[JobRow]:
        """Returns those of the rows that have the words."""
        for word in self._words:
            rows = with_word(word, rows)
        return rows

    def places(
        self, ids: "npt.NDArray[np.uint32]", rows: list[JobRow], jobs: Mapping[int, JobRow]
    ) -> list[tuple[int, int]]:
        """Returns where rows belong among those of `ids`, which are in order and do not have them: pairs of a place and an id, in
        order."""
        of_rows = zip(self._values(rows), map(_JOB_ID, rows), strict=True)
        values = sorted(of_rows, reverse=self._is_descending)
        found: list[tuple[int, int]] = []
        low = 0
        for value in values:
            high = len(ids)
            while low < high:
                middle = (low + high) // 2
                other = jobs[int(ids[middle])]
                if ((*self._values([other]), other.job_id) < value) is not self._is_descending:
                    low = middle + 1
                else:
                    high = middle
            found.append((low, value[1]))
        return found

    async def _ordering(self, rows: list[JobRow], pace: ScanPace) -> Ordering:
        """Reads the values of all rows, then sorts them part by part."""
        parts: list[tuple[list[OrderValue], array[int]]] = []
        for first in range(0, len(rows), SORTED_ROWS):
            if first:
                await pace.pause()
            part = rows[first : first + SORTED_ROWS]
            parts.append((self._values(part), array("I", map(_JOB_ID, part))))
        ordering = Ordering(_common_bytes([end for values, _ in parts for end in (min(values), max(values))]))
        for values, ids in parts:
            if len(parts) > 1:
                await pace.pause()
            ordering.add(values, ids)
        return ordering

    async def _with_words(self, rows: list[JobRow], pace: ScanPace) -> list[JobRow]:
        found: list[JobRow] = []
        for first in range(0, len(rows), READ_ROWS):
            if first:
                await pace.pause()
            found += self.having(rows[first : first + READ_ROWS])
        return found


def with_word(word: str, rows: list[JobRow]) -> list[JobRow]:
    """Returns those of the rows that have the word in what a table shows of them. `word`: in small letters.

    Looks through column after column: most have few values, and few of these have the word.
    """
    places = {at for at, name in enumerate(map(_NAME, rows)) if word in name.lower()}
    if _OF_IDS.issuperset(word):
        ids = (format_job(row.job_id, row.array_job_id, row.array_task_id) for row in rows)
        places.update(at for at, shown in enumerate(ids) if word in shown)
    allocs = enumerate(map(_ALLOC, rows))
    places.update(at for at, alloc in allocs if alloc and word in compress(part.node for part in alloc).lower())
    for values_of, is_pending in _FEW_VALUES.items():
        hits = {value for value in set(map(values_of, rows)) if word in _small(value)}
        if hits:
            found = [at for at, value in enumerate(map(values_of, rows)) if value in hits]
            places.update(
                found
                if is_pending is None
                else [at for at in found if (rows[at].state is JobState.PENDING) is is_pending]
            )
    return rows if len(places) == len(rows) else [rows[at] for at in sorted(places)]


@lru_cache(maxsize=16_384)
def _small(value: str | tuple[str, ...]) -> str:
    """A value of a column as it is shown, in small letters."""
    return (value if isinstance(value, str) else ",".join(value)).lower()


def _common_bytes(values: list[OrderValue]) -> int:
    """Returns how many bytes begin all texts: `values` are the first and the last of each part."""
    first, last = (min(values), max(values)) if values else (0, 0)
    if not (isinstance(first, str) and isinstance(last, str)):
        return 0
    common = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return len("".join(one for one, _ in common).encode())


@lru_cache(maxsize=65_536)
def _natural(name: str) -> str:
    """A host's name so that n2 is before n10: all numbers have as many digits."""
    return _DIGITS.sub(lambda found: found[0].zfill(_DIGITS_MAX), name)


#: Keys that read nothing but the row. No time limit is the longest one.
_KEYS: Final[dict[str, _Key]] = {
    **{name: attrgetter(name) for name in ("job_id", "user_name", "submit_at_us", "start_at_us")},
    **{name: attrgetter(f"request.{name}") for name in ("name", "account", "qos")},
    "partition": partition_of,
    "state": lambda row: row.state._name_,
    "reason": lambda row: row.reason._value_ if row.state is JobState.PENDING else "",
    "node_list": lambda row: _natural(row.alloc[0].node if row.alloc else ""),
    "cpus": lambda row: counts(row)["cpus"],
    "gpus": gpus_of_row,
    "end_at_us": end_at,
    "time_limit_s": lambda row: row.time_limit_s if row.time_limit_s >= 0 else _LONGEST_S,
}


def _present(name: str, state: ClusterState, forecast: Forecast | None, now_us: int) -> _Values:
    """Returns how values are read of an order that depends on priorities, the plan or the time."""
    if name == "priority":
        return lambda rows: [priority_of(state, row) for row in rows]
    if name == "planned_start_at_us":
        return lambda rows: _planned_starts_s(rows, forecast)
    return lambda rows: [_elapsed_us(row, now_us) for row in rows]


def is_of_the_time(window: controller_pb2.JobWindow) -> bool:
    """Whether its order may change while nothing is committed: that by the time for which jobs have run."""
    return window.order.removeprefix("-") not in ("", *_KEYS, "priority", "planned_start_at_us")


def _planned_starts_s(rows: list[JobRow], forecast: Forecast | None) -> list[OrderValue]:
    """Those whose start is known come first."""
    if forecast is None:
        return [_LONGEST_S] * len(rows)
    starts = forecast.starts_s([row.job_id for row in rows])
    return [
        start if start >= 0 and row.state is JobState.PENDING else _LONGEST_S
        for row, start in zip(rows, starts, strict=True)
    ]


def _elapsed_us(row: JobRow, now_us: int) -> int:
    """How long it has run: 0 = it has not started."""
    if not row.start_at_us:
        return 0
    return (now_us if row.state in ACTIVE_STATES else row.end_at_us) - row.start_at_us
