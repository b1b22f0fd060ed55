"""The jobs that the core knows, by id: a `Job` each, or the row alone of a job that waits unchanged.

A long queue mostly waits. A `Job` has 51 attributes; a job that has not changed since its row was made is described by
that compact row, which the read snapshot keeps anyway (records/waiting_row.py). So the table keeps the row in place of the
`Job`. Code that asks for the job gets a `Job`, made from the row; it stays until others have displaced it (`rest`).
Decisions do not depend on which of both is kept.

Rules
    - A `Job` may be kept by the core during an event, not longer: afterwards another object may stand for the job.
    - `[]`, `get`, `values` and `items` give jobs. `look`, `records` and `last` give what is kept, for code that only reads.
    - Iteration is in the order of ids, which is the order in which jobs are added.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar, cast, overload

from ctld.core.records.job import Job, JobRow, job_row
from ctld.core.records.waiting_row import image_of, is_compact, is_image, waiting_job_from, with_reason
from penstock.values.states import JobState, Reason

#: Waiting jobs that are kept as `Job` although they have not changed: those that changed last, or were asked for last.
#: Most clusters have no more, and never make a job again.
AWAKE_MAX: Final = 2_000
#: Jobs of one call of `rest`: some 6 ms.
REST_MAX: Final = 2_000
#: With fewer jobs than this part of those that rest, lists of all are put together from pieces of these.
FEW: Final = 1 / 8

_T = TypeVar("_T")
_id_of = attrgetter("job_id")
_get, _has = dict.get, dict.__contains__  # `super()` takes as long as the rest of a call


class KnownJobs(dict[int, Job]):
    """A dict of the jobs that are kept as `Job`; its methods cover the others, too."""

    __slots__ = ("_awake", "_has_woken", "_is_in_order", "_resting", "awake_max")

    def __init__(self) -> None:
        super().__init__()
        self.awake_max = AWAKE_MAX
        self._resting: dict[int, JobRow] = {}  # compact rows
        self._is_in_order = True  # those are
        self._has_woken = False  # a job that was made is not at its place: the dict is not in order
        self._awake: dict[int, JobRow] = {}  # last rows of pending jobs that may rest later, the oldest first

    def __missing__(self, job_id: int) -> Job:
        row = self._resting.pop(job_id)
        self._has_woken = True
        job = self[job_id] = waiting_job_from(row)
        self._awake[job_id] = row
        return job

    @overload
    def get(self, key: int, default: None = None, /) -> Job | None: ...
    @overload
    def get(self, key: int, default: Job, /) -> Job: ...
    @overload
    def get(self, key: int, default: _T, /) -> Job | _T: ...
    def get(self, key: int, default: object = None, /) -> object:
        """Returns the job, or `default`."""
        found: Job | None = _get(self, key)
        if found is not None:
            return found
        return self[key] if key in self._resting else default

    def __contains__(self, key: object) -> bool:
        return _has(self, key) or key in self._resting

    def __len__(self) -> int:
        return super().__len__() + len(self._resting)

    def __iter__(self) -> Iterator[int]:
        return super().__iter__() if self._is_plain() else iter(sorted((*super().__iter__(), *self._resting)))

    def values(self) -> Collection[Job]:  # type: ignore[override]  # dict has a class of its own for it
        """Returns all jobs: makes those that rest."""
        return super().values() if self._is_plain() else [self[job_id] for job_id in self]

    def items(self) -> Collection[tuple[int, Job]]:  # type: ignore[override]  # as values
        """Returns all jobs with their ids: makes those that rest."""
        return super().items() if self._is_plain() else [(job_id, self[job_id]) for job_id in self]

    # ---- for code that only reads ------------------------------------------------------------------------------------

    def look(self, job_id: int) -> Job | None:
        """Returns the job to be read: perhaps a frozen row with the same attributes."""
        found: Job | None = _get(self, job_id)
        return cast(Job | None, self._resting.get(job_id)) if found is None else found

    def records(self) -> Collection[Job]:
        """Returns all jobs to be read, as `look`."""
        if self._is_plain():
            return super().values()
        if not self._is_in_order:
            self._resting = dict(sorted(self._resting.items()))
            self._is_in_order = True
        resting = cast(dict[int, Job], self._resting)
        if super().__len__() < len(resting) * FEW:
            return _merged(list(resting), list(resting.values()), sorted(super().items()))
        found = resting | dict(super().items())
        return [found[job_id] for job_id in sorted(found)]

    def others(self) -> list[Job]:
        """Returns the jobs that do not rest, in the order of ids: all that have begun, have ended or depend on others, and some
        that wait."""
        found = list(super().values())
        if self._has_woken:
            found.sort(key=_id_of)
        return found

    def last(self, most: int) -> Iterable[Job]:
        """Returns the last jobs to be read, the last one first."""
        return islice(reversed(list(self.records())), most)

    def _is_plain(self) -> bool:
        return not (self._resting or self._has_woken)

    # ---- rest ------------------------------------------------------------------------------------------------------

    def load(self, row: JobRow) -> None:
        """Adds a job that waits, by its compact row. A start does so in the order of ids."""
        self._resting[row.job_id] = row

    def own(self, job: Job) -> Job:
        """Returns the job to be changed, of what `look` or `records` returned."""
        return job if type(job) is Job else self[job.job_id]

    def give_reason(self, job: Job, reason: Reason, detail: str) -> None:
        """Changes the reason of a job that may rest, and continues to."""
        row = self._resting.get(job.job_id)
        if row is not None:
            self._resting[job.job_id] = with_reason(row, reason, detail)
        else:
            job = self.own(job)
            job.reason = reason
            job.reason_detail = detail

    def image(self, job_id: int) -> JobRow | None:
        """Returns the job's row; None if the job is not known."""
        job: Job | None = _get(self, job_id)
        if job is None:
            return self._resting.get(job_id)
        if job.state is not JobState.PENDING or job.array_tasks is not None:
            return job_row(job)
        row = image_of(job)
        if is_compact(row):
            self._awake[job_id] = row
        return row

    def rest(self) -> None:
        """Keeps rows instead of some jobs that wait, if there are many. No event may be in progress, nor any row due."""
        awake = self._awake
        if len(awake) <= 2 * self.awake_max:  # twice: many at once cost less
            return
        for job_id in list(islice(awake, min(len(awake) - self.awake_max, REST_MAX))):
            row = awake.pop(job_id)
            job: Job | None = _get(self, job_id)
            if job is None or job.state is not JobState.PENDING or job.steps:
                continue
            if not is_image(row, job):
                row = image_of(job)  # a priority changes without a row to be written
            if is_compact(row):
                self._is_in_order = self._is_in_order and job_id > next(reversed(self._resting), 0)
                self._resting[job_id] = row
                del self[job_id]


def _merged(ids: list[int], rows: list[Job], few: list[tuple[int, Job]]) -> list[Job]:
    """Returns the rows and a few other jobs in the order of their ids."""
    found: list[Job] = []
    begin = 0
    for job_id, job in few:
        end = bisect_left(ids, job_id, begin)
        found += rows[begin:end]
        found.append(job)
        begin = end
    return found + rows[begin:]
