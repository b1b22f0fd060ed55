"""Expected start times and nodes of pending jobs, as of one pass over the queue."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from _fastsched import contract

_Rows = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Forecast:
    """Expected start of each pending job, as one pass saw it: time and nodes. Immutable; sorted at its first use.

    Of several rows of one job the earliest start counts; a job with no known start is not in it.
    """

    __slots__ = ("_many", "_names", "_result", "_rows_job", "_sorted", "made_at_us")

    def __init__(
        self, made_at_us: int, rows_job: _Rows, result: contract.PlanResult, names: tuple[str, ...], many: _Bools | None
    ) -> None:
        self._many = many  # by position: more than one copy waits; None = of none
        self.made_at_us = made_at_us
        self._rows_job = rows_job
        self._result = result
        self._names = names
        self._sorted: tuple[_Rows, _Rows] | None = None  # (job ids, their positions in the result)

    def _index(self) -> tuple[_Rows, _Rows]:
        if self._sorted is None:
            result, ids = self._result, self._rows_job
            known = ((result.start_s >= 0) & (result.reason != contract.STARTED)).nonzero()[0]
            if len(known) > 1:
                known = known[np.lexsort((result.start_s[known], ids[known]))]
                known = known[np.concatenate(([True], np.diff(ids[known]) != 0))]
            self._sorted = ids[known], known
        return self._sorted

    def sort(self) -> None:
        """Sorts now instead of at the first use: some 8 ms for 100,000 jobs, without the GIL for the most part."""
        self._index()

    def __len__(self) -> int:
        return len(self._index()[0])

    def lower_expected_starts(self, first: int, last: int, from_s: _Rows) -> int:
        """Lowers `from_s` (by node) to when the waiting rows at positions [first, last) are expected there.

        Returns the earliest start of a row with copies, whose nodes are not planned; FOREVER if there is none.
        """
        result, span = self._result, slice(first, last)
        waits = (result.start_s[span] >= 0) & (result.reason[span] != contract.STARTED)
        cells = slice(int(result.plan_first[first]), int(result.plan_first[last]))
        each = np.diff(result.plan_first[first : last + 1])
        starts_s = np.repeat(np.where(waits, result.start_s[span], contract.FOREVER), each)
        np.minimum.at(from_s, result.plan_node[cells], starts_s)
        if self._many is None:
            return int(contract.FOREVER)
        unknown = result.start_s[span][waits & self._many[span]]
        return int(unknown.min()) if len(unknown) else int(contract.FOREVER)

    def starts_s(self, job_ids: Sequence[int]) -> list[int]:
        """Returns the start of each job in seconds since 1970; -1: the pass found none."""
        ids, positions = self._index()
        if not len(ids):
            return [-1] * len(job_ids)
        wanted = np.asarray(job_ids, dtype=np.int64)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        found: list[int] = np.where(ids[at] == wanted, self._result.start_s[positions[at]], -1).tolist()
        return found

    def of_many(self, job_ids: Sequence[int]) -> dict[int, tuple[int, tuple[str, ...]]]:
        """Returns the (start in seconds since 1970, nodes) of jobs, by id: of those for which the pass has found some."""
        ids, positions = self._index()
        if not len(ids):
            return {}
        wanted = np.asarray(job_ids, dtype=np.int64)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        known = (ids[at] == wanted).nonzero()[0]
        result = self._result
        names = self._names
        rows = positions[at[known]]
        firsts, ends = result.plan_first[rows].tolist(), result.plan_first[rows + 1].tolist()
        found = zip(wanted[known].tolist(), result.start_s[rows].tolist(), firsts, ends, strict=True)
        return {
            job_id: (start_s, tuple(names[index] for index in result.plan_node[first:end].tolist()))
            for job_id, start_s, first, end in found
        }

    def planned_nodes(self, is_waiting: Callable[[int], bool], rows_max: int) -> set[str]:
        """Returns the nodes on which the first `rows_max` rows that waited are to start later, by priority.

        `is_waiting`: whether a job, by its id, still waits: it may have ended since the pass.
        """
        result = self._result
        later = ((result.start_s >= 0) & (result.reason != contract.STARTED)).nonzero()[0][:rows_max]
        if not len(later):
            return set()
        first, end = int(later[0]), int(later[-1]) + 1
        counted = np.zeros(end - first, dtype=np.bool_)
        counted[later - first] = [is_waiting(job_id) for job_id in self._rows_job[later].tolist()]
        cells = np.repeat(counted, np.diff(result.plan_first[first : end + 1]))
        planned = np.zeros(len(self._names), dtype=np.bool_)
        planned[result.plan_node[int(result.plan_first[first]) : int(result.plan_first[end])][cells]] = True
        return {self._names[index] for index in planned.nonzero()[0].tolist()}
