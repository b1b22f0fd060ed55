"""The committed view of the jobs, for squeue and similar queries. Advanced by each batch after its commit.

Rows are frozen, so readers use them at their own pace. Nodes' and partitions' values are read from the core between two
steps; jobs never are, since a visible job must not disappear by a crash.

A job that waits for its first start has a compact row (core/records/waiting_row.py): with a long queue, rows are much of
the controller's memory.

Answers are encoded once per row and cached, the oldest evicted first; so only requested rows use memory. Indexes by
user, state and partition are built by the first query that can use them, and updated from then on. Counts for metrics
(tally.py) are updated where the site has metrics.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final

from ctld.core.records.array import ids_with
from ctld.core.records.effects import Batch
from ctld.core.records.job import JobRow
from ctld.core.records.step import StepRow
from ctld.core.records.waiting_row import compact
from ctld.core.state.forecast import Forecast
from ctld.runtime.queuecounts import QueueCounts
from ctld.runtime.tally import JobTally, weight
from penstock.values.states import END_STATES, JobState
from penstock.values.taskset import TaskSet

#: Cached encoded answers: some 500 bytes each.
ENCODED_BYTES_MAX: Final = 24 * 1024 * 1024
#: Job ids of the last changes, for readers who have a list of before.
CHANGES_KEPT: Final = 4_096
#: Maximum number of steps of one job; beyond it those that ended first are dropped. The database has them all.
STEPS_KEPT: Final = 1_000


_Rows = dict[int, JobRow]


def _user_of(row: JobRow) -> tuple[int, ...]:
    return (row.user_id,)


def _state_of(row: JobRow) -> tuple[JobState, ...]:
    return (row.state,)


def _partitions_of(row: JobRow) -> tuple[str, ...]:
    return row.request.partitions if row.state is JobState.PENDING else (row.partition,)


class Index:
    """Rows by one property. A row may be under several keys."""

    def __init__(self, keys_of: Callable[[JobRow], tuple[object, ...]], rows: Iterable[JobRow]) -> None:
        self._keys_of = keys_of
        self._found: dict[object, _Rows] = {}
        for row in rows:
            self.move(None, row)

    def move(self, old: JobRow | None, new: JobRow | None) -> None:
        """Replaces `old` by `new`; None = nothing."""
        if old is not None:
            for key in self._keys_of(old):
                held = self._found.get(key, {})
                held.pop(old.job_id, None)  # a key may occur twice
                if not held:
                    self._found.pop(key, None)  # a dict that has shrunk keeps its memory
        if new is not None:
            for key in self._keys_of(new):
                self._found.setdefault(key, {})[new.job_id] = new

    def count(self, keys: Iterable[object]) -> int:
        """Returns the number of rows of these keys; one under two of them counts twice."""
        return sum(len(self._found.get(key, ())) for key in keys)

    def rows(self, keys: Iterable[object]) -> list[JobRow]:
        """Returns the rows under any of the keys, each once, in no order."""
        chosen = [self._found[key] for key in dict.fromkeys(keys) if key in self._found]
        if len(chosen) == 1:
            return list(chosen[0].values())
        both: _Rows = {}
        for held in chosen:
            both.update(held)
        return list(both.values())


#: Possible indexes, by the name of the filter in JobFilter.
_INDEXED: Final[dict[str, Callable[[JobRow], tuple[object, ...]]]] = {
    "uids": _user_of,
    "states": _state_of,
    "partitions": _partitions_of,
}


class ArrayRows:
    """The job ids of an array's rows."""

    __slots__ = ("members", "unsplit")

    def __init__(self) -> None:
        self.members: dict[int, int] = {}  # by task id, of single tasks
        self.unsplit: dict[int, None] = {}  # of several unsplit tasks

    def enter(self, row: JobRow) -> None:
        """Adds a row; it may have been one of several tasks and be one of a single task now."""
        if row.array_task_id is None:
            self.unsplit[row.job_id] = None
        else:
            self.members[row.array_task_id] = row.job_id
            self.unsplit.pop(row.job_id, None)

    def leave(self, row: JobRow) -> None:
        """Removes a row."""
        self.unsplit.pop(row.job_id, None)
        if row.array_task_id is not None and self.members.get(row.array_task_id) == row.job_id:
            del self.members[row.array_task_id]


class Snapshot:
    """Jobs as committed: active ones, and those that ended less than MinJobAge ago."""

    def __init__(self, jobs: Iterable[JobRow] = (), steps: Iterable[StepRow] = ()) -> None:
        """`jobs`, `steps`: the rows that a start has loaded."""
        self.jobs: dict[int, JobRow] = {}
        self.steps: dict[int, dict[int, StepRow]] = {}  # of srun, by job id and step id: of the present attempt
        self.arrays: dict[int, ArrayRows] = {}
        self.counts: dict[JobState, int] = dict.fromkeys(JobState, 0)  # tasks by state
        self._records: dict[int, int] = dict.fromkeys(JobState, 0)  # rows by state
        self.forecast: Forecast | None = None  # ctld.core.queue.planning.Forecast of the last whole pass
        self.revision = 0  # incremented with every batch
        self._changes: deque[tuple[int, tuple[int, ...]]] = deque()  # job ids of the last batches, by revision
        self._changes_count = 0
        self._changes_from = 0  # all changes after this revision are kept
        self.tally: JobTally | None = None
        self.queue: QueueCounts | None = None  # made and filled by the first question
        self._indexes: dict[str, Index] = {}
        self._encoded: OrderedDict[int, tuple[JobRow, bytes]] = OrderedDict()
        self._encoded_bytes = 0
        for row in jobs:
            self._put(compact(row))
        for step in steps:
            if step.parts is not None:
                self._put_step(step)

    def apply(self, batch: Batch) -> None:
        """Applies a committed batch."""
        self.revision += 1
        self._note_changes((*(row.job_id for row in batch.jobs), *batch.purged))
        for row in batch.jobs:
            if row.state is not JobState.REQUEUED:  # an ended attempt; the job's own row follows
                self._put(compact(row))
        for step in batch.steps:
            if step.parts is not None:
                self._put_step(step)
        for job_id in batch.purged:
            self._drop(job_id)

    def _note_changes(self, job_ids: tuple[int, ...]) -> None:
        if job_ids:
            self._changes.append((self.revision, job_ids))
            self._changes_count += len(job_ids)
        while self._changes_count > CHANGES_KEPT:
            self._changes_from, oldest = self._changes.popleft()
            self._changes_count -= len(oldest)

    def changed_since(self, revision: int) -> set[int] | None:
        """Returns the ids of the jobs that have changed, come or gone since a revision; None: it is not known any more."""
        if revision < self._changes_from:
            return None
        found: set[int] = set()
        for at, job_ids in reversed(self._changes):
            if at <= revision:
                break
            found.update(job_ids)
        return found

    def count_for_metrics(self) -> JobTally:
        """Counts every row, and from now on every change."""
        tally = JobTally()
        for row in self.jobs.values():
            tally.add(row)
        self.tally = tally
        return tally

    def index(self, name: str) -> Index:
        """Returns the index of rows by one filter: uids, states or partitions. Its first use reads every row."""
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = Index(_INDEXED[name], self.jobs.values())
        return found

    def are_most(self, states: Iterable[int]) -> bool:
        """Whether at least half of the rows have one of these states. Then reading all takes as long as an index, without
        its memory: 5 MB for 100,000 rows."""
        return 2 * sum(self._records.get(state, 0) for state in set(states)) >= len(self.jobs)

    def _put_step(self, row: StepRow) -> None:
        steps = self.steps.setdefault(row.job_id, {})
        if steps and next(iter(steps.values())).attempt != row.attempt:
            steps.clear()
        steps[row.step_id] = row
        if len(steps) > STEPS_KEPT:
            oldest = next((i for i, step in steps.items() if step.state in END_STATES), None)
            if oldest is not None:
                del steps[oldest]

    def of_array(self, array_job_id: int) -> list[JobRow]:
        """Returns all records of an array, in the order of their job ids."""
        found = self.arrays.get(array_job_id)
        if found is None:
            return []
        return [self.jobs[job_id] for job_id in sorted([*found.unsplit, *found.members.values()])]

    def count_of_array(self, array_job_id: int) -> int:
        """Returns the number of an array's records."""
        found = self.arrays.get(array_job_id)
        return len(found.members) + len(found.unsplit) if found is not None else 0

    def count_unsplit(self, array_job_id: int) -> int:
        """Returns the number of an array's records of several unsplit tasks."""
        found = self.arrays.get(array_job_id)
        return len(found.unsplit) if found is not None else 0

    def of_tasks(self, array_job_id: int, wanted: TaskSet) -> list[JobRow]:
        """Returns the records of an array that may have some of the tasks, in the order of their job ids."""
        found = self.arrays.get(array_job_id)
        if found is None:
            return []
        return [self.jobs[job_id] for job_id in ids_with(found.members, found.unsplit, wanted)]

    def _put(self, row: JobRow) -> None:
        old = self.jobs.get(row.job_id)
        if old is not None:
            self.counts[old.state] -= weight(old)
            self._records[old.state] -= 1
        if row.array_job_id and (old is None or old.array_task_id != row.array_task_id):
            if row.array_job_id not in self.arrays:
                self.arrays[row.array_job_id] = ArrayRows()
            self.arrays[row.array_job_id].enter(row)
        self.jobs[row.job_id] = row
        self.counts[row.state] += weight(row)
        self._records[row.state] += 1
        for counts in (self.tally, self.queue):
            if counts is not None:
                counts.move(old, row)
        for index in self._indexes.values():
            index.move(old, row)

    def _drop(self, job_id: int) -> None:
        row = self.jobs.pop(job_id, None)
        if row is None:
            return
        self.counts[row.state] -= weight(row)
        self._records[row.state] -= 1
        for counts in (self.tally, self.queue):
            if counts is not None:
                counts.move(row, None)
        for index in self._indexes.values():
            index.move(row, None)
        self._forget(job_id)
        self.steps.pop(job_id, None)
        array = self.arrays.get(row.array_job_id)
        if array is not None:
            array.leave(row)
            if not array.members and not array.unsplit:
                del self.arrays[row.array_job_id]

    def encoded(self, row: JobRow) -> bytes | None:
        """Returns the cached answer for exactly this row."""
        kept = self._encoded.get(row.job_id)
        return kept[1] if kept is not None and kept[0] is row else None

    def keep(self, row: JobRow, data: bytes) -> None:
        """Caches an encoded answer while the row is the present one and the cache has room."""
        if self.jobs.get(row.job_id) is not row:
            return
        self._forget(row.job_id)
        self._encoded[row.job_id] = (row, data)
        self._encoded_bytes += len(data)
        while self._encoded_bytes > ENCODED_BYTES_MAX:
            _, (_, oldest) = self._encoded.popitem(last=False)
            self._encoded_bytes -= len(oldest)

    def _forget(self, job_id: int) -> None:
        kept = self._encoded.pop(job_id, None)
        if kept is not None:
            self._encoded_bytes -= len(kept[1])
