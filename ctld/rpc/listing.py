"""Which committed rows a listing means. Ids, users, states and partitions are looked up (snapshot.Index); the other
filters look at what is left. Looking at 100,000 rows takes 10 ms and more, so it is done in slices between which the
loop serves others; rows are frozen, so what was chosen stays as it was.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from ctld.core.events import JobFilter
from ctld.core.model import JobRow
from ctld.core.select import matching
from ctld.rpc.refusals import BadRequest
from ctld.runtime.snapshot import Snapshot
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES

#: Rows looked at in one turn of the loop: some 1 ms.
SLICE_ROWS: Final = 10_000
IDS_MAX: Final = 100_000


async def select_rows(snapshot: Snapshot, which: JobFilter, all_states: bool) -> list[JobRow]:
    """The rows that pass, in the order of their job ids. Raises BadRequest."""
    rows = candidates(snapshot, which, all_states) if not which.ids else await named_rows(snapshot, which.ids)
    every_state = all_states or bool(which.states)
    found: list[JobRow] = []
    for first in range(0, len(rows), SLICE_ROWS):
        if first:
            await asyncio.sleep(0)
        part = matching(rows[first : first + SLICE_ROWS], which)
        found += part if every_state else [row for row in part if row.state in ACTIVE_STATES]
    found.sort(key=lambda row: row.job_id)
    return found


def candidates(snapshot: Snapshot, which: JobFilter, all_states: bool) -> list[JobRow]:
    """The rows among which those that pass are: by the filter that leaves the fewest."""
    if which.unknown_user:
        return []
    states = which.states or (() if all_states else sorted(ACTIVE_STATES))
    by_key = {"uids": which.uids, "states": states, "partitions": which.partitions}
    indexes = [(snapshot.index(name), keys) for name, keys in by_key.items() if keys]
    if not indexes:
        return list(snapshot.jobs.values())
    index, keys = min(indexes, key=lambda pair: pair[0].count(pair[1]))
    return index.rows(keys)


async def named_rows(snapshot: Snapshot, ids: Iterable[str]) -> list[JobRow]:
    """The rows that ids mean; an id that means none adds none. Raises BadRequest."""
    found: dict[int, JobRow] = {}
    for number, text in enumerate(ids):
        if number >= IDS_MAX:
            raise BadRequest(Code.INVALID_VALUE, f"more than {IDS_MAX} job ids")
        if number % SLICE_ROWS == SLICE_ROWS - 1:
            await asyncio.sleep(0)
        try:
            selector = parse_selector(text)
        except BadValue as error:
            raise BadRequest(Code.INVALID_JOB_ID, f"Invalid job id specified: {error}") from None
        rows = snapshot.of_array(selector.job_id)
        wanted = selector.tasks
        if wanted is not None:
            rows = [
                row
                for row in rows
                if (row.array_tasks is not None and row.array_tasks.intersect(wanted))
                or (row.array_task_id is not None and row.array_task_id in wanted)
            ]
        elif not rows and selector.job_id in snapshot.jobs:
            rows = _components(snapshot, snapshot.jobs[selector.job_id], selector.het_offset)
        for row in rows:
            found[row.job_id] = row
    return list(found.values())


def _components(snapshot: Snapshot, row: JobRow, offset: int | None) -> list[JobRow]:
    """A plain job itself; of a heterogeneous one all components, when its leader is named, or the one that is meant."""
    request = row.request
    if request.het_offset or not request.het_job_id:
        return [row] if offset is None else []
    ids = range(row.job_id, row.job_id + request.het_size) if offset is None else (row.job_id + offset,)
    rows = [snapshot.jobs[job_id] for job_id in ids if job_id in snapshot.jobs]
    return [one for one in rows if one.request.het_job_id == row.job_id]
