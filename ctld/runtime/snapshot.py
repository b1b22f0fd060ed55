"""The committed view of the jobs: what squeue and its like may see. Advanced by each batch after its commit.

Rows are frozen, so a reader takes what it wants and goes on at its own pace. Nodes' and partitions' numbers are read
from the core between two steps; jobs never are, since a job that is seen must not vanish with a crash.

Answers are encoded once per row and kept, oldest out first; only what has been asked for costs memory. So are indexes
by user, state and partition: each is made by the first question that can use it, and kept up to date from then on.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from ctld.core.effects import Batch
from ctld.core.model import Job, JobRow, job_row
from ctld.core.step_model import StepRow, step_row
from penstock.values.states import END_STATES, JobState

#: Encoded answers that are kept: some 500 bytes each.
ENCODED_BYTES_MAX: Final = 24 * 1024 * 1024
#: Steps of one job; of more, those that ended first are left out. The database has them all.
STEPS_KEPT: Final = 1_000


Rows = dict[int, JobRow]


def _user_of(row: JobRow) -> tuple[int, ...]:
    return (row.user_id,)


def _state_of(row: JobRow) -> tuple[JobState, ...]:
    return (row.state,)


def _partitions_of(row: JobRow) -> tuple[str, ...]:
    return row.request.partitions if row.state is JobState.PENDING else (row.partition,)


class Index:
    """Rows by what they say of one thing. A row may be under several keys."""

    def __init__(self, keys_of: Callable[[JobRow], tuple[Any, ...]], rows: Iterable[JobRow]) -> None:
        self._keys_of = keys_of
        self._found: dict[Any, Rows] = {}
        for row in rows:
            self.move(None, row)

    def move(self, old: JobRow | None, new: JobRow | None) -> None:
        """`new` stands where `old` stood; None = nothing."""
        if old is not None:
            for key in self._keys_of(old):
                held = self._found.get(key, {})
                held.pop(old.job_id, None)  # a key may stand twice
                if not held:
                    self._found.pop(key, None)  # a dict that was large keeps its room
        if new is not None:
            for key in self._keys_of(new):
                self._found.setdefault(key, {})[new.job_id] = new

    def count(self, keys: Iterable[Any]) -> int:
        """How many rows these keys have; one under two of them counts twice."""
        return sum(len(self._found.get(key, ())) for key in keys)

    def rows(self, keys: Iterable[Any]) -> list[JobRow]:
        """The rows under any of the keys, each once, in no order."""
        chosen = [self._found[key] for key in dict.fromkeys(keys) if key in self._found]
        if len(chosen) == 1:
            return list(chosen[0].values())
        both: Rows = {}
        for held in chosen:
            both.update(held)
        return list(both.values())


#: What there may be an index of, by the name of the filter in JobFilter.
_INDEXED: Final[dict[str, Callable[[JobRow], tuple[Any, ...]]]] = {
    "uids": _user_of,
    "states": _state_of,
    "partitions": _partitions_of,
}


class Snapshot:
    """Jobs as committed: active ones, and those that ended less than MinJobAge ago."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.steps: dict[int, dict[int, StepRow]] = {}  # of srun, by job id and step id: of its present attempt
        self.arrays: dict[int, dict[int, None]] = {}  # array job id -> job ids of its records
        self.counts: dict[JobState, int] = dict.fromkeys(JobState, 0)  # tasks by state
        self.forecast: Any = None  # ctld.core.planning.Forecast of the last whole pass
        self.revision = 0  # rises with every batch
        self._indexes: dict[str, Index] = {}
        self._encoded: dict[int, tuple[JobRow, bytes]] = {}
        self._encoded_bytes = 0
        for job in jobs:
            self._put(job_row(job))
            for step in job.steps.values():
                if step.parts is not None:
                    self._put_step(step_row(step))

    def apply(self, batch: Batch) -> None:
        """Take a committed batch in."""
        self.revision += 1
        for row in batch.jobs:
            if row.state is not JobState.REQUEUED:  # an attempt that is over; the job's own row follows
                self._put(row)
        for step in batch.steps:
            if step.parts is not None:
                self._put_step(step)
        for job_id in batch.purged:
            self._drop(job_id)

    def index(self, name: str) -> Index:
        """Rows by the values of one filter: uids, states or partitions. The first time it looks at every row."""
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = Index(_INDEXED[name], self.jobs.values())
        return found

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
        """All records of an array, in the order of their job ids."""
        return [self.jobs[job_id] for job_id in sorted(self.arrays.get(array_job_id, ()))]

    def _put(self, row: JobRow) -> None:
        old = self.jobs.get(row.job_id)
        if old is not None:
            self.counts[old.state] -= _weight(old)
        elif row.array_job_id:
            self.arrays.setdefault(row.array_job_id, {})[row.job_id] = None
        self.jobs[row.job_id] = row
        self.counts[row.state] += _weight(row)
        for index in self._indexes.values():
            index.move(old, row)

    def _drop(self, job_id: int) -> None:
        row = self.jobs.pop(job_id, None)
        if row is None:
            return
        self.counts[row.state] -= _weight(row)
        for index in self._indexes.values():
            index.move(row, None)
        self._forget(job_id)
        self.steps.pop(job_id, None)
        members = self.arrays.get(row.array_job_id)
        if members is not None:
            members.pop(job_id, None)
            if not members:
                del self.arrays[row.array_job_id]

    def encoded(self, row: JobRow) -> bytes | None:
        """What was kept for exactly this row."""
        kept = self._encoded.get(row.job_id)
        return kept[1] if kept is not None and kept[0] is row else None

    def keep(self, row: JobRow, data: bytes) -> None:
        """Keep an encoded answer for as long as the row is the present one and there is room."""
        if self.jobs.get(row.job_id) is not row:
            return
        self._forget(row.job_id)
        self._encoded[row.job_id] = (row, data)
        self._encoded_bytes += len(data)
        while self._encoded_bytes > ENCODED_BYTES_MAX:
            self._forget(next(iter(self._encoded)))

    def _forget(self, job_id: int) -> None:
        kept = self._encoded.pop(job_id, None)
        if kept is not None:
            self._encoded_bytes -= len(kept[1])


def _weight(row: JobRow) -> int:
    return len(row.array_tasks) if row.array_tasks is not None else 1
