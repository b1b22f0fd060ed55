"""The planner's question and its answer: from columns to a `PlanInput`, and from a `PlanResult` to words of the core.

`present` shows the planner the live columns, for a pass that runs before anything changes; `snapshot` gives private
copies for a pass in a worker. `run_plan` is the worker's part: a function of the copies it got.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import _fastsched
from _fastsched import contract
from ctld.core.columns import copied
from ctld.core.events import PlanReady
from ctld.core.policy import MANY, BackfillPolicy
from ctld.core.reserve_view import view_of
from ctld.core.state import ClusterState

US = 1_000_000
#: By the planner's reason: does a row with it need to be told? The others start, or are merely behind others.
SAID = np.ones(256, np.bool_)
SAID[[contract.STARTED, contract.NOT_TESTED, contract.PRIORITY]] = False

#: Nobody ends a quick pass early. Never written to.
NO_STOP = np.zeros(1, np.uint8)

Placement = tuple[tuple[int, int, int, int], ...]  # (node index, cpus, tasks, MB) for each node
Rows = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Start(NamedTuple):
    """A job that may start now."""

    job_id: int
    partition: int  # index
    limit_s: int  # time that it is granted: less than asked for only with --time-min
    placement: Placement
    reservation: str = ""  # the one that it runs in
    position: int = 0  # of its row in the pass
    mask: int = -1  # of its row


class Forecast:
    """When and where each pending job is expected to start, as one pass saw it. Immutable; sorted when it is asked first.

    Of several rows of one job the earliest start counts; a job with no known start is not in it.
    """

    __slots__ = ("_many", "_names", "_result", "_rows_job", "_sorted", "made_at_us")

    def __init__(
        self, made_at_us: int, rows_job: Rows, result: contract.PlanResult, names: tuple[str, ...], many: Bools
    ) -> None:
        self._many = many  # by position: more than one copy waits
        self.made_at_us = made_at_us
        self._rows_job, self._result, self._names = rows_job, result, names
        self._sorted: tuple[Rows, Rows] | None = None  # (job ids, their positions in the result)

    def _index(self) -> tuple[Rows, Rows]:
        if self._sorted is None:
            result, ids = self._result, self._rows_job
            known = ((result.start_s >= 0) & (result.reason != contract.STARTED)).nonzero()[0]
            if len(known) > 1:
                known = known[np.lexsort((result.start_s[known], ids[known]))]
                known = known[np.concatenate(([True], np.diff(ids[known]) != 0))]
            self._sorted = ids[known], known
        return self._sorted

    def sort(self) -> None:
        """Do now what the first question would do: some 8 ms for 100,000 jobs, without the GIL for the most part."""
        self._index()

    def __len__(self) -> int:
        return len(self._index()[0])

    def note_holds(self, first: int, last: int, from_s: Rows) -> int:
        """Lower `from_s` (by node) to when the waiting rows at positions [first, last) are expected there.

        Returns the earliest start of one with copies whose nodes are not known; FOREVER if there is none.
        """
        result, span = self._result, slice(first, last)
        waits = (result.start_s[span] >= 0) & (result.reason[span] != contract.STARTED)
        cells = slice(int(result.plan_first[first]), int(result.plan_first[last]))
        each = np.diff(result.plan_first[first : last + 1])
        starts_s = np.repeat(np.where(waits, result.start_s[span], contract.FOREVER), each)
        np.minimum.at(from_s, result.plan_node[cells], starts_s)
        unknown = result.start_s[span][waits & self._many[span]]
        return int(unknown.min()) if len(unknown) else int(contract.FOREVER)

    def of(self, job_id: int) -> tuple[int, tuple[str, ...]] | None:
        """(start in seconds since 1970, nodes) of a job; None when the pass found none."""
        ids, positions = self._index()
        at = int(np.searchsorted(ids, job_id))
        if at >= len(ids) or ids[at] != job_id:
            return None
        row = int(positions[at])
        nodes = self._result.plan_node[self._result.plan_first[row] : self._result.plan_first[row + 1]]
        return int(self._result.start_s[row]), tuple(self._names[index] for index in nodes.tolist())


class Answer(NamedTuple):
    """A pass in words of the core."""

    starts: tuple[Start, ...]  # in order of decision
    reasons: tuple[tuple[int, int], ...]  # (job id, planner's reason) of rows that are not merely behind others
    victims: tuple[tuple[int, int], ...]  # (pending job id, running job id)
    forecast: Forecast


class Question(NamedTuple):
    """A `PlanInput` and what only the core can say about its numbers."""

    given: contract.PlanInput
    partition: npt.NDArray[np.int32]  # by row of given.jobs
    job_of: Rows  # by row of given.running
    node_names: tuple[str, ...]
    made_at_us: int
    reservations: tuple[str, ...] = ()  # by row of given.reservations


def limits(state: ClusterState, now_us: int, starts_max: int, policy: BackfillPolicy) -> contract.Limits:
    """The parameters of a pass at this time."""
    return contract.Limits(
        now_us // US, policy.resolution_s, policy.window_s, starts_max, MANY, policy.copies_max, policy.reserve_max,
        policy.estimate,
    )  # fmt: skip


def present(state: ClusterState, now_us: int, rows: Rows, starts_max: int) -> Question:
    """The live columns."""
    state.settle_shares()
    view = view_of(state, now_us)
    given = contract.PlanInput(
        state.node_columns.table, state.running.table, view.arrays, state.pending.table, rows,
        state.masks.array(), state.masks.group_first, state.masks.group_mask, state.masks.group_count,
        state.free_licenses, limits(state, now_us, starts_max, state.policy), NO_STOP,
    )  # fmt: skip
    return Question(given, state.pending.partition, state.running.job_of, state.node_names, now_us, view.names)


def snapshot(state: ClusterState, now_us: int, rows: Rows, starts_max: int) -> Question:
    """Private copies."""
    live = present(state, now_us, rows, starts_max)
    given = live.given._replace(
        nodes=copied(live.given.nodes), running=copied(live.given.running), jobs=copied(live.given.jobs),
        masks=live.given.masks.copy(), free_licenses=live.given.free_licenses.copy(), stop=np.zeros(1, np.uint8),
    )  # fmt: skip
    return live._replace(given=given, partition=live.partition.copy(), job_of=live.job_of.copy())


def ask(question: Question) -> Answer:
    """Run the planner and read its answer."""
    given = question.given
    result = _fastsched.plan(given)
    rows = given.rows
    ids = given.jobs.job[rows]
    starts = _starts(question, result, ids)
    kept = SAID[result.reason].nonzero()[0]
    reasons = tuple(zip(ids[kept].tolist(), result.reason[kept].tolist(), strict=True)) if len(kept) else ()
    victims: tuple[tuple[int, int], ...] = ()
    if len(result.victim_row):
        pairs = zip(ids[result.victim_row].tolist(), question.job_of[result.victim_run].tolist(), strict=True)
        victims = tuple(pairs)
    count = given.jobs.count[rows]
    if starts and np.maximum.reduce(count) > 1:
        count = count - np.bincount(result.job, minlength=len(rows))
    forecast = Forecast(question.made_at_us, ids, result, question.node_names, count > 1)
    return Answer(starts, reasons, victims, forecast)


def _starts(question: Question, result: contract.PlanResult, ids: Rows) -> tuple[Start, ...]:
    if not len(result.job):
        return ()
    cells = tuple(
        zip(result.node.tolist(), result.cpus.tolist(), result.tasks.tolist(), result.mem_mb.tolist(), strict=True)
    )
    if len(result.job) == 1:  # what most passes find
        at = result.job.item(0)
        row = question.given.rows.item(at)
        resv = question.given.jobs.resv.item(row)
        name = question.reservations[resv] if resv >= 0 else ""
        part, mask = question.partition.item(row), question.given.jobs.mask.item(row)
        return (Start(ids.item(at), part, result.limit_s.item(0), cells, name, at, mask),)
    first = result.node_first.tolist()
    rows = question.given.rows[result.job]
    parts = question.partition[rows].tolist()
    names = (*question.reservations, "")  # -1 is the last
    resvs = question.given.jobs.resv[rows].tolist()
    masks = question.given.jobs.mask[rows].tolist()
    return tuple(
        Start(job_id, part, limit_s, cells[first[i] : first[i + 1]], names[resv], at, mask)
        for i, (job_id, part, limit_s, resv, at, mask) in enumerate(
            zip(
                ids[result.job].tolist(), parts, result.limit_s.tolist(), resvs, result.job.tolist(), masks, strict=True
            )
        )
    )


def run_plan(revision: int, question: Question) -> PlanReady:
    """The worker's part. Releases the GIL while it plans."""
    answer = ask(question)
    return PlanReady(revision, answer.starts, answer.reasons, answer.victims, answer.forecast)
