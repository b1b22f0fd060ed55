"""How many jobs there are, and their GPUs, by what a question about the queue can tell apart, kept with each change of a row.

The jobs of a cell agree in owner, account, state, partitions and reason, so a filter by these takes all of them or none: an
answer adds up cells, of which there are some thousand at most in practice, not jobs. The first question looks at all rows, in
slices; changes are counted already meanwhile, since sums do not depend on their order.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ctld.core.records.job import JobRow
from ctld.runtime.tally import weight
from penstock.values.states import JobState

_GPUS: Final = re.compile(r"(?:^|,)gres/gpu=(\d+)")


@lru_cache(maxsize=4096)
def gpus_of(tres: str) -> int:
    """Returns the GPUs of a TRES text (`cpu=4,mem=1352M,gres/gpu=6`)."""
    found = _GPUS.search(tres)
    return int(found[1]) if found else 0


def gpus_of_row(row: JobRow) -> int:
    """Returns the GPUs that a job has, or has asked for."""
    return gpus_of(row.tres_alloc or row.tres_req)


class QueueCell:
    """The jobs of one cell. `row`: one of them, for filters."""

    __slots__ = ("gpus", "jobs", "row", "rows")

    def __init__(self, row: JobRow) -> None:
        self.row = row
        self.rows = 0
        self.jobs = 0  # tasks of an array count one by one
        self.gpus = 0


class QueueCounts:
    """The cells of all committed jobs."""

    def __init__(self) -> None:
        self._cells: dict[tuple[object, ...], QueueCell] = {}

    @property
    def cells(self) -> Iterable[QueueCell]:
        """All of them."""
        return self._cells.values()

    def move(self, old: JobRow | None, new: JobRow | None) -> None:
        """Replaces `old` by `new`; None = nothing."""
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def _add(self, row: JobRow, sign: int) -> None:
        key = _key(row)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = QueueCell(row)
        number = sign * weight(row)
        cell.rows += sign
        cell.jobs += number
        cell.gpus += number * gpus_of_row(row)
        if not (cell.rows or cell.jobs or cell.gpus):
            del self._cells[key]


def _key(row: JobRow) -> tuple[object, ...]:
    if row.state is JobState.PENDING:
        return row.user_id, row.request.account, row.state, row.request.partitions, row.reason
    return row.user_id, row.request.account, row.state, row.partition
