"""Counts of jobs by state, partition and reason, for overviews of a long queue."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from ctld.core.records.job import JobRow
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.jobs.jobcolumns import partition_of
from ctld.rpc.jobs.listing import JobSelection
from ctld.runtime.queuecounts import QueueCounts, gpus_of_row
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.tally import weight
from penstock.v1 import controller_pb2
from penstock.values.states import JobState

#: Rows in one turn of the loop: some 5 ms.
COUNTED_ROWS: Final = 4_000


class JobCounter:
    """Counts the jobs of one controller."""

    def __init__(self) -> None:
        self._filling = asyncio.Lock()

    async def counts(
        self, snapshot: Snapshot, selection: JobSelection, pace: ScanPace
    ) -> list[controller_pb2.JobCount]:
        """Counts the jobs of a selection. Raises BadRequest."""
        if not selection.is_by_cell:
            rows = await selection.rows(snapshot, pace)
            return _summed((row, weight(row), weight(row) * gpus_of_row(row)) for row in rows)
        queue = await self._filled(snapshot, pace)
        cells = {id(cell.row): cell for cell in queue.cells}
        found = (cells[id(row)] for row in selection.passing([cell.row for cell in cells.values()]))
        return _summed((cell.row, cell.jobs, cell.gpus) for cell in found)

    async def _filled(self, snapshot: Snapshot, pace: ScanPace) -> QueueCounts:
        """Returns the counts that go with the snapshot, which the first question fills."""
        async with self._filling:
            if snapshot.queue is not None:
                return snapshot.queue
            queue = snapshot.queue = QueueCounts()
            is_filled = False
            rows = list(snapshot.jobs.values())
            try:
                for first in range(0, len(rows), COUNTED_ROWS):
                    if first:
                        await pace.pause()
                    for row in rows[first : first + COUNTED_ROWS]:
                        queue.move(None, row)
                is_filled = True
            finally:
                if not is_filled:  # who asked is gone
                    snapshot.queue = None
            return queue


def _summed(parts: Iterable[tuple[JobRow, int, int]]) -> list[controller_pb2.JobCount]:
    """Sums jobs and GPUs of rows."""
    jobs: Counter[tuple[str, str, str]] = Counter()
    gpus: Counter[tuple[str, str, str]] = Counter()
    for row, number, of_them in parts:
        key = row.state._name_, partition_of(row), row.reason._value_ if row.state is JobState.PENDING else ""
        jobs[key] += number
        gpus[key] += of_them
    return [
        controller_pb2.JobCount(state=key[0], partition=key[1], reason=key[2], jobs=number, gpus=gpus[key])
        for key, number in sorted(jobs.items())
    ]
