"""Selects the committed rows of a listing. Ids, users, states and partitions use indexes (snapshot.Index); the other
filters test the remaining rows. A scan of 100,000 rows takes 10 ms and more, so it runs in slices (gate/scans.py); rows are
frozen, so selected ones do not change."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ctld.core.jobs.select import matching
from ctld.core.records.events import JobFilter
from ctld.core.records.job import JobRow
from ctld.rpc.gate.scans import ScanPace
from ctld.rpc.jobs.jobcolumns import partition_of
from ctld.runtime.errors import BadRequest
from ctld.runtime.snapshot import Snapshot
from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.jobid import parse_selector
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES
from penstock.values.taskset import TaskSet

#: Rows tested in one turn of the loop: some 1 ms.
SLICE_ROWS: Final = 10_000
#: Reading an id takes as long as so many looks at a row, which an allowance counts as one name each 64.
ID_LOOKS: Final = 10
LOOKS_A_NAME: Final = 64


class JobSelection(NamedTuple):
    """Which jobs a listing has. `hidden`: partitions whose jobs it omits."""

    which: JobFilter
    every_state: bool
    hidden: frozenset[str]

    @property
    def is_by_cell(self) -> bool:
        """Whether it tells apart nothing but owner, account, state and partitions (runtime/queuecounts.py)."""
        which = self.which
        return not (which.ids or which.names or which.qos or which.wckeys or which.reservations or which.nodes)

    async def rows(self, snapshot: Snapshot, pace: ScanPace) -> list[JobRow]:
        """Returns them, in the order of their job ids. Raises BadRequest."""
        rows = await select_rows(snapshot, self.which, self.every_state, pace)
        return rows if self.which.ids else self._shown(rows)

    def passing(self, rows: list[JobRow]) -> list[JobRow]:
        """Returns those of the rows that it has; of a selection without ids."""
        rows = matching(rows, self.which)
        if not (self.every_state or self.which.states):
            rows = [row for row in rows if row.state in ACTIVE_STATES]
        return self._shown(rows)

    def _shown(self, rows: list[JobRow]) -> list[JobRow]:
        return [row for row in rows if not self._is_hidden(row)] if self.hidden else rows

    def _is_hidden(self, row: JobRow) -> bool:
        return all(name in self.hidden for name in partition_of(row).split(","))


async def select_rows(snapshot: Snapshot, which: JobFilter, all_states: bool, pace: ScanPace) -> list[JobRow]:
    """Returns the rows that pass the filter, in the order of their job ids. Raises BadRequest."""
    rows = candidates(snapshot, which, all_states) if not which.ids else await named_rows(snapshot, which.ids, pace)
    every_state = all_states or bool(which.states)
    found: list[JobRow] = []
    for first in range(0, len(rows), SLICE_ROWS):
        if first:
            await pace.pause()
        part = matching(rows[first : first + SLICE_ROWS], which)
        found += part if every_state else [row for row in part if row.state in ACTIVE_STATES]
    found.sort(key=lambda row: row.job_id)
    return found


def candidates(snapshot: Snapshot, which: JobFilter, all_states: bool) -> list[JobRow]:
    """Returns the candidate rows: by the filter that leaves the fewest."""
    if which.unknown_user:
        return []
    states = which.states or (() if all_states else sorted(ACTIVE_STATES))
    few = () if snapshot.are_most(states) else states
    by_key = {"uids": which.uids, "states": few, "partitions": which.partitions}
    indexes = [(snapshot.index(name), keys) for name, keys in by_key.items() if keys]
    if not indexes:
        return list(snapshot.jobs.values())
    index, keys = min(indexes, key=lambda pair: pair[0].count(pair[1]))
    return index.rows(keys)


class NamedRows:
    """The look-ups of one request by ids. The loop serves others in between, by the work done; rows that are examined
    are charged to the request's allowance."""

    def __init__(self, snapshot: Snapshot, is_union: bool, pace: ScanPace) -> None:
        """`is_union`: rows are wanted once, so an array that has been returned whole is not returned again."""
        self._snapshot = snapshot
        self.pace = pace
        self._is_union = is_union
        self._allowance = Allowance()
        self._looks = 0  # since others were served
        self._whole: dict[int, None] = {}  # arrays of which all rows have been returned

    async def of(self, text: str, steps: int = 1) -> list[JobRow]:
        """Returns the rows that an id selects, none for an unknown one; `steps`: the number of looks at each. Raises
        BadRequest."""
        try:
            selector = parse_selector(text, self._allowance)
        except BadValue as error:
            raise _invalid(error) from None
        snapshot = self._snapshot
        job_id = selector.job_id
        wanted = selector.tasks
        if selector.submitted_s is not None:
            await self._charge(ID_LOOKS + steps)
            row = snapshot.jobs.get(job_id)
            return [row] if row is not None and selector.is_of(job_id, row.submit_at_us) else []
        if job_id in self._whole:
            await self._charge(ID_LOOKS)
            return []
        if wanted is not None:
            rows = snapshot.of_tasks(job_id, wanted)
            looks = len(rows) + min(len(wanted), snapshot.count_of_array(job_id))
            await self._charge(ID_LOOKS + looks * steps)
            return [row for row in rows if has_some(row, wanted)]
        rows = snapshot.of_array(job_id)
        await self._charge(ID_LOOKS + len(rows) * steps)
        if rows:
            if self._is_union:
                self._whole[job_id] = None
        elif job_id in snapshot.jobs:
            rows = _components(snapshot, snapshot.jobs[job_id], selector.het_offset)
        return rows

    async def _charge(self, looks: int) -> None:
        try:
            self._allowance.spend(looks // LOOKS_A_NAME)
        except BadValue as error:
            raise _invalid(error) from None
        self._looks += looks
        if self._looks >= SLICE_ROWS:
            self._looks = 0
            await self.pace.pause()


async def named_rows(snapshot: Snapshot, ids: Iterable[str], pace: ScanPace) -> list[JobRow]:
    """Returns the rows that ids select, each once; an unknown id adds none. Raises BadRequest."""
    found: dict[int, JobRow] = {}
    named = NamedRows(snapshot, is_union=True, pace=pace)
    for text in dict.fromkeys(ids):
        for row in await named.of(text):
            found[row.job_id] = row
    return list(found.values())


def _invalid(error: BadValue) -> BadRequest:
    return BadRequest(Code.INVALID_JOB_ID, f"Invalid job id specified: {error}")


def has_some(row: JobRow, wanted: TaskSet) -> bool:
    """Whether the row stands for some of the tasks."""
    if row.array_tasks is None:
        return row.array_task_id is not None and row.array_task_id in wanted
    return row.array_tasks.has_any(wanted)


def _components(snapshot: Snapshot, row: JobRow, offset: int | None) -> list[JobRow]:
    """Returns a plain job itself; of a heterogeneous one all components for the leader's id, else the selected one."""
    request = row.request
    if request.het_offset or not request.het_job_id:
        return [row] if offset is None else []
    ids = range(row.job_id, row.job_id + request.het_size) if offset is None else (row.job_id + offset,)
    rows = [snapshot.jobs[job_id] for job_id in ids if job_id in snapshot.jobs]
    return [one for one in rows if one.request.het_job_id == row.job_id]
